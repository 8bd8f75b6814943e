"""Ways of telling."""
