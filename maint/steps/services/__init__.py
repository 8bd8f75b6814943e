"""Steps on services, roles and settings of the manager."""
