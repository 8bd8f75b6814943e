"""`maint backup diff` and `maint backup drift`: what differs between two configurations, in three forms."""

from maint.cli.flags import Flags
from maint.cli.open_site import opened
from maint.cli.sanitize import printable
from maint.cli.screen import Screen, table
from maint.deployment.compare import Comparison
from maint.errors import Differences
from maint.model.json import Json
from maint.model.snapshot import ClusterSummary, Snapshot
from maint.snapshots.catalogue import find
from maint.snapshots.diff import Side, differences, latest, of_server, of_snapshot, place, unified

_LONGEST = 60  # characters of a value in the table


def diff(flags: Flags, first: str, second: str, redacted: bool, exit_code: bool) -> int:
    """Compare two snapshots."""
    with opened(flags) as (site, screen):
        one, other = find(site, first), find(site, second)
        _tell_clusters(screen, one, other)
        copies = redacted or not site.identities()
        before, after = (of_snapshot(site, snapshot, redacted=copies) for snapshot in (one, other))
        return _told(screen, before, after, differences(site, before, after), exit_code)


def _tell_clusters(screen: Screen, before: Snapshot, after: Snapshot) -> None:
    """Say in counts what differs of virtual clusters."""
    then, now = ({one.name: one for one in snapshot.virtual_clusters} for snapshot in (before, after))
    for name in sorted({*then, *now}):
        one, other = _counts(then.get(name)), _counts(now.get(name))
        screen.say(f"virtual cluster {name}: {one}" + ("" if one == other else f" became {other}"))


def _counts(one: ClusterSummary | None) -> str:
    if one is None:
        return "nothing"
    return f"{one.jobs} jobs, {one.resources} resources, {one.files} files of {one.bytes} bytes"


def drift(flags: Flags, wanted: str, redacted: bool, exit_code: bool) -> int:
    """Compare a snapshot with the live manager."""
    with opened(flags) as (site, screen):
        snapshot = find(site, wanted) if wanted else latest(site)
        copy = redacted or not site.identities()
        before = of_snapshot(site, snapshot, redacted=copy, whole=copy)
        after = of_server(site, whole=copy)
        return _told(screen, before, after, differences(site, before, after), exit_code)


def _told(screen: Screen, before: Side, after: Side, found: Comparison, exit_code: bool) -> int:
    if screen.output == "text":
        text = unified(before, after, found)
        screen.raw(printable(text + "\n") if text else "")
        if found.not_comparable:  # the text has no place for it, and it must not be missed
            screen.warn(_words(before, after, found))
    else:
        screen.emit(_as_json(before, after, found), _as_table(before, after, found) if found.differences else "")
    screen.say(_words(before, after, found))
    if exit_code and found.differences:
        return Differences.exit_code
    return 0


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


def _words(before: Side, after: Side, found: Comparison) -> str:
    count = len(found.differences)
    words = [f"{count} difference{'' if count == 1 else 's'}" if count else "nothing differs"]
    if found.not_comparable:
        words.append(f"{len(found.not_comparable)} not comparable, since a side hides the value")
    if found.added_keys:
        words.append(f"{len(found.added_keys)} fields that only {after.label} knows")
    if found.volatile:
        words.append(f"{found.volatile} places passed over that always differ")
    sources = ", ".join(dict.fromkeys(f"{side.label}: {side.source}" for side in (before, after)))
    return f"{'; '.join(words)} ({sources})"
