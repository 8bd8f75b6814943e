"""Keep what was on hosts, sealed in the state folder by host and name, so that it can be put back."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from maint import files
from maint.errors import WorkFailed
from maint.model.formatting import show_time
from maint.ports import Site

_RECORD = "host-files.json"
_AT_MOST = 5  # of each thing; what is older is forgotten
BEGUN, _ENDED = "begun", "ended"  # stand for what is put in place in several steps


class UndoRecord(msgspec.Struct, frozen=True):
    """One thing that was on a host."""

    host: str
    name: str  # a path, or `iptables` for the rules of the firewall
    sealed: str  # the name of the sealed content; empty where there was no such file
    run: str  # the run that kept it
    kept_at: str  # when, UTC
    owner: str = ""  # owner, group and mode of a file; empty otherwise
    group: str = ""
    mode: str = ""
    put: tuple[str, ...] = ()  # stand for what the run put in its place, its attempts included; none in older records

    @property
    def is_under_way(self) -> bool:
        """Whether what it was kept for has begun, and nobody has seen its end."""
        return self.put[-1:] == (BEGUN,)


def records(state: Path) -> Sequence[UndoRecord]:
    """Return all that is kept, the newest last; WorkFailed where the record is damaged."""
    path = state / _RECORD
    try:
        return files.load(path, list[UndoRecord]) or ()
    except files.Damaged as error:
        raise WorkFailed(
            f"{path} is damaged, so what is kept of hosts is not known",
            detail=[str(error)],
            hint=f"move it away; the contents themselves lie sealed in {state / 'undo'}",
        ) from None


def newest(state: Path, host: str, name: str) -> UndoRecord | None:
    """Return what was kept last of a host under a name, None where nothing is."""
    return next((one for one in reversed(records(state)) if (one.host, one.name) == (host, name)), None)


def keep(
    site: Site,
    run: str,
    found: Mapping[str, bytes | None],
    name: str,
    put: Mapping[str, str] | None = None,
    **facts: Mapping[str, str],
) -> None:
    """Seal content of hosts, None where there was none, with owner, group and mode; on disk before this returns.

    What the same run has kept already stays: it is the state before the run.

    Args:
        put: what stands for the content that comes in its place, by host.
    """
    added = {host: (one,) for host, one in (put or {}).items()}
    before = [
        replace(one, put=(*one.put, *added.get(one.host, ()))) if (one.run, one.name) == (run, name) else one
        for one in records(site.state)
    ]
    have = {one.host for one in before if one.run == run and one.name == name}
    now = show_time(site.clock.now())
    for host, content in found.items():
        if host not in have:
            sealed = "" if content is None else site.undo.keep(content)
            more = {key: values.get(host, "") for key, values in facts.items()}
            before.append(UndoRecord(host, name, sealed, run, now, put=added.get(host, ()), **more))
    stays = _last(before)
    old = [one for one in before if one not in stays]
    files.replace(site.state / _RECORD, msgspec.json.encode(stays))
    for one in old:
        if one.sealed:
            site.undo.drop(one.sealed)


def end(site: Site, hosts: Sequence[str], name: str) -> None:
    """Note that what was kept last of hosts under a name is under way no more."""
    newest_ones = {host: newest(site.state, host, name) for host in hosts}
    for run in {one.run for one in newest_ones.values() if one and one.is_under_way}:
        of_run = [host for host, one in newest_ones.items() if one and one.run == run and one.is_under_way]
        keep(site, run, {}, name, dict.fromkeys(of_run, _ENDED))


def _last(records: Sequence[UndoRecord]) -> list[UndoRecord]:
    # Of each thing the newest few stay.
    seen: Counter[tuple[str, str]] = Counter()
    stays: list[UndoRecord] = []
    for one in reversed(records):
        seen[one.host, one.name] += 1
        stays += [one] if seen[one.host, one.name] <= _AT_MOST else []
    return stays[::-1]
