"""`maint help`: topics, the manual page, completion, output schemas."""
