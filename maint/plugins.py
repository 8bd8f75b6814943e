"""Plugins: step kinds, checks and notices that installed packages offer by entry points; one loader for all."""

import sys
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TypeVar

from maint.errors import Invalid, Stopped

STEPS, CHECKS, NOTIFY = "maint.steps", "maint.checks", "maint.notify"  # the groups of entry points
T = TypeVar("T")


def offered(group: str) -> Mapping[str, EntryPoint]:
    """Return what installed packages offer in a group, by name; loads nothing."""
    return _found(group, *sys.path)


@cache
def _found(group: str, *_path: str) -> Mapping[str, EntryPoint]:
    # All that is installed is looked through: once, unless there is more to look through.
    return {entry.name: entry for entry in reversed(list(entry_points(group=group)))}  # the first on the path counts


def package_of(entry: EntryPoint) -> str:
    """Return the package that offers something."""
    return entry.dist.name if entry.dist else "an installed package"


def where_failed(error: BaseException, file: str) -> str:
    """Return what a failure is, and from which place in a package's file; its own words may hold a secret."""
    frames = traceback.extract_tb(error.__traceback__)
    at = next((one for one in reversed(frames) if one.filename == file), frames[-1])
    return f"{type(error).__name__} at {Path(at.filename).name}:{at.lineno}"


def load(entry: EntryPoint, what: str, read: Callable[[object], T | None], rule: str) -> T:
    """Read in what a package offers.

    Args:
        what: what it is to be, for messages.
        read: makes of what was found what is used; None where it is not fit for that.
        rule: what it must be like, as a hint.

    Raises:
        Invalid: it cannot be imported, or is something else.
    """
    package = package_of(entry)
    try:
        loaded = entry.load()
    except Stopped:
        raise
    except Exception as error:  # whatever a package of somebody else does when it is imported
        words = f"{what} {entry.name} of the package {package} cannot be loaded: {type(error).__name__}: {error}"
        raise Invalid(words, hint=f"update or uninstall {package}; nothing of maint itself needs it") from error
    found = read(loaded)
    if found is None:
        raise Invalid(f"{entry.value} of the package {package} is no {what} named {entry.name}", hint=rule)
    return found
