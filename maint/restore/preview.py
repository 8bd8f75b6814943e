"""What a restore would meet and do, for people to read before they agree: endpoints, secrets by name, hosts, losses."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache

import msgspec

from maint.config.schema import SiteSettings
from maint.deployment.compare import VOLATILE, Comparison, Difference, compare, masked, reason
from maint.deployment.normalize import Tree, normalize
from maint.deployment.reader import blocks
from maint.deployment.secrets import SecretIndex, site_fingerprint
from maint.errors import Refused
from maint.model.formatting import show_count, show_duration, show_time
from maint.model.json import Json, digest
from maint.model.manager import Presence
from maint.model.snapshot import Snapshot
from maint.ports import Sight
from maint.restore.payload import Outgoing, same_places
from maint.snapshots.prune import passed_over
from maint.snapshots.sources import exported

_SHOWN = 20  # differences that people see; programs get all


class HostFate(msgspec.Struct, frozen=True):
    """One host of the document that is sent: where it was, where it will be, and whether the manager knows it."""

    name: str
    address: str
    host_id: str
    was: str  # its old name, empty where it stays itself
    known: bool
    known_as: str  # another id under which the manager knows one of its name; else empty


class Preview(msgspec.Struct, frozen=True):
    """What a restore would meet and do."""

    out: Outgoing  # what is sent
    settings: SiteSettings
    presence: Presence  # which ports answer now
    store: str  # where the snapshot lies
    hosts: Sequence[HostFate]  # those of the document
    losses: Comparison  # the present configuration (`before`) against the one that is sent
    now: datetime  # when this was seen
    newer: Mapping[str, str]  # later snapshots that are not to be believed, by id, and why: is it the right one?

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON, with every difference."""
        return {
            "endpoints": self._endpoints(),
            "secrets": [{"name": name, "kind": kind} for name, kind in secrets_of(self.settings)],
            "hosts": [
                {
                    "name": h.name,
                    "address": h.address,
                    "id": h.host_id,
                    "was": h.was or None,
                    "known": h.known,
                    "known_as": h.known_as or None,
                }
                for h in self.hosts
            ],
            "snapshot": self._snapshot(),
            "lost": {"counts": self.counts, **self.losses.to_json()},
            "unmapped": list(self.out.edit.leftovers),
            "left_out": list(self.out.edit.left_out),
        }

    def lines(self) -> Iterator[str]:
        """Yield it for people."""
        snapshot, age = self.out.snapshot, show_duration((self.now - self.out.snapshot.taken_at).total_seconds())
        counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in _counts(snapshot).items() if count)
        yield f"snapshot  {snapshot.id}, {age} old, in {self.store}: {counts}"
        yield from (f"          a NEWER one is passed over: {one}: {why}" for one, why in self.newer.items())
        manager = self.settings.manager
        yield (
            f"manager   {manager.host}: port {manager.plain_port} {self.presence.plain}, TLS port {manager.tls_port} "
            f"{self.presence.tls}; {self.presence.door} serves"
        )
        named = ", ".join(f"{name} ({kind})" for name, kind in secrets_of(self.settings))
        yield f"secrets   {named}"
        yield from self._host_lines()
        yield from self._loss_lines()

    @property
    def counts(self) -> dict[str, int]:
        """How many places only the server has, both have and differ in, only the snapshot has, and nobody can tell."""
        return {
            "removed": sum(1 for one in self.losses.differences if one.after is None),
            "changed": sum(1 for one in self.losses.differences if None not in (one.before, one.after)),
            "added": sum(1 for one in self.losses.differences if one.before is None),
            "not_comparable": len(self.losses.not_comparable),
        }

    def _endpoints(self) -> dict[str, Json]:
        manager = self.settings.manager
        hosts = self.settings.hosts_in("manager") if self.settings.ssh else ()
        default = self.settings.ssh.port if self.settings.ssh else 0
        return {
            "manager": manager.host,
            "serves": self.presence.door.value,
            "plain": {"port": manager.plain_port, "state": self.presence.plain},
            "tls": {"port": manager.tls_port, "state": self.presence.tls},
            "ssh": [{"host": one.name, "address": one.address, "port": one.port or default} for one in hosts],
            "store": self.store,
        }

    def _snapshot(self) -> dict[str, Json]:
        snapshot = self.out.snapshot
        return {
            "id": snapshot.id,
            "taken_at": show_time(snapshot.taken_at),
            "age_seconds": round((self.now - snapshot.taken_at).total_seconds()),
            "purpose": snapshot.purpose.value,
            "versions": dict(snapshot.versions),
            "counts": dict(_counts(snapshot)),
            "whole": self.out.whole,
            "newer": [{"id": one, "problem": why} for one, why in self.newer.items()],
        }

    def _host_lines(self) -> Iterator[str]:
        moved = [f"{host.was} becomes {host.name} ({host.address})" for host in self.hosts if host.was]
        unknown = [host.name for host in self.hosts if not host.known and not host.known_as]
        yield f"hosts     {len(self.hosts)}: {'; '.join(moved) or 'all stay what they are'}"
        if unknown:
            yield f"          not known to the manager yet: {', '.join(unknown)}"
        for host in (one for one in self.hosts if one.known_as):
            yield f"          known to the manager under another id: {host.name}, so its agent would report for a host"
            yield f"          without roles: was it installed anew? --map-host {host.name}={host.known_as}"
        for path in self.out.edit.leftovers:
            yield f"          still names an old host, look at it afterwards: {path}"
        for name in self.out.edit.left_out:
            yield f"          not brought back, make it anew in the manager: {name}"

    def _loss_lines(self) -> Iterator[str]:
        counts = self.counts
        lost = show_count(counts["removed"], "place")
        yield (
            f"changes   {lost} lost, {counts['changed']} changed, {counts['added']} back; "
            f"{counts['not_comparable']} not compared, since the manager hides them"
        )
        found = sorted(self.losses.differences, key=_worst_first)
        for one in found[:_SHOWN]:
            yield f"          {one.path}: {one.before or 'nothing'} → {one.after or 'nothing'}"
        if len(found) > _SHOWN:
            yield f"          … and {len(found) - _SHOWN} more; `-o json` has them all"


def preview(sight: Sight, out: Outgoing, seen: Json) -> Preview:
    """Look at what a restore would meet, and compare what is there with what is sent.

    Args:
        seen: the digest of the present configuration that the plan was made from; Refused where it changed since.
    """
    known = SecretIndex()
    wanted, present = out.tree(sight, known), tree_of_server(sight, known)
    if meaning(present) != seen:
        raise Refused(
            "the manager's configuration changed while the plan was made",
            detail=["exit code 5: a plan that is stale is not carried out"],
            hint="find out who works on it, then make the plan again",
        )
    losses = compare(present if out.whole else same_places(present, wanted), wanted)
    losses.differences = masked(losses.differences, [known], site_fingerprint(sight))
    return Preview(
        out=out,
        settings=sight.settings,
        presence=sight.manager.presence(),
        store=sight.store.location,
        hosts=_hosts(sight, out, wanted.get("hosts")),
        losses=losses,
        now=sight.clock.now(),
        newer=passed_over(sight, out.snapshot),
    )


def secrets_of(settings: SiteSettings) -> list[tuple[str, str]]:
    """Return the secrets that a restore asks for: the config's name for each, and the kind of its reference."""
    found = settings.references(*[settings.backup.store] if settings.backup else ())
    if settings.ssh and settings.ssh.key:
        found["ssh.key"] = "file"
    return [(name, reference.partition(":")[0]) for name, reference in found.items()]


def _hosts(sight: Sight, out: Outgoing, hosts: object) -> list[HostFate]:
    known = {host.host_id: host.hostname for host in sight.manager.hosts()}
    names = {change.new_id: change.old_name for change in out.edit.changes}
    found = hosts if isinstance(hosts, Mapping) else {}
    return [
        HostFate(
            name=str(host.get("hostname", "")),
            address=str(host.get("ipAddress", "")),
            host_id=host_id,
            was=names.get(host_id, ""),
            known=host_id in known,
            known_as=_known_as(known, host_id, str(host.get("hostname", ""))),
        )
        for host_id, host in found.items()
        if isinstance(host, Mapping)
    ]


def _known_as(known: Mapping[str, str], host_id: str, name: str) -> str:
    return "" if host_id in known else next((id_ for id_, one in known.items() if name and one == name), "")


def _counts(snapshot: Snapshot) -> Mapping[str, int]:
    return snapshot.judgement.counts


def _worst_first(one: Difference) -> int:
    return 0 if one.after is None else 1 if one.before is not None else 2


_LAST = frozenset(one.path.rpartition("/")[2] for one in VOLATILE)


def tree_of_server(sight: Sight, known: SecretIndex | None = None) -> dict[str, Tree]:
    """Return the present deployment as a tree; secrets are fingerprints, and noted in `known` for who shows texts."""
    fingerprint = site_fingerprint(sight)
    noting = fingerprint if known is None else known.noting(fingerprint)
    return exported(sight, lambda answer: normalize(blocks(answer.read), noting))


def meaning(tree: dict[str, Tree]) -> str:
    """Return a digest of a tree that neither order nor volatile values change."""
    return digest(sorted("\n".join((*path, value)) for path, value in _lasting(tree, ())))


def _lasting(tree: dict[str, Tree], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    for key, value in tree.items():
        here = (*path, key)
        if _may_vary(key) and reason(here):
            continue
        if isinstance(value, dict):
            yield from _lasting(value, here)
        else:
            yield here, value


@lru_cache(maxsize=4096)  # few names, very often; most of them end no volatile place
def _may_vary(key: str) -> bool:
    return any(key == last or (last.endswith("*") and key.startswith(last[:-1])) for last in _LAST)
