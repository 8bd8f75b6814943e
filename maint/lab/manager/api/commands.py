"""Commands by id (contract section 4.2)."""

from maint.lab.manager import commands
from maint.lab.manager.api.messages import ApiError, Request, Response
from maint.lab.manager.world import Command, World


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


def _again(world: World, command: Command, call: str) -> Command:
    cluster_ref, service_ref = command.ref.get("clusterRef"), command.ref.get("serviceRef") or {}
    cluster = world.find_cluster(str((cluster_ref or service_ref).get("clusterName", "")))
    if cluster_ref and cluster:
        return commands.start_on_cluster(world, cluster, command.name, call)
    owned = (cluster or {}).get("services") or [world.deployment.get("managementService") or {}]
    for service in owned:
        if service.get("name") == service_ref.get("serviceName"):
            return commands.start_on_service(world, cluster, service, command.name, call)
    raise ApiError(400, f"Command {command.id} cannot be retried: what it worked on is gone.")


def _find(world: World, request: Request) -> Command:
    text = request.parts["id"]
    number = float(text) if text.replace(".", "", 1).isdigit() else -1  # old clients ask for 338.0
    found = world.commands.get(int(number))
    if found is None:
        raise ApiError(int(world.switches["unknown-command"]), f"Command {text} not found.")
    return found
