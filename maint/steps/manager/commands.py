"""Wait for the manager's asynchronous commands (contract section 4)."""

from collections.abc import Callable, Generator
from typing import TypeVar

from maint.errors import TimedOut, Transient, WorkFailed
from maint.model.formatting import show_duration
from maint.model.manager import Command
from maint.ports import Clock, ManagerSight

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
T = TypeVar("T")
_FORGIVEN = 5  # transient answers in a row that official clients live through (contract section 2.4)


def pauses() -> Generator[float, None, None]:
    """Yield ever longer pauses between two looks, in seconds."""
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 2, _LONGEST_PAUSE)


def finish(manager: ManagerSight, clock: Clock, command: Command, limit: float) -> Generator[str, None, Command | None]:
    """Poll a command until it has ended.

    Args:
        manager: where to ask.
        clock: time.
        command: as the sending call answered it; an already finished one is returned as it is.
        limit: seconds to wait at the most.

    Returns:
        The finished command, or None where the server no longer knows it: then look at what it was to change.

    Raises:
        TimedOut: it still runs.
        WorkFailed: the server kept answering with errors.
    """
    begun, troubles = clock.monotonic(), 0
    current: Command | None = command
    for pause in pauses():
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
            current, troubles = manager.command(command.id), 0
        except Transient as error:
            troubles += 1
            if troubles > _FORGIVEN:
                raise WorkFailed(
                    f"the manager cannot say how command {command.name} ({command.id}) goes",
                    detail=[error.message],
                    hint="look at the manager, then `maint playbook resume`",
                ) from error
            yield f"the manager answered with an error ({error.message}); asking again"
    raise AssertionError("the pauses never end")


def _with_children(manager: ManagerSight, command: Command | None) -> Command | None:
    """Return a failed command in its full view: the reason may be only in a child (contract section 4.3)."""
    if command is None or command.success is not False or command.children or command.id < 0:
        return command
    try:
        return manager.command(command.id) or command
    except Transient:
        return command


def patiently(clock: Clock, look: Callable[[], T]) -> Generator[str, None, T]:
    """Return what a read gives; transient errors in between are lived through (contract section 2.4).

    Raises:
        Transient: the server kept answering with errors.
    """
    for troubles, pause in enumerate(pauses(), 1):
        try:
            return look()
        except Transient as error:
            if troubles > _FORGIVEN:
                raise
            yield f"the manager answered with an error ({error.message}); asking again"
            clock.sleep(pause)
    raise AssertionError("the pauses never end")
