"""Send a deployment: at most once by a run, and never again before it is known not to arrive."""

from collections.abc import Generator

from maint.errors import AnswerMissing, CannotReach, LoginRefused, WorkFailed
from maint.ports import Body, Site, Work
from maint.restore.payload import Outgoing
from maint.steps.manager.server import START_LIMIT, await_version, restart, serves_tls_next
from maint.steps.restore.put_outcome import Evidence, Fate, await_fate, baseline, fate

LIMIT = 3600.0  # seconds; the call has no progress and big sites take long (contract section 14, U16)
PATIENCE = 30.0  # seconds to look at least for a deployment whose answer is missing
_STANDING = {Fate.NEVER: "was not applied", Fate.OPEN: "was not applied so far"}


def settled(site: Site, work: Work, out: Outgoing, evidence: Evidence, limit: float) -> Generator[str, None, Fate]:
    """Say what became of what an earlier life sent; a restart makes sure that it can no longer arrive.

    Args:
        site: the site.
        work: where sending was written down.
        out: what was sent.
        evidence: what tells whether it was applied.
        limit: seconds that the call was given.
    """
    yield "an earlier life of this run has sent the deployment; looking what became of it"
    decided = yield from await_fate(site, work, evidence, limit, _patience(out))
    if decided is Fate.OPEN:
        yield "it is not there yet and might still arrive; a restart of the server rolls back what is under way"
        tls = serves_tls_next(site, work)
        yield from restart(site, work, "restart to settle")
        yield from await_version(site, START_LIMIT, tls=tls)
        work.note("restarted since", True)
        decided = yield from await_fate(site, work, evidence, limit, limit)
    return decided


def send(site: Site, work: Work, out: Outgoing, evidence: Evidence, limit: float) -> Generator[str, None, str]:
    """Send a deployment and return how it was found to be in force; when the answer is missing, decide by reading.

    Raises:
        WorkFailed: the server said no, or the answer is missing and it was not applied.
    """
    work.note("before", baseline(site, evidence))
    work.note("last block", None)
    work.note("refused", None)
    work.note("restarted since", None)
    work.note("sent", site.clock.now().isoformat())
    yield f"sending {out.length} bytes"
    try:
        _put(site, work, out, limit)
    except AnswerMissing as error:
        yield f"{error.message}; looking whether it was applied"
        decided = yield from await_fate(site, work, evidence, limit, _patience(out))
        if decided is not Fate.APPLIED:
            raise WorkFailed(
                f"the deployment was sent, its answer never came, and it {_STANDING[decided]}",
                detail=[error.message, *error.detail],
                hint="`maint playbook resume` looks again, and sends it again only when it can no longer arrive",
            ) from error
        return "is in force; the answer was lost, a read shows it applied"
    except (WorkFailed, LoginRefused) as error:
        work.note("refused", error.message)
        if fate(site, work, evidence, limit) is Fate.APPLIED:
            return f"is in force, although the server answered: {error.message}"
        raise
    site.manager.forget_login()
    return "was applied"


def _put(site: Site, work: Work, out: Outgoing, limit: float) -> None:
    api = int(out.snapshot.versions["api"].lstrip("v"))
    with out.open(site) as stream:
        body = Body(stream.read, out.length, lambda: work.note("last block", site.clock.now().isoformat()))
        answer = site.manager.put_deployment(body, api=api, delete_current=out.whole, timeout=limit)
    try:
        while answer.read(1 << 18):
            pass
    except (CannotReach, WorkFailed) as error:  # cut off, or somebody else's page: the manager's own word is missing
        raise AnswerMissing(error.message, whole=True, detail=error.detail, hint=error.hint) from error


def _patience(out: Outgoing) -> float:
    """Return for how many seconds to look for a deployment whose answer is missing: large ones take long."""
    return PATIENCE + out.length / 100_000
