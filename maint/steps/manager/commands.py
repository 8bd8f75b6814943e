"""The manager's asynchronous commands: sent once, waited for (M4); the Kerberos credentials that starts need (M21)."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from maint.errors import (
    AnswerMissing,
    CannotReach,
    DeadlinePassed,
    Invalid,
    LoginRefused,
    NotTrusted,
    Refused,
    TimedOut,
    Transient,
    WorkFailed,
)
from maint.model.formatting import show_count, show_duration, show_some
from maint.model.manager import Command, Place
from maint.ports import Clock, ManagerSight, Site, Work
from maint.retry import delays, looks
from maint.steps.step import Progress, done, unchanged

T = TypeVar("T")
_FIRST, _LONGEST = 0.1, 5.0  # seconds between two looks at the manager
_FORGIVEN = 5  # transient answers in a row that official clients live through (M2.4)
_NOTE = "command"
LIMIT = 3600.0  # seconds for one command; stopping a base cluster takes minutes, and no upper bound is published
_SETTLE = 120.0  # seconds that states may lag behind a finished command
_BEGUN = "begun"
ENDS = {"stop": ("STOPPED", "NA"), "start": ("STARTED", "NA"), "restart": ("STARTED", "NA")}
PAST = {"stop": "stopped", "start": "started", "restart": "restarted"}
_MOVING = {"stop": "STOPPING", "start": "STARTING"}
MEND = "mend what it names, then `maint playbook resume`"


def polls() -> Iterator[float]:
    """Yield the pauses between two looks at the manager, in seconds, without end."""
    return delays(_FIRST, _LONGEST)


def run_command(
    site: Site,
    work: Work,
    limit: float,
    *,
    under_way: Callable[[], Command | None],
    send: Callable[[], Command | None],
    guard: Callable[[], Generator[str, None, None]],
) -> Generator[str, None, Command | None]:
    """Carry out one command: the one an earlier attempt sent, or one that runs already, else a new one.

    Args:
        work: keeps the id of what was sent.
        limit: seconds to wait for its end.
        under_way: returns the same command where the manager runs it now.
        send: sends it, once; None where nothing is left to be done.
        guard: proves, just before it is sent, that it may be.

    Returns:
        The finished command; None where none was sent, its answer was lost, or the manager no longer knows it: then
        look at what it was to change.
    """
    noted = work.noted(_NOTE)
    if isinstance(noted, int):
        known = yield from patiently(site.clock, lambda: site.manager.command(noted))
        if known is None or known.active or known.success is not False:
            return (yield from finish(site.manager, site.clock, known, limit)) if known else None
        yield f"command {known.name} ({known.id}) of an earlier attempt has failed: {known.reason}; it is sent anew"
    if running := under_way():
        yield f"the manager is at it already: command {running.name} ({running.id}) is waited for"
        return (yield from finish(site.manager, site.clock, running, limit))
    yield from guard()
    try:
        command = send()
    except AnswerMissing as error:
        yield f"{error.message}; looking what became of it"
        return None
    if command is None:
        return None
    if command.active:
        work.note(_NOTE, command.id)
    return (yield from finish(site.manager, site.clock, command, limit))


def finish(manager: ManagerSight, clock: Clock, command: Command, limit: float) -> Generator[str, None, Command | None]:
    """Poll a command until it has ended; None where the server no longer knows it: then look at what it was to change.

    Raises:
        TimedOut: it still runs after the limit (seconds).
        WorkFailed: the server kept answering with errors.
    """
    goes_on = "it goes on in the manager; `maint playbook resume` waits for it again"
    begun = clock.monotonic()
    current: Command | None = command
    for pause in polls():
        if current is None or not current.active or current.id < 0:
            return _with_children(manager, current)
        waited = clock.monotonic() - begun
        if waited > limit:
            raise TimedOut(
                f"command {command.name} ({command.id}) still runs after {show_duration(waited)}", hint=goes_on
            )
        try:
            clock.sleep(pause)
            current = yield from patiently(clock, lambda: manager.command(command.id))
        except DeadlinePassed as error:
            still = f"command {command.name} ({command.id}) still runs"
            raise DeadlinePassed(error.message, detail=[still], hint=goes_on, limit=error.limit) from error
        except Transient as error:
            raise WorkFailed(
                f"the manager cannot say how command {command.name} ({command.id}) goes",
                detail=[error.message],
                hint="it may go on in the manager; look there, then `maint playbook resume`",
            ) from error
    raise AssertionError("polling never ends")


def _with_children(manager: ManagerSight, command: Command | None) -> Command | None:
    # The reason may be only in a child (M4.3).
    if command is None or command.success is not False or command.children or command.id < 0:
        return command
    try:
        return manager.command(command.id) or command
    except (Transient, CannotReach):
        return command


def patiently(clock: Clock, look: Callable[[], T]) -> Generator[str, None, T]:
    """Return what a read gives; what may pass is waited out, a lost connection too (M2.4), and raised if it goes on."""
    for troubles, pause in enumerate(polls(), 1):
        try:
            return look()
        except (LoginRefused, NotTrusted):  # more tries may lock the account
            raise
        except (Transient, CannotReach) as error:
            if troubles > _FORGIVEN:
                raise
            yield f"the manager does not answer as it should ({error.message}); asking again"
            clock.sleep(pause)
    raise AssertionError("polling never ends")


def wait_until(
    clock: Clock, limit: float, look: Callable[[], Sequence[str]], problem: str, hint: str
) -> Generator[str, None, None]:
    """Look until nothing is missing any more; `look` returns what is, in words.

    Args:
        limit: seconds to wait at the most.
        problem: what is wrong when the limit passes, for `TimedOut`.
        hint: what to do then.
    """
    shown = ""
    missing: Sequence[str] = ()
    try:
        for _ in looks(clock, limit, polls()):
            missing = yield from patiently(clock, look)
            if not missing:
                return
            words = f"waiting: {show_some(missing, 1)}"
            if words != shown:
                yield words
            shown = words
        raise TimedOut(f"{problem} after {show_duration(limit)}", detail=missing, hint=hint)
    except DeadlinePassed as error:
        raise DeadlinePassed(error.message, detail=missing or error.detail, hint=hint, limit=error.limit) from error


class Mover(msgspec.Struct, frozen=True):
    """What can be moved, and how."""

    site: Site
    place: Place
    send: Callable[[str], Command]  # sends a command by its name, once
    # looks at the states that it has, by what has them; "" for what is gone
    states: Callable[[], Mapping[str, str]] = dict
    # proves, just before a command is sent, that it may be
    guard: Callable[[], Generator[str, None, None]] = lambda: _nothing()

    def under_way(self, name: str) -> Command | None:
        """Return the very command as it runs now, None where it does not: states lag behind one."""
        known = self.site.manager.commands_of(self.place)
        return next((one for one in known if one.active and one.name.lower() == name.lower()), None)


def missing(states: Mapping[str, str], verb: str) -> list[str]:
    """Return what is not yet where a verb brings it, in words."""
    return [f"{name} is {state or 'gone'}" for name, state in states.items() if state not in ENDS[verb]]


def move(work: Work, mover: Mover, verb: str) -> Progress:
    """Stop or start something, and believe its states alone (M4, M18)."""
    if not missing(states := mover.states(), verb):
        return unchanged(f"{mover.place} is {PAST[verb]} already")
    if verb == "stop" and not any(states.values()):
        return unchanged(f"{mover.place} is gone already")
    limit = work.timeout or LIMIT
    finished = yield from run_command(
        mover.site,
        work,
        limit,
        under_way=lambda: mover.under_way(verb),
        send=lambda: mover.send(verb) if missing(mover.states(), verb) else None,
        guard=lambda: _undisturbed(mover, verb, limit),
    )
    lacking = missing((yield from patiently(mover.site.clock, mover.states)), verb)
    failed = finished if finished is not None and finished.success is False else None
    if failed and lacking:
        raise WorkFailed(
            f"the manager did not {verb} {mover.place}",
            detail=[failed.reason, *lacking],
            hint=mend_start(mover.site.manager) if verb == "start" else MEND,
        )
    if finished is None:
        yield from _moved(work, mover, verb, limit)
    else:
        try:
            yield from _settled(mover, verb, _SETTLE)
        except TimedOut:
            work.note(_NOTE, None)  # it ended well, and what it did holds no more: another one is sent
            raise
    words = f"{mover.place} is {PAST[verb]}"
    if failed:
        words += f", although the manager calls its command {failed.name} ({failed.id}) failed: {failed.reason}"
    return done(words)


def restart(work: Work, mover: Mover) -> Progress:
    """Restart something, and wait until it runs."""
    yield from send_once(work, mover, "restart")
    yield from _settled(mover, "restart", _SETTLE)
    return done(f"{mover.place} is restarted")


def _settled(mover: Mover, verb: str, limit: float) -> Generator[str, None, None]:
    yield from _waited(mover, verb, limit, lambda: missing(mover.states(), verb))


def _waited(mover: Mover, verb: str, limit: float, look: Callable[[], Sequence[str]]) -> Generator[str, None, None]:
    problem, hint = f"{mover.place} is not {PAST[verb]}", "look at the manager, then `maint playbook resume`"
    yield from wait_until(mover.site.clock, limit, look, problem, hint)


def _moved(work: Work, mover: Mover, verb: str, limit: float) -> Generator[str, None, None]:
    """Wait for what is moved by a command that nobody saw: a manager that went down may never have got it.

    Raises:
        WorkFailed: nothing has moved it for as long as states may lag.
        TimedOut: it is not where it should be when the limit has passed.
    """
    clock = mover.site.clock
    moved = clock.monotonic()

    def look() -> Sequence[str]:
        nonlocal moved
        states, now = mover.states(), clock.monotonic()
        lacking = missing(states, verb)
        if _MOVING[verb] in states.values() or (lacking and mover.under_way(verb) is not None):
            moved = now
        if lacking and now - moved > _SETTLE:
            work.note(_NOTE, None)  # one that the manager has forgotten is waited for no more
            raise WorkFailed(
                f"{mover.place} is not {PAST[verb]}: nobody saw what became of the command, and nothing of it runs",
                detail=lacking,
                hint="`maint playbook resume` sends the command again",
            )
        return lacking

    yield from _waited(mover, verb, limit, look)


def _undisturbed(mover: Mover, verb: str, limit: float) -> Generator[str, None, None]:
    # A part that somebody else's command moves ends first: until then the server refuses the whole (M4.3).
    moving = _MOVING[verb]
    yield from wait_until(
        mover.site.clock,
        limit,
        lambda: [f"{name} is {moving}, by somebody else" for name, state in mover.states().items() if state == moving],
        f"what somebody else began at {mover.place} has not ended",
        "look at the manager, then `maint playbook resume`",
    )
    yield from mover.guard()


def _nothing() -> Generator[str, None, None]:
    yield from ()


def send_once(work: Work, mover: Mover, name: str, *, destroys: bool = False) -> Generator[str, None, Command]:
    """Have a command done that leaves no state by which one could tell, and return it finished (M18.3).

    Args:
        destroys: whether it must not be sent again where nobody can tell whether it was done.

    Raises:
        WorkFailed: it failed; or its answer was lost and the manager does not run it, so that nobody can tell.
    """
    site, limit = mover.site, work.timeout or LIMIT
    if work.noted(_BEGUN) and work.noted(_NOTE) is None and mover.under_way(name) is None:
        if destroys:
            raise WorkFailed(
                f"nobody saw whether {name} of {mover.place} was done, so it is not sent again",
                hint=f"look at the manager; then `maint playbook dismiss {work.run} --reason WORDS`",
            )
        yield f"whether an earlier attempt has sent {name} cannot be told, and nothing of it runs: it is sent again"

    def guard() -> Generator[str, None, None]:
        work.note(_BEGUN, True)
        if work.noted(_NOTE) is not None:
            work.note(_NOTE, None)  # that one failed; of the one that is sent now nothing is known yet
        yield from ()

    finished = yield from run_command(
        site, work, limit, under_way=lambda: mover.under_way(name), send=lambda: _sent(work, mover, name), guard=guard
    )
    if finished is None and (running := mover.under_way(name)) is not None:
        work.note(_NOTE, running.id)
        finished = yield from finish(site.manager, site.clock, running, limit)
    if finished is None:
        why = "its answer was lost"
        if work.noted(_NOTE) is not None:
            work.note(_NOTE, None)  # else it is asked for again at each attempt
            why = "the manager knows it no more"
        raise WorkFailed(
            f"whether {name} of {mover.place} was done cannot be told: {why}, and nothing of it runs",
            hint=f"look at the manager's history; then `maint playbook dismiss {work.run} --reason WORDS`"
            if destroys
            else "look at the manager's history; `maint playbook resume` sends it again",
        )
    if finished.success is False:
        work.note(_BEGUN, None)  # its end is known: it may be sent again
        raise WorkFailed(
            f"the manager did not do {name} of {mover.place}",
            detail=[finished.reason],
            hint=mend_start(site.manager) if name == "restart" else MEND,
        )
    return finished


def _sent(work: Work, mover: Mover, name: str) -> Command:
    try:
        return mover.send(name)
    except (AnswerMissing, TimedOut, Transient):
        raise  # it may have been taken
    except (CannotReach, Refused, WorkFailed, Invalid):
        work.note(_BEGUN, None)
        raise


def missing_principals(manager: ManagerSight) -> Sequence[str]:
    """Return the principals that services need and that have no credentials; none where nothing uses Kerberos.

    Raises:
        WorkFailed: the manager does not say.
    """
    found = manager.get("/cm/kerberosPrincipals?missingOnly=true")
    listed = found.get("items") if isinstance(found, dict) else found
    if not isinstance(listed, list):  # which is not that none is missing
        raise WorkFailed(
            "the manager's answer does not list the Kerberos principals that lack credentials",
            hint="look in the manager (Administration, Security, Kerberos Credentials)",
        )
    return [str(one.get("principal", "")) if isinstance(one, dict) else str(one) for one in listed]


def uses_kerberos(manager: ManagerSight) -> bool:
    """Tell whether the manager says that its clusters use Kerberos."""
    try:
        found = manager.get("/cm/kerberosInfo")
    except WorkFailed:  # not every server, nor every account, tells
        return False
    return isinstance(found, dict) and found.get("kerberized") is True


def mend_start(manager: ManagerSight) -> str:
    """Return what to do where something did not start: credentials that are missing come first."""
    try:
        lacking = len(missing_principals(manager))
    except (WorkFailed, CannotReach):  # why it did not start is known
        lacking = 0
    if not lacking:
        return MEND
    words = f"{show_count(lacking, 'principal')} without Kerberos credentials: with `manager.kdc` in the config"
    return f"mend what it names; {words} `maint manager start` has them made; then `maint playbook resume`"
