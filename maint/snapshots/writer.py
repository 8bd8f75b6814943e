"""Write one snapshot: its parts one after the other, read back where a second look is due, the manifest last."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Self

from msgspec.structs import asdict, replace

from maint.config.schema import SiteSettings
from maint.deployment.judge import Judge, JudgedDocument
from maint.deployment.reader import blocks
from maint.deployment.redacted_copy import RedactedCopy
from maint.deployment.secrets import SecretIndex, site_fingerprint
from maint.errors import Conflict, NotAsStored, StoreFailed, WorkFailed
from maint.model.formatting import show_time
from maint.model.json import Json
from maint.model.snapshot import Part, Snapshot
from maint.ports import Site
from maint.retry import briefly
from maint.snapshots import parts
from maint.snapshots.in_progress import begin, end
from maint.snapshots.manifest import MANIFEST, SIGNATURE, encode, new_id
from maint.snapshots.sources import read_whole
from maint.snapshots.virtual_clusters.document import part_name

_DRAWN = 64  # ids


def id_after(site: Site, before: Snapshot) -> str:
    """Return an id of the time of another snapshot that nothing has yet, behind its own where it can be.

    So the new one counts as the newer. It is the next one behind of those that are drawn, which leaves room for more.
    """
    drawn = sorted(new_id(before.taken_at) for _ in range(_DRAWN))
    behind_first = [*(one for one in drawn if one > before.id), *(one for one in drawn if one < before.id)]
    return next(one for one in behind_first if not any(parts.names_in(site.store, f"{site.settings.name}/{one}")))


class SnapshotWriter:
    """One snapshot being written; what was stored is taken back where its block fails.

    What must be read back is encrypted for one recipient more, whose private key is only in memory: a second pass needs
    neither the site's private key nor a plain copy on disk.
    """

    def __init__(self, site: Site, snapshot_id: str, recipients: Sequence[str]) -> None:
        begin(site.state, snapshot_id, site.store.location)
        self._site, self.recipients, self.id = site, tuple(recipients), snapshot_id
        self._folder = f"{site.settings.name}/{snapshot_id}"
        self._identity, self._recipient = site.seal.new_identity()
        self._stored: list[str] = []
        self.known = SecretIndex()
        self.parts: list[Part] = []

    def deployment(self, read: parts.Read, judge: Judge) -> tuple[Part, JudgedDocument]:
        """Store the raw bytes, then judge them; WorkFailed where the document is cut or is not a deployment."""
        self.raw(read)
        return self.judged(judge)

    def raw(self, read: parts.Read, of: int | None = None) -> Part:
        """Store the raw bytes as they come, so that the sender does not wait; a cut (CannotReach) leaves nothing."""
        return self.write(parts.DEPLOYMENT, read, self._for_us_too, of)

    def judged(self, judge: Judge) -> tuple[Part, JudgedDocument]:
        """Read the raw part back, prove it, and judge it on the way; WorkFailed where it is not what was written."""
        part = self.parts[-1]
        verdicts: list[JudgedDocument] = []

        def judge_all(read: parts.Read) -> None:
            watched = parts.metered(self._site, f"judging {part.name}", read, part.content_bytes)
            verdicts.append(judge.verdict(blocks(watched)))

        self._read_back(part, judge_all)
        self.parts[-1] = part = replace(part, restorable=verdicts[0].restorable)
        return part, verdicts[0]

    def redacted_copy(self, part: Part) -> None:
        """Read the raw part back from the store, prove it, and write the redacted copy on the way."""

        def copy(read: parts.Read) -> None:
            redacted = RedactedCopy(blocks(read), self.known, site_fingerprint(self._site))
            # It is nearly as long: what tells secrets apart stands in their places.
            self.write(parts.REDACTED_COPY, redacted.read, self._site.seal.compress, part.content_bytes)

        self._read_back(part, copy)

    def sealed(self, name: str, content: bytes) -> None:
        """Store a small part, encrypted and not compressed."""
        seal, recipients = self._site.seal, self.recipients
        self.write(
            name, parts.from_bytes(content), lambda read, file: seal.encrypt(read, file, recipients), len(content)
        )

    def document(self, name: str, content: bytes) -> None:
        """Store a restorable document, compressed and encrypted, and prove that the store gives it back."""
        part = replace(self.write(name, parts.from_bytes(content), self._for_us_too, len(content)), restorable=True)
        self.parts[-1] = part

        self._read_back(part, parts.drain)

    def archive(self, name: str, read: parts.Read) -> tuple[str, ...]:
        """Store a tar, read it back, prove it and return the paths of its files; WorkFailed where it is not whole."""
        from maint.snapshots.archive import paths  # as in `verify`

        found: list[str] = []
        self._proven(name, read, lambda content: found.extend(paths(content)))
        return tuple(found)

    def dump(self, name: str, read: parts.Read) -> None:
        """Store a dump of a database, read it back and prove it; WorkFailed where it is not whole."""
        self._proven(name, read, read_whole)

    def _proven(self, name: str, read: parts.Read, use: Callable[[parts.Read], None]) -> None:
        part = self.write(name, read, self._for_us_too)
        try:
            self._read_back(part, use)
        except WorkFailed:
            self.forget(name)
            raise

    def write(self, name: str, source: parts.Read, pack: parts.Pack, of: int | None = None) -> Part:
        """Store one part, of so many bytes where that is known."""
        read = parts.metered(self._site, f"storing {name}", source, of)
        with self._noted(name):
            part = parts.write_part(self._site.store, self._folder, name, read, pack)
        self.parts.append(part)
        return part

    @contextmanager
    def _noted(self, name: str) -> Iterator[None]:
        """Note a file before it is written: one that the store failed to end may stand all the same."""
        self._stored.append(name)
        try:
            yield
        except FileExistsError:  # which is not ours to take back
            self._stored.remove(name)
            raise Conflict(
                f"snapshot {self.id} is not stored: {self._site.store.location} has a {name} of that id",
                hint="another machine may store one right now: run it again",
            ) from None

    def forget(self, name: str) -> None:
        """Take one part back that turned out to be worth nothing."""
        self._site.store.remove(f"{self._folder}/{name}")
        self._stored.remove(name)
        self.parts = [part for part in self.parts if part.name != name]

    def with_recipe(self, snapshot: Snapshot) -> Snapshot:
        """Store RESTORE.txt, which names all parts before it; return the snapshot with all its parts."""
        snapshot = replace(snapshot, parts=tuple(self.parts))
        text = restore_guide(snapshot, self._site.settings, self._site.store.location).encode()
        self.write(parts.RECIPE, parts.from_bytes(text), parts.plain)
        return replace(snapshot, parts=tuple(self.parts))

    def commit(self, snapshot: Snapshot) -> None:
        """Write signature and manifest: from now on the snapshot exists."""
        content = encode(snapshot)
        for name, written in ((SIGNATURE, self._site.sign.sign(content)), (MANIFEST, content)):
            with self._noted(name), self._site.store.create(f"{self._folder}/{name}") as file:
                file.write(written)
        end(self._site.state, self.id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not self.undo() and MANIFEST in self._stored and issubclass(kind, StoreFailed):
            raise WorkFailed(  # and not StoreFailed: another one, in another store, would bear the same id
                f"whether snapshot {self.id} is stored in {self._site.store.location} is not known",
                detail=["the store fell silent while its manifest was written"],
                hint="`maint backup list` shows it once the store answers; take the backup again",
            )

    def undo(self) -> bool:
        """Take back what was stored, and return whether it is gone; what is not, a later sweep finds."""
        # The manifest goes first, so that no moment shows a snapshot with parts missing.
        with briefly(self._site.clock), suppress(StoreFailed):
            for name in reversed(self._stored):
                self._site.store.remove(f"{self._folder}/{name}")
            end(self._site.state, self.id)
            return True
        return False

    @property
    def _for_us_too(self) -> parts.Pack:
        seal, recipients = self._site.seal, [*self.recipients, self._recipient]
        return lambda read, file: seal.wrap(read, file, recipients)

    def _read_back(self, part: Part, use: Callable[[parts.Read], None]) -> None:
        with (
            parts.open_stored(self._site, f"{self._folder}/{part.name}", part) as file,
            self._site.seal.unwrap(file, [self._identity]) as stream,
        ):
            content = parts.Tally(stream.read)
            use(content.read)
            parts.drain(content.read)
        if content.sha256 != part.content_sha256:
            raise NotAsStored(
                f"{part.name} is not what was written to {self._site.store.location}",
                hint="do not trust this disk; look at its health, then take the backup again",
            )


def restore_guide(snapshot: Snapshot, settings: SiteSettings, location: str) -> str:
    """Return the text for one snapshot; it names everything and holds no secret."""
    from maint.render import from_file  # most who look at snapshots write none

    whole = snapshot.has(parts.DEPLOYMENT)
    values: dict[str, object] = {
        **asdict(snapshot),
        "store": location,
        "taken_at": show_time(snapshot.taken_at),
        "redaction": snapshot.judgement.redaction.value,
        "settings": settings.manager,
        "at": f"[{snapshot.manager}]" if ":" in snapshot.manager else snapshot.manager,
        "names": [part.name for part in snapshot.parts],
        "deployment": snapshot.part(parts.DEPLOYMENT) if whole else None,
        "clusters": [one for one in snapshot.virtual_clusters if snapshot.has(part_name(one.name))],
        "kept_files": [_host_file(snapshot, path, note) for path, note in snapshot.host_files.items()],
    }
    return from_file("RESTORE.txt.j2" if whole else "RESTORE-vc.txt.j2", values)


def _host_file(snapshot: Snapshot, path: str, note: Json) -> Mapping[str, object]:
    fields = note if isinstance(note, Mapping) else {}
    return {
        "path": path,
        "present": bool(fields.get("present")),
        "value": fields.get("value") or "",
        "kept": parts.keeps_file(snapshot, path),
    }
