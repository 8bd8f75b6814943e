"""The management API over requests; `client.ManagerClient` is the way in."""
