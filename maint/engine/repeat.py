"""Try again: a step that only reads is tried more than once, or looks again until something holds."""

from collections.abc import Callable, Generator, Mapping

from maint.errors import DeadlinePassed, MaintError, Stopped
from maint.model.formatting import show_duration
from maint.model.json import Json
from maint.model.plan import Action, Effect, Result
from maint.ports import Clock
from maint.render import holds
from maint.retry import delays

Attempt = Callable[[], Generator[str, None, Result]]
_SHOWN = 300  # characters of what was last seen


def repeated(
    action: Action, clock: Clock, values: Mapping[str, Json], attempt: Attempt
) -> Generator[str, None, Result]:
    """Carry out an action as often as it says; `until` may ask for `values` and its `result`."""
    if action.until is None:
        return (yield from _tried(action, clock, attempt, action.timeout))
    seen, began = "nothing", clock.monotonic()
    retry = action.retry
    try:
        with clock.limit(action.timeout):
            pauses = delays(retry.pause, retry.longest, factor=retry.backoff)
            while True:
                result = yield from _tried(action, clock, attempt, None)
                if holds(action.until, {**values, "result": result.value}):
                    return result
                seen = (str(result.value) if result.value is not None else result.detail)[:_SHOWN]
                pause = next(pauses)
                yield f"not yet `{action.until}`, looking again in {show_duration(pause)}"
                clock.sleep(pause)
    except DeadlinePassed as error:
        waited = show_duration(clock.monotonic() - began)
        error.detail = (f"waited {waited} until `{action.until}`: {action.summary}", f"last seen: {seen}")
        raise


def _tried(action: Action, clock: Clock, attempt: Attempt, limit: float | None) -> Generator[str, None, Result]:
    attempts = action.retry.attempts if action.effect is Effect.READ else 1
    pauses = delays(action.retry.pause, action.retry.longest, factor=action.retry.backoff)
    number = 0
    while True:
        number += 1
        try:
            with clock.limit(limit):
                return (yield from attempt())
        except Stopped as error:
            if isinstance(error, DeadlinePassed):
                error.detail = error.detail or _waited_for(action)
            raise
        except MaintError as error:
            if number == attempts:
                raise
            yield f"try {number} of {attempts}: {error.message}"
            clock.sleep(next(pauses))


def _waited_for(action: Action) -> tuple[str, ...]:
    words = f"it passed during: {action.summary}"
    more = () if action.effect is Effect.READ else ("what was sent before that goes on without maint",)
    return (words, *more)
