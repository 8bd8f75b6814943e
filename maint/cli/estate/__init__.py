"""A command for several sites: which are meant, a process each, and one summary."""
