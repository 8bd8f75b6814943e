"""A service of S3 whose answers have no end, no sense, or files of others: an error, soon, and nothing is touched."""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from maint.adapters.stores import Access, open_store, s3, s3_wire
from maint.config.schema import BackupSettings
from maint.config.stores import S3Bucket, S3Settings
from maint.errors import Invalid, StoreFailed, WorkFailed
from maint.model.secret import know
from maint.retry import heed
from tests.adapters.stores.test_far_stores import Values, opened_from

DATE = "2026-11-22T10:00:00.000Z"


@pytest.fixture
def pouring() -> Iterator[Callable[[bytes, float], tuple[str, list[int]]]]:
    """Makes services that answer with a head and then blocks without end, with pauses (seconds); and what was sent."""
    servers = list[socket.socket]()

    def make(block: bytes, pause: float) -> tuple[str, list[int]]:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)
        sent = [0]

        def pour(near: socket.socket) -> None:
            with near, suppress(OSError):
                near.recv(65_536)
                near.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n\r\n")
                while sent[0] < 1 << 29:
                    near.sendall(block)
                    sent[0] += len(block)
                    time.sleep(pause)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=pour, args=(server.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return f"http://127.0.0.1:{server.getsockname()[1]}", sent

    yield make
    for server in servers:
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()


def test_a_list_whose_page_has_no_end_is_left(pouring: Any) -> None:
    endpoint, sent = pouring(b"<a/>" * 65_536, 0)
    with pytest.raises(WorkFailed, match="longer than"):
        list(opened_from(("s3://backups/x", endpoint)).names())
    assert sent[0] < 1 << 28


def test_a_page_that_comes_byte_by_byte_has_a_limit_as_a_whole(pouring: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_wire, "_LIMITS", s3_wire.Timeouts(read=60.0, whole=0.5))
    endpoint, _ = pouring(b" ", 0.05)
    with pytest.raises(StoreFailed, match="cannot list"):
        list(opened_from(("s3://backups/x", endpoint)).names())


def test_a_thread_whose_work_is_over_does_not_wait_for_a_silent_service(pouring: Any) -> None:
    endpoint, sent = pouring(b"<ListBucketResult>", 50.0)
    stop = threading.Event()
    store: Any = opened_from(("s3://backups/x", endpoint))
    hands = ThreadPoolExecutor(1, initializer=heed, initargs=(stop,))
    listing = hands.submit(lambda: list(store.names()))
    while not sent[0]:
        time.sleep(0.01)
    stop.set()
    with pytest.raises(StoreFailed):
        listing.result(timeout=30)  # the pause is longer
    hands.shutdown()


def answering(httpserver: HTTPServer, page: str, status: int = 200) -> Any:
    """Return a store whose service answers all with one page."""
    httpserver.expect_request("/backups").respond_with_data(page, status, content_type="application/xml")
    return opened_from(("s3://backups/x", httpserver.url_for("").rstrip("/")))


def page(key: str, *, date: str = DATE, more: str = "") -> str:
    found = f"<Contents><Key>{key}</Key><LastModified>{date}</LastModified></Contents>"
    return f"<ListBucketResult><IsTruncated>{str(bool(more)).lower()}</IsTruncated>{found}{more}</ListBucketResult>"


@pytest.mark.parametrize(
    "answer",
    ["", "<html>", "[]", page("x/prod/a", date="yesterday"), page("x/prod/a", date="9" * 400),
     "<ListBucketResult><IsTruncated>false</IsTruncated><Contents/></ListBucketResult>", "<a>" * 10_000],
    ids=["nothing", "a torn page", "json", "no date", "a huge date", "no key", "deep"],
)  # fmt: skip
def test_an_answer_that_makes_no_sense_is_a_failure_with_words(httpserver: HTTPServer, answer: str) -> None:
    store = answering(httpserver, answer)
    with pytest.raises(StoreFailed) as told:
        list(store.names())
    assert told.value.hint


@pytest.mark.parametrize("given", ["<Error><Code>PermanentRedirect</Code></Error>", "<html>Log in</html>"])
def test_a_service_that_sends_elsewhere_is_told_with_what_to_name_instead(httpserver: HTTPServer, given: str) -> None:
    store = answering(httpserver, given, 301)
    with pytest.raises(StoreFailed) as told:
        list(store.names())
    assert "sends elsewhere (301)" in told.value.detail[0]
    assert told.value.hint == "backup.s3.endpoint must be the service itself, in the bucket's region"


@pytest.mark.parametrize(
    "code", ["PermanentRedirect", "TemporaryRedirect", "IllegalLocationConstraintException", "301"]
)
def test_a_service_of_another_region_than_the_bucket_is_told_with_the_endpoint_and_the_region_to_name(
    httpserver: HTTPServer, code: str
) -> None:
    status = {"TemporaryRedirect": 307, "IllegalLocationConstraintException": 400}.get(code, 301)
    answer = Response(f"<Error><Code>{code}</Code><Message>use its endpoint</Message></Error>", status)
    answer.headers["x-amz-bucket-region"] = "eu-west-1"
    httpserver.expect_request(re.compile(".*")).respond_with_response(answer)
    store = opened_from(("s3://backups/x", httpserver.url_for("").rstrip("/")))
    with pytest.raises(StoreFailed) as told:
        store.size("prod/a") if code == "301" else list(store.names())  # a HEAD has no words
    assert told.value.hint == "backup.s3.endpoint must be the service itself, in the bucket's region, eu-west-1"


@pytest.mark.parametrize(
    ("code", "status", "hint"),
    [("InvalidAccessKeyId", 403, "look at backup.s3.buckets.own.access_key"),
     ("SignatureDoesNotMatch", 403, "look at backup.s3.secret_key"),  # as for all
     ("ExpiredToken", 400, "for backup.s3.buckets.own.access_key and backup.s3.secret_key"),
     ("AuthorizationHeaderMalformed", 400, "buckets.own.region"),
     ("AccessDenied", 403, "`maint help stores` names"), ("SlowDown", 503, "try again later"),
     ("XMinioStorageFull", 507, "make room"),
     ("InvalidObjectState", 403, "lies in the service's archive"),
     ("NotThoughtOf", 400, "refuses this"), ("Odd", 500, "try again later")],
)  # fmt: skip
def test_what_a_service_refuses_names_the_setting_that_it_is_about(
    httpserver: HTTPServer, code: str, status: int, hint: str
) -> None:
    answer = f"<Error><Code>{code}</Code><Message>its words</Message></Error>"
    httpserver.expect_request("/own").respond_with_data(answer, status, content_type="application/xml")
    bucket = S3Bucket(name="own", endpoint=httpserver.url_for("").rstrip("/"), access_key="env:AN_ID")
    s3 = S3Settings.model_construct(access_key="some-id", secret_key="some-secret", buckets=(bucket,))
    backup = BackupSettings.model_construct(store="s3://own", s3=s3)
    store = open_store("s3://own", Access(backup, None, Values()))
    with pytest.raises(StoreFailed, match="cannot list in s3://own") as told:
        list(store.names())
    assert told.value.detail == (f"{code}: its words",)
    assert hint in str(told.value.hint)


def test_a_name_that_no_bucket_can_have_is_a_matter_of_the_config() -> None:
    with pytest.raises(Invalid, match="cannot be the name of a bucket"):
        opened_from(("s3://Buck_et!/x", "http://127.0.0.1:1"))


def test_pages_without_an_end_are_left(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "_PAGES", 5)
    store = answering(httpserver, page("x/prod/a", more="<NextContinuationToken>on</NextContinuationToken>"))
    with pytest.raises(StoreFailed, match="says that there are more"):
        list(store.names())
    assert len(httpserver.log) == 5


def test_what_is_listed_of_others_is_neither_shown_nor_removed(httpserver: HTTPServer) -> None:
    old = "2020-01-01T00:00:00.000Z"
    upload = f"<Upload><Key>others/big</Key><UploadId>7</UploadId><Initiated>{old}</Initiated></Upload>"
    removed = list[str]()

    def answer(request: Request) -> Response:
        if request.method == "DELETE":
            removed.append(request.full_path)
            return Response(status=204)
        if "uploads" in request.args:
            listed = (
                f"<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>{upload}</ListMultipartUploadsResult>"
            )
            return Response(listed, content_type="application/xml")
        return Response(page(f"others/.staging-{'0' * 12}", date=old), content_type="application/xml")

    httpserver.expect_request("/backups").respond_with_handler(answer)
    httpserver.expect_request("/backups/others/big").respond_with_handler(answer)
    store: Any = opened_from(("s3://backups/x", httpserver.url_for("").rstrip("/")))
    assert list(store.names()) == []
    assert store.sweep() == 0
    assert removed == []


def test_a_clock_that_is_wrong_is_to_be_set_and_not_the_service_to_be_looked_for(httpserver: HTTPServer) -> None:
    said = "<Error><Code>RequestTimeTooSkewed</Code><Message>The difference is too large.</Message></Error>"
    store = answering(httpserver, said, 403)
    with pytest.raises(StoreFailed) as caught:
        list(store.names())
    assert "set this machine's clock right" in (caught.value.hint or "")
    httpserver.clear()
    assert list(answering(httpserver, page("x/prod/a")).names()) == ["prod/a"]  # as it answers once the clock is right


def test_what_a_service_says_of_its_refusal_holds_no_secret(httpserver: HTTPServer) -> None:
    know("the-key-of-the-store")
    said = "<Error><Code>AccessDenied</Code><Message>the-key-of-the-store is wrong</Message></Error>"
    with pytest.raises(StoreFailed) as caught:
        list(answering(httpserver, said, 403).names())
    assert "••• is wrong" in caught.value.in_a_line and "the-key" not in caught.value.in_a_line
