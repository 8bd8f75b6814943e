"""Open the site that a command works on, ask for a secret unseen, say what a proxy is for; close it afterwards."""

import getpass
import os
import re
import select
import shlex
import signal
import sys
import termios
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

import msgspec

from maint.cli.composition import ConfiguredSite
from maint.cli.configless import client_site, connected, kept_config, settings_of, with_kept_config
from maint.cli.options import Connection, Flags, seconds_of
from maint.cli.screen import Screen
from maint.config.fields import is_address
from maint.config.paths import actor, config_file
from maint.config.precedence import Settings
from maint.config.schema import SiteSettings
from maint.config.secrets import ReferencedSecrets
from maint.errors import CannotReach, DeadlinePassed, Invalid, MaintError, Refused, StoreFailed
from maint.files import visible
from maint.model.formatting import tell_times
from maint.model.manager import CLOSE_COMMAND


class TerminalPerson:
    """`ports.Person`: asks on the screen, and reads what is typed without holding up the run."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    @property
    def name(self) -> str:
        """Who runs this, as `user@host`."""
        return actor()

    def ask(self, question: str) -> None:
        """Show a question; what was typed before it is no answer to it."""
        with suppress(termios.error):  # the terminal has gone
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
        self._screen.ask(question)

    def reply(self, wait: float) -> str | None:
        """Return the next line that is typed within so many seconds, None where none is; "" at the end of input."""
        ready, _, _ = select.select([sys.stdin], [], [], wait)
        return os.read(sys.stdin.fileno(), 4096).decode("utf-8", "replace") if ready else None


@contextmanager
def opened(
    flags: Flags, *, warn_of_window: bool = True, limited_here: bool = True
) -> Iterator[tuple[ConfiguredSite, Screen]]:
    """Yield the site that the flags name, and the screen.

    Args:
        limited_here: whether `--timeout` holds over all that is done with it; a run has its own way to end in time.
    """
    screen, settings = flags.screen(), settings_of(flags)
    client = client_site(os.environ) if flags.vendor and not settings.path else None
    found = client or settings.site()
    warn_of_settings(screen, settings)
    if flags.insecure or flags.allow_plain:
        manager = found.manager.unverified() if flags.insecure else found.manager
        manager = manager.in_clear() if flags.allow_plain else manager
        found = found.model_copy(update={"manager": manager})
    secrets = ReferencedSecrets(
        settings.folder if settings.path else Path("/"),
        os.environ,
        ask=ask_secret if sys.stdin.isatty() else None,
        hidden=settings.secret_variables(),
    )
    named = naming(settings, found.name, flags)

    def warn(words: str) -> None:
        screen.warn(site.named(words))

    site = ConfiguredSite(found, secrets, warn)
    site.named = screen.named = named
    name_cluster(site, screen, [flags.vc])
    site.person = TerminalPerson(screen) if sys.stdin.isatty() else None
    site.watched = screen.moved
    if flags.connection.store and not flags.connection.replaces_config:
        whole = settings_of(msgspec.structs.replace(flags, connection=Connection())).site()
        site.configured = ConfiguredSite(whole, secrets, warn)
        site.configured.clock = site.clock
    try:
        if warn_of_window:
            warn_of_windows(site, warn)
        with limited(flags, site, f"`maint {flags.command}`") if limited_here else nullcontext():
            yield site, screen
    except MaintError as error:
        if isinstance(error, CannotReach) and (way := way_to_lab(settings)):
            rest = (error.hint or "").split("; ")[1:]  # without where to look at its manager
            error.hint = "; ".join([way, *rest])
        if isinstance(error, StoreFailed) and (way := way_without(site, error.in_a_line)):
            error.hint = joined(error.hint or "", way)
        if flags.connection.store:
            error.hint = connected(error.hint or "", flags.connection, found.name) or None
            error.detail = tuple(connected(one, flags.connection, found.name) for one in error.detail)
        if site.named is not str and error.way_on:
            error.hint = site.named(error.way_on)
        error.detail = tuple(map(site.named, error.detail))
        raise
    finally:
        for one in {site, site.configured}:
            one.close()


_GLANCE = 5.0  # seconds for stores to tell what a warning depends on
_OF_A_SITE = "maint (?!config |help |lab |generate )"
_COMMAND = re.compile(rf"`({_OF_A_SITE}[^`]+)`")
_OF_A_CLUSTER = re.compile(r"`(maint vc [^`]+)`")
_BARE = re.compile(rf"{_OF_A_SITE}[a-z]+( [a-z]+){{0,2}}( (?=\S*[A-Z\d-])[\w.-]+)?( --[a-z-]+( [\w.:/-]+)?)*")


def joined(hint: str, way: str) -> str:
    """Return a hint with a further way on that it does not name yet."""
    return hint if way in hint else f"{hint}; {way}" if hint else way


def way_without(site: ConfiguredSite, words: str) -> str:
    """Return how one goes on where words tell that the first store or the shared state is away; "" where of neither."""
    opened = [site.__dict__.get("store"), site.__dict__.get("shared"), *site.__dict__.get("copies", ())]  # if ever
    places = [one.location for one in opened if one is not None]
    named = [one for one in places if re.search(rf"(?<!\S){re.escape(one)}(?![^\s/;:,])", words)]
    if not (lost := max(named, key=len, default="")):
        return ""
    if site.shared is not None and lost == site.shared.location:
        keys = "`shared_state` and `shared_state_key`" if site.settings.shared_state_key else "`shared_state`"
        return f"where it is lost for good, and no other machine is at work: take {keys} out of the config"
    from maint.snapshots.records import a_copy  # only where something was not reached

    return a_copy(site).removeprefix("; ") if lost == site.store.location else ""


def naming(settings: Settings, site: str, flags: Flags) -> Callable[[str], str]:
    """Return what lets the commands of a hint say of which site they are, and where its config is or is kept."""
    if flags.connection.replaces_config and kept_config(site).is_file():
        return partial(completed, option=with_kept_config(site))
    of_site = partial(named_in, site=site) if len(settings.names) > 1 else str
    if not flags.config or settings.path is None or settings.path == _config_without_flag():
        return of_site
    option = f"--config {shlex.quote(str(settings.path))}"
    return lambda words: of_site(completed(words, option))


def _config_without_flag() -> Path | None:
    with suppress(Invalid):  # MAINT_CONFIG names none that is there
        return config_file(os.environ.get("MAINT_CONFIG"), os.environ)[0]
    return None


def named_in(hint: str, site: str) -> str:
    """Return a hint whose commands say of which of several sites they are."""
    return completed(hint, f"--site {site}")


def completed(hint: str, option: str) -> str:
    """Return a hint whose commands have an option, those apart that have it already."""

    def whole(command: str) -> str:
        return command if option.split()[0] in command else f"{command} {option}"

    if _BARE.fullmatch(hint):
        return whole(hint)
    return _COMMAND.sub(lambda found: f"`{whole(found[1])}`", hint)


def name_cluster(site: ConfiguredSite, screen: Screen, at_work: Collection[str]) -> None:
    """Let the commands of hints say which of several virtual clusters they are about, where it is one alone."""
    names, before = {one.name for one in site.settings.virtual_clusters}, site.named
    if len(names) < 2 or len(at_work) != 1 or not names.issuperset(at_work):
        return

    def whole(found: re.Match[str]) -> str:
        words = found[1].split()  # `vc init` and `vc init-user` take the name as their first argument, too
        told = "--vc" in words or (words[2] in ("init", "init-user") and names.intersection(words[3:4]))
        return found[0] if told else f"`{found[1]} --vc {next(iter(at_work))}`"

    site.named = screen.named = lambda words: before(_OF_A_CLUSTER.sub(whole, words))


def warn_of_settings(screen: Screen, settings: Settings, told: Collection[str] = ()) -> None:
    """Say which variables seem misspelt, and which sites cannot be used but for those that are told anyway.

    One of many says nothing.
    """
    misspelt, left = settings.misspelt(), [name for name in settings.broken if name not in told]
    if not (misspelt or left):
        return
    from maint.cli.estate.processes import ONE_OF_MANY  # few configs are broken

    if ONE_OF_MANY in os.environ:
        return
    for given, known in misspelt.items():
        screen.warn(f"the variable {given} says nothing to maint; did you mean {known}?")
    if left:
        words = (
            f"cannot be used, since the config is wrong there: {', '.join(left)} ({settings.broken[left[0]].message})"
        )
        screen.warn(f"{words}; `maint config validate` tells all")


def way_to_lab(settings: Settings) -> str:
    """Return how the lab that a config belongs to is brought up; "" where it is not a lab's, or it is up."""
    from maint.cli.lab.options import up_again
    from maint.lab import control  # only where something was not reached

    folder = settings.path.parent if settings.path else None
    if folder is None or not control.is_down(folder):
        return ""
    return f"the lab is down: `{up_again(folder)}` brings it up"


@contextmanager
def limited(flags: Flags, site: ConfiguredSite, doing: str) -> Iterator[None]:
    """Hold what is left of `--timeout` over what is done here; where it passes, `doing` says during what."""
    try:
        with site.clock.limit(*limits_of(flags, site)):
            yield
    except DeadlinePassed as error:
        error.detail = error.detail or (error.during(doing),)
        raise


def limit_of(flags: Flags) -> float | None:
    """Return `--timeout` in seconds, None where it was not given."""
    return None if flags.timeout is None else seconds_of("--timeout", flags.timeout)


def limits_of(flags: Flags, site: ConfiguredSite) -> tuple[float | None, float | None]:
    """Return how many seconds of `--timeout` are left since the site was opened, and the whole of it."""
    whole = limit_of(flags)
    return None if whole is None else max(site.begun + whole - site.clock.monotonic(), 0.001), whole


def warn_of_windows(site: ConfiguredSite, warn: Callable[[str], None]) -> None:
    """Warn of redaction windows that this machine's sites of the same manager left open."""
    _warn_of_own_window(site, warn)
    for name in site.settings.same_manager:
        if not visible((state := site.state.parent / name) / "window.json"):
            continue
        from maint.engine.lock import run_at_work
        from maint.snapshots.open_windows import remembered

        with suppress(Refused):  # a damaged record, of which `doctor` tells
            window = remembered(state)
            if window is not None and window.run != run_at_work(state):
                warn(_left_open(window.run, window.opened_at, f"{CLOSE_COMMAND} --site {name}"))


def _left_open(run: str, opened_at: str, close: str) -> str:
    return (
        f"run {run} left the redaction window open at {tell_times(opened_at)}: "
        f"everyone who may read the API sees passwords; `{close}` closes it"
    )


def _warn_of_own_window(site: ConfiguredSite, warn: Callable[[str], None]) -> None:
    if not visible(site.state / "window.json"):  # what follows imports all step kinds
        return
    from maint.engine.session import abandoned_window
    from maint.snapshots.open_windows import remembered

    try:
        with site.clock.limit(_GLANCE):
            window = abandoned_window(site)
    except DeadlinePassed:  # no store told whether another machine has closed it
        window = remembered(site.state)
    except Refused as damaged:
        warn(f"{damaged.in_a_line}; {damaged.hint}")
        return
    if window is not None:
        warn(_left_open(window.run, window.opened_at, CLOSE_COMMAND))


def proxies(settings: SiteSettings) -> Iterator[str]:
    """Yield in words what goes through which proxy, never with its password; nothing where nothing does."""
    from urllib.request import getproxies, proxy_bypass  # slow to import, and most commands only read files

    if settings.proxy:
        yield from _addresses(settings, settings.proxy)
    backup = settings.backup
    for store in (backup.store, *backup.copies) if backup else ():
        bucket = urlsplit(store).netloc
        s3 = backup.s3.of(bucket) if backup and store.startswith("s3:") else None
        if s3 is None:
            continue
        address = s3.endpoint or f"https://{bucket}.s3.{s3.region}.amazonaws.com"
        proxy, where = s3.proxy, "backup.s3.proxy"
        if proxy is None and not proxy_bypass(urlsplit(address).hostname or ""):
            scheme = urlsplit(address).scheme
            proxy, where = getproxies().get(scheme), f"{scheme.upper()}_PROXY"
        if proxy:
            host = urlsplit(proxy if "://" in proxy else f"//{proxy}").hostname  # the environment may name no scheme
            others = "" if settings.proxy else "; manager, hosts and virtual clusters do not"
            yield f"{store} goes through {host} ({where}){others}"


def _addresses(settings: SiteSettings, proxy: str) -> Iterator[str]:
    from maint.adapters.http.tls import proxy_for  # slow to import, and few sites have a proxy

    manager = settings.manager
    host = f"[{manager.host}]" if ":" in manager.host else manager.host
    addresses = {f"manager {manager.host}": f"https://{host}:{manager.tls_port}"}
    for one in settings.virtual_clusters:
        addresses[f"virtual cluster {one.name}"] = one.base_url
        addresses[f"gateway of {one.name}"] = one.auth_url
    for notice in settings.notify:
        for what in (notice.webhook, notice.ping):
            if what is not None:  # an address that is a secret is not looked at
                addresses[f"notice {notice.name}"] = what.url if is_address(what.url) else ""
    for name, url in addresses.items():
        through = f"goes through {urlsplit(proxy).netloc} (proxy)"
        if not url:
            yield f"{name} {through}, unless NO_PROXY names its host"
        else:
            yield (
                f"{name} {through}" if proxy_for(proxy, url) else f"{name} is reached directly: NO_PROXY names its host"
            )


def ask_secret(words: str) -> str:
    """Return what is typed after these words, unseen; EOFError at the end of input."""
    with _guarding(words):
        return getpass.getpass(words)


@contextmanager
def _guarding(words: str) -> Iterator[None]:
    # Not every shell puts the terminal right: mute after SIGQUIT, it showed the secret after Ctrl-Z and `fg`.
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:  # getpass reads standard input then
        yield
        return
    try:
        if threading.current_thread() is not threading.main_thread():  # which alone may handle signals
            yield
            return
        before = termios.tcgetattr(terminal)

        def leave(number: int, _frame: FrameType | None) -> None:
            hidden = termios.tcgetattr(terminal)
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)  # ends here, or goes on here once it is continued
            signal.signal(number, leave)
            with suppress(termios.error):
                termios.tcsetattr(terminal, termios.TCSAFLUSH, hidden)
            os.write(terminal, words.encode())

        guarded = [one for one in (signal.SIGQUIT, signal.SIGTSTP) if signal.getsignal(one) == signal.SIG_DFL]
        for number in guarded:
            signal.signal(number, leave)
        try:
            yield
        finally:
            for number in guarded:
                signal.signal(number, signal.SIG_DFL)
    finally:
        os.close(terminal)
