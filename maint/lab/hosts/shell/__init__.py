"""A small POSIX shell that can reach nothing but the file tree of a lab host."""
