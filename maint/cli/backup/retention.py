"""What is kept and why, and how old the last verified success is, as the commands show it."""

from collections.abc import Sequence
from datetime import datetime

from maint.cli.backup.snapshots import as_json, row
from maint.cli.composition import ConfiguredSite
from maint.cli.flags import Flags
from maint.cli.open_site import opened
from maint.cli.schedule.metrics import publish
from maint.cli.screen import Screen, plan_text, table
from maint.engine.lock import site_lock
from maint.errors import WorkFailed
from maint.model.formatting import show_duration
from maint.model.json import Json
from maint.model.snapshot import Trust
from maint.snapshots.catalogue import Entry, entries, sweep
from maint.snapshots.manifest import show_time
from maint.snapshots.prune import lines, newest_good, verdict
from maint.snapshots.records import Drill, drills, last_good
from maint.snapshots.verify import record, verify

_HEADINGS = ["ID", "PURPOSE", "RESTORABLE", "VERIFIED", "SIZE", "NOTE"]


def last_success(known: Sequence[Entry], now: datetime) -> tuple[dict[str, Json] | None, str]:
    """Return the newest verified restorable backup and its age (seconds), as JSON and in words."""
    newest = newest_good(known, now)
    if newest is None:
        return None, "last verified restorable backup: none"
    age = (now - newest.taken_at).total_seconds()
    data: dict[str, Json] = {"id": newest.id, "taken_at": show_time(newest.taken_at), "age": round(age, 3)}
    return data, f"last verified restorable backup: {newest.id}, {show_duration(age)} old"


def show_list(site: ConfiguredSite, screen: Screen) -> None:
    """Show all snapshots, their holds, and the age of the last verified success."""
    now, known = site.clock.now(), entries(site)
    data, words = last_success(known, now)
    drill = last_good(drills(site))
    words = f"{words}\n{_drill_words(drill, now)}"
    listed = table(_HEADINGS, [_row(one, now) for one in known])
    screen.emit(
        {
            "snapshots": [_json(one, now) for one in known],
            "last_verified": data,
            "last_drill": drill.to_json(now) if drill else None,
        },
        f"{listed}\n{words}" if known else words,
    )


def _drill_words(drill: Drill | None, now: datetime) -> str:
    if drill is None:
        return "last good drill: none"
    return f"last good drill: {show_duration((now - drill.at).total_seconds())} ago, of {drill.snapshot}"


def _row(entry: Entry, now: datetime) -> list[str]:
    *cells, note = row(entry)
    holds = [hold.words for hold in entry.holds if hold.stands(now)]
    return [*cells, "; ".join(filter(None, [note, *holds]))]


def _json(entry: Entry, now: datetime) -> dict[str, Json]:
    proven = entry.proven
    return {
        **as_json(entry),
        "proven": {"level": proven.level, "at": show_time(proven.at)} if proven else None,
        "holds": [hold.to_json() for hold in entry.holds if hold.stands(now)],
    }


def rebuild(site: ConfiguredSite, screen: Screen) -> None:
    """Make all that the list tells anew from the objects alone, then show it.

    Every stored byte is read and held against the signed manifests, each result is kept as a new signed record, and
    what died half-written is removed. Contents are told as they were judged at the capture: no private key is asked.

    Raises:
        Locked: another run works on the site.
        WorkFailed: a snapshot is not sound; the list has been shown.
    """
    failed = []
    with site_lock(site.state, site.settings.name, "backup list, rebuilding", site.clock):
        sweep(site, site.clock.now())
        for entry in entries(site):
            level = 3 if entry.snapshot is not None and entry.snapshot.restorable else 2
            judged = verify(site, entry.id, level, opening=False)
            record(site, judged)
            screen.say(f"{entry.id}: {judged.words}")
            failed += [entry.id] if judged.result is Trust.FAILED else []
        publish(site, screen)
    show_list(site, screen)
    if failed:
        raise WorkFailed(
            f"{len(failed)} snapshots are not sound", detail=failed, hint="`maint backup verify ID` tells what is wrong"
        )


def prune(flags: Flags, thaw: str, damaged: bool) -> int:
    """Show for every snapshot whether it stays and why, and remove those that do not."""
    from maint.cli.run_playbook import carry_out, library
    from maint.engine.plan import make_plan

    given: dict[str, Json] = {"thaw": thaw, "damaged": damaged}
    with opened(flags) as (site, screen):
        plan = make_plan(library().load("prune"), given, site, library())
        decided = verdict(site, thaw=True, damaged=damaged)
        shown = table(["ID", "FATE", "WHY"], [list(line) for line in lines(decided)])
        if flags.dry_run:
            fates: list[Json] = [
                {"id": one.id, "keep": one.keep, "reasons": list(one.reasons)} for one in decided.decisions
            ]
            data: dict[str, Json] = {
                "snapshots": fates,
                "plan": plan.to_json(),
                "digest": plan.digest,
                "fingerprint": plan.fingerprint,
            }
            screen.emit(data, f"{shown}\n{plan_text(plan)}")
            return 0
        screen.say(shown)
    return carry_out(flags, "prune", given, expect=plan.digest)
