"""Know hosts by their keys: read OpenSSH's known_hosts once, judge what a server presents, record what is believed."""

import base64
import hashlib
import hmac
import os
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from maint.config.schema import SshSettings
from maint.files import locked, read_file, reading, writing, written
from maint.model.fleet import Presented
from maint.model.fleet import Standing as Standing


class HostKey(msgspec.Struct, frozen=True):
    """A public key: its type, such as ssh-ed25519, and its bytes as SSH sends them."""

    type: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """What OpenSSH shows: `SHA256:…`."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")


class _Line(msgspec.Struct, frozen=True):
    marker: str
    patterns: tuple[str, ...]
    key: HostKey

    def speaks_of(self, name: str) -> bool:
        if any(pattern[0] == "!" and _matches(pattern[1:], name) for pattern in self.patterns):
            return False
        return any(_matches(pattern, name) for pattern in self.patterns)


class KnownHosts:
    """All that is recorded; read-only, so that threads may share it.

    Args:
        texts: contents of known_hosts files. Hashed names, `[host]:port`, patterns and `@revoked` are understood;
            `@cert-authority` lines and malformed ones are passed over: a key that is not found is never believed.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._exact: dict[str, list[_Line]] = {}
        self._others: list[_Line] = []
        for text in texts:
            for line in filter(None, map(_parse, text.splitlines())):
                if any(pattern.startswith("|") or set("*?!") & set(pattern) for pattern in line.patterns):
                    self._others.append(line)
                    continue
                for pattern in line.patterns:
                    self._exact.setdefault(pattern.lower(), []).append(line)

    def keys(self, names: Sequence[str]) -> tuple[HostKey, ...]:
        """Return the keys that are believed of a host."""
        return tuple(dict.fromkeys(line.key for line in self._lines(names) if not line.marker))

    def types(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the types of the keys recorded for a host: those that it should be asked for first."""
        return tuple(dict.fromkeys(key.type for key in self.keys(names)))

    def judge(self, names: Sequence[str], key: HostKey) -> Standing:
        """Return how a key stands for a host, under the first of its names that is recorded; see `recorded_name`."""
        if any(line.key == key for name in names for line in self._of(name) if line.marker == "@revoked"):
            return Standing.REVOKED
        lines = [line for line in self._lines(names) if not line.marker]
        if any(line.key == key for line in lines):
            return Standing.KNOWN
        return Standing.CHANGED if lines else Standing.UNKNOWN

    def _lines(self, names: Sequence[str]) -> list[_Line]:
        for name in names:
            if any(not line.marker for line in self._of(name)):
                return self._of(name)
        return []

    def _of(self, name: str) -> list[_Line]:
        name = name.lower()
        return self._exact.get(name, []) + [line for line in self._others if line.speaks_of(name)]


def trusted(settings: SshSettings) -> KnownHosts:
    """Read the files whose host keys are trusted; one that is not there knows nobody, and its hosts are refused.

    Raises:
        Invalid: one is closed to this account.
    """
    return KnownHosts(map(_text, settings.trusted_files))


def _text(path: Path) -> str:
    with reading(path):
        return path.read_text("utf-8", "replace") if path.is_file() else ""


def recorded_name(address: str, port: int) -> str:
    """Return what OpenSSH records a host under: the address, or `[address]:port` for any port but 22."""
    return address if port == 22 else f"[{address}]:{port}"


def _parse(text: str) -> _Line | None:
    words = text.split()
    if not words or words[0].startswith("#"):
        return None
    marker = words.pop(0) if words[0].startswith("@") else ""
    if len(words) < 3 or marker not in ("", "@revoked"):
        return None
    try:
        key = HostKey(words[1], base64.b64decode(words[2], validate=True))
    except ValueError:
        return None
    return _Line(marker, tuple(filter(None, words[0].split(","))), key)


def _matches(pattern: str, name: str) -> bool:
    if not pattern.startswith("|"):
        # `[host]:port` is not a set of characters.
        return fnmatchcase(name, pattern.lower().replace("[", "[[]"))
    try:
        _, kind, salt, digest = pattern.split("|")
        seed = base64.b64decode(salt, validate=True)
        return kind == "1" and hmac.digest(seed, name.encode(), "sha1") == base64.b64decode(digest, validate=True)
    except ValueError:
        return False


def record(path: Path, keys: Sequence[Presented]) -> None:
    """Write keys into a file; other lines, its owner and its mode stay, older keys of the same names go.

    Raises:
        WorkFailed: it cannot be written, and is as it was.
    """
    target = path.resolve()  # a link stays one
    with writing(path, "look at ssh.known_hosts"), locked(target.parent):  # other sites may have the same file
        facts = target.stat() if target.exists() else None
        old = read_file(target).decode("utf-8", "surrogateescape") if facts else ""
        names = {key.recorded_as.lower() for key in keys}
        lines = [kept for line in old.splitlines() if (kept := _without(line, names)) is not None]
        lines += [f"{key.recorded_as} {key.type} {key.key}" for key in keys]
        mode = facts.st_mode & 0o777 if facts else 0o600
        # Only root can give a file back to the account whose runs read it.
        owner = (facts.st_uid, facts.st_gid) if facts and facts.st_uid and os.geteuid() == 0 else None
        with written(target, mode=mode, owner=owner) as file:
            file.write(("\n".join(lines) + "\n").encode("utf-8", "surrogateescape"))


def _without(line: str, names: set[str]) -> str | None:
    # None: nothing else was recorded there.
    words = line.split(maxsplit=1)  # by blanks and tabs, as they are read
    if len(words) < 2 or words[0][0] in "#@":
        return line
    if words[0].startswith("|"):  # hashed: ask the one that can read it
        return None if any(KnownHosts([line]).types([name]) for name in names) else line
    recorded = words[0].split(",")
    kept = [name for name in recorded if name.lower() not in names]
    return line if kept == recorded else f"{','.join(kept)} {words[1]}" if kept else None
