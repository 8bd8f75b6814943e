"""`maint backup verify`: prove that a snapshot is what it says."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Annotated

from maint.cli.after_run import followed, planned
from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.open_site import opened
from maint.cli.options import MANAGER, WORKS, Flags, argument, number, option, seconds_of
from maint.cli.screen import Screen
from maint.engine.shared_runs import at_work
from maint.errors import Invalid, MaintError, Mistyped, PartlyDone, Refused, StoreFailed, UsageError, WorkFailed
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.snapshot import Trust
from maint.snapshots.catalogue import LATEST, Gone, entries, find_id, load, usual_level
from maint.snapshots.parts import DEPLOYMENT
from maint.snapshots.records import STRAY, Verification, unkept
from maint.snapshots.verify import all_mistyped, insist_on_password, record, refuse_mistyped
from maint.snapshots.verify import verify as verify_snapshot

_NEVER = datetime.min.replace(tzinfo=UTC)
_OTHERS = "`maint backup list` shows others"
_BACK = "where a copy in another store is sound (`--store`), what is damaged can be put back from there"
_AWAY = "it does a restore no harm, and may hold secrets in clear: look what it is, remove it, then verify again"
_AUDIT = "it serves for audit (`--level 2`); `maint backup create --open-window` takes a restorable one"


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
            if stale:
                levels = _stale(site, seconds_of("--stale", stale), level, deepest)
            else:
                found = find_id(site, snapshot or LATEST)
                levels = {found: level or min(deepest, _usual(site, found))}
        chosen = [*levels]
        if flags.dry_run:
            depth = max(levels.values(), default=deepest)
            words = f"would verify {', '.join(chosen) or 'none'} to level {depth}"
            told: Json = [*chosen] if stale else chosen[0]
            screen.emit({"snapshots" if stale else "snapshot": told, "level": depth}, words)
            return 0
        with followed(site, screen, "backup verify") if configured else nullcontext() as begin:
            judged, why = _all_judged(site, screen, levels, begin, several=bool(stale))
            return _verified_all(screen, judged, why) if stale else _verified(screen, judged, why)


def _usual(site: ConfiguredSite, found: str) -> int:
    try:
        return usual_level(load(site, found))
    except WorkFailed:  # which the verification will tell
        return 3


def _stale(site: ConfiguredSite, age: float, asked: int | None, deepest: int) -> Mapping[str, int]:
    """Return the snapshots not looked at as deep as now for so many seconds, the longest ago first, and how deep."""
    limit, levels, last = site.clock.now() - timedelta(seconds=age), dict[str, int](), dict[str, datetime]()
    for one in entries(site):
        levels[one.id] = asked or min(deepest, one.usual_level)
        last[one.id] = one.seen(levels[one.id]) or _NEVER
    return {one: levels[one] for one in sorted(last, key=lambda one: (last[one], one)) if last[one] < limit}


def _verified_all(screen: Screen, found: Sequence[Verification], why: MaintError | None) -> int:
    """Show what was found of several snapshots; see `_all_judged` for `why`."""
    words = "\n".join(f"{one.snapshot}: {one.words}" for one in found)
    data: list[Json] = [one.to_json() for one in found]
    screen.emit({"verifications": data}, words or "no snapshot was verified so long ago")
    failed = [one for one in found if one.result is Trust.FAILED]
    if failed:
        told = f"{show_count(len(failed), 'snapshot')} of {len(found)} failed"
        each = [f"{one.snapshot}: {one.failures[0].words}" for one in failed]
        raise WorkFailed(told, detail=[*each, *([why.message] if why else [])], hint=_OTHERS)
    if why is not None:
        raise why
    untold = [one.snapshot for one in found if one.result is Trust.NOT_VERIFIED]
    if untold:
        told = f"{show_count(len(untold), 'snapshot')} could not be verified as deep as was asked"
        raise PartlyDone(told, detail=untold, hint=f"`maint backup verify {untold[0]}` says why; so of each")
    return 0


def _judged(
    site: ConfiguredSite, screen: Screen, found: str, level: int, begin: Callable[[], None] | None
) -> tuple[Verification, PartlyDone | None]:
    """Verify a snapshot under the lock, so that a backup need not wait for several; say why the result is not kept.

    Args:
        begin: called once the lock is held; None: the result is not to be kept.
    """
    with at_work(site, "backup verify", screen.say):
        if begin is not None:
            begin()
        judged = verify_snapshot(site, found, level)
        refuse_mistyped(site, judged)
        try:
            if begin is not None:
                record(site, judged)
        except WorkFailed as failure:
            return judged, unkept(failure)
    return judged, None


def _all_judged(
    site: ConfiguredSite,
    screen: Screen,
    levels: Mapping[str, int],
    begin: Callable[[], None] | None,
    *,
    several: bool,
) -> tuple[Sequence[Verification], MaintError | None]:
    """Verify snapshots as deep as the secrets at hand allow; return what was found, and what else is to be raised.

    Of `several`, one that is gone, or whose manifest the store does not give, keeps nobody from the others.
    """
    deepest, why = _within_reach(site, levels)
    judged, mistyped = list[tuple[Verification, PartlyDone | None]](), list[Mistyped]()
    for one, level in levels.items():
        try:
            judged.append(_judged(site, screen, one, min(level, deepest), begin))
        except Mistyped as failure:
            mistyped.append(failure)
        except Gone as gone:
            if not several:
                raise
            screen.say(gone.message)
        except (Invalid, Refused):  # a secret can be read no longer, such as of a vault that let one in for an hour
            deepest, why = _within_reach(site, levels)
            if why is None:
                raise
            judged.append(_judged(site, screen, one, min(level, deepest), begin))
        except StoreFailed as failure:
            if not several:
                raise
            untold = Verification(one, level, 0, 0, 0, site.clock.now(), doubts=(failure.in_a_line,))
            judged.append((untold, None))
    found, lost = [one for one, _ in judged], [one for _, one in judged if one is not None]
    if why is not None:
        shallow = sum(one.level < levels[one.snapshot] for one in found)
        wants = "level 3 tries this password" if deepest == 2 else "level 2 opens what is encrypted with this key"
        why.detail = (*why.detail, f"{wants}; looked at to level {deepest} only: {show_count(shallow, 'snapshot')}")
    elif mistyped:
        why = all_mistyped(mistyped)
        why.hint = f"{why.hint}; `--level 2` wants none"
    if why is None:
        return found, lost[0] if lost else None
    why.detail = (*why.detail, *(one.in_a_line for one in lost[:1]))
    return found, why


def _within_reach(site: ConfiguredSite, levels: Mapping[str, int]) -> tuple[int, MaintError | None]:
    """Return how deep the secrets at hand let one look, and why no deeper: level 2 wants the key, 3 the password."""
    try:
        keys = site.identities() if max(levels.values(), default=0) > 1 else ()
    except (Invalid, Refused) as failure:
        return 1, failure
    try:
        if keys and any(level == 3 and _tries_password(site, one) for one, level in levels.items()):
            insist_on_password(site)
    except (Invalid, Refused) as failure:
        return 2, failure
    return 3, None


def _tries_password(site: ConfiguredSite, found: str) -> bool:
    try:
        return load(site, found).has(DEPLOYMENT)
    except (WorkFailed, Gone):  # which the verification will tell
        return False


def _verified(screen: Screen, found: Sequence[Verification], why: MaintError | None) -> int:
    """Show what was found of one snapshot; see `_all_judged` for `why`."""
    if not found and why is not None:
        raise why
    (judged,) = found
    snapshot = judged.snapshot
    screen.emit({"verification": judged.to_json()}, f"{snapshot}: {judged.words}")
    if judged.result is Trust.FAILED:
        detail = [f"{finding.rule}: {finding.words}" for finding in judged.failures]
        detail += [why.in_a_line] if why is not None else []
        whole = judged.depth == 2 and not judged.broken_bytes
        words = "is whole, and not restorable" if whole else "is not sound"
        words = "is whole, and the configured account does not get into it" if judged.shut_out else words
        words = "is signed by nobody who is trusted here" if judged.unknown_signer else words
        known = judged.misdated or judged.shut_out or judged.unknown_signer
        hint = judged.way_on if known else _AUDIT if whole else f"{_OTHERS}; {_BACK}"
        raise WorkFailed(f"snapshot {snapshot} {words}", detail=detail, hint=hint)
    if why is not None:
        raise why
    if strays := [one for one in judged.doubts if one.endswith(STRAY)]:
        raise PartlyDone(f"among the parts of snapshot {snapshot} lies what is none", detail=strays, hint=_AWAY)
    if judged.proven and judged.doubts:
        hint = "take the backup again; where there really is so little, with `--accept-empty`"
        raise PartlyDone(f"snapshot {snapshot} holds what is not taken for the truth", detail=judged.doubts, hint=hint)
    if judged.result is Trust.NOT_VERIFIED:
        hint = judged.way_on if judged.unread else "verify it on a machine that has the private key"
        raise PartlyDone(
            f"snapshot {snapshot} could only be verified to level {judged.depth} of {judged.level}", hint=hint
        )
    return 0
