"""Move a service or a role to a state, or have something done that leaves no state: sent once, decided by looking."""

from collections.abc import Callable, Generator

import msgspec

from maint.errors import AnswerMissing, CannotReach, Refused, TimedOut, Transient, WorkFailed
from maint.model.manager import Command
from maint.ports import Site, Work
from maint.steps.manager.commands import finish, run_command, wait_until
from maint.steps.step import Progress, done, unchanged

LIMIT = 3600.0  # seconds for one command
_SETTLE = 120.0  # seconds that states may lag behind a finished command
_BEGUN = "begun"
ENDS = {"stop": ("STOPPED", "NA"), "start": ("STARTED", "NA"), "restart": ("STARTED", "NA")}
PAST = {"stop": "stopped", "start": "started", "restart": "restarted"}
_MOVING = {"stop": "STOPPING", "start": "STARTING"}


class Mover(msgspec.Struct, frozen=True):
    """What can be moved, and how.

    Attributes:
        words: what it is, for people.
        state: looks at its state; "" where it is gone.
        send: sends a command by its name, once.
        active: looks what the manager does with it now.
    """

    words: str
    state: Callable[[], str]
    send: Callable[[str], Command]
    active: Callable[[], list[Command]]

    def under_way(self, name: str) -> Command | None:
        """Return the very command as it runs now, None where it does not."""
        return next((one for one in self.active() if one.active and one.name.lower() == name.lower()), None)


def move(site: Site, work: Work, mover: Mover, verb: str) -> Progress:
    """Stop or start something, and believe its state alone (M4, M18)."""
    before = mover.state()
    if before in ENDS[verb]:
        return unchanged(f"{mover.words} is {PAST[verb]} already")
    limit = work.timeout or LIMIT
    finished = None
    if before != _MOVING[verb]:  # else somebody's command moves it, and its state tells how that ends
        finished = yield from run_command(
            site,
            work,
            limit,
            under_way=lambda: mover.under_way(verb),
            send=lambda: mover.send(verb),
            guard=_nothing,
        )
    failed = finished is not None and finished.success is False
    if finished is not None and failed and mover.state() not in ENDS[verb]:
        raise WorkFailed(
            f"the manager did not {verb} {mover.words}",
            detail=[finished.reason, f"it is {mover.state() or 'gone'}"],
            hint="mend what it names, then `maint playbook resume`",
        )
    yield from _settled(site, mover, verb, _SETTLE if finished else limit)
    if finished is not None and failed:
        return done(f"{mover.words} is {PAST[verb]}, although the manager calls its command failed: {finished.reason}")
    return done(f"{mover.words} is {PAST[verb]}")


def restart(site: Site, work: Work, mover: Mover) -> Progress:
    """Restart something, and wait until it runs."""
    yield from send_once(site, work, mover, "restart")
    yield from _settled(site, mover, "restart", _SETTLE)
    return done(f"{mover.words} is restarted")


def send_once(
    site: Site, work: Work, mover: Mover, name: str, *, destroys: bool = False
) -> Generator[str, None, Command]:
    """Have a command done that leaves no state by which one could tell, and return it finished (M18.3).

    Args:
        destroys: whether it must not be sent again where nobody can tell whether it was done.

    Raises:
        WorkFailed: it failed; or its answer was lost and the manager does not run it, so that nobody can tell.
    """
    limit = work.timeout or LIMIT
    if work.noted(_BEGUN) and work.noted("command") is None and mover.under_way(name) is None:
        if destroys:
            raise WorkFailed(
                f"nobody saw whether {name} of {mover.words} was done, so it is not sent again",
                hint=f"look at the manager; then `maint playbook dismiss {work.run} --reason WORDS`",
            )
        yield f"whether an earlier attempt has sent {name} cannot be told, and nothing of it runs: it is sent again"

    def guard() -> Generator[str, None, None]:
        work.note(_BEGUN, True)
        if work.noted("command") is not None:
            work.note("command", None)  # that one failed; of the one that is sent now nothing is known yet
        yield from ()

    finished = yield from run_command(
        site, work, limit, under_way=lambda: mover.under_way(name), send=lambda: _sent(work, mover, name), guard=guard
    )
    if finished is None and (running := mover.under_way(name)) is not None:
        work.note("command", running.id)
        finished = yield from finish(site.manager, site.clock, running, limit)
    if finished is None:
        raise WorkFailed(
            f"whether {name} of {mover.words} was done cannot be told: its answer was lost, and nothing of it runs",
            hint=f"look at the manager's history; then `maint playbook dismiss {work.run} --reason WORDS`"
            if destroys
            else "look at the manager's history; `maint playbook resume` sends it again",
        )
    if finished.success is False:
        work.note(_BEGUN, None)  # its end is known: it may be sent again
        raise WorkFailed(
            f"the manager did not do {name} of {mover.words}",
            detail=[finished.reason],
            hint="mend what it names, then `maint playbook resume`",
        )
    return finished


def _sent(work: Work, mover: Mover, name: str) -> Command:
    try:
        return mover.send(name)
    except (AnswerMissing, TimedOut, Transient):
        raise  # it may have been taken
    except (CannotReach, Refused, WorkFailed):
        work.note(_BEGUN, None)
        raise


def _settled(site: Site, mover: Mover, verb: str, limit: float) -> Generator[str, None, None]:
    def missing() -> list[str]:
        state = mover.state()
        return [] if state in ENDS[verb] else [f"{mover.words} is {state or 'gone'}"]

    problem = f"{mover.words} is not {PAST[verb]}"
    yield from wait_until(site.clock, limit, missing, problem, "look at the manager, then `maint playbook resume`")


def _nothing() -> Generator[str, None, None]:
    yield from ()
