"""Send a mail over SMTP, with TLS that is verified before the account is named."""

import smtplib
import socket
import ssl
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import Any, cast

from maint.adapters.http import tls
from maint.adapters.notify.way import Say
from maint.config.notices import Mail, NoticeSettings
from maint.errors import CannotReach, WorkFailed
from maint.model.notice import Notice

_LONGEST = 64 * 1024  # bytes of an answer


def send(one: NoticeSettings, notice: Notice, say: Say) -> None:
    """Send the notice as a mail; CannotReach: no trusted connection, WorkFailed: account or mail refused."""
    mail = one.mail
    assert mail is not None
    place = ":".join(map(str, mail.at))
    try:
        with _connected(mail, one.timeout) as server:
            if mail.username and mail.password:
                server.login(mail.username, say.secrets.resolve(mail.password).reveal())
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
            hint="correct `to` in the config, or ask whoever runs that server",
        )


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
    return " ".join(text.split())[:200]
