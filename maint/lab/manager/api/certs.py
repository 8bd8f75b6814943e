"""Auto-TLS: password and content of the shared truststore (contract section 11)."""

import base64
import hashlib

from maint.lab.manager.api.messages import ApiError, Request, Response, plain
from maint.lab.manager.world import World

_OFF = "Auto-TLS is not enabled."


def truststore_password(world: World, request: Request) -> Response:
    """Answer the bare password."""
    password = world.truststore_password()
    if not password:
        return _off(world)
    if world.faults.strikes("wrong-truststore-password", request.call):
        digest = hashlib.sha256(password.encode()).digest()
        password = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return plain(password)


def truststore(world: World, request: Request) -> Response:
    """Answer the truststore as JKS or PEM."""
    if not world.truststore_password():
        return _off(world)
    kind = request.query.get("type", "JKS").upper()
    if kind not in ("JKS", "PEM"):
        raise ApiError(400, f"Truststore type '{kind}' is not supported; supported are: JKS, PEM.")
    content = world.truststore_files.get(kind)
    if content is None:
        raise ApiError(500, "The truststore is missing on the server.")
    return Response(text=content, content_type="application/octet-stream")


def _off(world: World) -> Response:
    chosen = world.switches["truststore-off"]
    if chosen == "empty":
        return plain("")
    raise ApiError(int(chosen), _OFF)
