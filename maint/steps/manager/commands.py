"""The manager's asynchronous commands: sent once, waited for, and never taken up again once they have failed (M4)."""

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TypeVar

from maint.errors import AnswerMissing, TimedOut, Transient, WorkFailed
from maint.model.formatting import show_duration
from maint.model.manager import Command
from maint.ports import Clock, ManagerSight, Site, Work
from maint.retry import delays

T = TypeVar("T")
_FORGIVEN = 5  # transient answers in a row that official clients live through (M2.4)
_NOTE = "command"


def polls() -> Iterator[float]:
    """Yield the pauses between two looks at the manager, in seconds, without end."""
    return delays(0.1, 5.0)


def run_command(
    site: Site,
    work: Work,
    limit: float,
    *,
    under_way: Callable[[], Command | None],
    send: Callable[[], Command],
    guard: Callable[[], Generator[str, None, None]],
) -> Generator[str, None, Command | None]:
    """Carry out one command: the one an earlier attempt sent, or one that runs already, else a new one.

    Args:
        work: keeps the id of what was sent.
        limit: seconds to wait for its end.
        under_way: returns the same command where the manager runs it now.
        send: sends it, once.
        guard: proves, just before it is sent, that it may be.

    Returns:
        The finished command; None where its answer was lost, or the manager no longer knows it: then look at what it
        was to change.
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
    if command.active:
        work.note(_NOTE, command.id)
    return (yield from finish(site.manager, site.clock, command, limit))


def finish(manager: ManagerSight, clock: Clock, command: Command, limit: float) -> Generator[str, None, Command | None]:
    """Poll a command until it has ended; None where the server no longer knows it: then look at what it was to change.

    Raises:
        TimedOut: it still runs after the limit (seconds).
        WorkFailed: the server kept answering with errors.
    """
    begun = clock.monotonic()
    current: Command | None = command
    for pause in polls():
        if current is None or not current.active or current.id < 0:
            return _with_children(manager, current)
        waited = clock.monotonic() - begun
        if waited > limit:
            raise TimedOut(
                f"command {command.name} ({command.id}) still runs after {show_duration(waited)}",
                hint="it goes on in the manager; `maint playbook resume` waits for it again",
            )
        clock.sleep(pause)
        try:
            current = yield from patiently(clock, lambda: manager.command(command.id))
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
    except Transient:
        return command


def patiently(clock: Clock, look: Callable[[], T]) -> Generator[str, None, T]:
    """Return what a read gives; transient errors in between are waited out (M2.4), and raised where they go on."""
    for troubles, pause in enumerate(polls(), 1):
        try:
            return look()
        except Transient as error:
            if troubles > _FORGIVEN:
                raise
            yield f"the manager answered with an error ({error.message}); asking again"
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
    begun, shown = clock.monotonic(), ""
    for pause in polls():
        missing = yield from patiently(clock, look)
        if not missing:
            return
        waited = clock.monotonic() - begun
        if waited > limit:
            raise TimedOut(f"{problem} after {show_duration(waited)}", detail=missing, hint=hint)
        more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        words = f"waiting: {missing[0]}{more}"
        if words != shown:
            yield words
        shown = words
        clock.sleep(pause)
