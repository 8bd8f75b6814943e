"""Access tokens from the gateway: asked for with name and password, renewed early, never shown (contract section 2)."""

import json
import threading
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from contextlib import suppress
from urllib.parse import quote, urlsplit

import msgspec
import requests

from maint.adapters.manager.answers import body, status
from maint.adapters.manager.transport import Basic
from maint.adapters.virtual_clusters.transport import Call
from maint.config.schema import VirtualClusterSettings
from maint.errors import CannotReach, LoginRefused
from maint.model.json import Json
from maint.model.secret import Secret
from maint.ports import Clock, Secrets

_EARLY = 300.0  # seconds left at which the official client renews; short-lived tokens at half of their life
_LONGEST_DURATION = 10**9  # below it `expires_in` is a duration in seconds, above 10**12 a time in milliseconds (2.1)
_SHORTEST_MILLISECONDS = 10**12

Send = Callable[[Call, Basic], requests.Response]


class Token(msgspec.Struct, frozen=True):
    """A token and until when it is used.

    Attributes:
        value: the token.
        lifetime: seconds that it was good for when it came, None where nobody says.
        renew: on the monotonic clock, when to ask for another; None: when it is refused.
    """

    value: Secret
    lifetime: float | None
    renew: float | None


class Tokens:
    """Gives the token of one user; may be asked by several threads.

    Args:
        settings: the gateway and the user.
        secrets: resolves the password, when it is first needed.
        clock: time.
        send: sends a call with patience.
    """

    def __init__(self, settings: VirtualClusterSettings, secrets: Secrets, clock: Clock, send: Send) -> None:
        self._settings = settings
        self._secrets = secrets
        self._clock = clock
        self._send = send
        self._lock = threading.Lock()
        self._token: Token | None = None

    def current(self) -> Token:
        """Return a token that is good for a while.

        Raises:
            LoginRefused: the gateway does not let the user in.
            CannotReach: it cannot be reached, or is no gateway.
        """
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
        answer = self._send(Call("GET", url), Basic(login.username, self._secrets.resolve(login.password)))
        value, given = self._given(answer)
        lifetime = _lifetime(given, _expiry(value), self._clock.now().timestamp())
        renew = None if lifetime is None else self._clock.monotonic() + lifetime - min(_EARLY, lifetime / 2)
        return Token(value, lifetime, renew)

    def _given(self, answer: requests.Response) -> tuple[Secret, Mapping[str, Json]]:
        """Return the token, and the other fields of the answer."""
        where = urlsplit(answer.url).netloc
        content = body(answer)
        user, code = self._settings.login.username, answer.status_code
        if code in (401, 403):
            raise LoginRefused(
                f"the gateway {where} does not let {user} in ({status(answer)})",
                hint="directory users only, with their directory password; a local administrator is none"
                if code == 401
                else "the gateway knows the user, and does not allow it: has it the role PowerUser?",
            )
        fields = _object(content)
        token = fields.pop("access_token", None)
        if code != 200 or not isinstance(token, str) or not token:
            raise CannotReach(
                f"the gateway {where} answered {status(answer)}, and no token",
                hint="are `auth_url` and `token_service` right, and is there a login page in front?",
            )
        return Secret(token), fields


def _object(content: bytes) -> dict[str, Json]:
    with suppress(ValueError):
        value = json.loads(content)
        if isinstance(value, Mapping):
            return dict(value)
    return {}


def _expiry(token: Secret) -> float | None:
    """Return the `exp` of a JWT in epoch seconds, None where the token is none."""
    parts = token.reveal().split(".")
    if len(parts) != 3:
        return None
    with suppress(ValueError):
        claims = json.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        if isinstance(claims, Mapping) and isinstance(claims.get("exp"), int | float):
            return float(claims["exp"])
    return None


def _lifetime(fields: Mapping[str, Json], expiry: float | None, now: float) -> float | None:
    """Return for how many seconds a token is good; None where nobody says, or where the clocks disagree."""
    said = fields.get("expires_in")
    if isinstance(said, str) and said.isdigit():
        said = int(said)
    if isinstance(said, int | float) and not isinstance(said, bool):
        if said < _LONGEST_DURATION:
            return float(said) if said > 0 else None
        expiry = said / 1000 if said >= _SHORTEST_MILLISECONDS else float(said)
    return expiry - now if expiry is not None and expiry > now else None
