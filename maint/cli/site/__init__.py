"""`maint site`, `maint config` and `maint doctor`: what is configured, and whether it works."""
