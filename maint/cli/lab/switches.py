"""How a lab is told on the command line to behave: `--switch NAME=VALUE`."""

from collections.abc import Iterable

from maint.errors import UsageError


def behaviours(words: Iterable[str]) -> dict[str, str]:
    """Return what switches are set to, by name.

    Args:
        words: of the form NAME=VALUE.

    Raises:
        UsageError: there is no such switch, or it takes no such value.
    """
    from maint.lab.switches import UnknownSwitch, parse

    try:
        return parse(words)
    except UnknownSwitch as error:
        raise UsageError(f"--switch: {error}", hint="`maint help lab` lists the switches") from None
