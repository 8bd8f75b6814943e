"""Steps that bring a deployment back and prove it."""
