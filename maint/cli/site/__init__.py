"""`maint site` and `maint doctor`: how the configured sites fare, and what stands in the way."""
