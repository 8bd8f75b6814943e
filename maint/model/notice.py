"""A notice: that something began, ended well or badly, went stale, or recovered."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from maint.model.json import Json

# What people call the playbooks of a schedule; any other playbook is called by its own name.
_VERBS = {"export": "backup create", "export-unredacted": "backup create", "prune": "backup prune"}


def verb_of(playbook: str) -> str:
    """Return what people call a playbook's run."""
    return _VERBS.get(playbook, playbook)


class Kind(StrEnum):
    """What a notice is about."""

    START = "start"
    SUCCESS = "success"
    FAILURE = "failure"
    STALE = "stale"  # the newest verified restorable backup is older than it may be
    RECOVERED = "recovered"  # the first success after a failure of the same, or a backup that is fresh again
    STOPPED = "stopped"  # somebody at a terminal stopped it: for those alone who were told the start
    MESSAGE = "message"  # of a step in a playbook
    TEST = "test"


class Notice(msgspec.Struct, frozen=True):
    """One thing to tell, the same for every way of telling; without secrets."""

    kind: Kind
    site: str
    verb: str  # what it is about, such as `backup create`, or a playbook's name
    words: str  # what happened, in one sentence
    at: str  # when, ISO 8601
    detail: Sequence[str] = ()
    hint: str = ""
    run: str = ""  # empty for what keeps no journal
    exit: int = 0
    seconds: float | None = None  # how long it took
    by: str = ""  # as user@host
    version: str = ""  # of maint

    @property
    def title(self) -> str:
        """The notice in one line."""
        return f"maint {self.site}: {self.words}"

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        rest = {name: getattr(self, name) for name in self.__struct_fields__ if name not in ("kind", "detail")}
        return {"schema": "maint/1", "event": self.kind.value, **rest, "detail": list(self.detail)}


class Told(msgspec.Struct, frozen=True):
    """What became of telling one: the name of the notice in the config, and why it failed ("": it arrived)."""

    name: str
    problem: str = ""
    hint: str = ""  # what helps
