"""`--no-safety-net REASON`: lift the backup guards of a command, aloud and on record."""

from dataclasses import replace
from typing import Annotated

import typer

from maint.cli.flags import Flags
from maint.errors import UsageError

NoSafetyNet = Annotated[
    str | None, typer.Option("--no-safety-net", help="Lift the backup guards, and say why; it is put on record.")
]


def lifted(flags: Flags, reason: str | None) -> Flags:
    """Return the flags of a command whose backup guards are lifted, where the operator gave a reason.

    Raises:
        UsageError: the reason is empty.
    """
    if reason is None:
        return flags
    if not reason.strip():
        raise UsageError("--no-safety-net wants a reason", hint="say why nothing needs to come back")
    return replace(flags, no_safety_net=" ".join(reason.split()))
