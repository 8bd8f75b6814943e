"""Tells all that are configured, one after the other, each within its limit; trouble is returned, not raised."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from maint import plugins
from maint.adapters.clock import is_of_another
from maint.adapters.notify.address import ping, post
from maint.adapters.notify.mail import send
from maint.adapters.notify.way import Say
from maint.adapters.programs import LocalPrograms
from maint.config.notices import NoticeSettings
from maint.config.suggestions import meant
from maint.errors import DeadlinePassed, Interrupted, Invalid, MaintError
from maint.model.notice import Notice, Told
from maint.model.secret import scrub
from maint.ports import Clock, Secrets

_MOST = 60.0  # seconds for telling all of them

Way: TypeAlias = Callable[[NoticeSettings, Notice, Say], None]
OfPackage: TypeAlias = Callable[[Mapping[str, str], Notice, Say], None]


def _run(one: NoticeSettings, notice: Notice, say: Say) -> None:
    """Run a program of the operator's; WorkFailed: it did not start, ended with another status than 0, or too late."""
    assert one.exec is not None
    LocalPrograms().run(one.exec.command, say.body("json", notice), one.timeout)


def _hand_over(one: NoticeSettings, notice: Notice, say: Say) -> None:
    """Hand the notice to an installed package; raises Invalid where that cannot be loaded, and what it raises."""
    assert one.plugin is not None
    kind, known = one.plugin.kind, plugins.offered(plugins.NOTIFY)
    if kind not in known:
        words = f"no installed package offers notices named {kind!r}"
        raise Invalid(words, hint=meant(kind, known, "install it beside maint"))
    tell = plugins.load(known[kind], "notice", _function, "it is a function of settings, notice and say")
    tell(one.plugin.settings, notice, say)


def _function(found: object) -> OfPackage | None:
    return cast(OfPackage, found) if callable(found) else None


_WAYS: Mapping[str, Way] = {"webhook": post, "mail": send, "ping": ping, "exec": _run, "plugin": _hand_over}


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
        except OSError as error:
            return error.strerror or "the operating system said no"
        except Exception:  # a boundary: what a library says may hold anything, and nothing may stop the run
            return "it failed in a way that maint does not know"
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
