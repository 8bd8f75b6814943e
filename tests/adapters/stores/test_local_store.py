"""What the local store does beyond the contract: modes, symbolic links, dead writers, disks that say no."""

import errno
import fcntl
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from maint import files
from maint.adapters.stores.local import LocalStore
from maint.errors import Invalid, StoreFailed, WorkFailed


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def put(store: LocalStore, name: str) -> None:
    with store.create(name) as file:
        file.write(b"content")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_files_and_folders_are_for_their_owner_alone(store: LocalStore, tmp_path: Path, open_umask: None) -> None:
    put(store, "prod/1/a")
    assert mode(tmp_path / "store/prod/1/a") == 0o600
    assert {mode(tmp_path / "store"), mode(tmp_path / "store/prod"), mode(tmp_path / "store/prod/1")} == {0o700}


def test_a_half_written_file_is_for_its_owner_alone(store: LocalStore, tmp_path: Path, open_umask: None) -> None:
    with store.create("prod/a") as file:
        file.write(b"half")
        (staging,) = (tmp_path / "store/prod").iterdir()
        assert staging.name.startswith(".staging-")
        assert mode(staging) == 0o600


def test_a_link_to_a_folder_outside_is_not_followed(store: LocalStore, tmp_path: Path) -> None:
    put(store, "real")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (tmp_path / "store/link").symlink_to(outside)
    assert list(store.names()) == ["real"]
    with pytest.raises(WorkFailed), store.open("link/secret"):
        pass
    with pytest.raises(WorkFailed), store.create("link/new") as file:
        file.write(b"x")
    with pytest.raises(WorkFailed):
        store.remove("link/secret")
    assert [path.name for path in outside.iterdir()] == ["secret"]


def test_a_link_to_a_file_outside_is_neither_read_nor_listed(store: LocalStore, tmp_path: Path) -> None:
    put(store, "real")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "store/link").symlink_to(tmp_path / "secret")
    assert list(store.names()) == ["real"]
    assert store.size("link") is None
    with pytest.raises(WorkFailed), store.open("link"):
        pass
    with pytest.raises(FileExistsError), store.create("link"):
        pass


def test_a_store_that_is_itself_a_link_works(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "store").symlink_to(tmp_path / "volume")
    put(LocalStore(tmp_path / "store"), "a")
    assert (tmp_path / "volume/a").read_bytes() == b"content"


def test_what_a_killed_writer_left_is_swept_and_was_never_listed(store: LocalStore, tmp_path: Path) -> None:
    script = (
        "import os, signal, sys, pathlib\n"
        "from maint.adapters.stores.local import LocalStore\n"
        "with LocalStore(pathlib.Path(sys.argv[1])).create('prod/a') as file:\n"
        "    file.write(b'half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path / "store")], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert list(store.names()) == []
    for name in (f"prod/trial-{'0' * 16}", "prod/trial-mine"):
        put(store, name)
    assert store.sweep("elsewhere") == 0
    assert store.sweep("prod") == 2
    assert list(store.names()) == ["prod/trial-mine"]
    assert len(list((tmp_path / "store/prod").iterdir())) == 1


def test_no_empty_folder_is_left_of_what_was_removed_or_never_written(store: LocalStore, tmp_path: Path) -> None:
    with store.create("prod/1/vc/one") as file:
        file.write(b"x")
    (tmp_path / "store/prod/2/vc").mkdir(parents=True)  # as a writer that was killed before its first file
    store.remove("prod/1/vc/one")
    assert not (tmp_path / "store/prod/1").exists()
    store.sweep("prod")
    assert [*(tmp_path / "store/prod").iterdir()] == []


def test_what_a_live_writer_in_another_process_holds_is_not_swept(store: LocalStore, tmp_path: Path) -> None:
    script = (
        "import sys, pathlib\n"
        "from maint.adapters.stores.local import LocalStore\n"
        "with LocalStore(pathlib.Path(sys.argv[1])).create('prod/a') as file:\n"
        "    file.write(b'whole'); print('ready', flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "store")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        assert store.sweep() == 0
        writer.communicate()
    assert list(store.names()) == ["prod/a"]


@contextmanager
def small_files_only() -> Iterator[None]:
    """Allow this process no large files; not longer than what is tried takes, since pytest may write into one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_takes_no_more_is_a_failure_that_names_file_and_reason(store: LocalStore, tmp_path: Path) -> None:
    with small_files_only(), pytest.raises(WorkFailed) as failure, store.create("prod/a") as file:
        file.write(b"x" * 8192)
    assert "prod/a" in failure.value.message
    assert str(tmp_path / "store") in failure.value.message
    assert failure.value.detail == ("File too large",)
    assert list((tmp_path / "store/prod").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0 or not Path("/dev/full").exists(), reason="needs root to mount a small disk")
def test_a_full_disk_says_so_and_what_to_do(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        with pytest.raises(WorkFailed) as failure, LocalStore(disk).create("a") as file:
            file.write(b"x" * 1_000_000)
        assert failure.value.detail == ("No space left on device",)
        assert failure.value.hint == "make room there, or inodes where `df -i` shows none, then run it again"
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("number", [errno.ESTALE, errno.ENOTCONN, errno.EHOSTDOWN, errno.ETIMEDOUT, errno.ENOLCK])
def test_a_mount_whose_server_is_away_is_told_with_what_to_do(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    put(store, "prod/a")

    def away(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched, pytest.raises(StoreFailed) as failed:
        patched.setattr(os, "stat", away)  # no server of a mount can be counted on to be at hand
        store.size("prod/a")
    assert f"findmnt -T {tmp_path / 'store'}" in str(failed.value.way_on)


def test_a_file_system_without_locks_takes_nothing_and_nothing_is_left_of_what_was_tried(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lockless(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with monkeypatch.context() as patched, pytest.raises(StoreFailed, match="cannot write prod/a") as failed:
        patched.setattr(fcntl, "flock", lockless)  # no such file system can be counted on to be at hand
        put(store, "prod/a")
    assert failed.value.detail == ("No locks available",)
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file()] == []


def test_a_folder_of_somebody_else_in_a_store_is_named(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        for folder in (Path(place), Path(place) / "prod", closed := Path(place) / "prod/20261121T021500.123Z-4f3a"):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        closed.chmod(0)
        if os.geteuid() == 0:
            os.seteuid(65534)
        try:
            with pytest.raises(StoreFailed, match="cannot list") as failure:
                list(LocalStore(Path(place)).names("prod"))
        finally:
            os.seteuid(os.getuid())
            closed.chmod(0o700)
    assert f"Permission denied: {closed.name}" in failure.value.detail


def test_a_store_that_is_a_file_is_a_failure_with_words(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    store = LocalStore(tmp_path / "store")
    with pytest.raises(WorkFailed, match="cannot write a in"), store.create("a"):
        pass
    with pytest.raises(WorkFailed, match="cannot list"):
        list(store.names())


@pytest.mark.parametrize("root", ["/proc/maint", "/proc/self", "/proc/self/maint", "/dev/null/store", "dangling"])
def test_a_store_that_cannot_be_made_is_a_failure_with_words_and_a_way_out(tmp_path: Path, root: str) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    with pytest.raises(StoreFailed, match="cannot write site/1/a in") as failure:
        put(LocalStore(tmp_path / root), "site/1/a")
    assert failure.value.detail and failure.value.hint


def test_a_name_that_no_disk_takes_is_told(store: LocalStore) -> None:
    with pytest.raises(Invalid, match="is not a name"):
        store.size("site/\ud800/a")


def test_a_named_pipe_in_the_store_is_no_file_and_nobody_waits_for_it(store: LocalStore, tmp_path: Path) -> None:
    put(store, "a")
    os.mkfifo(tmp_path / "store/pipe")
    assert list(store.names()) == ["a"]
    with pytest.raises(FileNotFoundError), store.open("pipe"):
        pass


def test_a_file_system_without_hard_links_keeps_the_promises(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", no_links)  # no such file system can be counted on to be at hand
    put(store, "prod/a")
    with pytest.raises(FileExistsError), store.create("prod/b") as late:
        late.write(b"late")
        put(store, "prod/b")
    assert sorted(path.name for path in (tmp_path / "store/prod").iterdir()) == ["a", "b"]
    assert (tmp_path / "store/prod/b").read_bytes() == b"content"


NO_LINKS = """
import sys
from contextlib import suppress
from pathlib import Path
from maint.adapters.stores import Access, open_store
from maint.errors import StoreFailed

root = sys.argv[1]
with open_store(root).create("prod/a") as file:
    file.write(b"content")
try:
    with open_store(root, Access(None, None, None, shared=True)).create("prod/b") as file:
        file.write(b"content")
except StoreFailed as error:
    print(error.message, "->", error.hint)
print(sorted(one.name for one in Path(root).rglob("*")))
"""


def test_where_the_system_makes_no_hard_links_snapshots_can_lie_and_no_shared_state(
    tmp_path: Path, no_links: list[str]
) -> None:
    told = subprocess.run(
        [*no_links, sys.executable, "-c", NO_LINKS, str(tmp_path / "store")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.stdout.count("cannot hold a shared state: no hard link can be made there -> name a folder on NFS") == 1
    assert told.stdout.splitlines()[-1] == "['a', 'prod']", told.stderr


def test_a_commit_that_the_disk_does_not_confirm_leaves_no_name(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, "prod/a")
    sync = os.fsync

    def fails_for_folders(handle: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{handle}"):  # noqa: PTH112 - a descriptor, not a path of ours
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(handle)

    monkeypatch.setattr(os, "fsync", fails_for_folders)  # no disk can be made to fail on demand
    with pytest.raises(WorkFailed, match="prod/b"), store.create("prod/b") as file:
        file.write(b"x")
    assert [path.name for path in (tmp_path / "store/prod").iterdir()] == ["a"]


def test_what_a_killed_writer_left_on_nfs_is_swept(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock

    def as_nfs(handle: int, how: int) -> None:
        readable = fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        if how & fcntl.LOCK_EX and readable and stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))  # flock(2), "NFS details"
        lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", as_nfs)  # no NFS can be counted on to be at hand
    put(store, "prod/a")
    (tmp_path / "store/prod/.staging-0123456789abcdef").write_bytes(b"half")
    assert store.sweep("prod") == 1
    assert [path.name for path in (tmp_path / "store/prod").iterdir()] == ["a"]


def test_a_name_that_nfs_says_is_taken_as_its_first_answer_was_lost_is_ours(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def asked_twice(*paths: str, **more: Any) -> None:
        link(*paths, **more)
        link(*paths, **more)

    monkeypatch.setattr(os, "link", asked_twice)  # link(2), "BUGS"
    put(store, "prod/a")
    with pytest.raises(FileExistsError):
        put(store, "prod/a")
    assert [path.name for path in (tmp_path / "store/prod").iterdir()] == ["a"]


def test_a_file_system_that_syncs_no_folders_holds_a_store_and_a_state(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync, asked = os.fsync, list[int]()

    def not_for_folders(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            asked.append(handle)
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))  # fsync(2): it "does not support synchronization"
        sync(handle)

    monkeypatch.setattr(os, "fsync", not_for_folders)  # as CIFS before Linux 5.8
    put(store, "prod/a")
    put(store, "prod/b")
    store.remove("prod/a")
    assert [*store.names()] == ["prod/b"]
    files.replace(tmp_path / "state" / "one", b"content")
    files.create(tmp_path / "state" / "two", b"content")
    files.remove(tmp_path / "state" / "one")
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["two"] and asked


HAMMER = """
import sys
from contextlib import suppress
from pathlib import Path
from maint.adapters.stores.local import LocalStore
store, name = LocalStore(Path(sys.argv[1])), sys.argv[2]
for _ in range(200):
    with store.create(name) as file:
        file.write(b"content")
    list(store.names("prod"))
    store.remove(name)
    store.sweep("prod")
"""


def test_two_machines_that_make_and_remove_the_same_folders_do_not_disturb_each_other(tmp_path: Path) -> None:
    words = [sys.executable, "-c", HAMMER, str(tmp_path / "store")]
    machines = [subprocess.Popen([*words, f"prod/1/{name}/x"], stderr=subprocess.PIPE) for name in ("a", "a/b", "c")]
    for machine in machines:
        _, said = machine.communicate(timeout=200)
        assert machine.returncode == 0, said.decode()[-500:]


@pytest.mark.parametrize("when", [1e12, -1e12])
def test_a_file_whose_time_is_in_no_calendar_was_written_at_no_time(tmp_path: Path, when: float) -> None:
    store = LocalStore(tmp_path)
    with store.create("prod/one") as file:
        file.write(b"x")
    with suppress(OSError):  # some file systems refuse such times, or keep the nearest that they have
        os.utime(tmp_path / "prod/one", (when, when))
    assert abs((tmp_path / "prod/one").stat().st_mtime) < 1e11 or store.written("prod/one") is None
