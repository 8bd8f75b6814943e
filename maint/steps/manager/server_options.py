"""The server's options file on the manager's hosts, over SSH, and the restart that makes it count."""

import hashlib
from collections.abc import Generator, Iterable

import msgspec

from maint.config.schema import HostSettings, SiteSettings
from maint.errors import CannotReach, Invalid, LoginRefused, NotTrusted, Refused, WorkFailed
from maint.model import java_options
from maint.model.manager import CLOSE_COMMAND, Instance
from maint.ports import ManagerSight, ShellSight, Sight, Site
from maint.steps.hosts.fan_out import error_text
from maint.steps.manager.server import await_version, restart_unit, serves_tls_next

ABSENT = "absent"  # stands for the digest of a file that is not there


def read_options(shell: ShellSight, host: str) -> bytes | None:
    """Return the options file of a host, None where there is none."""
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


def digest(content: bytes | None) -> str:
    """Return the SHA-256 of an options file, ABSENT where there is none."""
    return ABSENT if content is None else hashlib.sha256(content).hexdigest()


def delete_options(site: Site, host: str) -> None:
    """Delete the options file of a host; WorkFailed where that is not done."""
    ran = site.shell.run(host, f"rm -f {java_options.PATH}", timeout=60.0)
    if not ran.ok:
        words = f"{java_options.PATH} on {host} could not be removed"
        raise WorkFailed(words, detail=[error_text(ran)], hint=CLOSE_COMMAND)


def running_off(sight: Sight, host: str) -> bool | None:
    """Whether the server that runs on a host has redaction switched off; None where that cannot be told."""
    from maint.checks.server import QUESTIONS  # the check asks the same

    lines = sight.shell.ask(host, QUESTIONS["java_running"]).out.splitlines()
    return java_options.redaction_is_off(b"\n".join(lines)) if b"running" in lines else None


class RedactionSwitch(msgspec.Struct, frozen=True):
    """Whether redaction is switched off on a host, by its options file and in the server that runs; None: not told."""

    host: str
    written: bool | None = None
    running: bool | None = None
    problem: str = ""  # why the host told nothing
    ours: bool = False  # whether the file holds the line that a window of ours adds

    @property
    def words(self) -> str:
        """Where it is off; empty: nowhere that the host tells of."""
        if self.running:
            return f"the server on {self.host} runs with redaction off: everyone who may read the API sees passwords"
        if not self.written:
            return ""
        counts = f", which counts from the next start of {java_options.UNIT}" if self.running is False else ""
        return f"{java_options.PATH} on {self.host} has redaction switched off{counts}"


def switches(sight: Sight) -> list[RedactionSwitch]:
    """Look at each host of the manager; none where the config names no way to them."""
    hosts = sight.settings.hosts_in("manager") if sight.settings.ssh else ()
    return [_switch(sight, host.name) for host in hosts]


def _switch(sight: Sight, host: str) -> RedactionSwitch:
    try:
        content = read_options(sight.shell, host) or b""
        written, ours = java_options.redaction_is_off(content), java_options.LINE.encode() in content
        return RedactionSwitch(host, written, running_off(sight, host), ours=ours)
    except (CannotReach, WorkFailed, Invalid) as failure:
        return RedactionSwitch(host, problem=failure.message)


def restart_servers(site: Site, hosts: Iterable[str], limit: float) -> Generator[str, None, int]:
    """Restart the server on these hosts, wait so many seconds, and return N of the `vN` that its API answers.

    Raises:
        WorkFailed: one could not be restarted, or none answers.
        LoginRefused: it answers, and lets none of the accounts in.
        NotTrusted: it answers, with a certificate that is not to be trusted.
        Refused: it answers without TLS, and may not be asked in clear.
    """
    tls = bool(serves_tls_next(site))  # else with TLS, or on a plain port that redirects nowhere: TLS is off (M2)
    for host in hosts:
        yield from restart_unit(site, host, f"{CLOSE_COMMAND} tries again")
    return (yield from await_version(site, limit, tls=tls))


def restart_until_heard(site: Site, hosts: Iterable[str], limit: float) -> Generator[str, None, None]:
    """Do the same where the restarted server need only answer (M2.2): nobody must be let in, and no password be had."""
    try:
        yield from restart_servers(site, hosts, limit)
    except (LoginRefused, NotTrusted, Refused, Invalid) as failure:
        yield f"the restarted manager answers, and tells no more: {failure.message}"
