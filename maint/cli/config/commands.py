"""`maint config`: show, validate, path."""

from typing import Annotated

from maint.cli.command import command
from maint.cli.configless import settings_of
from maint.cli.open_site import warn_of_settings
from maint.cli.options import Flags, option
from maint.cli.screen import table
from maint.config.error_messages import together
from maint.config.paths import SITES_FOLDER
from maint.model.json import spelled


@command()
def show(flags: Flags, origin: Annotated[bool, option("--origin", "Where each value comes from.")] = False) -> None:
    """Show the configuration; secrets as their references."""
    settings = settings_of(flags)
    found = settings.origins()
    settings.refuse_unknown(settings.chosen)
    warn_of_settings(flags.screen(), settings)
    values = [{"key": item.key, "value": item.value, **({"origin": item.origin} if origin else {})} for item in found]
    rows = [[item.key, spelled(item.value), *([item.origin] if origin else [])] for item in found]
    flags.screen().emit({"values": values}, table(["KEY", "VALUE", *(["ORIGIN"] if origin else [])], rows))


@command()
def validate(flags: Flags) -> None:
    """Check the configuration without touching anything it names."""
    settings = settings_of(flags)
    for other in sorted((settings.folder / SITES_FOLDER).glob("*.yml")):
        flags.screen().warn(f"{other} is not read: a file of {SITES_FOLDER} ends in .yaml")
    from maint.cli.monitoring.notify import strange_verbs  # knows all playbooks, which others need not

    for site in settings.sites:
        for words in strange_verbs(site.notify):
            flags.screen().warn(f"sites.{site.name}.notify: {words}")
    if settings.mistakes:
        raise together(settings.mistakes)
    settings.refuse_unknown(settings.chosen)
    flags.screen().emit({"path": str(settings.path), "sites": list(settings.names)}, f"{settings.path}: no mistakes")


@command()
def path(flags: Flags) -> None:
    """Print the path of the configuration file in force."""
    settings = settings_of(flags)
    looked = [str(place) for place in settings.looked]
    settings.folder  # noqa: B018  # raises where there is no configuration
    flags.screen().emit({"path": str(settings.path), "looked": looked}, str(settings.path))
