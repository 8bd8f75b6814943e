"""Files of ours: private with all their folders, read back or told as damaged, whole or absent."""

import errno
import os
import resource
import stat
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from maint import files
from maint.config.yaml import read_text
from maint.engine.lock import Holder
from maint.errors import Invalid, MaintError, NotWritten


@pytest.fixture(autouse=True, params=[True, False], ids=["unnamed", "named"])
def unnamed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the file system lets a file be written that has no name yet."""
    if not request.param:
        monkeypatch.setattr(files, "_unnamed", lambda _: None)
    return bool(request.param)


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_and_every_folder_that_is_made_for_it_are_private_whatever_the_umask(
    tmp_path: Path, open_umask: None
) -> None:
    path = tmp_path / "a" / "b" / "file"
    files.replace(path, b"x")
    assert [mode(one) for one in (path, path.parent, path.parent.parent)] == [0o600, 0o700, 0o700]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files.replace(path, b"old")
    with pytest.raises(KeyboardInterrupt), files.written(path) as file:
        file.write(b"new")
        raise KeyboardInterrupt
    assert ([*tmp_path.iterdir()], path.read_bytes()) == ([path], b"old")


@pytest.mark.parametrize("there", [False, True])
def test_a_writer_that_is_killed_leaves_nothing_beside_the_file(tmp_path: Path, unnamed: bool, there: bool) -> None:
    path = tmp_path / "file"
    if there:
        files.replace(path, b"old")
    child = os.fork()
    if not child:
        with files.written(path) as file:
            file.write(b"new")
            file.flush()
            os._exit(0)
    os.waitpid(child, 0)
    left = [one for one in tmp_path.iterdir() if one != path]
    assert (path.exists(), len(left)) == (there, 0 if unnamed else 1)


def test_a_new_file_never_takes_the_place_of_another(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert (files.create(path, b"old", mode=0o640), files.create(path, b"new")) == (True, False)
    assert ([*tmp_path.iterdir()], path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == ([path], b"old", 0o640)


def test_whether_a_file_can_be_written_is_tried_without_ever_giving_it_its_name(tmp_path: Path, unnamed: bool) -> None:
    path, seen = tmp_path / "new/file", set[str]()
    sys.setprofile(lambda *_: seen.update(one.name for one in tmp_path.rglob("*")))
    try:
        files.try_writing(path)
    finally:
        sys.setprofile(None)
    assert "new" in seen
    assert any(name.startswith(files.STAGING) for name in seen) is not unnamed
    assert ("file" in seen, [*tmp_path.iterdir()]) == (False, [])
    with pytest.raises(NotWritten, match="File name too long"):
        files.try_writing(tmp_path / ("a" * 300))


@pytest.mark.parametrize(
    ("said", "mend"),
    [
        (errno.ENOSPC, "make room there"),
        (errno.EDQUOT, "raise the quota"),
        (errno.EIO, "look at that disk"),
        (errno.EISDIR, "a folder lies in the place"),
        (errno.EROFS, "mount it for writing"),
        (errno.EMFILE, "raise the limits"),
        (errno.EACCES, "run it as root"),
    ],
)
def test_what_the_system_says_decides_what_helps_and_not_what_was_being_done(said: int, mend: str) -> None:
    with pytest.raises(MaintError, match=os.strerror(said)) as failure, files.explaining("no", "run it as root"):
        raise OSError(said, os.strerror(said))
    assert mend in str(failure.value.hint)


def test_a_folder_that_is_named_for_a_file_is_not_to_be_moved_away_but_another_is_to_be_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="Is a directory") as failure:
        read_text(tmp_path)
    hint = str(failure.value.hint)
    assert hint.startswith("name another file") and hint.endswith("move it away") and len(hint) < 110


def test_a_disk_that_takes_no_more_is_told_with_the_file_and_one_that_is_read_beside_it_is_not(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(OSError, match="of a source") as caught, files.written(path) as file:
        file.write(b"new")
        raise OSError(errno.EIO, "of a source")
    assert not isinstance(caught.value, NotWritten)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(NotWritten, match=f"{path} cannot be written: File too large"), files.written(path) as file:
            for _ in range(100):
                file.write(bytes(5_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [*tmp_path.iterdir()] == []


def test_a_device_a_pipe_and_what_leads_to_a_stream_are_never_replaced_by_a_file(tmp_path: Path) -> None:
    pipe, link, out = (tmp_path / name for name in ("pipe", "link", "stdout"))
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    out.symlink_to("/proc/self/fd/1")
    for path in (pipe, link, out):
        before = path.lstat()
        with pytest.raises(NotWritten, match="cannot be written: it is a device, a pipe or a socket"):
            files.replace(path, b"x")
        assert path.lstat() == before
    assert {*tmp_path.iterdir()} == {pipe, link, out}


def test_a_folder_that_somebody_holds_is_not_waited_for_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_HELD", 0.1, raising=False)
    held = pytest.raises(NotWritten, match=f"another process has held {tmp_path}")
    with files.locked(tmp_path), held, files.locked(tmp_path):
        raise AssertionError
    with files.locked(tmp_path):
        pass


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"a": "\xff"}', b'{"a": "x", "z": ' + b"[" * 100_000, b'{"a": 1}', b"9" * 5000]
)
def test_what_cannot_be_read_back_is_told_as_damaged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(files.Damaged):
        files.load(path, dict[str, str])


@pytest.mark.parametrize("kind", [dict, Holder])
def test_what_is_nested_too_deep_is_told_as_damaged(tmp_path: Path, kind: type) -> None:
    path = tmp_path / "file"
    path.write_bytes(b'{"z": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    with pytest.raises(files.Damaged):
        files.load(path, kind)


def test_a_small_file_needs_little_memory_however_large_one_may_be(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files.replace(path, b"{}")
    tracemalloc.start()
    try:
        assert (files.load(path, dict), files.read_private(path), read_text(path)) == ({}, b"{}", "{}")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_folder_in_the_place_of_a_file_is_damage_and_a_missing_file_is_none(tmp_path: Path) -> None:
    with pytest.raises(files.Damaged, match="Is a directory"):
        files.load(tmp_path, dict[str, str])
    assert files.load(tmp_path / "gone", dict[str, str]) is None


def test_what_is_no_plain_file_is_refused_and_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(Invalid, match="is not a plain file"):
            files.read_private(path)


def test_a_file_larger_than_its_kind_is_an_error_and_not_read_on(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.touch()
    os.truncate(large, files.LARGEST + 1)
    with pytest.raises(files.Damaged, match="bytes"):
        files.load(large, dict)
    with pytest.raises(Invalid, match="bytes"):
        read_text(large)


def test_a_named_pipe_a_device_or_a_folder_in_a_files_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError, match=r"a file is wanted|Is a directory"):
            files.read_file(path)


def test_what_a_pipe_gives_that_was_handed_over_is_read() -> None:
    source, target = os.pipe()
    os.write(target, b"text")
    os.close(target)
    try:
        assert files.read_file(Path(f"/dev/fd/{source}")) == b"text"
    finally:
        os.close(source)


def test_a_pipe_that_was_handed_over_is_read_to_its_end_and_not_waited_for_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "_patience", [0.05])  # seconds
    reads, writes = os.pipe()
    handed = Path(f"/dev/fd/{reads}")
    os.write(writes, b"a: 1\n")
    with pytest.raises(Invalid, match=f"cannot read {handed}") as silent:
        read_text(handed)
    assert "nothing came through it for 0 s" in str(silent.value)
    os.write(writes, b"a: 1\n")
    os.close(writes)
    assert read_text(handed) == "a: 1\n"
    os.close(reads)
