"""The files that make a site's backups run by themselves, systemd's or cron's: their text, rhythm and place."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import msgspec

from maint.cli.options import seconds_of
from maint.config.paths import account, expanded
from maint.config.precedence import OVERRIDES, Settings
from maint.config.schema import SiteSettings
from maint.errors import Refused, UsageError, WorkFailed
from maint.files import explaining, make_folder, remove, replace, visible
from maint.model.formatting import show_duration
from maint.render import from_file
from maint.snapshots.retention_policy import required

MANAGED = Path("/run/systemd/system")  # exists where systemd runs the machine
LINGERING = Path("/var/lib/systemd/linger")  # holds a file named like each account whose units run without a login
SYSTEM_UNITS = Path("/etc/systemd/system")
CRON_FILES = Path("/etc/cron.d")
OWN_CRONTAB = Path("crontab -e")  # no folder of ours: what it is shown under
MARK = "# maint-schedule"
FORMS = ("systemd", "cron")
_ANOTHER = "run it as root, or with --user for units of your own, or --folder DIR for another place"


class ScheduleFile(msgspec.Struct, frozen=True):
    """A file of the schedule."""

    path: Path
    content: str


def lingers() -> bool:
    """Whether units of this account's own run while nobody is logged in."""
    return visible(LINGERING / account())


def folder_of(form: str, user: bool, environ: Mapping[str, str]) -> Path:
    """Return where files of a form belong."""
    if form == "cron":
        return OWN_CRONTAB if user else CRON_FILES
    if not user:
        return SYSTEM_UNITS
    home = Path(environ.get("HOME", "/"))
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "systemd/user"


def is_ours(path: Path) -> bool:
    """Whether a file is there that an installation wrote."""
    with _seeing(path):
        try:
            return path.read_text("utf-8", "replace").startswith(MARK)
        except FileNotFoundError:
            return False


def text_of(path: Path) -> str:
    """Return what a file holds, "" where there is none."""
    with _seeing(path):
        return path.read_text("utf-8", "replace") if path.exists() else ""


def site_of(path: Path) -> str:
    """Return the site that a file of ours is for, "" for one that serves all."""
    return path.read_text("utf-8", "replace").split("\n")[0].removeprefix(MARK).strip()


def has_other_state(path: Path, site: SiteSettings) -> bool:
    """Whether a file of ours names another state folder than the config by now: its runs lock another lock."""
    named = [one for one in text_of(path).splitlines() if "MAINT_STATE=" in one]
    set_ = f"MAINT_STATE={site.state.parent}"
    return not {set_, f"Environment={_word(set_)}"}.issuperset(named)


def playbooks(site: SiteSettings, *, user: bool, folder: Path | None) -> Mapping[str, Sequence[Path]]:
    """Return the playbooks that run by themselves on a site by name, each with the files that say so."""
    found: dict[str, list[Path]] = {}
    for form in FORMS:
        for path in sorted((folder or folder_of(form, user, os.environ)).glob("maint-playbook-*")):
            if is_ours(path) and site_of(path) == site.name:
                stem = path.name.removesuffix(".service").removesuffix(".timer")
                listed = found.setdefault(stem[len("maint-playbook-") : -len(site.name) - 1], [])
                listed += [] if path in listed else [path]
    return found


def state_of(file: ScheduleFile) -> str:
    """Return `missing`, `installed`, `differs` (ours, but other than it would be written now) or `foreign`."""
    with _seeing(file.path):
        if not file.path.exists():
            return "missing"
    if not is_ours(file.path):
        return "foreign"
    return "installed" if file.path.read_text("utf-8", "replace") == file.content else "differs"


def refuse_foreign(files: Sequence[ScheduleFile], site: str) -> None:
    """Refuse where a place is taken by a file that we did not write, or wrote for another site; Refused: so it is."""
    foreign = [str(file.path) for file in files if state_of(file) == "foreign"]
    if foreign:
        raise Refused("a file of that name is there that maint did not write", detail=foreign, hint="move it away")
    for path in (file.path for file in files):
        if is_ours(path) and (other := site_of(path)) not in ("", site):
            raise Refused(
                f"{path} is the schedule of site {other}, which would run no more",
                hint="its file has the same name (to cron a dot and an underscore are one; `--form systemd` tells them"
                f" apart): rename one of the two; only where there is no site {other} any more, delete the file",
            )


def write(file: ScheduleFile) -> None:
    """Write a file whole, so that it outlives a power cut; WorkFailed: it cannot be written."""
    with _changing(file.path):
        make_folder(file.path.parent, 0o755)
        replace(file.path, file.content.encode(), mode=0o644)


def delete(path: Path) -> None:
    """Delete a file of ours; WorkFailed: it cannot be deleted."""
    with _changing(path):
        remove(path)


def systemctl(*words: str, user: bool, hint: str = "mend that, then again") -> str:
    """Call the service manager, and return what it answers; WorkFailed: it failed."""
    argv = ["systemctl", *(["--user"] if user else []), *words]
    try:
        ran = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, errors="replace", timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        uncalled = "with --folder DIR it is not called"
        raise WorkFailed("systemctl cannot be run", detail=[str(error)], hint=uncalled) from error
    if ran.returncode:
        detail = ran.stderr.strip().splitlines()[-3:]
        raise WorkFailed(f"`{' '.join(argv)}` failed", detail=detail, hint=hint)
    return ran.stdout


def _changing(path: Path) -> AbstractContextManager[None]:
    return explaining(f"{path} cannot be changed", _ANOTHER, WorkFailed)


def _seeing(path: Path) -> AbstractContextManager[None]:
    return explaining(f"{path} cannot be read", _ANOTHER, WorkFailed)


STATE_DIRECTORY = Path("/var/lib/maint")  # what `StateDirectory=maint` makes
USUAL = "02:15"
_AT = re.compile(r"(?a)(?:(Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?([01]\d|2[0-3]):([0-5]\d)")
_MOST_JITTER = 900.0
_HANDS_OVER = 247  # the first version of systemd with credentials; Red Hat Enterprise Linux 8 has 239
_CRON_LONGEST = 998  # bytes of a command; cron passes over the whole file where one is longer (crontab(5))


class Calendar(msgspec.Struct, frozen=True):
    """A rhythm: systemd's `OnCalendar`, the five fields of cron, and how far runs may be spread (seconds)."""

    systemd: str
    cron: str
    jitter: float


def calendar(at: str, every: str, jitter: str = "", flag: str = "--at") -> Calendar:
    """Return the rhythm that the operator asks for; both left out is every day at 02:15.

    Args:
        at: a time of day such as `02:15` or `Sun 02:15`.
        every: a duration that divides an hour or a day evenly, such as `30m`, `6h` or `24h`.
        jitter: how far runs may be spread; a tenth of the time between two, at most 15m, when left out.
        flag: the option that gives the time of day.

    Raises:
        UsageError: one of them makes no sense, or both are given.
    """
    if at and every:
        raise UsageError("--at and --every exclude each other", hint="--at 02:15, or --every 6h")
    on, cron, period = _every(every) if every else _at(at or USUAL, flag)
    spread = seconds_of("--jitter", jitter) if jitter else min(_MOST_JITTER, period / 10)
    if spread >= period:
        hint = f"less than the {show_duration(period)} between two runs, such as 10m"
        raise UsageError(f"--jitter {jitter} would let runs of the schedule fall out", hint=hint)
    return Calendar(on, cron, spread)


def _at(text: str, flag: str) -> tuple[str, str, float]:
    found = _AT.fullmatch(text)
    if not found:
        raise UsageError(f"{flag} {text!r} is not a time of day", hint=f"such as {flag} 02:15 or {flag} 'Sun 02:15'")
    day, hour, minute = found.groups()
    on = f"{day} *-*-* {hour}:{minute}:00" if day else f"*-*-* {hour}:{minute}:00"
    return on, f"{int(minute)} {int(hour)} * * {day or '*'}", 604800.0 if day else 86400.0


def _every(text: str) -> tuple[str, str, float]:
    seconds = seconds_of("--every", text)
    minutes, rest = divmod(seconds, 60)
    hours = minutes / 60
    if not rest and minutes and minutes < 60 and 60 % minutes == 0:
        return f"*-*-* *:00/{minutes:.0f}:00", f"*/{minutes:.0f} * * * *", seconds
    if hours in (1, 2, 3, 4, 6, 8, 12):
        return f"*-*-* 00/{hours:.0f}:00:00", f"0 */{hours:.0f} * * *", seconds
    if hours == 24:
        return _at(USUAL, "--at")
    raise UsageError(
        f"--every {text} does not divide an hour or a day evenly",
        hint="such as 15m, 30m, 1h, 6h, 12h or 24h; for once a week: --at 'Sun 02:15'",
    )


class ScheduledJob(msgspec.Struct, frozen=True):
    """Something that runs by itself: commands after `--site NAME`, and those that write its files and delete them.

    Attributes:
        reads: local files that it needs.
        writes: folders in which it makes files, beside those of the site.
    """

    name: str
    calendar: Calendar
    description: str
    commands: Sequence[Sequence[str]]
    written: str = "maint schedule install"
    removed: str = "maint schedule remove"
    reads: Sequence[Path] = ()
    writes: Sequence[Path] = ()


class ScheduleRequest(msgspec.Struct, frozen=True):
    """How the schedule is to be; `drill`, `verify` and `folder` None: never, and where the form wants the files."""

    calendar: Calendar
    form: str = "systemd"
    user: bool = False
    prune: bool = False
    drill: Calendar | None = None
    folder: Path | None = None
    verify: Calendar | None = None
    own: ScheduledJob | None = None


def timers_of(site: str) -> Sequence[str]:
    """Return the names of a site's timer units, that of backups first."""
    return tuple(f"maint-{job}-{site}.timer" for job in JOBS)


JOBS = ("backup", "drill", "verify")
STALE = "30d"  # how old the last verification of a snapshot may get where older ones are verified by themselves


def names_of(site: str, form: str, jobs: Sequence[str] = JOBS) -> Sequence[str]:
    """Return all names that a site's own files of some jobs may have, but for its unit for failures."""
    if form == "cron":  # which passes over names with a dot, and has all of a site's own jobs in one file
        return (f"maint-{jobs[0]}-{site.replace('.', '_')}",)
    return tuple(f"maint-{job}-{site}.{kind}" for job in jobs for kind in ("service", "timer"))


SHARED_FAILURE = "maint-failure@.service"  # up to 0.3.14, of the config that was installed last, for all sites


def failure_unit(site: str) -> str:
    """Return the name of a site's unit for failures: drop-ins for all sites, of `maint-failure@`, hold for it, too."""
    return f"maint-failure@{site}.service"


def files_of(
    settings: Settings, site: SiteSettings, request: ScheduleRequest, environ: Mapping[str, str]
) -> Sequence[ScheduleFile]:
    """Return the files of a site's schedule; Refused: it could never work."""
    _refuse_impossible(settings, site, request)
    folder = request.folder or folder_of(request.form, request.user, environ)
    jobs = tuple(_jobs(site, request))
    values = _values(settings, site, request)
    if request.form == "cron":
        lines = [(job.calendar.cron, _cron_command(values, job)) for job in jobs]
        return (
            ScheduleFile(
                folder / names_of(site.name, "cron", (jobs[0].name,))[0],
                from_file("cron.j2", {**values, **_origin(jobs[0]), "lines": lines}),
            ),
        )
    files = []
    for job in jobs:
        name = f"maint-{job.name}-{site.name}"
        told = {**values, **_job_values(values, job)}
        files.append(ScheduleFile(folder / f"{name}.service", from_file("maint-backup.service.j2", told)))
        files.append(ScheduleFile(folder / f"{name}.timer", from_file("maint-backup.timer.j2", told)))
    looks = {**values, **_looking(settings, site)}
    return (*files, ScheduleFile(folder / failure_unit(site.name), from_file("maint-failure@.service.j2", looks)))


def _jobs(site: SiteSettings, request: ScheduleRequest) -> Iterator[ScheduledJob]:
    if request.own is not None:
        yield request.own
        return
    commands = [["backup", "create", "--yes"], *([["backup", "prune", "--yes"]] if request.prune else [])]
    yield ScheduledJob("backup", request.calendar, "Backup of the configuration", commands)
    if request.drill is not None:
        yield ScheduledJob("drill", request.drill, "Rehearsal of a restore of the configuration", [["backup", "drill"]])
    if request.verify is not None:
        readable = site.backup is not None and site.backup.identity is not None
        words = ["backup", "verify", "--stale", STALE, *([] if readable else ["--level", "1"])]
        yield ScheduledJob("verify", request.verify, "Verification of older snapshots of the configuration", [words])


def _job_values(values: Mapping[str, object], job: ScheduledJob) -> dict[str, object]:
    return {
        **_origin(job),
        "description": job.description,
        "calendar": job.calendar.systemd,
        "jitter": f"{job.calendar.jitter:.0f}s",
        "commands": [_words([*_call(values), *words]) for words in job.commands],
    }


def _origin(job: ScheduledJob) -> dict[str, object]:
    return {"written": job.written, "removed": job.removed}


def _cron_command(values: Mapping[str, object], job: ScheduledJob) -> str:
    """Return a job's commands as a line for cron, to which a percent sign means a new line; Refused: too long a one."""
    joined = " && ".join(shlex.join([*_call(values), *words, "--quiet"]) for words in job.commands)
    command = f"{joined} || test $? -eq 6".replace("%", "\\%")
    if (length := len(command.encode(errors="surrogateescape"))) > _CRON_LONGEST:
        raise Refused(
            f"cron takes no command of more than {_CRON_LONGEST} bytes, and this one has {length}",
            hint="`--form systemd` has no such limit; or write what is given into a playbook of your own, as defaults",
        )
    return command


def _call(values: Mapping[str, object]) -> Sequence[str]:
    return [program(), "--config", str(values["config"]), "--site", str(values["site"])]


def _values(settings: Settings, site: SiteSettings, request: ScheduleRequest) -> dict[str, object]:
    state = site.state.parent
    credentials = dict(_credentials(settings, site)) if request.form == "systemd" and hands_over() else {}
    read, made = (request.own.reads, request.own.writes) if request.own else ((), ())
    handed = [path for _, path in credentials.values()]
    secrets = [path for _, path in _secret_files(settings, site) if path not in handed]
    needed = [*_read(settings, site), *secrets, *read, *made]
    environment = {"MAINT_STATE": str(state), **{one: f"credential:{name}" for one, (name, _) in credentials.items()}}
    return {
        "mark": f"{MARK} {site.name}",
        "site": site.name,
        "config": str(settings.path),
        "user": request.user,
        "doctor": _words([program(), "--config", str(settings.path), "--site", site.name, "doctor"]),
        "environment": [_word(f"{name}={value}") for name, value in environment.items()],
        "credentials": [f"{name}:{_escaped(str(path))}" for name, path in credentials.values()],
        "in_tmp": _in_tmp(needed),
        "writable": [_word(f"-{path}") for path in dict.fromkeys([*writable(site), *made])],
        "cron_environment": {"MAINT_STATE": str(state)},
    }


def _looking(settings: Settings, site: SiteSettings) -> dict[str, object]:
    """Return what differs in the unit for failures: it needs no secret to begin, and is the same for all schedules."""
    return {
        "credentials": [],
        "environment": [_word(f"MAINT_STATE={site.state.parent}")],
        "in_tmp": _in_tmp([*_read(settings, site), *(path for _, path in _secret_files(settings, site))]),
        "writable": [_word(f"-{path}") for path in writable(site)],
    }


def program() -> str:
    """Return the absolute path of the `maint` that runs now; WorkFailed: there is none that a service could start."""
    beside = Path(sys.executable).parent / "maint"
    for found in (Path(sys.argv[0]), beside, Path(shutil.which("maint") or "/")):
        if found.name == "maint" and found.is_file() and os.access(found, os.X_OK):
            return str(found.absolute())
    raise WorkFailed("the program `maint` is not found", hint="install it, and call it by that name")


def writable(site: SiteSettings) -> Mapping[Path, int]:
    """Return the folders that a scheduled run writes to, but for those that systemd makes, each with its mode."""
    backup = site.backup
    stores = [Path(one) for one in (backup.store, *backup.copies) if one.startswith("/")] if backup else []
    shared = [Path(one) for one in (site.shared_state,) if one and one.startswith("/")]
    found = dict.fromkeys([site.state.parent, *stores, *shared], 0o700)
    for path, mode in ((site.metrics and site.metrics.parent, 0o755), (site.report_folder, 0o750)):
        if path:  # others read what lies there
            found.setdefault(path, mode)
    return {path: mode for path, mode in found.items() if not path.is_relative_to(STATE_DIRECTORY)}


def _read(settings: Settings, site: SiteSettings) -> Sequence[Path]:
    """Return what runs for a site read beside its secrets, to know whether a /tmp of their own would hide it."""
    return [Path(program()), settings.folder, *writable(site)]


def _in_tmp(needed: Sequence[Path | str]) -> bool:
    return any(Path(one).is_relative_to(tmp) for one in needed for tmp in ("/tmp", "/var/tmp"))


def references(site: SiteSettings) -> Mapping[str, str]:
    """Return each secret reference that a scheduled run may need: the key in the config → the reference."""
    found = site.references(*(site.backup.store, *site.backup.copies) if site.backup else ())
    for notice in site.notify:
        found |= notice.references()
    return found


def references_by_hand(site: SiteSettings) -> Mapping[str, str]:
    """Return the secret references that only commands need which nobody schedules: the key in the config → it."""
    found = {"manager.kdc.password": site.manager.kdc.password} if site.manager.kdc else {}
    for cluster in site.virtual_clusters:
        found |= {f"virtual_clusters.{cluster.name}.tls.key": cluster.tls.key} if cluster.tls else {}
        users = f"virtual_clusters.{cluster.name}.users"
        found |= {f"{users}.{user.name}.keytab": user.keytab for user in cluster.users}
    return found


def _refuse_impossible(settings: Settings, site: SiteSettings, request: ScheduleRequest) -> None:
    if request.prune:
        required(site.backup.keep if site.backup else None)
    if request.drill is not None and (site.backup is None or site.backup.identity is None):
        raise Refused(
            "this machine cannot drill: `backup.identity` names no private key",
            hint="schedule drills where the private key is",
        )
    broken = {"\n", "\r"}  # the next line would be one of the file's own
    secrets = [path for _, (_, path) in _credentials(settings, site)]
    for path in map(str, (settings.path, site.state, *writable(site), *secrets)):
        if {*path} & broken:
            raise Refused(
                f"no timer and no line for cron can name {path!r}: it holds a line break", hint="give it another name"
            )
    for word in (word for words in (request.own.commands if request.own else ()) for word in words):
        if {*word} & broken:
            raise UsageError(
                f"a scheduled run cannot be given several lines: {word!r}",
                hint="write them into the playbook, as the default of its parameter",
            )
    typed = [key for key, reference in references(site).items() if reference.partition(":")[0] == "prompt"]
    if typed:
        raise Refused(
            f"a scheduled run has nobody to ask for {', '.join(typed)}", hint="name another source, such as file:PATH"
        )


def _credentials(settings: Settings, site: SiteSettings) -> Iterator[tuple[str, tuple[str, Path]]]:
    """Yield, for each secret in a file, the variable that replaces its reference, its credential, and the file."""
    variables = {key: variable for variable, key in OVERRIDES.items()}
    for key, path in _secret_files(settings, site):
        if key in variables:
            yield variables[key], (key.replace(".", "-").replace("_", "-"), path)


def _secret_files(settings: Settings, site: SiteSettings) -> Iterator[tuple[str, Path]]:
    """Yield each secret in a file that a scheduled run may need: its key in the config, and the file."""
    for key, reference in references(site).items():
        kind, _, rest = reference.partition(":")
        if kind == "file":
            yield key, settings.folder / expanded(rest, os.environ)


def hands_over() -> bool:
    """Whether systemd here is new enough to hand over credentials; where there is none, that elsewhere is."""
    with suppress(WorkFailed):
        found = re.match(r"systemd (\d+)", systemctl("--version", user=False))
        return found is None or int(found[1]) >= _HANDS_OVER
    return True


def _words(words: Sequence[str]) -> str:
    """Return a command as `ExecStart=` takes it."""
    return " ".join(_word(word.replace("$", "$$")) for word in words)


def _word(text: str) -> str:
    text = _escaped(text)
    if text and not set(text) & set(" \t'\"\\;"):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escaped(text: str) -> str:
    return text.replace("%", "%%")
