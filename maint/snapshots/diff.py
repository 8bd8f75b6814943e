"""Compare two configurations: two snapshots, or a snapshot and the live manager; no answer holds a secret.

Without a private key redacted copies are compared: their secrets are fingerprints under the site's key, as are those
of raw documents once normalised, so that the answer is the same.
"""

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from maint.deployment.compare import Comparison, Difference, compare, masked
from maint.deployment.normalize import LONGEST, Outline, Tree, shortened, unfold
from maint.deployment.reader import blocks
from maint.deployment.secrets import Fingerprint, SecretIndex, site_fingerprint
from maint.errors import Refused, WorkFailed
from maint.model.snapshot import Purpose, Snapshot
from maint.ports import Sight
from maint.snapshots.catalogue import entries
from maint.snapshots.parts import DEPLOYMENT, REDACTED_COPY, insist_on_deployment, open_part
from maint.snapshots.sources import exported

_FINGERPRINT = re.compile(r"fp:[0-9a-f]{16}")
_EVERYTHING = 1 << 40  # characters; no text is as long
_SECRET = 4096  # characters; no longer secret is looked for in a text


class Side(msgspec.Struct, frozen=True):
    """One of two configurations."""

    label: str  # a snapshot's id, or the manager
    source: str  # `raw`, `redacted copy` or `server`
    outline: Outline  # secrets as fingerprints
    format: tuple[str, str]  # release and API version: where they are equal, a field of one side only is a difference
    known: SecretIndex  # the secrets met on the way, to keep them out of the answer


def latest(sight: Sight) -> Snapshot:
    """Return the newest snapshot whose manifest can be believed, safety copies aside; Refused where there is none."""
    for entry in reversed(entries(sight)):
        snapshot = entry.snapshot
        if snapshot is not None and snapshot.purpose is Purpose.BACKUP and snapshot.has(DEPLOYMENT):
            return snapshot
    raise Refused(f"there is no snapshot of {sight.settings.name} to compare with", hint="`maint backup create`")


def of_snapshot(sight: Sight, snapshot: Snapshot, *, redacted: bool, whole: bool = False) -> Side:
    """Return a snapshot's side, from its raw document or its redacted copy.

    Args:
        whole: long texts are kept whole: needed on both sides where a redacted copy meets something else.

    Raises:
        Refused: the raw document is wanted, and no private key is at hand.
        WorkFailed: the part is damaged.
    """
    insist_on_deployment(snapshot)
    if redacted and not snapshot.has(REDACTED_COPY):
        raise WorkFailed(f"snapshot {snapshot.id} has no redacted copy", hint="compare it where the private key is")
    known, versions = SecretIndex(), snapshot.versions
    name = REDACTED_COPY if redacted else DEPLOYMENT
    fingerprint = site_fingerprint(sight) if redacted else known.noting(site_fingerprint(sight))
    with open_part(sight, snapshot, name) as stream:
        found = Outline(blocks(stream.read), fingerprint, _EVERYTHING if whole else LONGEST)
    return Side(
        snapshot.id,
        "redacted copy" if redacted else "raw",
        found,
        (versions.get("manager", ""), versions.get("api", "")),
        known,
    )


def of_server(sight: Sight, *, whole: bool = False) -> Side:
    """Return the live manager's side, as it shows itself now; for the rest see `of_snapshot`."""
    api = sight.manager.require_api(sight.settings.manager.api.deployment)
    release = sight.manager.release()
    known = SecretIndex()
    fingerprint, longest = known.noting(site_fingerprint(sight)), _EVERYTHING if whole else LONGEST
    found = exported(sight, lambda answer: Outline(blocks(answer.read), fingerprint, longest))
    return Side(sight.settings.manager.host, "server", found, (release, api), known)


def differences(sight: Sight, before: Side, after: Side) -> Comparison:
    """Compare two sides; differences in the order of their paths."""
    return held_against(before, after, site_fingerprint(sight))


def held_against(before: Side, after: Side, fingerprint: Fingerprint) -> Comparison:
    """Compare two sides whose fingerprints are these."""
    unfold(before.outline, after.outline)
    found = compare(before.outline.tree, after.outline.tree)
    if before.format == after.format:
        added = [Difference(steps, None, _shown(after.outline.tree, steps)) for steps in found.added]
        found.differences, found.added = [*found.differences, *added], []
    if "redacted copy" in (before.source, after.source) and before.source != after.source:
        _weigh_scrubbed(found, fingerprint)
    shown = masked(found.differences, (before.known, after.known), fingerprint)
    found.differences = sorted(shown, key=lambda one: one.path)
    return found


def unified(before: Side, after: Side, found: Comparison) -> str:
    """Return the differences as unified text: `-path: value`, `+path: value`."""
    return "\n".join(_unified(before, after, found))


def place(steps: Sequence[str]) -> tuple[str, str, str, str]:
    """Return cluster, service, group or role, and property of a place; "" where it has none."""
    parts = list(steps)
    cluster = service = group = ""
    if parts[0] == "clusters" and len(parts) > 2:
        cluster, parts = parts[1], parts[2:]
        if parts[0] == "services" and len(parts) > 2:
            service, parts = parts[1], parts[2:]
    elif parts[0] == "managementService" and len(parts) > 1:
        service, parts = parts[0], parts[1:]
    if service and parts[0] in ("roleConfigGroups", "roles", "roleTypeConfigs") and len(parts) > 2:
        group, parts = parts[1], parts[2:]
    return cluster, service, group, "/".join(parts)


def _unified(before: Side, after: Side, found: Comparison) -> Iterator[str]:
    if not found.differences:
        return
    yield f"--- {before.label}"
    yield f"+++ {after.label}"
    for one in found.differences:
        if one.before is not None:
            yield f"-{one.path}: {_one_line(one.before)}"
        if one.after is not None:
            yield f"+{one.path}: {_one_line(one.after)}"


def _one_line(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _shown(tree: Tree, steps: Sequence[str]) -> str:
    for step in steps:
        assert isinstance(tree, dict)  # as it was found
        tree = tree[step]
    return tree if isinstance(tree, str) else "all of it"


def _weigh_scrubbed(found: Comparison, fingerprint: Fingerprint) -> None:
    """Settle texts of which a redacted copy shows parts as fingerprints, and the other side all in clear."""
    differing = [one for one in found.differences if not _same_text(one.before or "", one.after or "", fingerprint)]
    found.differences = [_short(_hidden(one, fingerprint), fingerprint) for one in differing]


def _same_text(before: str, after: str, fingerprint: Callable[[str], str]) -> bool:
    return _fits(before, after, fingerprint) or _fits(after, before, fingerprint)


def _fits(scrubbed: str, clear: str, fingerprint: Callable[[str], str]) -> bool:
    """Tell whether a text with fingerprints in it is what is left of a clear one."""
    marks, pieces = _FINGERPRINT.findall(scrubbed), _FINGERPRINT.split(scrubbed)
    if not marks or scrubbed == marks[0] or not clear.startswith(pieces[0]):
        return False
    at: int | None = len(pieces[0])
    for mark, piece in zip(marks, pieces[1:], strict=True):
        assert at is not None
        if (at := _after(clear, at, mark, piece, fingerprint)) is None:
            return False
    return at == len(clear)


def _after(clear: str, at: int, mark: str, piece: str, fingerprint: Callable[[str], str]) -> int | None:
    """Return where a text goes on after a secret of this fingerprint and the piece behind it, None where neither is."""
    end = at
    while (end := clear.find(piece, end + 1)) >= 0 and end - at <= _SECRET:
        if fingerprint(clear[at:end]) == mark:
            return end + len(piece)
    return None


def _short(one: Difference, fingerprint: Fingerprint) -> Difference:
    before, after = (
        text if text is None or len(text) <= LONGEST else shortened(text, fingerprint)
        for text in (one.before, one.after)
    )
    return Difference(one.steps, before, after)


def _hidden(one: Difference, fingerprint: Callable[[str], str]) -> Difference:
    """Return a difference whose clear side holds no word that the other side shows as a fingerprint."""
    if not any(value and _FINGERPRINT.search(value) for value in (one.before, one.after)):
        return one

    def shown(value: str | None) -> str | None:
        return value if value is None or _FINGERPRINT.search(value) else fingerprint(value)

    return Difference(one.steps, shown(one.before), shown(one.after))
