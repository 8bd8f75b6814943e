"""Send notices by webhook, mail, ping, program or package, each within its limit; run the operator's programs."""

import os
import smtplib
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec

from maint import plugins
from maint.adapters.clock import is_of_another
from maint.adapters.http import tls
from maint.adapters.http.request import Bearer, HttpCall, Timeouts
from maint.adapters.http.transport import Peer, Transport
from maint.config.fields import is_address, url
from maint.config.notices import Mail, NoticeSettings
from maint.config.programs import plain_environment, run_program
from maint.config.secrets import in_one_line
from maint.errors import CannotReach, DeadlinePassed, Interrupted, Invalid, MaintError, WorkFailed
from maint.model.formatting import meant
from maint.model.notice import Kind, Notice, Told
from maint.model.secret import Secret, scrub
from maint.ports import Clock, Secrets

_MOST = 60.0  # seconds for telling all of them
_LONGEST = 64 * 1024  # bytes of a mail server's answer
_SIGNAL = "interrupted by a signal"
_TRY = "`maint notify test` tries it alone"
_LET_IN = 235  # of a mail server


class Say(msgspec.Struct, frozen=True):
    """How a notice is put, where secrets come from, and the proxy on the way to addresses (None: there is none)."""

    secrets: Secrets
    text: Callable[[Notice], str]
    body: Callable[[str, Notice], bytes]  # of a format and a notice
    proxy: str | None = None


def _mail(one: NoticeSettings, notice: Notice, say: Say) -> None:
    """Send the notice as a mail; CannotReach: no trusted connection, WorkFailed: account or mail refused."""
    mail = one.mail
    assert mail is not None
    place = ":".join(map(str, mail.at))
    try:
        with _connected(mail, one.timeout) as server:
            if mail.username and mail.password:
                _log_in(server, mail.username, in_one_line(say.secrets.resolve(mail.password), mail.password))
            refused = server.send_message(_written(mail, notice, say), mail.sender, list(mail.to))
    except ssl.SSLCertVerificationError as error:
        raise CannotReach(
            f"{place} cannot be trusted: {tls.reason(error, mail.host)}",
            hint="name the authority of its certificate under `ca:` of this way",
        ) from None
    except smtplib.SMTPResponseException as error:
        raise WorkFailed(
            f"{place} answered {error.smtp_code} {_text(error.smtp_error)}",
            hint="correct what it names: account, password or sender in the config",
        ) from None
    except smtplib.SMTPNotSupportedError as error:
        hint = "that server lacks what the config asks for: by `tls`, `username`, or letters in addresses beyond ASCII"
        raise WorkFailed(f"{place}: {error}", hint=hint) from None
    except smtplib.SMTPRecipientsRefused as error:
        refused = error.recipients
    except (smtplib.SMTPException, OSError) as error:
        words = "no answer in time" if isinstance(error, TimeoutError) else getattr(error, "strerror", "") or str(error)
        raise CannotReach(
            f"{place}: {words}", hint="correct host and port in the config; is a firewall in between?"
        ) from None
    if refused:
        raise WorkFailed(
            f"{place} takes no mail for {', '.join(refused)}",
            hint="correct `to` in the config, or ask the administrator of that server",
        )


def _log_in(server: smtplib.SMTP, username: str, password: Secret) -> None:
    """Log in; what is no ASCII goes as RFC 4616 has it, which the library cannot send."""
    if f"{username}{password.reveal()}".isascii():
        server.login(username, password.reveal())
        return
    server.ehlo_or_helo_if_needed()
    words = b64encode("\0".join(("", username, password.reveal())).encode()).decode()
    code, said = server.docmd("AUTH", f"PLAIN {words}")
    if code != _LET_IN:
        raise smtplib.SMTPAuthenticationError(code, said)


class _Bounded(smtplib.SMTP):
    """As the library has it, which would collect the lines of an answer without an end."""

    def getreply(self) -> tuple[int, bytes]:
        """Return an answer of the server; SMTPServerDisconnected where it is longer than any."""
        self.file = _Answers(self.file or cast(socket.socket, self.sock).makefile("rb"))
        try:
            return super().getreply()
        finally:
            self.file = self.file.lines if isinstance(self.file, _Answers) else self.file


class _BoundedTls(_Bounded, smtplib.SMTP_SSL):
    """The same over TLS."""


class _Answers:
    def __init__(self, lines: Any) -> None:  # what `makefile` returns
        self.lines = lines
        self.close = lines.close
        self._left = _LONGEST

    def readline(self, size: int) -> bytes:
        """Return a line; OSError where there were too many."""
        line: bytes = self.lines.readline(size)
        self._left -= len(line)
        if self._left < 0:
            raise OSError(f"an answer of more than {_LONGEST} bytes")
        return line


def _connected(mail: Mail, timeout: float) -> smtplib.SMTP:
    trust = tls.context(mail.ca, insecure=False, hint="`ca` of the notice must name a PEM file")
    host, port = mail.at
    if mail.tls == "tls":
        return _BoundedTls(host, port, timeout=timeout, context=trust)
    server = _Bounded(host, port, timeout=timeout)
    if mail.tls == "starttls":
        try:
            server.starttls(context=trust)  # SMTPNotSupportedError where the server offers none: nothing goes in clear
        except BaseException:
            server.close()
            raise
    return server


def _written(mail: Mail, notice: Notice, say: Say) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"] = mail.sender, ", ".join(mail.to)
    message["Subject"] = " ".join(notice.title.split())[:200]
    message["Date"], message["Message-ID"] = formatdate(), make_msgid(domain="maint")
    message["Auto-Submitted"] = "auto-generated"  # so that no absence note answers it
    message.set_content(say.text(notice))
    return message


def _text(said: bytes | str) -> str:
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    return " ".join(scrub(text).split())[:200]  # cut first, a part of a secret could stay


def _webhook(one: NoticeSettings, notice: Notice, say: Say) -> None:
    """Post the event in the webhook's format; raises WorkFailed, CannotReach or Invalid."""
    hook = one.webhook
    assert hook is not None
    auth = Bearer(in_one_line(say.secrets.resolve(hook.token), hook.token)) if hook.token else None
    address = _address(hook.url, say.secrets, f"notify.{one.name}.webhook.url")
    call = HttpCall("POST", address, one.timeout, one.timeout, body=say.body(hook.format, notice))
    _sent(call, hook.ca, say.proxy, auth)


def _ping(one: NoticeSettings, notice: Notice, say: Say) -> None:
    """Tell the dead man's switch; raises as `_webhook` does."""
    switch = one.ping
    assert switch is not None
    ends = {Kind.START: switch.start, Kind.SUCCESS: switch.success}
    more = ends.get(notice.kind, switch.failure).replace("{exit}", str(notice.exit))
    address = _address(switch.url, say.secrets, f"notify.{one.name}.ping.url") + more
    words = say.text(notice).encode()
    call = HttpCall("POST", address, one.timeout, one.timeout, body=words, type="text/plain; charset=utf-8")
    _sent(call, switch.ca, say.proxy)


def _address(said: str, secrets: Secrets, key: str) -> str:
    if is_address(said):
        return said
    try:
        return url(secrets.resolve(said).reveal())
    except ValueError as error:
        raise Invalid(
            f"what {key} refers to {error}", hint="it is one line, an address that begins with https://"
        ) from None


def _sent(call: HttpCall, ca: Path | None, proxy: str | None, auth: Bearer | None = None) -> None:
    peer = Peer(
        ca=ca,
        ca_hint="`ca` of the notice must name a PEM file",
        authority_hint="give the notice the authority's certificate as `ca`",
        name_setting="the notice's `url`",
        unreachable=lambda _: "correct the notice's `url`; is a firewall or a proxy in between?",
        proxy=proxy,
    )
    transport = Transport(peer, Timeouts(connect=call.read), lambda _: None)
    try:
        reply = transport.fetch(call, auth)
    finally:
        transport.close()
    if not reply.good:
        where = ", which is not followed" if reply.redirects else ""
        raise WorkFailed(
            f"{call.origin} answered {reply.title}{where}",
            hint="look at what that address takes; `maint notify test` tries it again",
        )


Way: TypeAlias = Callable[[NoticeSettings, Notice, Say], None]
OfPackage: TypeAlias = Callable[[Mapping[str, str], Notice, Say], None]


def _exec(one: NoticeSettings, notice: Notice, say: Say) -> None:
    """Run a program of the operator's; WorkFailed: it did not start, ended with another status than 0, or too late."""
    assert one.exec is not None
    LocalPrograms().run(one.exec.command, say.body("json", notice), one.timeout)


def _plugin(one: NoticeSettings, notice: Notice, say: Say) -> None:
    """Hand the notice to an installed package; raises Invalid where that cannot be loaded, and what it raises."""
    assert one.plugin is not None
    kind, known = one.plugin.kind, plugins.offered(plugins.NOTIFY)
    if kind not in known:
        words = f"no installed package offers notices named {kind!r}"
        raise Invalid(words, hint=meant(kind, known, "install it beside maint"))
    tell = plugins.load(known[kind], "notice", _function, "it is a function of settings, notice and say")
    tell(one.plugin.settings, notice, say)


def _function(found: object) -> OfPackage | None:
    return cast(OfPackage, found) if callable(found) else None


_WAYS: Mapping[str, Way] = {"webhook": _webhook, "mail": _mail, "ping": _ping, "exec": _exec, "plugin": _plugin}


class NoticeSender:
    """`ports.Notices`; `text` puts a notice into words, `body` into a format; `proxy` leads to addresses."""

    def __init__(
        self,
        configured: Sequence[NoticeSettings],
        secrets: Secrets,
        clock: Clock,
        *,
        text: Callable[[Notice], str],
        body: Callable[[str, Notice], bytes],
        proxy: str | None = None,
    ) -> None:
        self._configured = configured
        self._say = Say(secrets, text, body, proxy)
        self._clock = clock

    def tell(self, notices: Sequence[Notice], names: Collection[str] | None = None) -> Sequence[Told]:
        """Tell, each within its limit and all within a minute; DeadlinePassed: a limit around this one has passed."""
        end, found = self._clock.monotonic() + _MOST, list[Told]()
        for one in self._configured:
            for way, notice in _chosen(one, notices) if names is None or one.name in names else ():
                if (left := end - self._clock.monotonic()) <= 0:
                    found.append(Told(one.name, f"{way}: no time was left"))
                    continue
                problem, hint = self._told(one, way, notice, min(left, one.timeout))
                found.append(Told(one.name, f"{way}: {problem}" if problem else "", hint))
                if problem == _SIGNAL:
                    return found
        return found

    def _told(self, one: NoticeSettings, way: str, notice: Notice, limit: float) -> tuple[str, str]:
        try:
            with self._clock.limit(limit):
                _WAYS[way](one, notice, self._say)
        except DeadlinePassed as error:
            if is_of_another(error):  # one around the telling
                raise
            return error.message, "look at what it leads to, or give the notice more time: `timeout`"
        except Interrupted:
            return _SIGNAL, ""
        except MaintError as error:
            return scrub(": ".join([error.message, *error.detail[:1]])), error.way_on or ""
        except OSError as error:
            return error.strerror or "the operating system said no", _TRY
        except Exception:  # a boundary: what a library says may hold anything, and nothing may stop the run
            return "it failed in a way that maint does not know", _TRY
        return "", ""


def _chosen(one: NoticeSettings, notices: Sequence[Notice]) -> Iterator[tuple[str, Notice]]:
    """Yield each way of a notice that is for one of the events, with the first of them that it is for."""
    seen = set[str]()
    for notice in notices:
        for way in one.ways(notice.kind.value, notice.verb):
            if way not in seen:
                seen.add(way)
                yield way, notice


_TAIL = 64 * 1024  # bytes of what a program prints, for the lines that are shown where it fails


class LocalPrograms:
    """`ports.Programs`."""

    def run(self, words: Sequence[str], given: bytes, timeout: float, folder: Path = Path("/")) -> None:
        """Run a program with its standard input, for at most so many seconds; WorkFailed: it did not end with 0."""
        environ = plain_environment(os.environ)
        try:
            ended = run_program(words, environ=environ, folder=folder, timeout=timeout, given=given, tail=_TAIL)
        except TimeoutError as error:
            hint = "run it by hand as the user who runs maint: it may wait for an answer"
            raise WorkFailed(f"{words[0]} {error}", hint=hint) from None
        except OSError as error:
            hint = "name a program by its whole path, which the user who runs maint may run"
            raise WorkFailed(f"{words[0]} cannot be started: {error.strerror}", hint=hint) from None
        if ended.status:
            said = scrub((ended.err or ended.out).decode(errors="replace")).strip().splitlines()
            hint = "run it by hand as the user who runs maint, with what it reads on its standard input"
            raise WorkFailed(f"{words[0]} ended with status {ended.status}", detail=said[-3:], hint=hint)
