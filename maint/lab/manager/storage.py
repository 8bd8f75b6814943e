"""Keep a world on disk, so that it survives and can be looked at."""

import json
from pathlib import Path

from maint.lab.files import write_whole
from maint.lab.manager import jackson
from maint.lab.manager.document import read
from maint.lab.manager.world import World
from maint.lab.switches import Switches


class Storage:
    """The folder of a world: `deployment.json` as the server would print it, `state.json` for the rest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._written = -1

    def exists(self) -> bool:
        """Return whether a world was saved here."""
        return (self.folder / "state.json").exists()

    def save(self, world: World) -> None:
        """Write what changed; each file whole or not at all."""
        if self._written != world.edits:
            write_whole(self.folder / "deployment.json", jackson.dumps(world.deployment).encode(), 0o600)
            self._written = world.edits
        write_whole(self.folder / "state.json", json.dumps(world.to_json(), indent=1).encode(), 0o600)

    def load(self) -> World:
        """Return the world that was saved."""
        state = json.loads((self.folder / "state.json").read_bytes())
        world = World(read(self.folder / "deployment.json"), Switches(state["switches"]))
        world.take_json(state)
        return world
