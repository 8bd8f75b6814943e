"""The licence: read, upload, trial (contract section 9)."""

from email import message_from_bytes, policy

from maint.lab.manager.api.messages import ApiError, Request, Response
from maint.lab.manager.document import Doc
from maint.lab.manager.license import BadLicense, read_license
from maint.lab.manager.world import World

_NONE = {
    "express": "This installation is currently running Cloudera Express.",
    "cloudera": "This installation currently does not have a Cloudera license.",
    "no-license": "This installation currently has no license.",
}


def read(world: World, request: Request) -> Response:
    """Answer the licence, or 404 with one of the three known texts."""
    if world.trial == "running" and not world.license:
        return Response(value={"owner": "Trial", "uuid": "00000000-0000-0000-0000-000000000000"})
    if not world.license:
        raise ApiError(404, _NONE[world.switches["no-license-message"]])
    return Response(value=_shown(world.license, request.api))


def upload(world: World, request: Request) -> Response:
    """Install the licence of the part named `license`."""
    content = _part(request, "license")
    if content is None:
        raise ApiError(400, "The request has no part named 'license'.")
    try:
        world.license = read_license(content, world.now())
    except BadLicense as error:
        raise ApiError(int(world.switches["bad-license"]), str(error)) from error
    world.license_counts = world.switches["license-effective"] == "at-once"
    return Response(value=_shown(world.license, request.api))


def begin_trial(world: World, request: Request) -> Response:
    """Begin the trial; it can be had once."""
    del request
    if world.trial != "unused":
        raise ApiError(400, "Trial has been used.")
    world.trial = "running"
    return Response(204)


def end_trial(world: World, request: Request) -> Response:
    """End the trial."""
    del request
    if world.trial != "running":
        raise ApiError(400, "No trial is running.")
    world.trial = "used"
    return Response(204)


def usage(world: World, request: Request) -> Response:
    """Answer which licensed features are in use."""
    del request
    named: Doc = {str(cluster.get("name")): {} for cluster in world.deployment.get("clusters") or []}
    return Response(value={"totals": {}, "clusters": named})


def _shown(inner: Doc, api: int) -> Doc:
    shown: Doc = {
        "owner": inner["name"],
        "uuid": inner["uuid"],
        "expiration": f"{inner['expirationDate']}T00:00:00.000Z",
    }
    if api >= 32:
        names = [str(name) for name in inner.get("features") or []]
        shown["features"] = [{"name": name, "enabled": True, "description": name.title()} for name in names]
        shown["deactivationDate"] = inner.get("deactivationDate")
        shown["startDate"] = inner.get("startDate")
    return shown


def _part(request: Request, name: str) -> bytes | None:
    head = f"Content-Type: {request.headers.get('content-type', '')}\r\n\r\n".encode()
    for part in message_from_bytes(head + request.content(), policy=policy.HTTP).walk():
        if part.get_param("name", header="content-disposition") == name:
            content = part.get_payload(decode=True)
            return content if isinstance(content, bytes) else None
    return None
