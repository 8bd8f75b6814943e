"""Hosts over SSH, as Protocols: one (`Shell`), or all at once (`Fleet`); and the scripts for files there."""

import hashlib
import posixpath
import secrets
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from maint.config.schema import HostSettings
from maint.errors import WorkFailed
from maint.model.fleet import HostReply, Presented
from maint.model.manager import Host
from maint.model.secret import scrub
from maint.ports.streams import Answer

MISSING = 44  # status of the scripts that read a file or look for one, where there is none
_READ = """\
p={path}
if [ -e "$p" ]; then exec cat "$p"; fi
if [ -L "$p" ]; then exit {missing}; fi
"""
_SEEK = """\
test -e {path} && exit
p={path}
"""
_UNSEEN = """\
d=/${{p#/}}
while d=${{d%/*}}; [ -n "$d" ]; do
  if [ -e "$d" ]; then break; fi
done
if [ -d "${{d:-/}}" ] && [ ! -x "${{d:-/}}" ]; then echo "$d: not allowed to look into this folder" >&2; exit 1; fi
exit {missing}
"""
_TARGET = """\
set -eu
p={path}
if [ -L "$p" ]; then p=$(readlink -f "$p"); fi
if [ -d "$p" ]; then echo "$p is a folder" >&2; exit 1; fi
d=${{p%/*}}
d=${{d:-/}}
if [ ! -d "$d" ]; then echo "there is no folder $d" >&2; exit 1; fi
"""
_OWN = """\
o={owner}
g={group}
m={mode}
if [ -e "$p" ]; then
  : "${{o:=$(stat -c %u "$p")}}" "${{g:=$(stat -c %g "$p")}}" "${{m:=$(stat -c %a "$p")}}"
elif [ "$(id -u)" = 0 ]; then
  : "${{o:=0}}" "${{g:=0}}"
fi
if [ -n "$o$g" ]; then chown "$o:$g" "$t"; fi
chmod "${{m:-0644}}" "$t"
"""
LEFT_OVER = 60  # minutes after which a temporary file of ours belongs to a writer that is dead
_WHOLE = """\
find "$d" -maxdepth 1 -type f -name '.maint-????????????????' -mmin +{old} -exec rm -f '{{}}' ';' 2>/dev/null || :
t=$d/.maint-{token}
umask 077
trap 'rm -f "$t"' EXIT
trap 'exit 1' HUP INT TERM
set -C
cat > "$t"
set +C
sum=$(sha256sum < "$t")
if [ "${{sum%% *}}" != {sha256} ]; then echo "the content did not arrive whole" >&2; exit 1; fi
{own}\
sync "$t" 2>/dev/null || sync
{place}
sync "$d/" 2>/dev/null || sync
"""


class Ran(msgspec.Struct, frozen=True):
    """How a command on a host ended."""

    status: int
    out: bytes
    err: bytes

    @property
    def ok(self) -> bool:
        """Whether it exited 0."""
        return self.status == 0

    @property
    def words(self) -> str:
        """What it printed as words to show or to keep, without secrets that this process knows."""
        return scrub(self.out.decode("utf-8", "replace"))

    @property
    def complaint(self) -> str:
        """What it said on standard error, likewise."""
        return scrub(self.err.decode("utf-8", "replace"))

    @property
    def last_words(self) -> list[str]:
        """The last lines of its complaint, else how it ended."""
        lines = [line for line in self.complaint.splitlines() if line.strip()]
        return lines[-5:] or [f"exit status {self.status}"]


class ShellSight(Protocol):
    """Hosts over SSH, asking only. Hosts are addressed by the name that the config gives them."""

    def ask(self, host: str, command: str, *, stdin: bytes = b"", timeout: float | None = None) -> Ran:
        """Run a command that changes nothing (with sudo where configured) and return how it ended.

        Raises:
            CannotReach: no connection, unknown or changed host key, login refused, connection lost.
            TimedOut: the command did not end in time (seconds).
        """

    def stream(self, host: str, command: str, *, timeout: float | None = None) -> AbstractContextManager[Answer]:
        """Run a command that changes nothing and read what it prints while it runs.

        `read` returns b'' once the command has ended well, and raises `WorkFailed` when it ended with a status other
        than 0, `TimedOut` when nothing came for so many seconds, `CannotReach` when the connection was lost.
        """

    def read_file(self, host: str, path: str) -> bytes | None:
        """Return a file's bytes, or None where there is no such file."""


class Shell(ShellSight, Protocol):
    """Hosts over SSH, acting."""

    def run(self, host: str, command: str, *, stdin: bytes = b"", timeout: float | None = None) -> Ran:
        """Run a command that may change something; see `ask`."""

    def write_file(
        self,
        host: str,
        path: str,
        content: bytes,
        *,
        owner: str = "",
        group: str = "",
        mode: str = "",
        timeout: float | None = None,
    ) -> None:
        """Replace or make a file atomically; what is left open of owner and mode stays, else root's and 0644."""


class Fleet(Protocol):
    """Many hosts at once: one connection and one channel each, closed as soon as the host is done."""

    def ask(
        self, hosts: Sequence[HostSettings], scripts: Mapping[str, bytes], *, timeout: float | None = None
    ) -> Iterator[HostReply]:
        """Feed each host's script, which must change nothing, to `/bin/sh`; yield replies in the order of `hosts`.

        What fails on a host stands in its reply, hosts not done in `timeout` seconds too; Invalid: key or configuration
        cannot be used. Ending the iteration early leaves no connection and no thread behind.
        """

    def keys(self, hosts: Sequence[HostSettings], *, timeout: float | None = None) -> Iterator[Presented]:
        """Yield the host key that each host presents, in the order of `hosts`, without logging in."""


def configured_as(configured: Sequence[HostSettings], host: Host) -> list[str]:
    """Return which hosts of the config are one of the manager: by its full name or address, else by its short name."""
    full, short = host.hostname.lower(), host.hostname.lower().partition(".")[0]
    exact = [one.name for one in configured if {one.name.lower(), one.address.lower()} & {full, host.address} - {""}]
    return exact or [one.name for one in configured if one.name.lower() == short]


def written_whole(content: bytes, own: str, place: str) -> str:
    """Return the lines that write the script's input, if it is this content, to a file in the folder `$d`, or nothing.

    Args:
        own: lines that give the temporary file, `$t`, its owner and mode.
        place: the command that gives it its name.
    """
    digest = hashlib.sha256(content).hexdigest()
    return _WHOLE.format(old=LEFT_OVER, token=secrets.token_hex(8), sha256=digest, own=own, place=place)


def read_script(path: str) -> str:
    """Return a script that prints a file; it exits with `MISSING` where there is none."""
    return (_READ + _UNSEEN).format(path=_quoted(path), missing=MISSING)


def is_there(shell: ShellSight, host: str, path: str) -> bool:
    """Whether a host has something of that name; WorkFailed where the account may not look into its folder."""
    ran = shell.ask(host, (_SEEK + _UNSEEN).format(path=shlex.quote(path), missing=MISSING))
    if not ran.ok and ran.status != MISSING:
        hint = "log in there as root, or with `sudo` in the config"
        raise WorkFailed(f"{host}: whether {path} is there cannot be seen", detail=ran.last_words, hint=hint)
    return ran.ok


def write_script(path: str, content: bytes, *, owner: str = "", group: str = "", mode: str = "") -> str:
    """Return a script that replaces a file, through a link too, by its input, atomically, if that is this content.

    What is empty of owner, group and mode stays as it was, else root's and 0644.
    """
    own = _OWN.format(owner=shlex.quote(owner), group=shlex.quote(group), mode=shlex.quote(mode))
    return _TARGET.format(path=_quoted(path)) + written_whole(content, own, 'mv -f "$t" "$p"')


def _quoted(path: str) -> str:
    if not posixpath.isabs(path) or path.endswith("/") or "\0" in path:
        raise ValueError(f"{path!r} is not the absolute path of a file")
    return shlex.quote(path)
