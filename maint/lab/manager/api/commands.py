"""Commands of the manager, clusters, services and roles: begun, looked up, ended, begun again (M4, M18, M20, M21)."""

import io
import re
import zipfile

from maint.lab.http.messages import ApiError, Response
from maint.lab.manager import commands
from maint.lab.manager.api.messages import Request, cluster_of, entity_of, listing, role_of, service_of
from maint.lab.manager.document import Doc
from maint.lab.manager.world import STARTED, Command, World

_VERBS = {"start": "Start", "stop": "Stop", "restart": "Restart"}


# What can be sent to services and roles by name, by type; "" is every type.
_OF_SERVICES = {
    "": ("deployClientConfig",),
    "HDFS": ("hdfsRollEdits", "hdfsCreateTmpDir"),
    "YARN": ("yarnCreateJobHistoryDirCommand", "yarnFormatStateStore"),
    "ZOOKEEPER": ("zooKeeperCleanup",),
}
_OF_ROLES = {
    "": ("jstack", "lsof"),
    "NAMENODE": ("refresh", "hdfsSaveNamespace", "hdfsEnterSafemode", "hdfsLeaveSafemode", "hdfsFormat"),
    "DATANODE": ("refresh",),
    "RESOURCEMANAGER": ("refresh",),
}
_DONE = "Command {name} finished successfully."


def begin(world: World, request: Request) -> Response:
    """Begin a command of the manager, a cluster or a service; a refusal is an answer of status 200 too (M4.3)."""
    name, call = request.parts["name"], request.call
    entity = entity_of(world, request)
    if "service" in request.parts or "/cm/service" in request.path:
        cluster, service = service_of(world, request)
        if name in _VERBS:
            return _begun(world, commands.start_on_service(world, cluster, service, _VERBS[name], call))
        if name not in _names(_OF_SERVICES, service):
            raise ApiError(404, f"Command '{name}' not found in service '{service['name']}'.")
    elif "cluster" in request.parts:
        owner = cluster_of(world, request)
        if name in _VERBS:
            return _begun(world, commands.start_on_cluster(world, owner, _VERBS[name], call))
        for one in (owner.get("services") or []) if name == "refresh" else []:  # makes their configuration fresh
            world.stale.pop(f"{owner['name']}/{one['name']}", None)
    return _begun(world, commands.start_simple(world, name, entity.ref, call, _DONE.format(name=name)))


def begin_on_roles(world: World, request: Request) -> Response:
    """Begin a command on the roles that the body names; those that cannot are told in `errors`."""
    cluster, service = service_of(world, request)
    name, started, errors = request.parts["name"], list[Doc](), list[str]()
    for wanted in request.words("the list of roles"):
        try:
            role = role_of(service, wanted)
        except ApiError as error:
            errors.append(error.message)
            continue
        if name in _VERBS:
            begun = commands.start_on_role(world, cluster, service, role, _VERBS[name], request.call)
        elif name not in _names(_OF_ROLES, role) or world.role_state(role) != STARTED:
            errors.append(f"Command {name} is not currently available for execution on role '{wanted}'.")
            continue
        else:
            ref = commands.role_ref(cluster, service, role)
            begun = commands.start_simple(world, name, ref, request.call, _DONE.format(name=name))
        started.append(commands.view(world, begun, full=False))
    if name == "refresh" and started:
        world.stale.pop(f"{cluster['name'] if cluster else ''}/{service['name']}", None)
    return Response(value={"items": started, "errors": errors})


def names(world: World, request: Request) -> Response:
    """List the commands that a service or role takes by name."""
    _, service = service_of(world, request)
    role = role_of(service, request.parts["role"]) if "role" in request.parts else None
    known = _names(_OF_ROLES, role) if role else _names(_OF_SERVICES, service)
    return listing([{"name": name} for name in known])


def maintain(world: World, request: Request) -> Response:
    """Put something into maintenance mode, or take it out."""
    # Synchronous: finished in its own answer, under a negative id that nobody can ask for (M20).
    entity, on = entity_of(world, request), request.parts["verb"] == "enterMaintenanceMode"
    world.maintenance = sorted({*world.maintenance, entity.key} if on else {*world.maintenance} - {entity.key})
    stamp = commands.moment(world.now().timestamp())
    name = "EnterMaintenanceMode" if on else "ExitMaintenanceMode"
    said: Doc = {"id": -1, "name": name, "startTime": stamp, "endTime": stamp, "active": False, "success": True}
    return Response(value=said | entity.ref)


def generate_cmca(world: World, request: Request) -> Response:
    """Begin to make the certificates of Auto-TLS anew; nothing changes before the server's next start (M11)."""
    request.document("the arguments")
    praise = "Successfully generated the certificates."
    return _begun(world, commands.start_simple(world, "GenerateCMCA", {}, request.call, praise))


def active(world: World, request: Request) -> Response:
    """List the active commands of the manager, a cluster, a service or a role itself."""
    listed = commands.listed(world, entity_of(world, request).ref)
    return listing([commands.view(world, each, full=request.full) for each in listed])


def import_kdc_account(world: World, request: Request) -> Response:
    """Take over the account that makes principals; what is wrong with it is told by the command (M21)."""
    username, password = request.word("username"), request.word("password")
    problem = commands.kdc_problem(world, username, password)
    praise = "Successfully imported KDC Account Manager credentials."
    return _begun(world, commands.start_simple(world, commands.IMPORT_KDC_ACCOUNT, {}, request.call, praise, problem))


def generate_credentials(world: World, request: Request) -> Response:
    """Make the principals and keytabs that are missing; without an account it fails (M21)."""
    problem = "" if world.kdc_account else "Please import the KDC Account Manager credentials first."
    praise = "Successfully generated Kerberos credentials."
    return _begun(world, commands.start_simple(world, commands.GENERATE_CREDENTIALS, {}, request.call, praise, problem))


def delete_credentials(world: World, request: Request) -> Response:
    """Delete the principals and keytabs; the account that makes them stays (M21)."""
    praise = "Successfully deleted Kerberos credentials."
    return _begun(world, commands.start_simple(world, commands.DELETE_CREDENTIALS, {}, request.call, praise))


def kerberos_info(world: World, request: Request) -> Response:
    """Say whether a cluster uses Kerberos, and of which KDC; of the manager, whether any cluster does."""
    cluster = cluster_of(world, request) if "cluster" in request.parts else None
    return Response(value=commands.kerberos_info(world, cluster))


def kerberos_principals(world: World, request: Request) -> Response:
    """List the principals that services need; with `missingOnly` those that the manager has not."""
    return listing([{"principal": name} for name in commands.principals(world, missing=request.flag("missingOnly"))])


def read(world: World, request: Request) -> Response:
    """Answer a command with its children."""
    return Response(value=commands.view(world, _find(world, request)))


def abort(world: World, request: Request) -> Response:
    """End an active command."""
    command = _find(world, request)
    if command.active:
        commands.abort(world, command)
    return Response(value=commands.view(world, command))


def retry(world: World, request: Request) -> Response:
    """Begin a failed command again, under a new id."""
    command = _find(world, request)
    if command.active or command.success:
        raise ApiError(400, f"Command {command.id} cannot be retried.")
    return _begun(world, _again(world, command, request.call))


def log(world: World, request: Request) -> Response:
    """Answer a command's standard output or error: an archive with one file for each part of it (M4.2)."""
    command, stream = _find(world, request), request.parts["stream"]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for each in [command, *commands.children(world, command)]:
            said = each.message or "running" if stream == "stdout" or each.success is False else ""
            archive.writestr(f"{each.id}-{each.name}/{stream}.log", f"{commands.moment(each.started)} {said}\n")
    return Response(text=content.getvalue(), content_type="application/octet-stream")


def _begun(world: World, command: Command) -> Response:
    return Response(value=commands.view(world, command, full=False))


def _names(known: dict[str, tuple[str, ...]], of: Doc) -> tuple[str, ...]:
    return (*known[""], *known.get(str(of.get("type")), ()))


def _again(world: World, command: Command, call: str) -> Command:
    cluster_ref, service_ref = command.ref.get("clusterRef"), command.ref.get("serviceRef") or {}
    cluster = world.find_cluster(str((cluster_ref or service_ref).get("clusterName", "")))
    if cluster_ref and cluster and command.name in _VERBS.values():
        return commands.start_on_cluster(world, cluster, command.name, call)
    owned = (cluster or {}).get("services") or [world.deployment.get("managementService") or {}]
    for service in owned:
        if service.get("name") == service_ref.get("serviceName"):
            return commands.start_on_service(world, cluster, service, command.name, call)
    raise ApiError(400, f"Command {command.id} cannot be retried: what it worked on is gone.")


def _find(world: World, request: Request) -> Command:
    text = request.parts["id"]
    number = re.fullmatch(r"([0-9]{1,18})(\.0*)?", text)  # old clients ask for 338.0
    found = world.commands.get(int(number[1])) if number else None
    if found is None:
        raise ApiError(int(world.switches["unknown-command"]), f"Command {text} not found.")
    return found
