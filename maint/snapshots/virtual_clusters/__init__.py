"""The virtual clusters in a snapshot: captured, stored as shared objects, verified, compared."""
