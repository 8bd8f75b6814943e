"""What one action under way is given: what it wrote down in all attempts of its run, and what the operator answered."""

from collections.abc import Mapping
from typing import Protocol

from maint.model.json import Json


class Work(Protocol):
    """One action under way: what it wrote down in earlier attempts, and a way to write down more."""

    @property
    def run(self) -> str:
        """The id of the run."""

    @property
    def resumed(self) -> bool:
        """Whether an earlier attempt of this run had already begun this action."""

    @property
    def timeout(self) -> float | None:
        """Seconds that the playbook allows for this action."""

    @property
    def answers(self) -> Mapping[str, Json]:
        """What the operator answered, when the run was taken up, for the branch of this action."""

    def note(self, key: str, value: Json) -> None:
        """Write down, on disk before this returns; never a secret."""

    def noted(self, key: str) -> Json:
        """Return what was last written down under a key, None where nothing was."""
