"""Decide by reading whether a deployment that was sent has been applied (contract section 8, ladder item 7)."""

from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from maint.backup.compare import Comparison, compare
from maint.backup.fingerprint import site_fingerprint
from maint.backup.flatten import Tree, flatten
from maint.backup.parts import open_deployment
from maint.backup.read import blocks
from maint.errors import CannotReach, LoginRefused, Transient, WorkFailed
from maint.model.json import Json
from maint.model.snapshot import Snapshot
from maint.ports import Sight, Site, Work
from maint.steps.commands import pauses
from maint.steps.server import invocations


class Fate(StrEnum):
    """What became of a deployment that was sent."""

    APPLIED = "applied"
    NEVER = "can no longer arrive"
    OPEN = "may still arrive"


@dataclass(frozen=True, slots=True)
class Seen:
    """What a read of the present deployment shows, held against the snapshot."""

    comparison: Comparison
    bootstrap: bool

    @property
    def same(self) -> bool:
        """Whether nothing comparable differs."""
        return self.comparison.same

    @property
    def proves(self) -> bool:
        """Whether it proves that the present deployment is the snapshot's, secrets and all."""
        return self.same and not self.comparison.not_comparable and not self.bootstrap


def tree_of_snapshot(sight: Sight, snapshot: Snapshot) -> dict[str, Tree]:
    """Return the snapshot's deployment as a tree; secrets are fingerprints."""
    with open_deployment(sight, snapshot) as stream:
        return flatten(blocks(stream.read), site_fingerprint(sight))


def tree_of_server(sight: Sight) -> dict[str, Tree]:
    """Return the present deployment as a tree; secrets are fingerprints."""
    with sight.manager.deployment() as answer:
        return flatten(blocks(answer.read), site_fingerprint(sight))


def look(sight: Sight, wanted: dict[str, Tree]) -> Seen:
    """Read the present deployment and hold it against the snapshot's tree."""
    sight.manager.forget_login()
    account = sight.manager.log_in()
    return Seen(compare(wanted, tree_of_server(sight)), account.bootstrap)


def baseline(site: Site, wanted: dict[str, Tree]) -> dict[str, Json]:
    """Return what must be known about the server before anything is sent, so that a later look can tell."""
    seen = look(site, wanted)
    return {
        "same": seen.same,
        "bootstrap": seen.bootstrap,
        "differences": len(seen.comparison.differences),
        "servers": invocations(site) if site.settings.ssh else {},
    }


def fate(site: Site, work: Work, wanted: dict[str, Tree], limit: float) -> Fate:
    """Say what became of the deployment that this action sent, in this life of the run or in an earlier one.

    Args:
        site: the site.
        work: holds `before` (see `baseline`), `sent` (when sending began), `last block` (just before the end left)
            and `refused` (the server's own no).
        wanted: the snapshot's tree.
        limit: seconds that the call was given.
    """
    before = work.noted("before")
    assert isinstance(before, dict)  # written before anything was sent
    try:
        seen = look(site, wanted)
    except LoginRefused:
        raise
    except (CannotReach, Transient):
        seen = None
    if seen is not None and _tells(seen, before):
        return Fate.APPLIED
    ended = work.noted("last block") is None or work.noted("refused") is not None
    if ended or _restarted(site, before) or _over(site, work, limit):
        return Fate.NEVER if seen is not None else Fate.OPEN
    return Fate.OPEN


def _tells(seen: Seen, before: dict[str, Json]) -> bool:
    """Whether a look proves the deployment applied.

    The call is atomic (contract section 8): the state is the one from before or the snapshot's. Where only the
    bootstrap account was let in before, the snapshot's account tells; else the differences that went.
    """
    if seen.bootstrap:
        return False
    if before["bootstrap"] or seen.proves:
        return True
    had, has = before["differences"], len(seen.comparison.differences)
    return isinstance(had, int) and has < had and 2 * has <= had


def _restarted(site: Site, before: dict[str, Json]) -> bool:
    """Whether the server was restarted since: what it had not committed by then is rolled back."""
    known = before["servers"]
    if not isinstance(known, dict) or not known or not site.settings.ssh:
        return False
    try:
        now = invocations(site)
    except (CannotReach, WorkFailed):
        return False
    return all(words and words != known.get(host) for host, words in now.items())


def _over(site: Site, work: Work, limit: float) -> bool:
    sent = datetime.fromisoformat(str(work.noted("sent")))
    return site.clock.now() > sent + timedelta(seconds=limit)


def await_fate(
    site: Site, work: Work, wanted: dict[str, Tree], limit: float, patience: float
) -> Generator[str, None, Fate]:
    """Look until it is settled, or until patience is at its end: then it may still arrive.

    Args:
        site: the site.
        work: see `fate`.
        wanted: the snapshot's tree.
        limit: seconds that the call was given.
        patience: seconds to look.
    """
    begun = site.clock.monotonic()
    for pause in pauses():
        decided = fate(site, work, wanted, limit)
        if decided is not Fate.OPEN or site.clock.monotonic() - begun > patience:
            return decided
        yield "looking whether the deployment was applied; it may still be under way"
        site.clock.sleep(pause)
    raise AssertionError("the pauses never end")
