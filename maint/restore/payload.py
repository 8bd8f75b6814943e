"""The document that a restore sends: a snapshot's own bytes, or what is left of them after an edit.

What is edited is made anew from the snapshot by the rules in the plan, in memory only. Which flag goes with it is
decided here alone: a part sent with `deleteCurrentDeployment=true` would delete all the rest (M8).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import BinaryIO, cast

import msgspec

from maint.deployment.document import spell
from maint.deployment.fingerprint import site_fingerprint
from maint.deployment.judge import Judge, Verdict
from maint.deployment.normalize import Tree, normalize
from maint.deployment.reader import blocks
from maint.deployment.secret_index import SecretIndex
from maint.model.json import Json
from maint.model.snapshot import Snapshot
from maint.ports import Sight
from maint.restore.host_mapping import HostChange, changes_of, leftovers, rewrite
from maint.restore.subset import Choice, choice_of, left_out, part_of
from maint.snapshots.parts import DEPLOYMENT, open_part, read_deployment
from maint.snapshots.verify import verdict_of


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

    def verdict(self, sight: Sight) -> Verdict:
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
    return Edit(changes, choice, tuple(leftovers(sent, changes)), tuple(left_out(document, choice)) if choice else ())


def outgoing(sight: Sight, snapshot: Snapshot, edit: Edit) -> Outgoing:
    """Return the document that a restore sends."""
    if edit.choice is None and not edit.changes:
        return Outgoing(snapshot, edit)
    document = read_deployment(sight, snapshot)
    rewrite(document, edit.changes)
    return Outgoing(snapshot, edit, spell(part_of(document, edit.choice) if edit.choice else document))
