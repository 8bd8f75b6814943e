"""Steps that capture, require, hold, prune and replicate snapshots."""
