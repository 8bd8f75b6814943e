"""Real SSH on loopback in front of the lab's hosts."""
