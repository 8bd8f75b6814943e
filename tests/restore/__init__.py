"""What is restored, and onto what."""
