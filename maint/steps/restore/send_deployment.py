"""Send a deployment: at most once by a run, and never again before it is known not to arrive."""

from collections.abc import Generator

from maint.errors import AnswerMissing, CannotReach, Refused, WorkFailed
from maint.model.formatting import show_time
from maint.ports import Body, Site, Work
from maint.restore.payload import Outgoing
from maint.snapshots.parts import metered
from maint.steps.manager.server import START_LIMIT, restart_and_wait
from maint.steps.restore.put_outcome import Evidence, PutOutcome, await_outcome, baseline, put_outcome

LIMIT = 3600.0  # seconds; the call has no progress and big sites take long (M14 U16)
ANSWER = "applied"  # what `maint playbook resume --set` answers where nobody else can tell
PATIENCE = 30.0  # seconds to look at least for a deployment whose answer is missing
_STANDING = {PutOutcome.NEVER: "was not applied", PutOutcome.OPEN: "was not applied so far"}


def settled(site: Site, work: Work, out: Outgoing, evidence: Evidence) -> Generator[str, None, PutOutcome]:
    """Return what became of what an earlier attempt sent, or refuse: without a restart it may still arrive."""
    yield "an earlier attempt has sent the deployment; looking what became of it"
    decided = yield from await_outcome(site, work, evidence, _patience(out))
    if decided is not PutOutcome.OPEN:
        return decided
    answer = work.answers.get(ANSWER)
    if isinstance(answer, bool):
        return PutOutcome.APPLIED if answer else PutOutcome.NEVER
    if not site.settings.ssh:
        refusal = Refused(
            "a deployment was sent, its answer is missing, and it might still arrive",
            detail=["a restart of the server would settle it, and the config has no `ssh:` to do that"],
            hint="restart the server and look at its clusters",
        )
        refusal.needs = (ANSWER,)
        raise refusal
    yield "it is not there yet and might still arrive; a restart of the server rolls back what is under way"
    yield from restart_and_wait(site, work, START_LIMIT, key="restart to settle")
    work.note("restarted since", True)
    return (yield from await_outcome(site, work, evidence, _patience(out)))


def send(site: Site, work: Work, out: Outgoing, evidence: Evidence, limit: float) -> Generator[str, None, str]:
    """Send a deployment and return how it was found to be in force; when the answer is missing, decide by reading."""
    work.note("before", baseline(site, evidence))
    work.note("refused", None)
    work.note("restarted since", None)
    work.note("sent", show_time(site.clock.now()))
    yield f"sending {out.length} bytes"
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
