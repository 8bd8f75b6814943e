"""The management API over requests."""
