"""Prove before destroy, told from the outside."""
