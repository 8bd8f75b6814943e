"""From a request to its answer: who is let in, what faults do, who answers which call (J3)."""

from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace

from maint.lab.http.messages import Response, Routes
from maint.lab.virtual_clusters.api import jobs, resources
from maint.lab.virtual_clusters.cluster import Cluster
from maint.lab.virtual_clusters.gateway import ACCESS, Gateway
from maint.lab.virtual_clusters.messages import ApiError, Request, html, printed

Handler = Callable[[Cluster, Request], Response]


def _info(cluster: Cluster, request: Request) -> Response:
    del request
    return Response(value={"appName": cluster.switches["vc-app-name"] or cluster.identity.name})


def _nothing_of(noun: str) -> Handler:
    """Return what lists objects that the lab never has."""
    empty = {noun: [], "meta": {"hasNext": False, "limit": 20, "offset": 0, "count": 0}}
    return lambda _cluster, _request: Response(value=empty)


PREFIX = "/dex/api/v1/"

ROUTES: dict[str, Handler] = {
    "GET info": _info,
    "GET credentials": _nothing_of("credentials"),
    "GET jobs": jobs.read_all,
    "POST jobs": jobs.create,
    "GET jobs/{job}": jobs.read,
    "PATCH jobs/{job}": jobs.update,
    "DELETE jobs/{job}": jobs.delete,
    "POST jobs/{job}/run": jobs.run,
    "POST jobs/{job}/schedule/{action}": jobs.act,
    "GET resources": resources.read_all,
    "POST resources": resources.create,
    "GET resources/{resource}": resources.read,
    "DELETE resources/{resource}": resources.delete,
    "PUT resources/{resource}/{path*}": resources.upload_file,
    "GET resources/{resource}/{path*}": resources.download_file,
    "DELETE resources/{resource}/{path*}": resources.delete_file,
    "GET repositories": resources.read_repositories,
    "POST repositories": resources.create_repository,
    "GET repositories/{repository}": resources.read_repository,
    "DELETE repositories/{repository}": resources.delete_repository,
    "POST repositories/{repository}/sync": resources.sync_repository,
    "GET admin/export": resources.export_all,
    "POST admin/import": resources.import_all,
    "GET job-runs": jobs.read_runs,
    "GET job-runs/{run}": jobs.read_run,
    "POST job-runs/{run}/kill": jobs.kill_run,
    "GET job-runs/{run}/log-types": jobs.log_types,
    "GET job-runs/{run}/logs": jobs.read_log,
}
CALLS = Routes(ROUTES)


class Admitted(msgspec.Struct, frozen=True):
    """A request that was let in."""

    request: Request
    handler: Handler
    uploads: bool  # its body is a form with a file


def admit(cluster: Cluster, gateway: Gateway, request: Request) -> Admitted | Response:
    """Return a request that is let in, or the answer that ends it before its body is read."""
    if not request.path.startswith(PREFIX):
        return html(404, "404 Not Found")
    struck = _stand_in(cluster, request)
    if struck:
        return struck
    user = gateway.mint.user(request.bearer, ACCESS, cluster.now())
    person = gateway.people.get(user)
    if person is None or cluster.strikes("vc-unauthorised-once", request.call):
        return _unauthorised(cluster)
    sees = bool(person.roles)
    forbidden = not sees and (request.method != "GET" or cluster.switches["vc-no-role"] == "forbidden")
    if forbidden or cluster.strikes("vc-forbidden", request.call):
        return ApiError(403, f"user {user} is not allowed to do this").response
    path = request.path.removeprefix(PREFIX).rstrip("/")
    found = CALLS.find(request.method, path)
    if found is None:
        allowed = ", ".join(CALLS.methods(path))
        return ApiError(405 if allowed else 404, "no such call", headers={"Allow": allowed} if allowed else {}).response
    uploads = found[0] in (resources.upload_file, resources.import_all)
    return Admitted(replace(request, user=user, sees=sees, parts=found[1]), found[0], uploads)


def handle(cluster: Cluster, admitted: Admitted) -> Response:
    """Return the answer to a request whose body arrived whole."""
    request = admitted.request
    try:
        with cluster.lock:
            response = admitted.handler(cluster, request).printed(printed)
    except ApiError as error:
        response = error.response.printed(printed)
    finally:
        if request.upload:
            request.upload.path.unlink(missing_ok=True)  # unless a resource took it
    return _ending(cluster, request, response)


def _stand_in(cluster: Cluster, request: Request) -> Response | None:
    """Return what a fault answers in the API's place, None when none strikes."""
    if cluster.strikes("vc-connection-dropped", request.call):
        return Response(0, lost=True, remark="connection dropped")
    for name, response in _STAND_INS.items():
        if cluster.strikes(name, request.call):
            return response
    return throttled(cluster) if cluster.strikes("vc-throttled", request.call) else None


def throttled(cluster: Cluster) -> Response:
    """Return the answer to who asks too often."""
    seconds = cluster.switches.number("vc-retry-after")
    return ApiError(429, "too many requests", headers={"Retry-After": f"{seconds:g}"}).response


def _ending(cluster: Cluster, request: Request, response: Response) -> Response:
    """Return an answer as a fault lets it arrive."""
    if response.stream and cluster.strikes("vc-cut-download", request.call):
        return replace(response, damage="cut")
    if request.method != "GET" and cluster.strikes("vc-answer-lost", request.call):
        return replace(response, status=0, lost=True, remark="answer lost")
    if request.method != "GET" and cluster.strikes("vc-502-after-write", request.call):
        return html(502, "502 Bad Gateway")
    return response


def _unauthorised(cluster: Cluster) -> Response:
    headers: Mapping[str, str] = {"WWW-Authenticate": "Bearer"}
    if cluster.switches["vc-unauthorised-body"] == "json":
        return ApiError(401, "token is invalid or has expired", headers=headers).response
    return replace(html(401, "401 Authorization Required"), headers=headers)


_STAND_INS: dict[str, Response] = {
    "vc-unavailable": html(503, "503 Service Temporarily Unavailable"),
    "vc-proxy-502": html(502, "502 Bad Gateway"),
    "vc-error-500": ApiError(500, "internal error: the lab was told to fail").response,
    "vc-html-200": html(200, "Please log in to the network"),
}
