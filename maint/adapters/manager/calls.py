"""HTTP calls to the management API: what only reads may be asked again, a change is sent once."""

import re
from collections.abc import Callable, Collection, Iterable
from typing import NoReturn, TypeVar
from urllib.parse import quote

import requests

from maint.adapters.http.answers import NoAnswer, Reply, decode, read_reply, unexpected
from maint.adapters.http.request import JSON, HttpCall, Timeouts
from maint.adapters.http.transport import NotSent, Transport, Untrusted
from maint.adapters.manager.decoding import Fields, items
from maint.adapters.manager.session import GATEWAY, LATER, PROXY, ManagerSession, peer_of, refusal
from maint.config.schema import ManagerSettings
from maint.errors import AnswerMissing, Transient, UsageError, WorkFailed
from maint.model.json import Json
from maint.model.manager import Account, Place
from maint.ports import Clock, Secrets

_AGAIN = 2  # further tries of a read after a dropped connection, or an answer that may pass (M2.4)
_PAUSE = 2.0  # seconds before each of them
_PASSING = (400, 401, 500, *LATER)  # go away by themselves; 401 to an account that was let in before (M2.2, M2.4)
_MISSING = re.compile(r"\bnot found\b|does not exist", re.IGNORECASE)  # which some calls say with another code (M2.4)


T = TypeVar("T")


def segment(name: str) -> str:
    """Return a name as one path segment (M2.3); UsageError for an empty one, `.` and `..`, which are other paths."""
    if name in ("", ".", ".."):
        raise UsageError(
            f"{name!r} cannot be the name of anything in the manager",
            hint="names are neither empty nor a dot or two, and have no control characters",
        )
    return quote(name, safe="", errors="surrogatepass")


class ManagerCalls:
    """How to ask and to act, each through the port that serves and with the account that is let in."""

    def __init__(
        self,
        settings: ManagerSettings,
        secrets: Secrets,
        clock: Clock,
        *,
        warn: Callable[[str], None],
        timeouts: Timeouts,
        proxy: str | None,
    ) -> None:
        self.settings = settings
        self.timeouts = timeouts
        self.clock = clock
        self._transport = Transport(peer_of(settings, proxy), timeouts, warn)
        self.session = ManagerSession(self._transport, settings, secrets, warn)

    def root(self, pinned: int) -> str:
        """Return `/api/vN` for a pinned version; WorkFailed where the server knows only lower ones (M3)."""
        self.account()
        known = self.session.api()
        if pinned > known:
            raise WorkFailed(
                f"the manager speaks the API up to v{known}, and v{pinned} is configured",
                hint=f"is it the right server? Then set manager.api.clusters and .deployment to v{known} at most",
            )
        return f"/api/v{pinned}"

    def close(self) -> None:
        """Let go of connections."""
        self._transport.close()

    def account(self) -> Account:
        """Return the account that is let in; the manager is asked again where it was not ready."""
        return self._patiently(lambda _: self.session.account())

    def read(self, path: str, *, meant: Collection[int] = ()) -> Reply:
        """Return the answer to a GET, whatever it is; tried again after a moved port, and what `_AGAIN` names.

        Args:
            meant: statuses that are no reason to ask again.
        """
        return self._again(path, self.timeouts.read, self.timeouts.whole, read_reply, meant)

    def poll(self, path: str) -> Reply | None:
        """Return the good answer to a repeated GET, None where the manager says that it knows no such thing.

        Raises:
            Transient: what may pass.
        """
        what = f"GET {path}"
        try:
            reply = read_reply(self._once(path, self.timeouts.read, self.timeouts.whole))
        except Untrusted:
            raise
        except (NotSent, NoAnswer) as failure:
            raise Transient(f"{what}: {failure.words}", hint=failure.hint) from None
        if _says_missing(reply):
            return None
        if reply.status in _PASSING:
            said = reply.message or "no reason given"
            raise Transient(f"{what}: the manager answered {reply.title}: {said}", hint="ask again in a moment")
        self.good(reply, what)
        return reply

    def json(self, path: str) -> Json:
        """Return the JSON of a GET that was answered with 200."""
        return self.decoded(self.read(path), path)

    def decoded(self, reply: Reply, path: str) -> Json:
        """Return the JSON of a good answer to a GET; raise what any other stands for."""
        what = f"GET {path.partition('?')[0]}"
        return decode(self.good(reply, what), what, PROXY)

    def object(self, path: str) -> Fields:
        """Return the JSON object of a GET that was answered with 200."""
        return self._as_object(self.json(path), path)

    def objects(self, path: str) -> list[Fields]:
        """Return the objects of a list; WorkFailed where the answer is not one: an empty list is never assumed."""
        return self.as_list(self.json(path), path)

    def object_if_known(self, path: str) -> Fields | None:
        """Return the JSON object, or None on a 404 in the manager's own words; another 404 is a failure."""
        found = self._unless_missing(path)
        return None if found is None else self._as_object(found, path)

    def objects_if_known(self, path: str) -> list[Fields] | None:
        """Return the objects of a list; None on a 404 in the manager's own words."""
        found = self._unless_missing(path)
        return None if found is None else self.as_list(found, path)

    def good(self, reply: Reply, what: str) -> bytes:
        """Return the body of a 2xx answer; raise what any other stands for."""
        if not reply.good:
            raise refusal(what, reply, self.session.name)
        return reply.content

    def stream(self, path: str, read: float) -> requests.Response:
        """Return the 200 answer to a GET, its body unread; `read` is seconds to wait for each part of it."""
        answer = self._again(path, read, self.timeouts.stream, lambda answer: answer)
        if answer.status_code != 200:
            raise refusal(f"GET {path.partition('?')[0]}", read_reply(answer), self.session.name)
        return answer

    def change(
        self,
        method: str,
        path: str,
        *,
        body: bytes | Iterable[bytes] | None = None,
        length: int = 0,
        kind: str = JSON,
        total: float | None = None,
    ) -> HttpCall:
        """Return a change to be sent; `total` is seconds for sending and waiting together.

        Raises:
            LoginRefused: only the bootstrap account is let in, and the run is not one for a fresh server.
        """
        self.account()
        self.session.insist_on_own()
        url, read = self._patiently(lambda _: self.session.address()) + path, total or self.timeouts.write
        return HttpCall(method, url, read=read, total=total, body=body, length=length, type=kind)

    def act(self, call: HttpCall) -> Reply:
        """Send a change, once and never again.

        Raises:
            CannotReach: no connection: nothing was sent.
            AnswerMissing: it was sent, and no answer came.
            WorkFailed: the manager had moved to TLS: it was sent once, to the plain port, and not done.
        """
        try:
            reply = self._transport.fetch(call, self.session.auth())
        except NoAnswer as failure:
            raise lost(call, failure.words) from None
        if reply.redirects:
            self.moved(call, reply.status)
        return reply

    def act_streaming(self, call: HttpCall) -> requests.Response:
        """Send a change as `act` does, and return the answer with its body unread."""
        try:
            answer = self._transport.stream(call, self.session.auth())
        except NoAnswer as failure:
            raise lost(call, failure.words) from None
        if 300 <= answer.status_code < 400:
            answer.close()
            self.moved(call, answer.status_code)
        return answer

    def read_out(self, answer: requests.Response, call: HttpCall) -> Reply:
        """Return the answer of `act_streaming` with its body; AnswerMissing: it was cut, and is nobody's word."""
        try:
            return read_reply(answer)
        except (NoAnswer, WorkFailed) as failure:
            raise lost(call, f"{answer.status_code}, and {getattr(failure, 'words', failure.message)}") from None

    def done(self, reply: Reply, call: HttpCall) -> bytes:
        """Return the body of a change that was answered with 2xx; raise what any other answer stands for."""
        if reply.status in GATEWAY or (reply.status >= 500 and reply.message is None):
            raise lost(call, f"{reply.title} was answered, which is not the manager's own answer")
        if reply.good and reply.message is not None:  # no result has such a key
            raise lost(call, f"{reply.title}, with an error: {reply.message}", answer=UNCLEAR)
        if not reply.good:
            failed = refusal(call.what, reply, self.session.name)
            if isinstance(failed, Transient):  # a change is never tried again by those who count such failures
                raise WorkFailed(failed.message, hint=failed.hint)
            raise failed
        return reply.content

    def moved(self, call: HttpCall, status: int) -> NoReturn:
        """Say that a change met a redirect."""
        self.session.moved()
        raise WorkFailed(
            f"{call.what} was answered with a redirect ({status}) and not done",
            detail=("TLS is on now; the redirect was not followed, and nothing was sent twice",),
            hint="run it again: it will go to the TLS port",
        )

    def _again(
        self,
        path: str,
        read: float,
        total: float,
        take: Callable[[requests.Response], T],
        meant: Collection[int] = (),
    ) -> T:
        """Return what is taken from the answer to a GET, whatever it is at the last try."""

        def ask(last: bool) -> T | None:
            answer = self._once(path, read, total)
            if last or answer.status_code in meant or answer.status_code not in _PASSING:
                return take(answer)
            answer.close()
            return None

        return self._patiently(ask)

    def _patiently(self, ask: Callable[[bool], T | None]) -> T:
        """Return what a read gives; `ask` learns whether it is the last time, and returns None for no answer yet."""
        for last in (*(False,) * _AGAIN, True):
            try:
                found = ask(last)
                if found is not None:
                    return found
            except (NoAnswer, Transient) as failure:
                if last or getattr(failure, "late", False):
                    raise
            self.clock.sleep(_PAUSE)
        raise AssertionError("the last try returns or raises")

    def _once(self, path: str, read: float, total: float) -> requests.Response:
        """Return the answer to a GET, its body unread; a port that has moved is followed."""
        answer = self._get(path, read, total)
        if 300 <= answer.status_code < 400:
            answer.close()
            self.session.moved()
            return self._get(path, read, total)
        return answer

    def _get(self, path: str, read: float, total: float) -> requests.Response:
        auth = self.session.auth()
        call = HttpCall("GET", self.session.address() + path, read=read, total=total)
        return self._transport.stream(call, auth, among_reads=True)

    def _unless_missing(self, path: str) -> Json:
        reply = self.read(path)
        return None if reply.status == 404 and reply.message is not None else self.decoded(reply, path)

    def _as_object(self, value: Json, path: str) -> Fields:
        if not isinstance(value, dict):
            raise unexpected(f"GET {path.partition('?')[0]}", "an object", value)
        return value

    def as_list(self, value: Json, path: str) -> list[Fields]:
        found = items(value)
        if found is None:
            raise unexpected(f"GET {path.partition('?')[0]}", 'a list of objects under "items"', value)
        return found


def _says_missing(reply: Reply) -> bool:
    words = reply.message
    return words is not None and (
        reply.status == 404 or (reply.status in (400, 500) and _MISSING.search(words) is not None)
    )


UNCLEAR = "is no clear one"


def lost(call: HttpCall, words: str, *, whole: bool = True, answer: str = "is missing") -> AnswerMissing:
    """Return the failure of a change whose answer did not come, or tells nothing of what became of it."""
    return AnswerMissing(
        f"{call.what} was sent once, and its answer {answer}: {words}",
        whole=whole,
        hint="it may have been done all the same: look before anything is repeated",
    )


def service_path(place: Place) -> str:
    """Return the path of a service; that of the monitoring service where no cluster is named."""
    return f"/clusters/{segment(place.cluster)}/services/{segment(place.service)}" if place.cluster else "/cm/service"


def path_of(place: Place) -> str:
    """Return the path of a place; `/cm` for the manager itself."""
    if place.role:
        return f"{service_path(place)}/roles/{segment(place.role)}"
    if place.role_group:
        return f"{service_path(place)}/roleConfigGroups/{segment(place.role_group)}"
    if place.service:
        return service_path(place)
    if place.host:
        return f"/hosts/{segment(place.host)}"
    return f"/clusters/{segment(place.cluster)}" if place.cluster else "/cm"
