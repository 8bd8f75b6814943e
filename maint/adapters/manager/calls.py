"""Reads that may be asked again, and changes that are sent once: each with the right port and account."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import requests

from maint.adapters.manager import accounts, answers
from maint.adapters.manager.presence import knock
from maint.adapters.manager.transport import Basic, Broken, Call, Timeouts, Transport
from maint.adapters.manager.version import parse
from maint.errors import AnswerMissing, CannotReach, Transient, WorkFailed
from maint.model.json import Json
from maint.model.manager import Account, Door, Presence
from maint.model.site import ManagerSettings
from maint.ports import Clock, Secrets

_AGAIN = 2  # how often a read is asked again after a 401 to an account that was let in before (contract section 2.2)


@dataclass(slots=True)
class _Session:
    """The account that was let in, and the API version that the server told it."""

    account: Account
    auth: Basic
    api: int | None


class Calls:
    """One manager: which door serves, who is let in, and how to ask and to act."""

    def __init__(
        self,
        settings: ManagerSettings,
        secrets: Secrets,
        clock: Clock,
        *,
        warn: Callable[[str], None],
        timeouts: Timeouts,
        pause: float,
    ) -> None:
        self.settings = settings
        self.timeouts = timeouts
        self.clock = clock
        self._secrets = secrets
        self._pause = pause
        self._transport = Transport(settings, timeouts, warn)
        self._presence: Presence | None = None
        self._session: _Session | None = None

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

    def api(self) -> int:
        """Return the API version that the server told at login."""
        session = self._let_in()
        if session.api is None:
            session.api = parse(self.read("/api/version").decode("utf-8", "replace"))
        return session.api

    def root(self, pinned: int) -> str:
        """Return `/api/vN` for a pinned version; never a lower one (contract section 3).

        Raises:
            WorkFailed: the server knows only lower ones.
        """
        known = self.api()
        if pinned > known:
            raise WorkFailed(
                f"the manager speaks the API up to v{known}, and v{pinned} is configured",
                hint=f"set manager.api to v{known} or lower where a lower one is really meant",
            )
        return f"/api/v{pinned}"

    def read(self, path: str) -> bytes:
        """Return the body of a GET that was answered with 200; `path` starts with `/api/`."""
        answer = self.ask(Call("GET", path, read=self.timeouts.read))
        return self.whole(answer, f"GET {path}")

    def json(self, path: str) -> Json:
        """Return the JSON of a GET that was answered with 200."""
        return decoded(self.read(path), f"GET {path}")

    def whole(self, answer: requests.Response, what: str) -> bytes:
        """Return the body of a 2xx answer; raise what any other stands for."""
        content = answers.body(answer)
        if not 200 <= answer.status_code < 300:
            raise answers.refusal(what, answer, content, self._name())
        return content

    def ask(self, call: Call, *, patient: bool = True) -> requests.Response:
        """Send a read; a redirect means another door, found anew once; a stray 401 is worth another try.

        Args:
            patient: whether a 401 is tried again here; pollers count for themselves.
        """
        answer = self._ask(call)
        if 300 <= answer.status_code < 400:
            answer.close()
            self._presence = None
            answer = self._ask(call)
        for _ in range(_AGAIN if patient else 0):
            if answer.status_code != 401:
                break
            answer.close()
            self.clock.sleep(self._pause)
            answer = self._ask(call)
        return answer

    def act(self, call: Call) -> requests.Response:
        """Send a change, once and never again.

        Raises:
            CannotReach: no connection: nothing was sent.
            AnswerMissing: it was sent, and no answer came.
            WorkFailed: the manager had moved to TLS: it was sent once, to the plain port, and not done.
        """
        auth = self._let_in().auth
        try:
            answer = self._transport.send(self._door(), call, auth)
        except Broken as failure:
            raise self.lost(call, failure.words) from None
        if 300 <= answer.status_code < 400:
            answer.close()
            self._moved(call, answer)
        return answer

    def done(self, answer: requests.Response, call: Call) -> bytes:
        """Return the body of a change that was answered with 2xx; raise what any other answer stands for."""
        try:
            content = answers.body(answer)
        except Broken as failure:
            raise self.lost(call, failure.words) from None
        code = answer.status_code
        if code >= 500 and answers.message(content) is None:
            raise self.lost(call, f"answered {answers.status(answer)}, which is not the manager's own answer")
        if not 200 <= code < 300:
            failed = answers.refusal(_what(call), answer, content, self._name())
            if isinstance(failed, Transient):  # a change is never tried again by those who count such failures
                raise WorkFailed(failed.message, hint=failed.hint)
            raise failed
        return content

    def lost(self, call: Call, words: str, *, whole: bool = True) -> AnswerMissing:
        """Return the failure of a change whose answer did not come."""
        return AnswerMissing(
            f"{_what(call)} was sent once, and its answer is missing: {words}",
            whole=whole,
            hint="it may have been done all the same: look before anything is repeated",
        )

    def _ask(self, call: Call) -> requests.Response:
        return self._transport.send(self._door(), call, self._let_in().auth)

    def _door(self) -> Door:
        """Return the door that serves; credentials leave through no other.

        Raises:
            CannotReach: none serves, or what serves cannot be trusted.
            Transient: the manager is starting.
        """
        found = self.presence()
        ports = (f"port {self.settings.plain_port}: {found.plain}", f"port {self.settings.tls_port}: {found.tls}")
        if found.door is Door.CLOSED:
            raise CannotReach(
                f"no port of {self.settings.host} serves the management API",
                detail=ports,
                hint="is the manager up? systemctl status cloudera-scm-server on its host",
            )
        if found.chain is not None:
            raise CannotReach(
                f"{self.settings.host} speaks TLS, and its TLS port cannot be used",
                detail=(*ports, *found.chain.split("; ")),
                hint="manager.ca must name a PEM file that the chain leads to; nothing is sent in clear instead",
            )
        if not _settled(found):
            raise Transient(f"{self.settings.host} is not ready", detail=ports, hint="it may be starting; ask again")
        return found.door

    def _let_in(self) -> _Session:
        if self._session is not None:
            return self._session
        call = Call("GET", "/api/version", read=self.timeouts.read)

        def ask(auth: Basic) -> requests.Response:
            answer = self._transport.send(self._door(), call, auth)
            if 300 <= answer.status_code < 400:
                answer.close()
                self._presence = None
                answer = self._transport.send(self._door(), call, auth)
            return answer

        account, auth, answer = accounts.let_in(self.settings, self._secrets, ask)
        content = answers.body(answer)
        if answer.status_code not in (200, 403):
            if answer.status_code == 404:
                raise _first_version(self.settings.host)
            raise answers.refusal("GET /api/version", answer, content, account.name)
        known = parse(content.decode("utf-8", "replace")) if answer.status_code == 200 else None
        self._session = _Session(account, auth, known)
        return self._session

    def _name(self) -> str:
        return self._session.account.name if self._session else "nobody"

    def _moved(self, call: Call, answer: requests.Response) -> NoReturn:
        self._presence = None
        raise WorkFailed(
            f"{_what(call)} was answered with a redirect ({answer.status_code}) and not done",
            detail=("TLS is on now; the redirect was not followed, and nothing was sent twice",),
            hint="run it again: it will go to the TLS port",
        )


def decoded(content: bytes, what: str) -> Json:
    """Return an answer's JSON.

    Raises:
        WorkFailed: it is none, such as the page of a proxy.
    """
    try:
        return answers.parsed(content)
    except ValueError:
        start = content[:40].decode("utf-8", "replace")
        raise WorkFailed(
            f"{what}: the answer is not JSON",
            detail=(f"it begins with {start!r}",),
            hint="is there a proxy or a login page between us and the manager?",
        ) from None


def encoded(value: Json) -> bytes:
    """Return a request's JSON."""
    return json.dumps(value).encode()


def _settled(found: Presence) -> bool:
    """Whether this is worth remembering: the API answers, and not only says that it is starting."""
    if found.door is Door.CLOSED or found.chain is not None:
        return False
    words = found.tls if found.door is Door.TLS else found.plain
    return not words.startswith("answers 5")


def _what(call: Call) -> str:
    return f"{call.method} {call.path.partition('?')[0]}"


def _first_version(host: str) -> WorkFailed:
    return WorkFailed(
        f"{host} does not know /api/version (404)",
        hint="a server of 2012 that knows only v1, or one that is still starting: ask again in two minutes",
    )
