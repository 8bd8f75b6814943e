"""The metrics file of a site, as Prometheus reads it: its figures, and what is so while something is at work."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import RLock

from maint.cli.composition import ConfiguredSite
from maint.cli.monitoring.figures import Figures, gathered
from maint.cli.screen import Screen
from maint.engine import journal
from maint.errors import MaintError, Stopped
from maint.files import replace
from maint.steps.manager.window_record import RECORD

STATES = journal.RUN_STATES
# What only the first store can tell, and what only some store can.
_OF_FIRST = (
    "maint_last_verified_backup_", "maint_last_drill_", "maint_snapshots", "maint_oldest_snapshot_",
    "maint_stored_bytes", "maint_last_backup_",
)  # fmt: skip
_OF_STORES = (*_OF_FIRST, "maint_store_reached", "maint_lease_", "maint_copy_")
_AT_WORK, _MOVED = "maint_at_work_since_timestamp_seconds", "maint_at_work_moved_bytes"
_WINDOW, _LEASE = "maint_redaction_window_open", "maint_lease_held"
_IDLE = {_AT_WORK: 0.0, _MOVED: 0.0}
_MINUTE = 60.0  # seconds between two writings of what was moved
# What is said while something is at work, too: nobody writes it any more once that is killed.
_NOW = {
    _AT_WORK: "When what is at work on the site began; 0: nothing is.",
    _MOVED: "Bytes that it has read or written so far, as of the last minute; 0: nothing is at work.",
    _WINDOW: "Whether the manager shows secrets to whoever may read its API.",
    _LEASE: "Whether some machine holds the lease of the shared state.",
}


def publish(site: ConfiguredSite, screen: Screen, unasked: str = "") -> None:
    """Write the metrics file where one is configured; what it tells of stores that are away, or `unasked`, stays."""
    path = site.settings.metrics
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)  # the collector is another user, whatever our umask says
        figures, before = gathered(site, stores=not unasked), _families(path)
        if f'{{site="{site.settings.name}"' not in before.get("maint_info", f'{{site="{site.settings.name}"'):
            before = {}
            screen.warn(f"the metrics {path} were those of another site: give each site a file of its own")
        stays = (*_IDLE, *(() if figures.reached else _OF_FIRST), *(_OF_STORES if unasked else ()))
        stays += (_WINDOW,) if figures.window is None else ()
        now = _split(metrics_text(figures)) | _said(site, _told_now(figures))
        now = {name: lines for name, lines in now.items() if not name.startswith(stays)}
        kept = {name: lines for name, lines in before.items() if name.startswith(stays)}
        text = "".join((now | _said(site, _IDLE) | kept).values())
        replace(path, text.encode(), mode=0o644)  # nothing in it is secret
    except Stopped:
        raise
    except (OSError, MaintError) as error:
        screen.warn(f"the metrics {path} are not written: {error}")


def _told_now(figures: Figures) -> Mapping[str, float]:
    held = figures.lease[0] if figures.lease else None
    return {name: value for name, value in ((_WINDOW, figures.window), (_LEASE, held)) if value is not None}


def _families(path: Path) -> dict[str, str]:
    """Return the lines of each metric in a file by its name."""
    return _split(path.read_text(encoding="utf-8", errors="replace")) if path.exists() else {}


def _split(text: str) -> dict[str, str]:
    found = text.split("# HELP ")[1:]
    return {one.split(maxsplit=1)[0]: f"# HELP {one}" for one in found}


def _said(site: ConfiguredSite, values: Mapping[str, float]) -> dict[str, str]:
    """Return the lines of metrics of `_NOW` by their names."""
    return {
        name: f"# HELP {name} {_NOW[name]}\n# TYPE {name} gauge\n"
        f'{name}{{site="{site.settings.name}"}} {value:.3f}\n'.replace(".000\n", "\n")
        for name, value in values.items()
    }


class AtWork:
    """Says in the metrics file what is so while something is at work under the site's lock; `look` at each event."""

    def __init__(self, site: ConfiguredSite) -> None:
        self._site, self._watched = site, site.watched
        self._mutex, self._bytes, self._told = RLock(), 0, site.clock.monotonic()
        site.watched = self._moved
        self._since = round(site.clock.now().timestamp(), 3)
        self._window = self._is_open()
        leased = {_LEASE: 1.0} if site.shared is not None else {}
        self._say({**_IDLE, _AT_WORK: self._since, **leased, **({_WINDOW: 1.0} if self._window else {})})

    def look(self) -> None:
        """Say where a redaction window was opened or closed."""
        if self._is_open() is not self._window:
            self._window = not self._window
            self._say({_WINDOW: float(self._window)})

    def end(self) -> int:
        """Say that it is at work no more, unless something else has begun meanwhile; return the bytes it moved."""
        path, self._site.watched = self._site.settings.metrics, self._watched
        with suppress(OSError):
            if (
                path is not None
                and _families(path).get(_AT_WORK) == _said(self._site, {_AT_WORK: self._since})[_AT_WORK]
            ):
                self._say({**_IDLE, **({_LEASE: 0.0} if self._site.shared is not None else {})})
        return self._bytes

    def _moved(self, what: str, count: int, of: int | None) -> None:
        """Count bytes for who watches, and say them each minute; from any thread."""
        self._watched(what, count, of)
        with self._mutex:
            self._bytes += count
            if (now := self._site.clock.monotonic()) - self._told >= _MINUTE:
                self._told = now
                self._say({_MOVED: self._bytes})

    def _is_open(self) -> bool:
        return (self._site.state / RECORD).exists()

    def _say(self, values: Mapping[str, float]) -> None:
        path = self._site.settings.metrics
        if path is None:
            return
        with suppress(OSError), self._mutex:  # who writes the whole of it warns
            path.parent.mkdir(parents=True, exist_ok=True)
            text = "".join((_families(path) | _said(self._site, values)).values())
            replace(path, text.encode(), mode=0o644, durable=False)


def metrics_text(figures: Figures) -> str:
    """Return figures as Prometheus reads them."""
    from maint.render import from_file  # few configs ask for metrics

    return from_file("metrics.prom.j2", {"figures": figures, "states": STATES})
