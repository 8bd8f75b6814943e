"""What the tests of deployments share with those of snapshots."""

from tests.snapshots.conftest import deployment, password_of, place, place_of, recording, run, spoiled

__all__ = ["deployment", "password_of", "place", "place_of", "recording", "run", "spoiled"]
