"""What a restore uses: the snapshot that was named, else the newest restorable one; and which licence."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from maint.deployment.reader import blocks
from maint.deployment.reducer import KEEP, Fields, Rules, drop, reduced
from maint.errors import Invalid, Refused, StoreFailed, WorkFailed
from maint.files import explaining, read_file
from maint.model.plan import Action
from maint.model.snapshot import Redaction, Snapshot
from maint.ports import Sight
from maint.snapshots.catalogue import KEYS, LATEST, find, newest_restorable
from maint.snapshots.extra_parts import LicenseText, parse_license
from maint.snapshots.manifest import UNTRUSTED, digest
from maint.snapshots.parts import LICENSE, REDACTED_COPY, open_part, read_part

GUARDED = "exit code 5: a guard said no, and nothing was destroyed"  # what every refusal says of its exit code
MANIFEST_FACT = "manifest"  # the fact of a plan that says which manifest it was made from


def chosen(sight: Sight, wanted: str) -> Snapshot:
    """Return the snapshot to restore, by its id or the beginning of it; empty or LATEST: the newest restorable.

    Raises:
        Refused: it must never be restored, or its manifest cannot be believed.
        Invalid: there is none of that id.
    """
    snapshot = _found(sight, wanted) if wanted not in ("", LATEST) else newest_restorable(sight)
    if snapshot.restorable:
        return snapshot
    if snapshot.judgement.redaction is Redaction.REDACTED:
        raise Refused(
            f"snapshot {snapshot.id} is redacted: its secrets are the word REDACTED, and restoring it would break all",
            detail=[GUARDED],
            hint="`maint backup list` shows the restorable ones, `maint backup create --open-window` takes one; "
            "where nothing but redacted ones exists: `maint help heal`",
        )
    problems = [finding.words for finding in snapshot.judgement.findings if finding.passed is not True]
    raise Refused(
        f"snapshot {snapshot.id} is not restorable",
        detail=[*problems, GUARDED],
        hint="`maint backup list` shows others",
    )


def planned(sight: Sight, action: Action) -> Snapshot:
    """Return the snapshot that a planned action names; Refused where its manifest is another one now, or forbids it."""
    return as_planned(sight, action, chosen(sight, str(action.arguments["snapshot"])))


def as_planned(sight: Sight, action: Action, snapshot: Snapshot) -> Snapshot:
    """Return a snapshot that a planned action uses; Refused where its manifest is another one than when planned."""
    planned_from = action.facts.get(MANIFEST_FACT)
    if planned_from is None:
        raise Refused(
            f"the plan does not say which manifest of snapshot {snapshot.id} it was made from: an older maint made it",
            detail=[GUARDED],
            hint="make the plan again; a run that has begun ends with `maint playbook dismiss RUN --reason WORDS`",
        )
    if planned_from != digest(snapshot):
        raise Refused(
            f"the manifest of snapshot {snapshot.id} is not the one that the plan was made from",
            detail=[f"{sight.store.location} gives out another one since", GUARDED],
            hint="look who writes into this store, then make the plan again",
        )
    return snapshot


def manifest_fact(snapshot: Snapshot) -> dict[str, str]:
    """Return what a plan says of the manifest that it was made from; `planned` holds the run to it."""
    return {MANIFEST_FACT: digest(snapshot)}


def _found(sight: Sight, wanted: str) -> Snapshot:
    try:
        return find(sight, wanted)
    except StoreFailed:  # which says nothing of the snapshot
        raise
    except WorkFailed as error:
        raise Refused(
            f"snapshot {wanted} must not be restored: its manifest cannot be believed",
            detail=[error.message, *error.detail, GUARDED],
            hint=KEYS if UNTRUSTED in error.message else "choose a sound one from `maint backup list`",
        ) from error


def clusters_in(sight: Sight, snapshot: Snapshot) -> Mapping[str, frozenset[str]]:
    """Return the clusters in a snapshot, by name and by display name, and the ids of the hosts that have their roles.

    Its redacted copy tells, which needs no key.

    Raises:
        WorkFailed: the copy is not what was stored, or not a deployment.
    """
    with open_part(sight, snapshot, REDACTED_COPY) as stream:
        found = reduced(blocks(stream.read), _CLUSTERS)
    assert isinstance(found, dict)  # what the root's rule returns
    return found


def _clusters(deployment: Fields) -> dict[str, frozenset[str]]:
    listed = deployment.get("clusters") or ()
    return {str(name): hosts for names, hosts in listed for name in names if name}


def _cluster(cluster: Fields) -> tuple[tuple[object, object], frozenset[str]]:
    names = cluster.get("name"), cluster.get("displayName")
    return names, frozenset().union(*cluster.get("services") or ())


def _hosts(service: Fields) -> frozenset[str]:
    return frozenset(service.get("roles") or ())


def _host(role: Fields) -> str | None:
    return (role.get("hostRef") or {}).get("hostId")


_CLUSTERS = Rules(
    {
        "": _clusters,
        "clusters[]": _cluster,
        "clusters[].services[]": _hosts,
        "clusters[].services[].roles[]": _host,
        "clusters[].services[].roles[].hostRef": KEEP,
    },
    otherwise=drop,
)


class UsableLicense(msgspec.Struct, frozen=True):
    """A licence that is in date."""

    text: LicenseText  # what it says of itself
    source: str  # where it comes from
    content: bytes | None = None  # the file; None where the manager has it already

    @property
    def trial(self) -> bool:
        """Whether it only lets people try the product (M9)."""
        return "Trial" in self.text.owner


def usable_license(
    sight: Sight, *, file: str = "", snapshot: Snapshot | None = None, own: bool = True
) -> UsableLicense:
    """Return the licence that counts: a named file; else the first in date of the manager's, the config's, the part.

    A trial of the manager's counts only where neither of the others does.

    Args:
        file: a path that the operator named; empty for none.
        snapshot: whose part counts; None where no snapshot is meant.
        own: whether the manager's own licence counts.

    Raises:
        Invalid: the named file cannot be read, or is not a licence.
        Refused: none of them is in date.
    """
    now, problems, trial = sight.clock.now(), list[str](), None
    offered = [(_named_file(Path(file)), file)] if file else _offered(sight, snapshot, problems)
    if own and not file and (installed := sight.manager.license()) is not None:
        text = LicenseText.of(*msgspec.structs.astuple(installed))
        found = UsableLicense(text, "the manager")
        if objection := text.objection(now):
            problems.append(f"the manager's own {objection}")
        elif not found.trial:
            return found
        else:
            trial = found
    for content, source in offered:
        try:
            text = parse_license(content, source)
        except Invalid as failure:
            if file:
                raise
            problems.append(failure.message)
            continue
        if not (objection := text.objection(now)):
            return UsableLicense(text, source, content)
        problems.append(f"the licence in {source} {objection}")
    if trial is not None:
        return trial
    raise Refused(
        f"the licence in {file} is out of date" if file else "there is no licence in date to upload",
        detail=problems or ["neither the manager, nor the config, nor a snapshot has one"],
        hint="put a valid file where `manager.license` in the config points, or name one: `maint manager license FILE`",
    )


def _offered(sight: Sight, snapshot: Snapshot | None, problems: list[str]) -> Iterator[tuple[bytes, str]]:
    """Yield the config's licence and the snapshot's; what cannot be read is added to `problems`."""
    if (path := sight.settings.manager.license) is not None:
        try:
            yield read_file(path), str(path)
        except OSError as problem:
            problems.append(f"{path} cannot be read: {problem.strerror}")
    if snapshot is not None and snapshot.has(LICENSE):
        try:
            yield read_part(sight, snapshot, LICENSE), f"snapshot {snapshot.id}"
        except (WorkFailed, Refused) as failure:
            problems.append(f"the licence in snapshot {snapshot.id}: {failure.message}")


def _named_file(path: Path) -> bytes:
    with explaining(f"the licence {path} cannot be read", "name a file that this user can read"):
        return read_file(path)
