"""The redaction window: for as long as an export takes, the manager shows its secrets; it closes whatever happens."""

import hashlib
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path

import msgspec

from maint import files
from maint.config.schema import HostSettings, SiteSettings
from maint.errors import Refused, WorkFailed
from maint.model.manager import Instance
from maint.model.plan import Action, Effect
from maint.ports import ManagerSight, ShellSight, Sight, Site, Work
from maint.steps.hosts.fan_out import texts
from maint.steps.manager import java_options
from maint.steps.manager.server import UNIT, await_version, require_ssh
from maint.steps.step import NoArguments, Progress, Step, done, unchanged

_RECORD = "window.json"
_LIMIT = 900.0  # seconds until a restarted server must answer
_ABSENT = "absent"
CLOSE_COMMAND = "maint manager export --close-window"


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


def remembered(state: Path) -> Window | None:
    """Return the window that the state folder remembers as open, None without one; Refused where it is damaged."""
    path = state / _RECORD
    try:
        return msgspec.json.decode(path.read_bytes(), type=Window)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise Refused(
            f"the record of the redaction window, {path}, cannot be read: {error}",
            detail=["a window may be open: the manager may show its secrets to every administrator"],
            hint=f"look whether {java_options.PATH} on the manager's host has the line `{java_options.LINE}`;"
            f" where it has, take it out and restart {UNIT}; then delete {path}",
        ) from None


def _remember(state: Path, window: Window) -> None:
    # On disk, whole, before anything is edited.
    files.replace(state / _RECORD, msgspec.json.encode(window))


class OpenWindow(Step[NoArguments]):
    """Switch the manager's API redaction off: edit CMF_JAVA_OPTS on its hosts, restart, wait for the version."""

    kind = "window.open"
    effect = Effect.CHANGE

    def plan(self, args: NoArguments, sight: Sight) -> Iterable[Action]:
        """Plan the edit on every manager host; refuses where one of several servers cannot be edited."""
        require_ssh(sight)
        hosts = servers(sight.settings, sight.manager)
        contents = {host.name: _file(sight.shell, host.name) for host in hosts}
        names = ", ".join(contents)
        yield self.action(
            f"{java_options.PATH} on {names}",
            f"switch redaction off in {java_options.PATH} on {names}, and restart {UNIT}",
            {"hosts": list(contents)},
            undo=f"remove the line `{java_options.LINE}` from {java_options.PATH} and restart {UNIT}",
            facts={name: _digest(content) for name, content in contents.items()},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Keep the originals, remember the window, edit, restart, wait."""
        window = remembered(site.state)
        if window is None:
            contents = {host: _file(site.shell, host) for host in texts(action.arguments["hosts"])}
            if all(java_options.redaction_is_off(content or b"") for content in contents.values()):
                return unchanged(
                    f"{java_options.PATH} has redaction switched off already, by somebody else: it stays so;"
                    f" where the export is redacted all the same, {UNIT} was not restarted since"
                )
            window = _opening(site, work, contents)
        yield from _edit(site, window)
        yield from _restart(site, list(window.hosts))
        version = yield from await_version(site, work.timeout or _LIMIT)
        work.note("open", True)
        return done(f"redaction is off until the window closes; API v{version} answers")

    def holds(self, action: Action, site: Site, work: Work) -> bool:
        """Whether the window of an earlier attempt is still open: on the hosts, not only in its record."""
        if work.noted("open") is None:
            return True
        return remembered(site.state) is not None and all(
            java_options.redaction_is_off(_file(site.shell, host) or b"") for host in texts(action.arguments["hosts"])
        )


def _opening(site: Site, work: Work, contents: Mapping[str, bytes | None]) -> Window:
    hosts = {
        host: EditedFile(
            _keep(site, host, content or b""), _digest(content), _digest(java_options.opened(content or b""))
        )
        for host, content in contents.items()
    }
    window = Window(work.run, site.clock.now().isoformat(), hosts)
    _remember(site.state, window)
    return window


def _keep(site: Site, host: str, content: bytes) -> str:
    # Under a name that the next window finds again: a kill before the record leaves nothing lost.
    site.undo.drop(_name(host))
    return site.undo.keep(content, _name(host))


def _name(host: str) -> str:
    return hashlib.sha256(f"options of {host} before the window".encode()).hexdigest()[:32]


def _digest(content: bytes | None) -> str:
    return _ABSENT if content is None else hashlib.sha256(content).hexdigest()


def _edit(site: Site, window: Window) -> Generator[str, None, None]:
    for host, edited in window.hosts.items():
        present = _file(site.shell, host)
        if _digest(present) == edited.before:
            yield f"adding {java_options.PROPERTY}=false to {java_options.PATH} on {host}"
            site.shell.write_file(host, java_options.PATH, java_options.opened(present or b""))


def _restart(site: Site, hosts: Iterable[str]) -> Generator[str, None, None]:
    for host in hosts:
        yield f"restarting {UNIT} on {host}"
        ran = site.shell.run(host, f"systemctl restart {UNIT}", timeout=300.0)
        if not ran.ok:
            said = ran.err.decode(errors="replace").strip()[-500:]
            raise WorkFailed(
                f"{UNIT} on {host} could not be restarted", detail=[said], hint=f"{CLOSE_COMMAND} tries again"
            )
    site.manager.forget_login()


class CloseWindow(Step[NoArguments]):
    """Put the options files back as they were, restart, wait for the version."""

    kind = "window.close"
    effect = Effect.CHANGE

    def plan(self, args: NoArguments, sight: Sight) -> Iterable[Action]:
        """Plan the way back; there is nothing to look at yet."""
        yield self.action(
            java_options.PATH, f"put {java_options.PATH} back as it was, and restart {UNIT}", undo="nothing to undo"
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        window = remembered(site.state)
        if window is None:
            for host in site.settings.hosts_in("manager"):
                site.undo.drop(_name(host.name))  # what a run kept that was killed before it opened anything
            return unchanged("no window is open")
        yield from close(site, window, work.timeout or _LIMIT)
        return done("the options are as they were, and the manager redacts again")


def close(site: Site, window: Window, limit: float = _LIMIT) -> Generator[str, None, None]:
    """Put the options back on every host, restart, wait (seconds), and only then forget the window."""
    for host, edited in window.hosts.items():
        present = _file(site.shell, host)
        seen = _digest(present)
        if present is None or seen == edited.before:
            continue
        if seen == edited.after:
            yield f"putting {java_options.PATH} on {host} back as it was"
            _put_back(site, host, edited)
        else:
            yield f"{java_options.PATH} on {host} was edited by somebody else; taking away our line only"
            site.shell.write_file(host, java_options.PATH, java_options.closed(present))
    yield from _restart(site, window.hosts)
    yield from await_version(site, limit)
    for edited in window.hosts.values():
        site.undo.drop(edited.original)
    files.remove(site.state / _RECORD)  # last: who finds the record finishes what is above


def _put_back(site: Site, host: str, edited: EditedFile) -> None:
    if edited.before != _ABSENT:
        site.shell.write_file(host, java_options.PATH, site.undo.fetch(edited.original))
        return
    ran = site.shell.run(host, f"rm -f {java_options.PATH}", timeout=60.0)
    if not ran.ok:
        said = ran.err.decode(errors="replace").strip()[-500:]
        raise WorkFailed(f"{java_options.PATH} on {host} could not be removed", detail=[said], hint=CLOSE_COMMAND)


def _file(shell: ShellSight, host: str) -> bytes | None:
    return shell.read_file(host, java_options.PATH)


def servers(settings: SiteSettings, manager: ManagerSight) -> list[HostSettings]:
    """Return the hosts on which a server of this manager runs (M7.1), or refuse where the config does not name them."""
    configured = settings.hosts_in("manager")
    instances = manager.instances()
    if len(instances) <= 1:
        return list(configured)
    strangers = [instance for instance in instances if not any(_same(host, instance) for host in configured)]
    if strangers:
        raise Refused(
            f"this manager has {len(instances)} servers, and the config does not name all of them",
            detail=[f"server {instance.name} at {instance.address}" for instance in strangers],
            hint="add each to `hosts:` with `groups: [manager]`; redaction is switched on each server by itself",
        )
    return list(configured)


def _same(host: HostSettings, instance: Instance) -> bool:
    return bool({host.name, host.address} & {instance.name, instance.address} - {""})
