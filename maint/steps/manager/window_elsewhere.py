"""Close redaction windows that this state folder does not remember: those that records tell of or files show."""

from collections.abc import Container, Generator, Sequence

from maint.model.manager import CLOSE_COMMAND
from maint.ports import Site
from maint.snapshots.open_windows import announced, close_announced, is_ours
from maint.steps.hosts.selection import require_ssh
from maint.steps.manager import java_options, server_options
from maint.steps.manager.server import await_version
from maint.steps.step import Progress, done, unchanged


def open_elsewhere(site: Site) -> Sequence[str]:
    """Return what is to be said of windows that others opened: whose, since when, what to do; a line each."""
    told = announced(site)
    open_ = [
        f"a redaction window is open, {one.words}: whoever may read the API sees passwords; where that run is not at "
        f"work any more, `{CLOSE_COMMAND}` closes it"
        for one in told.open
        if not is_ours(site, one)
    ]
    return [*open_, *(f"{doubt}; `{CLOSE_COMMAND}` looks at the hosts themselves" for doubt in told.doubts)]


def close_elsewhere(site: Site, limit: float) -> Progress:
    """Close windows that this state folder does not remember: those that records tell of, and those that files show."""
    told, hosts = announced(site), site.settings.hosts_in("manager")
    yield from told.doubts
    if site.settings.ssh is None and not told.open and not told.doubts:
        return unchanged("no window is open")
    require_ssh(site)
    yield from (f"closing the redaction window {one.words}" for one in told.open)
    stale, foreign = list[str](), list[str]()
    for host in hosts:
        before = {one.hosts[host.name].before for one in told.open if host.name in one.hosts}
        edited = yield from _take_away(site, host.name, before)
        if not edited and java_options.redaction_is_off(server_options.read_options(site.shell, host.name) or b""):
            foreign.append(host.name)
        elif edited or server_options.running_off(site, host.name) in ((True, None) if told.open else (True,)):
            stale.append(host.name)
    if stale:
        yield from server_options.restart_servers(site, stale)
        yield from await_version(site, limit)
    problems = [line for one in told.open for line in close_announced(site, one.run, one.opened_at)]
    words = "the manager redacts again" if stale else "no window is open"
    if foreign:
        words = (
            f"a line of somebody else's in {java_options.PATH} on {', '.join(foreign)} switches redaction off: it stays"
        )
    elif told.doubts and not stale:
        words = "the options files switch redaction on, and the running servers have it on"
    words = "; ".join([words, *problems])
    return done(words) if stale or told.open else unchanged(words)


def _take_away(site: Site, host: str, before: Container[str]) -> Generator[str, None, bool]:
    """Take our line out of a host's file; `before`: the digests that it may have had. Return whether it was there."""
    present = server_options.read_options(site.shell, host)
    if present is None or java_options.LINE.encode() not in present:
        return False
    found = next((one for one in java_options.closings(present) if server_options.digest(one) in before), None)
    if found is None and server_options.ABSENT in before and present == java_options.opened(b""):
        yield f"removing {java_options.PATH} on {host}, which was not there before"
        server_options.delete_options(site, host)
        return True
    yield f"taking our line out of {java_options.PATH} on {host}"
    site.shell.write_file(host, java_options.PATH, java_options.closed(present) if found is None else found)
    return True
