"""The way in: which port serves, and which account is let in, found once and kept until forgotten."""

from dataclasses import dataclass

import requests

from maint.adapters.manager import accounts, answers
from maint.adapters.manager.probe import knock
from maint.adapters.manager.transport import Basic, Call, Transport
from maint.adapters.manager.version import parse
from maint.errors import CannotReach, Transient, WorkFailed
from maint.model.manager import Account, Door, Presence
from maint.ports import Secrets

_VERSION = "/api/version"


@dataclass(slots=True)
class _Session:
    """The account that was let in, and the API version that the server told it."""

    account: Account
    auth: Basic
    api: int | None


class Gate:
    """One manager's door and login."""

    def __init__(self, transport: Transport, secrets: Secrets) -> None:
        self._transport = transport
        self._settings = transport.settings
        self._secrets = secrets
        self._presence: Presence | None = None
        self._session: _Session | None = None

    @property
    def name(self) -> str:
        """The account that is let in, for messages."""
        return self._session.account.name if self._session else "nobody"

    def presence(self) -> Presence:
        """Return what the knock found; a manager that was up is knocked at once until `forget`."""
        if self._presence is not None:
            return self._presence
        found = knock(self._transport)
        if _settled(found):
            self._presence = found
        return found

    def forget(self) -> None:
        """Forget door, account and version."""
        self._presence = None
        self._session = None

    def account(self) -> Account:
        """Return the account that is let in."""
        return self._let_in().account

    def moved(self) -> None:
        """Forget the door alone: what it answered says that another one serves now."""
        self._presence = None

    def auth(self) -> Basic:
        """Return what the account that is let in sends along."""
        return self._let_in().auth

    def api(self) -> int:
        """Return the API version that the server told at login.

        Raises:
            WorkFailed: the account is let in and may not even ask for the version.
        """
        session = self._let_in()
        if session.api is None:
            raise WorkFailed(
                f"GET {_VERSION}: the manager answered 403 Forbidden",
                hint=f"the account {session.account.name} is let in, but its role is too weak",
            )
        return session.api

    def door(self) -> Door:
        """Return the door that serves; credentials leave through no other.

        Raises:
            CannotReach: none serves, or what serves cannot be trusted.
            Transient: the manager is starting.
        """
        found = self.presence()
        ports = (f"port {self._settings.plain_port}: {found.plain}", f"port {self._settings.tls_port}: {found.tls}")
        if found.door is Door.CLOSED:
            raise CannotReach(
                f"no port of {self._settings.host} serves the management API",
                detail=ports,
                hint="is the manager up? systemctl status cloudera-scm-server on its host",
            )
        if found.chain is not None:
            raise CannotReach(
                f"{self._settings.host} speaks TLS, and its TLS port cannot be used",
                detail=(*ports, *found.chain.split("; ")),
                hint="manager.ca must name a PEM file that the chain leads to; nothing is sent in clear instead",
            )
        if not _settled(found):
            raise Transient(f"{self._settings.host} is not ready", detail=ports, hint="it may be starting; ask again")
        return found.door

    def _let_in(self) -> _Session:
        if self._session is not None:
            return self._session
        call = Call("GET", _VERSION, read=self._transport.timeouts.read)

        def ask(auth: Basic) -> requests.Response:
            answer = self._transport.send(self.door(), call, auth)
            if 300 <= answer.status_code < 400:
                answer.close()
                self.moved()
                answer = self._transport.send(self.door(), call, auth)
            return answer

        account, auth, answer = accounts.let_in(self._settings, self._secrets, ask)
        content = answers.body(answer)
        if answer.status_code not in (200, 403):
            if answer.status_code == 404:
                raise _first_version(self._settings.host)
            raise answers.refusal(f"GET {_VERSION}", answer, content, account.name)
        known = parse(content.decode("utf-8", "replace")) if answer.status_code == 200 else None
        self._session = _Session(account, auth, known)
        return self._session


def _settled(found: Presence) -> bool:
    """Whether this is worth remembering: the API answers, and not only says that it is starting."""
    if found.door is Door.CLOSED or found.chain is not None:
        return False
    words = found.tls if found.door is Door.TLS else found.plain
    return not words.startswith("answers 5")


def _first_version(host: str) -> WorkFailed:
    return WorkFailed(
        f"{host} does not know /api/version (404)",
        hint="a server of 2012 that knows only v1, or one that is still starting: ask again in two minutes",
    )
