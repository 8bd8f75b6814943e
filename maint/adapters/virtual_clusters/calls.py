"""Ask with patience, act once: a change whose answer is lost is decided by looking (contract section 3.5)."""

import json as text
from collections.abc import Callable, Iterable
from urllib.parse import quote, urlencode

import requests
from requests.auth import AuthBase

from maint.adapters.manager.answers import body
from maint.adapters.manager.transport import Broken, NotSent
from maint.adapters.virtual_clusters import answers
from maint.adapters.virtual_clusters.backoff import Patience, Throttle, Waits
from maint.adapters.virtual_clusters.tokens import Tokens
from maint.adapters.virtual_clusters.transport import Bearer, Call, Timeouts, Transport
from maint.config.schema import VirtualClusterSettings
from maint.errors import AnswerMissing, CannotReach, MaintError
from maint.model.json import Json
from maint.model.virtual_cluster import Object
from maint.ports import Clock, Secrets

Query = Iterable[tuple[str, str]]


class Calls:
    """How to ask a virtual cluster and how to act on it, with the token of its user.

    Args:
        settings: where it is, and who we are.
        secrets: resolves the password's reference, when it is first needed.
        clock: for pauses and for the token's age.
        warn: told, in words, when certificates are not verified, and what is waited for.
        timeouts: how long to wait for what.
        patience: when to give up.
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
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.patience = patience or Patience()
        self._waits = Waits(self.patience, clock, warn)
        self.transport = Transport(settings, timeouts or Timeouts(), warn)
        self.tokens = Tokens(settings, secrets, clock, self._patiently)
        self._heard: set[str] = set()  # hosts that have answered: what fails there later may pass

    def url(self, *segments: str, path: str = "", query: Query = ()) -> str:
        """Return an address below `base_url`: segments are encoded whole, `path` keeps its slashes (section 3.1)."""
        parts = [self.settings.base_url.rstrip("/"), *(quote(segment, safe="") for segment in segments)]
        if path:
            parts.append(quote(path, safe="/"))
        asked = urlencode(list(query), quote_via=quote, safe="")
        return "/".join(parts) + (f"?{asked}" if asked else "")

    def json(self, *segments: str, query: Query = ()) -> Object | None:
        """Return the object that a GET is answered with; None where there is no such thing."""
        call = Call("GET", self.url(*segments, query=query))
        content = self.content(call)
        return None if content is None else answers.decoded(content, call.what)

    def content(self, call: Call) -> bytes | None:
        """Return the body of a GET that was answered with 2xx; None where there is no such thing."""
        answer = self.stream(call)
        return None if answer is None else self._whole(call, answer)

    def stream(self, call: Call) -> requests.Response | None:
        """Return a good answer to a GET, its body unread; None where there is no such thing."""
        answer = self._patiently(call, None)
        if answers.is_good(answer):
            return answer
        content = body(answer)
        if answers.is_missing(answer, content):
            return None
        raise answers.refusal(call.what, answer, content, self.settings.login.username)

    def act(
        self,
        call: Call,
        landed: Callable[[], bool],
        *,
        good: Callable[[requests.Response, bytes], bool] = lambda answer, _: answers.is_good(answer),
    ) -> bytes | None:
        """Send a change, and send it again only where looking shows that it was not done.

        Args:
            call: the change.
            landed: looks whether what was to be done is done.
            good: which answers mean that it was done.

        Returns:
            The body of a good answer; None where looking showed that it is done.

        Raises:
            MaintError: it was refused, or could not be sent.
            AnswerMissing: it was not done however often it was sent, and no answer told why.
        """
        doubtful = False
        for attempt in range(1, self.patience.attempts + 2):
            try:
                answer = self._authorised(call)
                content = body(answer)
            except NotSent as failure:
                trouble: MaintError = failure
                limit = self.patience.attempts if self._has_answered(call) else 0
            except Broken as failure:
                trouble, limit, doubtful = self._lost(call, failure), self.patience.attempts, True
            else:
                if good(answer, content):
                    return content
                trouble = answers.refusal(call.what, answer, content, self.settings.login.username)
                passing = answers.is_passing(answer, content)
                limit = self._limit(content) if passing else 0
                doubtful = doubtful or passing
            if doubtful and landed():
                return None
            if attempt > limit:
                raise trouble
            self._waits.again(attempt, limit, trouble.message)
        raise AssertionError("the last attempt raises")

    def done(self, call: Call, landed: Callable[[], bool]) -> bool:
        """Send a deletion; return False where there was nothing to delete."""
        try:
            self.act(call, landed)
        except answers.Missing:
            return False
        return True

    def post(self, *segments: str, json: Json = None) -> Call:
        """Return a POST; without a body where there is none to send."""
        return self._with_json("POST", segments, json)

    def patch(self, *segments: str, json: Json) -> Call:
        """Return a PATCH."""
        return self._with_json("PATCH", segments, json)

    def delete(self, *segments: str, path: str = "") -> Call:
        """Return a DELETE."""
        return Call("DELETE", self.url(*segments, path=path))

    def _with_json(self, method: str, segments: tuple[str, ...], json: Json) -> Call:
        sent = None if json is None else text.dumps(json, ensure_ascii=False).encode()
        return Call(method, self.url(*segments), json=sent)

    def _limit(self, content: bytes) -> int:
        """Return how often a passing error is worth another try: a proxy's more than the server's own."""
        return self.patience.own if answers.is_own(content) else self.patience.attempts

    def _lost(self, call: Call, failure: Broken) -> AnswerMissing:
        return AnswerMissing(
            f"{call.what} was sent, and its answer is missing: {failure.words}",
            whole=True,
            hint="looking shows that it was not done; try again once the virtual cluster is at rest",
        )

    def _whole(self, call: Call, answer: requests.Response) -> bytes:
        """Return the whole body; where it is cut, ask again."""
        for attempt in range(1, self.patience.attempts + 1):
            try:
                return body(answer)
            except CannotReach as failure:
                self._waits.again(attempt, self.patience.attempts, failure.message)
                answer = self.stream(call) or answer
        return body(answer)

    def _patiently(self, call: Call, auth: AuthBase | None) -> requests.Response:
        """Send a read until its answer is none that passes."""
        for attempt in range(1, self.patience.attempts + 2):
            limit = self.patience.attempts
            try:
                answer = self._authorised(call) if auth is None else self._unthrottled(call, lambda: auth)
                if answer.status_code < 500:
                    return answer
                content = body(answer)
                if attempt > limit or not answers.is_passing(answer, content):
                    return answer
                why = answers.refusal(call.what, answer, content, self.settings.login.username).message
            except CannotReach as failure:
                if attempt > limit or not (isinstance(failure, Broken) or self._may_pass(call, failure)):
                    raise
                why = failure.message
            self._waits.again(attempt, limit, why)
        raise AssertionError("the last attempt returns or raises")

    def _may_pass(self, call: Call, failure: CannotReach) -> bool:
        """Whether a connection that did not come about may do so later: it did before."""
        return isinstance(failure, NotSent) and self._has_answered(call)

    def _has_answered(self, call: Call) -> bool:
        return call.url.split("/")[2] in self._heard

    def _authorised(self, call: Call) -> requests.Response:
        """Send with the token; a 401 means a new one, once (contract section 2.1)."""
        token = self.tokens.current()
        answer = self._unthrottled(call, lambda: Bearer(token.value))
        if answer.status_code != 401:
            return answer
        answer.close()
        self.tokens.forget(token)
        token = self.tokens.current()
        return self._unthrottled(call, lambda: Bearer(token.value))

    def _unthrottled(self, call: Call, auth: Callable[[], AuthBase]) -> requests.Response:
        throttle = Throttle(self.patience, self._waits, call.what)
        while True:
            answer = self.transport.send(call, auth())
            self._heard.add(call.url.split("/")[2])
            if answer.status_code != 429:
                return answer
            throttle.wait(answer)
