"""`maint site report`: the catalogue pages, of one site or of all."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import msgspec

from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.configless import settings_of
from maint.cli.estate.processes import ONE_OF_MANY
from maint.cli.open_site import opened
from maint.cli.options import Flags, option
from maint.cli.site.page_facts import KEPT, gather
from maint.config.precedence import Settings
from maint.errors import UsageError
from maint.files import keep_record, kept_record, writing
from maint.model.formatting import show_count
from maint.report import plots
from maint.report.pages import write_estate, write_site
from maint.report.plots import Plot
from maint.report.site_facts import SiteFacts

_PLOTS = "plots.json"  # in a site's state folder: what was drawn, of which facts


@command(example="maint site report --to /srv/www/maint")
def report(
    flags: Flags,
    to: Annotated[str, option("--to", "The folder of the pages; else `report.folder` of the config.")] = "",
) -> None:
    """Write static pages to look at: one of all sites, one of each, one of each day's changes.

    A site that is named by --site, or the only one, is looked at now; the others are shown as they were last seen.
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
        if flags.site or len(settings.names) == 1:
            with opened(flags) as (site, _):
                written.append(str(_of_site(site, given)))
        written.insert(0, str(write_estate(given, _others(given, settings, written), datetime.now(UTC))))
    screen.emit({"folder": str(given), "pages": list(written)}, f"{written[0]}: {show_count(len(written), 'page')}")


def after(site: ConfiguredSite) -> None:
    """Write the site's page anew, and that of all sites, where the config says where; OSError where that fails.

    One of several sites at once is only looked at: see `after_all`.
    """
    folder = site.settings.report_folder
    if folder is not None and ONE_OF_MANY in os.environ:
        keep_record(site.state / KEPT, gather(site))
    elif folder is not None:
        _of_site(site, folder)
        known = ((name, kept_record(site.state.parent / name / KEPT, SiteFacts)) for name in site.settings.beside)
        write_estate(folder, known, datetime.now(UTC))


def after_all(settings: Settings, since: float) -> None:
    """Write all pages where the config says where and a site was looked at `since` (seconds since 1970); OSError."""
    folder, kept = settings.report_folder, [settings.state / name / KEPT for name in settings.names]
    if folder is not None and any(one.exists() and one.stat().st_mtime >= since for one in kept):
        write_estate(folder, _others(folder, settings, []), datetime.now(UTC))


def _others(folder: Path, settings: Settings, written: list[str]) -> Iterator[tuple[str, SiteFacts | None]]:
    """Yield each site's facts, its pages written unless they are among those `written`, to which it adds."""
    done = {Path(one).stem for one in written}
    for name in settings.names:
        state = settings.state / name
        facts = kept_record(state / KEPT, SiteFacts)
        if facts is not None and name not in done:
            written.append(str(write_site(folder, facts, _drawn(state, facts), datetime.now(UTC))))
        yield name, facts


def _of_site(site: ConfiguredSite, folder: Path) -> Path:
    facts = gather(site)
    keep_record(site.state / KEPT, facts)
    return write_site(folder, facts, _drawn(site.state, facts), datetime.now(UTC))


def _drawn(state: Path, facts: SiteFacts) -> dict[str, Plot]:
    """Return a site's plots: those that were drawn of the same facts, else drawn now; none where nothing draws."""
    if not plots.available():
        return {}
    told = msgspec.structs.replace(facts, seen=datetime.fromtimestamp(0, UTC), checks=None, runs=())
    digest, path = sha256(msgspec.json.encode(told)).hexdigest(), state / _PLOTS
    known = kept_record(path, dict[str, dict[str, Plot]]) or {}
    if digest not in known:
        known = {digest: plots.plots(facts)}
        keep_record(path, known, durable=False)
    return known[digest]
