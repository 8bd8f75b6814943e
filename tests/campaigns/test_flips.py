"""Whatever happens to a byte of a snapshot, no verification says "verified"."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from maint.model.snapshot import Trust
from maint.snapshots.capture import take
from maint.snapshots.manifest import MANIFEST, SIGNATURE
from maint.snapshots.verify import verify
from tests.campaigns.size import SEED, size, tries
from tests.snapshots.conftest import EXAMPLE, Place

FLIPS = tries(60, 1_000)
STEP = size(64, 4) * 1024  # bytes between two lengths that a file is cut to


def run(generator: Any) -> Any:
    """Run a generator to its end and return what it returns."""
    while True:
        try:
            next(generator)
        except StopIteration as end:
            return end.value


def large() -> bytes:
    """Return the example with a megabyte of settings that no compression can shrink."""
    document = json.loads(EXAMPLE.read_bytes())
    chance = random.Random(SEED)
    service = document["clusters"][0]["services"][0]
    service.setdefault("config", {}).setdefault("items", [])
    service["config"]["items"] += [{"name": f"filler_{n}", "value": chance.randbytes(500).hex()} for n in range(1_000)]
    return json.dumps(document, indent=2).encode()


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, str]]:
    place = Place(tmp_path_factory.mktemp("flips"), large())
    yield place, run(take(place)).snapshot.id


@pytest.fixture(scope="module")
def files(taken: tuple[Place, str]) -> list[Path]:
    place, snapshot = taken
    found = sorted(path for path in place.folder(snapshot).rglob("*") if path.is_file())
    assert {MANIFEST, SIGNATURE} < {path.name for path in found}
    return found


def believed(taken: tuple[Place, str], level: int) -> bool:
    place, snapshot = taken
    return verify(place, snapshot, level).result is Trust.VERIFIED


def spoiled(path: Path, content: bytes, check: Callable[[], bool]) -> bool:
    """Return what a check says while a file has another content."""
    whole = path.read_bytes()
    path.write_bytes(content)
    try:
        return check()
    finally:
        path.write_bytes(whole)


def test_the_snapshot_is_sound_before_anything_is_done_to_it(taken: tuple[Place, str]) -> None:
    assert [believed(taken, level) for level in (1, 2, 3)] == [True, True, True]


def test_no_flipped_byte_is_reported_as_verified(taken: tuple[Place, str], files: list[Path]) -> None:
    chance = random.Random(SEED)
    believed_all_the_same = []
    for number in range(FLIPS):
        path = files[number % len(files)]
        content = bytearray(path.read_bytes())
        place = chance.randrange(len(content))
        content[place] ^= chance.randrange(1, 256)
        level = chance.choice([1, 2, 3])
        if spoiled(path, bytes(content), lambda level=level: believed(taken, level)):  # type: ignore[misc]
            believed_all_the_same.append((path.name, place, level))
    assert believed_all_the_same == []


def test_every_single_bit_of_the_signature_counts(taken: tuple[Place, str], files: list[Path]) -> None:
    (path,) = [path for path in files if path.name == SIGNATURE]
    whole = path.read_bytes()
    for place in range(0, len(whole), size(9, 1)):
        for bit in range(8):
            content = bytearray(whole)
            content[place] ^= 1 << bit
            assert not spoiled(path, bytes(content), lambda: believed(taken, 1)), (place, bit)


def test_no_shortened_file_is_reported_as_verified(taken: tuple[Place, str], files: list[Path]) -> None:
    tried, believed_all_the_same = 0, []
    for path in files:
        whole = path.read_bytes()
        for length in {*range(0, len(whole), STEP), len(whole) - 1}:
            tried += 1
            if spoiled(path, whole[:length], lambda: believed(taken, 1)):
                believed_all_the_same.append((path.name, length))
    assert believed_all_the_same == []
    assert tried > len(files)


def test_no_lengthened_missing_or_exchanged_file_is_reported_as_verified(
    taken: tuple[Place, str], files: list[Path], tmp_path: Path
) -> None:
    for path, other in zip(files, [*files[1:], files[0]], strict=True):
        whole = path.read_bytes()
        assert not spoiled(path, whole + b"\0", lambda: believed(taken, 1)), path.name
        assert not spoiled(path, whole + b"\n", lambda: believed(taken, 1)), path.name
        assert not spoiled(path, other.read_bytes(), lambda: believed(taken, 1)), path.name
        path.rename(tmp_path / "away")
        assert not believed(taken, 1), path.name
        (tmp_path / "away").rename(path)
