"""Files of the schedule on this machine: written whole or not at all, and only ones of our own are ever touched."""

import os
import secrets
import subprocess
from collections.abc import Sequence
from pathlib import Path

from maint.cli.schedule.units import MARK, File
from maint.errors import Refused, WorkFailed

MANAGED = Path("/run/systemd/system")  # exists where systemd runs the machine


def is_ours(path: Path) -> bool:
    """Whether a file is there that an installation wrote."""
    try:
        return path.read_text(errors="replace").startswith(MARK)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _disk(path, error) from error


def site_of(path: Path) -> str:
    """Return the site that a file of ours is for, "" for one that serves all."""
    return path.read_text().split("\n")[0].removeprefix(MARK).strip()


def state_of(file: File) -> str:
    """Return `missing`, `installed`, `differs` (ours, but other than it would be written now) or `foreign`."""
    if not file.path.exists():
        return "missing"
    if not is_ours(file.path):
        return "foreign"
    return "installed" if file.path.read_text() == file.content else "differs"


def refuse_foreign(files: Sequence[File]) -> None:
    """Refuse where one of the places is taken by a file that we did not write.

    Raises:
        Refused: so it is.
    """
    foreign = [str(file.path) for file in files if state_of(file) == "foreign"]
    if foreign:
        raise Refused("a file of that name is there that maint did not write", detail=foreign, hint="move it away")


def write(file: File) -> None:
    """Write a file so that a reader sees the old one or the new one, and it outlives a power cut.

    Raises:
        WorkFailed: the disk said no.
    """
    staged = file.path.with_name(f".{file.path.name}.{secrets.token_hex(4)}")
    try:
        file.path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w") as stream:
            stream.write(file.content)
            stream.flush()
            os.fsync(stream.fileno())
        staged.rename(file.path)
        _sync(file.path.parent)
    except OSError as error:
        staged.unlink(missing_ok=True)
        raise _disk(file.path, error) from error


def delete(path: Path) -> None:
    """Delete a file of ours.

    Raises:
        WorkFailed: the disk said no.
    """
    try:
        path.unlink(missing_ok=True)
        _sync(path.parent)
    except OSError as error:
        raise _disk(path, error) from error


def systemctl(*words: str, user: bool) -> str:
    """Tell the service manager something, and return what it answers.

    Raises:
        WorkFailed: it said no.
    """
    argv = ["systemctl", *(["--user"] if user else []), *words]
    try:
        ran = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WorkFailed("systemctl cannot be run", detail=[str(error)], hint="--folder DIR only writes") from error
    if ran.returncode:
        detail = ran.stderr.strip().splitlines()[-3:]
        raise WorkFailed(
            f"`{' '.join(argv)}` failed", detail=detail, hint="the files are written; mend that, then again"
        )
    return ran.stdout


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _disk(path: Path, error: OSError) -> WorkFailed:
    return WorkFailed(
        f"{path} cannot be changed: {error.strerror}",
        hint="run it as root, or with --user for units of your own, or --folder DIR for another place",
    )
