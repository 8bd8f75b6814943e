"""Reads that may be asked again, and changes that are sent once."""

from collections.abc import Callable
from typing import NoReturn

import requests

from maint.adapters.manager import answers
from maint.adapters.manager.session import Gate
from maint.adapters.manager.transport import Broken, Call, Timeouts, Transport
from maint.config.schema import ManagerSettings
from maint.errors import AnswerMissing, Transient, WorkFailed
from maint.model.json import Json
from maint.ports import Clock, Secrets

_AGAIN = 2  # how often a read is asked again after a 401 to an account that was let in before (contract section 2.2)


class Calls:
    """How to ask and to act, each through the door that serves and with the account that is let in."""

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
        self._pause = pause
        self._transport = Transport(settings, timeouts, warn)
        self.gate = Gate(self._transport, secrets)

    def root(self, pinned: int) -> str:
        """Return `/api/vN` for a pinned version; never a lower one (contract section 3).

        Raises:
            WorkFailed: the server knows only lower ones.
        """
        known = self.gate.api()
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
        return answers.decoded(self.read(path), f"GET {path}")

    def whole(self, answer: requests.Response, what: str) -> bytes:
        """Return the body of a 2xx answer; raise what any other stands for."""
        content = answers.body(answer)
        if not 200 <= answer.status_code < 300:
            raise answers.refusal(what, answer, content, self.gate.name)
        return content

    def ask(self, call: Call, *, patient: bool = True) -> requests.Response:
        """Send a read; a redirect means another door, found anew once; a stray 401 is worth another try.

        Args:
            patient: whether a 401 is tried again here; pollers count for themselves.
        """
        answer = self._ask(call)
        if 300 <= answer.status_code < 400:
            answer.close()
            self.gate.moved()
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
        auth = self.gate.auth()
        try:
            answer = self._transport.send(self.gate.door(), call, auth)
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
            failed = answers.refusal(_what(call), answer, content, self.gate.name)
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
        return self._transport.send(self.gate.door(), call, self.gate.auth())

    def _moved(self, call: Call, answer: requests.Response) -> NoReturn:
        self.gate.moved()
        raise WorkFailed(
            f"{_what(call)} was answered with a redirect ({answer.status_code}) and not done",
            detail=("TLS is on now; the redirect was not followed, and nothing was sent twice",),
            hint="run it again: it will go to the TLS port",
        )


def _what(call: Call) -> str:
    return f"{call.method} {call.path.partition('?')[0]}"
