"""`maint site report`: the catalogue pages, of one site or of all."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import msgspec

from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.configless import settings_of
from maint.cli.open_site import limited, opened
from maint.cli.options import LOOKS, Flags, option
from maint.cli.site.page_facts import CHECKS, KEPT, gather, seen
from maint.config.precedence import Settings
from maint.errors import DeadlinePassed, UsageError
from maint.files import keep_record, kept_record, locked, make_folder, writing
from maint.model.formatting import show_count
from maint.report import plots
from maint.report.pages import write_estate, write_site
from maint.report.plots import Plot
from maint.report.site_facts import SiteFacts

_PLOTS = "plots.json"  # in a site's state folder: what was drawn, of which facts


@command(example="maint site report --to /srv/www/maint", several=LOOKS)
def report(
    flags: Flags,
    to: Annotated[str, option("--to", "The folder of the pages; else `report.folder` of the config.")] = "",
) -> None:
    """Write static pages to look at: one of all sites, one of each, one of each day's changes.

    Sites that are chosen, or the only one, are looked at now; the others are shown as they were last seen.
    """
    screen, settings = flags.screen(), settings_of(flags)
    given = Path(to).absolute() if to else settings.report_folder
    if given is None:
        raise UsageError("there is no folder for the pages", hint="give --to FOLDER, or `report.folder` in the config")
    if flags.dry_run:
        screen.emit({"folder": str(given)}, f"would write pages into {given}")
        return
    written: list[str] = []
    with writing(given, "name another folder"):
        looking = bool(flags.site) or len(settings.names) == 1
        if looking:
            with opened(flags, limited_here=False) as (site, _):
                written.append(str(_of_site(site, given, _looked(flags, site))))
        with locked(settings.state):
            others = _others(given, settings, written, anew=not looking)
            written.insert(0, str(write_estate(given, others, datetime.now(UTC))))
    screen.emit({"folder": str(given), "pages": list(written)}, f"{written[0]}: {show_count(len(written), 'page')}")


def after(site: ConfiguredSite, unasked: str = "") -> None:
    """Write the site's page anew, and that of all sites, where the config says where.

    Args:
        unasked: why no store is asked; empty: they are.

    Raises:
        OSError: they cannot be written.
        DeadlinePassed: a store did not answer within the limit around this.
    """
    folder = site.settings.report_folder
    if folder is not None:
        _of_site(site, folder, gather(site, unasked))
        states = site.state.parent
        with locked(states):
            known = ((name, seen(states / name)) for name in site.settings.beside)
            write_estate(folder, known, datetime.now(UTC))


def _looked(flags: Flags, site: ConfiguredSite) -> SiteFacts:
    try:
        with limited(flags, site, "looking at the stores"):
            return gather(site)
    except DeadlinePassed as passed:
        return gather(site, passed.message)


def _others(
    folder: Path, settings: Settings, written: list[str], *, anew: bool
) -> Iterator[tuple[str, SiteFacts | None]]:
    """Yield each site's facts, the pages of those written that lack one as new as these; `written` gets their names.

    Args:
        anew: whether all pages are written, since every time on them is told in words.
    """
    done = {Path(one).stem for one in written}
    for name in settings.names:
        state = settings.state / name
        facts = seen(state)
        if facts is not None and name not in done and (anew or _is_older(folder / f"{name}.html", state)):
            written.append(str(write_site(folder, facts, _drawn(state, facts), datetime.now(UTC))))
        yield name, facts


def _is_older(page: Path, state: Path) -> bool:
    """Whether a page is missing, or older than what is kept of its site."""
    kept = [path.stat().st_mtime_ns for path in (state / KEPT, state / CHECKS) if path.exists()]
    return not page.exists() or page.stat().st_mtime_ns < max(kept, default=0)


def _of_site(site: ConfiguredSite, folder: Path, facts: SiteFacts) -> Path:
    with suppress(OSError):  # whoever may read the store need not own the state folder
        make_folder(site.state)
    keep_record(site.state / KEPT, facts)
    return write_site(folder, facts, _drawn(site.state, facts), datetime.now(UTC))


def _drawn(state: Path, facts: SiteFacts) -> dict[str, Plot]:
    """Return a site's plots: those that were drawn of the same facts, else drawn now; none where nothing draws."""
    if not plots.available():
        return {}
    told = msgspec.structs.replace(
        facts, seen=datetime.fromtimestamp(0, UTC), read=None, problem="", checks=None, runs=(), ended=(), windows=(),
    )  # fmt: skip
    digest, path = sha256(msgspec.json.encode(told)).hexdigest(), state / _PLOTS
    known = kept_record(path, dict[str, dict[str, Plot]]) or {}
    if digest not in known:
        known = {digest: plots.plots(facts)}
        keep_record(path, known, durable=False)
    return known[digest]
