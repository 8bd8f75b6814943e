"""Record host keys in a known_hosts file, atomically."""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from maint.adapters.ssh.known_hosts import KnownHosts
from maint.errors import WorkFailed
from maint.files import make_folder, sync_folder
from maint.model.fleet import Presented


def record(path: Path, keys: Sequence[Presented]) -> None:
    """Write keys into a file; other lines stay as they are, older keys of the same names go.

    Raises:
        WorkFailed: the file cannot be read or written; it is as it was.
    """
    target = path.resolve()  # a link stays one
    try:
        old = target.read_text("utf-8", "surrogateescape") if target.exists() else ""
        names = {key.recorded_as.lower() for key in keys}
        lines = [line for line in old.splitlines() if not _only_names(line, names)]
        lines = [_without(line, names) for line in lines]
        lines += [f"{key.recorded_as} {key.type} {key.key}" for key in keys]
        _replace(target, "\n".join(lines) + "\n")
    except OSError as error:
        raise WorkFailed(f"{path} cannot be written: {error.strerror}", hint="look at ssh.known_hosts") from None


def _only_names(line: str, names: set[str]) -> bool:
    """Return whether a line holds a key of one of the names and of nobody else; markers stay."""
    words = line.split()
    if len(words) < 3 or words[0][0] in "#@":
        return False
    if words[0].startswith("|"):  # hashed: ask the one that can read it
        return any(KnownHosts([line]).types([name]) for name in names)
    return all(name in names for name in words[0].lower().split(","))


def _without(line: str, names: set[str]) -> str:
    """Take names out of a line that speaks of others too."""
    words = line.split(" ")
    if len(words) < 3 or not words[0] or words[0][0] in "#@|":
        return line
    kept = [name for name in words[0].split(",") if name.lower() not in names]
    return " ".join([",".join(kept), *words[1:]]) if len(kept) < len(words[0].split(",")) else line


def _replace(path: Path, text: str) -> None:
    make_folder(path.parent)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    staging = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        handle = os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        staging.replace(path)
        sync_folder(path.parent)
    finally:
        staging.unlink(missing_ok=True)
