"""Ratios of what maint does to what a user would do instead; run by hand."""
