"""The manager itself: build, settings, servers, database, and its whole deployment (M3, M7, M8, M10.5)."""

from maint.lab.http.messages import ApiError, Response
from maint.lab.manager import accounts, commands, put_deployment
from maint.lab.manager.api.messages import Request, listing, plain
from maint.lab.manager.document import Doc, Hide, as_of, clusters, dumps, hidden
from maint.lab.manager.world import World


def version(world: World, _request: Request) -> Response:
    """Answer what was built."""
    return Response(value=world.deployment.get("versionInfo"))


def database(_world: World, _request: Request) -> Response:
    """Answer the kind of database."""
    return Response(value={"scmDbType": "POSTGRESQL", "embeddedDbUsed": False})


def shutdown_readiness(world: World, _request: Request) -> Response:
    """Answer whether the server could be stopped now."""
    busy = any(command.active for command in world.commands.values())
    return Response(value={"state": "NOT_READY" if busy else "READY"})


def instances(world: World, _request: Request) -> Response:
    """List the servers of this manager: the machines they run on, whatever its deployment says (M10.5)."""
    servers = world.machines[: int(world.switches.number("server-instances"))]
    stamp = commands.moment(world.now().timestamp())
    times = {"createdTime": stamp, "lastUpdatedTime": stamp}
    return listing([
        {"cmServerId": f"server-{number}", "name": name, "ipAddress": address, **times}
        for number, (name, address) in enumerate(servers, 1)
    ])  # fmt: skip


def peers(world: World, _request: Request) -> Response:
    """List peers; their passwords are never shown here."""
    listed = [{name: value for name, value in peer.items() if name != "password"}
              for peer in world.deployment.get("peers") or []]  # fmt: skip
    return listing(listed)


def api_version(world: World, _request: Request) -> Response:
    """Answer the highest API version as bare text."""
    text = {"bare": "v{}", "quoted": '"v{}"', "line": "v{}\n"}[world.switches["version-body"]].format(world.api)
    return plain(text, world.switches["version-content-type"])


def echo(_world: World, request: Request) -> Response:
    """Answer the message."""
    return Response(value={"message": request.word("message", "Hello, World!")})


def echo_error(_world: World, request: Request) -> Response:
    """Always fail, with the message."""
    raise ApiError(500, request.word("message", "Default error message"))


def read_deployment(world: World, request: Request) -> Response:
    """Export everything, redacted or not."""
    view = request.word("view", "export").lower()
    if view not in ("export", "export_redacted"):
        raise ApiError(400, f"View '{view}' is not supported; supported are: export, export_redacted.")
    seconds = world.switches.number("get-seconds")
    return Response(text=exported(world, request, view == "export_redacted"), delay=seconds)


def replace_deployment(world: World, request: Request) -> Response:
    """Put the document of the body in force, whole or not at all."""
    if world.faults.strikes("put-fails", request.call):
        raise ApiError(500, "Transaction rolled back: the lab was told to let it fail.")
    body = request.document("the deployment")
    try:
        deployment = put_deployment.prepared(world, body, request.api, request.flag("deleteCurrentDeployment"))
    except put_deployment.NotAccepted as error:
        raise ApiError(400, str(error)) from error
    world.replace_deployment(deployment, added=not request.flag("deleteCurrentDeployment"))
    return Response(text=exported(world, request, False))


def exported(world: World, request: Request, redacted: bool) -> bytes:
    """Return the document as one account sees it, in the shape of the path's version, nulls included (recordings)."""
    switches = world.switches
    secret = redacted or world.redaction
    under = switches["pwhash-in-redacted-view" if redacted else "pwhash-under-redaction"]
    full = accounts.Grant(accounts.ADMIN) in accounts.grants(world.deployment, request.user)
    hide = Hide(
        values=secret,
        accounts=secret and under == "absent",
        peers=secret and switches["peer-password-redacted"] == "yes",
        navigator=not full,
    )
    copy = hidden(world.deployment, hide)
    if request.api < world.shape:
        copy = as_of(copy, request.api)
    return dumps(_extras(world, {**copy, "timestamp": commands.moment(world.now().timestamp())})).encode()


def _extras(world: World, doc: Doc) -> Doc:
    # Whether an export has these fields is not known (U15).
    if world.switches["extra-fields"] == "present":
        doc["clusters"] = [
            {"uuid": put_deployment.uuid_for(cluster), "entityStatus": "NONE", **cluster} for cluster in clusters(doc)
        ]
    return put_deployment.without_hostnames(doc) if world.switches["hostname-in-refs"] == "absent" else doc
