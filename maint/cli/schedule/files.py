"""Files of the schedule on this machine: written whole or not at all, and only ones of our own are ever touched."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from maint.config.schema import SiteSettings
from maint.errors import Refused, WorkFailed
from maint.files import explaining, make_folder, remove, replace

MANAGED = Path("/run/systemd/system")  # exists where systemd runs the machine
SYSTEM_UNITS = Path("/etc/systemd/system")
CRON_FILES = Path("/etc/cron.d")
OWN_CRONTAB = Path("crontab -e")  # no folder of ours: what it is shown under
MARK = "# maint-schedule"
FORMS = ("systemd", "cron")
_ANOTHER = "run it as root, or with --user for units of your own, or --folder DIR for another place"


class ScheduleFile(msgspec.Struct, frozen=True):
    """A file of the schedule."""

    path: Path
    content: str


def folder_of(form: str, user: bool, environ: Mapping[str, str]) -> Path:
    """Return where files of a form belong."""
    if form == "cron":
        return OWN_CRONTAB if user else CRON_FILES
    if not user:
        return SYSTEM_UNITS
    home = Path(environ.get("HOME", "/"))
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "systemd/user"


def is_ours(path: Path) -> bool:
    """Whether a file is there that an installation wrote."""
    with _seeing(path):
        try:
            return path.read_text("utf-8", "replace").startswith(MARK)
        except FileNotFoundError:
            return False


def text_of(path: Path) -> str:
    """Return what a file holds, "" where there is none."""
    with _seeing(path):
        return path.read_text("utf-8", "replace") if path.exists() else ""


def site_of(path: Path) -> str:
    """Return the site that a file of ours is for, "" for one that serves all."""
    return path.read_text("utf-8", "replace").split("\n")[0].removeprefix(MARK).strip()


def playbooks(site: SiteSettings, *, user: bool, folder: Path | None) -> Mapping[str, Sequence[Path]]:
    """Return the playbooks that run by themselves on a site by name, each with the files that say so."""
    found: dict[str, list[Path]] = {}
    for form in FORMS:
        for path in sorted((folder or folder_of(form, user, os.environ)).glob("maint-playbook-*")):
            if is_ours(path) and site_of(path) == site.name:
                stem = path.name.removesuffix(".service").removesuffix(".timer")
                listed = found.setdefault(stem[len("maint-playbook-") : -len(site.name) - 1], [])
                listed += [] if path in listed else [path]
    return found


def state_of(file: ScheduleFile) -> str:
    """Return `missing`, `installed`, `differs` (ours, but other than it would be written now) or `foreign`."""
    with _seeing(file.path):
        if not file.path.exists():
            return "missing"
    if not is_ours(file.path):
        return "foreign"
    return "installed" if file.path.read_text("utf-8", "replace") == file.content else "differs"


def refuse_foreign(files: Sequence[ScheduleFile], site: str) -> None:
    """Refuse where a place is taken by a file that we did not write, or wrote for another site; Refused: so it is."""
    foreign = [str(file.path) for file in files if state_of(file) == "foreign"]
    if foreign:
        raise Refused("a file of that name is there that maint did not write", detail=foreign, hint="move it away")
    for path in (file.path for file in files):
        if is_ours(path) and (other := site_of(path)) not in ("", site):
            raise Refused(
                f"{path} is the schedule of site {other}, which would run no more",
                hint="its file has the same name (to cron a dot and an underscore are one; `--form systemd` tells them"
                f" apart): rename one of the two; only where there is no site {other} any more, delete the file",
            )


def write(file: ScheduleFile) -> None:
    """Write a file whole, so that it outlives a power cut; WorkFailed: it cannot be written."""
    with _changing(file.path):
        make_folder(file.path.parent, 0o755)
        replace(file.path, file.content.encode(), mode=0o644)


def delete(path: Path) -> None:
    """Delete a file of ours; WorkFailed: it cannot be deleted."""
    with _changing(path):
        remove(path)


def systemctl(*words: str, user: bool) -> str:
    """Call the service manager, and return what it answers; WorkFailed: it failed."""
    argv = ["systemctl", *(["--user"] if user else []), *words]
    try:
        ran = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, errors="replace", timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WorkFailed("systemctl cannot be run", detail=[str(error)], hint="--folder DIR only writes") from error
    if ran.returncode:
        detail = ran.stderr.strip().splitlines()[-3:]
        raise WorkFailed(
            f"`{' '.join(argv)}` failed", detail=detail, hint="the files are written; mend that, then again"
        )
    return ran.stdout


def _changing(path: Path) -> AbstractContextManager[None]:
    return explaining(f"{path} cannot be changed", _ANOTHER, WorkFailed)


def _seeing(path: Path) -> AbstractContextManager[None]:
    return explaining(f"{path} cannot be read", _ANOTHER, WorkFailed)
