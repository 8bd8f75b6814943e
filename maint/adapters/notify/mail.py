"""Send a mail over SMTP, with TLS that is verified before the account is named."""

import smtplib
import ssl
from email.message import EmailMessage
from email.utils import formatdate, make_msgid

from maint.adapters.http import tls
from maint.adapters.notify.way import Say
from maint.config.notices import Mail, NoticeSettings
from maint.errors import CannotReach, WorkFailed
from maint.model.notice import Notice


def send(one: NoticeSettings, notice: Notice, say: Say) -> None:
    """Send the notice as a mail; CannotReach: no trusted connection, WorkFailed: account or mail refused."""
    mail = one.mail
    if mail is None:
        return
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


def _connected(mail: Mail, timeout: float) -> smtplib.SMTP:
    trust = tls.context(mail.ca, insecure=False, hint="`ca` of the notice must name a PEM file")
    host, port = mail.at
    if mail.tls == "tls":
        return smtplib.SMTP_SSL(host, port, timeout=timeout, context=trust)
    server = smtplib.SMTP(host, port, timeout=timeout)
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
