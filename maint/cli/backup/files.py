"""`maint backup files`: the manager's own files in a snapshot: list them, take one out."""

import os
from pathlib import Path

from maint.cli.composition import ConfiguredSite
from maint.cli.flags import Flags
from maint.cli.open_site import opened
from maint.errors import Invalid, Refused, UsageError, WorkFailed
from maint.model.snapshot import Snapshot
from maint.snapshots.archive import Kind, members
from maint.snapshots.catalogue import find
from maint.snapshots.parts import MANAGER_FILES, open_part


def run(flags: Flags, wanted: str, extract: str, to: str) -> None:
    """List the files, or write one of them to a new private file."""
    if bool(extract) != bool(to):
        raise UsageError("--extract and --to belong together", hint="--extract PATH --to FILE")
    with opened(flags) as (site, screen):
        snapshot = find(site, wanted)
        if extract:
            target = Path(to).absolute()
            _write(target, _content(site, snapshot, extract))
            screen.emit({"path": extract, "file": str(target)}, f"{extract} is in {target}, readable by its owner only")
            return
        listed = list(snapshot.manager_files)
        screen.emit({"snapshot": snapshot.id, "files": list(listed)}, "\n".join(listed))
        if not listed:
            screen.say(f"snapshot {snapshot.id} keeps no files of the manager's host")


def _content(site: ConfiguredSite, snapshot: Snapshot, path: str) -> bytes:
    if path not in snapshot.manager_files:
        hint = f"`maint backup files {snapshot.id}` lists them"
        raise Invalid(f"snapshot {snapshot.id} keeps no file {path}", hint=hint)
    found: bytes | None = None
    with open_part(site, snapshot, MANAGER_FILES) as stream:
        for member, content in members(stream.read):
            if member.path == path and member.kind is Kind.LINK:
                raise Invalid(f"{path} is a link to {member.target}", hint=f"extract {member.target}")
            found = content if member.path == path else found
    if found is None:
        raise WorkFailed(f"{path} is not in {MANAGER_FILES}, although the manifest lists it")
    return found


def _write(target: Path, content: bytes) -> None:
    try:
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Refused(f"{target} is there already", hint="name a new file; nothing is overwritten") from None
    except OSError as error:
        raise WorkFailed(f"{target} cannot be written: {error.strerror}") from error
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
