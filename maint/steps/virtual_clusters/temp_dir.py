"""A private folder on a host: for secrets that a program wants as files, wiped however the work ends."""

import base64
import re
from collections.abc import Mapping
from pathlib import Path

from maint.ports import Shell
from maint.steps.virtual_clusters.step import own_prefix

_NAMES = re.compile(r"[a-z][a-z0-9.]*")

_PLACE = "b=/run; [ -d /run ] && [ -w /run ] || b=/tmp\n"  # memory, where there is some: nothing reaches a disk


def sweeping(state: Path) -> str:
    """Return the command that wipes what killed runs of a site left; safe for whoever holds the site's lock.

    A script goes on to its end although its run was killed: such a one is waited for, up to a minute.
    """
    left = f"{own_prefix(state)}init.*"
    return f"""for f in /run/{left} /tmp/{left}; do
  [ -d "$f" ] || continue
  p=$(cat "$f/pid" 2>/dev/null) || p=; i=0
  while [ -n "$p" ] && kill -0 "$p" 2>/dev/null && [ "$i" -lt 60 ]; do sleep 1; i=$((i + 1)); done
  rm -rf "$f"
done"""


def sweep(shell: Shell, host: str, state: Path) -> None:
    """Wipe what killed runs of this site left on a host."""
    shell.run(host, sweeping(state), timeout=300.0)


def script(state: Path, files: Mapping[str, bytes], body: str) -> str:
    """Return a script that receives files on standard input, runs a body, and wipes everything again.

    Args:
        state: the site's state folder, whose folders on the host have names of their own.
        files: what `fed` will feed, by name; only the names are used.
        body: run in an empty folder, with the files in `$d/in` and no input; it goes on to its end even where the
            connection is lost meanwhile. Its status is the script's, what it says on standard error too.
    """
    assert all(_NAMES.fullmatch(name) for name in files)
    lines = [f'IFS= read -r line; printf %s "$line" | base64 -d > "$d/in/{name}"' for name in files]
    return "\n".join(
        [
            "set -eu; umask 077",
            _PLACE + sweeping(state),
            f'd=$(mktemp -d "$b/{own_prefix(state)}init.XXXXXXXX")',
            "trap 'cd /; rm -rf \"$d\"' EXIT; trap 'exit 130' INT; trap 'exit 143' TERM",
            'echo $$ > "$d/pid"; mkdir "$d/in" "$d/tmp" "$d/work"; TMPDIR=$d/tmp; export TMPDIR',
            *lines,
            # All is here: from now on nothing is left half done because whoever asked for it is gone.
            "trap '' HUP PIPE",
            'cd "$d/work"',
            f'( {body} ) </dev/null >"$d/tmp/out" 2>"$d/tmp/err" || status=$?',
            'said=$(tail -c 4000 "$d/tmp/err"); cd /; rm -rf "$d"',
            "printf '%s\\n' \"$said\" >&2; exit ${status:-0}",
        ]
    )


def fed(files: Mapping[str, bytes]) -> bytes:
    """Return what is fed to such a script: its files, a line of base64 each."""
    return b"".join(base64.b64encode(content) + b"\n" for content in files.values())
