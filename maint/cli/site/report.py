"""`maint site report`: the catalogue pages, of one site or of all."""

import os
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.configless import settings_of
from maint.cli.estate.processes import ONE_OF_MANY
from maint.cli.open_site import limited, opened
from maint.cli.options import LOOKS, Flags, option
from maint.cli.site.page_facts import gather
from maint.cli.site.page_files import keep, of_site, others
from maint.config.paths import absolute
from maint.errors import DeadlinePassed, UsageError
from maint.files import locked, writing
from maint.model.formatting import show_count
from maint.report.pages import write_estate
from maint.report.site_facts import PageFacts, page_of


@command(several=LOOKS)
def report(
    flags: Flags,
    to: Annotated[str, option("--to", "The folder of the pages; else `report.folder` of the config.")] = "",
) -> None:
    """Write static pages to look at: one of all sites, one of each, one of each day's changes.

    Sites that are chosen, or the only one, are looked at now; the others are shown as they were last seen.
    """
    screen, settings = flags.screen(), settings_of(flags)
    given = absolute(to) if to else settings.report_folder
    if given is None:
        raise UsageError("there is no folder for the pages", hint="give --to FOLDER, or `report.folder` in the config")
    settings.refuse_unknown(settings.chosen)
    if flags.dry_run:
        screen.emit({"folder": str(given)}, f"would write pages into {given}")
        return
    written: list[str] = []
    into = partial(writing, given, "name another folder")
    looking = bool(flags.site) or len(settings.names) == 1
    if looking:
        with opened(flags, limited_here=False) as (site, _):
            facts = _looked(flags, site)
            if ONE_OF_MANY in os.environ:
                keep(site, facts)
                screen.emit({"folder": str(given), "pages": [str(given / page_of(facts.name))]}, "")
                return
            with into():
                written.append(str(of_site(site, given, facts)))
    with into(), locked(settings.state):
        now = datetime.now(UTC)
        rest = others(given, settings, written, now, anew=not looking)
        written.insert(0, str(write_estate(given, rest, now)))
    screen.emit({"folder": str(given), "pages": list(written)}, f"{written[0]}: {show_count(len(written), 'page')}")


def _looked(flags: Flags, site: ConfiguredSite) -> PageFacts:
    try:
        with limited(flags, site, "looking at the stores"):
            return gather(site)
    except DeadlinePassed as passed:
        return gather(site, passed.message)
