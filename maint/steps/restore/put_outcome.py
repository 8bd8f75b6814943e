"""Decide by reading whether a deployment that was sent has been applied (M8)."""

from collections.abc import Generator, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from maint.deployment.compare import Comparison, compare
from maint.deployment.normalize import Tree
from maint.errors import CannotReach, LoginRefused, Transient, WorkFailed
from maint.model.formatting import show_duration
from maint.model.json import Json
from maint.ports import Sight, Site, Work
from maint.restore.preview import tree_of_server
from maint.steps.manager.commands import polls
from maint.steps.manager.server import invocations


class PutOutcome(StrEnum):
    """What became of a deployment that was sent."""

    APPLIED = "applied"
    NEVER = "can no longer arrive"
    OPEN = "may still arrive"


class Evidence(Protocol):
    """What tells, by reading, whether a deployment has been applied."""

    def before(self, sight: Sight) -> dict[str, Json]:
        """Return what must be known before anything is sent, so that a later look can tell."""

    def there(self, sight: Sight, before: dict[str, Json]) -> bool:
        """Look; whether the deployment is in force."""


class Seen(msgspec.Struct, frozen=True):
    """What a read of the present deployment shows, held against the one that is wanted."""

    comparison: Comparison
    bootstrap: bool

    @property
    def same(self) -> bool:
        """Whether nothing comparable differs."""
        return self.comparison.same

    @property
    def proves(self) -> bool:
        """Whether it proves that the present deployment is the wanted one, secrets and all."""
        return self.same and not self.comparison.not_comparable and not self.bootstrap


def look(sight: Sight, wanted: dict[str, Tree]) -> Seen:
    """Read the present deployment and hold it against the wanted tree."""
    sight.manager.forget_login()
    account = sight.manager.log_in()
    return Seen(compare(wanted, tree_of_server(sight)), account.bootstrap)


class Replaced:
    """Evidence that a whole deployment replaced what was there, atomically: all or nothing (M8)."""

    def __init__(self, wanted: dict[str, Tree]) -> None:
        self.wanted = wanted

    def before(self, sight: Sight) -> dict[str, Json]:
        """Return how the present deployment differs from the wanted one."""
        seen = look(sight, self.wanted)
        return {"same": seen.same, "bootstrap": seen.bootstrap, "differences": len(seen.comparison.differences)}

    def there(self, sight: Sight, before: dict[str, Json]) -> bool:
        """Look whether it is in force."""
        seen = look(sight, self.wanted)
        if seen.bootstrap:
            return False
        if before["bootstrap"] or seen.proves:
            return True
        had, has = before["differences"], len(seen.comparison.differences)
        return isinstance(had, int) and has < had and 2 * has <= had


class Added:
    """Evidence that clusters were added: none of them was there before, and the call is atomic."""

    def __init__(self, clusters: Sequence[str]) -> None:
        self._clusters = frozenset(clusters)

    def before(self, sight: Sight) -> dict[str, Json]:
        """Return nothing: the sender has made sure that they are not there."""
        return {}

    def there(self, sight: Sight, before: dict[str, Json]) -> bool:
        """Look whether the clusters are there."""
        sight.manager.forget_login()
        return self._clusters <= {cluster.name for cluster in sight.manager.clusters()}


def baseline(site: Site, evidence: Evidence) -> dict[str, Json]:
    """Return what must be known about the server before anything is sent, so that a later look can tell."""
    return {**evidence.before(site), "servers": invocations(site) if site.settings.ssh else {}}


def put_outcome(site: Site, work: Work, evidence: Evidence) -> PutOutcome:
    """Return what became of the deployment that this action sent, in this attempt or an earlier one.

    Args:
        work: holds `before` (see `baseline`), `refused` (the server's own no) and `restarted since`.
    """
    before = work.noted("before")
    assert isinstance(before, dict)  # written before anything was sent
    try:
        there = evidence.there(site, before)
    except LoginRefused:
        raise
    except (CannotReach, Transient):
        return PutOutcome.OPEN
    if there:
        return PutOutcome.APPLIED
    # A server may commit at the closing brace, and goes on when its client is gone: time alone proves nothing.
    over = any(work.noted(key) is not None for key in ("refused", "restarted since"))
    return PutOutcome.NEVER if over or _restarted(site, before) else PutOutcome.OPEN


def _restarted(site: Site, before: dict[str, Json]) -> bool:
    # What the server had not committed by a restart is rolled back.
    known = before["servers"]
    if not isinstance(known, dict) or not known or not site.settings.ssh:
        return False
    try:
        now = invocations(site)
    except (CannotReach, WorkFailed):
        return False
    return all(words and words != known.get(host) for host, words in now.items())


def await_outcome(site: Site, work: Work, evidence: Evidence, patience: float) -> Generator[str, None, PutOutcome]:
    """Look until it is settled, or until patience (seconds) is at its end: then it may still arrive."""
    begun = site.clock.monotonic()
    for pause in polls():
        decided = put_outcome(site, work, evidence)
        if decided is not PutOutcome.OPEN or site.clock.monotonic() - begun > patience:
            return decided
        yield (
            "looking whether the deployment was applied; it may still be under way, "
            f"and is looked for {show_duration(patience)} at most"
        )
        site.clock.sleep(pause)
    raise AssertionError("polling never ends")
