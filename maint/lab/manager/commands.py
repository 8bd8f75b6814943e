"""Asynchronous commands: started, rejected, finished as time passes (M4, M5), those for Kerberos too (M21)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from maint.lab.manager.document import Doc, clusters, items, roles, services
from maint.lab.manager.world import NA, NEVER_ENDS, STARTED, STARTING, STOPPED, STOPPING, Command, World

_NOT_AVAILABLE = "Command {name} is not currently available for execution."
_NOTHING_RUNS = "At least one role must be started."
_PENDING = "There is already a pending command on this entity."
_SPOILT = "Failed to perform {name}: the lab was told to let it fail."
_NO_KEYTAB = "Role is missing Kerberos keytab ({principal}): run the Generate Missing Credentials command."
APPLY = "ApplyHostTemplate"
_ENDS = {"Start": STARTED, "Stop": STOPPED, "Restart": STARTED, APPLY: STARTED}
_PAST = {"Start": "started", "Stop": "stopped", "Restart": "restarted"}


class Work(msgspec.Struct, frozen=True):
    """Part of a command: an entity and the roles that move with it."""

    ref: Doc
    roles: Sequence[Doc]


def start_on_cluster(world: World, cluster: Doc, name: str, call: str) -> Command:
    """Start, stop or restart a cluster, or say why not."""
    parts = [Work(service_ref(cluster, service), roles(service)) for service in services(cluster)]
    parts = [part for part in parts if any(world.role_state(role) != NA for role in part.roles)]
    return _begin(world, name, cluster_ref(cluster), parts, call, "All services successfully {past}.")


def start_on_service(world: World, cluster: Doc | None, service: Doc, name: str, call: str) -> Command:
    """Start, stop or restart a service, or say why not."""
    own = [Work(role_ref(cluster, service, role), [role]) for role in roles(service) if world.role_state(role) != NA]
    return _begin(world, name, service_ref(cluster, service), own, call, "Successfully {past} service.")


def start_on_role(world: World, cluster: Doc | None, service: Doc, role: Doc, name: str, call: str) -> Command:
    """Start, stop or restart one role, or say why not."""
    ref = role_ref(cluster, service, role)
    return _begin(world, name, ref, [Work(ref, [role])], call, "Successfully {past} process.", children=False)


def start_simple(world: World, name: str, ref: Doc, call: str, praise: str, problem: str = "") -> Command:
    """Start a command that moves no role; it will fail where there is a problem."""
    command = _new(world, name, ref, problem or praise)
    if world.faults.strikes("command-rejected", call):
        return _ended(command, _NOT_AVAILABLE.format(name=name))
    command.fails = bool(problem)
    fault = _spoil(world, command, call)
    if fault == "command-fails-in-child":
        child = _new(world, name, ref, "", command)
        _fail(child, f"{name} failed, see the role's log.")
        _fail(command, "")
    return command


def start_roles(world: World, command: Command, moved: Sequence[Doc]) -> None:
    """Let a command that is under way start roles, beside what else it does."""
    _move(world, command, moved, command.name)
    _need_keytabs(world, command, moved)


def abort(world: World, command: Command) -> None:
    """End a command; what it had not done yet stays undone."""
    for child in children(world, command):
        abort(world, child)
    if command.active:
        _back(world, command)
        command.ended, command.success, command.message = world.now().timestamp(), False, "Command aborted by user."


def children(world: World, command: Command) -> list[Command]:
    """Return the children of a command."""
    return [each for each in world.commands.values() if each.parent == command.id]


def settle(world: World) -> bool:
    """Finish the commands whose time has come; return whether there were any."""
    now, settled = world.now().timestamp(), False
    for command in sorted(world.commands.values(), key=lambda each: -each.id):  # children before parents
        due = command.seconds >= 0 and now >= command.started + command.seconds
        if command.active and due and not any(child.active for child in children(world, command)):
            _finish(world, command)
            settled = True
    return settled


def view(world: World, command: Command, *, full: bool = True) -> Doc:
    """Return a command as the API shows it."""
    shown: Doc = {"id": command.id, "name": command.name, "startTime": moment(command.started)}
    if command.ended is not None:
        shown["endTime"] = moment(command.ended)
    shown["active"] = command.active
    if command.ended is not None:
        shown |= {"success": command.success, "resultMessage": command.message or None}
    shown |= command.ref
    if full and command.parent is not None and command.parent in world.commands:
        shown["parent"] = view(world, world.commands[command.parent], full=False)
    if full and not _rejected(command):
        shown["children"] = {"items": [view(world, child, full=False) for child in children(world, command)]}
    if command.ended is not None and full and not _rejected(command):
        shown["canRetry"] = command.success is False
    return shown


def listed(world: World, ref: Doc) -> list[Command]:
    """Return the active commands of an entity itself."""
    return [each for each in world.commands.values() if each.active and each.parent is None and each.ref == ref]


def moment(seconds: float) -> str:
    """Return a time as the API spells it: UTC, milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{int(seconds * 1000) % 1000:03d}Z"


def cluster_ref(cluster: Doc) -> Doc:
    """Return the reference to a cluster."""
    shown = {"displayName": cluster["displayName"]} if cluster.get("displayName") else {}
    return {"clusterRef": {"clusterName": cluster["name"], **shown}}


def service_ref(cluster: Doc | None, service: Doc) -> Doc:
    """Return the reference to a service."""
    owner = {"clusterName": cluster["name"]} if cluster else {}
    return {"serviceRef": {**owner, "serviceName": service["name"]}}


def role_ref(cluster: Doc | None, service: Doc, role: Doc) -> Doc:
    """Return the references to a role."""
    ref = service_ref(cluster, service)
    return {**ref, "roleRef": {**ref["serviceRef"], "roleName": role["name"]}}


def _begin(
    world: World, name: str, ref: Doc, parts: Sequence[Work], call: str, praise: str, *, children: bool = True
) -> Command:
    command = _new(world, name, ref, praise.format(past=_PAST[name]))
    refusal = _refusal(world, command, parts, call)
    if refusal is not None:
        return _ended(command, refusal)
    fault = _spoil(world, command, call)
    if not children:
        _move(world, command, parts[0].roles, name)
        _need_keytabs(world, command, parts[0].roles)
        if fault == "command-fails-in-child":
            _fail(command, _SPOILT.format(name=name))
    for number, part in enumerate(parts if children else ()):
        child = _new(world, name, part.ref, f"Successfully {_PAST[name]} service.", command)
        child.seconds = command.seconds
        _move(world, child, part.roles, name)
        _need_keytabs(world, child, part.roles)
        if fault == "command-fails-in-child" and number == 0:
            _fail(child, f"Supervisor returned FATAL: {name} failed, see the role's log.")
            _fail(command, "")
    return command


def _ended(command: Command, refusal: str) -> Command:
    # "" for a command that had nothing to do.
    command.ended, command.success, command.message = command.started, not refusal, refusal
    return command


def _fail(command: Command, message: str) -> None:
    command.fails, command.message = True, message


def _refusal(world: World, command: Command, parts: Sequence[Work], call: str) -> str | None:
    # "" where there is nothing to do and that is fine, None to go on.
    name = command.name
    if world.faults.strikes("command-rejected", call):
        return _NOT_AVAILABLE.format(name=name)
    if _busy(world, command):
        return _PENDING
    states = {world.role_state(role) for part in parts for role in part.roles} - {NA}
    idle = (name == "Stop" and STARTED not in states) or (name == "Start" and STOPPED not in states)
    if idle and world.switches["stop-stopped"] == "succeed":
        return ""
    if idle:
        return _NOTHING_RUNS if name == "Stop" else _NOT_AVAILABLE.format(name=name)
    return None


def _busy(world: World, command: Command) -> bool:
    # A command blocks its entity, the one that contains it, and its parts.
    wanted = _owners(command.ref)
    for other in world.commands.values():
        taken = _owners(other.ref)
        shared = min(len(wanted), len(taken))
        if other.active and other is not command and wanted[:shared] == taken[:shared]:
            return True
    return False


def _owners(ref: Doc) -> list[str]:
    cluster = ref.get("clusterRef") or ref.get("serviceRef") or {}
    names = [str(cluster.get("clusterName", "")), str((ref.get("serviceRef") or {}).get("serviceName", ""))]
    names.append(str((ref.get("roleRef") or {}).get("roleName", "")))
    while names[-1:] == [""] and len(names) > 1:
        names.pop()
    return names


def _spoil(world: World, command: Command, call: str) -> str:
    """Let the fault strike that is set for a call, and return its name, "" for none."""
    names = (NEVER_ENDS, "command-fails-in-child", "command-fails-in-parent")
    fault = next((name for name in names if world.faults.strikes(name, call)), "")
    if fault == NEVER_ENDS:
        command.seconds = -1
    if fault == "command-fails-in-parent":
        _fail(command, _SPOILT.format(name=command.name))
    return fault


def _new(world: World, name: str, ref: Doc, message: str, parent: Command | None = None) -> Command:
    now = world.now().timestamp()
    number = world.next_command
    world.next_command += 1
    seconds = world.switches.number("command-seconds")
    command = Command(number, name, ref, now, seconds, parent.id if parent else None, message=message)
    world.commands[number] = command
    return command


def _move(world: World, command: Command, moved: Iterable[Doc], name: str) -> None:
    for role in moved:
        state = world.role_state(role)
        if state not in (NA, _ENDS[name]) or (name == "Restart" and state != NA):
            command.roles[str(role["name"])] = state
            world.role_states[str(role["name"])] = STOPPING if name == "Stop" else STARTING


def _need_keytabs(world: World, command: Command, moved: Sequence[Doc]) -> None:
    # A role that starts without its keytab fails at once (M21.1).
    principal = _lacking(world, moved) if _ENDS[command.name] == STARTED else ""
    if principal:
        _fail(command, _NO_KEYTAB.format(principal=principal))


def _finish(world: World, command: Command) -> None:
    below = children(world, command)
    command.ended = world.now().timestamp()
    command.success = not command.fails and all(child.success for child in below)
    if command.success:
        world.role_states.update(dict.fromkeys(command.roles, _ENDS.get(command.name, STARTED)))
        if command.name in _ENDS and (ref := command.ref.get("serviceRef")) and "roleRef" not in command.ref:
            world.stale.pop(f"{ref.get('clusterName', '')}/{ref.get('serviceName')}", None)
        _credentials_done(world, command)
        return
    _back(world, command)
    if not command.fails or not command.message:
        command.message = f"Failed to {command.name.lower()} {next(iter(_owners(command.ref)), '')}.".replace(" .", ".")


def _back(world: World, command: Command) -> None:
    world.role_states.update({name: state for name, state in command.roles.items() if name in world.role_states})


def _rejected(command: Command) -> bool:
    return command.ended is not None and command.ended == command.started


IMPORT_KDC_ACCOUNT, GENERATE_CREDENTIALS, DELETE_CREDENTIALS = (
    "ImportKdcAccountManagerCredentials",
    "GenerateCredentials",
    "DeleteCredentials",
)
_REALM = "HADOOP.COM"  # where the settings name none
_SECURE = re.compile(r"kerberos|true")
_SWITCHES = ("hadoop_security_authentication", "enableSecurity", "kerberos_auth_enabled")  # of services


def secured(cluster: Doc) -> list[Doc]:
    """Return the services of a cluster that use Kerberos: those that say so, and what stands on such an HDFS."""
    said = [one for one in services(cluster) if _says_so(one)]
    return services(cluster) if any(one.get("type") == "HDFS" for one in said) else said


def principals(world: World, *, missing: bool = False) -> list[str]:
    """Return the principals that services need; only those without credentials where `missing`."""
    names = {name: None for name, _ in _needed(world)}
    had = names if world.credentials is None else world.credentials
    return [name for name in names if not missing or name not in had]


def _lacking(world: World, moved: Iterable[Doc]) -> str:
    """Return the principal that one of some roles needs to start and has no credentials of, "" where none does."""
    if world.credentials is None:
        return ""
    wanted = {str(role["name"]) for role in moved}
    return next((name for name, role in _needed(world) if role in wanted and name not in world.credentials), "")


def kdc_account(named: Mapping[str, str]) -> tuple[str, str]:
    """Return name and password of the account that the KDC takes, from the manager's settings."""
    realm, user = named.get("SECURITY_REALM", _REALM), named.get("KDC_ADMIN_USER", "")
    return user if user.endswith(f"@{realm}") else f"scm/admin@{realm}", named.get("KDC_ADMIN_PASSWORD") or "kdc-admin"


def kerberos_info(world: World, cluster: Doc | None = None) -> Doc:
    """Return what is known of Kerberos, for a cluster or the manager."""
    asked = [cluster] if cluster else clusters(world.deployment)
    named = world.settings
    found: Doc = {"kerberized": any(secured(one) for one in asked), "kdcType": named.get("KDC_TYPE", "MIT KDC")}
    return found | {"kerberosRealm": named.get("SECURITY_REALM", _REALM), "kdcHost": named.get("KDC_HOST")}


def kdc_problem(world: World, username: str, password: str) -> str:
    """Return why the KDC does not take an account, "" where it does; its password is the one in the settings."""
    realm = world.settings.get("SECURITY_REALM", _REALM)
    if not username.endswith(f"@{realm}"):
        return f"The full name including the realm {realm} must be specified."
    expected = world.settings.get("KDC_ADMIN_PASSWORD", password)
    return "" if password and password == expected else "kinit: Preauthentication failed"


def _credentials_done(world: World, command: Command) -> None:
    """Take over what a command that succeeded has done."""
    if command.name == IMPORT_KDC_ACCOUNT:
        world.kdc_account = True
    elif command.name == GENERATE_CREDENTIALS:
        world.credentials = sorted({*(world.credentials or ()), *principals(world)})
    elif command.name == DELETE_CREDENTIALS:
        world.credentials = []


def _needed(world: World) -> Iterable[tuple[str, str]]:
    # Each principal with a role that starts with it.
    realm = world.settings.get("SECURITY_REALM", _REALM)
    addresses = {str(host.get("hostId")): str(host.get("hostname")) for host in world.deployment.get("hosts") or []}
    for cluster in clusters(world.deployment):
        for service in secured(cluster):
            for role in roles(service):
                if role.get("type") != "GATEWAY":
                    host = addresses.get(str((role.get("hostRef") or {}).get("hostId")), "unknown")
                    yield f"{service['name']}/{host}@{realm}", str(role["name"])


def _says_so(service: Doc) -> bool:
    named = {str(item.get("name")): str(item.get("value")) for item in items(service.get("config"))}
    return any(_SECURE.fullmatch(named.get(name, "")) for name in _SWITCHES)
