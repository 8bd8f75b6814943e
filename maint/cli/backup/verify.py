"""`maint backup verify`: prove that a snapshot is what it says."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import Annotated

import msgspec

from maint.cli.after_run import followed, planned
from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.open_site import opened
from maint.cli.options import MANAGER, WORKS, Flags, argument, number, option, seconds_of
from maint.cli.screen import Screen
from maint.engine.shared_runs import at_work
from maint.errors import Invalid, MaintError, PartlyDone, Refused, StoreFailed, UsageError, WorkFailed
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.snapshot import Trust
from maint.snapshots.catalogue import LATEST, entries, find_id, load
from maint.snapshots.records import Verification
from maint.snapshots.verify import record, refuse_mistyped, usual_level
from maint.snapshots.verify import verify as verify_snapshot

_OTHERS = "`maint backup list` shows others"
_AUDIT = "it serves for audit (`--level 2`); `maint backup create --open-window` takes a restorable one"


class Unread(msgspec.Struct, frozen=True):
    """Why a secret could not be read, and how deep a snapshot was looked at without it."""

    why: MaintError
    level: int


@command(MANAGER, several=WORKS)
def verify(
    flags: Flags,
    snapshot: Annotated[str, argument("Its id or the beginning of it; else the newest.")] = "",
    level: Annotated[
        int | None, number("--level", "1 bytes, 2 contents, 3 restorability, 4 drill; else 3 at most.", 1, 4)
    ] = None,
    stale: Annotated[str, option("--stale", "Every snapshot last verified longer ago than this, such as 30d.")] = "",
) -> int:
    """Verify a snapshot and keep the result; unreadable means failed."""
    if stale and (snapshot or level == 4):
        hint = "`maint backup verify --stale 30d`, with --level 1 to 3"
        raise UsageError("--stale chooses the snapshots itself, and drills none", hint=hint)
    if level == 4:
        from maint.cli.backup.drill import rehearse  # no other level needs a lab

        return rehearse(flags, snapshot, {})
    # What a machine without a config finds is signed by a key that nobody else trusts, so it is shown and not kept.
    configured = not flags.connection.replaces_config
    deepest = level or (3 if configured or flags.connection.password else 2)  # 3 asks whether the password fits
    with opened(flags) as (site, screen):
        with planned(site, screen, "backup verify", dry_run=flags.dry_run or not configured):
            chosen = _stale(site, seconds_of("--stale", stale)) if stale else [find_id(site, snapshot or LATEST)]
        if flags.dry_run:
            words = f"would verify {', '.join(chosen) or 'none'} to level {deepest}"
            told: Json = [*chosen] if stale else chosen[0]
            screen.emit({"snapshots" if stale else "snapshot": told, "level": deepest}, words)
            return 0
        levels = {one: deepest if level else min(deepest, _usual(site, one)) for one in chosen}
        with followed(site, screen, "backup verify") if configured else nullcontext() as begin:
            unread = list[Unread]()
            found = [_judged(site, screen, one, to, begin, unread, several=bool(stale)) for one, to in levels.items()]
            return _verified_all(screen, found, unread) if stale else _verified(screen, found[0], unread)


def _usual(site: ConfiguredSite, found: str) -> int:
    try:
        return usual_level(load(site, found))
    except WorkFailed:  # which the verification will tell
        return 3


def _stale(site: ConfiguredSite, age: float) -> list[str]:
    """Return the snapshots not verified for so many seconds, the longest ago first."""
    limit = site.clock.now() - timedelta(seconds=age)
    seen = [(one.verified.at if one.verified else None, one.id) for one in entries(site)]
    return [id_ for at, id_ in sorted(seen, key=lambda one: (one[0] is not None, one)) if at is None or at < limit]


def _verified_all(screen: Screen, found: Sequence[Verification], unread: Sequence[Unread]) -> int:
    """Show what was found of several snapshots; see `_judged` for `unread`."""
    words = "\n".join(f"{one.snapshot}: {one.words}" for one in found)
    data: list[Json] = [one.to_json() for one in found]
    screen.emit({"verifications": data}, words or "no snapshot was verified so long ago")
    failed = [one for one in found if one.result is Trust.FAILED]
    if failed:
        told = f"{show_count(len(failed), 'snapshot')} of {len(found)} failed"
        why = [f"{one.snapshot}: {one.failures[0].words}" for one in failed]
        raise WorkFailed(told, detail=[*why, *(one.why.message for one in unread[:1])], hint=_OTHERS)
    _insist(unread)
    untold = [one.snapshot for one in found if one.result is Trust.NOT_VERIFIED]
    if untold:
        told = f"{show_count(len(untold), 'snapshot')} could not be verified as deep as was asked"
        raise PartlyDone(told, detail=untold, hint="`maint backup verify ID` says why, one by one")
    return 0


def _judged(
    site: ConfiguredSite,
    screen: Screen,
    found: str,
    level: int,
    begin: Callable[[], None] | None,
    unread: list[Unread],
    *,
    several: bool,
) -> Verification:
    """Verify a snapshot under the lock, so that a backup need not wait for several; None: the result is not kept.

    Where a secret cannot be read, the password of level 3 or the key of level 2, it goes as deep as it can without,
    and `unread` gets why. Of `several`, one whose manifest the store does not give keeps nobody from the others.
    """
    with at_work(site, "backup verify", screen.say):
        if begin is not None:
            begin()
        for depth in range(level, 0, -1):
            try:
                judged = verify_snapshot(site, found, depth)
                break
            except StoreFailed as failure:
                if not several:
                    raise
                return Verification(found, level, 0, 0, 0, site.clock.now(), doubts=(failure.in_a_line,))
            except (Invalid, Refused) as failure:
                why = failure
                if depth == 1:  # which wants no secret
                    raise
        refuse_mistyped(site, judged)
        if begin is not None:
            record(site, judged)
    if judged.level < level:
        unread.append(Unread(why, judged.level))
    return judged


def _insist(unread: Sequence[Unread]) -> None:
    """Raise, once for all, that a secret cannot be read; what was found without it is shown and kept."""
    if unread:
        why, level = unread[0].why, unread[0].level
        wants = "level 3 tries this password" if level == 2 else "level 2 opens what is encrypted with this key"
        seen = f"{wants}; looked at to level {level} only: {show_count(len(unread), 'snapshot')}"
        why.detail = (*why.detail, seen)
        raise why


def _verified(screen: Screen, judged: Verification, unread: Sequence[Unread]) -> int:
    """Show what was found of one snapshot; see `_judged` for `unread`."""
    found = judged.snapshot
    screen.emit({"verification": judged.to_json()}, f"{found}: {judged.words}")
    if judged.result is Trust.FAILED:
        detail = [f"{finding.rule}: {finding.words}" for finding in judged.failures]
        whole = judged.depth == 2 and not judged.broken_bytes
        words = "is whole, and not restorable" if whole else "is not sound"
        raise WorkFailed(f"snapshot {found} {words}", detail=detail, hint=_AUDIT if whole else _OTHERS)
    _insist(unread)
    if judged.proven and judged.doubts:
        hint = "take the backup again; where there really is so little, with `--accept-empty`"
        raise PartlyDone(f"snapshot {found} holds what is not taken for the truth", detail=judged.doubts, hint=hint)
    if judged.result is Trust.NOT_VERIFIED:
        hint = "verify it on a machine that has the private key"
        raise PartlyDone(
            f"snapshot {found} could only be verified to level {judged.depth} of {judged.level}", hint=hint
        )
    return 0
