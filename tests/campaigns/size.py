"""How much of a campaign is run: a sample, or with MAINT_CAMPAIGN=all in the environment everything."""

import os

FULL = bool(os.environ.get("MAINT_CAMPAIGN"))


def size(few: int, full: int) -> int:
    """Return how many tries, or how large a step."""
    return full if FULL else few
