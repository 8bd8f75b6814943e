"""`maint site report`: the catalogue pages, of one site or of all."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from maint.cli.command import command
from maint.cli.configless import settings_of
from maint.cli.open_site import opened
from maint.cli.options import Flags, option
from maint.cli.site.page_files import of_site, others
from maint.errors import UsageError
from maint.files import writing
from maint.model.formatting import show_count
from maint.report.pages import write_estate


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
                written.append(str(of_site(site, given)))
        written.insert(0, str(write_estate(given, others(given, settings, written), datetime.now(UTC))))
    screen.emit({"folder": str(given), "pages": list(written)}, f"{written[0]}: {show_count(len(written), 'page')}")
