"""RESTORE.txt: how to get a snapshot's bytes back, and a manager from them, with stock tools only."""

from collections.abc import Mapping

from maint.model.json import Json
from maint.model.site import SiteSettings
from maint.model.snapshot import Snapshot
from maint.render import from_file
from maint.snapshots.host_notes import kept
from maint.snapshots.ids import show_time
from maint.snapshots.parts import DEPLOYMENT, LICENSE, TRUSTSTORE
from maint.snapshots.virtual_clusters.document import part_name


def recipe(snapshot: Snapshot, settings: SiteSettings, location: str) -> str:
    """Return the text for one snapshot; it names everything and holds no secret."""
    if not snapshot.has(DEPLOYMENT):
        return from_file("RESTORE-vc.txt.j2", _common(snapshot, location))
    return from_file("RESTORE.txt.j2", {**_common(snapshot, location), **_values(snapshot, settings)})


def _common(snapshot: Snapshot, location: str) -> Mapping[str, object]:
    return {
        "id": snapshot.id,
        "site": snapshot.site,
        "store": location,
        "taken_at": show_time(snapshot.taken_at),
        "recipients": list(snapshot.recipients),
        "parts": [{"name": part.name, "bytes": part.bytes, "sha256": part.sha256} for part in snapshot.parts],
        "clusters": [one for one in snapshot.virtual_clusters if snapshot.has(part_name(one.name))],
        "uncovered": list(snapshot.uncovered),
    }


def _values(snapshot: Snapshot, settings: SiteSettings) -> Mapping[str, object]:
    deployment = snapshot.part(DEPLOYMENT)
    return {
        "restorable": snapshot.restorable,
        "redaction": snapshot.judgement.redaction.value,
        "account": snapshot.account,
        "host": snapshot.manager,
        "plain_port": settings.manager.plain_port,
        "tls_port": settings.manager.tls_port,
        "release": snapshot.versions["manager"],
        "api": snapshot.versions["api"],
        "content_bytes": deployment.content_bytes,
        "content_sha256": deployment.content_sha256,
        "has_license": snapshot.has(LICENSE),
        "has_truststore": snapshot.has(TRUSTSTORE),
        "manager_files": list(snapshot.manager_files),
        "host_files": [_host_file(snapshot, path, note) for path, note in snapshot.host_files.items()],
    }


def _host_file(snapshot: Snapshot, path: str, note: Json) -> Mapping[str, object]:
    fields = note if isinstance(note, Mapping) else {}
    return {
        "path": path,
        "present": bool(fields.get("present")),
        "value": fields.get("value") or "",
        "kept": kept(snapshot, path),
    }
