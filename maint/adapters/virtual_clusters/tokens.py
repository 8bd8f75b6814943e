"""Access tokens from the gateway: asked for with name and password, renewed early, never shown (J2)."""

import re
import threading
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from contextlib import suppress
from urllib.parse import quote, urlsplit

from msgspec import Struct

from maint.adapters.http.answers import Reply, parse
from maint.adapters.http.request import Basic
from maint.config.schema import VirtualClusterSettings
from maint.config.secrets import in_one_line
from maint.errors import CannotReach, LoginRefused
from maint.model.formatting import whole_number
from maint.model.json import Json
from maint.model.secret import Secret
from maint.ports import Clock, Secrets

_EARLY = 300.0  # seconds left at which the official client renews; short-lived tokens at half of their life
_LONGEST_DURATION = 10**9  # below it `expires_in` is a duration in seconds, above 10**12 a time in milliseconds (J2.1)
_SHORTEST_MILLISECONDS = 10**12
_TOKEN = re.compile(r"[!-~]+")  # what a header can carry

Send = Callable[[str, Basic], Reply]


class Token(Struct, frozen=True):
    """A token and until when it is used."""

    value: Secret
    lifetime: float | None  # seconds that it was good for when it came, None where nothing says
    renew: float | None  # on the monotonic clock, when to ask for another; None: when it is refused
    user: str = ""  # whose it is by its own word, the `sub` of a JWT; empty where it tells nobody's name


class Tokens:
    """Gives the token of one user, whose password is resolved when first needed; may be asked by several threads."""

    def __init__(self, settings: VirtualClusterSettings, secrets: Secrets, clock: Clock, send: Send) -> None:
        self._settings = settings
        self._secrets = secrets
        self._clock = clock
        self._send = send
        self._lock = threading.Lock()
        self._token: Token | None = None

    def current(self) -> Token:
        """Return a token that is good for a while; LoginRefused, or CannotReach where it is not a gateway."""
        with self._lock:
            found = self._token
            if found is None or (found.renew is not None and self._clock.monotonic() >= found.renew):
                found = self._token = self._ask()
            return found

    def forget(self, refused: Token) -> None:
        """Drop a token that the virtual cluster refused, unless another thread has done so."""
        with self._lock:
            if self._token is refused:
                self._token = None

    def _ask(self) -> Token:
        login = self._settings.login
        service = quote(self._settings.token_service, safe="")
        url = f"{self._settings.auth_url.rstrip('/')}/gateway/authtkn/{service}/api/v1/token"
        password = in_one_line(self._secrets.resolve(login.password), login.password)
        reply = self._send(url, Basic(login.username, password))
        value, given = self._given(urlsplit(url).netloc, reply)
        claims = _claims(value)
        lifetime = _lifetime(given, claims.get("exp"), self._clock.now().timestamp())
        renew = None if lifetime is None else self._clock.monotonic() + lifetime - min(_EARLY, lifetime / 2)
        user = claims.get("sub")
        return Token(value, lifetime, renew, user if isinstance(user, str) else "")

    def _given(self, where: str, reply: Reply) -> tuple[Secret, Mapping[str, Json]]:
        user = self._settings.login.username
        if reply.status in (401, 403):
            raise LoginRefused(
                f"the gateway {where} does not let {user} in ({reply.title})",
                hint=f"is what {self._settings.login.password} gives still the password there? Who is not in the"
                " directory, such as a local administrator, is not let in"
                if reply.status == 401
                else "the gateway knows the user, and does not allow it: has it the role PowerUser?",
            )
        fields = _object(reply.content)
        token = fields.pop("access_token", None)
        if reply.status != 200 or not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise CannotReach(
                f"the gateway {where} answered {reply.title}, and no token",
                hint="is it up, and what does its log say? Then again"
                if reply.status >= 500
                else "are `auth_url` and `token_service` right, and is there a login page in front?",
            )
        return Secret(token), fields


def _object(content: bytes) -> dict[str, Json]:
    with suppress(ValueError):
        value = parse(content)
        if isinstance(value, Mapping):
            return dict(value)
    return {}


def _claims(token: Secret) -> Mapping[str, Json]:
    # What a JWT tells of itself.
    parts = token.reveal().split(".")
    if len(parts) != 3:
        return {}
    with suppress(ValueError):
        return _object(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    return {}


def _lifetime(fields: Mapping[str, Json], until: Json, now: float) -> float | None:
    # `until` is the `exp` of a JWT, epoch seconds.
    # None where nothing says for how many seconds a token is good, or where the clocks disagree.
    expiry = float(until) if isinstance(until, int | float) else None
    said = fields.get("expires_in")
    if isinstance(said, str):
        said = whole_number(said)
    if isinstance(said, int | float) and not isinstance(said, bool):
        if said < _LONGEST_DURATION:
            return float(said) if said > 0 else None
        expiry = said / 1000 if said >= _SHORTEST_MILLISECONDS else float(said)
    return expiry - now if expiry is not None and expiry > now else None
