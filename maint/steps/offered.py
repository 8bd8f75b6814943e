"""A step kind that an installed package offers: what it does wrong is told as the failure of that package."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from maint import plugins
from maint.errors import MaintError, Stopped, WorkFailed
from maint.model.plan import Action, Result
from maint.ports import Sight, Site, Work
from maint.steps.step import Progress, Step


class _Offered(Step[Any]):  # Any: the package's own model of arguments
    package: ClassVar[str]
    file: ClassVar[str]

    def plan(self, args: Any, sight: Sight) -> Sequence[Action]:  # Any: as above
        with self._answering():
            actions = list(super().plan(args, sight))
        for one in actions:
            if not isinstance(one, Action):
                raise self._wrong("plans what is no action")
            self._refuse_unreadable([one.target, one.summary, one.arguments, one.facts], "an action of it")
        return actions

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        with self._answering():
            progress = super().apply(action, site, work)
            if not hasattr(progress, "__next__"):
                raise self._wrong("yields nothing: words on the way are missing")
            while True:
                try:
                    words = next(progress)
                except StopIteration as stop:
                    result = stop.value
                    break
                if not isinstance(words, str):
                    raise self._wrong("yields what is no text")
                yield words
        if not isinstance(result, Result):
            raise self._wrong("returns no result, such as `done(…)`")
        self._refuse_unreadable([result.detail, result.value], "its result")
        return result

    def holds(self, action: Action, site: Site, work: Work) -> bool:
        with self._answering():
            return super().holds(action, site, work)

    def _refuse_unreadable(self, what: object, name: str) -> None:
        try:
            json.dumps(what)
        except (TypeError, ValueError, RecursionError):
            raise self._wrong(f"gives what JSON cannot hold: {name}") from None

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except (Stopped, MaintError):
            raise
        except (Exception, SystemExit) as error:  # whatever a package of somebody else does
            raise self._wrong(f"failed: {plugins.where_failed(error, self.file)}") from error

    def _wrong(self, words: str) -> WorkFailed:
        return WorkFailed(
            f"step kind {self.kind} of the package {self.package} {words}",
            hint=f"tell whoever wrote {self.package}; nothing of maint itself is broken",
        )


def offered(kind: type[Step[Any]], package: str) -> Step[Any]:  # Any: as above
    """Return the step of a package's class, which tells of the package whatever that class does wrong."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    about = {"__doc__": kind.__doc__, "package": package, "file": file}
    made: Any = type(kind.__name__, (_Offered, kind), about)  # Any: a class that is made here
    made.arguments = kind.arguments
    step: Step[Any] = made()
    return step
