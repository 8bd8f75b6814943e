"""Streams through zstd and age: what goes in comes out, stock tools agree, damage is never taken for an end."""

import io
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maint.adapters.seal import AgeSeal
from maint.errors import Interrupted, Invalid, WorkFailed
from maint.model.secret import Secret

SEAL = AgeSeal()
IDENTITY, RECIPIENT = SEAL.new_identity()
AGE = pytest.mark.skipif(not shutil.which("age"), reason="the tool age is not installed")
ZSTD = pytest.mark.skipif(not shutil.which("zstd"), reason="the tool zstd is not installed")
CONTENT = b'{"name": "a", "value": "b"}' * 20_000 + random.Random(1).randbytes(200_000)


def wrap(content: bytes) -> bytes:
    target = io.BytesIO()
    SEAL.wrap(io.BytesIO(content).read, target, [RECIPIENT])
    return target.getvalue()


def unwrap(sealed: bytes, *identities: Secret) -> bytes:
    with SEAL.unwrap(io.BytesIO(sealed), identities or [IDENTITY]) as stream:
        return stream.read()


def compress(content: bytes) -> bytes:
    target = io.BytesIO()
    SEAL.compress(io.BytesIO(content).read, target)
    return target.getvalue()


def decompress(packed: bytes) -> bytes:
    with SEAL.decompress(io.BytesIO(packed)) as stream:
        return stream.read()


SEALED = wrap(CONTENT)
PACKED = compress(CONTENT)


@given(st.integers(0, 300_000), st.booleans(), st.integers(1, 400_000))
def test_what_goes_in_comes_out_in_whatever_pieces_it_comes(size: int, packs: bool, piece: int) -> None:
    content = (bytes(range(256)) * (size // 256 + 1))[:size] if packs else random.Random(size).randbytes(size)
    source = io.BytesIO(content)
    target = io.BytesIO()
    SEAL.wrap(lambda size: source.read(min(size, piece)), target, [RECIPIENT])
    assert unwrap(target.getvalue()) == content
    assert decompress(compress(content)) == content


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 131_072, 262_144, 1_000_000])
def test_sizes_at_the_edges_of_blocks_come_out_whole(size: int) -> None:
    content = os.urandom(size)
    assert unwrap(wrap(content)) == content


def test_what_compresses_a_thousandfold_comes_out_in_small_pieces() -> None:
    with SEAL.decompress(io.BytesIO(compress(b"x" * 50_000_000))) as stream:
        total = 0
        while block := stream.read(100_000):
            total += len(block)
    assert total == 50_000_000


def test_each_of_several_recipients_can_open_it() -> None:
    other, recipient = SEAL.new_identity()
    target = io.BytesIO()
    SEAL.wrap(io.BytesIO(b"content").read, target, [RECIPIENT, recipient])
    assert unwrap(target.getvalue(), IDENTITY) == unwrap(target.getvalue(), other) == b"content"


def test_a_key_file_with_comments_is_a_key() -> None:
    with_comments = Secret(f"# created: today\n# public key: {RECIPIENT}\n{IDENTITY.reveal()}\n")
    assert SEAL.recipient_of(with_comments) == RECIPIENT
    assert unwrap(SEALED, with_comments) == CONTENT


def test_a_wrong_key_is_told_apart_from_damage() -> None:
    with pytest.raises(WorkFailed, match="none of the private keys"):
        unwrap(SEALED, SEAL.new_identity()[0])


@pytest.mark.parametrize("text", ["", "age1zz", "AGE-SECRET-KEY-1XYZ", "# only a comment"])
def test_what_is_no_key_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(Invalid) as refusal:
        SEAL.recipient_of(Secret(text))
    assert not text or text not in f"{refusal.value.message} {refusal.value.detail}"


@pytest.mark.parametrize("recipients", [[], ["age1zz"], [IDENTITY.reveal()[:10]]])
def test_nothing_is_written_for_recipients_that_do_not_exist(recipients: list[str]) -> None:
    target = io.BytesIO()
    with pytest.raises(Invalid):
        SEAL.wrap(io.BytesIO(b"x").read, target, recipients)
    assert target.getvalue() == b""


def test_no_private_key_at_all_is_refused() -> None:
    with pytest.raises(Invalid), SEAL.unwrap(io.BytesIO(SEALED), []):
        pass


@pytest.mark.parametrize("place", [0, 30, 150, 300, 100_000, -65_600, -17, -16, -1])
def test_a_flipped_bit_anywhere_is_found(place: int) -> None:
    damaged = bytearray(SEALED)
    damaged[place] ^= 1
    with pytest.raises(WorkFailed):
        unwrap(bytes(damaged))


@pytest.mark.parametrize("end", [0, 1, 100, 65_536, -65_552, -16, -1])
def test_a_file_cut_anywhere_is_found(end: int) -> None:
    with pytest.raises(WorkFailed):
        unwrap(SEALED[:end])


@pytest.mark.parametrize("tail", [b"\0", b"\n", SEALED, os.urandom(65_552)], ids=["nul", "newline", "itself", "noise"])
def test_what_follows_the_end_is_found(tail: bytes) -> None:
    with pytest.raises(WorkFailed):
        unwrap(SEALED + tail)


@pytest.mark.parametrize("length", [0, 1, 4, 5, 8, 1000, -5, -4, -1])
def test_a_compressed_file_cut_anywhere_is_found(length: int) -> None:
    with pytest.raises(WorkFailed):
        decompress(PACKED[:length])


@pytest.mark.parametrize("place", [0, 4, 9, 100_000, -4, -1])
def test_a_compressed_file_with_a_flipped_bit_is_found(place: int) -> None:
    damaged = bytearray(PACKED)
    damaged[place] ^= 1
    with pytest.raises(WorkFailed):
        decompress(bytes(damaged))


@pytest.mark.parametrize("tail", [b"\0", b"x" * 100, PACKED])
def test_what_follows_the_compressed_end_is_found_also_inside_the_encryption(tail: bytes) -> None:
    with pytest.raises(WorkFailed):
        decompress(PACKED + tail)
    with pytest.raises(WorkFailed):
        unwrap(age_only(PACKED + tail))
    with pytest.raises(WorkFailed):
        unwrap(age_only(PACKED[:-10]))


def age_only(content: bytes) -> bytes:
    import pyrage  # the library itself, to make files that our own writer never makes

    return cast(bytes, pyrage.encrypt(content, [pyrage.x25519.Recipient.from_str(RECIPIENT)]))


def test_whoever_reads_all_bytes_but_not_the_end_learns_of_a_false_end() -> None:
    sealed = wrap(b"x" * 100_000)
    with (
        pytest.raises(WorkFailed),
        SEAL.unwrap(io.BytesIO(sealed + b"!"), [IDENTITY]) as stream,
    ):
        assert stream.read(100_000) == b"x" * 100_000


def test_a_stream_that_failed_fails_again_and_once_more_when_it_is_left() -> None:
    with pytest.raises(WorkFailed), SEAL.unwrap(io.BytesIO(SEALED[:-1]), [IDENTITY]) as stream:
        for _ in range(2):
            with pytest.raises(WorkFailed):
                while stream.read(65_536):
                    pass


class Mine(BaseException):
    """Something of the caller's own."""


def failing_after(size: int, failure: BaseException) -> Callable[[int], bytes]:
    source = io.BytesIO(os.urandom(size))

    def read(count: int) -> bytes:
        if block := source.read(count):
            return block
        raise failure

    return read


@pytest.mark.parametrize("size", [0, 1000, 3_000_000])
def test_what_a_source_raises_comes_out_as_itself_and_no_thread_stays(size: int) -> None:
    before = threading.active_count()
    mine = Mine()
    with pytest.raises(Mine) as raised:
        SEAL.wrap(failing_after(size, mine), io.BytesIO(), [RECIPIENT])
    assert raised.value is mine
    with pytest.raises(Mine):
        SEAL.compress(failing_after(size, mine), io.BytesIO())
    assert threading.active_count() == before


class FullDisk(io.BytesIO):
    """Takes so many bytes and no more."""

    def write(self, block: object, /) -> int:
        written = super().write(block)  # type: ignore[arg-type]  # whatever BytesIO takes
        if self.tell() > 200_000:
            raise WorkFailed("no space left")
        return written


class Full(io.RawIOBase):
    """A disk that takes some writes and is full then."""

    def __init__(self, takes: int) -> None:
        self.takes = takes
        self.asked = 0

    def write(self, block: object) -> int:
        self.asked += 1
        if self.asked > self.takes:
            raise BrokenPipeError("the disk is full")
        return len(cast(bytes, block))


@pytest.mark.parametrize("way", [SEAL.encrypt, SEAL.wrap], ids=["encrypt", "wrap"])
@pytest.mark.parametrize("size", [0, 10, 100_000, 700_000])
def test_no_write_that_fails_goes_unnoticed_not_even_the_last(way: Callable[..., None], size: int) -> None:
    content = os.urandom(size)
    whole = Full(1_000)
    way(io.BytesIO(content).read, cast(io.BytesIO, whole), [RECIPIENT])
    for takes in range(whole.asked):
        with pytest.raises(BrokenPipeError):
            way(io.BytesIO(content).read, cast(io.BytesIO, Full(takes)), [RECIPIENT])


def test_what_a_target_raises_comes_out_as_itself_and_the_source_is_not_read_for_ever() -> None:
    before = threading.active_count()
    with pytest.raises(WorkFailed, match="no space left"):
        SEAL.wrap(os.urandom, FullDisk(), [RECIPIENT])
    assert threading.active_count() == before


@pytest.mark.parametrize("size", [0, 200, 100_000, 3_000_000])
def test_what_a_sealed_source_raises_comes_out_as_itself(size: int) -> None:
    before = threading.active_count()

    class Dying(io.BytesIO):
        def read(self, count: int | None = -1, /) -> bytes:
            if block := super().read(count):
                return block
            raise Mine

    with pytest.raises(Mine), SEAL.unwrap(Dying(wrap(os.urandom(size))[:-1]), [IDENTITY]) as stream:
        stream.read()
    assert threading.active_count() == before


def test_a_stream_left_early_leaves_no_thread() -> None:
    before = threading.active_count()
    sealed = wrap(os.urandom(5_000_000))
    with SEAL.unwrap(io.BytesIO(sealed), [IDENTITY]) as stream:
        assert len(stream.read(10)) == 10
    with pytest.raises(ZeroDivisionError), SEAL.unwrap(io.BytesIO(sealed), [IDENTITY]) as stream:
        raise ZeroDivisionError
    with SEAL.unwrap(io.BytesIO(sealed), [IDENTITY]):
        pass
    assert threading.active_count() == before


@pytest.fixture
def identity_file(tmp_path: Path) -> Path:
    path = tmp_path / "identity"
    path.write_text(IDENTITY.reveal() + "\n")
    return path


@AGE
@ZSTD
def test_stock_age_and_zstd_read_what_we_write(tmp_path: Path, identity_file: Path) -> None:
    (tmp_path / "sealed").write_bytes(SEALED)
    script = 'age -d -i "$1" "$2" | zstd -d'
    words = ["sh", "-c", script, "sh", str(identity_file), str(tmp_path / "sealed")]
    assert subprocess.run(words, capture_output=True, check=True).stdout == CONTENT
    assert subprocess.run(["zstd", "-d"], input=PACKED, capture_output=True, check=True).stdout == CONTENT


@AGE
@ZSTD
@pytest.mark.parametrize("options", ["-3", "-1", "-19", "-3 --no-check", "-3 --long=27"])
def test_we_read_what_stock_zstd_and_age_write(options: str) -> None:
    words = ["sh", "-c", f'zstd {options} | age -r "$1"', "sh", RECIPIENT]
    assert unwrap(subprocess.run(words, input=CONTENT, capture_output=True, check=True).stdout) == CONTENT


@AGE
def test_stock_age_keygen_agrees_about_keys(identity_file: Path) -> None:
    shown = subprocess.run(["age-keygen", "-y", identity_file], capture_output=True, check=True, text=True)
    assert shown.stdout.strip() == RECIPIENT == SEAL.recipient_of(IDENTITY)
    made = subprocess.run(["age-keygen"], capture_output=True, check=True, text=True)
    assert SEAL.recipient_of(Secret(made.stdout)) in made.stdout


def test_a_signal_is_neither_lost_nor_taken_for_a_failure_of_the_encryption(monkeypatch: pytest.MonkeyPatch) -> None:
    rung, listening, caught = list[int](), False, 0  # no alarm: that is pytest's own
    # Where it strikes while an object goes, such as the thread, Python itself drops what is raised, and says so here.
    dropped = list[type[BaseException]]()
    monkeypatch.setattr(sys, "unraisablehook", lambda told: dropped.append(told.exc_type))

    def ring(number: int, _frame: object) -> None:
        nonlocal listening
        if listening:
            listening = False
            rung.append(number)
            raise Interrupted(number)

    content = random.Random(1).randbytes(3_000_000)
    before = signal.signal(signal.SIGUSR1, ring)
    try:
        for tries in range(60):
            bell = threading.Timer(0.0003 * (tries % 20 + 1), os.kill, (os.getpid(), signal.SIGUSR1))
            bell.start()
            try:
                listening = True
                SEAL.encrypt(io.BytesIO(content).read, io.BytesIO(), [RECIPIENT])
                listening = False
            except Interrupted:
                caught += 1
            bell.join()
    finally:
        listening = False
        signal.signal(signal.SIGUSR1, before)
    assert caught + dropped.count(Interrupted) == len(rung) > 0
