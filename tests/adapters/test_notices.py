"""Each way of telling, at a real listener: HTTP, SMTP with STARTTLS, a program."""

import json
import os
import socket
import ssl
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
import trustme
from pytest_httpserver import HTTPServer

from maint.adapters.clock import SystemClock
from maint.adapters.notices import NoticeSender
from maint.config.notices import NoticeSettings
from maint.config.secrets import ReferencedSecrets
from maint.model.notice import Kind, Notice, Told
from maint.report.run import body_of, text_of
from tests.ports import closed_port, free_port

FAILED = Notice(
    Kind.FAILURE,
    "prod",
    'backup "create"',
    "backup create failed: the manager\ndid not answer",
    "2026-11-22T02:15:07+00:00",
    ["cm.example.internal:7183: refused"],
    "maint site status",
    "20261122T021500.000Z-ab12",
    4,
    7.5,
    "root@ops",
    "0.2.0",
)
DONE = Notice(Kind.SUCCESS, "prod", "backup create", "backup create is done", FAILED.at)
START = Notice(Kind.START, "prod", "backup create", "backup create begins", FAILED.at)

Tell = Callable[..., list[Told]]


@pytest.fixture
def tell(tmp_path: Path) -> Tell:
    """Tells notices to one that is configured by its ways."""

    def told(*notices: Notice, **ways: Any) -> list[Told]:
        settings = NoticeSettings.model_validate({"name": "ops", "timeout": 5.0, **ways}, strict=False)
        secrets = ReferencedSecrets(tmp_path, os.environ)
        sender = NoticeSender([settings], secrets, SystemClock(), text=text_of, body=body_of)
        return list(sender.tell(notices))

    return told


def secret(folder: Path, name: str, value: str) -> str:
    """Write a secret down, and return the reference to it."""
    path = folder / name
    path.write_text(value)
    path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    return f"file:{path}"


def test_a_webhook_gets_the_event_as_json_with_its_token(tell: Tell, httpserver: HTTPServer, tmp_path: Path) -> None:
    httpserver.expect_request("/hook", method="POST").respond_with_data("ok")
    token = secret(tmp_path, "token", "t0ken-of-the-hook")
    assert tell(FAILED, webhook={"url": httpserver.url_for("/hook"), "token": token}) == [Told("ops")]
    ((request, _),) = httpserver.log
    assert request.headers["Authorization"] == "Bearer t0ken-of-the-hook"
    assert request.content_type == "application/json"
    assert request.json == FAILED.to_json()


def test_a_token_of_several_lines_is_named_and_not_shown(tell: Tell, httpserver: HTTPServer, tmp_path: Path) -> None:
    token = secret(tmp_path, "token", "t0ken\nof-the-hook\n")
    [told] = tell(FAILED, webhook={"url": httpserver.url_for("/hook"), "token": token})
    assert told.problem.startswith(f"webhook: the secret {token} holds a line break")
    assert "t0ken" not in told.problem.replace(token, "")


@pytest.mark.parametrize("format_", ["slack", "teams"])
def test_chat_tools_get_the_words_as_they_want_them(tell: Tell, httpserver: HTTPServer, format_: str) -> None:
    httpserver.expect_request("/hook").respond_with_data("ok")
    tell(FAILED, webhook={"url": httpserver.url_for("/hook"), "format": format_})
    ((request, _),) = httpserver.log
    said = request.json
    text = said["text"] if format_ == "slack" else said["attachments"][0]["content"]["body"][1]["text"]
    assert 'what: backup "create"' in text
    assert request.get_data(as_text=True).count("did not answer") == 1, "the headline is told once"
    assert "next: maint site status" in text and "when: 2026-11-22 02:15 UTC" in text


def test_an_address_that_is_a_secret_is_told_in_no_message(tell: Tell, tmp_path: Path) -> None:
    url = secret(tmp_path, "url", f"http://127.0.0.1:{closed_port()}/services/T0P-s3cret")
    (told,) = tell(FAILED, webhook={"url": url})
    assert "refused" in told.problem
    assert "s3cret" not in told.problem


def test_an_answer_that_is_no_success_is_trouble_and_no_redirect_is_followed(
    tell: Tell, httpserver: HTTPServer
) -> None:
    httpserver.expect_request("/gone").respond_with_data("gone", 410)
    httpserver.expect_request("/moved").respond_with_data("", 302, {"Location": httpserver.url_for("/other")})
    (gone,), (moved,) = (tell(FAILED, webhook={"url": httpserver.url_for(path)}) for path in ("/gone", "/moved"))
    assert "410 Gone" in gone.problem
    assert "302 Found, which is not followed" in moved.problem
    assert [request.path for request, _ in httpserver.log] == ["/gone", "/moved"]


def test_a_listener_that_never_answers_costs_its_limit_alone(tell: Tell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        (told,) = tell(FAILED, timeout=0.2, webhook={"url": f"http://127.0.0.1:{silent.getsockname()[1]}/"})
        assert time.monotonic() - begun < 2
    assert told.problem


def test_a_dead_mans_switch_hears_of_start_success_and_exit_code(tell: Tell, httpserver: HTTPServer) -> None:
    for path in ("/uuid/start", "/uuid", "/uuid/4"):
        httpserver.expect_oneshot_request(path, method="POST").respond_with_data("ok")
    ping = {"url": httpserver.url_for("/uuid")}
    assert [tell(one, ping=ping) for one in (START, DONE, FAILED)] == [[Told("ops")]] * 3
    assert [request.path for request, _ in httpserver.log] == ["/uuid/start", "/uuid", "/uuid/4"]


def test_each_way_takes_the_most_telling_event_that_it_is_for(tell: Tell, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/hook").respond_with_data("ok")
    httpserver.expect_request("/ping").respond_with_data("ok")
    recovered = Notice(Kind.RECOVERED, "prod", "backup create", "backup create works again", FAILED.at)
    tell(recovered, DONE, webhook={"url": httpserver.url_for("/hook")}, ping={"url": httpserver.url_for("/ping")})
    assert [request.path for request, _ in httpserver.log] == ["/hook", "/ping"]
    assert httpserver.log[0][0].json["event"] == "recovered"


def test_a_notice_about_a_playbook_that_people_call_otherwise_is_told(tell: Tell) -> None:
    assert [told.name for told in tell(DONE, on=["success"], verbs=["export"], exec={"command": ["/bin/cat"]})] == [
        "ops"
    ]


def test_a_notice_about_other_verbs_is_not_told(tell: Tell) -> None:
    assert tell(FAILED, verbs=["backup drill"], exec={"command": ["/bin/false"]}) == []


def test_a_program_gets_the_event_and_its_failure_is_told(tell: Tell, tmp_path: Path) -> None:
    said = tmp_path / "said"
    assert tell(FAILED, exec={"command": ["/bin/sh", "-c", f"cat > {said}"]}) == [Told("ops")]
    assert json.loads(said.read_text()) == FAILED.to_json()
    (failed,) = tell(FAILED, exec={"command": ["/bin/sh", "-c", "echo 'pager is down' >&2; exit 3"]})
    assert failed.problem == "exec: /bin/sh ended with status 3: pager is down"
    (absent,) = tell(FAILED, exec={"command": [str(tmp_path / "absent")]})
    assert "cannot be started: No such file or directory" in absent.problem
    (hung,) = tell(FAILED, timeout=0.2, exec={"command": ["/bin/sleep", "30"]})
    assert "did not end within" in hung.problem or "the limit of" in hung.problem


class Sink:
    """What a mail server received."""

    def __init__(self) -> None:
        self.mails: list[Any] = []
        self.answer = "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # aiosmtpd's name
        """Keep a mail, and whether it came over TLS."""
        self.mails.append((session.ssl is not None, session.authenticated, envelope))
        return self.answer


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def mail_server(authority: trustme.CA, tmp_path: Path) -> Iterator[tuple[Sink, dict[str, Any]]]:
    """A mail server that wants STARTTLS and an account; and the settings that reach it."""
    controller, smtp = pytest.importorskip("aiosmtpd.controller"), pytest.importorskip("aiosmtpd.smtp")
    trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(trust)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")

    def let_in(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> Any:
        return smtp.AuthResult(success=data.password in (b"pass-of-mail", "päss-of-mail".encode()), handled=False)

    sink = Sink()
    made = controller.Controller(
        sink,
        "127.0.0.1",
        free_port(),
        tls_context=trust,
        require_starttls=True,
        authenticator=let_in,
        auth_required=True,
    )
    made.start()
    yield (
        sink,
        {
            "host": "127.0.0.1",
            "port": made.port,
            "ca": str(tmp_path / "ca.pem"),
            "username": "maint",
            "password": secret(tmp_path, "mail", "pass-of-mail"),
            "sender": "maint@example.internal",
            "to": ["ops@example.internal", "night@example.internal"],
        },
    )
    made.stop()


def test_a_mail_goes_over_verified_tls_to_all_who_are_named(tell: Tell, mail_server: Any) -> None:
    sink, mail = mail_server
    assert tell(FAILED, mail=mail) == [Told("ops")]
    ((secure, authenticated, envelope),) = sink.mails
    assert secure and authenticated
    assert envelope.rcpt_tos == mail["to"]
    message = message_from_bytes(envelope.content)
    assert message["Subject"] == "maint prod: backup create failed: the manager did not answer"
    assert message["Auto-Submitted"] == "auto-generated"
    body = message.get_payload(decode=True)
    assert isinstance(body, bytes)
    assert b"cm.example.internal:7183: refused" in body


def test_a_mail_server_that_is_not_trusted_or_says_no_gets_nothing(
    tell: Tell, mail_server: Any, tmp_path: Path
) -> None:
    sink, mail = mail_server
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    (untrusted,) = tell(FAILED, mail={**mail, "ca": str(tmp_path / "other.pem")})
    assert "cannot be trusted" in untrusted.problem
    (refused,) = tell(FAILED, mail={**mail, "password": secret(tmp_path, "wrong", "wr0ng-password")})
    assert "535" in refused.problem
    assert "wr0ng" not in refused.problem
    assert sink.mails == []


def test_a_password_of_a_mail_account_may_have_any_letters(tell: Tell, mail_server: Any, tmp_path: Path) -> None:
    sink, mail = mail_server
    assert tell(FAILED, mail={**mail, "password": secret(tmp_path, "umlaut", "päss-of-mail")}) == [Told("ops")]
    (refused,) = tell(FAILED, mail={**mail, "password": secret(tmp_path, "wrong", "wröng-password")})
    assert "535" in refused.problem
    assert len(sink.mails) == 1


def test_what_a_mail_server_says_of_the_password_is_not_cut_in_its_midst(tell: Tell, mail_server: Any) -> None:
    sink, mail = mail_server
    sink.answer = f"550 {'x' * 190} pass-of-mail"
    (told,) = tell(FAILED, mail=mail)
    assert "550 xxx" in told.problem and "pass" not in told.problem, told


def test_a_mail_server_without_tls_gets_nothing_in_clear(tell: Tell, tmp_path: Path) -> None:
    controller = pytest.importorskip("aiosmtpd.controller")
    sink = Sink()
    made = controller.Controller(sink, "127.0.0.1", free_port())
    made.start()
    try:
        mail = {"host": "127.0.0.1", "port": made.port, "sender": "a@b.example", "to": ["c@d.example"]}
        (told,) = tell(FAILED, mail=mail)
        assert "STARTTLS" in told.problem
        assert "`tls`" in told.hint
        assert tell(FAILED, mail={**mail, "tls": "none"}) == [Told("ops")]
        account = {"username": "maint", "password": secret(tmp_path, "mail", "pass-of-mail")}
        (told,) = tell(FAILED, mail={**mail, "tls": "none", **account})
        assert "AUTH" in told.problem
        assert "`username`" in told.hint
    finally:
        made.stop()
    assert [secure for secure, _, _ in sink.mails] == [False]


@pytest.mark.parametrize("failure", [ValueError("of a library"), OSError(5, "Input/output error")])
def test_what_nobody_foresaw_in_telling_a_notice_says_what_helps_all_the_same(
    tmp_path: Path, failure: Exception
) -> None:
    def failing(_: Notice) -> str:
        raise failure

    settings = NoticeSettings.model_validate({"name": "ops", "ping": {"url": "https://127.0.0.1:1/x"}}, strict=False)
    secrets = ReferencedSecrets(tmp_path, os.environ)
    (told,) = NoticeSender([settings], secrets, SystemClock(), text=failing, body=body_of).tell([FAILED])
    assert told.problem and "`maint notify test`" in told.hint


def test_a_mail_server_whose_answer_has_no_end_is_left(tell: Tell) -> None:
    sent = 0

    def pour(server: socket.socket) -> None:
        nonlocal sent
        near, _ = server.accept()
        with near, suppress(OSError):
            while sent < 200_000_000:
                sent += near.send(b"220-welcome\r\n" * 1000)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=pour, args=(server,))
        thread.start()
        mail = {"host": "127.0.0.1", "port": server.getsockname()[1], "tls": "none"}
        (told,) = tell(FAILED, mail={**mail, "sender": "a@example.com", "to": ["b@example.com"]})
        thread.join()
    assert told.problem
    assert sent < 50_000_000
