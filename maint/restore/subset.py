"""Bring back some clusters of a snapshot: the part of its document that the server lacks (M8).

Nothing that exists on the server may be in it, since it is added to what is there.
"""

from collections.abc import Iterator, Sequence

import msgspec

from maint.config.suggestions import unknown
from maint.deployment.document import Document, items_of, text_of
from maint.deployment.normalize import Items, Tree
from maint.errors import Refused
from maint.model.formatting import show_lines
from maint.model.manager import Cluster, Host
from maint.restore.select_snapshot import GUARDED


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


def left_out(document: Document, choice: Choice) -> list[str]:
    """Return what belongs to the clusters, is not a part of what is sent, and has to be made anew by hand."""
    contexts = [
        text_of(ref, "name")
        for cluster in items_of(document.get("clusters"))
        if text_of(cluster, "name") in choice.clusters
        for ref in items_of(cluster.get("dataContextRefs"))
    ]
    return [f"data context {name}" for name in dict.fromkeys(contexts) if name]


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
