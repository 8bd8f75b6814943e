"""What goes into the API and what comes out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from maint.lab.manager import document
from maint.lab.manager.document import Doc, roles, services
from maint.lab.manager.redact import hide_items
from maint.lab.manager.world import World

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was let in.

    Attributes:
        method: GET, POST, PUT or DELETE.
        call: method and path, for faults.
        api: N of `/api/vN`; 0 outside.
        parts: values of the path's placeholders.
        query: the query; the last value of each name.
        headers: header values by lower-case name.
        user: the account.
        body: the file that holds the whole body, None where there is none.
        host: the name and port by which the client came.
    """

    method: str
    call: str
    api: int
    parts: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    user: Doc
    body: Path | None = None
    host: str = "localhost:7180"

    def flag(self, name: str) -> bool:
        """Return a boolean of the query; any case counts (contract section 2.3)."""
        return self.query.get(name, "").lower() == "true"

    def content(self) -> bytes:
        """Return the whole body."""
        return self.body.read_bytes() if self.body else b""


@dataclass(frozen=True, slots=True)
class Response:
    """What is sent back.

    Attributes:
        value: what is printed as JSON, unless `text` is given.
        text: the bare body.
        whole: whether nulls within the value are printed too, as an export does where it has some (recordings).
        seconds: how long the server takes before its first byte.
        remark: what the record of requests says of it.
    """

    status: int = 200
    value: Any = None  # Any: whatever JSON can spell
    text: bytes | None = None
    content_type: str = JSON
    reason: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    whole: bool = False
    seconds: float = 0.0
    remark: str = ""

    def spelled(self) -> "Response":
        """Return the same with its value printed, so that later changes of the world do not reach it."""
        return self if self.value is None else replace(self, text=self.body(), value=None)

    def body(self) -> bytes:
        """Return the bytes of the body."""
        if self.text is not None:
            return self.text
        if self.value is None:
            return b""
        return document.dumps(self.value if self.whole else document.without_nulls(self.value)).encode()


class ApiError(Exception):
    """An answer that is an `ApiErrorMessage` (contract section 2.4)."""

    def __init__(self, status: int, message: str, causes: list[str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.causes = status, message, causes

    def response(self) -> Response:
        """Return the answer."""
        return Response(self.status, {"message": self.message, "causes": self.causes})


Handler = Callable[[World, Request], Response]


def plain(text: str, content_type: str = "text/plain") -> Response:
    """Return a bare text."""
    return Response(text=text.encode(), content_type=content_type)


def listing(entries: list[Doc]) -> Response:
    """Return `{"items" : [...]}`."""
    return Response(value={"items": entries})


def html(status: int, title: str, reason: str | None = None) -> Response:
    """Return an error page as a web server writes it."""
    page = f"<html>\n<head>\n<title>{title}</title>\n</head>\n<body>\n<h2>{title}</h2>\n</body>\n</html>\n"
    return Response(status, text=page.encode(), content_type="text/html;charset=ISO-8859-1", reason=reason)


def cluster_of(world: World, request: Request) -> Doc:
    """Return the cluster of the path (contract section 5)."""
    name = request.parts["cluster"]
    found = world.find_cluster(name)
    if found is None:
        raise ApiError(404, f"Cluster '{name}' not found.")
    return found


def service_of(world: World, request: Request) -> tuple[Doc | None, Doc]:
    """Return the service of the path with its cluster; the management service where the path names no cluster."""
    if "cluster" not in request.parts:
        return None, management_service(world)
    cluster, name = cluster_of(world, request), request.parts["service"]
    for service in services(cluster):
        if service.get("name") == name:
            return cluster, service
    raise ApiError(404, f"Service '{name}' not found in cluster '{cluster['name']}'.")


def management_service(world: World) -> Doc:
    """Return the management service."""
    service: Doc | None = world.deployment.get("managementService")
    if not service:
        raise ApiError(404, "Cloudera Management Service does not exist.")
    return service


def role_of(service: Doc, name: str) -> Doc:
    """Return a role of a service."""
    for role in roles(service):
        if role.get("name") == name:
            return role
    raise ApiError(404, f"Role '{name}' not found in service '{service['name']}'.")


def items_shown(world: World, listed: list[Doc]) -> list[Doc]:
    """Return config items as the API shows them now."""
    return hide_items(listed) if world.redaction else listed
