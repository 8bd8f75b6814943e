"""What a snapshot is: captured, sealed, verified, listed, kept or pruned, replicated, healed."""
