"""What `maint doctor` looks at of backups: stores, snapshots, who can open them; timers, and the newest drill."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from shlex import quote

from maint.cli.composition import ConfiguredSite
from maint.cli.monitoring.outcomes import SCHEDULED, last
from maint.cli.schedule.commands import own_files
from maint.cli.schedule.units import MANAGED, has_other_state, lingers, playbooks, systemctl
from maint.cli.site.doctor_lines import FAIL, OK, SKIP, WARN, Line, guarded, unwritable
from maint.deployment.judge import broken
from maint.engine import past_runs
from maint.errors import PartlyDone, StoreFailed, WorkFailed
from maint.files import existing
from maint.model.formatting import show_count, show_duration, show_size, tell_time
from maint.ports import Store
from maint.snapshots.capture import LEAST, full_stores, largest, short
from maint.snapshots.catalogue import Entry, committed_ids, entries, refuse_gone
from maint.snapshots.manifest import UNTRUSTED
from maint.snapshots.parts import DEPLOYMENT
from maint.snapshots.prune import damage, doubt, good, newest_good, pruned
from maint.snapshots.recipients import escrow, unopened
from maint.snapshots.records import LOST, drills, insist_there, instead, last_good, lost
from maint.snapshots.replicate import suspect, with_store

_OWNER = "look at who owns it, and who runs maint"
_ROOM = 3  # times the newest snapshot that should be free
_ESCROW = "take another backup, so that this recipient is among those of the newest snapshot; or correct the config"


def store(site: ConfiguredSite) -> Iterator[Line]:
    """Yield whether the first store is there, how many snapshots it holds, and whether its disk has room."""
    insist_there(site)
    known = entries(site)
    refuse_gone(site, known)  # what is there and damaged has its own line
    count = show_count(sum(one.snapshot is not None for one in known), "snapshot")
    said = site.settings.backup
    if said is None or not said.store.startswith("/"):
        yield Line("store", OK, f"{site.store.location}: {count}")
        return
    folder = existing(Path(said.store))
    if closed := [*unwritable("store", folder, _OWNER)]:
        yield from closed
    elif full := "; ".join(full_stores(site)):
        yield Line("store", FAIL, full, "make room, or prune")
    elif scarce := "; ".join(short(Path(said.store), max(_ROOM * largest(site), LEAST))):
        yield Line("store", WARN, scarce, "make room, or prune")
    else:
        yield Line("store", OK, f"{said.store}: {count}, {show_size(shutil.disk_usage(folder).free)} free")


def copies(site: ConfiguredSite) -> Iterator[Line]:
    """Yield of each copy what it lacks, and what of it is not proven to be sound."""
    for copy in site.copies:
        yield from guarded(label := f"copy {copy.location}", partial(_reached, site, label, copy))


def _reached(site: ConfiguredSite, label: str, copy: Store) -> Iterator[Line]:
    insist_there(place := with_store(site, copy))
    there = entries(place)
    first, gone = set[str](), {one.id for one in there}
    with suppress(StoreFailed):  # of the first store its own line tells, and then a copy counts most
        first, gone = {*committed_ids(site)}, {*pruned(site)}
    words, doubtful = show_count(len(there), "snapshot"), [one.id for one in there if suspect(one)]
    lacking = sorted(first - {one.id for one in there})
    alone = sorted({one.id for one in there} - first - gone)
    words += f"; it lacks {len(lacking)} of the first store, such as {lacking[-1]}" if lacking else ""
    words += f"; {len(alone)} that the first store does not hold, such as {alone[-1]}" if alone else ""
    words += f"; {len(doubtful)} not proven to be sound, such as {doubtful[-1]}" if doubtful else ""
    known = {one.id for one in there if UNTRUSTED not in (one.problem or "")}  # of others nothing is known to be wrong
    taken = lacking or first & known & {*doubtful}
    again = "`maint backup create` copies what is lacking, or not sound" if taken else ""
    mend = again or (f"maint backup verify {doubtful[-1]} --store {quote(copy.location)}" if doubtful else "")
    line = Line(label, WARN if mend else OK, words, mend)
    if copy.location.startswith("/"):
        if full := "; ".join(short(folder := Path(copy.location), max(largest(site), LEAST))):
            line = Line(label, FAIL if lacking else WARN, f"{words}; {full}", "make room, or prune")
        yield from [*unwritable(label, existing(folder), _OWNER)] or [line]
        return
    yield line


def snapshots(site: ConfiguredSite) -> Iterator[Line]:
    """Yield what is wrong with each snapshot of the first store, else how many can be restored."""
    known = entries(site)
    wrong = [(one, why) for one in known if (why := damage(one) or _lacks(site, one)) is not None]
    for one, why in wrong:
        folder = f"{site.store.location}/{site.settings.name}/{one.id}"
        hint = f"put {folder} back from a sound copy, then `maint backup verify {one.id}`"
        if one.rejected:  # which another drill alone outweighs
            hint = f"`maint backup drill {one.id}`; where it fails again, put {folder} back from a copy that comes back"
        hint += "; without one it goes by `maint backup prune --damaged`"
        if UNTRUSTED in why:
            hint = f"put back {site.state}/keys/signing where it was lost; only if you know which machine took it, name"
            hint += " that machine's keys/signing.pub in backup.trusted_keys"
        yield Line("snapshots", FAIL, f"{one.id} cannot be believed: {why}", hint)
    unread = [Line("snapshots", FAIL, f"{one.id} {one.problem}", one.remedy) for one in known if one.unread]
    unread += [Line("snapshots", FAIL, f"{one} {LOST}", "maint backup list --rebuild") for one in lost(site)]
    yield from unread
    if not known:
        held = instead(site)
        yield Line("snapshots", WARN if held else SKIP, "; ".join(["the store holds none yet", *held]))
    elif not wrong and not unread:
        unproven = [one.id for one in known if one.offered and not good(one)]
        words = f"{sum(map(good, known))} of {len(known)} are verified and restorable"
        hint = f"maint backup verify {unproven[-1]}" if unproven else ""
        yield Line("snapshots", WARN if unproven else OK, words, hint)


def _lacks(site: ConfiguredSite, entry: Entry) -> str | None:
    """Return which part is not in the store in its length; whether its bytes are right, a verification says."""
    for part in entry.snapshot.parts if entry.snapshot else ():
        there = site.store.size(f"{site.settings.name}/{entry.id}/{part.name}")
        if there != part.bytes:
            return f"{part.name} {'is missing' if there is None else f'has {there} of {part.bytes} bytes'}"
    return None


def backup(site: ConfiguredSite, limit: timedelta) -> Iterator[Line]:
    """Yield how old the newest restorable backup is, and whether that is more than `limit`."""
    now, known = site.clock.now(), entries(site)
    newest = newest_good(known, now)
    if newest is None:
        yield Line("backup", FAIL, "there is no verified restorable backup", _way_to_one(site))
        return
    age = now - newest.taken_at
    words = f"{newest.id}, {show_duration(age.total_seconds())} old"
    if age > limit:
        yield Line("backup", WARN, words, "maint schedule show")
    elif why := doubt(known, now):
        yield Line("backup", WARN, f"{words}; nothing is pruned: {why}", "look at it, and see `maint help retention`")
    else:
        yield Line("backup", OK, words)


def recipients(site: ConfiguredSite) -> Iterator[Line]:
    """Try the private key of each recipient, where it is here; one that is elsewhere is said, and never passed."""
    known = [one.snapshot for one in entries(site) if one.snapshot is not None]
    for one in escrow(site, known[-1]) if known else ():
        state = SKIP if one.opens is None else OK if one.opens else FAIL
        hint = "" if one.opens else "run `maint doctor` where that key is" if one.opens is None else _ESCROW
        yield Line(f"recipient {one.recipient}", state, one.words, hint)
    for recipient, older in unopened(site, known).items():
        words = f"{show_count(len(older), 'snapshot')}, {older[-1]} the newest, opens by no key of the config, nor here"
        hint = "put its private key into backup.identity, a line more, then `maint backup rekey --all`"
        yield Line(f"recipient {recipient}", WARN, words, hint)


def _way_to_one(site: ConfiguredSite) -> str:
    """Return how a restorable backup is come by: no window helps where the configuration itself breaks a rule."""
    known = [one.snapshot for one in entries(site) if one.snapshot is not None and one.snapshot.has(DEPLOYMENT)]
    if known and broken(known[-1].judgement):
        return f"`maint backup show {known[-1].id}` names each broken rule: mend that in the manager, then export again"
    return "maint backup create --open-window"


_PROPERTIES = "Id,ActiveState,UnitFileState,Result"


def timers(site: ConfiguredSite) -> Iterator[Line]:
    """Look whether the timers that are installed for a site run, and how what they start has ended."""
    for user in (False, True):
        books = playbooks(site.settings, user=user, folder=None).values()
        paths = [*own_files(site.settings, user, None), *(path for paths in books for path in paths)]
        if others := sorted({path.stem for path in paths if has_other_state(path, site.settings)}):
            words = f"{', '.join(others)}: installed for another state folder than {site.state.parent}, so that a run"
            hint = "install it once more; `MAINT_STATE=FOLDER maint doctor` tells what its runs have left there"
            yield Line("schedule", WARN, f"{words} of it and one of yours may be at work at once", hint)
        names = sorted({path.stem for path in paths if path.suffix == ".timer"})
        if names and MANAGED.is_dir():
            yield from _timers(names, user=user)
            if user and not lingers():
                words = "timers of your own run only while you are logged in"
                yield Line("schedule", WARN, words, "`loginctl enable-linger` lets them run always")


def _timers(names: list[str], *, user: bool) -> Iterator[Line]:
    try:
        units = [f"{name}.{kind}" for name in names for kind in ("timer", "service")]
        said = systemctl("show", "-p", _PROPERTIES, *units, user=user)
    except WorkFailed as error:
        yield Line("schedule", SKIP, f"cannot be told: {error.in_a_line}")
        return
    option = "--user " * user
    blocks = [dict(line.partition("=")[::2] for line in block.splitlines()) for block in said.strip().split("\n\n")]
    seen = {block.get("Id", ""): block for block in blocks}
    for name in names:
        timer, service = seen.get(f"{name}.timer", {}), seen.get(f"{name}.service", {})
        start = f"`systemctl {option}enable {name}.timer; systemctl {option}start {name}.timer`"
        if timer.get("ActiveState") != "active":
            words = f"{name}.timer is {timer.get('ActiveState') or 'not known'}: nothing starts by itself"
            yield Line("schedule", FAIL, words, start)
        elif timer.get("UnitFileState") == "disabled":
            yield Line("schedule", WARN, f"{name}.timer runs, but not after the next boot: it is disabled", start)
        elif (result := service.get("Result") or "success") != "success":
            again = f"`journalctl {option}-u {name}` tells why; mend that, then `systemctl {option}start {name}`"
            yield Line("schedule", WARN, f"{name}.service ended last with {result}", again)
        else:
            yield Line("schedule", OK, f"{name}.timer is active")


def ends(site: ConfiguredSite) -> Iterator[Line]:
    """Tell what may be scheduled and failed last, however fresh the newest backup still is."""
    told = {past.id for past in past_runs.unfinished(site.state)}
    for verb in SCHEDULED:
        one = last(site.state, verb)
        if one is not None and one.exit not in (0, PartlyDone.exit_code) and one.run not in told:
            words = f"failed at {tell_time(datetime.fromtimestamp(one.at, UTC))} ({one.exit}): {one.words}"
            yield Line(f"last {verb}", WARN, words, f"maint {verb}")


def drill(site: ConfiguredSite, limit: timedelta) -> Iterator[Line]:
    """Look whether a drill has proved a restore lately, and none has failed since."""
    found = drills(site)
    good = last_good(found)
    if found and not found[-1].passed:
        newest = found[-1]
        words = f"that of {newest.snapshot} at {tell_time(newest.at)} failed: {newest.reason}"
        yield Line("drill", WARN, words, "maint backup drill")
    elif good is None:
        yield Line("drill", WARN, "no drill is known", "maint backup drill")
    else:
        age = site.clock.now() - good.at
        late = age > limit
        words = f"{show_duration(age.total_seconds())} ago"
        yield Line("drill", WARN if late else OK, words, "maint backup drill" if late else "")
