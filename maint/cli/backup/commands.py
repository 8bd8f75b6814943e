"""`maint backup create|hold|release|prune`: what takes a snapshot, and what decides how long it stays."""

from typing import Annotated

from maint.cli.after_run import planned
from maint.cli.command import command
from maint.cli.configless import settings_of
from maint.cli.open_site import opened
from maint.cli.options import CHANGES, STORE_ALONE, Flags, argument, option
from maint.cli.run_playbook import carry_out, plan_json
from maint.cli.screen import plan_text, table
from maint.engine.load import library
from maint.engine.plan import make_plan
from maint.errors import UsageError
from maint.model.json import Json
from maint.snapshots.prune import lines, verdict
from maint.steps.snapshots.retention import end_of_hold

SnapshotName = Annotated[str, argument("Its id or the beginning of it.")]
Reason = Annotated[str, option("--reason", "Why.")]


@command(several=CHANGES, playbooks=("export", "export-unredacted --open-window"))
def create(
    flags: Flags,
    open_window: Annotated[bool, option("--open-window", "Switch redaction off for the export.")] = False,
    accept_empty: Annotated[
        bool, option("--accept-empty", "Virtual clusters hold what is found, however little it is.")
    ] = False,
) -> int:
    """Take a snapshot: as the server gives it, or through the redaction window."""
    backup = settings_of(flags).site().backup
    through = open_window or (backup is not None and backup.on_redacted == "window")
    return carry_out(flags, "export-unredacted" if through else "export", {"accept_empty": accept_empty})


@command(playbooks=("hold",))
def hold(
    flags: Flags,
    snapshot: SnapshotName,
    reason: Reason,
    until: Annotated[str, option("--until", "Last day of the hold, such as 2027-06-30.")] = "",
) -> int:
    """Keep a snapshot from being pruned, until a day or until it is released."""
    try:
        end_of_hold(until)
    except ValueError as error:
        raise UsageError(f"--until: {error}", hint="the last day of the hold; without it, `release` ends it") from None
    return carry_out(flags, "hold", {"snapshot": snapshot, "reason": reason, "until": until})


@command(playbooks=("release",))
def release(flags: Flags, snapshot: SnapshotName, reason: Reason) -> int:
    """End all holds of a snapshot."""
    return carry_out(flags, "release", {"snapshot": snapshot, "reason": reason})


@command(STORE_ALONE, several=CHANGES, playbooks=("prune",))
def prune(
    flags: Flags,
    thaw: Annotated[str, option("--thaw", "Why to prune although a backup is doubtful or a restore unfinished.")] = "",
    damaged: Annotated[bool, option("--damaged", "Let old snapshots go that cannot be believed.")] = False,
) -> int:
    """Remove the snapshots that neither policy, nor floor, nor a hold keeps; tells the reason for each."""
    given: dict[str, Json] = {"thaw": thaw, "damaged": damaged}
    with opened(flags) as (site, screen):
        with planned(site, screen, "prune", dry_run=flags.dry_run):
            plan = make_plan(library().load("prune"), given, site, library())
            decided = verdict(site, thaw=True, damaged=damaged)
        shown = table(["ID", "FATE", "WHY"], [list(line) for line in lines(decided)])
        if flags.dry_run:
            fates: list[Json] = [
                {"id": one.id, "keep": one.keep, "reasons": list(one.reasons)} for one in decided.decisions
            ]
            screen.emit({"snapshots": fates, **plan_json(plan)}, f"{shown}\n{plan_text(plan)}")
            return 0
        screen.say(shown)
    expect = None if flags.yes else plan.digest  # who is asked has read this table; another machine may store meanwhile
    return carry_out(flags, "prune", given, expect=expect)
