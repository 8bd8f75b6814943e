"""What an answer means when it is not the one hoped for: the server's own words, in our tree of failures."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import cast

import requests
from urllib3.exceptions import HTTPError

from maint.adapters.manager.transport import Broken
from maint.errors import CannotReach, LoginRefused, MaintError, Transient, WorkFailed
from maint.model.json import Json

_LATER = (429, 502, 503, 504)  # a proxy's, or a server's that is starting (contract sections 2.4 and 3)


def body(answer: requests.Response) -> bytes:
    """Return the whole body.

    Raises:
        Broken: it was cut.
    """
    try:
        return answer.content
    except (requests.RequestException, HTTPError, OSError):
        pass
    failure = Broken(f"{answer.url}: the answer was cut off")
    failure.words = "the answer was cut off"
    raise failure


def parsed(content: bytes) -> Json:
    """Return JSON; ValueError where it is none. Integers stay exact (contract section 7.3)."""
    return cast(Json, json.loads(content))


def decoded(content: bytes, what: str) -> Json:
    """Return an answer's JSON.

    Raises:
        WorkFailed: it is none, such as the page of a proxy.
    """
    try:
        return parsed(content)
    except ValueError:
        start = content[:40].decode("utf-8", "replace")
        raise WorkFailed(
            f"{what}: the answer is not JSON",
            detail=(f"it begins with {start!r}",),
            hint="is there a proxy or a login page between us and the manager?",
        ) from None


def message(content: bytes) -> str | None:
    """Return the text of an `ApiErrorMessage`, causes included; None where the body is none (contract section 2.4)."""
    try:
        value = parsed(content)
    except ValueError:
        return None
    if not isinstance(value, Mapping) or not isinstance(value.get("message"), str):
        return None
    causes = value.get("causes")
    told = [cause for cause in causes if isinstance(cause, str)] if isinstance(causes, list) else []
    return "; ".join((str(value["message"]), *told))


def status(answer: requests.Response) -> str:
    """Return the status as people know it, such as `404 Not Found`."""
    try:
        return f"{answer.status_code} {HTTPStatus(answer.status_code).phrase}"
    except ValueError:
        return str(answer.status_code)


def refusal(what: str, answer: requests.Response, content: bytes, account: str) -> MaintError:
    """Return the failure that an answer other than 2xx stands for.

    Args:
        what: the call in words, such as `GET /api/v45/hosts`.
        content: the body.
        account: the account that asked.
    """
    told = message(content)
    line = f"{what}: the manager answered {status(answer)}" + (f": {told}" if told else "")
    code = answer.status_code
    if code == 401:
        return LoginRefused(f"{what}: the account {account} is not let in any more", hint="were the users restored?")
    if code == 403:
        return WorkFailed(line, hint=_role(what, account))
    if code in _LATER:
        return Transient(line, hint="the manager may be starting; ask again in a moment")
    if 300 <= code < 400:
        return CannotReach(line, hint="the API never redirects but from its plain port to its TLS port")
    if code == 404 and told is None:
        return WorkFailed(line, hint="does this manager know that API version? maint manager version")
    return WorkFailed(line)


def _role(what: str, account: str) -> str:
    """Say which role a call needs (contract section 2.2)."""
    method, _, path = what.partition(" ")
    if "/license" in path or "/certs/" in path:
        role = "Full Administrator"
    elif "/cm/deployment" in path:
        role = "Full Administrator (Cluster Administrator at least)"
    elif method == "DELETE":
        role = "Cluster Administrator or Full Administrator"
    elif "/commands/" in path:
        role = "Operator, Configurator or higher on that cluster"
    else:
        role = "a higher role"
    return f"the account {account} is let in, but its role is too weak: {role} is needed"
