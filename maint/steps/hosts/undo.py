"""What the state folder keeps of hosts: sealed content by host and name, so that it can be put back."""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import asdict

from maint.ports import Site

_RECORD = "host-files.json"
_AT_MOST = 5  # of each thing; what is older is forgotten


class Kept(msgspec.Struct, frozen=True):
    """One thing that was on a host.

    Attributes:
        host: where it was.
        name: a path, or `iptables` for the rules of the firewall.
        sealed: the name of the sealed content; empty where there was no such file.
        run: the run that kept it.
        kept_at: when, UTC.
        owner, group, mode: of a file; empty otherwise.
    """

    host: str
    name: str
    sealed: str
    run: str
    kept_at: str
    owner: str = ""
    group: str = ""
    mode: str = ""


def kept(state: Path) -> Sequence[Kept]:
    """Return all that is kept, the newest last."""
    try:
        found: Sequence[Mapping[str, str]] = json.loads((state / _RECORD).read_text())
    except FileNotFoundError:
        return ()
    return [Kept(**one) for one in found]


def newest(state: Path, host: str, name: str) -> Kept | None:
    """Return what was kept last of a host under a name, None where nothing is."""
    return next((one for one in reversed(kept(state)) if (one.host, one.name) == (host, name)), None)


def keep(site: Site, run: str, found: Mapping[str, bytes | None], name: str, **facts: Mapping[str, str]) -> None:
    """Seal content of hosts, and write down what it is; on disk before this returns.

    What the same run has kept already stays: it is the state before the run.

    Args:
        site: the site.
        run: the run.
        found: the content by host; None: there was none.
        name: what it is.
        facts: owner, group and mode, each by host.
    """
    before = list(kept(site.state))
    have = {one.host for one in before if one.run == run and one.name == name}
    now = site.clock.now().isoformat()
    for host, content in found.items():
        if host not in have:
            sealed = "" if content is None else site.undo.keep(content)
            more = {key: values.get(host, "") for key, values in facts.items()}
            before.append(Kept(host, name, sealed, run, now, **more))
    old = [one for one in before if one not in _last(before)]
    _write(site.state, _last(before))
    for one in old:
        if one.sealed:
            site.undo.drop(one.sealed)


def _last(records: Sequence[Kept]) -> list[Kept]:
    """Return what stays: of each thing the newest few."""
    seen: Counter[tuple[str, str]] = Counter()
    stays: list[Kept] = []
    for one in reversed(records):
        seen[one.host, one.name] += 1
        stays += [one] if seen[one.host, one.name] <= _AT_MOST else []
    return stays[::-1]


def _write(state: Path, records: Sequence[Kept]) -> None:
    staged = state / f".{_RECORD}"
    handle = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(json.dumps([asdict(one) for one in records]))
        file.flush()
        os.fsync(file.fileno())
    staged.replace(state / _RECORD)
    folder = os.open(state, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
