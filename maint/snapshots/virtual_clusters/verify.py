"""What must hold of the virtual clusters in a snapshot, level by level (see `verify`)."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

from msgspec.structs import replace

from maint.deployment.reader import BLOCK
from maint.errors import NoKeyFits, NotWritten, Refused, StoreFailed, WorkFailed
from maint.model.formatting import show_count, show_counts
from maint.model.snapshot import ClusterSummary, RuleResult, Snapshot, StoredFile
from maint.model.virtual_cluster import File
from maint.ports import Sight
from maint.snapshots.parts import UNREAD, flaw, object_name, open_object, read_part
from maint.snapshots.virtual_clusters.blobs import worker_pool
from maint.snapshots.virtual_clusters.document import ClusterDocument, clusters_in, decode, part_name


def read_document(sight: Sight, snapshot: Snapshot, cluster: str) -> ClusterDocument:
    """Return a virtual cluster from a snapshot; Refused without a key or where it is not in it, WorkFailed: damaged."""
    name = part_name(cluster)
    if not snapshot.has(name):
        held = ", ".join(clusters_in(snapshot)) or "none"
        raise Refused(
            f"snapshot {snapshot.id} does not hold virtual cluster {cluster}",
            detail=[f"it holds {held}"],
            hint="`maint backup list` shows what there is",
        )
    document = decode(read_part(sight, snapshot, name))
    return replace(document, listed={one.id: one for one in snapshot.objects})


def stored_files(sight: Sight, snapshot: Snapshot, *, reading: bool) -> Sequence[RuleResult]:
    """Level 1: every file is in the store; with `reading`, byte for byte as it was stored."""
    with worker_pool() as (hands, _):
        wrong = list(hands.map(lambda one: _stored_file(sight, snapshot.site, one, reading), snapshot.objects))
    return _told(snapshot, wrong, "as stored" if reading else "there, with their sizes")


def _told(snapshot: Snapshot, wrong: Sequence[str], how: str) -> Sequence[RuleResult]:
    if not snapshot.objects:
        return []
    found = [RuleResult("part", None if f" {UNREAD}" in words else False, words) for words in wrong if words]
    return found or [
        RuleResult("files", True, f"{show_count(len(snapshot.objects), 'file')} of virtual clusters {how}")
    ]


def spoiled_files(sight: Sight, snapshot: Snapshot) -> Sequence[StoredFile]:
    """Return the files that a store lacks, or holds with other bytes."""
    with worker_pool() as (hands, _):
        wrong = list(hands.map(lambda one: _stored_file(sight, snapshot.site, one, True), snapshot.objects))
    return [one for one, words in zip(snapshot.objects, wrong, strict=True) if words and f" {UNREAD}" not in words]


def _stored_file(sight: Sight, site: str, one: StoredFile, reading: bool) -> str:
    name = object_name(site, one.place)
    if not reading:
        size = sight.store.size(name)
        return "" if size == one.bytes else f"{name}: {show_count(one.bytes, 'byte')} expected, {size or 0} found"
    problem = flaw(sight, name, one)
    return f"{name} {problem}" if problem else ""


def opened_clusters(sight: Sight, snapshot: Snapshot) -> tuple[Sequence[RuleResult], Sequence[RuleResult]]:
    """Levels 1 and 2 in one reading: what is wrong with stored bytes, and whether every document parses and counts as
    recorded, and every file opens and has its signature; NoKeyFits where no key opens them.
    """
    inside: list[RuleResult] = []
    wanted: dict[str, dict[str, str]] = {}  # by the place of a stored file: whose it is, by signature
    for summary in snapshot.virtual_clusters:
        if not snapshot.has(part_name(summary.name)):
            continue
        try:
            document = read_document(sight, snapshot, summary.name)
        except (NoKeyFits, StoreFailed, NotWritten):
            raise
        except (OSError, WorkFailed) as failure:
            inside.append(RuleResult("content", False, f"{part_name(summary.name)}: {failure}"))
            continue
        inside += [_counted(summary, document), *_unexplained(document)]
        for file in (file for resource in document.resources for file in resource.files):
            if stored := document.stored(file):
                whose = wanted.setdefault(stored.place, {})
                whose.setdefault(file.signature, f"virtual cluster {document.name}: {file.path}")
    with worker_pool() as (hands, _):
        looked = list(hands.map(lambda one: _opened(sight, snapshot.site, one, wanted), snapshot.objects))
    inside += [RuleResult("content", False, words) for _, wrong in looked for words in wrong]
    return _told(snapshot, [words for words, _ in looked], "as stored"), inside


def _counted(summary: ClusterSummary, document: ClusterDocument) -> RuleResult:
    files = sum(len(resource.files) for resource in document.resources)
    found = (len(document.jobs), len(document.resources), files)
    words = f"virtual cluster {summary.name}: {show_counts(job=found[0], resource=found[1], file=found[2])}"
    same = found == (summary.jobs, summary.resources, summary.files)
    return RuleResult("counts", same, f"{words} {'as' if same else 'are not what is'} recorded")


def _unexplained(document: ClusterDocument) -> Iterator[RuleResult]:
    lacking = [one for resource in document.resources for one in resource.files if document.stored(one) is None]
    if lacking and not document.problems:
        yield RuleResult("content", False, f"virtual cluster {document.name}: {lacking[0].path} is not stored")


def unproven(sight: Sight, document: ClusterDocument, files: Mapping[str, File]) -> Sequence[str]:
    """Read files of a snapshot whole; return in words which are not as its manifest and their signatures say.

    Args:
        files: by how they are called in words; one that the snapshot does not hold says nothing.
    """
    wanted: dict[StoredFile, dict[str, str]] = {}
    for name, file in files.items():
        if stored := document.stored(file):
            wanted.setdefault(stored, {}).setdefault(file.signature, name)
    with worker_pool() as (hands, _):
        looked = list(hands.map(lambda one: _opened(sight, sight.settings.name, one, {one.place: wanted[one]}), wanted))
    found = zip(wanted.values(), looked, strict=True)
    return [
        one
        for names, (words, wrong) in found
        for one in ([f"{', '.join(names.values())}: {words}"] if words else wrong)
    ]


def _opened(
    sight: Sight, site: str, one: StoredFile, wanted: Mapping[str, Mapping[str, str]]
) -> tuple[str, Sequence[str]]:
    """Return what is wrong with a file's stored bytes, and with what is in them."""
    whose = wanted.get(one.place, {})
    if not whose:
        return _stored_file(sight, site, one, True), ()
    try:
        with open_object(sight, one) as stream:
            found = _signature(stream)
    except (NoKeyFits, NotWritten):
        raise
    except StoreFailed as failure:
        return f"{object_name(site, one.place)} {UNREAD}{failure.in_a_line}", ()
    except (OSError, WorkFailed) as failure:
        problem = _stored_file(sight, site, one, True)
        return problem, () if problem else [f"{file}: {failure}" for file in whose.values()]
    return "", [f"{file} has other bytes than its signature says" for name, file in whose.items() if name != found]


def _signature(stream: BinaryIO) -> str:
    digest = hashlib.sha1(usedforsecurity=False)
    while block := stream.read(BLOCK):
        digest.update(block)
    return digest.hexdigest()


def doubts(snapshot: Snapshot) -> Sequence[str]:
    """Return why virtual clusters in a snapshot are not taken for the truth."""
    return [f"virtual cluster {one.name}: {one.doubt}" for one in snapshot.virtual_clusters if one.doubt]


def completeness(snapshot: Snapshot) -> Iterator[RuleResult]:
    """Level 3 of a snapshot of virtual clusters alone: nothing that it should hold is missing."""
    for one in snapshot.virtual_clusters:
        words = (
            "; ".join(one.problems)
            or f"{show_counts(job=one.jobs, resource=one.resources)} and all their files are there"
        )
        yield RuleResult("virtual-cluster", None if one.problems else True, f"virtual cluster {one.name}: {words}")
