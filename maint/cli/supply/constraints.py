"""`maint generate constraints`: the exact versions that were tested, for pip."""

import re
from importlib.resources import files
from typing import Annotated

from maint.cli.command import command
from maint.cli.options import Flags, option

FILE = files("maint.cli.supply") / "constraints.txt"
_PINNED = re.compile(r"^(\S+)==(\S+)((?: --hash=\S+)*)$", re.MULTILINE)


def tested(*, hashes: bool = False) -> str:
    """Return what was tested as pip reads it: one `name==version` a line, with hashes where they are wanted."""
    lines = _PINNED.findall(FILE.read_text())
    return "".join(f"{name}=={number}{known if hashes else ''}\n" for name, number, known in lines)


@command(example="maint generate constraints > constraints.txt")
def constraints(
    flags: Flags,
    hashes: Annotated[bool, option("--hashes", "With the hash of each wheel, for --require-hashes.")] = False,
) -> None:
    """Print the versions that were tested: for `pip install -c FILE`, or with hashes for `--require-hashes -r FILE`."""
    text = tested(hashes=hashes)
    flags.screen().emit({"constraints": text}, text.rstrip())
