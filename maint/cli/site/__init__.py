"""`maint site` and `maint doctor`: the state of the configured sites, and what stops their backups or restores."""
