"""How a site fares, for those outside: outcomes, metrics, notices."""
