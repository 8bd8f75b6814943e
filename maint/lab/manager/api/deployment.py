"""The whole configuration in one document: read it, replace it (contract sections 7, 8)."""

from maint.lab.manager import accounts, put_deployment
from maint.lab.manager.api.messages import ApiError, Request, Response
from maint.lab.manager.document import Doc, clusters, parse
from maint.lab.manager.redact import Hide, hidden
from maint.lab.manager.world import World


def read(world: World, request: Request) -> Response:
    """Export everything, redacted or not."""
    view = request.query.get("view", "export").lower()
    if view not in ("export", "export_redacted"):
        raise ApiError(400, f"View '{view}' is not supported; supported are: export, export_redacted.")
    seconds = world.switches.number("get-seconds")
    return Response(value=exported(world, request.user, view == "export_redacted"), whole=True, seconds=seconds)


def replace(world: World, request: Request) -> Response:
    """Put the document of the body in force, whole or not at all."""
    if world.faults.strikes("put-fails", request.call):
        raise ApiError(500, "Transaction rolled back: the lab was told to let it fail.")
    try:
        body = parse(request.content())
    except ValueError as error:
        raise ApiError(400, f"Cannot read the deployment: {error}") from error
    try:
        deployment = put_deployment.prepared(world, body, request.api, request.flag("deleteCurrentDeployment"))
    except put_deployment.NotAccepted as error:
        raise ApiError(400, str(error)) from error
    world.replace_deployment(deployment, added=not request.flag("deleteCurrentDeployment"))
    return Response(value=exported(world, request.user, False), whole=True)


def exported(world: World, user: Doc, redacted: bool) -> Doc:
    """Return the document as one account sees it.

    Args:
        redacted: whether the redacted view was asked for.
    """
    switches = world.switches
    secret = redacted or world.redaction
    under = switches["pwhash-in-redacted-view" if redacted else "pwhash-under-redaction"]
    full = accounts.Grant(accounts.ADMIN) in accounts.grants(world.deployment, user)
    hide = Hide(
        values=secret,
        accounts=secret and under == "absent",
        peers=secret and switches["peer-password-redacted"] == "yes",
        navigator=not full,
    )
    copy = hidden(world.deployment, hide)
    stamp = world.now().strftime("%Y-%m-%dT%H:%M:%S.") + f"{world.now().microsecond // 1000:03d}Z"
    return _extras(world, {**copy, "timestamp": stamp})


def _extras(world: World, doc: Doc) -> Doc:
    """Add or drop the fields of which nobody knows whether an export has them (U15)."""
    if world.switches["extra-fields"] == "present":
        doc["clusters"] = [
            {"uuid": put_deployment.uuid_for(cluster), "entityStatus": "NONE", **cluster} for cluster in clusters(doc)
        ]
    return put_deployment.without_hostnames(doc) if world.switches["hostname-in-refs"] == "absent" else doc
