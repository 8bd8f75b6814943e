"""What one action under way is given: its memory over all lives of its run, and what the operator said of it."""

from collections.abc import Mapping
from typing import Protocol

from maint.model.json import Json


class Work(Protocol):
    """One action under way: what it wrote down in earlier lives, and a way to write down more."""

    @property
    def run(self) -> str:
        """The id of the run."""

    @property
    def resumed(self) -> bool:
        """Whether an earlier life of this run had already begun this action."""

    @property
    def timeout(self) -> float | None:
        """Seconds that the playbook allows for this action."""

    @property
    def told(self) -> Mapping[str, Json]:
        """What the operator said, when the run was taken up, of what this action belongs to."""

    def note(self, key: str, value: Json) -> None:
        """Write down, on disk before this returns; never a secret."""

    def noted(self, key: str) -> Json:
        """Return what was last written down under a key, None where nothing was."""
