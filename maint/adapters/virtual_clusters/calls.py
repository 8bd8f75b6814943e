"""HTTP calls to the jobs API: reads are tried again, changes sent once; a lost answer is decided by reading (J3.5)."""

import json as text
import re
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar
from urllib.parse import quote, urlencode, urlsplit

import requests
from msgspec import Struct
from requests.auth import AuthBase

from maint.adapters.clock import seconds_left
from maint.adapters.http.answers import TOO_LARGE, NoAnswer, Reply, decode, read_reply, unexpected
from maint.adapters.http.request import JSON, Bearer, HttpCall, Timeouts, UploadForm
from maint.adapters.http.transport import NotSent, Peer, Transport, Untrusted
from maint.adapters.virtual_clusters.tokens import Tokens
from maint.config.schema import VirtualClusterSettings
from maint.errors import (
    AnswerMissing,
    CannotReach,
    Conflict,
    DeadlinePassed,
    Invalid,
    LoginRefused,
    MaintError,
    Rejected,
    TimedOut,
    WorkFailed,
)
from maint.model.formatting import show_duration
from maint.model.json import Json
from maint.model.virtual_cluster import Object, is_name
from maint.ports import Clock, Secrets
from maint.retry import delays

_AT_ONCE = 16  # connections that are kept open
_NOTICED = 5.0  # seconds from which on a wait that the server asks for is shown
_QUIET = 60.0  # seconds in which no second wait is shown: several threads wait for the same thing

Query = Iterable[tuple[str, str]]
Found = TypeVar("Found", Reply, Reply | requests.Response)


class Patience(Struct, frozen=True):
    """When to give up."""

    attempts: int = 9  # tries after the first one, where the answer was a passing error or did not come
    own: int = 3  # of these, how many where the error was the server's own
    first: float = 1.0  # seconds of the first pause; each further one is twice as long
    longest: float = 60.0  # seconds
    throttled: float = 7200.0  # seconds that may be spent on waiting as the server asked

    def pauses(self, times: int) -> list[float]:
        """Return the seconds before each of so many further tries."""
        return list(delays(self.first, self.longest, times=times))


class ServiceCalls:
    """How to ask a virtual cluster and how to act on it, with the token of its user; may be used by several threads.

    Args:
        warn: shown, in words, when certificates are not verified, and what is waited for.
    """

    def __init__(
        self,
        settings: VirtualClusterSettings,
        secrets: Secrets,
        clock: Clock,
        *,
        warn: Callable[[str], None],
        timeouts: Timeouts | None = None,
        patience: Patience | None = None,
        proxy: str | None = None,
    ) -> None:
        self.settings = settings
        self.proxy = proxy
        self.clock = clock
        self._patience = patience or Patience()
        self._waits = _Waits(self._patience, clock, warn)
        self._timeouts = timeouts or Timeouts()
        self._transport = Transport(_peer(settings, proxy), self._timeouts, warn)
        self.tokens = Tokens(settings, secrets, clock, self._token_reply)
        self._answered: set[str] = set()  # hosts that have answered: what fails there later may pass

    def close(self) -> None:
        """Let go of connections."""
        self._transport.close()

    def url(self, *segments: str, path: str = "", query: Query = ()) -> str:
        """Return an address below `base_url`: segments are encoded whole, `path` keeps its slashes (J3.1).

        Raises:
            Invalid: a segment is not a name, and would lead elsewhere on the way: to a list, or to another object.
        """
        for segment in segments:
            if not is_name(segment):
                raise Invalid(f"{segment!r} is not the name of anything", hint="`maint vc job list` shows names")
        parts = [self.settings.base_url.rstrip("/"), *(_quoted(segment, "") for segment in segments)]
        if path:
            parts.append(_quoted(path, "/"))
        asked = urlencode(list(query), quote_via=quote, safe="", errors="surrogatepass")
        return "/".join(parts) + (f"?{asked}" if asked else "")

    def json(self, *segments: str, query: Query = ()) -> Object | None:
        """Return the object that a GET is answered with; None where there is no such thing."""
        if not all(map(is_name, segments)):
            return None
        call = self.get(self.url(*segments, query=query))
        value = self.value(call)
        if value is not None and not isinstance(value, dict):
            raise unexpected(call.what, "an object", value)
        return value

    def value(self, call: HttpCall) -> Json:
        """Return the JSON that a GET is answered with; None where there is no such thing."""
        try:
            return self.told(call)
        except Missing:
            return None

    def told(self, call: HttpCall) -> Json:
        """Return the JSON that a GET is answered with; Missing, in the server's words, where there is no such thing."""
        return self.weighed(call)[0]

    def weighed(self, call: HttpCall) -> tuple[Json, int]:
        """Return what `told` does, and how many bytes it was."""
        reply = self._until_settled(call, lambda: self._authorised(call, self._transport.fetch))
        content = self._good(call, reply).content
        return decode(content, call.what, PROXY), len(content)

    def stream(self, call: HttpCall) -> requests.Response | None:
        """Return a good answer to a GET, its body unread; None where there is no such thing."""
        found = self._until_settled(call, lambda: self._authorised(call, self._open))
        if isinstance(found, requests.Response):
            return found
        with suppress(Missing):
            self._good(call, found)  # which it is not
        return None

    def act(
        self, call: HttpCall, landed: Callable[[], bool], *, good: Callable[[Reply], bool] = lambda reply: reply.good
    ) -> bytes | None:
        """Send a change, and send it again only where looking shows that it was not done.

        Args:
            landed: looks whether what was to be done is done.
            good: which answers mean that it was done.

        Returns:
            The body of a good answer; None where looking showed that it is done.

        Raises:
            AnswerMissing: it was not done however often it was sent, and no answer said why.
        """
        doubtful = False
        for attempt in range(1, self._patience.attempts + 2):
            try:
                reply = self._authorised(call, self._transport.fetch)
            except NotSent as failure:
                trouble: MaintError = failure
                limit = self._patience.attempts if self._may_pass(call, failure) else 0
            except NoAnswer as failure:
                trouble, limit, doubtful = _lost(call, failure), self._patience.attempts, True
            else:
                if good(reply):
                    return reply.content
                self._refuse_gateway(call, reply)
                trouble = refusal(call.what, reply, self.settings.login.username)
                passing = is_passing(reply)
                limit = self._limit(reply) if passing else 0
                doubtful = doubtful or passing
            if doubtful and landed():
                return None
            if attempt > limit:
                raise trouble
            self._waits.again(attempt, limit, trouble.message)
        raise AssertionError("the last attempt raises")

    def done(self, call: HttpCall, landed: Callable[[], bool]) -> bool:
        """Send a deletion; return False where there was nothing to delete."""
        try:
            self.act(call, landed)
        except Missing:
            return False
        return True

    def get(self, url: str, accept: str = JSON) -> HttpCall:
        return HttpCall("GET", url, self._timeouts.read, accept=accept)

    def post(self, *segments: str, json: Json = None) -> HttpCall:
        """Return a POST; without a body where there is none to send."""
        return self._with_json("POST", segments, json)

    def patch(self, *segments: str, json: Json) -> HttpCall:
        return self._with_json("PATCH", segments, json)

    def put(self, url: str, form: UploadForm) -> HttpCall:
        limit = self._timeouts.write
        return HttpCall("PUT", url, limit, accept=JSON, body=form, length=form.length, type=form.type)

    def delete(self, url: str) -> HttpCall:
        return HttpCall("DELETE", url, self._timeouts.read, accept=JSON)

    def _with_json(self, method: str, segments: tuple[str, ...], json: Json) -> HttpCall:
        sent = None if json is None else text.dumps(json).encode()  # halves of characters, too, go out as they came
        return HttpCall(method, self.url(*segments), self._timeouts.read, accept=JSON, body=sent)

    def _good(self, call: HttpCall, reply: Reply) -> Reply:
        if reply.good:
            return reply
        self._refuse_gateway(call, reply)
        raise refusal(call.what, reply, self.settings.login.username)

    def _refuse_gateway(self, call: HttpCall, reply: Reply) -> None:
        """Refuse to take a 404 without the API's words for its own where the API does not answer at all."""
        about = self.get(self.url("info"))
        if reply.status != 404 or reply.message is not None or call.url == about.url:
            return
        if not self._authorised(about, self._transport.fetch).good:
            raise CannotReach(
                f"{call.what}: {reply.title}, and so to {about.what}: what stands before the API says so, not the API",
                hint=PROXY,
            )

    def _token_reply(self, url: str, auth: AuthBase) -> Reply:
        call = self.get(url)
        return self._until_settled(call, lambda: self._unthrottled(call, auth, self._transport.fetch))

    def _until_settled(self, call: HttpCall, ask: Callable[[], Found]) -> Found:
        for attempt in range(1, self._patience.attempts + 2):
            limit = self._patience.attempts
            try:
                found = ask()
                if isinstance(found, requests.Response) or attempt > limit or not is_passing(found):
                    return found
                whose = "virtual cluster" if call.url.startswith(self.settings.base_url) else "gateway"
                why = refusal(call.what, found, self.settings.login.username, whose).message
            except CannotReach as failure:
                if attempt > limit or not (isinstance(failure, NoAnswer) or self._may_pass(call, failure)):
                    raise
                why = failure.message
            self._waits.again(attempt, limit, why)
        raise AssertionError("the last attempt returns or raises")

    def _may_pass(self, call: HttpCall, failure: CannotReach) -> bool:
        # A connection that did not come about may do so later where one did before.
        return isinstance(failure, NotSent) and not isinstance(failure, Untrusted) and _host(call) in self._answered

    def _limit(self, reply: Reply) -> int:
        # A proxy's passing error is worth more tries than the server's own.
        return self._patience.attempts if reply.message is None else self._patience.own

    def _open(self, call: HttpCall, auth: AuthBase) -> Reply | requests.Response:
        answer = self._transport.stream(call, auth)
        return answer if 200 <= answer.status_code < 300 else read_reply(answer)

    def _authorised(self, call: HttpCall, send: Callable[[HttpCall, AuthBase], Found]) -> Found:
        # A 401 means a new token, once (J2.1).
        token = self.tokens.current()
        found = self._unthrottled(call, Bearer(token.value), send)
        if isinstance(found, requests.Response) or found.status != 401:
            return found
        self.tokens.forget(token)
        return self._unthrottled(call, Bearer(self.tokens.current().value), send)

    def _unthrottled(self, call: HttpCall, auth: AuthBase, send: Callable[[HttpCall, AuthBase], Found]) -> Found:
        # Waits that the server asked for are not attempts.
        waited = 0.0
        while True:
            found = send(call, auth)
            self._answered.add(_host(call))
            if isinstance(found, requests.Response) or found.status != 429:
                return found
            seconds = _asked(found, self._patience.pauses(3)[-1])
            if waited + seconds > self._patience.throttled:
                raise TimedOut(
                    f"{call.what}: the virtual cluster throttles us, and asks for {seconds:g} s more",
                    hint="try again when fewer programs ask it",
                )
            waited += seconds
            self._waits.asked(seconds, call.what)


class _Waits:
    """The waits of all calls to a virtual cluster: a long one is shown at once, not when it is over."""

    def __init__(self, patience: Patience, clock: Clock, show: Callable[[str], None]) -> None:
        self._patience = patience
        self._clock = clock
        self._show = show
        self._lock = threading.Lock()
        self._shown: float | None = None

    def again(self, attempt: int, limit: int, why: str) -> None:
        """Wait before a further try, up to the limit, and show why; the first one follows at once, unseen."""
        if attempt > 1:
            pauses, allowed = sum(self._patience.pauses(limit)[attempt - 1 :]), seconds_left()
            left = pauses if allowed is None else min(pauses, allowed)
            self._say(f"{why}; it is asked again, for {show_duration(left)} at the most")
        try:
            self._clock.sleep(self._patience.pauses(attempt)[-1])
        except DeadlinePassed as passed:
            raise DeadlinePassed(passed.message, detail=[why], hint=passed.hint, limit=passed.limit) from passed

    def asked(self, seconds: float, what: str) -> None:
        """Wait as a server asked that throttles us."""
        if seconds >= _NOTICED:
            self._say(f"{what}: the virtual cluster throttles us, and is asked again in {show_duration(seconds)}")
        self._clock.sleep(seconds)

    def _say(self, words: str) -> None:
        with self._lock:
            now = self._clock.monotonic()
            if self._shown is not None and now - self._shown < _QUIET:
                return
            self._shown = now
        self._show(words)


def _asked(reply: Reply, otherwise: float) -> float:
    # J3.5.
    said = reply.retry_after.strip()
    return max(float(said) if re.fullmatch(r"\d{1,6}(\.\d{1,9})?", said) else otherwise, 0.1)


def _quoted(name: str, safe: str) -> str:
    return quote(name, safe=safe, errors="surrogatepass")


def _host(call: HttpCall) -> str:
    return urlsplit(call.url).netloc


def _lost(call: HttpCall, failure: NoAnswer) -> AnswerMissing:
    return AnswerMissing(
        f"{call.what} was sent, and its answer is missing: {failure.words}",
        whole=True,
        hint="looking shows that it was not done; try again once the virtual cluster is at rest",
    )


def _peer(settings: VirtualClusterSettings, proxy: str | None) -> Peer:
    return Peer(
        ca=settings.ca,
        ca_hint=f"`ca` of the virtual cluster {settings.name} must be a PEM file",
        authority_hint=f"name its authority under `ca`; a new virtual cluster gets its certificate by `maint vc init "
        f"{settings.name}` (the utility's init-virtual-cluster), and the utility's own last a year",
        name_setting="the host in `base_url` and `auth_url`",
        unreachable=lambda root: _unreachable(settings.connect_to, root),
        insecure=settings.insecure,
        unverified=f"the certificate of {urlsplit(settings.base_url).hostname} is not verified: "
        "`tls-insecure` is set; anyone on the way can read the password",
        connect_to=settings.connect_to,
        proxy=proxy,
        keep_open=_AT_ONCE,
    )


def _unreachable(connect_to: str | None, root: BaseException) -> str:
    if connect_to:
        return f"connections go to {connect_to} (`connect_to`): is that the way in?"
    if isinstance(root, socket.gaierror):
        return "`connect_to` in the config reaches a virtual cluster whose name does not resolve"
    return "is the virtual cluster up, and is its address right?"


# The message is the only detail that a program can read; codes differ between versions.
_MISSING = re.compile(r"\bnot found\b|does not exist|no such", re.IGNORECASE)
# Of a 5xx, what is missing may be the server's own: its database, or the host of that.
_NAME = r"""(?: with (?:the )?(?:name|id))?(?: (?:'[^']*'|"[^"]*"|[\w./-]+))?"""
_ASKED = rf"\b(job|resource|run|file|object|record|log)\b{_NAME} (?:is |was )?(not found|does not exist)\b"
_MISSING_HERE = re.compile(_ASKED, re.IGNORECASE)
_TAKEN = re.compile(r"already exists", re.IGNORECASE)
_FINAL = re.compile(r"already exists|paused|cannot use resource|invalid|must ", re.IGNORECASE)
PROXY = "is there a proxy or a login page between us and the virtual cluster?"


class Missing(Rejected):
    """The thing that was asked for is not there."""


def is_passing(reply: Reply) -> bool:
    """Whether another try may be answered otherwise: a 5xx whose message, if it has one, does not settle it."""
    return reply.status >= 500 and not (_FINAL.search(reply.message or "") or is_missing(reply))


def is_missing(reply: Reply) -> bool:
    """Whether an answer says that the thing is not there, whatever its code."""
    if reply.status in (401, 403, 404):  # who is not let in is told nothing of it
        return reply.status == 404
    said = _MISSING if reply.status < 500 else _MISSING_HERE
    return reply.status >= 400 and bool(said.search(reply.message or ""))


def refusal(what: str, reply: Reply, user: str, whose: str = "virtual cluster") -> MaintError:
    """Return the failure that an answer other than 2xx stands for; `what` is the call, `user` the one who asked."""
    said = reply.message
    line = f"{what}: the {whose} answered {reply.title}" + (f": {said}" if said else "")
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
    if reply.status == 413:
        return WorkFailed(line, hint=TOO_LARGE)
    if said is None:
        return WorkFailed(line, hint=PROXY)
    if "paused" in said:
        return WorkFailed(line, hint="`maint vc job unpause --name JOB` lets it go on; a paused job takes no run")
    kind = WorkFailed if is_passing(reply) else Rejected
    return kind(line, hint="mend what it names; nothing of this call was done")
