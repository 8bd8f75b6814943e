"""`maint site`: the configured sites, and how one of them is."""

from typing import TYPE_CHECKING

import typer

from maint.cli.flags import Flags, command

if TYPE_CHECKING:
    from maint.model.json import Json

group = typer.Typer(no_args_is_help=True, help="Configured sites.")


@command(group, "list")
def list_sites(flags: Flags) -> None:
    """List the configured sites."""
    from maint.cli.open_site import settings_of
    from maint.cli.screen import table

    settings = settings_of(flags)
    sites = [settings.site(name) for name in settings.names]
    rows = [[site.name, site.manager.host, site.backup.store if site.backup else "-"] for site in sites]
    found = [{"name": row[0], "manager": row[1], "store": row[2]} for row in rows]
    flags.screen().emit({"sites": found}, table(["SITE", "MANAGER", "STORE"], rows))


@command(group, "status")
def status(flags: Flags) -> None:
    """Show ports, TLS chain, version, redaction, licence and active commands."""
    from maint.cli.open_site import opened
    from maint.cli.screen import table
    from maint.cli.site.status import seen

    with opened(flags) as (site, screen):
        facts = seen(site)
        screen.emit(
            {"site": site.settings.name, **facts},
            table(["WHAT", "IS"], [[key.replace("_", " "), _shown(value)] for key, value in facts.items()]),
        )


def _shown(value: "Json") -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "none"
    return str(value)
