"""Places for snapshots."""
