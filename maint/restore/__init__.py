"""Decide whether and in what order a snapshot can be restored."""
