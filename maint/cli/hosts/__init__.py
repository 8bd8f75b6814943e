"""`maint host`: list hosts, check them, trust their keys."""
