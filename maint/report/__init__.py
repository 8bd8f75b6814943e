"""What happened, for people and for machines."""
