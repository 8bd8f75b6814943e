"""The management API; `client.ManagerClient` is the way in."""
