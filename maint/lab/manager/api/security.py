"""What guards a manager: the truststore of Auto-TLS, the licence, accounts with their roles and sessions (M9, M11)."""

import base64
import hashlib

from maint.lab.http.form import BadForm, form_part
from maint.lab.http.messages import ApiError, Response
from maint.lab.manager import commands
from maint.lab.manager.accounts import internal
from maint.lab.manager.api.messages import Request, listing, one_of, plain
from maint.lab.manager.document import Doc, users
from maint.lab.manager.license import BadLicense, read_license
from maint.lab.manager.views import as_of
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
    kind = request.word("type", "JKS").upper()
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


_NONE = {
    "express": "This installation is currently running Cloudera Express.",
    "cloudera": "This installation currently does not have a Cloudera license.",
    "no-license": "This installation currently has no license.",
}


def read_installed_license(world: World, request: Request) -> Response:
    """Answer the licence, or 404 with one of the three known texts."""
    if world.trial == "running" and not world.license:
        return Response(value={"owner": "Trial", "uuid": "00000000-0000-0000-0000-000000000000"})
    if not world.license:
        raise ApiError(404, _NONE[world.switches["no-license-message"]])
    return Response(value=_license(world.license, request.api))


def upload_license(world: World, request: Request) -> Response:
    """Install the licence of the part named `license`."""
    try:
        content = b"".join(form_part([request.content], request.headers.get("content-type", ""), "license"))
    except BadForm as error:
        raise ApiError(400, "The request has no part named 'license'.") from error
    try:
        world.license = read_license(content, world.now())
    except BadLicense as error:
        raise ApiError(int(world.switches["bad-license"]), str(error)) from error
    world.license_counts = world.switches["license-effective"] == "at-once"
    world.trial = "used" if world.trial == "running" else world.trial
    return Response(value=_license(world.license, request.api))


def trial(world: World, request: Request) -> Response:
    """Begin the trial, which can be had once, or end it."""
    before, after, refusal = {
        "begin": ("unused", "running", "Trial has been used."),
        "end": ("running", "used", "No trial is running."),
    }[request.parts["verb"]]
    if world.trial != before:
        raise ApiError(400, refusal)
    world.trial = after
    return Response(204)


def license_usage(world: World, _request: Request) -> Response:
    """Answer which licensed features are in use."""
    named: Doc = {str(cluster.get("name")): {} for cluster in world.deployment.get("clusters") or []}
    return Response(value={"totals": {}, "clusters": named})


def _license(inner: Doc, api: int) -> Doc:
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


def read_users(world: World, request: Request) -> Response:
    """List accounts; no hashes here, and no internal ones (recordings)."""
    return listing([_account(user, request.api) for user in users(world.deployment) if not internal(user)])


def read_user(world: World, request: Request) -> Response:
    """Answer one account."""
    return Response(value=_account(one_of(users(world.deployment), "name", request.parts["user"], "User"), request.api))


def roles_metadata(world: World, _request: Request) -> list[Doc]:
    """Return what is known of each role, without who has it."""
    return [
        {"displayName": each.get("displayName"), "uuid": each.get("uuid"), "role": each.get("name"),
         "authorities": [], "allowedScopes": []}
        for each in world.deployment.get("authRoles") or []
    ]  # fmt: skip


def sessions(world: World, _request: Request) -> Response:
    """List open sessions: one for each call that came without a cookie (M2.2)."""
    stamp = commands.moment(world.now().timestamp())
    return listing([
        {"name": name, "remoteAddr": "127.0.0.1", "lastRequest": stamp} for name in world.sessions.values()
    ])  # fmt: skip


def expire_sessions(world: World, request: Request) -> Response:
    """End the sessions of an account."""
    world.sessions = {key: name for key, name in world.sessions.items() if name != request.parts["user"]}
    return Response(204)


def _account(user: Doc, api: int) -> Doc:
    kept = {name: user[name] for name in ("name", "roles", "authRoles") if name in user}
    shown: Doc = as_of({"users": [kept]}, api)["users"][0]
    return shown
