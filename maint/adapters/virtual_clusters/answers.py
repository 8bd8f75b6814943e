"""What an answer means when it is not the one hoped for (contract section 3.5)."""

import re
from collections.abc import Mapping

import requests

from maint.adapters.manager.answers import message, parsed, status
from maint.errors import Conflict, LoginRefused, MaintError, WorkFailed
from maint.model.virtual_cluster import Object

# The message is the only detail that a program can read; codes differ between versions.
_MISSING = re.compile(r"\bnot found\b|does not exist|no such", re.IGNORECASE)
_TAKEN = re.compile(r"already exists", re.IGNORECASE)
_PROXY = "is there a proxy or a login page between us and the virtual cluster?"
_FINAL = re.compile(r"already exists|not found|does not exist|paused|cannot use resource|invalid|must ", re.IGNORECASE)


class Missing(WorkFailed):
    """The thing that was spoken of is not there."""


def is_good(answer: requests.Response) -> bool:
    """Whether an answer is one of success; any 2xx is (contract section 3.6)."""
    return 200 <= answer.status_code < 300


def is_passing(answer: requests.Response, content: bytes) -> bool:
    """Whether another try may be answered otherwise: a 5xx whose message, if it has one, does not settle it."""
    return answer.status_code >= 500 and not _FINAL.search(message(content) or "")


def is_own(content: bytes) -> bool:
    """Whether an error is the server's own, not the page of a proxy in front of it."""
    return message(content) is not None


def is_missing(answer: requests.Response, content: bytes) -> bool:
    """Whether an answer says that the thing is not there, whatever its code."""
    if answer.status_code == 404:
        return True
    return answer.status_code >= 400 and bool(_MISSING.search(message(content) or ""))


def refusal(what: str, answer: requests.Response, content: bytes, user: str) -> MaintError:
    """Return the failure that an answer other than 2xx stands for.

    Args:
        what: the call in words.
        answer: the answer.
        content: its body.
        user: the workload user who asked.
    """
    told = message(content)
    line = f"{what}: the virtual cluster answered {status(answer)}" + (f": {told}" if told else "")
    code = answer.status_code
    if code == 401:
        return LoginRefused(line, hint=f"a fresh token of {user} was not accepted: is this the right virtual cluster?")
    if code == 403:
        return LoginRefused(line, hint=f"{user} needs a resource role such as DEUser: Manage Access of the environment")
    if is_missing(answer, content):
        return Missing(line, hint="`maint vc job list` and `maint vc resource list` show what is there")
    if _TAKEN.search(told or ""):
        return Conflict(line, hint="what is there was left as it is: choose another name, or delete it first")
    if 300 <= code < 400:
        return WorkFailed(line, hint="redirects are not followed: `base_url` must be the API's own address")
    return WorkFailed(line, hint=None if told else _PROXY)


def decoded(content: bytes, what: str) -> Object:
    """Return an answer's JSON object.

    Raises:
        WorkFailed: it is none, such as the page of a proxy.
    """
    try:
        value = parsed(content)
    except ValueError:
        value = None
    if not isinstance(value, Mapping):
        start = content[:40].decode("utf-8", "replace")
        raise WorkFailed(
            f"{what}: the answer is no JSON object",
            detail=[f"it begins with {start!r}"],
            hint=_PROXY,
        )
    return value


def wait_asked(answer: requests.Response, otherwise: float) -> float:
    """Return the seconds that a throttled call is to wait (contract section 3.5)."""
    text = answer.headers.get("Retry-After", "")
    return float(text) if re.fullmatch(r"\d{1,6}(\.\d+)?", text.strip()) else otherwise
