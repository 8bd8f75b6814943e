"""Send a deployment, at most once by a run, and decide by reading whether it has been applied (M8)."""

from collections.abc import Generator, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Protocol

import msgspec

from maint.deployment.compare import Comparison, compare
from maint.deployment.normalize import Tree
from maint.errors import AnswerMissing, CannotReach, Invalid, LoginRefused, NotUp, Refused, Transient, WorkFailed
from maint.model.formatting import show_duration, show_size, show_time
from maint.model.json import Json
from maint.ports import Body, Sight, Site, Work
from maint.restore.payload import Outgoing
from maint.restore.preview import tree_of_server
from maint.retry import looks
from maint.snapshots.parts import metered
from maint.steps.hosts.selection import require_ssh
from maint.steps.manager.commands import polls
from maint.steps.manager.java_options import UNIT
from maint.steps.manager.server import START_LIMIT, invocations, restart_and_wait


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
    except (CannotReach, WorkFailed, Invalid):
        return False
    return all(words and words != known.get(host) for host, words in now.items())


def await_outcome(site: Site, work: Work, evidence: Evidence, patience: float) -> Generator[str, None, PutOutcome]:
    """Look until it is settled, or until patience (seconds) is at its end: then it may still arrive."""
    for _ in looks(site.clock, patience, polls()):
        decided = put_outcome(site, work, evidence)
        if decided is not PutOutcome.OPEN:
            return decided
        yield (
            "looking whether the deployment was applied; it may still be under way, "
            f"and is looked for {show_duration(patience)} at most"
        )
    return PutOutcome.OPEN


LIMIT = 3600.0  # seconds; the call has no progress and big sites take long (M14 U16)
ANSWER = "applied"  # what `maint playbook resume --set` answers where nobody else can tell
_SETTLING = "restart to settle"  # the note about the restart after which nothing sent before it can arrive
_LICENSED = "restart for the licence"  # the note about the restart after which a licence counts
PATIENCE = 30.0  # seconds to look at least for a deployment whose answer is missing
_STANDING = {PutOutcome.NEVER: "was not applied", PutOutcome.OPEN: "was not applied so far"}


def settled(site: Site, work: Work, out: Outgoing, evidence: Evidence) -> Generator[str, None, PutOutcome]:
    """Return what became of what an earlier attempt sent, or refuse: without a restart it may still arrive."""
    yield "an earlier attempt has sent the deployment; looking what became of it"
    decided = yield from await_outcome(site, work, evidence, _patience(out))
    if decided is not PutOutcome.OPEN:
        return decided
    # What was answered about an earlier sending says nothing about this one.
    answer = work.answers.get(ANSWER) if work.noted("asked") else None
    if isinstance(answer, bool):
        return PutOutcome.APPLIED if answer else PutOutcome.NEVER
    yield "it is not there yet and might still arrive; a restart of the server rolls back what is under way"
    try:
        require_ssh(site)
        yield from restart_and_wait(site, work, START_LIMIT, key=_SETTLING)
    except NotUp:  # it was restarted
        raise
    except (CannotReach, WorkFailed, Invalid, Refused) as failure:
        work.note("asked", True)
        failure.needs = (ANSWER,)
        failure.hint = f"mend that, or restart {UNIT} by hand and look whether what was sent is there"
        raise
    work.note("restarted since", True)
    return (yield from await_outcome(site, work, evidence, _patience(out)))


def send(site: Site, work: Work, out: Outgoing, evidence: Evidence, limit: float) -> Generator[str, None, str]:
    """Send a deployment and return how it was found to be in force; when the answer is missing, decide by reading."""
    work.note("before", baseline(site, evidence))
    for key in ("refused", _SETTLING, "restarted since", "asked", _LICENSED):  # they were about what was sent before
        work.note(key, None)
    work.note("sent", show_time(site.clock.now()))
    yield f"sending {show_size(out.length)} of configuration"
    try:
        _put(site, out, limit)
    except AnswerMissing as error:
        yield f"{error.message}; looking whether it was applied"
        decided = yield from await_outcome(site, work, evidence, _patience(out))
        if decided is not PutOutcome.APPLIED:
            raise WorkFailed(
                f"the deployment was sent, its answer never came, and it {_STANDING[decided]}",
                detail=[error.message, *error.detail],
                hint="`maint playbook resume` looks again, and sends it again only when it can no longer arrive",
            ) from error
        return "is in force; the answer was lost, a read shows it applied"
    except (WorkFailed, CannotReach) as error:  # the server's own no, or nothing has left
        work.note("refused", error.message)
        if put_outcome(site, work, evidence) is PutOutcome.APPLIED:
            return f"is in force, although the server answered: {error.message}"
        raise
    site.manager.forget_login()
    return "was applied"


def send_licensed(site: Site, work: Work, out: Outgoing, evidence: Evidence, limit: float) -> Generator[str, None, str]:
    """Send as `send` does; where a licence counts only after a restart (M9, M14 U19), restart once and send again."""
    try:
        return (yield from send(site, work, out, evidence, limit))
    except WorkFailed as error:
        lacking = work.noted("refused") is not None and "licens" in error.message.lower()
        if not lacking or not _licensed(site):
            raise
        yield f"{error.message}; a licence is installed, and may count only after a restart of the server"
    yield from restart_and_wait(site, work, START_LIMIT, key=_LICENSED)
    return (yield from send(site, work, out, evidence, limit))


def _licensed(site: Site) -> bool:
    with suppress(CannotReach, WorkFailed):  # what the server answered to the sending is the failure
        return site.manager.license() is not None
    return False


def _put(site: Site, out: Outgoing, limit: float) -> None:
    api = int(out.snapshot.versions["api"].lstrip("v"))
    with out.open(site) as stream:
        body = Body(metered(site, "sending the deployment", stream.read, out.length), out.length)
        answer = site.manager.put_deployment(body, api=api, delete_current=out.whole, timeout=limit)
    try:
        while answer.read(1 << 18):
            pass
    except (CannotReach, WorkFailed) as error:  # cut off, or somebody else's page: the manager's own word is missing
        raise AnswerMissing(error.message, whole=True, detail=error.detail, hint=error.hint) from error


def _patience(out: Outgoing) -> float:
    # Large deployments take long.
    return PATIENCE + out.length / 100_000
