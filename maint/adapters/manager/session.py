"""Sessions with the manager: which port serves and which account may log in, found once, kept until forgotten."""

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime

from msgspec import Struct

from maint.adapters.http.answers import TOO_LARGE, NoAnswer, Reply
from maint.adapters.http.request import Basic, HttpCall
from maint.adapters.http.tls import NothingBehind, ProxyFailed, connect, presented_der, presented_end, proxy_for
from maint.adapters.http.transport import NotSent, Peer, Transport
from maint.config.schema import Login, ManagerSettings
from maint.config.secrets import in_one_line
from maint.errors import CannotReach, Invalid, LoginRefused, MaintError, NotTrusted, Refused, Transient, WorkFailed
from maint.model.manager import Account, Door, Presence
from maint.model.secret import Secret
from maint.ports import Secrets

PROXY = "is there a proxy or a login page between us and the manager?"
GATEWAY = (502, 504)  # of what stands in front, in whatever words: what became of the request it does not know
LATER = (429, 503, *GATEWAY)  # a proxy's, or a server's that is starting (M2.4, M3)
_LOG = "see /var/log/cloudera-scm-server/cloudera-scm-server.log on the manager's host"


def refusal(what: str, reply: Reply, account: str) -> MaintError:
    """Return the failure that an answer other than 2xx stands for; `what` is the call, such as `GET /api/v45/hosts`."""
    said = reply.message
    line = f"{what}: the manager answered {reply.title}" + (f": {said}" if said else "")
    code = reply.status
    if code == 401:
        again = "nothing was done: try again, since a manager may say so once by itself; else, were the users restored?"
        return LoginRefused(f"{what}: the account {account} is not let in any more", hint=again)
    if code == 403:
        return WorkFailed(line, hint=_role(what, account))
    if code in LATER:
        return Transient(line, hint="the manager may be starting; ask again in a moment")
    if code == 413:
        return WorkFailed(line, hint=TOO_LARGE)
    if reply.redirects:
        never = "the API never redirects but from its plain port to its TLS port"
        return CannotReach(line, hint=f"{never}: see what else answers at manager.host, such as a portal or a proxy")
    if said is None:
        unknown = "does this manager know that API version? `maint manager version`"
        return WorkFailed(line, hint=unknown if code == 404 else f"{PROXY} if there is none, {_LOG}")
    if code == 404 and "/commands/" in what:
        return WorkFailed(line, hint="the manager's own page /static/apidocs lists the commands by their names")
    if code == 404:
        return WorkFailed(line, hint="`maint cluster list` and `maint site status` show what the manager knows")
    kind = Transient if what.startswith("GET ") and code in (400, 500) else WorkFailed  # a read goes well the next time
    return kind(line, hint=f"mend what it names; {_LOG}")


def _role(what: str, account: str) -> str:
    # Which role a call needs: M2.2.
    method, _, path = what.partition(" ")
    if any(part in path for part in ("/license", "/certs/", "/cm/commands/", "/cm/config")):
        role = "Full Administrator"
    elif "/cm/deployment" in path:
        role = "Full Administrator (Cluster Administrator at least)"
    elif method == "DELETE":
        role = "Cluster Administrator or Full Administrator"
    elif "/commands/" in path or "/roleCommands/" in path:
        role = f"Operator, Configurator or higher{' on that cluster' if '/clusters/' in path else ''}"
    elif method == "PUT" and "/config" in path:
        role = "Configurator or higher"
    else:
        role = "a higher role"
    return f"the account {account} is let in, but its role is too weak: {role} is needed"


_PATH = "/api/version"  # an anonymous 401 there proves that the server is up (M2.2)
_REDIRECTS = "redirects"


def peer_of(settings: ManagerSettings, proxy: str | None) -> Peer:
    """Return how a manager is reached."""
    host, plain, tls = settings.host, settings.plain_port, settings.tls_port
    return Peer(
        ca=settings.ca,
        ca_hint="manager.ca must be a PEM file, such as cm-auto-global_cacerts.pem from a managed host",
        authority_hint="manager.ca must name a PEM file that the chain leads to; nothing is sent in clear instead",
        name_setting="manager.host",
        unreachable=lambda _: f"is the manager up, and are {host}, {plain} and {tls} right?",
        insecure=settings.insecure,
        proxy=proxy,
        unverified="the certificate of {origin} is not verified (insecure is set)",
    )


def address(settings: ManagerSettings, door: Door) -> str:
    """Return scheme, host and port as an operator would type them."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"https://{host}:{settings.tls_port}" if door is Door.TLS else f"http://{host}:{settings.plain_port}"


def probe(transport: Transport, settings: ManagerSettings) -> Presence:
    """Probe both ports; one that listens with TLS, or a plain one that redirects, rules the plain port out for good."""
    try:
        plain = _answer(transport, address(settings, Door.PLAIN))
    except (NotSent, NoAnswer) as failure:
        plain = failure.words
    otherwise = Door.PLAIN if plain.startswith("answers") else Door.CLOSED
    try:
        return Presence(door=Door.TLS, plain=plain, tls=_answer(transport, address(settings, Door.TLS)))
    except (NotSent, NoAnswer) as failure:
        words, remedy = failure.words, failure.hint
        chain = failure.in_a_line if isinstance(failure, NotTrusted) else None
        why = failure.why if isinstance(failure, NotSent) else None
        if why is ProxyFailed:  # which says nothing of the port
            return Presence(door=Door.CLOSED, plain=plain, tls=words, remedy=remedy)
    except Invalid as failure:
        why, words, chain, remedy = None, failure.message, failure.message, failure.hint
    if words == "refused" or why is NothingBehind or not _listens(transport, settings):
        leads = _leads_to(settings) if plain.startswith(_REDIRECTS) else None
        return Presence(door=otherwise, plain=plain, tls=words, remedy=leads)
    return Presence(door=Door.TLS, plain=plain, tls=words, chain=chain, silent=chain is None, remedy=remedy)


def _answer(transport: Transport, place: str) -> str:
    call = HttpCall("GET", place + _PATH, read=transport.timeouts.probe, total=transport.timeouts.probe)
    try:
        try:
            reply = transport.fetch(call)
        except NoAnswer as failure:
            if failure.late:
                raise
            reply = transport.fetch(call)  # one dead line says nothing of the server
    except WorkFailed:  # longer than any answer to this call
        return "answers endlessly"
    return f"{_REDIRECTS} ({reply.status})" if reply.redirects else f"answers {reply.status}"


def _leads_to(settings: ManagerSettings) -> str:
    shown = f"`curl -si {address(settings, Door.PLAIN)}{_PATH}` shows which"
    return (
        f"the manager is up, and its plain port leads to its TLS port ({shown}): correct manager.tls_port,"
        f" or let port {settings.tls_port} through the firewall of its host"
    )


def _listens(transport: Transport, settings: ManagerSettings) -> bool:
    try:
        proxy = proxy_for(transport.peer.proxy, address(settings, Door.TLS))
        connect((settings.host, settings.tls_port), proxy, transport.timeouts.connect).close()
    except OSError:
        return False
    return True


_VERSION = re.compile(r"v([1-9][0-9]*)", re.ASCII)


class PlainUse(Struct, frozen=True):
    """Why passwords may go in clear to a manager for which TLS is configured; `why` says it in words."""

    why: str
    # whether the configured account's password stays here while there is a bootstrap account: before a restore nobody
    # knows who answers, and the server knows no other
    bootstrap_only: bool = False


class _Login(Struct, frozen=True):
    """The account that was let in, and the API version that the server reported to it."""

    account: Account
    auth: Basic
    api: int | None


class ManagerSession:
    """One manager's port and login; warns when a password goes in clear although TLS is configured."""

    def __init__(
        self, transport: Transport, settings: ManagerSettings, secrets: Secrets, warn: Callable[[str], None]
    ) -> None:
        self._transport = transport
        self._settings = settings
        self._secrets = secrets
        self._warn = warn
        self._warned: set[str] = set()
        self._presence: Presence | None = None
        self._login: _Login | None = None
        self._known: Account | None = None  # let in before: a 401 to it may be a stray one (M2.2)
        self._plain = PlainUse("--allow-plain was given") if settings.allow_plain else None
        self._fresh = False  # whether the run under way is one for a server that may not know the configured account

    @property
    def name(self) -> str:
        """The account that is let in, for messages."""
        return self._login.account.name if self._login else "nobody"

    def presence(self) -> Presence:
        """Return what a probe found; a manager that was up is probed once until `forget`."""
        if self._presence is not None:
            return self._presence
        found = probe(self._transport, self._settings)
        if found.ready:
            self._presence = found
        if found.door is Door.TLS and not self._settings.allow_plain:
            self._plain = None  # it has TLS now, whatever closes that port later
        return found

    def certificate_end(self) -> datetime | None:
        """Return when the certificate of the TLS port ends; None where none is shown."""
        return presented_end(*self._tls_port()) if self.presence().door is Door.TLS else None

    def certificate_digest(self) -> str:
        """Return the SHA-256 (hex) of the certificate of the TLS port; empty where none is shown."""
        if self.presence().door is Door.TLS:
            with suppress(OSError, ValueError):
                return hashlib.sha256(presented_der(*self._tls_port())).hexdigest()
        return ""

    def _tls_port(self) -> tuple[tuple[str, int], str, float, str | None]:
        # Place, name, seconds to connect, proxy.
        settings, transport = self._settings, self._transport
        proxy = proxy_for(transport.peer.proxy, address(settings, Door.TLS))
        return (settings.host, settings.tls_port), settings.host, transport.timeouts.connect, proxy

    def forget(self) -> None:
        """Forget port, account and version."""
        self._presence = None
        self._login = None

    def moved(self) -> None:
        """Forget the port alone: what it answered says that another one serves now."""
        self._presence = None

    def allow_plain(self, use: PlainUse) -> None:
        """Let passwords go in clear from now on, unless the operator has allowed it already."""
        self._plain = PlainUse("--allow-plain was given") if self._settings.allow_plain else use

    def for_fresh_server(self) -> None:
        """Let the bootstrap account change something, not only look."""
        self._fresh = True

    def insist_on_own(self) -> None:
        """Raise LoginRefused where the bootstrap account is let in, and is only to look."""
        account, own = self._let_in().account, self._settings.login.username
        if not account.bootstrap or self._fresh:
            return
        if self._tried(self._settings.login, bootstrap=False) is None:  # a stray 401 to it may have come before (M2.2)
            raise LoginRefused(
                f"{self._settings.host} does not let {own} in with manager.password, and nothing was sent",
                detail=[
                    f"the bootstrap account {account.name} is; it looks, and changes something only in a restore, "
                    "`manager license` and `manager tls-switch`"
                ],
                hint="check manager.password; where the bootstrap account is meant, make it the one of `manager`",
            )

    def restored(self) -> None:
        """Note that a deployment was sent: from now on the server may know the configured account, and no other."""
        self._known = None
        if self._plain is not None:
            self._plain = PlainUse(self._plain.why)

    def account(self) -> Account:
        """Return the account that is let in."""
        return self._let_in().account

    def auth(self) -> Basic:
        """Return what the account that is let in sends along."""
        return self._let_in().auth

    def api(self) -> int:
        """Return the API version that the server reported at login; WorkFailed where the account may not ask for it."""
        login = self._let_in()
        if login.api is None:
            raise WorkFailed(
                f"GET {_PATH}: the manager answered 403 Forbidden",
                hint=f"the account {login.account.name} is let in, but its role is too weak",
            )
        return login.api

    def address(self) -> str:
        """Return scheme, host and port that serve; credentials leave through no other.

        Raises:
            CannotReach: none serves, or what serves cannot be trusted.
            Refused: passwords would go in clear although TLS is configured.
            Transient: the manager is starting.
        """
        found, settings = self.presence(), self._settings
        plain = f"port {settings.plain_port}: {found.plain}"
        tls = f"port {settings.tls_port}: {found.tls}"
        if found.door is Door.CLOSED:
            raise CannotReach(
                f"no port of {settings.host} serves the management API",
                detail=(plain, tls),
                hint=found.remedy or "is the manager up? systemctl status cloudera-scm-server on its host",
            )
        if found.chain is not None or found.silent:
            raise (CannotReach if found.chain is None else NotTrusted)(
                f"the TLS port of {settings.host} cannot be used",
                detail=(plain, *(found.chain or tls).split("; ")),
                hint=found.remedy,
            )
        if not found.ready:
            raise Transient(f"{settings.host} is not ready", detail=(plain, tls), hint="it may be starting; ask again")
        if found.door is Door.PLAIN and settings.ca is not None and self._plain is None:
            raise Refused(
                f"no password is sent in clear to {settings.host}:{settings.plain_port}: manager.ca is set",
                detail=(plain, tls),
                hint="is the server starting? where its TLS port stays closed, mend what its log names, then "
                "`maint manager tls-switch` restarts it; --allow-plain sends the password in clear",
            )
        return address(settings, found.door)

    def _let_in(self) -> _Login:
        if self._login is not None:
            return self._login
        self._password(self._settings.login)  # one that cannot be had stops us before anything leaves
        self.address()
        refused: list[str] = []
        for login, bootstrap in self._candidates():
            if (found := self._tried(login, bootstrap=bootstrap)) is None:
                refused.append(f"{'bootstrap account' if bootstrap else 'account'} {login.username}: 401")
                continue
            if bootstrap and not self._fresh:
                own = f"{self._settings.login.username} is not let in with manager.password"
                self._warn_once(f"{own}: the bootstrap account {login.username} looks instead")
            return found
        raise LoginRefused(
            f"{self._settings.host} lets in none of the configured accounts: "
            f"{', '.join(login.username for login, _ in self._candidates())}",
            detail=refused,
            hint=self._refused_hint(),
        )

    def _tried(self, login: Login, *, bootstrap: bool) -> _Login | None:
        """Log in with an account, and remember it; None where it is not let in.

        Raises:
            Transient: it was let in before; raised once, since more tries may lock it.
        """
        account, auth = Account(login.username, bootstrap), self._basic(login)
        reply = self._ask(auth)
        if reply.status == 401:
            if account != self._known:
                return None
            self._known = None
            words = f"{self._settings.host} answered 401 to {login.username}, which it let in before"
            raise Transient(words, hint="ask again in a moment")
        self._login = _Login(account, auth, self._version(reply, login.username))
        self._known = account
        return self._login

    def _candidates(self) -> Iterator[tuple[Login, bool]]:
        # The accounts to try, and whether each is the bootstrap one; the order depends on the port (M8.6).
        settings, bootstrap = self._settings, self._settings.bootstrap
        if self._in_clear() and bootstrap is not None and not settings.allow_plain:
            yield bootstrap, True
            if self._plain is None or not self._plain.bootstrap_only:
                yield settings.login, False
            return
        yield settings.login, False
        if bootstrap is not None:
            yield bootstrap, True

    def _in_clear(self) -> bool:
        return self._settings.ca is not None and self.presence().door is Door.PLAIN

    def _ask(self, auth: Basic) -> Reply:
        if self._plain is not None and self._in_clear():
            where = f"{self._settings.host}:{self._settings.plain_port}"
            words = f"the password of {auth.username} goes in clear to {where}: {self._plain.why}"
            self._warn_once(words)
        reply = self._get(auth)
        if reply.redirects:
            self.moved()
            reply = self._get(auth)
        return reply

    def _warn_once(self, words: str) -> None:
        if words not in self._warned:
            self._warned.add(words)
            self._warn(words)

    def _get(self, auth: Basic) -> Reply:
        return self._transport.fetch(HttpCall("GET", self.address() + _PATH, read=self._transport.timeouts.read), auth)

    def _basic(self, login: Login) -> Basic:
        return Basic(login.username, self._password(login))

    def _password(self, login: Login) -> Secret:
        return in_one_line(self._secrets.resolve(login.password), login.password)

    def _version(self, reply: Reply, name: str) -> int | None:
        if reply.status == 403:
            return None
        if reply.status == 404:
            raise WorkFailed(
                f"{self._settings.host} does not know {_PATH} (404)",
                hint="a server of 2012 that knows only v1, or one that is still starting: ask again in two minutes",
            )
        if reply.status != 200:
            raise refusal(f"GET {_PATH}", reply, name)
        return version(reply.content)

    def _refused_hint(self) -> str:
        if self._plain is not None and self._plain.bootstrap_only and self._in_clear():
            return (
                f"before a restore only the bootstrap account's password goes in clear; "
                f"--allow-plain sends that of {self._settings.login.username}, too"
            )
        return "check manager.password and manager.bootstrap.password; a restore brings back its snapshot's accounts"


def version(content: bytes) -> int:
    """Return N of `vN`, whatever blanks, line ends and quotes surround it (M3); WorkFailed for any other text."""
    text = content[:100].decode("utf-8", "replace").strip(' \t\r\n"\ufeff')
    found = _VERSION.fullmatch(text)
    if found is None or len(found[1]) > 4:
        raise WorkFailed(
            f"GET {_PATH}: {text[:40]!r} is not a version such as v49", hint="is this port really the manager's?"
        )
    return int(found[1])
