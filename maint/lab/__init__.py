"""A simulated manager with its hosts, on loopback."""
