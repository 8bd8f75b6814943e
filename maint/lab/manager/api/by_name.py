"""Commands that move no role: by their name, maintenance mode, Kerberos credentials (M18, M20, M21)."""

from maint.lab.http.messages import ApiError, Response
from maint.lab.manager import commands, kerberos
from maint.lab.manager.api import hosts, services
from maint.lab.manager.api.messages import Request, cluster_of, listing, role_of, service_of
from maint.lab.manager.document import Doc
from maint.lab.manager.world import STARTED, World

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


def on_manager(world: World, request: Request) -> Response:
    """Begin a command of the manager."""
    return _begin(world, request, request.parts["name"], {})


def on_cluster(world: World, request: Request) -> Response:
    """Begin a command of a cluster that moves no role; `refresh` makes its services' configuration fresh."""
    cluster = cluster_of(world, request)
    for one in cluster.get("services") or []:
        world.stale.pop(f"{cluster['name']}/{one['name']}", None)
    return _begin(world, request, request.parts["name"], commands.cluster_ref(cluster))


def on_service(world: World, request: Request) -> Response:
    """Begin a command of a service by its name."""
    cluster, service = service_of(world, request)
    name = request.parts["name"]
    if name not in _names(_OF_SERVICES, str(service.get("type"))):
        raise ApiError(404, f"Command '{name}' not found in service '{service['name']}'.")
    return _begin(world, request, name, commands.service_ref(cluster, service))


def on_roles(world: World, request: Request) -> Response:
    """Begin a command on the roles that the body names; those that cannot are told in `errors`."""
    cluster, service = service_of(world, request)
    name, started, errors = request.parts["name"], list[Doc](), list[str]()
    for wanted in request.words("the list of roles"):
        try:
            role = role_of(service, wanted)
        except ApiError as error:
            errors.append(error.message)
            continue
        if name not in _names(_OF_ROLES, str(role.get("type"))) or world.role_state(role) != STARTED:
            errors.append(f"Command {name} is not currently available for execution on role '{wanted}'.")
            continue
        ref = commands.role_ref(cluster, service, role)
        begun = commands.start_simple(world, name, ref, request.call, _DONE.format(name=name))
        started.append(commands.view(world, begun, full=False))
    if name == "refresh" and started:
        world.stale.pop(f"{cluster['name'] if cluster else ''}/{service['name']}", None)
    return Response(value={"items": started, "errors": errors})


def names_of_service(world: World, request: Request) -> Response:
    """List the commands that a service takes by name."""
    return _listed(_names(_OF_SERVICES, str(services.service(world, request).get("type"))))


def names_of_role(world: World, request: Request) -> Response:
    """List the commands that a role takes by name."""
    return _listed(_names(_OF_ROLES, str(services.role(world, request).get("type"))))


def active_on_role(world: World, request: Request) -> Response:
    """List the active commands of a role itself."""
    cluster, service = service_of(world, request)
    ref = commands.role_ref(cluster, service, role_of(service, request.parts["role"]))
    return listing([commands.view(world, each, full=request.full) for each in commands.listed(world, ref)])


def maintain_cluster(world: World, request: Request) -> Response:
    """Put a cluster into maintenance mode, or take it out."""
    cluster = cluster_of(world, request)
    return _maintained(world, request, f"cluster {cluster['name']}", commands.cluster_ref(cluster))


def maintain_service(world: World, request: Request) -> Response:
    """Put a service into maintenance mode, or take it out."""
    cluster, service = service_of(world, request)
    return _maintained(world, request, services.key(cluster, service), commands.service_ref(cluster, service))


def maintain_role(world: World, request: Request) -> Response:
    """Put a role into maintenance mode, or take it out."""
    cluster, service = service_of(world, request)
    role = role_of(service, request.parts["role"])
    return _maintained(world, request, f"role {role['name']}", commands.role_ref(cluster, service, role))


def maintain_host(world: World, request: Request) -> Response:
    """Put a host into maintenance mode, or take it out."""
    host = hosts.named(world, request)
    return _maintained(world, request, f"host {host['hostId']}", {"hostRef": {"hostId": host["hostId"]}})


def import_kdc_account(world: World, request: Request) -> Response:
    """Take over the account that makes principals; what is wrong with it is told by the command (M21)."""
    username, password = request.word("username"), request.word("password")
    problem = kerberos.problem_with(world, username, password)
    begun = commands.start_simple(
        world, kerberos.IMPORT, {}, request.call, "Successfully imported KDC Account Manager credentials.", problem
    )
    return Response(value=commands.view(world, begun, full=False))


def generate_credentials(world: World, request: Request) -> Response:
    """Make the principals and keytabs that are missing; without an account it fails (M21)."""
    problem = "" if world.kdc_account else "Please import the KDC Account Manager credentials first."
    begun = commands.start_simple(
        world, kerberos.GENERATE, {}, request.call, "Successfully generated Kerberos credentials.", problem
    )
    return Response(value=commands.view(world, begun, full=False))


def kerberos_info(world: World, request: Request) -> Response:
    """Say whether a cluster uses Kerberos, and of which KDC; of the manager, whether any cluster does."""
    cluster = cluster_of(world, request) if "cluster" in request.parts else None
    return Response(value=kerberos.info(world, cluster))


def kerberos_principals(world: World, request: Request) -> Response:
    """List the principals that services need; with `missingOnly` those that the manager has not."""
    return listing([{"principal": name} for name in kerberos.principals(world, missing=request.flag("missingOnly"))])


def _begin(world: World, request: Request, name: str, ref: Doc) -> Response:
    begun = commands.start_simple(world, name, ref, request.call, _DONE.format(name=name))
    return Response(value=commands.view(world, begun, full=False))


def _maintained(world: World, request: Request, key: str, ref: Doc) -> Response:
    # Synchronous: finished in its own answer, under a negative id that nobody can ask for (M20).
    on = request.parts["verb"] == "enterMaintenanceMode"
    world.maintenance = sorted({*world.maintenance, key} if on else {*world.maintenance} - {key})
    stamp = commands.moment(world.now().timestamp())
    name = "EnterMaintenanceMode" if on else "ExitMaintenanceMode"
    said: Doc = {"id": -1, "name": name, "startTime": stamp, "endTime": stamp, "active": False, "success": True}
    return Response(value=said | ref)


def _names(known: dict[str, tuple[str, ...]], kind: str) -> tuple[str, ...]:
    return (*known[""], *known.get(kind, ()))


def _listed(names: tuple[str, ...]) -> Response:
    return listing([{"name": name} for name in names])
