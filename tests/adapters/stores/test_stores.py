"""What every store promises; a new kind of store joins by one fixture and its name in `KINDS`."""

import os
import re
import tempfile
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from maint.adapters.clock import SystemClock
from maint.adapters.stores import Access, open_store
from maint.adapters.stores import s3 as s3_store
from maint.adapters.stores.local import LocalStore
from maint.config.schema import BackupSettings, SshSettings
from maint.config.stores import S3Settings, SftpSettings
from maint.engine.lease import Lease, LeaseLost, Terms
from maint.errors import Invalid, Locked, StoreFailed
from maint.lab.hosts import ssh_server
from maint.lab.hosts.machine import Machine
from maint.model.secret import Secret
from maint.ports import Store
from tests.adapters.stores.plain_sftp import serving

KINDS = ("local", "openssh", "shared", "plain", "s3")
PIECE = 5 << 20  # bytes that go to S3 at once, which takes no smaller pieces
LARGE = 6_000_000  # bytes; more than goes at once
# Bytes that go in pieces: over SFTP in so small ones that two of them are no matter.
_PIECES = {"local": 1_000_003, "openssh": 3_000_009, "plain": 3_000_009, "s3": 11_000_033, "ceph": 11_000_033}
of_large_files = pytest.mark.parametrize(("store", "size"), _PIECES.items(), indirect=["store"], ids=[*_PIECES])


class Values:
    """Resolves every reference to its own text."""

    def resolve(self, reference: str) -> Secret:
        return Secret(reference)


def opened(location: str, *, shared: bool = False, **backup: Any) -> Store:
    """Open a store with what `backup:` says."""
    ssh = SshSettings(user="nobody-in-particular", connect_timeout=5.0, command_timeout=20.0)
    return open_store(location, Access(BackupSettings(store=location, **backup), ssh, Values(), shared))


@pytest.fixture
def local(tmp_path: Path) -> Store:
    return LocalStore(tmp_path / "deep" / "store")


@pytest.fixture
def openssh(sshd: Any, tmp_path: Path) -> Iterator[Store]:
    yield from over_sshd(sshd, tmp_path)


@pytest.fixture
def shared(sshd: Any, tmp_path: Path) -> Iterator[Store]:
    """The same, as a shared state has it."""
    yield from over_sshd(sshd, tmp_path, shared=True)


def over_sshd(sshd: Any, tmp_path: Path, *, shared: bool = False) -> Iterator[Store]:
    known = tmp_path / "known_hosts"
    known.write_text(sshd.known_as())
    with tempfile.TemporaryDirectory() as folder:
        location = f"sftp://{sshd.user}@127.0.0.1:{sshd.port}{folder}/deep/store"
        yield opened(location, shared=shared, sftp=SftpSettings(key=sshd.key, known_hosts=known))


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(ssh_server, "Connection", serving(tmp_path / "root"))
    lab = ssh_server.SshLab([Machine("one", tmp_path / "one", {})], tmp_path / "ssh")
    lab.start()
    host, port = lab.endpoints["one"]
    try:
        location = f"sftp://{lab.user}@{host}:{port}/srv/maint"
        yield opened(location, sftp=SftpSettings(key=lab.key_file, known_hosts=lab.known_hosts_file))
    finally:
        lab.stop()


@pytest.fixture
def s3(object_store: str) -> Store:
    return opened(
        f"s3://backups/{os.urandom(4).hex()}/maint",
        s3=S3Settings.model_construct(endpoint=object_store, access_key="some-id", secret_key="some-secret"),
    )


@pytest.fixture
def ceph(object_store: str, httpserver: HTTPServer) -> Store:
    """As Ceph's gateway does in version 16, which heeds the condition on no upload in pieces."""

    def passed_on(request: Request) -> Response:
        heads = {name: value for name, value in request.headers.items() if name != "If-None-Match"}
        given = heads if request.method == "POST" else dict(request.headers)
        url = object_store + request.full_path.removesuffix("?")
        answer = requests.request(request.method, url, headers=given, data=request.get_data(), timeout=60)
        return Response([answer.content], answer.status_code, dict(answer.headers))

    httpserver.expect_request(re.compile("/.*")).respond_with_handler(passed_on)
    return opened(
        f"s3://backups/{os.urandom(4).hex()}/maint",
        s3=S3Settings.model_construct(
            endpoint=httpserver.url_for("").rstrip("/"), access_key="some-id", secret_key="some-secret"
        ),
    )


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(s3_store, "PIECE", PIECE)
    return request.getfixturevalue(request.param)


def test_a_server_that_offers_no_hard_links_holds_no_shared_state(plain: Any) -> None:
    plain._shared = True
    with pytest.raises(StoreFailed, match="cannot hold a shared state: no hard link can be made there"):
        put(plain, "prod/a")
    assert [*plain.names(), *plain._walk(["prod"])] == []


def put(store: Store, name: str, content: bytes = b"content") -> None:
    with store.create(name) as file:
        file.write(content)


def get(store: Store, name: str) -> bytes:
    with store.open(name) as file:
        return file.read()


def test_an_empty_store_has_no_names(store: Store) -> None:
    assert list(store.names()) == []
    assert list(store.names("prod")) == []


def test_what_is_written_is_read_back(store: Store) -> None:
    put(store, "prod/1/part.age", b"\0" * 300_000 + b"end")
    assert get(store, "prod/1/part.age") == b"\0" * 300_000 + b"end"
    assert store.size("prod/1/part.age") == 300_003


def test_a_store_tells_when_a_file_was_written_by_one_clock_for_all_its_files(store: Store) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)  # a store may know no more than the second
    put(store, "prod/1")
    first = store.written("prod/1")
    assert first is not None
    assert before <= first <= datetime.now(UTC)
    assert store.written("prod/2") is store.written("prod") is None


def test_every_store_holds_a_lease_for_one_at_a_time(store: Store) -> None:
    quiet = Terms(beat=0.0)
    first, second = (Lease(store, "prod", SystemClock(), owner, "work", quiet) for owner in ("one", "other"))
    list(first.take())
    first.renew("act")
    with pytest.raises(Locked):
        list(second.take())
    assert first.give_back() == ""
    list(second.take())
    with pytest.raises(LeaseLost):
        first.renew("act")
    assert second.give_back() == ""
    assert len(list(store.names())) == 3


def test_an_empty_file_is_a_file(store: Store) -> None:
    put(store, "a", b"")
    assert get(store, "a") == b""
    assert store.size("a") == 0


def test_a_file_can_be_read_in_pieces(store: Store) -> None:
    put(store, "a", b"abcdef")
    with store.open("a") as file:
        assert [file.read(4), file.read(4), file.read(4)] == [b"abcd", b"ef", b""]


def test_a_missing_file_is_told_apart(store: Store) -> None:
    put(store, "prod/a")
    assert store.size("prod/b") is None
    assert store.size("other/b") is None
    for name in ("prod/b", "other/b"):
        with pytest.raises(FileNotFoundError), store.open(name):
            pass


def test_a_folder_is_no_file_and_nothing_lies_below_a_file(store: Store) -> None:
    put(store, "prod/a")
    assert store.size("prod") is None
    assert store.size("prod/a/b") is None
    assert list(store.names("prod/a")) == []
    for name in ("prod", "prod/a/b"):
        with pytest.raises(FileNotFoundError), store.open(name):
            pass


def test_names_are_in_order_and_below_the_folder_asked_for(store: Store) -> None:
    for name in ("b/2", "a/z/1", "a/b", "a-c", "b/10", "ab/1"):
        put(store, name)
    assert list(store.names()) == ["a-c", "a/b", "a/z/1", "ab/1", "b/10", "b/2"]
    assert list(store.names("a")) == ["a/b", "a/z/1"]
    assert list(store.names("a/z")) == ["a/z/1"]


def test_nothing_is_ever_overwritten(store: Store) -> None:
    put(store, "a", b"first")
    with pytest.raises(FileExistsError), store.create("a") as file:
        file.write(b"second")
    assert get(store, "a") == b"first"
    assert store.sweep() == 0


def test_a_half_written_file_is_not_listed(store: Store) -> None:
    with store.create("prod/a") as file:
        file.write(b"half")
        assert list(store.names()) == []
        assert store.size("prod/a") is None
    assert list(store.names()) == ["prod/a"]


def test_a_failure_while_writing_leaves_nothing(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.create("prod/a") as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert list(store.names()) == []
    assert store.sweep() == 0


@pytest.mark.parametrize(
    ("store", "size"), [*((kind, 1) for kind in (*KINDS, "ceph")), ("s3", LARGE), ("ceph", LARGE)], indirect=["store"]
)
def test_of_two_writers_of_one_name_the_later_to_end_loses(store: Store, size: int) -> None:
    with pytest.raises(FileExistsError), store.create("a") as slow:
        slow.write(b"s" * size)
        put(store, "a", b"q" * size)
    assert get(store, "a") == b"q" * size
    assert list(store.names()) == ["a"]
    assert store.sweep() == 0


def test_of_many_writers_at_once_exactly_one_wins(store: Store) -> None:
    gate, won = threading.Barrier(8), []

    def write(number: int) -> None:
        gate.wait()
        try:
            put(store, "prod/a", str(number).encode())
        except FileExistsError:
            return
        won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert get(store, "prod/a") == str(won[0]).encode()


def test_a_removed_file_is_gone_and_removing_it_again_is_no_error(store: Store) -> None:
    put(store, "prod/a")
    store.remove("prod/a")
    store.remove("prod/a")
    store.remove("never/there")
    assert list(store.names()) == []
    put(store, "prod/a", b"anew")
    assert get(store, "prod/a") == b"anew"


def test_a_sweep_leaves_a_live_writer_and_committed_files_alone(store: Store) -> None:
    put(store, "prod/a")
    with store.create("prod/b") as file:
        file.write(b"half")
        assert store.sweep() == 0
    assert list(store.names()) == ["prod/a", "prod/b"]


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "../a", "a/../../b", "a/..", "a//b", "a/", "./a", ".a", "a/.b", "a\0b", "a\\b", "\n/.."]
)
def test_a_name_that_could_lead_elsewhere_is_refused(store: Store, name: str) -> None:
    with pytest.raises(Invalid), store.create(name):
        pass
    with pytest.raises(Invalid), store.open(name):
        pass
    with pytest.raises(Invalid):
        store.size(name)
    with pytest.raises(Invalid):
        store.remove(name)
    if name:
        with pytest.raises(Invalid):
            list(store.names(name))


@of_large_files
def test_large_files_go_through_whole(store: Store, size: int) -> None:
    content = os.urandom(1_000_003) * (size // 1_000_003)
    with store.create("prod/1/large") as file:
        for start in range(0, len(content), 70_000):
            file.write(content[start : start + 70_000])
    with store.open("prod/1/large") as file:
        assert file.read() == content
    assert store.size("prod/1/large") == len(content)
    assert list(store.names()) == ["prod/1/large"]


@of_large_files
def test_a_large_file_whose_writer_fails_leaves_nothing(store: Store, size: int) -> None:
    with pytest.raises(ZeroDivisionError), store.create("prod/a") as file:
        file.write(b"x" * size)
        raise ZeroDivisionError
    assert list(store.names()) == []
    assert store.sweep() == 0


def test_what_fails_beside_a_store_keeps_its_own_words(store: Store) -> None:
    with pytest.raises(PermissionError, match="elsewhere"), store.create("a"):
        raise PermissionError("elsewhere")
    put(store, "a")
    with pytest.raises(PermissionError, match="elsewhere"), store.open("a"):
        raise PermissionError("elsewhere")


def test_one_file_can_be_read_while_another_is_written(store: Store) -> None:
    put(store, "a", b"x" * 3_000_000)
    with store.open("a") as source, store.create("b") as target:
        while block := source.read(65_536):
            target.write(block)
    assert get(store, "b") == b"x" * 3_000_000


def test_a_reader_may_leave_early(store: Store) -> None:
    put(store, "a", b"x" * 3_000_000)
    for _ in range(3):
        with store.open("a") as file:
            assert file.read(10) == b"x" * 10
    assert get(store, "a") == b"x" * 3_000_000


def test_a_local_folder_is_opened_by_its_path(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    put(store, "a")
    assert (tmp_path / "a").read_bytes() == b"content"
    assert store.location == str(tmp_path)


@pytest.mark.parametrize(
    "location",
    ["backups", "./backups", "", "ftp://host/x", "file:///x", "file:x", "sftp://host/x", "s3://bucket/x"],
)
def test_a_location_that_is_no_absolute_path_and_no_known_scheme_is_refused(location: str) -> None:
    with pytest.raises(Invalid):
        open_store(location)
