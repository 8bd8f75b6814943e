"""Commands: started on clusters, services, roles and the manager; looked up, ended and begun again by id (M4)."""

import io
import zipfile

from maint.lab.http.messages import ApiError, Response
from maint.lab.manager import commands
from maint.lab.manager.api.messages import Request, cluster_of, listing, role_of, service_of
from maint.lab.manager.document import Doc
from maint.lab.manager.world import Command, World

_VERBS = {"start": "Start", "stop": "Stop", "restart": "Restart"}


def on_cluster(world: World, request: Request) -> Response:
    """Start, stop or restart a cluster; a refusal is an answer of status 200 too (M4.3)."""
    begun = commands.start_on_cluster(world, cluster_of(world, request), _VERBS[request.parts["verb"]], request.call)
    return Response(value=commands.view(world, begun, full=False))


def on_service(world: World, request: Request) -> Response:
    """Start, stop or restart a service."""
    cluster, service = service_of(world, request)
    begun = commands.start_on_service(world, cluster, service, _VERBS[request.parts["verb"]], request.call)
    return Response(value=commands.view(world, begun, full=False))


def on_roles(world: World, request: Request) -> Response:
    """Start, stop or restart the roles that the body names."""
    cluster, service = service_of(world, request)
    verb, started, errors = _VERBS[request.parts["verb"]], [], []
    for name in request.words("the list of roles"):
        try:
            role = role_of(service, name)
        except ApiError as error:
            errors.append(error.message)
            continue
        begun = commands.start_on_role(world, cluster, service, role, verb, request.call)
        started.append(commands.view(world, begun, full=False))
    return Response(value={"items": started, "errors": errors})


def generate_cmca(world: World, request: Request) -> Response:
    """Begin to make the certificates of Auto-TLS anew; nothing changes before the server's next start (M11)."""
    request.document("the arguments")
    begun = commands.start_simple(world, "GenerateCMCA", {}, request.call, "Successfully generated the certificates.")
    return Response(value=commands.view(world, begun, full=False))


def active_on_cluster(world: World, request: Request) -> Response:
    """List the active commands of the cluster itself."""
    return _active(world, commands.cluster_ref(cluster_of(world, request)), full=request.full)


def active_on_service(world: World, request: Request) -> Response:
    """List the active commands of a service itself."""
    return _active(world, commands.service_ref(*service_of(world, request)), full=request.full)


def active_on_manager(world: World, request: Request) -> Response:
    """List the active commands of the manager itself."""
    return _active(world, {}, full=request.full)


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
    again = _again(world, command, request.call)
    return Response(value=commands.view(world, again, full=False))


def log(world: World, request: Request) -> Response:
    """Answer a command's standard output or error: an archive with one file for each part of it (M4.2)."""
    command, stream = _find(world, request), request.parts["stream"]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for each in [command, *commands.children(world, command)]:
            said = each.message or "running" if stream == "stdout" or each.success is False else ""
            archive.writestr(f"{each.id}-{each.name}/{stream}.log", f"{commands.moment(each.started)} {said}\n")
    return Response(text=content.getvalue(), content_type="application/octet-stream")


def _active(world: World, ref: Doc, *, full: bool) -> Response:
    return listing([commands.view(world, each, full=full) for each in commands.listed(world, ref)])


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
    number = float(text) if text.replace(".", "", 1).isdecimal() else -1  # old clients ask for 338.0
    found = world.commands.get(int(number))
    if found is None:
        raise ApiError(int(world.switches["unknown-command"]), f"Command {text} not found.")
    return found
