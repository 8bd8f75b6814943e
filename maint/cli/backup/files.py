"""`maint backup files`: the manager's own files in a snapshot: list them, take one out."""

from pathlib import Path
from typing import Annotated

from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.open_site import opened
from maint.cli.options import STORE, Flags, argument, option
from maint.config.paths import absolute
from maint.errors import Invalid, Refused, UsageError, WorkFailed
from maint.files import create, writing
from maint.model.formatting import show_count
from maint.model.snapshot import Snapshot
from maint.snapshots.archive import MemberKind, members
from maint.snapshots.catalogue import find
from maint.snapshots.manifest import ANOTHER
from maint.snapshots.parts import MANAGER_FILES, open_part


@command(STORE)
def files(
    flags: Flags,
    snapshot: Annotated[str, argument("Its id or the beginning of it.")],
    extract: Annotated[str, option("--extract", "Take out the file that lay here on the host.")] = "",
    to: Annotated[str, option("--to", "Write it to this new file, 0600.")] = "",
) -> None:
    """List the manager's own files that a snapshot keeps, or take one out, such as the GUID."""
    if bool(extract) != bool(to):
        raise UsageError("--extract and --to belong together", hint="--extract PATH --to FILE")
    with opened(flags) as (site, screen):
        found = find(site, snapshot)
        if extract:
            target = absolute(to)
            content = _content(site, found, extract)
            if flags.dry_run:
                words = f"would write {extract} to {target}: {show_count(len(content), 'byte')}"
            else:
                _write(target, content)
                words = f"{extract} is in {target}, readable by its owner only"
            screen.emit({"path": extract, "file": str(target)}, words)
            return
        listed = list(found.manager_files)
        screen.emit({"snapshot": found.id, "files": list(listed)}, "\n".join(listed))
        if not listed:
            screen.say(f"snapshot {found.id} keeps no files of the manager's host")


def _content(site: ConfiguredSite, snapshot: Snapshot, path: str) -> bytes:
    if path not in snapshot.manager_files:
        hint = f"`maint backup files {snapshot.id}` lists them"
        raise UsageError(f"snapshot {snapshot.id} keeps no file {path}", hint=hint)
    found: bytes | None = None
    with open_part(site, snapshot, MANAGER_FILES) as stream:
        for member, content in members(stream.read):
            if member.path == path and member.kind is MemberKind.LINK:
                raise Invalid(f"{path} is a link to {member.target}", hint=f"extract {member.target}")
            found = content if member.path == path else found
    if found is None:
        raise WorkFailed(f"{path} is not in {MANAGER_FILES}, although the manifest lists it", hint=ANOTHER)
    return found


def _write(target: Path, content: bytes) -> None:
    if not target.parent.is_dir():
        raise WorkFailed(f"{target} cannot be written: there is no folder {target.parent}", hint="make it first")
    with writing(target, "name another place, or mend its permissions"):
        if not create(target, content):
            raise Refused(f"{target} is there already", hint="name a new file; nothing is overwritten")
