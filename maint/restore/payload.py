"""What a restore sends: a snapshot's own bytes, what is left after an edit, or its settings for one place (M19).

What is edited is made anew from the snapshot by the rules in the plan, in memory only. Which flag goes with it is
decided here alone: a part sent with `deleteCurrentDeployment=true` would delete all the rest (M8).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import BinaryIO, cast

import msgspec

from maint.deployment.document import Document, items_of, spell, text_of
from maint.deployment.judge import Judge, JudgedDocument
from maint.deployment.normalize import Items, Tree, normalize
from maint.deployment.reader import blocks
from maint.deployment.secrets import SecretIndex, hidden, sensitive, site_fingerprint
from maint.errors import Refused
from maint.model.formatting import show_lines, unknown
from maint.model.json import Json
from maint.model.manager import Cluster, Host, Place, Setting, made_of
from maint.model.snapshot import Snapshot
from maint.ports import Sight
from maint.restore.host_mapping import HostChange, changes_of, leftovers, rewrite
from maint.restore.select_snapshot import GUARDED
from maint.snapshots.parts import DEPLOYMENT, open_part, read_deployment
from maint.snapshots.verify import verdict_of


class Choice(msgspec.Struct, frozen=True):
    """What of a document is brought back."""

    clusters: tuple[str, ...]  # by name, as the document has them
    hosts: tuple[str, ...]  # ids of hosts that go along, since the server lacks them


def choice_of(document: Document, names: Sequence[str], clusters: Sequence[Cluster], hosts: Sequence[Host]) -> Choice:
    """Return which part of a document, its host changes made, brings clusters back, by name or display name.

    Raises:
        UnknownName: the snapshot has no such cluster.
        Refused: the server has one, or a host of it under another id.
    """
    wanted = [_cluster(document, name) for name in dict.fromkeys(names)]
    _refuse_clusters(wanted, clusters)
    known = {host.host_id for host in hosts}
    needed = [host for host in _hosts_of(document, wanted) if text_of(host, "hostId") not in known]
    _refuse_hosts(needed, hosts)
    return Choice(
        tuple(dict.fromkeys(text_of(cluster, "name") for cluster in wanted)),
        tuple(text_of(host, "hostId") for host in needed),
    )


def part_of(document: Document, choice: Choice) -> Document:
    """Return the document that is sent to bring back what was chosen."""
    templates = [
        template
        for template in items_of(document.get("hostTemplates"))
        if text_of(template.get("clusterRef"), "clusterName") in choice.clusters
    ]
    part: Document = {
        "clusters": [one for one in items_of(document.get("clusters")) if text_of(one, "name") in choice.clusters],
        "hosts": [one for one in items_of(document.get("hosts")) if text_of(one, "hostId") in choice.hosts],
    }
    return {**part, "hostTemplates": {"items": templates}} if templates else part


def left_out(document: Document, choice: Choice, hosts: Sequence[Host]) -> list[str]:
    """Return what may belong to the clusters, is not a part of what is sent, and has to be made anew by hand."""
    clusters = [one for one in items_of(document.get("clusters")) if text_of(one, "name") in choice.clusters]
    used_by_them = (text_of(ref, "name") for one in clusters for ref in items_of(one.get("dataContextRefs")))
    contexts = [*used_by_them, *(text_of(one, "name") for one in _made_of_them(document, clusters))]
    used = [
        *_hosts_of(document, items_of(document.get("clusters"))),
        *_hosts_of(document, [{"services": [document.get("managementService")]}]),
    ]
    elsewhere = {host.host_id for host in hosts} | {text_of(host, "hostId") for host in used}
    idle = [
        text_of(one, "hostname") for one in items_of(document.get("hosts")) if text_of(one, "hostId") not in elsewhere
    ]
    return [
        *(f"data context {name}" for name in dict.fromkeys(contexts) if name),
        *(f"host {name} (without a role: an export does not tell its cluster)" for name in idle),
        *_limits(document, choice.clusters),
    ]


def _made_of_them(document: Document, clusters: Sequence[Document]) -> list[Document]:
    owned = {
        text_of(one, "name"): [text_of(each, "name") for each in items_of(one.get("services"))] for one in clusters
    }
    contexts = items_of(document.get("dataContexts"))
    return [one for one in contexts if any(made_of(one, name, services) for name, services in owned.items())]


def _limits(document: Document, clusters: Sequence[str]) -> Iterator[str]:
    # A manager may have forgotten them with the cluster.
    for role in items_of(document.get("authRoles")):
        for ref in items_of(role.get("clusters")):
            if (cluster := text_of(ref, "clusterName")) in clusters:
                name = text_of(role, "displayName") or text_of(role, "name")
                yield f"the limit of the user role {name} to cluster {cluster}"


def refuse_existing(part: dict[str, Tree], present: dict[str, Tree]) -> None:
    """Refuse a part of which anything exists on the server already, naming it (M8, flag false; U4)."""
    there = {
        *(f"{kind} {name}" for kind in ("clusters", "hosts", "hostTemplates") for name in _branch(present, kind)),
        *(f"role {name}" for name in _roles(present)),
    }
    here = [
        *(f"{kind} {name}" for kind in ("clusters", "hosts", "hostTemplates") for name in _branch(part, kind)),
        *(f"role {name}" for name in _roles(part)),
    ]
    twice = [name for name in here if name in there]
    if twice:
        raise Refused(
            "some of it exists on the server already, so nothing is sent",
            detail=[*show_lines(twice, 10), GUARDED],
            hint="only what the server lacks can be brought back; rename or delete what is in the way, "
            "or restore the whole snapshot: `maint restore plan`",
        )


def same_places(present: dict[str, Tree], part: dict[str, Tree]) -> dict[str, Tree]:
    """Return of the present tree only the clusters, hosts and templates that a part has: what can be compared."""
    return {
        kind: Items({name: value for name, value in _branch(present, kind).items() if name in _branch(part, kind)})
        for kind in part
    }


def _cluster(document: Document, name: str) -> Document:
    clusters = items_of(document.get("clusters"))
    for key in ("name", "displayName"):
        found = [cluster for cluster in clusters if text_of(cluster, key) == name]
        if len(found) == 1:
            return found[0]
    known = [text_of(cluster, "name") for cluster in clusters]
    raise unknown(f"the snapshot has no cluster {name!r}", name, known, "`maint backup list` shows other snapshots")


def _refuse_clusters(wanted: Sequence[Document], clusters: Sequence[Cluster]) -> None:
    taken = {name for cluster in clusters for name in (cluster.name, cluster.display_name) if name}
    for cluster in wanted:
        for key in ("name", "displayName"):
            if text_of(cluster, key) in taken:
                raise Refused(
                    f"the manager has a cluster {text_of(cluster, key)!r} already",
                    detail=[GUARDED],
                    hint="only what the server lacks can be brought back; to put a whole snapshot in its place: "
                    "`maint restore plan`",
                )


def _hosts_of(document: Document, clusters: Sequence[Document]) -> list[Document]:
    needed = {
        text_of(role.get("hostRef"), "hostId")
        for cluster in clusters
        for service in items_of(cluster.get("services"))
        for role in items_of(service.get("roles"))
    }
    return [host for host in items_of(document.get("hosts")) if text_of(host, "hostId") in needed]


def _refuse_hosts(needed: Sequence[Document], hosts: Sequence[Host]) -> None:
    names = {host.hostname: host.host_id for host in hosts}
    for host in needed:
        name = text_of(host, "hostname")
        if name in names:
            raise Refused(
                f"the manager knows host {name} under another id",
                detail=[f"{text_of(host, 'hostId')} in the snapshot, {names[name]} on the server"],
                hint=f"--map-host {name}={names[name]}",
            )


def _branch(tree: Tree, *path: str) -> dict[str, Tree]:
    for key in path:
        tree = tree.get(key, "") if isinstance(tree, dict) else ""
    return tree if isinstance(tree, dict) else {}


def _roles(tree: dict[str, Tree]) -> Iterator[str]:
    for cluster in _branch(tree, "clusters").values():
        for service in _branch(cluster, "services").values():
            yield from _branch(service, "roles")
    yield from _branch(tree, "managementService", "roles")


class Edit(msgspec.Struct, frozen=True):
    """What is done to a snapshot's document before it is sent, fixed when the plan is made."""

    changes: tuple[HostChange, ...] = ()  # hosts that become others
    choice: Choice | None = None  # the part that is sent; None for the whole
    leftovers: tuple[str, ...] = ()  # places whose text still names an old host
    left_out: tuple[str, ...] = ()  # what belongs to the part and is not sent

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON; `from_json` reads it back."""
        found: dict[str, Json] = msgspec.to_builtins(self)
        return found

    @staticmethod
    def from_json(value: object) -> "Edit":
        """Read back what `to_json` wrote."""
        return msgspec.convert(value, Edit)


class Outgoing(msgspec.Struct, frozen=True):
    """A document to send."""

    snapshot: Snapshot
    edit: Edit
    content: bytes | None = None  # its bytes where it was edited; None where it is the snapshot's own

    def __repr__(self) -> str:
        return f"Outgoing({self.snapshot.id!r}, {self.edit!r})"  # never the document, which has secrets

    @property
    def whole(self) -> bool:
        """Whether it replaces all that is there; a part is added to it."""
        return self.edit.choice is None

    @property
    def length(self) -> int:
        """Bytes."""
        return self.snapshot.part(DEPLOYMENT).content_bytes if self.content is None else len(self.content)

    @contextmanager
    def open(self, sight: Sight) -> Iterator[BinaryIO]:
        """Open it as a stream."""
        if self.content is not None:
            yield cast(BinaryIO, BytesIO(self.content))
            return
        with open_part(sight, self.snapshot, DEPLOYMENT) as stream:
            yield stream

    def tree(self, sight: Sight, known: SecretIndex | None = None) -> dict[str, Tree]:
        """Return it as a tree; secrets are fingerprints, and are noted in `known` for who shows texts of it."""
        fingerprint = site_fingerprint(sight)
        with self.open(sight) as stream:
            return normalize(blocks(stream.read), fingerprint if known is None else known.noting(fingerprint))

    def verdict(self, sight: Sight) -> JudgedDocument:
        """Judge it: what is in it, and does it hang together?"""
        if self.content is None:
            return verdict_of(sight, self.snapshot)
        return Judge().verdict(blocks(BytesIO(self.content).read))


def planned_edit(sight: Sight, snapshot: Snapshot, clusters: Sequence[str], map_hosts: Sequence[str]) -> Edit:
    """Return what has to be done to a document for these clusters (none: the whole); raises like the two it calls."""
    if not clusters and not map_hosts:
        return Edit()
    document, hosts = read_deployment(sight, snapshot), sight.manager.hosts()
    changes = changes_of(map_hosts, document, hosts)
    rewrite(document, changes)
    choice = choice_of(document, clusters, sight.manager.clusters(), hosts) if clusters else None
    sent = part_of(document, choice) if choice else document
    return Edit(
        changes, choice, tuple(leftovers(sent, changes)), tuple(left_out(document, choice, hosts)) if choice else ()
    )


def outgoing(sight: Sight, snapshot: Snapshot, edit: Edit) -> Outgoing:
    """Return the document that a restore sends."""
    if edit.choice is None and not edit.changes:
        return Outgoing(snapshot, edit)
    document = read_deployment(sight, snapshot)
    rewrite(document, edit.changes)
    return Outgoing(snapshot, edit, spell(part_of(document, edit.choice) if edit.choice else document))


def settings_in(sight: Sight, snapshot: Snapshot, place: Place) -> Mapping[str, Setting]:
    """Return by name what a snapshot has set on a place.

    Raises:
        Refused: the snapshot has no such place, or a secret of it reads REDACTED.
    """
    holder = _holder(read_deployment(sight, snapshot), place)
    if holder is None:
        hint = f"`maint backup show {snapshot.id}` says what it holds; names may have changed since"
        raise Refused(f"snapshot {snapshot.id} has no {place}", hint=hint)
    found = {}
    for item in items_of(holder.get("managerSettings" if place == Place() else "config")):
        name, value = text_of(item, "name"), item.get("value")
        if hidden(name, value, item.get("sensitive")):
            hint = "`maint backup list` shows the restorable ones"
            raise Refused(f"{name} of {place} is hidden in snapshot {snapshot.id}: it is never written", hint=hint)
        flagged = sensitive(name, item.get("sensitive"))
        found[name] = Setting(name, None if value is None else str(value), None, flagged)
    return found


def groups_in(sight: Sight, snapshot: Snapshot, service: Place) -> list[str]:
    """Return the role config groups that a snapshot has of a service."""
    found = _service(read_deployment(sight, snapshot), service)
    return [text_of(one, "name") for one in items_of(found.get("roleConfigGroups"))] if found else []


def _holder(document: Document, place: Place) -> Document | None:
    if place == Place():
        return document
    if place.host:
        known = items_of(document.get("hosts"))
        return next((one for one in known if place.host in (one.get("hostId"), one.get("hostname"))), None)
    service = _service(document, place)
    if service is None or not (place.role or place.role_group):
        return service
    listed, name = ("roles", place.role) if place.role else ("roleConfigGroups", place.role_group)
    return next((one for one in items_of(service.get(listed)) if one.get("name") == name), None)


def _service(document: Document, place: Place) -> Document | None:
    if not place.cluster:
        management = document.get("managementService")
        return management if isinstance(management, dict) and management.get("name") == place.service else None
    for cluster in items_of(document.get("clusters")):
        if cluster.get("name") == place.cluster:
            return next((one for one in items_of(cluster.get("services")) if one.get("name") == place.service), None)
    return None
