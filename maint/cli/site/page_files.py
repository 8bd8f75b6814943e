"""The files of the catalogue pages: written of what was seen of each site; plots are drawn where that changed."""

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import msgspec

from maint.cli.composition import ConfiguredSite
from maint.cli.estate.processes import ONE_OF_MANY
from maint.cli.site.page_facts import CHECKS, KEPT, gather, last_facts
from maint.config.precedence import Settings
from maint.files import keep_record, kept_record, locked, replace
from maint.report import pages
from maint.report.pages import Plot, tells_no_use, write_estate, write_site
from maint.report.site_facts import PageFacts, page_of

_PLOTS = "plots.json"  # in a site's state folder: what was drawn, of which facts


def write_pages(site: ConfiguredSite, unasked: str = "") -> None:
    """Write the site's page anew, and that of all sites, where the config says where.

    Args:
        unasked: why no store is asked; empty: they are.

    One of several sites at once is only looked at: see `after_all`.

    Raises:
        OSError: they cannot be written.
        DeadlinePassed: a store did not answer within the limit around this.
    """
    folder = site.settings.report_folder
    if folder is not None and ONE_OF_MANY in os.environ:
        keep(site, gather(site, unasked))
    elif folder is not None:
        of_site(site, folder, gather(site, unasked))
        states = site.state.parent
        with locked(states):
            now = datetime.now(UTC)
            write_estate(folder, _beside(site, folder, now), now)


def _beside(site: ConfiguredSite, folder: Path, now: datetime) -> Iterator[tuple[str, PageFacts | None]]:
    """Yield each site's facts; of one whose config cannot be used, or was mended, its page is written as well."""
    for name, wrong in site.settings.beside.items():
        state = site.state.parent / name
        facts = _seen(state, wrong, site.settings.config)
        if facts is not None and (wrong or _is_older(folder / page_of(name), state)):
            _written(folder, state, facts, now)
        yield name, facts


def write_all_pages(settings: Settings, folder: Path, since: float) -> None:
    """Write all pages into a folder where a site was looked at `since` (seconds since 1970); OSError."""
    kept = [settings.state / name / KEPT for name in settings.names]
    if any(one.exists() and one.stat().st_mtime >= since for one in kept):
        with locked(settings.state):
            now = datetime.now(UTC)
            write_estate(folder, others(folder, settings, [], now, anew=True), now)


def others(
    folder: Path, settings: Settings, written: list[str], now: datetime, *, anew: bool
) -> Iterator[tuple[str, PageFacts | None]]:
    """Yield each site's facts, the pages of those written that lack one as new as these; `written` gets their names.

    Args:
        anew: whether all pages are written, since every time on them is told in words.
    """
    done = {Path(one).name for one in written}
    for name in settings.names:
        state = settings.state / name
        wrong = settings.broken.get(name)
        facts = _seen(state, wrong.in_a_line if wrong else "", settings.option)
        if (
            facts is not None
            and page_of(name) not in done
            and (anew or facts.unusable or _is_older(folder / page_of(name), state))
        ):
            written.append(str(_written(folder, state, facts, now)))
        yield name, facts


def _seen(state: Path, unusable: str, config: str) -> PageFacts | None:
    """Return what was seen of a site last, why its config cannot be used, and what a command is told to find that."""
    facts = last_facts(state) or (PageFacts(state.name, "-", datetime.now(UTC)) if unusable else None)
    return msgspec.structs.replace(facts, unusable=unusable, config=config) if facts else None


def _is_older(page: Path, state: Path) -> bool:
    """Whether a page is missing, older than what is kept of its site, or tells of a config that was mended since."""
    kept = [path.stat().st_mtime_ns for path in (state / KEPT, state / CHECKS) if path.exists()]
    return not page.exists() or page.stat().st_mtime_ns < max(kept, default=0) or tells_no_use(page)


def of_site(site: ConfiguredSite, folder: Path, facts: PageFacts) -> Path:
    """Keep the facts of a site, and write its pages; return the first of them. Raises OSError."""
    with suppress(OSError):  # a reader of the store need not own the state folder
        keep(site, facts)
    return _written(folder, site.state, facts, datetime.now(UTC))


def _written(folder: Path, state: Path, facts: PageFacts, now: datetime) -> Path:
    return write_site(folder, facts, _drawn(state, facts), now)


def keep(site: ConfiguredSite, facts: PageFacts) -> None:
    """Keep the facts of a site for the process that writes the pages; NotWritten."""
    replace(site.state / KEPT, msgspec.json.encode(facts))


def _drawn(state: Path, facts: PageFacts) -> dict[str, Plot]:
    """Return a site's plots: those that were drawn of the same facts, else drawn now; none where nothing draws."""
    if not pages.available():
        return {}
    until = (
        facts.seen if facts.late else datetime.fromtimestamp(0, UTC)
    )  # a plot of one that is late goes on until then
    told = msgspec.structs.replace(
        facts, seen=until, read=None, problem="", unusable="", config="", checks=None,
        runs=(), ended=(), windows=(), doubts=(), lost=(),
    )  # fmt: skip
    digest, path = sha256(msgspec.json.encode(told)).hexdigest(), state / _PLOTS
    known = kept_record(path, dict[str, dict[str, Plot]]) or {}
    if digest not in known:
        try:
            known = {digest: pages.plots(facts)}
        except ImportError:  # it is there, and cannot be loaded, as with another C library: the page says it has none
            return {}
        with suppress(OSError):
            keep_record(path, known, durable=False)
    return known[digest]
