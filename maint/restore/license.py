"""Which licence a restore uploads: a named file, else the one that the config names, else the snapshot's own part."""

from pathlib import Path

from maint.errors import Invalid
from maint.ports import Sight
from maint.restore.select_snapshot import chosen
from maint.snapshots.parts import LICENSE, read_part


def license_content(sight: Sight, *, file: str, snapshot: str | None) -> tuple[bytes, str]:
    """Return a licence and where it comes from: the named file, else the config's, else the snapshot's part.

    Args:
        sight: the site.
        file: a path; empty for none.
        snapshot: a snapshot's id, empty for the newest restorable one; None where no snapshot is meant.

    Raises:
        Invalid: there is none, or it cannot be read.
    """
    path = Path(file) if file else sight.settings.manager.license
    if path is not None:
        try:
            return path.read_bytes(), str(path)
        except OSError as error:
            raise Invalid(
                f"the licence {path} cannot be read: {error.strerror}", hint="check `manager.license`"
            ) from error
    if snapshot is not None:
        found = chosen(sight, snapshot)
        if any(part.name == LICENSE for part in found.parts):
            return read_part(sight, found, LICENSE), f"snapshot {found.id}"
    raise Invalid(
        "there is no licence to upload",
        hint="set `manager.license` in the config, or name a file: `maint manager license FILE`",
    )
