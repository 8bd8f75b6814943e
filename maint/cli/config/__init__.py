"""`maint config`: show a configuration, or make the first one."""
