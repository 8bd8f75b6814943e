"""Makes snapshots that lie: sealed and signed with the site's own keys, so that only their content gives them away."""

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from maint.cli.open_site import opened
from maint.cli.options import Flags
from maint.model.snapshot import Part, Snapshot
from maint.snapshots.catalogue import load
from maint.snapshots.manifest import MANIFEST, SIGNATURE, encode, new_id
from maint.snapshots.parts import DEPLOYMENT, from_bytes, open_part, write_part
from tests.steps.operator import Operator

Edit = Callable[[Snapshot], Snapshot]


class Forger:
    """Copies the one good snapshot of a lab, and changes what it is told."""

    def __init__(self, operator: Operator, site: Any) -> None:
        self.site = site
        self.root = operator.lab.folder / "backups" / "lab"
        self.good = load(site, next(path.name for path in self.root.iterdir() if (path / MANIFEST).exists()))

    @property
    def content(self) -> bytes:
        """The good document."""
        with open_part(self.site, self.good, DEPLOYMENT) as stream:
            return stream.read()

    def folder(self, snapshot: str) -> Path:
        return self.root / snapshot

    def forge(
        self,
        content: bytes | None = None,
        *,
        parts: dict[str, bytes] | None = None,
        without: Sequence[str] = (),
        recipients: Sequence[str] | None = None,
        edit: Edit = lambda snapshot: snapshot,
    ) -> str:
        """Store a forged snapshot and return its id.

        Args:
            content: another document, under a manifest that says all is well.
            parts: small encrypted parts with another content.
            without: parts that it does not have, and that its manifest does not list.
            recipients: for whom the document is sealed instead.
            edit: changes what the manifest says.
        """
        snapshot = edit(replace(self.good, id=new_id(self.good.taken_at)))
        listed = [one for one in snapshot.parts if one.name not in without]
        kept = [self._part(snapshot, one, content, parts or {}, recipients) for one in listed]
        snapshot = replace(snapshot, parts=tuple(kept))
        written = encode(snapshot)
        for name, raw in ((SIGNATURE, self.site.sign.sign(written)), (MANIFEST, written)):
            with self.site.store.create(f"lab/{snapshot.id}/{name}") as file:
                file.write(raw)
        return snapshot.id

    def _part(
        self,
        snapshot: Snapshot,
        part: Part,
        content: bytes | None,
        parts: dict[str, bytes],
        recipients: Sequence[str] | None,
    ) -> Part:
        seal, store, folder = self.site.seal, self.site.store, f"lab/{snapshot.id}"
        if part.name == DEPLOYMENT and (content is not None or recipients):
            to = recipients or self.good.recipients
            source = from_bytes(self.content if content is None else content)
            return write_part(store, folder, part.name, source, lambda read, file: seal.wrap(read, file, to))
        if part.name in parts:
            source = from_bytes(parts[part.name])
            to = self.good.recipients
            return write_part(store, folder, part.name, source, lambda read, file: seal.encrypt(read, file, to))
        with store.create(f"{folder}/{part.name}") as file:
            file.write((self.folder(self.good.id) / part.name).read_bytes())
        return part


@contextmanager
def forging(operator: Operator) -> Any:
    """Yield a forger for a lab."""
    with opened(Flags(config=operator.config)) as (site, _):
        yield Forger(operator, site)
