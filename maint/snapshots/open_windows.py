"""Redaction windows that are open: this site's own, what records in the stores tell, and those of sites beside it."""

from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from maint import files
from maint.config.paths import actor
from maint.errors import CannotReach, Invalid, Refused, WorkFailed
from maint.model import java_options
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.manager import CLOSE_COMMAND
from maint.ports import Sight, Site
from maint.snapshots.in_progress import is_own, owner
from maint.snapshots.records import Record, named, read_kinds, write_record
from maint.snapshots.replicate import LOOKED, WINDOW, every_store, reach

OPENED, CLOSED = "opened", "closed"
RECORD = "window.json"  # in the state folder of the site that opened one


class OpenedFile(msgspec.Struct, frozen=True):
    """The options file of one manager host, by SHA-256: as it was ("absent": not there), and with redaction off."""

    before: str
    after: str


class AnnouncedWindow(msgspec.Struct, frozen=True):
    """A window that a record announces, and no record closes."""

    run: str
    opened_at: str
    by: str  # user@host
    owner: str  # tells the state folder that remembers it
    hosts: Mapping[str, OpenedFile]

    @property
    def words(self) -> str:
        """Whose it is, and since when."""
        return f"opened at {self.opened_at} by {self.by}, run {self.run}"


class EditedFile(msgspec.Struct, frozen=True):
    """The options file of one manager host."""

    original: str  # name of the sealed original among the undo objects
    before: str  # SHA-256 of the file as it was, "absent" where there was none
    after: str  # SHA-256 of the file with redaction switched off


class Window(msgspec.Struct, frozen=True):
    """An open window, as the state folder remembers it: the run that opened it, and the file of each host."""

    run: str
    opened_at: str
    hosts: Mapping[str, EditedFile]


class _Remembered(msgspec.Struct, frozen=True):
    """What is read of a window that the state folder of a site beside this one remembers."""

    run: str
    opened_at: str
    hosts: Mapping[str, OpenedFile]


class Announced(msgspec.Struct, frozen=True):
    """What the stores tell of windows: those that are open, and what could not be told, a line each."""

    open: Sequence[AnnouncedWindow] = ()
    doubts: Sequence[str] = ()
    unread: Mapping[str, Sequence[str]] = {}  # by store: names of records that cannot be verified


def record_of(state: Path) -> Path:
    """Return where a state folder remembers a window that is open."""
    return state / RECORD


def announce(site: Site, run: str, opened_at: str, hosts: Mapping[str, OpenedFile]) -> None:
    """Tell all machines, before it is opened, in the first store that takes the record; WorkFailed where none does."""
    facts: dict[str, Json] = {
        "state": OPENED,
        "opened_at": opened_at,
        "by": actor(),
        "owner": owner(site),
        "hosts": {host: {"before": one.before, "after": one.after} for host, one in hosts.items()},
    }
    failure: WorkFailed | None = None
    for target in _stores(site):
        try:
            write_record(target, WINDOW, run, facts)
        except WorkFailed as refused:
            failure = failure or refused
        else:
            return
    if failure is not None:
        raise failure


def close_announced(site: Site, run: str, opened_at: str) -> Sequence[str]:
    """Tell all machines that a window is closed; return what could not be told, a line each: nothing depends on it."""
    facts: dict[str, Json] = {"state": CLOSED, "opened_at": opened_at, "by": actor()}
    problems: list[str] = []
    for target in _stores(site):
        try:
            reach(target)
            if any((one.run, one.opened_at) == (run, opened_at) for one in announced_here(target).open):
                write_record(target, WINDOW, run, facts)
        except (WorkFailed, CannotReach, Invalid, Refused) as refused:
            problems.append(
                f"{target.store.location} could not be told that the window of run {run} is closed: {refused.in_a_line}"
            )
    return problems


def was_closed(site: Site, run: str, opened_at: str) -> bool:
    """Whether a record tells that a window is closed."""
    for target in _stores(site):
        with suppress(WorkFailed, CannotReach, Invalid, Refused):  # a store that is away tells nothing
            reach(target)
            records, _ = read_kinds(target, WINDOW)
            if any(_key(one) == (run, opened_at) and one.facts.get("state") == CLOSED for one in records):
                return True
    return False


def announced(site: Site) -> Announced:
    """Return what the site's stores, and the sites beside it, tell of open windows; who cannot be asked is a doubt."""
    told = beside(site)
    found = {(one.run, one.opened_at): one for one in told.open}
    doubts, unread = list(told.doubts), dict[str, Sequence[str]]()
    for target in _stores(site):
        try:
            reach(target)
            told = announced_here(target)
        except WorkFailed as failure:
            doubts.append(f"{target.store.location} could not be asked for open windows: {failure.in_a_line}")
            continue
        found |= {(one.run, one.opened_at): one for one in told.open}
        doubts += told.doubts
        unread |= told.unread
    return Announced(list(found.values()), doubts, unread)


def settle(site: Site, told: Announced) -> Sequence[str]:
    """Note that the hosts were looked at since, so that these records are no doubt; return what could not be noted."""
    problems: list[str] = []
    for target in _stores(site):
        if names := told.unread.get(target.store.location):
            try:
                write_record(target, LOOKED, named(names[-1])[1], {"names": list(names), "by": actor()})
            except WorkFailed as refused:
                problems.append(f"what was seen is not kept in {target.store.location}: {refused.in_a_line}")
    return problems


def announced_here(sight: Sight) -> Announced:
    """Return what one store tells of open windows; WorkFailed where it cannot be asked."""
    if sight.settings.backup is None:
        return Announced()
    records, doubtful = read_kinds(sight, WINDOW)
    if doubtful:
        seen = {name for one in read_kinds(sight, LOOKED)[0] for name in one.facts["names"]}
        doubtful = [one for one in doubtful if one not in seen]
    over = {_key(one) for one in records if one.facts.get("state") == CLOSED}
    doubts = [
        f"a redaction window may be open: {show_count(len(doubtful), 'record')} of windows in {sight.store.location}"
        f" cannot be verified, the last one {name}"
        for name in doubtful[-1:]
    ]
    unread = {sight.store.location: doubtful} if doubtful else {}
    return Announced([_window(one) for one in records if _key(one) not in over], doubts, unread)


def beside(sight: Sight) -> Announced:
    """Return what other sites of this machine that have the same manager remember of windows."""
    found, doubts = list[AnnouncedWindow](), list[str]()
    for name, path in _records_beside(sight):
        try:
            window = files.load(path, _Remembered)
        except files.Damaged as error:
            doubts.append(f"a redaction window of site {name} may be open: {path} cannot be read: {error}")
            continue
        if window is not None:
            found.append(AnnouncedWindow(window.run, window.opened_at, f"site {name}", "", window.hosts))
    return Announced(found, doubts)


def forget_beside(site: Site, hosts: Container[str]) -> None:
    """Let the sites beside this one remember no window of these hosts: it is closed."""
    for _, path in _records_beside(site):
        with suppress(files.Damaged):  # its own site says what to do
            window = files.load(path, _Remembered)
            if window is not None and all(host in hosts for host in window.hosts):
                files.remove(path)


def _records_beside(sight: Sight) -> Sequence[tuple[str, Path]]:
    # The manager's lock holds off the runs of these sites, so that none of them is at work with its record.
    return [(name, record_of(sight.settings.state.parent / name)) for name in sight.settings.same_manager]


def is_ours(sight: Sight, window: AnnouncedWindow) -> bool:
    """Whether this very state folder opened it."""
    return is_own(sight, window.owner)


def _stores(site: Site) -> Sequence[Site]:
    return every_store(site) if site.settings.backup is not None else ()


def _key(record: Record) -> tuple[str, str]:
    return record.snapshot, str(record.facts.get("opened_at"))


def _window(record: Record) -> AnnouncedWindow:
    """Return what a signed record says; what it does not say is taken from no other place."""
    opened_at, by, own = (str(record.facts.get(name) or "") for name in ("opened_at", "by", "owner"))
    hosts = record.facts.get("hosts")
    files = hosts if isinstance(hosts, dict) else {}
    return AnnouncedWindow(
        record.snapshot,
        opened_at,
        by or "somebody",
        own,
        {
            str(host): OpenedFile(str(one.get("before")), str(one.get("after")))
            for host, one in files.items()
            if isinstance(one, dict)
        },
    )


def remembered(state: Path) -> Window | None:
    """Return the window that the state folder remembers as open, None without one; Refused where it is damaged."""
    path = record_of(state)
    try:
        return files.load(path, Window)
    except files.Damaged as error:
        raise Refused(
            f"the record of the redaction window, {path}, cannot be read: {error}",
            detail=["a window may be open: the manager may show its secrets to every administrator"],
            hint=f"`{CLOSE_COMMAND}` closes it by what the hosts show; without a way to them, take the line"
            f" `{java_options.LINE}` out of {java_options.PATH}, restart {java_options.UNIT}, and delete {path}",
        ) from None


def left_open(site: Site) -> Window | None:
    """Return the remembered window, None where there is none, or where a record tells that another machine closed it.

    Raises:
        Refused: what is remembered is damaged.
    """
    window = remembered(site.state)
    return None if window is None or was_closed(site, window.run, window.opened_at) else window
