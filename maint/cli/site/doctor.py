"""`maint doctor`: what would stop the next backup or restore, a line for each thing looked at."""

import os
import re
import shlex
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Annotated

from msgspec.structs import replace

from maint.adapters.stores.stored_files import trial_name
from maint.cli.after_run import BRIEFLY, tell_age
from maint.cli.backup.drill import left_behind
from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.configless import settings_of
from maint.cli.estate.processes import ONE_OF_MANY
from maint.cli.monitoring.outcomes import NOTICE, last
from maint.cli.open_site import joined, opened, proxies, way_to_lab, way_without
from maint.cli.options import LOOKS, Flags, option, seconds_of
from maint.cli.schedule.units import references, references_by_hand
from maint.cli.screen import table
from maint.cli.site.doctor_backups import backup, copies, drill, ends, recipients, snapshots, store, timers
from maint.cli.site.doctor_lines import FAIL, OK, REACH, SKIP, SOON, WARN, Line, by_checks, guarded, unwritable, within
from maint.cli.site.doctor_manager import manager, window
from maint.cli.site.page_facts import DRILL_AGE
from maint.config.paths import SITES_FOLDER
from maint.engine import past_runs
from maint.engine.journal import refuse_unreadable
from maint.engine.lease import insist_fit, insist_mounted, newest
from maint.engine.lock import holder, is_held, run_at_work
from maint.engine.sealed import key_of
from maint.engine.shared_runs import fingerprint_key
from maint.errors import DeadlinePassed, Invalid, Refused, StoreFailed
from maint.files import existing
from maint.model.certificate import end_of, is_self_signed
from maint.model.fleet import LATE
from maint.model.formatting import show_count, tell_time, tell_times
from maint.model.secret import scrub
from maint.snapshots.capture import LEAST, short
from maint.snapshots.catalogue import committed_ids, entries
from maint.steps.virtual_clusters.init_host import GROUP

_COMMAND = re.compile(r"(maint|chmod) [^`;,]+")
_BUILT = datetime(2026, 1, 1, tzinfo=UTC)  # no clock that is right shows a time before this
_SKEW = timedelta(minutes=5)
_KUBERNETES = ("ecs.kubelet.nodes", "ecs.vault")  # checks that `maint host check` has
_NOBODYS = "maint-doctor"  # a job that nobody has


@command(several=LOOKS)
def doctor(
    flags: Flags,
    max_age: Annotated[str, option("--max-age", "How old the last verified backup may be; else as configured.")] = "",
    drill_age: Annotated[str, option("--drill-age", "How old the last good drill may be.")] = DRILL_AGE,
) -> int:
    """Look at config, secrets, state, clock, store, keys, tools, backups and runs; changes none of it.

    Tells those who are to be told when the newest backup is stale.

    Ends with 0 when all is well, 7 with warnings, 1 when something fails.
    """
    allowed = timedelta(seconds=seconds_of("--max-age", max_age)) if max_age else None
    ages = allowed, timedelta(seconds=seconds_of("--drill-age", drill_age))
    screen = flags.screen()
    lines = [*_once(_examined(flags, *ages))]
    found = [{"label": one.label, "state": one.state, "words": one.words, "hint": one.hint or None} for one in lines]
    rows = [[", ".join(one.label for one in alike), *seen] for (*seen, _), alike in groupby(lines, _seen)]
    screen.emit({"checks": found}, table(["WHAT", "STATE", "SEEN"], rows))
    states = {one.state for one in lines}
    return 1 if FAIL in states else 7 if WARN in states else 0


def _seen(line: Line) -> tuple[str, str, str]:
    """Return what people see beside the label, a command to copy in a piece, and what parts it from those around it."""
    hint = f"  → `{line.hint}`" if _COMMAND.fullmatch(line.hint) else line.hint and f"  → {line.hint}"
    return line.state, tell_times(line.words) + hint, "" if line.state == FAIL else line.label


def _once(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield lines without secrets; where one fails for the reason of another, it names that one and tells no more."""
    told: dict[tuple[str, str], str] = {}
    for line in dict.fromkeys(replace(line, words=scrub(line.words)) for line in lines):
        first = told.setdefault((line.words, line.hint), line.label)
        again = line.state == FAIL and first != line.label
        yield replace(line, words=f"cannot be told, for the reason of `{first}`", hint="") if again else line


def _examined(flags: Flags, max_age: timedelta | None, drill_age: timedelta) -> Iterator[Line]:
    """Yield all lines; one that cannot be told is a failure, and the others are told all the same."""
    try:
        settings = settings_of(flags)
        settings.site()
    except Invalid as error:
        yield Line("config", FAIL, error.in_a_line, error.way_on or "maint config validate")
        return
    yield from _config(settings.path) if settings.path else ()
    for name, wrong in settings.broken.items() if ONE_OF_MANY not in os.environ else ():
        yield Line(f"site {name}", SKIP, f"cannot be used: {wrong.in_a_line}", wrong.way_on or "")
    with opened(flags, warn_of_window=False) as (site, screen):
        said = site.settings.backup
        limit = timedelta(seconds=said.max_age if said else 0) if max_age is None else max_age
        lab = way_to_lab(settings)
        silent: set[str] = set()  # the hosts that have not answered, whom nobody asks again
        looks: dict[str, Callable[[], Iterator[Line]]] = {
            "secrets": lambda: _secrets(site),
            "state": lambda: _state(site),
            "lock": lambda: _lock(site),
            "lease": lambda: _lease(site, tried=not flags.dry_run),
            "keys": lambda: _keys(site),
            "known hosts": lambda: _known_hosts(site),
            "tools": _tools,
            "hosts": lambda: _hosts(site, silent),
            "manager": lambda: manager(site, silent),
            "virtual clusters": lambda: _virtual_clusters(site),
            "kubernetes": lambda: _kubernetes(site, silent),
            "proxy": lambda: _proxy(site),
            "store": lambda: store(site),
            "copies": lambda: copies(site),
            "clock": lambda: _clock(site),
            "snapshots": lambda: snapshots(site),
            "backup": lambda: backup(site, limit),
            "recipient": lambda: recipients(site),
            "drill": lambda: drill(site, drill_age),
            "leftovers": _leftovers,
            "redaction window": lambda: window(site, silent),
            "runs": lambda: _runs(site),
            "last ends": lambda: ends(site),
            "schedule": lambda: timers(site),
            "notices": lambda: _notices(site),
            "metrics": lambda: _metrics(site),
        }
        if said is None:  # the reason of most others
            looks = {"backup": looks["backup"], **looks}
        for label, look in looks.items():
            try:
                for line in guarded(label, look, lab):
                    way = way_without(site, line.words) if line.state == FAIL else ""
                    yield replace(line, hint=site.named(joined(line.hint, way)))
            except DeadlinePassed as error:
                yield Line(label, FAIL, error.message, "what comes after it was not looked at; give it more time")
                return
        if not flags.dry_run:
            tell_age(site, screen, BRIEFLY)  # however long it takes, what was seen is shown


def _config(config: Path) -> Iterator[Line]:
    """Yield the configuration, and what anybody may write of it: it names programs that we run, and whom we trust."""
    yield Line("config", OK, str(config))
    beside = config.parent / SITES_FOLDER
    for path in (config.parent, config, beside, *sorted(beside.glob("*.yaml"))):
        mode = path.stat().st_mode if path.exists() else 0
        if not mode & stat.S_IWOTH or (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
            continue
        if os.statvfs(path).f_flag & os.ST_RDONLY:  # as a volume in a container, where Kubernetes makes it with 777
            words = f"{path} is mounted read-only, and its mode lets anybody write it where it comes from"
            yield Line("config open", WARN, words, "look at who may write it there")
        else:
            words = f"anybody on this machine may write {path}, and with it name programs that maint runs"
            yield Line("config open", FAIL, words, f"chmod o-w {shlex.quote(str(path))}")


def _secrets(site: ConfiguredSite) -> Iterator[Line]:
    by_hand = references_by_hand(site.settings)
    for key, reference in {**references(site.settings), **by_hand}.items():
        label, kind = f"secret {key}", reference.partition(":")[0]
        if kind == "prompt":
            if key not in by_hand:
                yield Line(label, WARN, "is typed, so nothing that is scheduled can use it", "file:PATH can be used")
            continue
        if kind == "credential" and "CREDENTIALS_DIRECTORY" not in os.environ:
            yield Line(label, WARN, "is a systemd credential, and this is not a systemd unit")
            continue
        yield from guarded(label, partial(_resolved, site, label, reference))


def _resolved(site: ConfiguredSite, label: str, reference: str) -> Iterator[Line]:
    if label.endswith(".keytab"):
        site.secrets.resolve_bytes(reference)
    elif label.endswith(" shared_state_key"):
        key_of(site)
    else:
        site.secrets.resolve(reference)
    yield Line(label, OK, f"can be read ({reference.partition(':')[0]})")


def _state(site: ConfiguredSite) -> Iterator[Line]:
    folder = existing(site.state)
    if not folder.is_dir():
        yield Line("state", FAIL, f"{folder} is no folder", f"move {folder} away, which stands where the state belongs")
    elif closed := [*unwritable("state", folder, "run maint as the user who owns it")]:
        yield from closed
    elif folder == site.state and folder.stat().st_mode & 0o077:
        yield Line("state", WARN, f"{folder} is open to others", f"chmod 700 {shlex.quote(str(folder))}")
    else:
        full = "; ".join(short(site.state, LEAST))
        yield Line("state", FAIL if full else OK, full or str(site.state), "make room" if full else "")


def _lock(site: ConfiguredSite) -> Iterator[Line]:
    if is_held(site.state):
        yield Line("lock", WARN, f"held by {holder(site.state) or 'somebody'}", "wait until it has ended")
    else:
        yield Line("lock", OK, "free")


def _lease(site: ConfiguredSite, *, tried: bool) -> Iterator[Line]:
    """Look who works on the site on any machine, and whether one could; nothing where no state is shared."""
    if site.shared is None:
        return
    insist_mounted(site)
    row = newest(site.shared, site.settings.name)
    if row is None or not row.claim.token:
        if tried:
            insist_fit(site.shared, trial_name(site.settings.name))
        yield Line("lease", OK, f"{site.shared.location}: free")
    else:
        words = f"{site.shared.location}: {row.words}"
        yield Line("lease", WARN, words, "wait until it has ended; of a dead machine the next run takes it over")


def _keys(site: ConfiguredSite) -> Iterator[Line]:
    ssh, backup, folder = site.settings.ssh, site.settings.backup, site.state / "keys"
    private = [one for one in sorted(folder.glob("*")) if one.suffix != ".pub"] + ([ssh.key] if ssh and ssh.key else [])
    seen = [(path, path.stat()) for path in private]
    open_ = [path for path, one in seen if one.st_mode & 0o077]
    wrong = [(f"{path} can be read by others", f"chmod 600 {shlex.quote(str(path))}") for path in open_]
    wrong += [(f"{path} is empty", "put back a copy of the key") for path, one in seen if not one.st_size]
    blamed = [Line("keys", FAIL, *said) for said in wrong]
    uses = {"signing": lambda: site.sign.public_key, "fingerprint": lambda: site.fingerprint_key.reveal()}
    lacking = {name for name in uses if folder / name not in private and not getattr(backup, f"{name}_key", None)}
    if "fingerprint" in lacking and _shares_fingerprints(site):
        lacking.discard("fingerprint")
        uses.pop("fingerprint")  # which would write it here
    for name, use in uses.items() if not blamed else ():
        blamed += [] if name in lacking else guarded("keys", partial(_loaded, use))
    none = f"there is no {' or '.join(sorted(lacking))} key yet; the first backup makes its own"
    well = f"{show_count(len(private), 'private key')}, for the owner alone" if private else "as configured"
    if lacking and _holds_some(site):
        none = f"there is no {' or '.join(sorted(lacking))} key, though the store holds snapshots"
        blamed += [Line("keys", WARN, none, f"put a copy of it back into {folder}; else the next backup makes another")]
    yield from blamed or [Line("keys", OK, well) if private or not lacking else Line("keys", SKIP, none)]


def _shares_fingerprints(site: ConfiguredSite) -> bool:
    """Whether the key of the fingerprints waits in the shared state, from where whatever works here takes it."""
    try:
        name = fingerprint_key(site.settings.name)
        return site.shared is not None and key_of(site) is not None and site.shared.size(name) is not None
    except (StoreFailed, Invalid, Refused):  # which the lines of secrets and lease tell
        return False


def _holds_some(site: ConfiguredSite) -> bool:
    try:
        return bool(committed_ids(site))
    except (StoreFailed, Invalid):  # which the lines of the store tell
        return False


def _loaded(use: Callable[[], str]) -> Iterator[Line]:
    use()
    yield from ()


def _known_hosts(site: ConfiguredSite) -> Iterator[Line]:
    if (ssh := site.settings.ssh) is None:
        return
    files = ssh.trusted_files
    if found := [str(path) for path in files if path.is_file() and path.stat().st_size]:
        yield Line("known hosts", OK, ", ".join(found))
    else:
        words = f"{files[0]} names no hosts, so none is trusted"
        yield Line("known hosts", FAIL, words, "maint host trust")


def _tools() -> Iterator[Line]:
    missing = [name for name in ("age", "curl", "zstd") if shutil.which(name) is None]
    if missing:
        yield Line("tools", WARN, f"no {', '.join(missing)}: needed only to restore by hand (RESTORE.txt)")
    else:
        yield Line("tools", OK, "age, curl and zstd, to restore by hand")


def _hosts(site: ConfiguredSite, silent: set[str]) -> Iterator[Line]:
    """Log in on each host over SSH; those that let us in are one line, each other one has its own."""
    hosts = site.settings.hosts
    if not hosts or site.settings.ssh is None:
        return
    silent.update(one.name for one in hosts)
    let_in = 0
    for reply in site.fleet.ask(hosts, {one.name: b":\n" for one in hosts}, timeout=REACH):
        if reply.reason is None and reply.status == 0:
            let_in += 1
            silent.remove(reply.host)
        else:
            late = reply.hint == LATE  # by a limit of ours, which no option changes
            words = f"no answer within {REACH:g} s to a login and an empty command" if late else reply.reason
            hint = "" if late else reply.hint or ""
            words = words or f"the shell ended with status {reply.status}"
            yield Line(f"host {reply.host}", FAIL, words, hint or f"maint host check --host {reply.host}")
    if let_in:
        yield Line("hosts", OK, f"{let_in} of {show_count(len(hosts), 'host')} let us in over SSH")


def _virtual_clusters(site: ConfiguredSite) -> Iterator[Line]:
    """Get a token of each virtual cluster, and ask it who it is."""
    for one in site.settings.virtual_clusters:
        label = f"virtual cluster {one.name}"
        yield from guarded(label, partial(_let_in, site, label, one.name))


def _let_in(site: ConfiguredSite, label: str, name: str) -> Iterator[Line]:
    cluster = site.virtual_cluster(name)
    with within(site.clock, f"maint vc status --vc {name}"):
        cluster.token_until()
        cluster.info()
        cluster.job(_NOBODYS)  # who may not see jobs is told so
        shown = cluster.certificates()
    said = cluster.settings
    words = f"lets {said.login.username} in at {said.base_url}"
    ends = {host: end for host, der in shown.items() if der and (end := end_of(der)) - site.clock.now() < SOON}
    words += "".join(f"; the certificate of {host} ends {tell_time(end)}" for host, end in ends.items())
    own = said.tls is None and all(is_self_signed(shown[host]) for host in ends)
    renew = f"maint vc init {name} --renew" if own else f"name a new one in its `tls`, then `maint vc init {name}`"
    yield Line(label, WARN if ends else OK, words, renew if ends else "")


def _kubernetes(site: ConfiguredSite, silent: Collection[str]) -> Iterator[Line]:
    """Ask kubectl on the host where virtual clusters are initialised; nothing where there is none, or none of both."""
    hosts = site.settings.hosts_in(GROUP)[:1] if site.settings.ssh and site.settings.virtual_clusters else ()
    for host in hosts:
        if host.name in silent:
            yield Line("kubernetes", SKIP, f"not looked at, since {host.name} did not answer over SSH")
        else:
            yield from by_checks(site, "kubernetes", host, _KUBERNETES)


def _clock(site: ConfiguredSite) -> Iterator[Line]:
    now = site.clock.now()
    ahead = [one.snapshot.id for one in entries(site) if one.snapshot and one.snapshot.taken_at > now + _SKEW]
    if now < _BUILT:
        yield Line("clock", FAIL, f"it shows {tell_time(now)}", "set the clock (timedatectl)")
    elif ahead:
        words = f"snapshots are from the future: {', '.join(ahead)}"
        yield Line("clock", FAIL, words, "this clock or theirs was wrong")
    else:
        yield Line("clock", OK, tell_time(now))


def _proxy(site: ConfiguredSite) -> Iterator[Line]:
    yield from (Line("proxy", OK, words) for words in proxies(site.settings))


def _runs(site: ConfiguredSite) -> Iterator[Line]:
    rotten = past_runs.unreadable(site.state)
    for path in rotten:
        yield Line("runs", FAIL, *past_runs.told(path))
    at_work = run_at_work(site.state)
    stopped = [past for past in past_runs.unfinished(site.state) if past.id != at_work]
    for past in stopped:
        try:
            refuse_unreadable(past)
        except Refused as error:
            yield Line("runs", FAIL, error.in_a_line, error.way_on or "")
        else:
            words = f"{past.id} ({past.plan.source}) {'has' if past.state == 'failed' else 'is'} {past.state}"
            yield Line("runs", WARN, words, f"maint playbook resume {past.id}")
    if not stopped and not rotten:
        killed = [f"{one.id} ({one.plan.source})" for one in past_runs.killed_commands(site.state) if one.id != at_work]
        yield Line("runs", OK, "none is unfinished" + (f" but for {', '.join(killed)}" if killed else ""))


def _notices(site: ConfiguredSite) -> Iterator[Line]:
    """Say which notices did not arrive last; nobody is told anything to find out."""
    for one in site.settings.notify:
        seen = last(site.state, NOTICE + one.name)
        if seen is None:
            yield Line(f"notice {one.name}", OK, "nobody has been told yet; `maint notify test` tries it")
        elif seen.exit:
            yield Line(f"notice {one.name}", WARN, f"did not arrive: {seen.words}", "`maint notify test` tries again")
        else:
            at = datetime.fromtimestamp(seen.at, UTC)
            yield Line(f"notice {one.name}", OK, f"arrived at {tell_time(at)}")


def _metrics(site: ConfiguredSite) -> Iterator[Line]:
    """Say that nobody reads what each run writes, where its file has another name than a collector looks for."""
    path = site.settings.metrics
    if path and path.suffix != ".prom":
        words = f"nobody reads {path}: Prometheus' textfile collector takes files whose names end in .prom"
        yield Line("metrics", WARN, words, "give the key `metrics` a name that ends so")


def _leftovers() -> Iterator[Line]:
    """Look for what drills left that were killed: a deployment in clear."""
    left = left_behind()
    for folder in left:
        words = f"{folder} is what a killed drill left: it holds a deployment in clear"
        yield Line("drill", FAIL, words, "`maint backup drill` clears it away, or remove the folder")
