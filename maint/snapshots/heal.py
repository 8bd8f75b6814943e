"""Heal a redacted snapshot: put back, by path, the secrets that its server hid; the result is a snapshot of its own.

It bears the time of the redacted one, when its configuration was in force; its secrets are those of the source.
"""

import hashlib
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from maint import __version__
from maint.deployment.document import Document, spell
from maint.deployment.judge import Judge
from maint.deployment.normalize import identity
from maint.deployment.secrets import REDACTED, hidden, masked, readable
from maint.errors import Refused
from maint.model.formatting import show_count, show_time
from maint.model.snapshot import Purpose, Redaction, Snapshot, Trust
from maint.ports import Sight, Site
from maint.snapshots import parts
from maint.snapshots.capture import recipients_of
from maint.snapshots.catalogue import entries
from maint.snapshots.extra_parts import truststore_finding
from maint.snapshots.in_progress import storing
from maint.snapshots.recipients import resealed
from maint.snapshots.records import Verification
from maint.snapshots.verify import insist_on_password, prove_new
from maint.snapshots.virtual_clusters.blobs import Objects
from maint.snapshots.virtual_clusters.document import clusters_in, part_name
from maint.snapshots.writer import SnapshotWriter, id_after

Scalar: TypeAlias = str | int | bool

_SALT = r"-?[0-9]{1,20}"
_ACCOUNT = ("pwHash", "pwSalt", "pwLogin")  # what redacted views leave out of accounts (M7.1)


class Healed(msgspec.Struct, frozen=True):
    """What came of it: the new snapshot, what its verification said, how many values were filled, which are left."""

    snapshot: Snapshot
    verification: Verification
    filled: int
    left: Sequence[str]


def heal(
    site: Site,
    redacted: Snapshot,
    values: Callable[[str], Scalar | None],
    source: str,
    *,
    purpose: Purpose = Purpose.BACKUP,
    hash_rule: bool | None = None,
) -> Generator[str, None, Healed]:
    """Fill what can be filled, and store it as a new snapshot, under the site's lock; yields words on the progress.
    Raises like `filled_document`.

    Args:
        values: returns a secret by its path, None where it has none.
        source: where the values come from, in words.
        hash_rule: whether a login showed that the source stores passwords by the rule of M7.3: so does the healed one.
    """
    document, filled, left = filled_document(site, redacted, values, source)
    yield f"{show_count(filled, 'value')} filled from {source}, {len(left)} left"
    recipients = recipients_of(site)
    content = spell(document)
    if (there := _healed_already(site, redacted, content, purpose, recipients)) is not None:
        yield f"snapshot {there.id} is that already"
        verification = yield from prove_new(site, there, opening=True)
        return Healed(there, verification, filled, left)
    flagged = storing(site) if redacted.objects else nullcontext()
    with flagged, SnapshotWriter(site, id_after(site, redacted), recipients) as writer:
        snapshot = _written(site, writer, redacted, content)
        shown = snapshot.judgement.hash_rule or hash_rule or redacted.judgement.hash_rule
        snapshot = replace(snapshot, judgement=replace(snapshot.judgement, hash_rule=shown))
        if set(recipients) != set(redacted.recipients):  # who loses the old key must not lose what it opens
            yield "encrypting the files of virtual clusters anew, for the recipients of today"
            snapshot = replace(snapshot, objects=resealed(site, redacted, Objects(site, recipients)))
        origin = {"redacted": redacted.id, "from": source, "at": show_time(site.clock.now())}
        named = replace(snapshot, id=writer.id, purpose=purpose, recipients=tuple(recipients))
        snapshot = writer.with_recipe(replace(named, healed_from=origin, rekeyed_from={}))
        writer.commit(snapshot)
    verification = yield from prove_new(site, snapshot, opening=True)
    return Healed(snapshot, verification, filled, left)


def filled_document(
    sight: Sight, redacted: Snapshot, values: Callable[[str], Scalar | None], source: str
) -> tuple[Document, int, Sequence[str]]:
    """Return a snapshot's document with all that can be filled, how many values were, and the paths of those left.

    Raises:
        Refused: it is not redacted, nothing could be filled, or no private key is at hand.
        WorkFailed: a part is damaged.
        Invalid: the configured password cannot be read.
    """
    parts.insist_on_deployment(redacted)
    if redacted.judgement.redaction is not Redaction.REDACTED:
        hint = f"`maint backup show {redacted.id}` tells whether it can be restored as it is, and each broken rule"
        raise Refused(f"snapshot {redacted.id} is not redacted: there is nothing to heal", hint=hint)
    insist_on_password(sight)
    document = parts.read_deployment(sight, redacted)
    filled, left = fill(document, values)
    if not filled:
        raise Refused(
            f"nothing in snapshot {redacted.id} could be filled from {source}",
            detail=[f"{show_count(len(left), 'value')} hidden, such as {left[0]}"] if left else [],
            hint="name an unredacted snapshot, or a secrets file with these paths",
        )
    return document, filled, left


def values_of(document: Document) -> Mapping[str, Scalar]:
    """Return what a document can fill another one with: every setting, and the secret fields of users and peers."""
    found: dict[str, Scalar] = {}
    for path, node in _objects(document, ()):
        keys = ("value",) if _is_setting(node) else (*_ACCOUNT, "password")
        for key in keys:
            if key in node and readable(node[key]):
                found[_spell(path, key)] = node[key]
    return found


def fill(document: Document, values: Callable[[str], Scalar | None]) -> tuple[int, Sequence[str]]:
    """Fill the hidden values of a document in place; return how many, and the paths of those that are left."""
    filled, left = 0, list[str]()
    for path, node in list(_objects(document, ())):
        for key in _hidden(path, node):
            value = values(_spell(path, key))
            if value is None or not readable(value) or (key == "pwSalt" and not re.fullmatch(_SALT, str(value))):
                left.append(_spell(path, key))
                continue
            node[key] = int(value) if key == "pwSalt" else value
            filled += 1
    return filled, [path for path in left if not _settled(document, path)]


def _objects(node: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Document]]:  # Any: part of a document
    if isinstance(node, dict):
        yield path, node
        for key, child in node.items():
            yield from _objects(child, path if key == "items" and isinstance(child, list) else (*path, key))
    elif isinstance(node, list):
        taken: set[str] = set()
        for element in node:
            if isinstance(element, dict):
                name, number = identity(element), 2
                if path != ("users",):  # whose paths stay as people write them: nothing below a user is filled
                    name = name.replace("/", "%2F")  # else `b/config` is spelled as what `config` of `b` holds
                key = name
                while key in taken:  # what is there twice is not taken for one
                    key, number = f"{name} ({number})", number + 1
                taken.add(key)
                yield from _objects(element, (*path, key))


def _is_setting(node: Document) -> bool:
    return isinstance(node.get("name"), str) and "value" in node


def _spell(path: tuple[str, ...], key: str) -> str:
    return "/".join(path if key == "value" else (*path, key))


def _hidden(path: tuple[str, ...], node: Document) -> Sequence[str]:
    if _is_setting(node):
        return ["value"] if hidden(node["name"], node["value"], node.get("sensitive")) else []
    if len(path) == 2 and path[0] == "users":
        if node.get("pwLogin") is False or readable(node.get("pwHash")) or readable(node.get("password")):
            return []
        return [key for key in (*_ACCOUNT, "password") if not readable(node.get(key))]
    return ["password"] if node.get("password") == REDACTED or masked(node.get("password")) else []


def _settled(document: Document, path: str) -> bool:
    """Tell whether an account that lacks a field can do without it: it has its hash, or another way to log in."""
    head, _, name = path.partition("/")
    name, _, key = name.rpartition("/")
    if head != "users" or key not in (*_ACCOUNT, "password"):
        return False
    user: Document = next((one for one in document.get("users") or () if one.get("name") == name), {})
    if user.get("pwLogin") is False or readable(user.get("password")):
        return True
    return key in ("password", "pwLogin") or (readable(user.get("pwHash")) and readable(user.get(key)))


def _healed_already(
    site: Site, redacted: Snapshot, content: bytes, purpose: Purpose, recipients: Sequence[str]
) -> Snapshot | None:
    """Return what an earlier call made of the same, such as one that was killed while it proved that."""
    digest = hashlib.sha256(content).hexdigest()
    for one in entries(site):
        made = one.snapshot
        if one.verified is not None and one.verified.result is Trust.FAILED:
            continue
        if made is not None and made.healed_from.get("redacted") == redacted.id and made.purpose is purpose:
            same = made.part(parts.DEPLOYMENT).content_sha256 == digest
            if same and set(made.recipients) == set(recipients):
                return made
    return None


def _written(site: Site, writer: SnapshotWriter, redacted: Snapshot, content: bytes) -> Snapshot:
    login = site.settings.manager.login
    judge = Judge(login.username, site.secrets.resolve(login.password), writer.known)
    part, verdict = writer.deployment(parts.from_bytes(content), judge)
    writer.redacted_copy(part)
    for name in (parts.LICENSE, parts.TRUSTSTORE):
        if redacted.has(name):
            writer.sealed(name, parts.read_part(site, redacted, name))
    if redacted.has(parts.MANAGER_FILES):
        with parts.open_part(site, redacted, parts.MANAGER_FILES) as stream:
            writer.archive(parts.MANAGER_FILES, stream.read)
    if redacted.has(parts.DATABASE):
        with parts.open_part(site, redacted, parts.DATABASE) as stream:
            writer.dump(parts.DATABASE, stream.read)
    for cluster in clusters_in(redacted):
        writer.document(part_name(cluster), parts.read_part(site, redacted, part_name(cluster)))
    truststore = truststore_finding(verdict.summary, redacted.has(parts.TRUSTSTORE))
    return replace(
        redacted,
        restorable=verdict.restorable and (truststore is None or truststore.passed is not False),
        judgement=replace(
            verdict.judgement, findings=(*verdict.judgement.findings, *([truststore] if truststore else []))
        ),
        versions={**redacted.versions, "tool": __version__},
    )
