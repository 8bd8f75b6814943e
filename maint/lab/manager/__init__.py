"""The simulated manager: its API, its deployment, its commands; a restore drill needs no more than this."""
