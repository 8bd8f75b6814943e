"""`maint backup`: snapshots from the command line."""
