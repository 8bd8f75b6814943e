"""The redaction window: for as long as an export takes, the manager shows its secrets; it closes whatever happens."""

import hashlib
from collections.abc import Container, Generator, Iterable, Mapping, Sequence
from urllib.parse import quote

import msgspec
from pydantic import Field

from maint import files
from maint.errors import CannotReach, Invalid, LoginRefused, NotTrusted, Refused, Transient, WorkFailed
from maint.model import java_options
from maint.model.formatting import show_time
from maint.model.java_options import UNIT
from maint.model.manager import CLOSE_COMMAND
from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, Work
from maint.ports.manager_host import insist
from maint.snapshots.capture import refuse_full
from maint.snapshots.open_windows import (
    RECORD,
    Announced,
    EditedFile,
    OpenedFile,
    Window,
    announce,
    announced,
    announced_here,
    beside,
    close_announced,
    forget_beside,
    is_ours,
    record_of,
    remembered,
    settle,
    was_closed,
)
from maint.steps.hosts.fan_out import require_ssh, texts
from maint.steps.manager import server
from maint.steps.step import Arguments, NoArguments, Progress, Step, done, unchanged


def open_elsewhere(site: Site) -> Sequence[str]:
    """Return what is to be said of windows that others opened, or whose record is lost: whose, since when, what to do;
    a line each.
    """
    told, known = announced(site), record_of(site.state).exists()
    open_ = [
        f"a redaction window is open, {one.words}: everyone who may read the API sees passwords; where that run is not "
        f"at work any more, `{CLOSE_COMMAND}` closes it"
        for one in told.open
        if not (known and is_ours(site, one))
    ]
    return [*open_, *(f"{doubt}; `{CLOSE_COMMAND}` looks at the hosts themselves" for doubt in told.doubts)]


def close_elsewhere(site: Site, limit: float) -> Progress:
    """Close windows that this state folder does not remember: those that records tell of, and those that files show."""
    told, hosts = announced(site), site.settings.hosts_in("manager")
    yield from told.doubts
    if site.settings.ssh is None and not told.open and not told.doubts:
        return unchanged("no window is open")
    require_ssh(site)
    insist(site, _not_ours(site, [host.name for host in hosts]))
    yield from (f"closing the redaction window {one.words}" for one in told.open)
    stale, foreign = list[str](), list[str]()
    for host in hosts:
        before = {one.hosts[host.name].before for one in told.open if host.name in one.hosts}
        edited = yield from _take_away(site, host.name, before)
        if not edited and java_options.redaction_is_off(server.read_options(site.shell, host.name) or b""):
            foreign.append(host.name)
        elif edited or server.running_off(site, host.name) in ((True, None) if told.open else (True,)):
            stale.append(host.name)
    if stale:
        yield from server.restart_until_heard(site, stale, limit)
    problems = [line for one in told.open for line in close_announced(site, one.run, one.opened_at)]
    problems += [] if foreign else settle(site, told)
    forget_beside(site, [host.name for host in hosts])
    words = "the manager redacts again" if stale else "no window is open"
    if foreign:
        words = _stays(foreign)
    elif told.doubts and not stale:
        words = "the options files switch redaction on, and the running servers have it on"
    words = "; ".join([words, *problems])
    return done(words) if stale or told.open else unchanged(words)


def _not_ours(site: Site, hosts: Iterable[str]) -> Sequence[str]:
    # Whose files hold no line of ours: one that does is ours to close, whatever machine the config means by now.
    ours = java_options.LINE.encode()
    return [host for host in hosts if ours not in (server.read_options(site.shell, host) or b"")]


def _stays(hosts: Iterable[str]) -> str:
    return f"a line of somebody else's in {java_options.PATH} on {', '.join(hosts)} switches redaction off: it stays"


def _take_away(site: Site, host: str, before: Container[str]) -> Generator[str, None, bool]:
    """Take our line out of a host's file; `before`: the digests that it may have had. Return whether it was there."""
    present = server.read_options(site.shell, host)
    if present is None or java_options.LINE.encode() not in present:
        return False
    found = next((one for one in java_options.closings(present) if server.options_digest(one) in before), None)
    if found is None and server.ABSENT in before and present == java_options.opened(b""):
        yield f"removing {java_options.PATH} on {host}, which was not there before"
        server.delete_options(site, host)
        return True
    yield f"taking our line out of {java_options.PATH} on {host}"
    site.shell.write_file(host, java_options.PATH, java_options.closed(present) if found is None else found)
    return True


_LIMIT = 900.0  # seconds until a restarted server must answer


class CloseArguments(Arguments):
    """Which windows."""

    others: bool = Field(False, description="whether those that other machines opened are closed, too")


class OpenWindow(Step[NoArguments]):
    """Switch the manager's API redaction off: edit CMF_JAVA_OPTS on its hosts, restart, wait for the version."""

    kind = "window.open"
    effect = Effect.CHANGE

    def plan(self, args: NoArguments, sight: Sight) -> Iterable[Action]:
        """Plan the edit on every manager host; refuses where that, or a whole export, cannot be."""
        require_ssh(sight)
        refuse_full(sight)
        refuse_partial(sight)
        hosts = server.server_hosts(sight.settings, sight.manager)
        doubt = insist(sight)
        contents = {host.name: server.read_options(sight.shell, host.name) for host in hosts}
        names = ", ".join(contents)
        yield self.action(
            f"{java_options.PATH} on {names}",
            f"switch redaction off in {java_options.PATH} on {names}, and restart {UNIT}{doubt}",
            {"hosts": list(contents)},
            undo=f"remove the line `{java_options.LINE}` from {java_options.PATH} and restart {UNIT}",
            facts={name: server.options_digest(content) for name, content in contents.items()},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        window = remembered(site.state)
        if window is not None and was_closed(site, window.run, window.opened_at):
            yield from close(site, window, work.timeout or _LIMIT)  # what is opened now is another one
            window = None
        if window is None:
            if site.shared is not None and not all(is_ours(site, one) for one in announced(site).open):
                yield from close_elsewhere(site, work.timeout or _LIMIT)  # who opened it has lost the lease
            insist(site, texts(action.arguments["hosts"]))
            contents = _contents(site, action)
            if any(java_options.LINE.encode() in (content or b"") for content in contents.values()):
                window = _forgotten(site)
            if window is not None and window.run != work.run:
                yield f"closing the redaction window that run {window.run} left open"
                yield from close(site, window, work.timeout or _LIMIT)
                window, contents = None, _contents(site, action)
        if window is None:
            if all(java_options.redaction_is_off(content or b"") for content in contents.values()):
                return (yield from _open_already(site, list(contents), work.timeout or _LIMIT))
            refuse_full(site)  # a restart that could not be followed by an export is none that anybody wants
            refuse_partial(site)  # nor is one of a server that lets this run in no more
            window = _opening(site, work, contents)
            _tell(site, work, window, new=True)
        else:
            _refuse_shut_out(site)
            insist(site, _not_ours(site, window.hosts))
            _remember(site, window)
        _tell(site, work, window)
        yield from _edit(site, window)
        version = yield from server.restart_servers(site, window.hosts, work.timeout or _LIMIT)
        work.note("open", True)
        return done(f"redaction is off until the window closes; API v{version} answers")

    def holds(self, action: Action, site: Site, work: Work) -> bool:
        if work.noted("open") is None:
            return True
        return remembered(site.state) is not None and all(
            java_options.redaction_is_off(server.read_options(site.shell, host) or b"")
            for host in texts(action.arguments["hosts"])
        )


def _contents(site: Site, action: Action) -> Mapping[str, bytes | None]:
    return {host: server.read_options(site.shell, host) for host in texts(action.arguments["hosts"])}


def _refuse_shut_out(site: Site) -> None:
    """Refuse as `refuse_partial` where a server answers; one that is starting since a kill is waited for later."""
    try:
        refuse_partial(site)
    except (LoginRefused, NotTrusted):
        raise
    except (CannotReach, WorkFailed):
        return


def _open_already(site: Site, hosts: Sequence[str], limit: float) -> Progress:
    whose = "; ".join(open_elsewhere(site)) or "by somebody else"
    words = f"{java_options.PATH} has redaction switched off already and stays so: {whose}"
    running = [server.running_off(site, host) for host in hosts]
    if False not in running:
        doubt = (
            f"; where the export is redacted all the same, {UNIT} was not restarted since" if None in running else ""
        )
        return unchanged(words + doubt)
    yield f"{java_options.PATH} has redaction switched off, and {UNIT} was not restarted since"
    version = yield from server.restart_servers(site, hosts, limit)
    return done(f"{words}; API v{version} answers without redaction since the restart")


def _tell(site: Site, work: Work, window: Window, *, new: bool = False) -> None:
    """Tell all machines of the window before it is opened; Refused where no store takes that, and nothing is edited."""
    if work.noted("told") == window.opened_at:
        return
    try:
        _close_own(site)
        hosts = {host: OpenedFile(edited.before, edited.after) for host, edited in window.hosts.items()}
        announce(site, window.run, window.opened_at, hosts)
    except WorkFailed as failure:
        if new:
            forget(site, window)
        raise Refused(
            "the redaction window is not opened: no store takes the record that tells other machines of it",
            detail=[failure.message, *failure.detail],
            hint="mend the store (`maint doctor`), and run it again: a window that nobody sees may stay open",
        ) from None
    work.note("told", window.opened_at)


def _close_own(site: Site) -> None:
    # Windows of this state folder that no record closed, since the store was away then: none but this one is open here.
    for one in announced(site).open:
        if is_ours(site, one):
            close_announced(site, one.run, one.opened_at)


def forget(site: Site, window: Window) -> None:
    """Remember the window no more, which is closed, or was never opened."""
    for edited in window.hosts.values():
        site.undo.drop(edited.original)
    files.remove(site.state / RECORD)


def _opening(site: Site, work: Work, contents: Mapping[str, bytes | None]) -> Window:
    hosts = {
        host: EditedFile(
            _keep(site, host, content or b""),
            server.options_digest(content),
            server.options_digest(java_options.opened(content or b"")),
        )
        for host, content in contents.items()
    }
    window = Window(work.run, show_time(site.clock.now()), hosts)
    _remember(site, window)
    return window


def _remember(site: Site, window: Window) -> None:
    if not record_of(site.state).exists():  # on disk, whole, before anything is edited
        files.replace(record_of(site.state), msgspec.json.encode(window))


def _forgotten(site: Site) -> Window | None:
    """Return the window of this state folder whose record was lost: a signed one tells of it, and the hosts show it."""
    named = {host.name for host in site.settings.hosts_in("manager")}
    for one in announced(site).open if site.settings.ssh else ():
        hosts = [host for host in one.hosts if host in named]
        if is_ours(site, one) and len(_not_ours(site, hosts)) < len(hosts):
            files_ = {host: EditedFile(_name(host), file.before, file.after) for host, file in one.hosts.items()}
            return Window(one.run, one.opened_at, files_)
    return None


def _keep(site: Site, host: str, content: bytes) -> str:
    # Under a name that the next window finds again: a kill before the record leaves nothing lost.
    site.undo.drop(_name(host))
    return site.undo.keep(content, _name(host))


def _name(host: str) -> str:
    return hashlib.sha256(f"options of {host} before the window".encode()).hexdigest()[:32]


def _edit(site: Site, window: Window) -> Generator[str, None, None]:
    for host, edited in window.hosts.items():
        present = server.read_options(site.shell, host)
        if server.options_digest(present) == edited.before or not java_options.redaction_is_off(present or b""):
            yield f"adding {java_options.PROPERTY}=false to {java_options.PATH} on {host}"
            site.shell.write_file(host, java_options.PATH, java_options.opened(present or b""))


class CloseWindow(Step[CloseArguments]):
    """Put the options files back as they were, restart, wait for the version."""

    kind = "window.close"
    effect = Effect.CHANGE

    def plan(self, args: CloseArguments, sight: Sight) -> Iterable[Action]:
        """Plan the way back; where windows of others are meant, name those that are known."""
        words = f"put {java_options.PATH} back as it was, and restart {UNIT}"
        if args.others:
            near = beside(sight)
            words += _named(near)
            try:
                told = announced_here(sight)
                words += _named(told)
            except WorkFailed as failure:  # a store that is away keeps no window open
                words += f"; whether other machines left one open is not known: {failure.message}"
            else:  # what no record here tells of, as of a site that had another name, the hosts still show
                seen = () if told.open or near.open else server.redaction_switches(sight)
                words += "".join(f"; {one.words}" for one in seen if one.words)
        yield self.action(java_options.PATH, words, {"others": args.others}, undo="nothing to undo")

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        others = bool(action.arguments.get("others"))
        try:
            window = remembered(site.state)
        except Refused as damaged:
            if not others or site.settings.ssh is None:
                raise
            yield damaged.message
            window = None
        if window is None and not others:
            window = _forgotten(site)
        if window is None:
            for host in site.settings.hosts_in("manager"):
                site.undo.drop(_name(host.name))  # what a run kept that was killed before it opened anything
            if others:
                result = yield from close_elsewhere(site, work.timeout or _LIMIT)
                files.remove(site.state / RECORD)  # a damaged one: who finds it looks at the hosts again
                return result
            return unchanged("no window is open")
        foreign = yield from close_own(site, window, work.heir(), work.timeout or _LIMIT)
        if foreign is None:
            return unchanged("another machine has taken the run up, or has closed it")
        if foreign:
            return done(f"our line is gone, and {_stays(foreign)}; the API shows passwords", partly=True)
        return done("our line is gone, and the manager redacts again")


def _named(told: Announced) -> str:
    open_ = [f"a window is open, {one.words}" for one in told.open]
    return "".join(f"; {one}" for one in (*open_, *told.doubts))


def close_own(
    site: Site, window: Window, heir: str | None, limit: float = _LIMIT
) -> Generator[str, None, Sequence[str] | None]:
    """Close a window that this machine has opened, see `close`; return None where it is another one's by now.

    Args:
        heir: see `Work.heir`; that machine has taken the very run up, or closed the window and may have its own.
        limit: seconds until the restarted manager must answer.
    """
    if heir is not None and (heir == window.run or was_closed(site, window.run, window.opened_at)):
        yield "the redaction window is left to the machine that works on the site now, or has closed it"
        forget(site, window)
        return None
    return (yield from close(site, window, limit))


def close(site: Site, window: Window, limit: float = _LIMIT) -> Generator[str, None, Sequence[str]]:
    """Put the options back on every host, restart, wait (seconds), and only then forget the window.

    Return the hosts where a line of somebody else's, written meanwhile, switches redaction off all the same.
    """
    _refuse_strangers(site, window)
    insist(site, _not_ours(site, window.hosts))
    foreign: list[str] = []
    edited_here = False
    for host, edited in window.hosts.items():
        present = server.read_options(site.shell, host)
        seen = server.options_digest(present)
        if present is None or seen == edited.before:
            continue
        edited_here = True
        if seen == edited.after:
            if edited.before == server.ABSENT:
                yield f"taking {java_options.PATH} on {host} away again"
                server.delete_options(site, host)
                continue
            words, original = _original(site, host, edited, present)
            yield words
            site.shell.write_file(host, java_options.PATH, original)
        else:
            yield f"{java_options.PATH} on {host} was edited by somebody else; taking away our line only"
            content = java_options.closed(present)
            site.shell.write_file(host, java_options.PATH, content)
            foreign += [host] if java_options.redaction_is_off(content) else []
    if edited_here or not was_closed(site, window.run, window.opened_at):  # else whoever closed it has restarted it
        as_before = not edited_here and all(server.running_off(site, host) is False for host in window.hosts)
        yield from server.restart_until_heard(site, () if as_before else window.hosts, limit)
    yield from close_announced(site, window.run, window.opened_at)
    forget(site, window)  # last: who finds the record finishes what is above
    if foreign:
        yield f"WARNING: {_stays(foreign)}"
    return foreign


def _original(site: Site, host: str, edited: EditedFile, present: bytes) -> tuple[str, bytes]:
    """Return what a host's file is put back to, and the words for it; without what was kept, our line alone goes."""
    lost = "what was kept of it is of another time"
    try:
        original = site.undo.fetch(edited.original)
        if server.options_digest(original) == edited.before:
            return f"putting {java_options.PATH} on {host} back as it was", original
    except (WorkFailed, Invalid) as failure:
        lost = failure.message
    return f"{lost}; taking away our line in {java_options.PATH} on {host} only", java_options.closed(present)


def _refuse_strangers(site: Site, window: Window) -> None:
    """Refuse where the config names a host no more on which the window was opened: nobody can look at it."""
    named = {host.name for host in (*site.settings.hosts, *site.settings.hosts_in("manager"))}
    if strangers := [host for host in window.hosts if host not in named]:
        raise Refused(
            f"run {window.run} opened a redaction window on {', '.join(strangers)}, which the config does not name",
            detail=["nothing else is begun before it is closed"],
            hint="name it below `hosts:` again, with the group manager; where that machine is gone for good, its"
            f" window is, too: delete {site.state / RECORD}",
        )


_LESSER = ("ROLE_CLUSTER_ADMIN", "Cluster Administrator")


def refuse_partial(sight: Sight) -> None:
    """Refuse where the manager hides Navigator's settings from this account; WorkFailed where its API is too old."""
    sight.manager.require_api(sight.settings.manager.api.deployment)
    account = sight.manager.log_in().name
    try:
        if not any(role.type.startswith("NAVIGATOR") for role in sight.manager.management_roles()):
            return
        found = sight.manager.get(f"/users/{quote(account, safe='')}")
    except (CannotReach, Transient, WorkFailed):  # the export itself will tell
        return
    roles = found.get("authRoles") if isinstance(found, Mapping) else None
    listed = roles if isinstance(roles, list) else []
    named = [one.get("name") or one.get("displayName") for one in listed if isinstance(one, Mapping)]
    if named and all(name in _LESSER for name in named):
        raise Refused(
            f"no export that {account} takes can be restored: it is Cluster Administrator only, and the manager hides"
            " Navigator's settings from that role",
            hint="give the account the role Full Administrator, or name another one under `manager.username`",
        )
