"""What must hold before a deployment is sent (M8), each precondition with what to do about it."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from maint.deployment.judge import DeploymentSummary
from maint.errors import Refused
from maint.model.formatting import whole_number
from maint.model.json import Json
from maint.model.manager import CERTMANAGER, GUID
from maint.model.snapshot import Redaction, RuleResult, Snapshot
from maint.ports import Sight
from maint.restore.select_snapshot import GUARDED
from maint.snapshots.extra_parts import present
from maint.snapshots.parts import keeps_file
from maint.snapshots.records import Verification


class RunningServer(msgspec.Struct, frozen=True, kw_only=True):
    """What the server to restore onto tells of itself now."""

    release: str
    api: int  # the highest version it knows
    commands: Sequence[str] = ()  # names of what runs on it now


class TargetServer(RunningServer, frozen=True, kw_only=True):
    """What the server to restore onto, and its host, show now."""

    fresh: bool  # only the config's bootstrap account is let in: its database is a new one
    licensed: bool  # a licence is installed, or will be before anything is sent
    host_files: Mapping[str, Json] | None = {}  # what is on its host; None where nobody could look
    unseen: str = ""  # why nobody could


def running_server(sight: Sight) -> RunningServer:
    """Ask the server what it is, and what runs on it."""
    return RunningServer(
        release=sight.manager.release(),
        api=sight.manager.api_version(),
        commands=[f"{command.name} ({command.id})" for command in sight.manager.active_commands()],
    )


def ready(
    snapshot: Snapshot,
    summary: DeploymentSummary,
    verification: Verification,
    server: TargetServer,
    *,
    whole: bool = True,
) -> Sequence[RuleResult]:
    """Check each precondition (`passed` None: unknown); a part (not `whole`) leaves server and host as they are."""
    return [
        _purpose(snapshot),
        _verified(verification),
        *(finding for finding in verification.findings if finding.rule in ("administrator", "login", "license")),
        release_fits(snapshot, server.release),
        _api(snapshot, server),
        _licensed(server),
        _commands(server),
        *(_host(snapshot, summary, server) if whole else ()),
    ]


def insist_same_server(snapshot: Snapshot, server: RunningServer) -> None:
    """Refuse, just before it is sent, what the server has become otherwise than fit for since `ready`: a run may be
    taken up days later, after an upgrade.
    """
    insist(snapshot, [release_fits(snapshot, server.release), _api(snapshot, server), _commands(server)])


def insist_on_bytes(snapshot: Snapshot, verification: Verification) -> None:
    """Refuse a snapshot that cannot even be opened: its bytes are not what was stored, or no key at hand fits."""
    if verification.broken_bytes or verification.locked or verification.unread:
        insist(snapshot, [_purpose(snapshot), _verified(verification)])


def insist(snapshot: Snapshot, findings: Sequence[RuleResult]) -> None:
    """Refuse the restore, with every broken precondition, unless there is none."""
    broken = [f"{finding.rule}: {finding.words}" for finding in findings if finding.passed is False]
    if broken:
        raise Refused(
            f"snapshot {snapshot.id} must not be restored now; nothing was sent",
            detail=[*broken, GUARDED],
            hint="put right what is named above, then run it again; or name another one: --snapshot ID",
        )


def _purpose(snapshot: Snapshot) -> RuleResult:
    if snapshot.judgement.redaction is Redaction.REDACTED:
        words = "it is redacted, its secrets are gone for ever; take another: `maint backup create --open-window`"
        return RuleResult("redaction", False, words)
    if not snapshot.restorable:
        words = f"it is kept for audit only; `maint backup show {snapshot.id}` tells which rule it breaks"
        return RuleResult("restorable", False, words)
    return RuleResult("redaction", True, "every secret in it is readable")


def _verified(verification: Verification) -> RuleResult:
    passed = verification.proven and verification.depth >= 3  # doubts about virtual clusters say nothing of the manager
    hint = "" if passed else f"; {verification.way_on}"
    return RuleResult("verified", passed, f"{verification.words}{hint}")


def release_fits(snapshot: Snapshot, release: str) -> RuleResult:
    """Judge whether a manager of a release takes a snapshot back: only that which it was taken of does (M8)."""
    wanted = snapshot.versions.get("manager", "")
    if wanted == release:
        return RuleResult("release", True, f"the server has the snapshot's release {wanted}")
    words = f"the server is release {release}, the snapshot {wanted}; install {wanted} on the manager host"
    return RuleResult("release", False, words)


def _api(snapshot: Snapshot, server: RunningServer) -> RuleResult:
    """The restore uses the export's own version: a lower one may lose newer fields (M3)."""
    wanted = snapshot.versions.get("api", "")
    known = whole_number(wanted.removeprefix("v"))
    if known is not None and known <= server.api:
        return RuleResult("api", True, f"the server knows the snapshot's API {wanted}")
    return RuleResult("api", False, f"the server knows API v{server.api} at most, the snapshot needs {wanted or 'one'}")


def _licensed(server: TargetServer) -> RuleResult:
    if server.licensed:
        return RuleResult("licensed", True, "a licence is there")
    words = "no licence is installed and none at hand; set manager.license, or run `maint manager license FILE`"
    return RuleResult("licensed", False, words)


def _commands(server: RunningServer) -> RuleResult:
    if not server.commands:
        return RuleResult("commands", True, "nothing runs on the server")
    return RuleResult("commands", False, f"{', '.join(server.commands)} still running; wait until it has ended")


def _host(snapshot: Snapshot, summary: DeploymentSummary, server: TargetServer) -> Iterator[RuleResult]:
    """What the export cannot hold must already lie on the manager host (M2.1, M8.3, M11)."""
    if server.host_files is None:
        if summary.hosts or summary.web_tls:
            reason = server.unseen or "no `ssh:` is configured"
            yield RuleResult(
                "host files", None, f"GUID and TLS files on the manager host were not looked for: {reason}"
            )
        return
    if summary.hosts:
        yield _guid(snapshot, server, server.host_files)
    if summary.auto_tls:
        yield _certmanager(snapshot, server.host_files)
    for path in summary.key_files():
        yield _key_file(snapshot, path, server.host_files)


def _guid(snapshot: Snapshot, server: TargetServer, now: Mapping[str, Json]) -> RuleResult:
    """Agents pin the server's GUID: a new database must get the old one before the server's first start."""
    noted, found = _value(snapshot.host_files), _value(now)
    if found and noted in ("", found):
        return RuleResult("guid", True, f"{GUID} is in place")
    if found:
        words = f"{GUID} holds {found}, the snapshot's server had {noted}; write {noted} there and start it anew"
        return RuleResult("guid", False, words)
    if noted:
        words = f"{GUID} is missing; write the one line {noted} there, before the first start on the new database"
        way = (
            f"; `maint backup files {snapshot.id} --extract {GUID} --to FILE` gets it"
            if keeps_file(snapshot, GUID)
            else ""
        )
        return RuleResult("guid", False, words + way)
    if server.fresh:
        words = f"{GUID} is missing; put the old server's GUID there (CM_VERSION.GUID in its old database)"
        return RuleResult("guid", False, f"{words}, or the agents stay away")
    return RuleResult(
        "guid", None, f"there is no {GUID}, then as now; the GUID in the server's database was not compared"
    )


def _in_place(rule: str, path: str, snapshot: Snapshot, now: Mapping[str, Json]) -> RuleResult | None:
    if present(now, path):
        return RuleResult(rule, True, f"{path} is in place")
    if keeps_file(snapshot, path):
        return RuleResult(rule, True, f"{path} is missing, and will be put back from the snapshot")
    return None


def _certmanager(snapshot: Snapshot, now: Mapping[str, Json]) -> RuleResult:
    if there := _in_place("certmanager", CERTMANAGER, snapshot, now):
        return there
    if present(snapshot.host_files, CERTMANAGER) is False:
        return RuleResult("certmanager", None, f"there is no {CERTMANAGER}, then as now, although Auto-TLS is on")
    words = f"{CERTMANAGER} is missing: without it the same TLS cannot come up; put it back from your file backup"
    return RuleResult("certmanager", False, words)


def _key_file(snapshot: Snapshot, path: str, now: Mapping[str, Json]) -> RuleResult:
    if there := _in_place("tls files", path, snapshot, now):
        return there
    if present(snapshot.host_files, path) is False:
        return RuleResult("tls files", None, f"there is no {path}, then as now")
    words = f"{path} is missing: after its restart the server could not open its TLS port"
    return RuleResult("tls files", False, f"{words}; put it back from your file backup")


def _value(files: Mapping[str, Json]) -> str:
    note = files.get(GUID)
    return str(note.get("value") or "") if isinstance(note, Mapping) else ""
