"""From a request that came in to the response that goes out: door, account, route, handler (M2)."""

import re
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

from msgspec import Struct
from msgspec.structs import replace

from maint.lab.http import messages
from maint.lab.http.messages import JSON, ApiError, Response
from maint.lab.http.server import basic_login
from maint.lab.manager import commands
from maint.lab.manager.accounts import ADMIN, CLUSTER_ADMIN, Grant, grants
from maint.lab.manager.api import manager, routes
from maint.lab.manager.api.messages import Handler, Request, html, printed
from maint.lab.manager.api.routes import ADMINISTER, CONFIGURE, FULL, OPERATE, PRIVILEGED, READ
from maint.lab.manager.document import Doc, answered, major
from maint.lab.manager.world import World

_VIEWS = ("summary", "full", "full_with_health_check_explanation", "export", "export_redacted")
_API = re.compile(r"/api/v([1-9]\d{0,3})/(.+?)/?")


class Admitted(Struct, frozen=True):
    """A request that was let in."""

    request: Request
    handler: Handler
    cookie: str  # the session that its answer opens, "" for none


def admit(world: World, incoming: messages.Request) -> Admitted | Response:
    """Return the request of an account that is let in, or the answer that ends it before its body is read."""
    if not f"{incoming.path}/".startswith("/api/"):
        return _pages(incoming)
    user, cookie = _account(world, incoming)
    if user is None or _struck(world, "unauthorised", incoming) or _struck(world, "unauthorised-once", incoming):
        return _unauthorised(world)
    try:
        return Admitted(*_routed(world, incoming, user), cookie)
    except ApiError as error:
        return with_cookie(error.response, cookie)


def handle(world: World, admitted: Admitted, content: bytes) -> Response:
    """Return the answer to a request whose body arrived whole."""
    commands.settle(world)
    try:
        response = admitted.handler(world, replace(admitted.request, content=content))
    except ApiError as error:
        response = error.response
    if admitted.request.api:
        response = replace(response, value=answered(response.value, admitted.request.api))
    return with_cookie(response.printed(printed), admitted.cookie)


def with_cookie(response: Response, cookie: str) -> Response:
    """Return an answer that opens a session."""
    return replace(response, headers={**response.headers, "Set-Cookie": cookie}) if cookie else response


def _routed(world: World, incoming: messages.Request, user: Doc) -> tuple[Request, Handler]:
    request = Request(incoming.method, incoming.path, incoming.query, incoming.headers, user=user)
    if incoming.path.rstrip("/") == "/api/version" and incoming.method in ("GET", "HEAD"):
        return request, manager.api_version
    if incoming.path.rstrip("/") == "/api/version":
        raise ApiError(405, "Method not allowed.", headers={"Allow": "GET, HEAD"})
    found = _API.fullmatch(incoming.path)
    if not found or int(found[1]) > world.api:
        raise ApiError(404, "Not found.")
    routed = routes.CALLS.find("GET" if incoming.method == "HEAD" else incoming.method, found[2])
    if routed is None:
        raise _no_route(incoming.method, found[2])
    route, parts = routed
    if route.since > int(found[1]):
        raise ApiError(404, "Not found.")
    view = request.word("view", "summary").lower()
    if view not in _VIEWS:
        raise ApiError(400, f"View '{view}' is not supported; supported are: {', '.join(_VIEWS)}.")
    kind = incoming.headers.get("content-type", JSON).split(";")[0].strip().lower()
    if route.takes_json and kind != JSON and world.switches["wrong-content-type"] == "refuse":
        raise ApiError(415, f"Content type '{kind}' is not supported; supported is: {JSON}.")
    require(world, user, route.needs, _cluster_name(world, parts))
    return replace(request, api=int(found[1]), parts=parts), route.handler


def _no_route(method: str, path: str) -> ApiError:
    if routes.is_real(method, path):
        return ApiError(501, f"{method} {path} is not simulated by this lab.", remark="not simulated")
    allowed = ", ".join(routes.CALLS.methods(path)).replace("GET", "GET, HEAD")
    if allowed:
        return ApiError(405, "Method not allowed.", headers={"Allow": allowed})
    return ApiError(404, "Not found.")


def _cluster_name(world: World, parts: Mapping[str, str]) -> str:
    cluster = world.find_cluster(parts["cluster"]) if "cluster" in parts else None
    return str(cluster["name"]) if cluster else ""


def _account(world: World, incoming: messages.Request) -> tuple[Doc | None, str]:
    # A cookie is taken instead of Basic.
    name = cookie_name(world)
    session = _cookie(incoming.headers.get("cookie", ""), name)
    if session and (known := world.session_user(session)):
        return known, ""
    login, password = basic_login(incoming.headers.get("authorization", ""))
    user = world.log_in(login, password) if login else None
    return user, f"{name}={world.open_session(login)};Path=/;HttpOnly" if user else ""


def cookie_name(world: World) -> str:
    """Return the name of the session cookie (U10)."""
    chosen = world.switches["session-cookie"]
    if chosen != "by-release":
        return chosen
    return "SESSION" if major(world.release) >= 7 else "CLOUDERA_MANAGER_SESSIONID"


def _cookie(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return found.value if found else ""


def _unauthorised(world: World) -> Response:
    answer = html(401, "Error 401 Bad credentials", "Bad credentials")
    if world.switches["unauthorised-body"] == "json":
        answer = replace(ApiError(401, "Bad credentials").response, reason="Bad credentials")
    return replace(answer, headers={"WWW-Authenticate": 'Basic realm="Cloudera Manager"'})


def _pages(incoming: messages.Request) -> Response:
    if incoming.path in ("/", "/cmf/login"):
        return html(200, "Cloudera Manager")
    return html(404, "Error 404 Not Found")


def _struck(world: World, fault: str, incoming: messages.Request) -> bool:
    return world.faults.strikes(fault, incoming.call)


_ROLES: dict[str, frozenset[str]] = {
    OPERATE: frozenset({ADMIN, CLUSTER_ADMIN, "ROLE_OPERATOR", "ROLE_CONFIGURATOR"}),
    CONFIGURE: frozenset({ADMIN, CLUSTER_ADMIN, "ROLE_CONFIGURATOR"}),
    ADMINISTER: frozenset({ADMIN, CLUSTER_ADMIN}),
    FULL: frozenset({ADMIN}),
}
_PRIVILEGED = {"administrator": FULL, "cluster-administrator": ADMINISTER, "any": READ}


def require(world: World, user: Doc, needs: str, cluster: str = "") -> None:
    """Raise the 403 of an account whose role is too weak, everywhere or on the cluster that the path names."""
    if needs == PRIVILEGED:
        needs = _PRIVILEGED[world.switches["privileged-role"]]
    if needs == READ or any(_allows(grant, _ROLES[needs], cluster) for grant in grants(world.deployment, user)):
        return
    raise ApiError(403, "Access is denied")


def _allows(grant: Grant, roles: frozenset[str], cluster: str) -> bool:
    return grant.role in roles and (grant.clusters is None or cluster in grant.clusters)
