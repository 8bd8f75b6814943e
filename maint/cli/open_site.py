"""Open the site that a command works on, and close it afterwards."""

import getpass
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maint.cli.composition import ConfiguredSite
from maint.cli.configless import bare_settings, way_on, with_store
from maint.cli.flags import Flags
from maint.cli.screen import Screen
from maint.config.precedence import Flags as ConfigFlags
from maint.config.precedence import Settings, load_settings
from maint.config.schema import SiteSettings
from maint.config.secrets import ReferencedSecrets
from maint.errors import MaintError, UsageError
from maint.model.formatting import parse_duration


def settings_of(flags: Flags) -> Settings:
    """Return the configuration that the flags and the environment name."""
    named = ConfigFlags(config=flags.config, site=flags.site, state=flags.state, output=flags.output, color=flags.color)
    if flags.way.is_bare:
        return bare_settings(flags, flags.way)
    settings = load_settings(with_store(named, flags.way), os.environ)
    if flags.way.store and settings.path is None:
        return bare_settings(flags, flags.way)  # which tells what else it needs to know
    return settings


@contextmanager
def opened(flags: Flags, *, warn_of_window: bool = True) -> Iterator[tuple[ConfiguredSite, Screen]]:
    """Yield the site that the flags name, and the screen."""
    screen, settings = flags.screen(), settings_of(flags)
    found = _vendors(flags, settings) or settings.site()
    if flags.insecure or flags.allow_plain:
        manager = found.manager.unverified() if flags.insecure else found.manager
        manager = manager.in_clear() if flags.allow_plain else manager
        found = found.model_copy(update={"manager": manager})
    secrets = ReferencedSecrets(
        settings.folder if settings.path else Path("/"),
        os.environ,
        ask=getpass.getpass if sys.stdin.isatty() else None,
        hidden=settings.secret_variables(),
    )
    site = ConfiguredSite(found, secrets, screen.warn)
    try:
        if warn_of_window:
            _warn_of_window(site, screen)
        yield site, screen
    except MaintError as error:
        if flags.way.store and error.hint:
            error.hint = way_on(error.hint, flags.way, settings)
        raise
    finally:
        site.close()


def _vendors(flags: Flags, settings: Settings) -> SiteSettings | None:
    """Return the site of the documented client's own configuration, where it may be used and there is none of ours."""
    if not flags.vendor or settings.path:
        return None
    from maint.cli.vc.cde_config import vendor_site

    return vendor_site(os.environ)


def limit_of(flags: Flags) -> float | None:
    """Return `--timeout` in seconds, None where it was not given.

    Raises:
        UsageError: it is no duration.
    """
    if flags.timeout is None:
        return None
    try:
        return parse_duration(flags.timeout)
    except ValueError as error:
        raise UsageError(f"--timeout: {error}") from None


def _warn_of_window(site: ConfiguredSite, screen: Screen) -> None:
    if not (site.state / "window.json").exists():  # what follows imports all step kinds, for nothing almost always
        return
    from maint.engine.session import abandoned_window
    from maint.steps.manager.window import CLOSE_COMMAND

    window = abandoned_window(site)
    if window is not None:
        screen.warn(
            f"run {window.run} left the redaction window open at {window.opened_at}: "
            f"everyone who may read the API sees passwords; `{CLOSE_COMMAND}` closes it"
        )
