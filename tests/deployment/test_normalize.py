"""A capture holds blocks of the document, never the document; and when it is cut, everything it began ends."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from maint.errors import CannotReach
from maint.snapshots.capture import take
from tests.benchmarks.exports import PASSWORD, Export

# Judges, seals, reads back and redacts an export in a process of its own, and prints how much memory that took.
PROGRAM = """
import sys
from pathlib import Path
from maint.adapters.seal import AgeSeal
from maint.deployment.secrets import Fingerprint
from maint.deployment.judge import Judge
from maint.deployment.secrets import SecretIndex
from maint.deployment.reader import blocks
from maint.deployment.redacted_copy import RedactedCopy

export, folder = Path(sys.argv[1]), Path(sys.argv[2])
def most():  # kibibytes; `ru_maxrss` would begin with what the parent took
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

seal, known = AgeSeal(), SecretIndex()
identity, recipient = seal.new_identity()
idle = most()
with export.open("rb") as source, (folder / "raw").open("wb") as target:
    seal.wrap(source.read, target, [recipient])
judge = Judge(secrets=known)
with (folder / "raw").open("rb") as file, seal.unwrap(file, [identity]) as stream:
    for block in blocks(stream.read):
        judge.feed(block)
assert judge.close().restorable
with (folder / "raw").open("rb") as file, seal.unwrap(file, [identity]) as stream:
    copy = RedactedCopy(blocks(stream.read), known, Fingerprint(b"k"))
    with (folder / "copy").open("wb") as target:
        seal.compress(copy.read, target)
print(most() - idle)
"""


def kilobytes(export: Path, folder: Path) -> int:
    command = [sys.executable, "-c", PROGRAM, str(export), str(folder)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_memory_hardly_grows_with_the_document(tmp_path: Path) -> None:
    """Only the secrets are kept, and what references are made of, and what Python does not give back."""
    small = kilobytes(Export(1).file(tmp_path), tmp_path)
    large = kilobytes(Export(12).file(tmp_path), tmp_path)
    assert large - small < 16 * 1024  # of which a document that is kept would take 11 more
    assert large < 28 * 1024


def pipes() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "maint-pipe"]


@pytest.mark.parametrize("at", [0, 1, 300_000, 1_000_000])
def test_a_capture_that_is_cut_ends_all_that_it_began(
    at: int, place_of: Callable[..., object], run: Callable[..., object]
) -> None:
    content = b"".join(Export(1).blocks())
    place = place_of(content, PASSWORD)
    place.manager.cut_at = at  # type: ignore[attr-defined]  # the scripted manager of conftest
    with pytest.raises(CannotReach):
        run(take(place))  # type: ignore[arg-type]  # as much of a site as a capture asks for
    assert pipes() == []
    assert list(place.store.names()) == []  # type: ignore[attr-defined]


def test_a_redaction_that_fails_half_way_ends_all_that_it_began(
    place_of: Callable[..., object], run: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"".join(Export(1).blocks())
    place = place_of(content, PASSWORD)

    def full(value: str) -> str:
        raise OSError("the disk is full")

    monkeypatch.setattr("maint.snapshots.writer.site_fingerprint", lambda site: full)
    with pytest.raises(OSError, match="full"):
        run(take(place))  # type: ignore[arg-type]
    assert pipes() == []
    assert list(place.store.names()) == []  # type: ignore[attr-defined]
