"""`maint backup heal|rekey`: fill the secrets that a snapshot lacks; encrypt snapshots for other recipients."""

from collections.abc import Callable, Collection, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Annotated

from maint.cli.after_run import BRIEFLY, refresh
from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.open_site import opened
from maint.cli.options import Flags, argument, option
from maint.cli.screen import Screen, ask_change
from maint.config.paths import absolute, actor
from maint.config.secrets import check_reference
from maint.config.yaml import load
from maint.engine.shared_runs import at_work
from maint.errors import CannotReach, Invalid, Mistyped, PartlyDone, Refused, StoreFailed, UsageError, WorkFailed
from maint.files import read_private
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.snapshot import Purpose, Snapshot, Trust
from maint.snapshots.catalogue import Gone, entries, find, find_id, refuse_removed
from maint.snapshots.heal import Healed, Scalar, filled_document, values_of
from maint.snapshots.heal import heal as fill
from maint.snapshots.in_progress import refuse_clock_ahead
from maint.snapshots.parts import read_deployment
from maint.snapshots.prune import follow
from maint.snapshots.recipients import Aged, aged, copy_holds, let_go
from maint.snapshots.recipients import rekey as encrypt_anew
from maint.snapshots.records import FEW
from maint.snapshots.replicate import replicate, tidied
from maint.snapshots.verify import all_mistyped, insist_on_password, prove_new
from maint.snapshots.virtual_clusters.blobs import collect

_SHOWN = 50  # values named in a message; -o json names them all
Values = Callable[[str], Scalar | None]
_NOTHING = "nothing to do: it is encrypted for the recipients of the config"
_AGAIN = "mend what is named, then run it again: what is done stays done"


@command()
def heal(
    flags: Flags,
    snapshot: Annotated[str, argument("The redacted snapshot: its id or the beginning of it.")],
    source: Annotated[str, option("--from", "An older snapshot that is not redacted.")] = "",
    secrets: Annotated[str, option("--secrets", "A file of paths and references, 0600.")] = "",
    purpose: Annotated[str, option("--purpose", "backup or safety.")] = "backup",
) -> int:
    """Fill the secrets that a redacted snapshot lacks, and keep the result as a snapshot of its own."""
    if bool(source) == bool(secrets):
        raise UsageError(
            "the secrets come from exactly one place",
            hint="--from SNAPSHOT or --secrets FILE; what was healed can be healed again",
        )
    if purpose not in {one.value for one in Purpose}:
        raise UsageError(f"there is no purpose {purpose!r}", hint="backup or safety")
    with opened(flags) as (site, screen):
        if not site.identities():
            raise Refused(
                "this machine has no private key, and a snapshot is healed from the inside",
                hint="heal it where backup.identity is",
            )
        redacted = find(site, snapshot)
        if flags.dry_run:
            return _foretold(site, screen, redacted, source, secrets)
        with at_work(site, "backup heal", screen.say):
            older, values, words = _values(site, source, secrets)
            rule = older.judgement.hash_rule if older else None
            filled = fill(site, find(site, redacted.id), values, words, purpose=Purpose(purpose), hash_rule=rule)
            healed = screen.follow(filled)
        refresh(site, screen, BRIEFLY)
        return _told(screen, redacted.id, healed)


def _foretold(site: ConfiguredSite, screen: Screen, redacted: Snapshot, source: str, secrets: str) -> int:
    _, values, words = _values(site, source, secrets)
    _, filled, left = filled_document(site, redacted, values, words)
    screen.emit(
        {"snapshot": redacted.id, "filled": filled, "left": list(left)},
        f"would fill snapshot {redacted.id} from {source or secrets}: {show_count(filled, 'value')}, {len(left)} left",
    )
    return 0


def _values(site: ConfiguredSite, source: str, secrets: str) -> tuple[Snapshot | None, Values, str]:
    # The older snapshot, where one is the source; what it or the file holds, and its name in words.
    older = find(site, source) if source else None
    return (older, *(_from_snapshot(site, older) if older else _from_file(site, absolute(secrets))))


def _from_snapshot(site: ConfiguredSite, older: Snapshot) -> tuple[Values, str]:
    document = read_deployment(site, older)
    insist_on_password(site, older)  # whose hash the healed one gets
    return values_of(document).get, f"snapshot {older.id}"


def _from_file(site: ConfiguredSite, path: Path) -> tuple[Values, str]:
    """Read a secrets file: path → reference; in a file sealed with age, path → the value itself."""
    if path.suffix == ".age":
        known = _mapping(_unsealed(site, path), str(path))
        return known.get, f"the sealed file {path}"
    references = _mapping(site.secrets.resolve(f"file:{path}").reveal(), str(path))
    for place, reference in references.items():
        try:
            check_reference(str(reference))
        except ValueError as error:
            raise Invalid(f"{path}: the value of {place} {error}", hint="or seal the file with age") from None

    def resolved(place: str) -> Scalar | None:
        return site.secrets.resolve(str(references[place])).reveal() if place in references else None

    return resolved, f"the secrets file {path}"


def _unsealed(site: ConfiguredSite, path: Path) -> str:
    content = read_private(path)
    if content is None:
        raise Invalid(f"there is no file {path}", hint="correct the path that `--secrets` was given")
    with site.seal.decrypt(BytesIO(content), site.identities()) as stream:
        try:
            return stream.read().decode()
        except UnicodeDecodeError:
            raise Invalid(
                f"what {path} holds is not text", hint="it is YAML, in UTF-8: `maint help heal` shows one"
            ) from None


def _mapping(text: str, name: str) -> Mapping[str, Scalar]:
    data = load(text, name).data
    if not isinstance(data, dict) or not all(isinstance(value, str | int) for value in data.values()):
        raise Invalid(f"{name} is not a mapping of paths to values", hint="`maint help heal` shows one")
    return {str(key): value for key, value in data.items() if isinstance(value, str | int)}


def _told(screen: Screen, redacted: str, healed: Healed) -> int:
    snapshot, left = healed.snapshot, list(healed.left)
    words = f"snapshot {snapshot.id}: {redacted} healed, {show_count(healed.filled, 'value')} filled"
    screen.emit(
        {
            "snapshot": snapshot.id,
            "healed_from": dict(snapshot.healed_from),
            "restorable": snapshot.restorable,
            "filled": healed.filled,
            "left": list(left),
            "verification": healed.verification.to_json(),
        },
        f"{words}; {'restorable' if snapshot.restorable else 'audit-only'}",
    )
    if left:
        more = [f"and {len(left) - _SHOWN} more"] if len(left) > _SHOWN else []
        raise PartlyDone(
            f"{show_count(len(left), 'value')} could not be filled; snapshot {snapshot.id} is audit-only",
            detail=[*left[:_SHOWN], *more],
            hint=f"`maint backup heal {snapshot.id} --secrets FILE` goes on from here",
        )
    if healed.verification.result is Trust.FAILED or not snapshot.restorable:
        found = (*healed.verification.failures, *snapshot.judgement.findings)
        broken = [one.words for one in found if one.passed is False]
        raise WorkFailed(
            f"snapshot {snapshot.id} is healed, and is not sound",
            detail=list(dict.fromkeys(broken)),
            hint=f"`maint backup show {snapshot.id}` names each broken rule; heal it from another source",
        )
    return 0


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
            words = [_shown(one) for one in todo]
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
            for line in tidied(site):
                screen.say(line)
            made, problems = _carried_out(site, screen, _chosen(site, wanted), prune_old)
        refresh(site, screen, BRIEFLY)
        done: list[Json] = [_json(one, new) for one, new in made]
        before = sum(one.made is not None for one, _ in made)
        fresh = {new.id for one, new in made if one.made is None}
        told = f"encrypted anew: {show_count(len(fresh), 'snapshot')}"
        told += f", {before} already before" if before else ""
        screen.emit({"rekeyed": done}, told if todo or done else _NOTHING)
        if problems:
            raise PartlyDone(f"not everything was done: {len(problems)}", detail=problems, hint=_AGAIN)
        return 0


def _shown(one: Aged) -> str:
    if one.made:
        return f"{one.old.id} is {one.made.id} already"
    return f"{one.old.id} is {one.newer}, encrypted before" if one.newer else f"would encrypt {one.old.id} anew"


def _chosen(site: ConfiguredSite, wanted: str) -> Sequence[Aged]:
    return [one for one in aged(site) if wanted in ("", one.old.id)]


def _carried_out(
    site: ConfiguredSite, screen: Screen, todo: Sequence[Aged], prune_old: bool
) -> tuple[list[tuple[Aged, Snapshot]], list[str]]:
    anew, problems, mistyped, unread = dict[str, Snapshot](), list[str](), list[Mistyped](), 0
    if prune_old and todo:
        refuse_clock_ahead(site)  # `let_go` would, after hours of reading
    unproven = {entry.id for entry in entries(site) if entry.proven is None} if todo else set()
    for one in sorted(todo, key=lambda each: bool(each.newer)):
        try:
            new = one.made or anew.get(one.newer) or screen.follow(encrypt_anew(site, one.old, actor()))
            if one.made and new.id in unproven:  # a run before had no key for it, or was killed
                screen.follow(prove_new(site, new, opening=True))
            copy_holds(site, one, new)
            anew[one.old.id] = new
        except Mistyped as failure:
            mistyped.append(failure)
        except (WorkFailed, Refused) as failure:
            if isinstance(failure, StoreFailed) and (unread := unread + 1) > FEW:
                raise
            try:
                refuse_removed(site, one.old.id)
            except Gone as gone:
                screen.say(gone.message)
            else:
                problems.append(f"{one.old.id}: {failure.in_a_line}")
    made = [(one, anew[one.old.id]) for one in todo if one.old.id in anew]
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
    return made, problems


def _unproven(site: ConfiguredSite, made: Collection[str]) -> list[str]:
    seen = [entry for entry in entries(site) if entry.id in made]
    words = "is not verified: no private key at hand opens it; put one of its recipients' beside the old one"
    return [f"{one.id} {words} in backup.identity" for one in seen if one.proven is None]


def _json(one: Aged, made: Snapshot | None) -> Json:
    return {"from": one.old.id, "snapshot": made.id if made else None}
