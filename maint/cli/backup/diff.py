"""`maint backup diff|drift`: what differs between two configurations, their virtual clusters included."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.open_site import opened
from maint.cli.options import LOOKS, STORE, Flags, argument, option
from maint.cli.screen import Screen, printable, table
from maint.deployment.compare import Comparison
from maint.errors import Differences, Failure, MaintError, PartlyDone
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.snapshot import ClusterSummary, Snapshot
from maint.snapshots.catalogue import find
from maint.snapshots.diff import Side, differences, latest, of_server, of_snapshot, place, unified
from maint.snapshots.parts import DEPLOYMENT
from maint.snapshots.virtual_clusters.document import ClusterDifference, differences_of, drift_of, part_name
from maint.snapshots.virtual_clusters.verify import read_document

_LONGEST = 60  # characters of a value in the table
Redacted = Annotated[bool, option("--redacted", "Compare redacted copies, even where the key is at hand.")]
ExitCode = Annotated[bool, option("--exit-code", "Exit 8 when there are differences.")]


class _Cluster(msgspec.Struct, frozen=True):
    """How a virtual cluster differs; `unknown` says why that cannot be told, `error` what a live one answered."""

    name: str
    found: Sequence[ClusterDifference] = ()
    unknown: str = ""
    error: MaintError | None = None

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        found: list[Json] = [one.to_json() for one in self.found]
        return {"name": self.name, "differences": found, "not_compared": self.unknown or None}


@command(STORE, outputs=("text",))
def diff(
    flags: Flags,
    first: Annotated[str, argument("The id of the first snapshot, or its beginning.")],
    second: Annotated[str, argument("The id of the second.")],
    redacted: Redacted = False,
    exit_code: ExitCode = False,
) -> int:
    """Show what differs between two snapshots: by cluster, service, role group and property; order does not matter."""
    with opened(flags) as (site, screen):
        one, other = find(site, first), find(site, second)
        clusters = list(_clusters(site, one, other))
        if clusters and not (one.has(DEPLOYMENT) or other.has(DEPLOYMENT)):
            return _show_clusters(screen, clusters, exit_code)
        copies = redacted or not site.identities()
        before, after = (of_snapshot(site, snapshot, redacted=copies) for snapshot in (one, other))
        return _show(screen, before, after, differences(site, before, after), clusters, exit_code)


@command(outputs=("text",), several=LOOKS)
def drift(
    flags: Flags,
    snapshot: Annotated[str, argument("Its id or the beginning of it; else the newest.")] = "",
    redacted: Redacted = False,
    exit_code: ExitCode = False,
) -> int:
    """Show what has changed on the live manager and its virtual clusters since a snapshot."""
    with opened(flags) as (site, screen):
        then = find(site, snapshot) if snapshot else latest(site)
        copy = redacted or not site.identities()
        before = of_snapshot(site, then, redacted=copy, whole=copy)
        after = of_server(site, whole=copy)
        clusters = [_live(site, then, one.name) for one in then.virtual_clusters]
        return _show(screen, before, after, differences(site, before, after), clusters, exit_code)


def _clusters(site: ConfiguredSite, before: Snapshot, after: Snapshot) -> Iterator[_Cluster]:
    """Yield how each virtual cluster of two snapshots differs; without the private key, by its counts alone."""
    then, now = ({one.name: one for one in snapshot.virtual_clusters} for snapshot in (before, after))
    for name in sorted({*then, *now}):
        one, other = _counts(then.get(name)), _counts(now.get(name))
        if why := _left_out(before, name) or _left_out(after, name):
            yield _Cluster(name, unknown=why)
        elif site.identities():
            documents = [read_document(site, each, name) if name in held else None
                         for each, held in ((before, then), (after, now))]  # fmt: skip
            yield _Cluster(name, differences_of(*documents))
        elif one != other:
            yield _Cluster(name, [ClusterDifference("contents", f"{one} became {other}", "changed")])
        else:
            yield _Cluster(name, unknown=f"this machine has no private key; in both, {one}")


def _left_out(snapshot: Snapshot, name: str) -> str:
    """Return why a snapshot lacks a virtual cluster that it should hold; empty where it does not lack it."""
    one = next((one for one in snapshot.virtual_clusters if one.name == name), None)
    if one is None or snapshot.has(part_name(name)):
        return ""
    return f"it could not be read when {snapshot.id} was taken: {'; '.join(one.problems)}"


def _counts(one: ClusterSummary | None) -> str:
    if one is None:
        return "nothing"
    counts = ((one.jobs, "job"), (one.resources, "resource"), (one.files, "file"))
    return f"{', '.join(show_count(*each) for each in counts)} of {show_count(one.bytes, 'byte')}"


def _live(site: ConfiguredSite, snapshot: Snapshot, name: str) -> _Cluster:
    """Return how a virtual cluster differs from a snapshot; that it does not answer is shown beside the rest."""
    if why := _left_out(snapshot, name):
        return _Cluster(name, unknown=why)
    if not site.identities():
        return _Cluster(name, unknown="this machine has no private key")
    if name not in {one.name for one in site.settings.virtual_clusters}:
        return _Cluster(name, unknown="the config does not say where it is")
    try:
        return _Cluster(name, drift_of(read_document(site, snapshot, name), site.virtual_cluster(name)))
    except Failure as error:
        return _Cluster(name, unknown=error.message, error=error)


def _show(
    screen: Screen, before: Side, after: Side, found: Comparison, clusters: Sequence[_Cluster], exit_code: bool
) -> int:
    rows, listed = _listed(clusters)
    words = _words(before, after, found, rows)
    if screen.output == "text":
        text = unified(before, after, found)
        screen.raw("".join(printable(part) + "\n" for part in (text, listed) if part))
        if found.not_comparable:  # the text has no place for it, and it must not be missed
            screen.warn(words)
    else:
        shown = [_as_table(before, after, found) if found.differences else "", listed]
        data = {**_as_json(before, after, found), "virtual_clusters": [one.to_json() for one in clusters]}
        screen.emit(data, "\n\n".join(filter(None, shown)))
    return _end(screen, words, clusters, exit_code, differ=bool(found.differences or rows))


def _show_clusters(screen: Screen, clusters: Sequence[_Cluster], exit_code: bool) -> int:
    """Show how two snapshots of virtual clusters alone differ."""
    rows, listed = _listed(clusters)
    if screen.output == "text":
        screen.raw(printable(f"{listed}\n") if listed else "")
    else:
        screen.emit({"same": not rows, "virtual_clusters": [one.to_json() for one in clusters]}, listed)
    words = show_count(rows, "difference") if rows else "nothing differs"
    return _end(screen, f"{words} (virtual clusters alone)", clusters, exit_code, differ=bool(rows))


def _listed(clusters: Sequence[_Cluster]) -> tuple[int, str]:
    """Return how many differences there are in virtual clusters, and a table of them."""
    rows = [[each.name, one.what, one.name, one.change, one.property or "-"] for each in clusters for one in each.found]
    return len(rows), table(["VIRTUAL CLUSTER", "WHAT", "NAME", "CHANGE", "PROPERTY"], rows) if rows else ""


def _end(screen: Screen, words: str, clusters: Sequence[_Cluster], exit_code: bool, *, differ: bool) -> int:
    for one in clusters:
        if one.unknown:
            screen.warn(f"virtual cluster {one.name} is not compared: {one.unknown}")
    screen.say(words)
    for one in clusters:
        if one.error is not None:
            raise one.error
    if not exit_code:
        return 0
    unknown = any(one.unknown for one in clusters)
    return Differences.exit_code if differ else PartlyDone.exit_code if unknown else 0


def _as_json(before: Side, after: Side, found: Comparison) -> dict[str, Json]:
    listed: list[Json] = []
    for one in found.differences:
        cluster, service, group, key = place(one.steps)
        listed.append(
            {
                "path": one.path,
                "cluster": cluster or None,
                "service": service or None,
                "group": group or None,
                "property": key,
                "before": one.before,
                "after": one.after,
            }
        )
    sides: dict[str, Json] = {
        name: {"name": side.label, "source": side.source} for name, side in (("before", before), ("after", after))
    }
    return {**sides, "same": found.same, **found.to_json(), "differences": listed}


def _as_table(before: Side, after: Side, found: Comparison) -> str:
    headings = ["CLUSTER", "SERVICE", "GROUP OR ROLE", "PROPERTY", before.label.upper(), after.label.upper()]
    rows = [
        [*(part or "-" for part in place(one.steps)), _short(one.before), _short(one.after)]
        for one in found.differences
    ]
    return table(headings, rows)


def _short(value: str | None) -> str:
    if value is None:
        return "(nothing)"
    line = value.replace("\n", "⏎")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _words(before: Side, after: Side, found: Comparison, in_clusters: int) -> str:
    count = len(found.differences) + in_clusters
    words = [show_count(count, "difference") if count else "nothing differs"]
    if in_clusters:
        words.append(f"{in_clusters} of them in virtual clusters")
    if found.not_comparable:
        words.append(f"{len(found.not_comparable)} not comparable, since a side hides the value")
    if found.added_keys:
        words.append(f"{show_count(len(found.added_keys), 'field')} that only {after.label} knows")
    if found.volatile:
        words.append(f"passed over, since they always differ: {show_count(found.volatile, 'place')}")
    sources = ", ".join(dict.fromkeys(f"{side.label}: {side.source}" for side in (before, after)))
    return f"{'; '.join(words)} ({sources})"
