"""`maint backup rekey`: encrypt snapshots anew for the recipients that the config names now."""

from collections.abc import Collection, Sequence
from typing import Annotated

from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.open_site import opened
from maint.cli.options import Flags, option
from maint.cli.screen import Screen, ask_change
from maint.config.actor import actor
from maint.engine.shared_runs import at_work
from maint.errors import CannotReach, Mistyped, PartlyDone, Refused, StoreFailed, UsageError, WorkFailed
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.snapshot import Snapshot
from maint.snapshots.catalogue import entries, find_id, sweep
from maint.snapshots.prune import follow
from maint.snapshots.rekey import Aged, aged, copy_holds, let_go
from maint.snapshots.rekey import rekey as encrypt_anew
from maint.snapshots.replicate import replicate
from maint.snapshots.verify import all_mistyped
from maint.snapshots.virtual_clusters.blobs import collect

_NOTHING = "nothing to do: it is encrypted for the recipients of the config"
_AGAIN = "mend what is named, then run it again: what is done stays done"


@command()
def rekey(
    flags: Flags,
    snapshot: Annotated[str, option("--snapshot", "One snapshot: its id or the beginning of it.")] = "",
    every: Annotated[bool, option("--all", "All that are encrypted for others than the config's recipients.")] = False,
    prune_old: Annotated[bool, option("--prune-old", "Remove each old one once the new one is proven.")] = False,
) -> int:
    """Encrypt snapshots anew for the recipients of the config; each becomes a new snapshot with the same contents."""
    if bool(snapshot) == every:
        raise UsageError("it is either one snapshot or all of them", hint="--snapshot ID or --all")
    with opened(flags) as (site, screen):
        if not site.identities():
            raise Refused(
                "this machine has no private key, and snapshots are encrypted anew from the inside",
                hint="do it where backup.identity is: the old key",
            )
        wanted = find_id(site, snapshot) if snapshot else ""
        todo = _chosen(site, wanted)
        if flags.dry_run or not (todo or prune_old):
            words = [f"would encrypt {one.old.id} anew" if not one.made else f"{one.old.id} is {one.made.id} already"
                     for one in todo]  # fmt: skip
            words += [f"would remove {one.old.id}, once the new one is proven" for one in todo if prune_old]
            screen.emit(
                {"rekeyed": [_json(one, one.made) for one in todo]},
                "\n".join(words) or _NOTHING,
            )
            return 0
        if prune_old and todo:
            question = (
                f"encrypt {show_count(len(todo), 'snapshot')} anew, and remove each old one once its new one is proven?"
            )
            ask_change(screen, question, yes=flags.yes)
        with at_work(site, "backup rekey", screen.say):
            sweep(site)
            done, problems = _carried_out(site, screen, _chosen(site, wanted), prune_old)
        screen.emit(
            {"rekeyed": done}, f"encrypted anew: {show_count(len(done), 'snapshot')}" if todo or done else _NOTHING
        )
        if problems:
            raise PartlyDone(f"not everything was done: {len(problems)}", detail=problems, hint=_AGAIN)
        return 0


def _chosen(site: ConfiguredSite, wanted: str) -> Sequence[Aged]:
    return [one for one in aged(site) if wanted in ("", one.old.id)]


def _carried_out(
    site: ConfiguredSite, screen: Screen, todo: Sequence[Aged], prune_old: bool
) -> tuple[list[Json], list[str]]:
    made, problems, mistyped = list[tuple[Aged, Snapshot]](), list[str](), list[Mistyped]()
    for one in todo:
        try:
            new = one.made or screen.follow(encrypt_anew(site, one.old, actor()))
            copy_holds(site, one, new)
            made.append((one, new))
        except StoreFailed:
            raise
        except Mistyped as failure:
            mistyped.append(failure)
        except (WorkFailed, Refused) as failure:
            problems.append(f"{one.old.id}: {failure.in_a_line}")
    problems += screen.follow(replicate(site)) if site.copies and made else []
    for one, new in made if prune_old else ():
        try:
            screen.follow(let_go(site, one, new))
        except Mistyped as failure:
            mistyped.append(failure)
        except (Refused, WorkFailed, CannotReach) as failure:
            problems.append(failure.in_a_line)
    if prune_old:  # also where nothing is left to encrypt: a run that was killed may not have come to the copies
        problems += screen.follow(follow(site))
        screen.follow(collect(site))
    problems += _unproven(site, {new.id for _, new in made})
    if mistyped and not (made or problems):  # so nothing was touched
        raise all_mistyped(mistyped)
    problems += [one.in_a_line for one in mistyped]
    return [_json(one, new) for one, new in made], problems


def _unproven(site: ConfiguredSite, made: Collection[str]) -> list[str]:
    seen = [entry for entry in entries(site) if entry.id in made]
    return [f"{one.id} is not verified: no private key at hand opens it" for one in seen if one.proven is None]


def _json(one: Aged, made: Snapshot | None) -> Json:
    return {"from": one.old.id, "snapshot": made.id if made else None}
