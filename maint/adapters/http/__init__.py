"""HTTP for the management API and the jobs API: one request, sent once, answered within limits."""
