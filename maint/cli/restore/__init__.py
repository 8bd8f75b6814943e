"""`maint restore`: plan a restore and run it."""
