"""`maint backup list|show|files`: the snapshots of a site, all that is known of one, the files in it."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec

from maint.cli.command import command
from maint.cli.completion.names import remember
from maint.cli.composition import ConfiguredSite
from maint.cli.monitoring import outcomes
from maint.cli.open_site import opened
from maint.cli.options import LOOKS, STORE, Connection, Flags, argument, option
from maint.cli.screen import Screen, table
from maint.cli.width import columns, folded
from maint.config.paths import absolute
from maint.engine.shared_runs import at_work
from maint.errors import Invalid, Refused, StoreFailed, UsageError, WorkFailed
from maint.files import create, keep_record, writing
from maint.model.formatting import show_count, show_counts, show_duration, show_size, show_time, tell_time, tell_times
from maint.model.json import Json, as_json
from maint.model.snapshot import ClusterSummary, Snapshot, Trust
from maint.snapshots.archive import MemberKind, members
from maint.snapshots.catalogue import (
    KEYS,
    Entry,
    Gone,
    Verified,
    entries,
    find,
    folders,
    gone_unrecorded,
    last_verification,
    sweep,
)
from maint.snapshots.holds import words_of
from maint.snapshots.in_progress import forget_seen
from maint.snapshots.manifest import ANOTHER
from maint.snapshots.parts import DEPLOYMENT, MANAGER_FILES, open_part
from maint.snapshots.prune import newest_good
from maint.snapshots.records import (
    DRILL,
    MISSED,
    REKEY,
    Drill,
    a_copy,
    drills,
    hidden,
    instead,
    last_good,
    latest_drills,
    lost,
    named,
    read_kinds,
    unkept,
    write_record,
)
from maint.snapshots.verify import record, verify

_HEADINGS = ["ID", "PURPOSE", "RESTORABLE", "VERIFIED", "STORED", "NOTE"]


@command(STORE, several=LOOKS)
def list_snapshots(
    flags: Flags,
    rebuild: Annotated[bool, option("--rebuild", "Read every stored byte again, and keep what was found.")] = False,
) -> None:
    """List the site's snapshots, the newest last, with holds and the age of the last verified success.

    The list is always read from the store: manifests and signed records, nothing else. --rebuild also reads every
    part, holds it against its manifest, and writes a new signed record for each snapshot.
    """
    with opened(flags) as (site, screen):
        if not rebuild:
            _list(site, screen, keeping=not (flags.dry_run or flags.connection != Connection()), dry_run=flags.dry_run)
        elif flags.dry_run:
            known = [one.id for one in entries(site)]
            screen.say(f"would read every byte of {show_count(len(known), 'snapshot')}, and record the result of each")
            _list(site, screen, dry_run=True)
        else:
            _rebuild(site, screen)


@command(STORE)
def show(flags: Flags, snapshot: Annotated[str, argument("Its id or the beginning of it.")]) -> None:
    """Show what a snapshot holds, how it was judged, and what it does not cover."""
    with opened(flags) as (site, screen):
        found = find(site, snapshot)
        drill = latest_drills(read_kinds(site, DRILL, REKEY)[0], [found]).get(found.id)
        data, text = _described(found, last_verification(site, found), drill)
        screen.emit({"snapshot": data}, text)


def last_success(known: Sequence[Entry], now: datetime) -> tuple[dict[str, Json] | None, str]:
    """Return the newest verified restorable backup and its age (seconds), as JSON and in words."""
    newest = newest_good(known, now)
    if newest is None:
        return None, "last verified restorable backup: none"
    age = (now - newest.taken_at).total_seconds()
    data: dict[str, Json] = {"id": newest.id, "taken_at": show_time(newest.taken_at), "age": round(age, 3)}
    return data, f"last verified restorable backup: {newest.id}, {show_duration(age)} old"


def _list(site: ConfiguredSite, screen: Screen, *, keeping: bool = False, dry_run: bool = False) -> None:
    """Show all snapshots, their holds, and the age of the last verified success; with `keeping` for `site list` too."""
    now, known = site.clock.now(), entries(site)
    if not dry_run:
        remember(site.state, snapshots=[one.id for one in known])
    data, words = last_success(known, now)
    drill = last_good(drills(site))
    if keeping:
        with suppress(OSError):  # who may read the store need not own the state folder
            keep_record(site.state / outcomes.SUMMARY, outcomes.summary_of(known, drill, now))
    words = f"{words}\n{_drill_words(drill, {one.id for one in known}, now)}"
    listed = table(_HEADINGS, [_row(one, now) for one in known]) if known else _none(site)
    screen.emit(
        {
            "snapshots": [_json(one, now) for one in known],
            "last_verified": data,
            "last_drill": drill.to_json(now) if drill else None,
        },
        f"{listed}\n{words}",
    )
    if untrusted := sum(one.untrusted for one in known):
        screen.warn(f"{show_count(untrusted, 'snapshot')} signed by a key that is not trusted: {KEYS}")


def _none(site: ConfiguredSite) -> str:
    """Return in words that a store holds nothing of the site, what it holds instead, and which copy to look into."""
    there = "; ".join([*instead(site), *hidden(site), *filter(None, [a_copy(site).removeprefix("; ")])])
    return f"no snapshot of {site.settings.name} in {site.store.location}{f': {there}' if there else ''}"


def _drill_words(drill: Drill | None, there: Collection[str], now: datetime) -> str:
    if drill is None:
        return "last good drill: none"
    # Removed since, encrypted anew, lost, or of another store.
    since = "" if drill.snapshot in there else ", which this store does not hold"
    return f"last good drill: {show_duration((now - drill.at).total_seconds())} ago, of {drill.snapshot}{since}"


def _rebuild(site: ConfiguredSite, screen: Screen) -> None:
    """Make all that the list tells anew from the objects alone, then show it.

    Every stored byte is read and held against the signed manifests, each result is kept as a new signed record, and
    what died half-written is removed. Contents are told as they were judged at the capture: no private key is asked.

    Raises:
        Locked: another run works on the site.
        WorkFailed: a snapshot is not sound, or could not be read; the list has been shown.
        PartlyDone: the store takes no record of what was found, as one that can only be read; likewise.
    """
    from maint.cli.after_run import followed  # the list itself is had in half the time without it

    failed, why = list[str](), None
    with followed(site, screen, "backup list") as begin, at_work(site, "backup list, rebuilding", screen.say):
        begin()
        if not folders(site):  # nothing is left that is to be read first
            _tell_lost(site, screen)
        try:
            sweep(site)
        except StoreFailed as failure:  # one that can be read can still be looked at
            why = unkept(failure)
        for entry in entries(site):
            try:
                judged = verify(site, entry.id, entry.usual_level, opening=False)
            except Gone as gone:
                screen.say(gone.message)
                continue
            except StoreFailed as failure:  # which says nothing of it: the others are looked at all the same
                screen.warn(f"{entry.id}: {failure.in_a_line}")
                failed.append(entry.id)
                continue
            screen.say(f"{entry.id}: {judged.words}")
            failed += [entry.id] if judged.result is Trust.FAILED or judged.unread else []
            try:
                record(site, judged)
            except WorkFailed as failure:
                why = unkept(failure)
        if why is None:
            _tell_lost(site, screen)
        _tell_gone(site, screen)
        _list(site, screen)
        if failed:
            raise WorkFailed(
                f"{show_count(len(failed), 'snapshot')} not sound, or not read",
                detail=failed,
                hint=f"`maint backup verify {failed[0]}` says what is wrong; so of each",
            )
        if why is not None:
            raise why


def _tell_lost(site: ConfiguredSite, screen: Screen) -> None:
    if gone := lost(site):
        screen.warn(f"{site.store.location} has lost {show_count(len(gone), 'record')}: {', '.join(gone)}")
        write_record(site, MISSED, named(gone[-1])[1], {"names": [*gone]})


def _tell_gone(site: ConfiguredSite, screen: Screen) -> None:
    if gone := gone_unrecorded(site, entries(site)):
        there = f"{site.store.location} has lost {show_count(len(gone), 'snapshot')} that this machine has verified"
        screen.warn(f"{there}: {', '.join(gone)}; no older one is kept back for want of it any more")
        forget_seen(site, gone)


def _row(entry: Entry, now: datetime) -> list[str]:
    """Return a snapshot as a line of the list."""
    snapshot, checked = entry.snapshot, "never"
    holds = words_of(entry.holds, now)
    if entry.verified is not None:
        seen = entry.verified
        checked = f"{seen.words}, {tell_time(seen.at)}"
    if snapshot is None:
        return [entry.id, "?", "no", checked, "?", "; ".join([entry.problem or "cannot be read", *holds])]
    size, clusters = show_size(sum(part.bytes for part in snapshot.parts)), snapshot.virtual_clusters
    notes = [] if snapshot.restorable else [f"audit-only: {snapshot.judgement.redaction.value}"]
    notes = notes if snapshot.has(DEPLOYMENT) else ["virtual clusters alone"]
    notes += [", ".join(one.name for one in clusters)]
    if doubtful := [one.name for one in clusters if one.doubt or one.problems]:
        notes += [f"NOT WHOLE: {', '.join(doubtful)}"]
    notes += ["ITS DRILL FAILED"] if entry.rejected else []
    words = "; ".join(filter(None, [*notes, *holds]))
    return [entry.id, snapshot.purpose.value, "yes" if entry.restorable else "no", checked, size, words]


def _json(entry: Entry, now: datetime) -> dict[str, Json]:
    """Return a snapshot as `backup list -o json` promises it."""
    snapshot, proven, seen, drill = entry.snapshot, entry.proven, entry.verified, entry.drilled
    verified: dict[str, Json] = {}
    if seen:  # the level that was asked for, and the one that was reached
        verified = {"level": seen.level, "depth": seen.depth, "at": show_time(seen.at), "result": seen.result.value}
    known: dict[str, Json] = {
        "verified": verified or None,
        "proven": {"level": proven.level, "at": show_time(proven.at)} if proven else None,
        "holds": [hold.to_json() for hold in entry.holds if hold.stands(now)],
    }
    if snapshot is None:
        return {"id": entry.id, "restorable": False, "problem": entry.problem, "parts": [], **known}
    drilled: Json = {"at": show_time(drill.at), "passed": drill.passed, "reason": drill.reason} if drill else None
    return {**_facts(snapshot), "restorable": entry.restorable, "drilled": drilled, **known}


def _facts(snapshot: Snapshot) -> dict[str, Json]:
    return {
        "id": snapshot.id,
        "site": snapshot.site,
        "taken_at": show_time(snapshot.taken_at),
        "purpose": snapshot.purpose.value,
        "restorable": snapshot.restorable,
        "parts": [
            {"name": part.name, "bytes": part.bytes, "sha256": part.sha256, "restorable": part.restorable}
            for part in snapshot.parts
        ],
        "virtual_clusters": msgspec.to_builtins(snapshot.virtual_clusters),
    }


def _described(snapshot: Snapshot, seen: Verified | None, drill: Drill | None) -> tuple[dict[str, Json], str]:
    """Return all that is known of one snapshot, as JSON and for people."""
    judgement, entry = snapshot.judgement, Entry(snapshot.id, snapshot, None, seen, drilled=drill)
    marks, told = {True: "ok", False: "FAILED", None: "could not tell"}, as_json(snapshot)
    data: dict[str, Json] = {
        **_facts(snapshot),
        "restorable": entry.restorable,
        **{key: told[key] for key in ("manager", "account", "versions", "uncovered", "host_files", "recipients")},
        **{key: found for key, found in as_json(judgement).items() if key in ("redaction", "counts", "findings")},
        "manager_files": told["manager_files"],
        "healed_from": told["healed_from"] or None,
        "rekeyed_from": told["rekeyed_from"] or None,
    }
    lines = [
        f"snapshot {snapshot.id} of {snapshot.site} ({snapshot.manager}), for {snapshot.purpose.value}",
        f"restorable: {'yes' if entry.restorable else 'no'}; redaction: {judgement.redaction.value}"
        + (f"; last verification: {seen.words}" if seen else ""),
        *([f"ITS DRILL FAILED: {drill.reason}"] if drill and entry.rejected else []),
        *_healed(snapshot),
        "versions: " + ", ".join(f"{key} {value}" for key, value in snapshot.versions.items()),
        "holds: " + ", ".join(_held(key.replace("_", " "), count) for key, count in judgement.counts.items()),
        *(f"  {part.name}: {show_size(part.bytes)} stored, sha256 {part.sha256[:16]}…" for part in snapshot.parts),
        *(words for one in snapshot.virtual_clusters for words in _cluster(one)),
        *(f"  rule {finding.rule}: {marks[finding.passed]}: {finding.words}" for finding in judgement.findings),
        "not covered:",
        *(f"  {words}" for words in snapshot.uncovered),
    ]
    return data, folded("\n".join(lines), columns())


def _cluster(one: ClusterSummary) -> list[str]:
    """Return what a snapshot tells of a virtual cluster, a line each."""
    size = f"{show_count(one.files, 'file')} of {show_size(one.bytes)}"
    head = f"  virtual cluster {one.name} ({one.base_url}): {show_counts(job=one.jobs, resource=one.resources)}, {size}"
    missing = [f"    MISSING: {words}" for words in one.problems]
    return [head, *missing, *([f"    DOUBT: {one.doubt}"] if one.doubt else [])]


def _held(what: str, count: int) -> str:
    return show_count(count, what[:-1]) if what.endswith("s") else f"{count} {what}"


def _healed(snapshot: Snapshot) -> list[str]:
    told, rekeyed = snapshot.healed_from, snapshot.rekeyed_from
    healed = [f"healed: {told.get('redacted')}, filled from {told.get('from')} at {told.get('at')}"] if told else []
    again = [f"encrypted anew: {rekeyed.get('snapshot')}, at {rekeyed.get('at')}"] if rekeyed else []
    return [tell_times(line) for line in (*healed, *again)]


@command(STORE)
def files(
    flags: Flags,
    snapshot: Annotated[str, argument("Its id or the beginning of it.")],
    extract: Annotated[str, option("--extract", "Take out the file that lay here on the host.")] = "",
    to: Annotated[str, option("--to", "Write it to this new file, 0600.")] = "",
) -> None:
    """List the manager's own files that a snapshot keeps, or take one out, such as the GUID."""
    if bool(extract) != bool(to):
        raise UsageError("--extract and --to belong together", hint="--extract PATH --to FILE")
    with opened(flags) as (site, screen):
        found = find(site, snapshot)
        if extract:
            target = absolute(to)
            content = _content(site, found, extract)
            if flags.dry_run:
                words = f"would write {extract} to {target}: {show_count(len(content), 'byte')}"
            else:
                _write(target, content)
                words = f"{extract} is in {target}, readable by its owner only"
            screen.emit({"path": extract, "file": str(target)}, words)
            return
        listed = list(found.manager_files)
        screen.emit({"snapshot": found.id, "files": list(listed)}, "\n".join(listed))
        if not listed:
            screen.say(f"snapshot {found.id} keeps no files of the manager's host")


def _content(site: ConfiguredSite, snapshot: Snapshot, path: str) -> bytes:
    if path not in snapshot.manager_files:
        hint = f"`maint backup files {snapshot.id}` lists them"
        raise UsageError(f"snapshot {snapshot.id} keeps no file {path}", hint=hint)
    found: bytes | None = None
    with open_part(site, snapshot, MANAGER_FILES) as stream:
        for member, content in members(stream.read):
            if member.path == path and member.kind is MemberKind.LINK:
                raise Invalid(f"{path} is a link to {member.target}", hint=f"extract {member.target}")
            found = content if member.path == path else found
    if found is None:
        raise WorkFailed(f"{path} is not in {MANAGER_FILES}, although the manifest lists it", hint=ANOTHER)
    return found


def _write(target: Path, content: bytes) -> None:
    if not target.parent.is_dir():
        raise WorkFailed(f"{target} cannot be written: there is no folder {target.parent}", hint="make it first")
    with writing(target, "name another place, or mend its permissions"):
        if not create(target, content):
            raise Refused(f"{target} is there already", hint="name a new file; nothing is overwritten")
