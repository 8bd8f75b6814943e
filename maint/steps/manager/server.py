"""The manager server: probed, restarted, awaited, logged in to, licensed (M9); its options file, over SSH."""

import hashlib
from collections.abc import Generator, Iterable

import msgspec
from pydantic import Field

from maint.config.schema import HostSettings, SiteSettings
from maint.errors import (
    AnswerMissing,
    CannotReach,
    DeadlinePassed,
    Invalid,
    LoginRefused,
    NotTrusted,
    NotUp,
    Refused,
    WorkFailed,
)
from maint.model import java_options
from maint.model.formatting import show_duration, tell_times
from maint.model.java_options import UNIT
from maint.model.json import Json
from maint.model.manager import CLOSE_COMMAND, Door, Host, Instance
from maint.model.plan import Action, Effect
from maint.ports import ManagerSight, ShellSight, Sight, Site, Work
from maint.ports.hosts import configured_as
from maint.ports.manager_host import insist
from maint.restore.select_snapshot import chosen, manifest_fact, planned, usable_license
from maint.retry import looks
from maint.steps.hosts.fan_out import error_text, require_ssh
from maint.steps.manager.commands import polls
from maint.steps.step import Arguments, NoArguments, Progress, Step, done, unchanged

LOG = "/var/log/cloudera-scm-server/cloudera-scm-server.log"
_SHOW = f"systemctl show {UNIT} -p InvocationID,ActiveEnterTimestamp,MainPID"
_BEFORE = "before restart"  # the note of what systemd said then
_IN_VAIN = "waited in vain"
START_LIMIT = 900.0  # seconds; a server takes about two minutes (M3)
_LOG_HINT = f"see {LOG} on its host, and whether the keystore files are there; then `maint playbook resume`"
_CHAIN_HINT = "mend what it names: the server's certificate, or the `ca` of the site's manager"


class ProbeServer(Step[NoArguments]):
    """Ask the manager which port serves, and which API version and release it is."""

    kind = "server.probe"
    effect = Effect.READ
    locks = False

    def plan(self, args: NoArguments, sight: Sight) -> Iterable[Action]:
        yield self.action(f"manager {sight.settings.manager.host}", "probe the version")

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        value = yield from _probe(site.manager)
        door = "TLS" if value["door"] == Door.TLS else "no TLS"
        return done(f"release {value['release']}, API v{value['api']}, {door}, logged in as {value['account']}", value)


def _probe(manager: ManagerSight) -> Generator[str, None, dict[str, Json]]:
    presence = manager.presence()
    yield f"plain port {presence.plain}, TLS port {presence.tls}"
    account = manager.log_in()
    return {
        "door": presence.door.value,
        "api": manager.api_version(),
        "release": manager.release(),
        "account": account.name,
        "bootstrap": account.bootstrap,
    }


def invocations(site: Sight) -> dict[str, Json]:
    """Return what systemd says about the running server on each manager host, "" where it says nothing."""
    found: dict[str, Json] = {}
    for host in site.settings.hosts_in("manager"):
        ran = site.shell.ask(host.name, _SHOW)
        found[host.name] = ran.out.decode(errors="replace").strip() if ran.ok else ""
    return found


def has_restarted(before: Json, now: Json) -> bool:
    """Whether two answers of `invocations` about a host tell of a restart in between; an empty one tells nothing."""
    return bool(before and now) and before != now


def restart_and_wait(
    site: Site, work: Work, limit: float, *, tls: bool | None = None, key: str = _BEFORE
) -> Generator[str, None, int]:
    """Restart the server, once for all attempts of a run, and return N of the `vN` that its API answers.

    A server for which an earlier attempt waited in vain is restarted again: what was wrong has been mended since.

    Args:
        work: keeps, under `key`, what systemd said before, and that the wait was in vain.
        limit: seconds to wait for the API.
        tls: whether only an answer on the TLS port counts; None: where its settings say that it is to serve.

    Raises:
        NotUp: it did not come up.
        WorkFailed: it could not be restarted.
        NotTrusted: it came up, with a certificate that is not to be trusted.
    """
    tls = _noted_tls(site, work) if tls is None else tls
    if work.noted(key) != _IN_VAIN or not _serves(site, tls):
        yield from restart(site, work, key)
    try:
        return (yield from await_version(site, limit, tls=tls))
    except (NotUp, DeadlinePassed):
        work.note(key, _IN_VAIN)
        raise


def stores_tls(manager: ManagerSight) -> bool:
    """Whether the server's stored settings say that it serves TLS from its next start on."""
    return manager.settings().get("WEB_TLS", "").lower() == "true"


def _serves(site: Site, tls: bool = False) -> bool:
    presence = site.manager.presence()
    if presence.door is Door.TLS:
        return not presence.silent
    if presence.door is not Door.PLAIN or tls:
        return False
    try:
        return not stores_tls(site.manager)
    except Refused:  # it may not be asked in clear, since it is to serve TLS
        return False
    except (CannotReach, WorkFailed):
        return True


def restart(site: Site, work: Work, key: str = _BEFORE) -> Generator[str, None, None]:
    """Restart the server on every manager host, once for all attempts of a run, where it runs since; `key` names the
    note about it.
    """
    insist(site)
    before = work.noted(key)
    now = invocations(site)
    if not isinstance(before, dict):
        work.note(key, now)
        before = now
    for host, words in now.items():
        if has_restarted(before.get(host), words) and not _is_down(site, host):
            yield f"{UNIT} on {host} was restarted already"
            continue
        yield from restart_unit(site, host, f"on {host}: systemctl status {UNIT}; then `maint playbook resume`")
    site.manager.forget_login()


def _is_down(sight: Sight, host: str) -> bool:
    # One that was stopped and did not start has another invocation than before, too.
    return sight.shell.ask(host, f"systemctl is-active {UNIT}").words.strip() in ("inactive", "failed")


def restart_unit(site: Site, host: str, hint: str) -> Generator[str, None, None]:
    """Restart the server on one host; WorkFailed, with this hint, where that is not done."""
    yield f"restarting {UNIT} on {host}"
    ran = site.shell.run(host, f"systemctl restart {UNIT}", timeout=300.0)
    if not ran.ok:
        raise WorkFailed(f"{UNIT} on {host} could not be restarted", detail=[error_text(ran)], hint=hint)


def _noted_tls(site: Site, work: Work) -> bool:
    noted = work.noted("tls next")
    if isinstance(noted, bool):
        return noted
    found = serves_tls_next(site)
    if found is None:
        return True
    work.note("tls next", found)
    return found


def serves_tls_next(site: Site) -> bool | None:
    """Whether only the TLS port is to answer after the next start; None where a CA is set and nobody says.

    To be asked before a restart: after it a closed TLS port is one that does not answer yet.
    """
    if not _wants_tls(site):
        return False
    try:
        return site.manager.presence().door is Door.TLS or stores_tls(site.manager)
    except (WorkFailed, CannotReach, Refused, Invalid):  # it does not answer, or may not or cannot be asked
        return None


def _wants_tls(site: Site) -> bool:
    return site.settings.manager.ca is not None and not site.settings.manager.allow_plain


def await_version(site: Site, limit: float, *, tls: bool | None = None) -> Generator[str, None, int]:
    """Wait so many seconds until the API answers, and return N of its `vN`; raises as `restart_and_wait`.

    Args:
        tls: whether only an answer on the TLS port counts; None: where a CA is configured.
    """
    seen = ["no answer"]
    try:
        return (yield from _answering(site, limit, _wants_tls(site) if tls is None else tls, seen))
    except DeadlinePassed as error:
        raise DeadlinePassed(
            error.message, detail=[f"the manager was waited for: {seen[-1]}"], hint=_LOG_HINT
        ) from error


def _answering(site: Site, limit: float, tls: bool, seen: list[str]) -> Generator[str, None, int]:
    # What was seen last stands at the end of `seen`.
    for _ in looks(site.clock, limit, polls()):
        site.manager.forget_login()
        presence = site.manager.presence()
        if presence.chain is not None:
            raise NotTrusted(
                f"the certificate on the TLS port is not to be trusted: {presence.chain}", hint=_CHAIN_HINT
            )
        try:
            if presence.ready and presence.door in ((Door.TLS,) if tls else (Door.TLS, Door.PLAIN)):
                return site.manager.api_version()
            seen.append(f"plain port {presence.plain}, TLS port {presence.tls}")
        except LoginRefused:
            raise
        except (WorkFailed, CannotReach) as error:  # a starting server may answer 404 or 5xx (M3)
            seen.append(error.message)
        yield f"waiting for the manager: {seen[-1]}"
    wanted = "its TLS port does not answer" if tls else "it does not answer"
    words = f"the manager was given {show_duration(limit)}, and {wanted}"
    raise NotUp(words, detail=[seen[-1]], hint=_LOG_HINT)


class RestartServer(Step[NoArguments]):
    """Restart the manager server on its hosts over SSH, once, and wait until its API answers."""

    kind = "server.restart"
    effect = Effect.CHANGE

    def plan(self, args: NoArguments, sight: Sight) -> Iterable[Action]:
        require_ssh(sight)
        hosts = [host.name for host in sight.settings.hosts_in("manager")]
        names = ", ".join(hosts)
        yield self.action(f"{UNIT} on {names}", f"restart {UNIT} on {names}{insist(sight)}")

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        try:
            version = yield from restart_and_wait(site, work, work.timeout or START_LIMIT)
        except NotTrusted:
            return done("restarted; its TLS port answers, and `tls.verify` judges its certificate")
        return done(f"restarted; API v{version} answers")

    def holds(self, action: Action, site: Site, work: Work) -> bool:
        """Whether the restarted server serves as its settings want it; else it is restarted once more."""
        if _serves(site):
            return True
        work.note(_BEFORE, _IN_VAIN)
        return False


class LogIn(Step[NoArguments]):
    """Log in as the account that the config names; the bootstrap account does not count."""

    kind = "server.login"
    effect = Effect.READ

    def plan(self, args: NoArguments, sight: Sight) -> Iterable[Action]:
        name = sight.settings.manager.login.username
        yield self.action(f"account {name}", f"log in as {name}")

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        site.manager.forget_login()
        account = site.manager.log_in()
        yield f"logged in as {account.name}"
        if account.bootstrap:
            raise WorkFailed(
                f"{site.settings.manager.login.username} is not let in; the bootstrap account {account.name} still is",
                hint="the restored users are not in force; look at the manager's users before anything else",
            )
        return done(f"logged in as {account.name}")


class LicenseArguments(Arguments):
    """Which file; without one, the file that the config names, else the snapshot's own part."""

    file: str = Field("", description="the file; empty: the one that the config names")
    snapshot: str | None = Field(
        None, description="where the config names none that is in date: the part of this snapshot"
    )


class UploadLicense(Step[LicenseArguments]):
    """Upload a licence file, unless the manager has that very licence already."""

    kind = "license.upload"
    effect = Effect.CHANGE
    restores = True

    def plan(self, args: LicenseArguments, sight: Sight) -> Iterable[Action]:
        """Plan the upload; an unreadable or expired file is refused here."""
        # Without a snapshot the operator asks to upload one whatever the manager has.
        snapshot = None if args.snapshot is None or args.file else chosen(sight, args.snapshot)
        source = None if args.snapshot is None else snapshot.id if snapshot else ""
        found = usable_license(sight, file=args.file, snapshot=snapshot, own=args.snapshot is not None)
        words = f"upload the licence of {found.text.owner} from {found.source}"
        if found.content is None:
            words = f"the manager has a licence of {found.text.owner} that is in date"
            words += "; WARNING: it is a trial, and there is no other to upload" if found.trial else ""
        yield self.action(
            "licence",
            words,
            {"file": args.file, "snapshot": source, "uuid": found.text.uuid},
            effect=Effect.CHANGE if found.content is not None else Effect.READ,
            facts={"uuid": found.text.uuid, **(manifest_fact(snapshot) if snapshot else {})},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        uuid = str(action.arguments["uuid"])
        present = site.manager.license()
        if present is not None and present.uuid == uuid:
            return unchanged(f"the manager has the licence of {present.owner} already")
        file, own = str(action.arguments["file"]), action.arguments["snapshot"] is not None
        found = usable_license(site, file=file, snapshot=planned(site, action) if own and not file else None, own=own)
        if found.text.uuid != uuid or found.content is None:
            raise Refused(f"the licence of {found.source} is not the planned one", hint="make the plan again")
        yield "uploading the licence"
        said = ""
        try:
            site.manager.upload_license(found.content)
        except AnswerMissing as error:
            said = error.message
        seen = site.manager.license()  # an answer of 200 may be somebody else's page
        if seen is None or seen.uuid != uuid:
            raise WorkFailed(
                "the manager did not take the licence",
                detail=[said] if said else ["it answered the upload, and shows no such licence"],
                hint="`maint playbook resume` tries again",
            )
        return done(f"licence of {seen.owner}, valid until {tell_times(seen.expiration)}")


ABSENT = "absent"  # stands for the digest of a file that is not there


def read_options(shell: ShellSight, host: str) -> bytes | None:
    """Return the options file of a host, None where there is none."""
    return shell.read_file(host, java_options.PATH)


def server_hosts(settings: SiteSettings, manager: ManagerSight) -> list[HostSettings]:
    """Return the hosts on which a server of this manager runs (M7.1), or refuse where the config does not name them."""
    configured = settings.hosts_in("manager")
    instances = manager.instances()
    if len(instances) <= 1:
        return list(configured)
    strangers, known = list[Instance](), set[str]()
    for one in instances:
        names = set(configured_as(configured, Host("", one.name, one.address))) - known
        known |= names
        strangers += [] if names else [one]  # one short name may be that of two
    if strangers:
        raise Refused(
            f"this manager has {len(instances)} servers, and the config does not name all of them",
            detail=[f"server {instance.name} at {instance.address}" for instance in strangers],
            hint="add each to `hosts:` with `groups: [manager]`; redaction is switched on each server by itself",
        )
    return list(configured)


def options_digest(content: bytes | None) -> str:
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


def redaction_switches(sight: Sight) -> list[RedactionSwitch]:
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
