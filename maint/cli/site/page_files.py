"""The files of the catalogue pages: written of what was seen of each site; plots are drawn where that changed."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import msgspec

from maint.cli.composition import ConfiguredSite
from maint.cli.estate.processes import ONE_OF_MANY
from maint.cli.site.page_facts import KEPT, gather
from maint.config.precedence import Settings
from maint.files import keep_record, kept_record
from maint.report import plots
from maint.report.pages import write_estate, write_site
from maint.report.plots import Plot
from maint.report.site_facts import SiteFacts

_PLOTS = "plots.json"  # in a site's state folder: what was drawn, of which facts


def after(site: ConfiguredSite) -> None:
    """Write the site's page anew, and that of all sites, where the config says where; OSError where that fails.

    One of several sites at once is only looked at: see `after_all`.
    """
    folder = site.settings.report_folder
    if folder is not None and ONE_OF_MANY in os.environ:
        keep_record(site.state / KEPT, gather(site))
    elif folder is not None:
        of_site(site, folder)
        known = ((name, kept_record(site.state.parent / name / KEPT, SiteFacts)) for name in site.settings.beside)
        write_estate(folder, known, datetime.now(UTC))


def after_all(settings: Settings, since: float) -> None:
    """Write all pages where the config says where and a site was looked at `since` (seconds since 1970); OSError."""
    folder, kept = settings.report_folder, [settings.state / name / KEPT for name in settings.names]
    if folder is not None and any(one.exists() and one.stat().st_mtime >= since for one in kept):
        write_estate(folder, others(folder, settings, []), datetime.now(UTC))


def others(folder: Path, settings: Settings, written: list[str]) -> Iterator[tuple[str, SiteFacts | None]]:
    """Yield each site's facts, its pages written unless they are among those `written`, to which it adds."""
    done = {Path(one).stem for one in written}
    for name in settings.names:
        state = settings.state / name
        facts = kept_record(state / KEPT, SiteFacts)
        if facts is not None and name not in done:
            written.append(str(write_site(folder, facts, _drawn(state, facts), datetime.now(UTC))))
        yield name, facts


def of_site(site: ConfiguredSite, folder: Path) -> Path:
    """Look at a site, and write its pages; return the first of them. Raises OSError."""
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
