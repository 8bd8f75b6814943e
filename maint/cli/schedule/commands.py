"""`maint schedule`: install, show and remove a site's schedule: look, show what would change, ask, change."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec

from maint.cli.backup.list import last_success
from maint.cli.command import command
from maint.cli.configless import settings_of
from maint.cli.open_site import opened
from maint.cli.options import Flags, option
from maint.cli.schedule import units as installed
from maint.cli.schedule.units import (
    FORMS,
    JOBS,
    SHARED_FAILURE,
    ScheduleFile,
    ScheduleRequest,
    calendar,
    failure_unit,
    files_of,
    folder_of,
    names_of,
    references,
    timers_of,
    writable,
)
from maint.cli.screen import Screen, confirm, plan_text, table
from maint.cli.site.sites import redacts
from maint.config.paths import absolute
from maint.config.precedence import OVERRIDES, Settings
from maint.config.schema import SiteSettings
from maint.errors import Failure, Invalid, UsageError, WorkFailed
from maint.files import explaining, make_folder, visible
from maint.model.json import Json
from maint.model.plan import Action, Effect, Plan
from maint.snapshots.catalogue import entries

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_CRON = re.compile(r"[\d*/]+ [\d*/]+ \* \* \S+ ")
_ELAPSES = "NextElapseUSecRealtime"
_VERB = re.compile(r"--site \S+ (\w+ \w+)")
User = Annotated[bool, option("--user", "Units of your own service manager.")]
Folder = Annotated[str, option("--folder", "Another folder for the files; starts nothing.")]


class ScheduleOptions(msgspec.Struct, frozen=True):
    """What the operator says of a schedule, whatever its form."""

    at: Annotated[str, option("--at", "When: 02:15 (every day), or 'Sun 02:15'.")] = ""
    every: Annotated[str, option("--every", "How often: 15m, 30m, 1h, 6h, 12h, 24h.")] = ""
    jitter: Annotated[str, option("--jitter", "How far to spread the start; else a tenth, at most 15m.")] = ""
    prune: Annotated[bool, option("--prune", "Prune after each backup.")] = False
    drill: Annotated[str, option("--drill", "When to rehearse a restore as well, such as 'Sun 04:00'.")] = ""
    verify: Annotated[str, option("--verify", "When to verify older snapshots again, such as 'Sat 05:00'.")] = ""
    user: User = False


def form_of(form: str) -> str:
    """Return the form of the schedule, systemd where it runs this machine, else cron; UsageError: no such form."""
    if form not in ("", *FORMS):
        raise UsageError(f"there is no form {form!r}", hint="--form systemd or --form cron")
    return form or ("systemd" if installed.MANAGED.is_dir() else "cron")


def request_of(wanted: ScheduleOptions, form: str, folder: str = "") -> ScheduleRequest:
    """Return the schedule that the flags ask for."""
    place = absolute(folder) if folder else None
    given = {"--drill": wanted.drill, "--verify": wanted.verify}
    drill, verify = (calendar(at, "", wanted.jitter, flag) if at else None for flag, at in given.items())
    rhythm = calendar(wanted.at, wanted.every, wanted.jitter)
    return ScheduleRequest(rhythm, form_of(form), wanted.user, wanted.prune, drill, place, verify)


@command()
def install(
    flags: Flags,
    wanted: ScheduleOptions,
    form: Annotated[str, option("--form", "systemd or cron; else what runs this machine.")] = "",
    folder: Folder = "",
) -> int:
    """Write service and timer (or the line for cron) and start them; --dry-run shows the files."""
    request = request_of(wanted, form, folder)
    return put(flags, settings_of(flags), request, wanted.jitter)


def put(flags: Flags, settings: Settings, request: ScheduleRequest, jitter: str) -> int:
    """Show the files of a schedule, ask, write them and start what they say; return the exit code.

    Args:
        jitter: as `--jitter` gives it; "" where it does not.
    """
    if not flags.dry_run:
        _refuse_own_crontab(request)
    site, screen = settings.site(), flags.screen()
    files = files_of(settings, site, request, os.environ)
    installed.refuse_foreign(files, site.name)
    changed = [file for file in files if installed.state_of(file) != "installed"]
    stale = _stale(site, files, request)
    if request.own is None:
        _ask_manager(flags)
    _warn(site, screen, request.form)
    if jitter and request.form == "cron":
        screen.warn("cron spreads nothing, whatever --jitter says; a timer would: --form systemd")
    if request.user and request.form == "systemd" and not installed.lingers():
        screen.warn("units of your own run only while you are logged in: `loginctl enable-linger` lets them run always")
    for words in _troubles(site, request):
        screen.warn(f"{words}: every scheduled run would fail")
    for other in _at_the_same_minute(site, files, request):
        screen.warn(
            f"{other} begins at the same minute, and cron spreads nothing: the one that comes second may find the site "
            "at work and is left out (6); give one of them another time"
        )
    for one in changed:
        if (before := _config_in(installed.text_of(one.path))) and before != _config_in(one.content):
            screen.warn(f"{one.path} is of the config {before}, for which it would run no more")
    changes = [(str(one.path), f"write {one.path}") for one in changed]
    changes += [(str(path), f"delete {path}, which is asked for no more") for path in stale]
    if flags.dry_run:
        screen.emit({"files": _contents(files), "changed": [path for path, _ in changes]}, files_as_text(files))
        return 0
    _ask(flags, screen, _plan("schedule-install", site.name, changes))
    _delete(stale, user=request.user, folder=request.folder)
    for file in changed:
        installed.write(file)
    if request.folder is None:
        _start(site, files, request)
    done = [f"written: {one.path}" for one in changed] + [f"removed: {path}" for path in stale]
    data: dict[str, Json] = {"written": [str(one.path) for one in changed], "removed": [str(path) for path in stale]}
    screen.emit(data, "\n".join(done) or "the schedule is installed already")
    return 0


@command()
def remove(flags: Flags, user: User = False, folder: Folder = "") -> int:
    """Stop the schedule and delete the files that install wrote, and no others."""
    site = settings_of(flags).site()
    place = absolute(folder) if folder else None
    found = own_files(site, user, place)
    return take_away(flags, site, found, user=user, folder=place)


def take_away(flags: Flags, site: SiteSettings, found: Sequence[Path], *, user: bool, folder: Path | None) -> int:
    """Show the files that would go, ask, stop what they started, and delete them; return the exit code."""
    screen, none = flags.screen(), "no schedule is installed"
    found = [*found, *_unneeded(site, found, user, folder)]
    plan = _plan("schedule-remove", site.name, [(str(path), f"delete {path}") for path in found])
    if flags.dry_run:
        screen.emit({"files": [str(path) for path in found]}, plan_text(plan) if found else none)
        return 0
    _ask(flags, screen, plan)
    _delete(found, user=user, folder=folder)
    gone = [str(path) for path in found]
    screen.emit({"removed": gone}, "\n".join(f"removed: {one}" for one in gone) or none)
    return 0


@command()
def show(flags: Flags, user: User = False, folder: Folder = "") -> None:
    """Show what is installed, when it runs next, and the age of the last verified success."""
    with opened(flags) as (site, screen):
        place = absolute(folder) if folder else None
        found = own_files(site.settings, user, place)
        found += _for_failures(site.settings, found, user, place)
        when = [line for path in found for line in _rhythms(installed.text_of(path))]
        following = _next(screen, site.settings.name, found, user=user) if place is None else None
        try:
            data, words = last_success(entries(site), site.clock.now())
        except (WorkFailed, Invalid) as failure:  # also of a site without backups
            data, words = None, f"last verified restorable backup: cannot tell ({failure.message})"
        rows = [["files", ", ".join(map(str, found)) or "none: no schedule of backups is installed"]]
        rows += [["when", ", ".join(when)]] * bool(when) + [["next", following or ""]] * bool(following)
        books = installed.playbooks(site.settings, user=user, folder=place)
        times = {
            name: [line for path in files for line in _rhythms(installed.text_of(path))]
            for name, files in books.items()
        }
        rows += [[f"playbook {name}", ", ".join([*times[name], *map(str, files)])] for name, files in books.items()]
        label, _, rest = words.partition(": ")
        body: dict[str, Json] = {"files": [str(path) for path in found], "when": list(when), "next": following}
        body["playbooks"] = [
            {"name": name, "files": [str(path) for path in files], "when": list(times[name])}
            for name, files in books.items()
        ]
        screen.emit({"schedule": body, "last_verified": data}, table(["WHAT", "IS"], [*rows, [label, rest]]))


def _config_in(text: str) -> str:
    """Return the config that a file of the schedule runs with, as it is spelt there; "" where it names none."""
    found = re.search("--config (.+?) --site ", text)
    return found[1] if found else ""


def files_as_text(files: Sequence[ScheduleFile]) -> str:
    """Return files for people: each under its path."""
    return "\n".join(f"### {file.path}\n{file.content}" for file in files).rstrip()


def _contents(files: Sequence[ScheduleFile]) -> list[Json]:
    return [{"path": str(one.path), "content": one.content} for one in files]


def _plan(source: str, site: str, changes: Sequence[tuple[str, str]]) -> Plan:
    """Return changes of this machine as a plan, so that they are shown and confirmed like any other."""
    actions = tuple(Action("File of the schedule", source, path, Effect.CHANGE, what) for path, what in changes)
    return Plan(source, site, {}, actions, locks=False)


def _ask(flags: Flags, screen: Screen, plan: Plan) -> None:
    if plan.actions:
        screen.say(plan_text(plan))
        confirm(plan, screen, yes=flags.yes, name=None)


def _start(site: SiteSettings, files: Sequence[ScheduleFile], request: ScheduleRequest) -> None:
    for path, mode in writable(site).items():
        with explaining(f"{path}, which it writes to, cannot be made", "make it, then again", WorkFailed):
            make_folder(path, mode)
    if request.form == "systemd":
        call = partial(installed.systemctl, user=request.user, hint="the files are written; mend that, then again")
        call("daemon-reload")
        for file in files:
            if file.path.suffix == ".timer":
                call("enable", file.path.name)
                call("restart", file.path.name)


def _delete(paths: Sequence[Path], *, user: bool, folder: Path | None) -> None:
    """Delete files of ours; timers that run are stopped first."""
    timers = [path.name for path in paths if path.suffix == ".timer"]
    running = timers if folder is None and installed.MANAGED.is_dir() else []
    for name in running:
        installed.systemctl("stop", name, user=user)
        installed.systemctl("disable", name, user=user)
    for path in paths:
        installed.delete(path)
    if running:
        installed.systemctl("daemon-reload", user=user)


def _stale(site: SiteSettings, files: Sequence[ScheduleFile], request: ScheduleRequest) -> list[Path]:
    """Return files of ours that an earlier installation of the same wrote for the site, and that are not asked for."""
    wanted, jobs = {file.path for file in files}, (request.own.name,) if request.own else JOBS
    stale = [path for path in own_files(site, request.user, request.folder, jobs) if path not in wanted]
    unneeded = _unneeded(site, stale, request.user, request.folder, wanted)
    return [*stale, *(path for path in unneeded if path not in wanted)]


def _warn(site: SiteSettings, screen: Screen, form: str) -> None:
    for key, reference in references(site).items():
        kind, _, name = reference.partition(":")
        if kind in ("env", "keyring"):
            screen.warn(f"{key} is {kind}:…, which a scheduled run may not have; file:PATH it has")
        elif kind == "credential" and (form == "cron" or not installed.hands_over()):
            screen.warn(f"{key} is {reference}, and nothing here hands over credentials; file:PATH is read")
        elif kind == "credential":
            screen.warn(
                f"{key} is {reference}: the unit needs a drop-in with LoadCredential={name}:PATH, if it has none"
            )
    for variable in sorted(OVERRIDES.keys() & os.environ.keys()):
        screen.warn(f"{variable} is set here, and a scheduled run goes by the config file alone")


def _troubles(site: SiteSettings, request: ScheduleRequest) -> Iterator[str]:
    """Yield what is wrong with the folders that a scheduled run needs; those of the site are made with the schedule."""
    given = request.own.writes if request.own else ()
    asked = request.user or os.geteuid() == 0  # else another account runs it, of which nothing is known here
    for path in dict.fromkeys([*given, *writable(site)]):
        there = next(one for one in (path, *path.parents) if visible(one))
        if path in given and there != path:
            yield f"{path}, which it writes to, is not there"
        elif not there.is_dir():
            yield f"{there}, which it writes to, is not a folder"
        elif asked and not os.access(there, os.W_OK | os.X_OK):
            yield f"{there}, which it writes to, cannot be written to"
    for path in request.own.reads if request.own else ():
        if not visible(path):
            yield f"{path}, which it reads, is not there"


def _at_the_same_minute(site: SiteSettings, files: Sequence[ScheduleFile], request: ScheduleRequest) -> Iterator[str]:
    """Yield what cron begins when another line of the site begins: commands of these files, then other files."""
    if request.form != "cron":
        return
    ours = [line for file in files for line in _rhythms(file.content)]
    for number, line in enumerate(ours):
        if any(_meet(line, before) for before in ours[:number]) and (verb := _VERB.search(line)):
            yield f"`maint {verb[1]}`"
    for path in sorted((request.folder or folder_of("cron", request.user, os.environ)).glob("maint-*")):
        other = path not in [file.path for file in files] and installed.is_ours(path)
        theirs = _rhythms(installed.text_of(path)) if other and installed.site_of(path) == site.name else ()
        if any(_meet(mine, one) for mine in ours for one in theirs):
            yield str(path)


def _meet(one: str, other: str) -> bool:
    return all(first & second for first, second in zip(_starts(one), _starts(other), strict=True))


def _starts(line: str) -> Sequence[set[str]]:
    """Return the minutes, hours and days of a line for cron."""
    minute, hour, _, _, day = (*line.split()[:5], *[""] * 5)[:5]
    return _among(minute, map(str, range(60))), _among(hour, map(str, range(24))), _among(day, _DAYS)


def _among(field: str, every: Iterable[str]) -> set[str]:
    star, _, step = field.partition("/")
    return {*[*every][:: int(step or 1)]} if star == "*" else {field}


def _refuse_own_crontab(request: ScheduleRequest) -> None:
    if request.form == "cron" and request.user and request.folder is None:
        hint = "`maint schedule install --form cron --user --dry-run` shows the lines; put them in with crontab -e"
        raise UsageError("a user's own crontab is not written by maint", hint=hint)


@contextmanager
def told_if_it_fails(flags: Flags, what: str) -> Iterator[None]:
    """Try what a scheduled run begins with, and say why it fails now; that may pass, so nothing is refused."""
    try:
        yield
    except Failure as error:
        flags.screen().warn(f"{what} would fail now: {error.in_a_line}")


def _ask_manager(flags: Flags) -> None:
    """Say that a manager which redacts makes every scheduled backup end with 7, or why it cannot be asked."""
    with told_if_it_fails(flags, "a backup"), opened(flags, warn_of_window=False) as (site, screen):
        found, backup = site.manager.settings(), site.settings.backup
        if backup is None or backup.on_redacted != "problem" or not redacts(found):
            return
        screen.warn(
            f"{site.settings.manager.host} redacts its API, and backup.on_redacted is `problem`: "
            "every scheduled backup would be for audit only, and end with 7"
        )
        screen.warn(
            "two ways out: `on_redacted: window` takes restorable ones, restarting the manager twice each time; "
            "`on_redacted: accept` is content with redacted ones"
        )


def _unneeded(
    site: SiteSettings, gone: Collection[Path], user: bool, folder: Path | None, written: Collection[Path] = ()
) -> list[Path]:
    """Return the units for failures, of the site and of all sites, that no service names once some files are gone."""
    units = folder or folder_of("systemd", user, os.environ)
    services = [one for one in units.glob("maint-*-*.service") if one not in gone and "@" not in one.name]
    sites = {installed.site_of(one) for one in services if installed.is_ours(one)}
    own = units / failure_unit(site.name)
    there = {*written, *units.glob("maint-failure@*.service")}
    unneeded = [own] if own not in written and site.name not in sites else []
    unneeded += [units / SHARED_FAILURE] if all(units / failure_unit(one) in there for one in sites) else []
    return [one for one in unneeded if installed.is_ours(one)]


def _for_failures(site: SiteSettings, found: Collection[Path], user: bool, folder: Path | None) -> list[Path]:
    """Return the unit for failures that a site's own files need, or that nothing needs any more."""
    units = folder or folder_of("systemd", user, os.environ)
    used = [units / name for name in (failure_unit(site.name), SHARED_FAILURE) if installed.is_ours(units / name)]
    return used[:1] if any(path.suffix == ".service" for path in found) else _unneeded(site, found, user, folder)


def own_files(site: SiteSettings, user: bool, folder: Path | None, jobs: Sequence[str] = JOBS) -> list[Path]:
    """Return the files of ours that are for this site alone, and for some jobs."""
    found = []
    for form in FORMS:
        place = folder or folder_of(form, user, os.environ)
        paths = [place / name for name in names_of(site.name, form, jobs)]
        found += [path for path in paths if installed.is_ours(path) and installed.site_of(path) == site.name]
    return found


def _rhythms(text: str) -> list[str]:
    """Return the lines of a file that tell when something runs."""
    return [line for line in text.splitlines() if line.startswith("OnCalendar=") or _CRON.match(line)]


def _next(screen: Screen, site: str, found: Sequence[Path], *, user: bool) -> str | None:
    timer = timers_of(site)[0]
    if not installed.MANAGED.is_dir() or not any(path.name == timer for path in found):
        return None
    try:
        return (
            installed.systemctl("show", "-p", _ELAPSES, timer, user=user).strip().removeprefix(f"{_ELAPSES}=") or None
        )
    except WorkFailed as error:
        screen.warn(f"when it runs next cannot be told: {error.in_a_line}")
        return None
