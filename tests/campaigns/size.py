"""How much of a campaign is run: a sample, or with MAINT_CAMPAIGN=all in the environment everything.

MAINT_CAMPAIGN_TRIES bounds what is tried at random, and MAINT_CAMPAIGN_SEED chooses other random tries.
"""

import os

FULL = bool(os.environ.get("MAINT_CAMPAIGN"))
SEED = int(os.environ.get("MAINT_CAMPAIGN_SEED", "20261122"))


def size(few: int, full: int) -> int:
    """Return how many, or how large a step."""
    return full if FULL else few


def tries(few: int, full: int) -> int:
    """Return how often something is tried at random."""
    return int(os.environ.get("MAINT_CAMPAIGN_TRIES") or size(few, full))
