"""An operator who types commands at a scripted virtual cluster."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.adapters.virtual_clusters.server import Api
from tests.forked import Command
from tests.steps.operator import Said, environment, maint


@dataclass
class VcOperator:
    """Types `maint vc …` in this process, or in one of its own."""

    api: Api
    folder: Path

    @property
    def config(self) -> str:
        """The config file."""
        return str(self.folder / "config.yaml")

    @property
    def state(self) -> Path:
        """The site's state folder."""
        return self.folder / "state" / "prod"

    def __call__(self, *words: str, given: str | None = None, **env: str) -> Said:
        """Run `maint vc WORDS`."""
        return self.maint("vc", *words, given=given, **env)

    def maint(self, *words: str, given: str | None = None, **env: str) -> Said:
        """Run `maint WORDS`."""
        return maint(*words, given=given, **{"MAINT_CONFIG": str(self.config), **env})

    def fork(self, *words: str) -> Command:
        """Begin `maint WORDS` in a process of its own."""
        return Command(words, environment(MAINT_CONFIG=str(self.config)), folder=os.fspath(self.folder))

    @property
    def sealed(self) -> list[str]:
        """The names of what is kept for undoing."""
        return sorted(path.name for path in (self.state / "undo").glob("*"))


def written(folder: Path, name: str, content: Any = b"print(1)\n") -> str:
    """Write a local file and return its path."""
    path = folder / name
    path.write_bytes(content)
    return str(path)
