"""Snapshots as the commands show them."""

from maint.cli.composition import ConfiguredSite
from maint.cli.schedule.metrics import publish
from maint.cli.screen import Screen
from maint.engine.lock import site_lock
from maint.errors import Invalid, PartlyDone, WorkFailed
from maint.model.formatting import show_size
from maint.model.json import Json
from maint.model.snapshot import ClusterSummary, Purpose, Snapshot, Trust
from maint.snapshots.catalogue import Entry, entries, find_id
from maint.snapshots.manifest import clusters_json, show_time
from maint.snapshots.parts import DEPLOYMENT
from maint.snapshots.verify import record, verify


def row(entry: Entry) -> list[str]:
    """Return a snapshot as a line of the list."""
    snapshot, checked = entry.snapshot, "never"
    if entry.verified is not None:
        checked = f"{entry.verified.result.value}, level {entry.verified.level}, {show_time(entry.verified.at)}"
    if snapshot is None:
        return [entry.id, "?", "no", checked, "?", entry.problem or "cannot be read"]
    size = show_size(sum(part.bytes for part in snapshot.parts))
    note = "" if snapshot.restorable else f"audit-only: {snapshot.judgement.redaction.value}"
    note = note if snapshot.has(DEPLOYMENT) else "virtual clusters alone"
    if names := [one.name for one in snapshot.virtual_clusters]:
        note = f"{note}; {', '.join(names)}".lstrip("; ")
    if doubtful := [one.name for one in snapshot.virtual_clusters if one.doubt or one.problems]:
        note = f"{note}; NOT WHOLE: {', '.join(doubtful)}"
    if entry.rejected:
        note = f"{note}; ITS DRILL FAILED".lstrip("; ")
    return [entry.id, snapshot.purpose.value, "yes" if entry.restorable else "no", checked, size, note]


def as_json(entry: Entry) -> dict[str, Json]:
    """Return a snapshot as `backup list -o json` promises it."""
    verified: Json = None
    if entry.verified is not None:
        result = entry.verified.result.value
        verified = {"level": entry.verified.level, "at": show_time(entry.verified.at), "result": result}
    snapshot = entry.snapshot
    if snapshot is None:
        return {"id": entry.id, "restorable": False, "problem": entry.problem, "verified": verified, "parts": []}
    drilled: Json = None
    if entry.drilled is not None:
        drilled = {"at": show_time(entry.drilled.at), "passed": entry.drilled.passed, "reason": entry.drilled.reason}
    return {**_facts(snapshot), "restorable": entry.restorable, "verified": verified, "drilled": drilled}


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
        "virtual_clusters": clusters_json(snapshot.virtual_clusters),
    }


def described(snapshot: Snapshot) -> tuple[dict[str, Json], str]:
    """Return all that is known of one snapshot, as JSON and for people."""
    judgement = snapshot.judgement
    marks = {True: "ok", False: "FAILED", None: "could not tell"}
    data: dict[str, Json] = {
        **_facts(snapshot),
        "manager": snapshot.manager,
        "account": snapshot.account,
        "versions": dict(snapshot.versions),
        "redaction": judgement.redaction.value,
        "counts": dict(judgement.counts),
        "findings": [{"rule": f.rule, "passed": f.passed, "words": f.words} for f in judgement.findings],
        "uncovered": list(snapshot.uncovered),
        "host_files": dict(snapshot.host_files),
        "recipients": list(snapshot.recipients),
        "manager_files": list(snapshot.manager_files),
        "healed_from": dict(snapshot.healed_from) or None,
    }
    lines = [
        f"snapshot {snapshot.id} of {snapshot.site} ({snapshot.manager}), for {snapshot.purpose.value}",
        f"restorable: {'yes' if snapshot.restorable else 'no'}; redaction: {judgement.redaction.value}",
        *_healed(snapshot),
        "versions: " + ", ".join(f"{key} {value}" for key, value in snapshot.versions.items()),
        "holds: " + ", ".join(f"{count} {key}" for key, count in judgement.counts.items()),
        *(f"  {part.name}: {show_size(part.bytes)}, sha256 {part.sha256[:16]}…" for part in snapshot.parts),
        *(words for one in snapshot.virtual_clusters for words in _cluster(one)),
        *(f"  rule {finding.rule}: {marks[finding.passed]}: {finding.words}" for finding in judgement.findings),
        "not covered:",
        *(f"  {words}" for words in snapshot.uncovered),
    ]
    return data, "\n".join(lines)


def _cluster(one: ClusterSummary) -> list[str]:
    """Return what a snapshot tells of a virtual cluster, a line each."""
    size = f"{one.files} files of {show_size(one.bytes)}"
    head = f"  virtual cluster {one.name} ({one.base_url}): {one.jobs} jobs, {one.resources} resources, {size}"
    missing = [f"    MISSING: {words}" for words in one.problems]
    return [head, *missing, *([f"    DOUBT: {one.doubt}"] if one.doubt else [])]


def _healed(snapshot: Snapshot) -> list[str]:
    told = snapshot.healed_from
    return [f"healed: {told.get('redacted')}, filled from {told.get('from')} at {told.get('at')}"] if told else []


def verified(site: ConfiguredSite, screen: Screen, wanted: str, level: int, *, keep: bool = True) -> int:
    """Verify one snapshot, keep the record unless told otherwise, show it.

    Raises:
        WorkFailed: it failed.
        PartlyDone: it could not be told to that depth.
    """
    found = find_id(site, wanted) if wanted else _newest(site)
    with site_lock(site.state, site.settings.name, "backup verify", site.clock):
        judged = verify(site, found, level)
        if keep:
            record(site, judged)
            publish(site, screen)
    screen.emit({"verification": judged.to_json()}, f"{found}: {judged.words}")
    if judged.result is Trust.FAILED:
        detail = [f"{finding.rule}: {finding.words}" for finding in judged.failures]
        raise WorkFailed(f"snapshot {found} is not sound", detail=detail, hint="`maint backup list` shows others")
    if judged.proven and judged.doubts:
        hint = "take the backup again; where there really is so little, with `--accept-empty`"
        raise PartlyDone(f"snapshot {found} holds what is not taken for the truth", detail=judged.doubts, hint=hint)
    if judged.result is Trust.NOT_VERIFIED:
        hint = "verify it on a machine that has the private key"
        raise PartlyDone(f"snapshot {found} could only be verified to level {judged.depth} of {level}", hint=hint)
    return 0


def _newest(site: ConfiguredSite) -> str:
    known = entries(site)
    if not known:
        raise Invalid(f"there is no snapshot of {site.settings.name} yet", hint="`maint backup create` takes one")
    backups = [one for one in known if one.snapshot is None or one.snapshot.purpose is Purpose.BACKUP]
    return (backups or known)[-1].id
