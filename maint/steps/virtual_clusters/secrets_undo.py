"""What a user's secrets were before they are changed: sealed, and found again by whoever comes after a kill."""

import hashlib
import json
import os
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

import msgspec

from maint.ports import Shell, Undo
from maint.steps.virtual_clusters.kubernetes_secrets import Cabinet, Manifest, contents_of

_FOLDER = "user-secrets"


class Kept(msgspec.Struct, frozen=True):
    """The old secrets of a user.

    Attributes:
        old: by name; None for one that was not there.
        sealed: the name under which they are sealed.
        path: the record that says so.
    """

    old: Mapping[str, Manifest | None]
    sealed: str
    path: Path


def record_of(state: Path, namespace: str, secret: str) -> Path:
    """Return where it is written down that a user's old secrets are kept."""
    return state / _FOLDER / f"{namespace}.{secret}.json"


def keep(path: Path, undo: Undo, names: Sequence[str], live: Mapping[str, Manifest], fresh: str) -> Kept:
    """Seal the secrets that are to come back on failure, on disk before this returns.

    What an earlier life, or a run that nobody took up, had sealed counts instead, unless it got as far as the new
    secrets or had not begun: what is there now may be half of a change.

    Args:
        path: the record.
        undo: seals.
        names: both secrets.
        live: what is there now.
        fresh: digest of the secrets that are to be written.
    """
    before = _read(path, undo)
    if before is not None:
        kept, wanted = before
        now = digest(names, live)
        if now not in (wanted, digest(names, kept.old)):
            return kept
        forget(kept, undo)
    old: dict[str, Manifest | None] = {name: live.get(name) for name in names}
    sealed = undo.keep(json.dumps(old).encode())
    _write(path, {"sealed": sealed, "fresh": fresh})
    return Kept(old, sealed, path)


def _read(path: Path, undo: Undo) -> tuple[Kept, str] | None:
    try:
        told = json.loads(path.read_text())
        return Kept(json.loads(undo.fetch(told["sealed"])), told["sealed"], path), str(told["fresh"])
    except (FileNotFoundError, KeyError):  # the record goes after what it names
        return None


def forget(kept: Kept, undo: Undo) -> None:
    """Drop what was kept."""
    undo.drop(kept.sealed)
    kept.path.unlink(missing_ok=True)


def digest(names: Sequence[str], secrets: Mapping[str, Manifest | None]) -> str:
    """Return a digest of what secrets hold; labels and the like do not count."""
    held = []
    for name in names:
        contents = contents_of(secrets.get(name))
        held.append([name, None if contents is None else sorted((k, hash_of(v)) for k, v in contents.items())])
    return hash_of(json.dumps(held).encode())


def hash_of(content: bytes) -> str:
    """Return the SHA-256 in hex."""
    return hashlib.sha256(content).hexdigest()


def put_back(kept: Kept, cabinet: Cabinet, shell: Shell, *, apply: bool) -> Generator[str, None, None]:
    """Write the old secrets again; one that was not there goes.

    Args:
        kept: what they were.
        cabinet: where they are.
        shell: the hosts.
        apply: whether server-side apply is to be had.

    Raises:
        WorkFailed: not all could be put back.
    """
    there = [secret for secret in kept.old.values() if secret is not None]
    yield f"putting {len(there)} old secrets back"
    if apply and there:
        cabinet.apply(shell, there)
    for secret in () if apply else there:
        cabinet.put(shell, secret)
    for name in (name for name, secret in kept.old.items() if secret is None):
        cabinet.remove(shell, name)


def _write(path: Path, record: Mapping[str, str]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    staged = path.with_suffix(".new")
    handle = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        json.dump(record, file)
        file.flush()
        os.fsync(file.fileno())
    staged.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
