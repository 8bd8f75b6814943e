"""The ports, each on the library that serves it."""
