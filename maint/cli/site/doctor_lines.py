"""What `maint doctor` shows of one thing that it looked at, also where looking failed."""

from collections.abc import Callable, Iterator

import msgspec

from maint.errors import CannotReach, MaintError, Stopped

OK, WARN, FAIL = "ok", "warn", "FAIL"
SKIP = "skip"  # could not be tried here, and that is not a fault of this site


class Line(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    label: str
    state: str
    words: str
    hint: str = ""


def guarded(label: str, look: Callable[[], Iterator[Line]], lab: str = "") -> Iterator[Line]:
    """Yield what a look shows; `lab`: what is to be done instead of what failed where nothing answered."""
    try:
        yield from look()
    except Stopped:
        raise
    except CannotReach as error:
        yield Line(label, FAIL, error.in_a_line, lab or error.hint or "")
    except MaintError as error:
        yield Line(label, FAIL, error.in_a_line, error.way_on or "")
    except OSError as error:
        yield Line(label, FAIL, f"{error.filename or label}: {error.strerror}", "correct that path, or its permissions")
