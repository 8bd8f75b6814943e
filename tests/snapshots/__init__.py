"""Snapshots and state of other versions."""
