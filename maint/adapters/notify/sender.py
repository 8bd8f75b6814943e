"""Tells all that are configured, one after the other, each within its limit; trouble is returned, not raised."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from maint.adapters.clock import is_of_another
from maint.adapters.notify.address import ping, post
from maint.adapters.notify.mail import send
from maint.adapters.notify.plugin import tell
from maint.adapters.notify.program import run
from maint.adapters.notify.way import Say
from maint.config.notices import NoticeSettings
from maint.errors import DeadlinePassed, Interrupted, MaintError
from maint.model.notice import Notice, Told
from maint.model.secret import scrub
from maint.ports import Clock, Secrets

_MOST = 60.0  # seconds for telling all of them

Way: TypeAlias = Callable[[NoticeSettings, Notice, Say], None]
_WAYS: Mapping[str, Way] = {"webhook": post, "mail": send, "ping": ping, "exec": run, "plugin": tell}


class NoticeSender:
    """`ports.Notices`; `text` puts a notice into words, `body` into a format; `proxy` leads to addresses."""

    def __init__(
        self,
        configured: Sequence[NoticeSettings],
        secrets: Secrets,
        clock: Clock,
        *,
        text: Callable[[Notice], str],
        body: Callable[[str, Notice], bytes],
        proxy: str | None = None,
    ) -> None:
        self._configured = configured
        self._say = Say(secrets, text, body, proxy)
        self._clock = clock

    def tell(self, notices: Sequence[Notice], names: Collection[str] | None = None) -> Sequence[Told]:
        """Tell, each within its limit and all within a minute; DeadlinePassed: a limit around this one has passed."""
        end, found = self._clock.monotonic() + _MOST, list[Told]()
        for one in self._configured:
            for way, notice in _chosen(one, notices) if names is None or one.name in names else ():
                if (left := end - self._clock.monotonic()) <= 0:
                    found.append(Told(one.name, f"{way}: no time was left"))
                    continue
                problem = self._told(one, way, notice, min(left, one.timeout))
                found.append(Told(one.name, f"{way}: {problem}" if problem else ""))
                if problem == _SIGNAL:
                    return found
        return found

    def _told(self, one: NoticeSettings, way: str, notice: Notice, limit: float) -> str:
        try:
            with self._clock.limit(limit):
                _WAYS[way](one, notice, self._say)
        except DeadlinePassed as error:
            if is_of_another(error):  # one around the telling
                raise
            return error.message
        except Interrupted:
            return _SIGNAL
        except MaintError as error:
            return scrub(": ".join([error.message, *error.detail[:1]]))
        except Exception as error:  # a boundary: what a library says may hold anything, and nothing may stop the run
            return f"{type(error).__name__}"
        return ""


_SIGNAL = "interrupted by a signal"


def _chosen(one: NoticeSettings, notices: Sequence[Notice]) -> Iterator[tuple[str, Notice]]:
    """Yield each way of a notice that is for one of the events, with the first of them that it is for."""
    seen = set[str]()
    for notice in notices:
        for way in one.ways(notice.kind.value, notice.verb):
            if way not in seen:
                seen.add(way)
                yield way, notice
