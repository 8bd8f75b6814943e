"""What stores over a network do beyond the contract: modes, dead writers, lost connections, servers that say no."""

import contextlib
import hashlib
import hmac
import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.session import Session
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from maint.adapters.clock import SystemClock
from maint.adapters.ssh import sftp
from maint.adapters.stores import Access, open_store
from maint.adapters.stores.s3_wire import PIECE
from maint.adapters.stores.stored_files import is_left_over, staging_name, trial_name
from maint.config.schema import BackupSettings, SshSettings
from maint.config.stores import S3Bucket, S3Settings, SftpSettings
from maint.errors import DeadlinePassed, Invalid, StoreFailed, WorkFailed
from maint.model.secret import Secret
from maint.ports import Store
from tests.adapters.conftest import SFTP, serve_sshd
from tests.forked import FORKED

BIG = 40_000_000


class Values:
    def resolve(self, reference: str) -> Secret:
        return Secret(reference)


@dataclass(frozen=True)
class Place:
    """An SFTP server's folder and how to get there."""

    folder: Path
    words: tuple[str, ...]

    def store(self) -> Store:
        return opened_from(self.words)


def opened_from(words: Any, *, shared: bool = False) -> Store:
    """Open a store: its location, then key and known hosts, or an endpoint."""
    location, *how = words
    if location.startswith("s3:"):
        s3 = S3Settings.model_construct(endpoint=how[0], access_key="some-id", secret_key="some-secret")
        backup = BackupSettings.model_construct(store=location, s3=s3)
    else:
        backup = BackupSettings.model_construct(
            store=location, sftp=SftpSettings(key=Path(how[0]), known_hosts=Path(how[1]))
        )
    ssh = SshSettings(connect_timeout=20.0, command_timeout=20.0)
    return open_store(location, Access(backup, ssh, Values(), shared))


@pytest.fixture
def place(sshd: Any, tmp_path: Path) -> Iterator[Place]:
    known = tmp_path / "known_hosts"
    known.write_text(sshd.known_as())
    with tempfile.TemporaryDirectory() as name:
        location = f"sftp://{sshd.user}@127.0.0.1:{sshd.port}{name}/store"
        yield Place(Path(name) / "store", (location, str(sshd.key), str(known)))


@pytest.fixture
def bucket(object_store: str) -> tuple[str, ...]:
    return (f"s3://backups/{os.urandom(4).hex()}", object_store)


def put(store: Store, name: str, content: bytes = b"content") -> None:
    with store.create(name) as file:
        file.write(content)


def write_half(words: tuple[str, ...], told: Connection) -> None:
    """Write to a store until it is killed, and say when it is in the middle."""
    with opened_from(words).create("prod/1/half") as file:
        for _ in range(1 + 2 * PIECE // 1_000_000):
            file.write(bytes(1_000_000))
        told.send("half")
        told.recv()


def kill_in_the_middle(words: tuple[str, ...]) -> None:
    ours, theirs = FORKED.Pipe()
    process = FORKED.Process(target=write_half, args=(words, theirs), daemon=True)
    process.start()
    theirs.close()
    assert ours.recv() == "half"
    process.kill()
    process.join()
    ours.close()


def test_files_and_folders_on_another_host_are_for_their_owner_alone(place: Place) -> None:
    with place.store().create("prod/1/a") as file:
        file.write(b"x" * 100_000)
        (staging,) = (place.folder / "prod/1").iterdir()
        assert staging.stat().st_mode & 0o777 == 0o600
    modes = {path.stat().st_mode & 0o777 for path in (place.folder, place.folder / "prod", place.folder / "prod/1")}
    assert modes == {0o700}
    assert (place.folder / "prod/1/a").stat().st_mode & 0o777 == 0o600


def test_what_a_killed_writer_left_on_another_host_is_swept_by_the_next(place: Place) -> None:
    kill_in_the_middle(place.words)
    store = place.store()
    assert list(store.names()) == []
    assert len(list((place.folder / "prod/1").iterdir())) == 1
    trials = [place.folder / "prod" / f"trial-{one}" for one in ("0" * 16, "1" * 16, "mine")]
    for hours, path in zip((25, 1, 25), trials, strict=True):
        path.touch()
        os.utime(path, times=(path.stat().st_mtime - hours * 3600,) * 2)
    assert store.sweep("prod") == 2
    assert list((place.folder / "prod/1").iterdir()) == []
    assert [path.exists() for path in trials] == [False, True, True]


def test_what_a_killed_writer_left_in_a_bucket_is_swept_by_the_next(bucket: tuple[str, ...]) -> None:
    kill_in_the_middle(bucket)
    store: Any = opened_from(bucket)
    assert list(store.names()) == []
    left = int(store._takes_pieces())  # what is sent as one leaves nothing
    assert len(store._uploads("")) == left
    assert store.sweep("other") == 0
    assert store.sweep("prod") == left
    assert store._uploads("") == []
    assert [name for name, _ in store._listed("prod")] == []
    assert store.sweep("prod") == 0


def test_a_host_whose_key_is_not_known_is_not_written_to(place: Place, tmp_path: Path) -> None:
    (tmp_path / "nobody").write_text("")
    with pytest.raises(WorkFailed) as failure:
        list(opened_from((*place.words[:2], str(tmp_path / "nobody"))).names())
    assert any("host key is not known" in line for line in failure.value.detail)


@pytest.mark.parametrize("recorded", ["", "another"])
def test_what_makes_the_key_of_a_host_known_is_told_as_commands_that_do_it(
    place: Place, tmp_path: Path, sshd: Any, recorded: str
) -> None:
    known, location = tmp_path / "of the store", place.words[0]
    known.touch()
    if recorded:
        subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", tmp_path / "k"], check=True)
        key = " ".join((tmp_path / "k.pub").read_text().split()[:2])
        known.write_text(f"[127.0.0.1]:{sshd.port} {key}\n")
    words = (location, place.words[1], str(known))
    with pytest.raises(StoreFailed) as failure:
        list(opened_from(words).names())
    commands = [one for one in str(failure.value.hint).split("`")[1::2] if " -lf" not in one]
    assert len(commands) == (2 if recorded else 1)
    for command in commands:
        subprocess.run(command, shell=True, check=True, capture_output=True)
    assert list(opened_from(words).names()) == []


def test_an_account_that_is_not_let_in_is_told_with_the_settings_of_the_store(place: Place, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True)
    with pytest.raises(StoreFailed) as failure:
        list(opened_from((place.words[0], str(tmp_path / "other"), place.words[2])).names())
    assert str(failure.value.hint).startswith("look at the user in the store's address and backup.sftp.key")
    with pytest.raises(Invalid) as missing:
        opened_from((place.words[0], str(tmp_path / "none"), place.words[2]))
    assert missing.value.hint == "look at backup.sftp.key"


def test_a_file_in_the_place_of_a_folder_is_told_by_its_path(place: Place) -> None:
    place.folder.write_text("a file")
    for work in (lambda store: put(store, "prod/1/a"), lambda store: list(store.names("prod"))):
        with pytest.raises(StoreFailed) as failure:
            work(place.store())
        assert failure.value.detail == (f"{place.folder} is not a folder there",)
        assert "move that file away" in str(failure.value.hint)


def test_a_host_without_sftp_is_told_with_where_to_look(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        for server in serve_sshd(Path(name), "/bin/false"):
            (tmp_path / "known").write_text(server.known_as())
            location = f"sftp://{server.user}@127.0.0.1:{server.port}{tmp_path}/far"
            with pytest.raises(StoreFailed, match="cannot list") as failure:
                list(opened_from((location, str(server.key), str(tmp_path / "known"))).names())
            assert "127.0.0.1: it serves this account no SFTP" in failure.value.detail
            assert "`Subsystem sftp`" in str(failure.value.hint)


def test_a_connection_cut_in_the_middle_is_a_failure_with_words_and_leaves_no_file(
    place: Place, relay: Any, tmp_path: Path, sshd: Any
) -> None:
    known = tmp_path / "known_relay"
    known.write_text(sshd.known_as(relay.port))
    location = place.words[0].replace(f":{sshd.port}", f":{relay.port}")
    store = opened_from((location, place.words[1], str(known)))
    with pytest.raises(WorkFailed, match="cannot write prod/1/a"), store.create("prod/1/a") as file:
        file.write(b"x" * 100_000)
        relay.cut()
        for _ in range(100):
            file.write(b"x" * 1_000_000)
    assert list(store.names()) == []
    put(store, "prod/1/a")
    assert list(store.names()) == ["prod/1/a"]
    assert [path.name for path in (place.folder / "prod/1").iterdir()] == ["a"]


def test_a_folder_that_may_not_be_written_to_is_a_failure_with_words(place: Place) -> None:
    (place.folder).mkdir()
    (place.folder / "prod").write_text("a file where a folder should be")
    with pytest.raises(WorkFailed, match="cannot write prod/1/a in sftp://"):
        put(place.store(), "prod/1/a")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root logs in as somebody else")
def test_a_folder_of_somebody_else_in_a_store_of_a_host_is_named(place: Place, sshd: Any) -> None:
    put(place.store(), "prod/1/a")
    place.folder.parent.chmod(0o755)
    for folder in (place.folder, place.folder / "prod"):
        folder.chmod(0o755)
    location, *others = place.words
    with pytest.raises(StoreFailed, match="cannot list prod/1 in sftp://") as failure:
        list(opened_from((location.replace(f"{sshd.user}@", "nobody@"), *others)).names("prod"))
    assert failure.value.detail == ("Permission denied",)


def test_a_folder_of_a_host_that_lists_without_an_end_is_left(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = place.store()
    for number in range(4):
        put(store, f"prod/1/{number}")
    monkeypatch.setattr(sftp, "MOST", 5)  # a folder lists itself, and the one above it
    with pytest.raises(StoreFailed) as caught:
        list(store.names())
    assert "lists more than 5 files" in caught.value.in_a_line


def test_where_another_host_makes_no_hard_links_snapshots_can_lie_and_no_shared_state(
    sshd_without_links: Any, tmp_path: Path
) -> None:
    known = tmp_path / "known"
    known.write_text(sshd_without_links.known_as())
    location = f"sftp://{sshd_without_links.user}@127.0.0.1:{sshd_without_links.port}{tmp_path}/far"
    words = (location, str(sshd_without_links.key), str(known))
    put(opened_from(words), "prod/a")
    with pytest.raises(StoreFailed, match="far cannot hold a shared state: no hard link can be made there"):
        put(opened_from(words, shared=True), "prod/b")
    assert sorted(path.name for path in (tmp_path / "far").rglob("*")) == ["a", "prod"]


def test_a_file_of_a_shared_state_that_has_its_name_is_written_whatever_becomes_of_the_other_name(
    tmp_path: Path,
) -> None:
    sshd = serve_sshd(folder := tmp_path / "server", f"{SFTP} -P remove")
    folder.mkdir()
    with contextlib.closing(sshd):
        server, known = next(sshd), tmp_path / "known"
        known.write_text(server.known_as())
        location = f"sftp://{server.user}@127.0.0.1:{server.port}{tmp_path}/far"
        store = opened_from((location, str(server.key), str(known)), shared=True)
        put(store, "prod/a")
        assert list(store.names()) == ["prod/a"]
        with pytest.raises(FileExistsError):
            put(store, "prod/a")


_NO_FOLDER = ["sftp://host", "sftp://host/", "sftp://host//", "sftp://host/~", "sftp://host/~/", "sftp://host/~//"]


@pytest.mark.parametrize("location", [*_NO_FOLDER, "sftp:///x", "sftp://u:p@host/x", "sftp://h:x/y"])
def test_an_sftp_address_that_says_too_little_or_too_much_is_refused(location: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"names no host or no folder|is not a URL|cannot be opened so"):
        opened_from((location, str(tmp_path / "key"), str(tmp_path / "known")))


@pytest.mark.parametrize("location", ["s3:///x", "s3://user@bucket/x", "s3://bucket:80/x"])
def test_a_bucket_address_that_makes_no_sense_is_refused(location: str) -> None:
    with pytest.raises(Invalid):
        opened_from((location, "http://127.0.0.1:1"))


def test_a_service_that_is_down_is_a_failure_with_words() -> None:
    store = opened_from(("s3://backups/x", "http://127.0.0.1:1"))
    with pytest.raises(WorkFailed, match="cannot list") as failure:
        list(store.names())
    assert "some-secret" not in repr(failure.value) + str(failure.value.detail)
    assert failure.value.hint == "is the service up, and backup.s3.endpoint right?"


def test_where_no_endpoint_is_said_and_amazon_is_not_reached_the_setting_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    s3 = S3Settings.model_construct(access_key="some-id", secret_key="some-secret", region="nowhere-1")
    store = open_store("s3://backups/x", Access(BackupSettings.model_construct(s3=s3), None, Values()))
    with pytest.raises(StoreFailed, match="cannot list") as failure:
        list(store.names())
    assert str(failure.value.hint).startswith("backup.s3.endpoint is left out"), failure.value


def test_a_failure_of_a_service_is_its_own_whatever_was_handled_before() -> None:
    store = opened_from(("s3://backups/x", "http://127.0.0.1:1"))
    with pytest.raises(StoreFailed, match="cannot look at a"):
        try:
            raise Invalid("another matter", hint="none")
        except Invalid:
            store.size("a")


def test_a_listing_that_does_not_say_where_it_goes_on_is_a_failure_with_words(httpserver: HTTPServer) -> None:
    page = "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"
    httpserver.expect_request("/backups").respond_with_data(page, content_type="application/xml")
    store = opened_from(("s3://backups/x", httpserver.url_for("").rstrip("/")))
    with pytest.raises(StoreFailed, match="where it goes on"):
        list(store.names())


@pytest.mark.parametrize("spelled", ["LOCALHOST", "localhost", "127.0.0.1"])
def test_a_request_to_a_service_is_signed_for_the_name_that_it_is_sent_with(
    spelled: str, httpserver: HTTPServer
) -> None:
    httpserver.expect_request("/backups/x/a", method="HEAD").respond_with_data(status=404)
    assert opened_from(("s3://backups/x", f"http://{spelled}:{httpserver.port}")).size("a") is None
    (request,) = [request for request, _ in httpserver.log]
    said = re.fullmatch(
        r".* Credential=some-id/(.*), SignedHeaders=(.*), Signature=(.*)", request.headers["Authorization"]
    )
    assert said is not None
    scope, names, signature = said.groups()
    headers = [f"{name}:{request.headers[name]}" for name in names.split(";")]
    asked = "\n".join(["HEAD", request.path, "", *headers, "", names, request.headers["x-amz-content-sha256"]])
    day, *rest = scope.split("/")
    words = ["AWS4-HMAC-SHA256", request.headers["x-amz-date"], scope, hashlib.sha256(asked.encode()).hexdigest()]
    key = b"AWS4some-secret"
    for one in (day, *rest, "\n".join(words)):
        key = hmac.digest(key, one.encode(), "sha256")
    assert key.hex() == signature


@pytest.mark.parametrize("by", ["config", "environment", "environment, with a login", "environment, but not there"])
def test_a_proxy_is_gone_through_where_config_or_environment_name_one(
    by: str, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = httpserver.url_for("").rstrip("/")
    service = "http://127.0.0.1:1" if by.endswith("not there") else "http://s3.elsewhere.invalid"
    httpserver.expect_request("/backups/x/a", method="HEAD").respond_with_data(status=404)
    for name in ("HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    if by != "config":
        monkeypatch.setenv("http_proxy", proxy.replace("//", "//me:word@") if "login" in by else proxy)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
    s3 = S3Settings.model_construct(
        endpoint=service, access_key="some-id", secret_key="some-secret", proxy=proxy if by == "config" else None
    )
    backup = BackupSettings.model_construct(store="s3://backups/x", s3=s3)
    store = open_store("s3://backups/x", Access(backup, None, Values()))
    if by.endswith("not there"):
        with pytest.raises(WorkFailed):
            store.size("a")
        assert httpserver.log == []
    else:
        assert store.size("a") is None
        (request,) = [request for request, _ in httpserver.log]
        assert request.host == "s3.elsewhere.invalid"
        assert request.headers.get("Proxy-Authorization") == ("Basic bWU6d29yZA==" if "login" in by else None)


def test_a_service_that_overwrites_is_refused_at_the_first_write(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/backups/x/a", method="HEAD").respond_with_data(status=404)
    httpserver.expect_request("/backups/x/.write-once", method="PUT").respond_with_data("")
    store = opened_from(("s3://backups/x", httpserver.url_for("").rstrip("/")))
    with pytest.raises(WorkFailed, match="ignores the condition"):
        put(store, "a")
    assert [(r.method, r.path) for r, _ in httpserver.log if r.path.endswith("/a")] == [("HEAD", "/backups/x/a")]


def test_a_trial_on_another_host_takes_away_all_that_it_brought_and_nothing_else(place: Place) -> None:
    for known in ([], ["a"]):
        store = opened_from(place.words, shared=True)
        for name in (trial_name("prod"), trial_name("prod")):
            put(store, name)
            store.remove(name)
        assert [path.name for path in place.folder.rglob("*") if path.is_file()] == known
        assert place.folder.exists() is bool(known)
        put(place.store(), "prod/1/a") if not known else None


def test_a_trial_in_a_bucket_takes_away_all_that_it_brought_and_nothing_else(bucket: tuple[str, ...]) -> None:
    def tried() -> list[str]:
        store: Any = opened_from(bucket)
        put(store, name := trial_name("prod"))
        store.remove(name)
        return [found for found, _ in store._listed("")]

    assert tried() == []
    put(opened_from(bucket), "prod/1/a")
    assert tried() == [".write-once", "prod/1/a"]


def test_a_large_file_for_which_there_is_no_room_until_it_is_whole_is_a_failure_with_words(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
    httpserver.expect_request("/backups/x/a", method="HEAD").respond_with_data(status=404)
    httpserver.expect_request("/backups/x/.write-once", query_string="uploads").respond_with_data(pieces)
    httpserver.expect_request("/backups/x/.write-once", method="POST").respond_with_data("<a/>")
    once = {"If-None-Match": "*"}
    httpserver.expect_request("/backups/x/.write-once", method="PUT", headers=once).respond_with_data(status=412)
    httpserver.expect_request(re.compile("/backups/x/.*")).respond_with_data("", headers={"ETag": "1"})
    store = opened_from(("s3://backups/x", httpserver.url_for("").rstrip("/")))
    monkeypatch.setattr(tempfile, "tempdir", "/dev/full")
    with pytest.raises(WorkFailed, match="cannot hold x/a in /dev/full until it is whole") as failure:
        put(store, "a", b"x" * BIG)
    assert "TMPDIR" in failure.value.hint
    assert [r.path for r, _ in httpserver.log if r.method == "PUT" and r.path.endswith("/a")] == []


def test_a_read_that_a_busy_service_turns_away_is_tried_again(httpserver: HTTPServer) -> None:
    for status in (500, 503):
        httpserver.expect_oneshot_request("/backups").respond_with_data("", status=status)
    page = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
    httpserver.expect_request("/backups").respond_with_data(page, content_type="application/xml")
    store = opened_from(("s3://backups/x", httpserver.url_for("").rstrip("/")))
    assert list(store.names()) == []
    assert len(httpserver.log) == 3


def test_a_write_that_the_service_answers_with_an_error_is_not_sent_again(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/backups/x/a", method="HEAD").respond_with_data(status=404)
    httpserver.expect_request("/backups/x/.write-once", method="PUT").respond_with_data(status=412)
    httpserver.expect_request("/backups/x/a", method="PUT").respond_with_data(status=503)
    store = opened_from(("s3://backups/x", httpserver.url_for("").rstrip("/")))
    with pytest.raises(WorkFailed, match="cannot write a"):
        put(store, "a")
    puts = [r for r, _ in httpserver.log if r.path == "/backups/x/a" and r.method == "PUT"]
    assert [r.headers["If-None-Match"] for r in puts] == ["*"]
    assert puts[0].headers["x-amz-checksum-sha256"]


@pytest.mark.parametrize("code", ["SlowDown", "SlowDownWrite"])
def test_a_write_that_a_service_turns_away_since_too_much_is_asked_of_it_is_sent_again(
    httpserver: HTTPServer, code: str
) -> None:
    slow = f"<Error><Code>{code}</Code><Message>Please reduce your request rate.</Message></Error>"
    httpserver.expect_request("/backups/x/a", method="HEAD").respond_with_data(status=404)
    httpserver.expect_request("/backups/x/.write-once", method="PUT").respond_with_data(status=412)
    for status in (503, 503, 200):
        once = httpserver.expect_oneshot_request("/backups/x/a", method="PUT", data=b"content")
        once.respond_with_data(slow if status == 503 else "", status)
    put(opened_from(("s3://backups/x", httpserver.url_for("").rstrip("/"))), "a", b"content")
    assert [response.status_code for one, response in httpserver.log if one.path == "/backups/x/a"][1:] == [
        503,
        503,
        200,
    ]


@pytest.mark.parametrize("then", [200, 412])
def test_a_write_that_met_another_one_is_sent_again_and_finds_what_that_one_wrote(
    httpserver: HTTPServer, then: int
) -> None:
    httpserver.expect_request("/backups/x/a", method="HEAD").respond_with_data(status=404)
    httpserver.expect_request("/backups/x/.write-once", method="PUT").respond_with_data(status=412)
    httpserver.expect_oneshot_request("/backups/x/a", method="PUT", data=b"content").respond_with_data(status=409)
    httpserver.expect_request("/backups/x/a", method="PUT", data=b"content").respond_with_data(status=then)
    store = opened_from(("s3://backups/x", httpserver.url_for("").rstrip("/")))
    with pytest.raises(FileExistsError) if then == 412 else nullcontext():
        put(store, "a", b"content")
    puts = [response.status_code for r, response in httpserver.log if (r.method, r.path) == ("PUT", "/backups/x/a")]
    assert puts == [409, then]


def test_a_write_that_a_proxy_sent_twice_is_not_taken_for_somebody_elses(httpserver: HTTPServer) -> None:
    writers: list[str] = []

    def store_and_refuse(request: Request) -> Response:
        writers.append(request.headers["x-amz-meta-maint-writer"])
        return Response("<Error><Code>PreconditionFailed</Code></Error>", 412)

    def tell(_: Request) -> Response:
        return Response("", headers={"x-amz-meta-maint-writer": writers[0]}) if writers else Response("", 404)

    httpserver.expect_request("/backups/x/.write-once", method="PUT").respond_with_data(status=412)
    httpserver.expect_request("/backups/x/a", method="HEAD").respond_with_handler(tell)
    httpserver.expect_request("/backups/x/a", method="PUT").respond_with_handler(store_and_refuse)
    put(opened_from(("s3://backups/x", httpserver.url_for("").rstrip("/"))), "a")
    assert len(writers) == 1


def test_the_end_of_a_large_file_that_a_proxy_sent_twice_is_its_end(httpserver: HTTPServer) -> None:
    pieces = "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
    writers: list[str] = []
    whole: list[bool] = []

    def begin(request: Request) -> Response:
        writers.append(request.headers["x-amz-meta-maint-writer"])
        return Response(pieces)

    def end(_: Request) -> Response:  # the second time that it comes
        whole.append(True)
        return Response("<Error><Code>NoSuchUpload</Code></Error>", 404)

    def tell(_: Request) -> Response:
        return Response("", headers={"x-amz-meta-maint-writer": writers[0]}) if whole else Response("", 404)

    httpserver.expect_request("/backups/x/a", method="HEAD").respond_with_handler(tell)
    httpserver.expect_request("/backups/x/a", method="POST", query_string="uploads").respond_with_handler(begin)
    httpserver.expect_request("/backups/x/a", method="POST").respond_with_handler(end)
    httpserver.expect_request("/backups/x/.write-once", query_string="uploads").respond_with_data(pieces)
    httpserver.expect_request("/backups/x/.write-once", method="POST").respond_with_data(status=412)
    once = {"If-None-Match": "*"}
    httpserver.expect_request("/backups/x/.write-once", method="PUT", headers=once).respond_with_data(status=412)
    httpserver.expect_request(re.compile("/backups/x/.*")).respond_with_data("", headers={"ETag": "1"})
    put(opened_from(("s3://backups/x", httpserver.url_for("").rstrip("/"))), "a", b"x" * BIG)
    assert len(whole) == 1


def test_a_process_that_lives_is_told_from_one_that_is_dead_or_of_another_boot() -> None:
    now = datetime.now(UTC)
    name = staging_name()
    assert not is_left_over(name, now - timedelta(days=9), now)
    machine, boot, process, began, chance = name.removeprefix(".staging-").split("-")
    assert is_left_over(f".staging-{machine}-{boot}-{process}-{int(began) + 1}-{chance}", now, now)
    assert is_left_over(f".staging-{machine}-{'0' * 12}-{process}-{began}-{chance}", now, now)


@pytest.mark.parametrize(("hours", "expected"), [(1, False), (25, True)])
def test_of_another_machine_only_the_age_tells(hours: int, expected: bool) -> None:
    now = datetime.now(UTC)
    name = f".staging-{'0' * 12}-{'0' * 12}-1-1-{'0' * 16}"
    assert is_left_over(name, now - timedelta(hours=hours), now) is expected


def test_object_lock_keeps_what_is_written_and_not_the_flag_of_a_run(object_store):
    """Even whoever holds the access key cannot remove a version of it before its time is over."""
    session = Session()
    client = session.create_client("s3", endpoint_url=object_store, region_name="us-east-1",
                                   aws_access_key_id="some-id", aws_secret_access_key="some-secret")  # fmt: skip
    bucket = f"locked-{os.urandom(4).hex()}"
    client.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    s3 = S3Settings.model_construct(
        endpoint=object_store, access_key="some-id", secret_key="some-secret", lock=86400.0, lock_mode="compliance"
    )
    backup = BackupSettings.model_construct(store=f"s3://{bucket}", s3=s3)
    store = open_store(f"s3://{bucket}", Access(backup, None, Values()))
    lasting = ("site/a/part", "trial-run/1/a", f"trial-{'0' * 16}/1/a", "lease/1/a", "under-way/1/a", "site/1/lease/a")
    passing, trial = ("site/under-way/run", "site/lease/1", "site/clock/1"), f"site/trial-{'0' * 16}"
    for name in (*lasting, f"site/1/trial-{'0' * 16}", *passing, trial):
        put(store, name)
        head = client.head_object(Bucket=bucket, Key=name)
        assert (name, head.get("ObjectLockMode")) == (name, None if name in passing else "COMPLIANCE")
        if name not in passing:
            left = head["ObjectLockRetainUntilDate"] - datetime.now(UTC)
            assert (left < timedelta(hours=2)) is (name == trial)
    store.remove("site/a/part")
    assert "site/a/part" not in list(store.names("site"))  # hidden, and still there
    versions = [one for one in client.list_object_versions(Bucket=bucket)["Versions"] if one["Key"] == "site/a/part"]
    with pytest.raises(ClientError, match=r"AccessDenied|object protected"):
        client.delete_object(Bucket=bucket, Key="site/a/part", VersionId=versions[0]["VersionId"])


def test_a_bucket_that_locks_all_by_itself_takes_small_files_and_large_ones(object_store: str) -> None:
    keys = {"aws_access_key_id": "some-id", "aws_secret_access_key": "some-secret", "region_name": "us-east-1"}
    client = Session().create_client("s3", endpoint_url=object_store, **keys)
    bucket = f"locks-{os.urandom(4).hex()}"
    client.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    rule = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}}
    client.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration=rule)
    store = opened_from((f"s3://{bucket}/x", object_store))
    put(store, "site/under-way/run")
    large = os.urandom(PIECE + 1)
    with store.create("site/a/large") as file:
        file.write(large)
    assert store.size("site/a/large") == len(large)
    store.remove("site/under-way/run")
    assert list(store.names()) == ["site/a/large"]


def test_a_lock_on_a_bucket_made_without_is_told_with_what_to_do_about_it(object_store: str) -> None:
    s3 = S3Settings.model_construct(
        endpoint=object_store, access_key="some-id", secret_key="some-secret", lock=86400.0, lock_mode="compliance"
    )
    backup = BackupSettings.model_construct(store="s3://backups", s3=s3)
    store = open_store("s3://backups/unlocked", Access(backup, None, Values()))
    for name in ("site/a/part", trial_name("site")):  # what looks whether anything can be written, as well
        with pytest.raises(StoreFailed, match="cannot write") as told:
            put(store, name)
        assert told.value.hint == "leave backup.s3.lock out, or name a bucket that was made with object lock"


def test_a_lock_that_all_buckets_have_can_be_left_out_of_one_as_its_refusal_says(object_store: str) -> None:
    s3 = S3Settings(endpoint=object_store, access_key="env:AN_ID", secret_key="env:A_KEY", lock="1d")

    def at(bucket: S3Bucket) -> Store:
        said = s3.model_copy(update={"buckets": (bucket,)})
        return open_store("s3://backups", Access(BackupSettings.model_construct(s3=said), None, Values()))

    with pytest.raises(StoreFailed, match="cannot write") as told:
        put(at(S3Bucket(name="backups")), "other/a/part")
    wanted = "write `lock: 0s` in backup.s3.buckets.backups (backup.s3.lock is for all)"
    assert str(told.value.hint).startswith(wanted)
    put(at(S3Bucket(name="backups", lock="0s")), "other/a/part")


@pytest.mark.parametrize("work", [lambda store: list(store.names()), lambda store: put(store, "prod/1/a")])
def test_a_limit_that_strikes_within_a_request_to_a_bucket_is_that_limit(work: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store: Any = opened_from(("s3://backups/x", f"http://127.0.0.1:{silent.getsockname()[1]}"))
        assert store._client  # made before the limit is set
        with pytest.raises(DeadlinePassed), SystemClock().limit(1.0):
            work(store)
