"""What an answer of a virtual cluster means when it is not the one hoped for (J3.5)."""

import re

from maint.adapters.http.answers import Reply
from maint.errors import Conflict, LoginRefused, MaintError, WorkFailed

# The message is the only detail that a program can read; codes differ between versions.
_MISSING = re.compile(r"\bnot found\b|does not exist|no such", re.IGNORECASE)
_TAKEN = re.compile(r"already exists", re.IGNORECASE)
_FINAL = re.compile(r"already exists|not found|does not exist|paused|cannot use resource|invalid|must ", re.IGNORECASE)
PROXY = "is there a proxy or a login page between us and the virtual cluster?"


class Missing(WorkFailed):
    """The thing that was asked for is not there."""


def is_passing(reply: Reply) -> bool:
    """Whether another try may be answered otherwise: a 5xx whose message, if it has one, does not settle it."""
    return reply.status >= 500 and not _FINAL.search(reply.message or "")


def is_missing(reply: Reply) -> bool:
    """Whether an answer says that the thing is not there, whatever its code."""
    if reply.status == 404:
        return True
    return reply.status >= 400 and bool(_MISSING.search(reply.message or ""))


def refusal(what: str, reply: Reply, user: str) -> MaintError:
    """Return the failure that an answer other than 2xx stands for; `what` is the call, `user` the one who asked."""
    said = reply.message
    line = f"{what}: the virtual cluster answered {reply.title}" + (f": {said}" if said else "")
    if reply.status == 401:
        return LoginRefused(line, hint=f"a fresh token of {user} was not accepted: is this the right virtual cluster?")
    if reply.status == 403:
        return LoginRefused(line, hint=f"{user} needs a resource role such as DEUser: Manage Access of the environment")
    if is_missing(reply):
        return Missing(line, hint="`maint vc job list` and `maint vc resource list` show what is there")
    if _TAKEN.search(said or ""):
        return Conflict(line, hint="what is there was left as it is: choose another name, or delete it first")
    if reply.redirects:
        return WorkFailed(line, hint="redirects are not followed: `base_url` must be the API's own address")
    if said is None:
        return WorkFailed(line, hint=PROXY)
    if "paused" in said:
        return WorkFailed(line, hint="`maint vc job unpause --name JOB` lets it go on; a paused job takes no run")
    return WorkFailed(line, hint="mend what it names; nothing of this call was done")
