"""`maint generate constraints|bundle|container`: how what was tested gets to another machine."""

import base64
import errno
import gzip
import hashlib
import importlib.metadata
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import maint
from maint.cli.command import command
from maint.cli.options import Flags, option
from maint.config.paths import absolute
from maint.errors import TEMPORARY_ROOM, Refused, UsageError, WorkFailed, shortage
from maint.files import create, try_writing, visible, writing
from maint.model.formatting import show_count, show_size
from maint.render import from_file

FILE = files("maint.cli") / "constraints.txt"
_PINNED = re.compile(r"^(\S+)==(\S+)((?: --hash=\S+)*)$", re.MULTILINE)
# A name as registries have it, with a tag or a digest where one is given; never a line of its own.
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]*(@sha256:[0-9a-f]{64})?")
_USER = 10001
_PIP = (sys.executable, "-P", "-m", "pip")  # -P: never what lies in the working folder
_LIMIT = 900  # seconds that pip may take
_OURS = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})  # what an installation adds to a wheel
_MOMENT = (1980, 1, 1, 0, 0, 0)  # of every file in the wheel, so that equal contents are equal bytes


def tested(*, hashes: bool = False) -> str:
    """Return what was tested as pip reads it: one `name==version` a line, with hashes where they are wanted."""
    lines = _PINNED.findall(FILE.read_text("utf-8"))
    return "".join(f"{name}=={number}{known if hashes else ''}\n" for name, number, known in lines)


@command()
def constraints(
    flags: Flags,
    hashes: Annotated[bool, option("--hashes", "With the hash of each wheel, for --require-hashes.")] = False,
) -> None:
    """Print the versions that were tested: for `pip install -c FILE`, or with hashes for `--require-hashes -r FILE`."""
    text = tested(hashes=hashes)
    flags.screen().emit({"constraints": text}, text.rstrip())


@command()
def container(
    flags: Flags,
    image: Annotated[
        str, option("--image", "The image to build on, with Python 3.11 or newer.")
    ] = "docker.io/library/python:3.11-slim-bookworm",
) -> None:
    """Print a Containerfile that installs from `maint generate bundle`; its comments say how it is built and run."""
    if not _IMAGE.fullmatch(image):
        hint = "such as registry.example.internal/python:3.11, with a tag or a digest"
        raise UsageError(f"--image {image!r} is not a name of an image", hint=hint)
    text = from_file("Containerfile.j2", {"version": maint.__version__, "image": image, "user": _USER})
    flags.screen().emit({"containerfile": text}, text.rstrip())


@command()
def bundle(
    flags: Flags,
    to: Annotated[str, option("--to", "The file to write, a .tar.gz.")] = "maint-bundle.tar.gz",
    python: Annotated[str, option("--python", "For another Python than this one, such as 3.12.")] = "",
) -> None:
    """Write this version, all it needs in the versions that were tested, checksums and an install script into a file.

    pip fetches the wheels as it is configured here; what it gets is held against the hashes that were tested.
    """
    target = absolute(to)
    there = Refused(f"{target} is there already", hint="name another file: --to FILE")
    if visible(target):
        raise there
    if flags.dry_run:
        flags.screen().emit({"path": str(target)}, f"would fetch {len(tested().splitlines())} wheels into {target}")
        return
    with tempfile.TemporaryDirectory() as name, _in_room_for_temporary(folder := Path(name)):
        with writing(target):
            try_writing(target)
        (folder / "constraints.txt").write_text(tested(hashes=True))
        _fetch(folder, python)
        own = own_wheel(folder / "wheels")
        (folder / "install.sh").write_text(
            from_file("install.sh.j2", {"version": maint.__version__, "wheel": own.name})
        )
        content = packed(folder)
        names = sorted(path.name for path in (folder / "wheels").iterdir())
    with writing(target):
        if not create(target, content, mode=0o644):
            raise there
    digest = hashlib.sha256(content).hexdigest()
    words = f"{target}: {show_count(len(names), 'wheel')}, {show_size(len(content))}, SHA-256 {digest}"
    flags.screen().emit({"path": str(target), "sha256": digest, "packages": list(names)}, words)


@contextmanager
def _in_room_for_temporary(folder: Path) -> Iterator[None]:
    """Turn an OSError in the block into WorkFailed: there is no room, but another folder can be named."""
    try:
        yield
    except OSError as error:
        words = f"{folder} cannot be written: {error.strerror or error}"
        raise shortage(error) or WorkFailed(words, hint=TEMPORARY_ROOM) from error


def _fetch(folder: Path, python: str) -> None:
    """Let pip fetch the wheels that were tested; it refuses what has another hash."""
    words = [*_PIP, "download", "--quiet", "--only-binary=:all:", "--no-deps", "--require-hashes"]
    words += ["--dest", str(folder / "wheels"), "-r", str(folder / "constraints.txt")]
    words += ["--python-version", python] if python else []
    ran = _of_pip(words)
    if ran.returncode:
        _insist_on_room(ran.stderr, folder)
        told = [line for line in ran.stderr.strip().splitlines() if not line.startswith("WARNING")][-3:]
        hint = "pip is needed here, with an index that it reaches; --python names another Python than this one"
        raise WorkFailed("pip could not fetch what was tested", detail=told, hint=hint)


def _of_pip(words: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Return how pip ended; WorkFailed: it did not within the time that it may take."""
    try:
        return subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=_LIMIT, check=False)
    except subprocess.TimeoutExpired:
        raise WorkFailed(f"pip took longer than {_LIMIT} s", hint="look at its index: pip config list") from None


def _insist_on_room(said: str, folder: Path) -> None:
    """Raise WorkFailed where pip stopped since the disk is full: it says so below a dozen lines of its own code."""
    if (full := os.strerror(errno.ENOSPC)) in said:
        raise WorkFailed(f"{folder} cannot be written: {full}", hint=TEMPORARY_ROOM)


def own_wheel(folder: Path) -> Path:
    """Put the wheel of this version into a folder; WorkFailed: it cannot be built from this checkout."""
    checkout = Path(maint.__file__).resolve().parents[1]
    if (checkout / "pyproject.toml").is_file():
        return _built(checkout, folder)
    found = importlib.metadata.distribution("maint")
    own = {str(path): Path(str(found.locate_file(path))).read_bytes() for path in found.files or () if _belongs(path)}
    path = folder / f"maint-{maint.__version__}-py3-none-any.whl"
    path.write_bytes(_wheel(own, f"maint-{maint.__version__}.dist-info/RECORD"))
    return path


def _belongs(path: importlib.metadata.PackagePath) -> bool:
    return path.parts[0].startswith("maint") and path.suffix != ".pyc" and path.name not in _OURS


def _wheel(files: Mapping[str, bytes], record: str) -> bytes:
    """Return files as a wheel, equal bytes for equal files."""
    lines = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in sorted(files.items())]
    whole = {**dict(sorted(files.items())), record: "\n".join([*lines, f"{record},,"]).encode() + b"\n"}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in whole.items():
            entry = zipfile.ZipInfo(name, _MOMENT)
            entry.external_attr, entry.compress_type = 0o100644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return made.getvalue()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def _built(source: Path, folder: Path) -> Path:
    words = [*_PIP, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder)]
    isolated = (
        [] if shutil.which("hatchling", path=str(Path(sys.executable).parent)) is None else ["--no-build-isolation"]
    )
    ran = _of_pip([*words, *isolated, str(source)])
    if ran.returncode:
        _insist_on_room(ran.stderr, folder)
        told = ran.stderr.strip().splitlines()[-3:]
        raise WorkFailed("the wheel could not be built", detail=told, hint=f"pip wheel {source} says more")
    return next(folder.glob("maint-*.whl"))


def packed(folder: Path) -> bytes:
    """Return a folder as .tar.gz with `SHA256SUMS` of all that is in it; equal bytes for equal files."""
    held = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in held.items())
    made = io.BytesIO()
    # Wheels are compressed already: to look for more takes seconds, and finds nothing.
    packing = gzip.GzipFile(fileobj=made, mode="wb", compresslevel=1, mtime=0)
    with packing, tarfile.open(fileobj=packing, mode="w") as archive:
        for name, content in {**held, "SHA256SUMS": sums.encode()}.items():
            entry = tarfile.TarInfo(f"maint-{maint.__version__}/{name}")
            entry.size, entry.mode = len(content), 0o755 if name.endswith(".sh") else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()
