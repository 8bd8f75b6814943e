"""Requests and responses of the management API, and how the names in a path are looked up."""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from maint.lab.http import messages
from maint.lab.http.messages import ApiError, Response
from maint.lab.manager import commands
from maint.lab.manager.document import (
    Doc,
    dumps,
    hide_items,
    hosts,
    items,
    misshapen,
    parse,
    roles,
    services,
    without_nulls,
)
from maint.lab.manager.world import World


class Request(messages.Request, frozen=True):
    """A request that was let in; a HEAD is answered by the handler of its GET."""

    api: int = 0  # N of `/api/vN`; 0 outside
    user: Doc = msgspec.field(default_factory=dict)

    @property
    def host(self) -> str:
        return self.headers.get("host", "localhost:7180")

    @property
    def full(self) -> bool:
        return self.word("view", "summary").lower().startswith("full")

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a boolean of the query, of which only "true" is one; any case counts (M2.3)."""
        return self.word(name, str(default)).lower() == "true"

    def document(self, what: str) -> Doc:
        """Return the JSON object of the body, empty where there is none; 400 where it is not one."""
        try:
            found = parse(self.content or b"{}")
            problem = next(misshapen(found, what), "")
        except (ValueError, RecursionError) as error:
            raise ApiError(400, f"Cannot read {what}: {error}") from error
        if problem:
            raise ApiError(400, f"Cannot read {what}: {problem}")
        return found

    def entries(self, what: str) -> list[Doc]:
        """Return the objects of the body's `{"items" : [...]}`; 400 where they are not objects in a list."""
        return items(self.document(what))

    def words(self, what: str, field: str = "items") -> list[str]:
        """Return the texts of a list in the body; 400 where they are not texts in a list."""
        try:
            return texts(parse(self.content or b"{}"), field, what)
        except ValueError as error:
            raise ApiError(400, f"Cannot read {what}: {error}") from error


def texts(node: Doc, field: str, what: str) -> list[str]:
    """Return a list of strings in a body; 400 where it is not one."""
    listed = node.get(field) or []
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise ApiError(400, f"Cannot read {what}: {field} is not a list of strings.")
    return listed


Handler = Callable[[World, Request], Response]


def printed(value: Any) -> bytes:  # Any: whatever JSON can spell
    """Return a value as the server prints it, without what is null."""
    return dumps(without_nulls(value)).encode()


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


def one_of(entries: list[Doc], key: str, name: str, what: str, where: str = "") -> Doc:
    """Return the entry of a name; 404 where there is none."""
    for entry in entries:
        if entry.get(key) == name:
            return entry
    raise ApiError(404, f"{what} '{name}' not found{where}.")


def cluster_of(world: World, request: Request) -> Doc:
    """Return the cluster of the path (M5)."""
    name = request.parts["cluster"]
    found = world.find_cluster(name)
    if found is None:
        raise ApiError(404, f"Cluster '{name}' not found.")
    return found


def service_of(world: World, request: Request) -> tuple[Doc | None, Doc]:
    """Return the service of the path with its cluster; the management service where the path names no cluster."""
    if "cluster" not in request.parts:
        service: Doc | None = world.deployment.get("managementService")
        if not service:
            raise ApiError(404, "Cloudera Management Service does not exist.")
        return None, service
    cluster, name = cluster_of(world, request), request.parts["service"]
    return cluster, one_of(services(cluster), "name", name, "Service", f" in cluster '{cluster['name']}'")


def role_of(service: Doc, name: str) -> Doc:
    """Return a role of a service."""
    return one_of(roles(service), "name", name, "Role", f" in service '{service['name']}'")


def host_of(world: World, name: str) -> Doc:
    """Return a host by its id or name."""
    for host in hosts(world.deployment):
        if name in (host.get("hostId"), host.get("hostname")):
            return host
    raise ApiError(404, f"Host '{name}' not found.")


class Entity(NamedTuple):
    """What a path names, as `maintenance` has it ("" for the manager), and how answers refer to it."""

    key: str
    ref: Doc


def entity_of(world: World, request: Request) -> Entity:
    """Return the host, cluster, service or role of the path, or the manager."""
    parts = request.parts
    if "host" in parts:
        number = host_of(world, parts["host"])["hostId"]
        return Entity(f"host {number}", {"hostRef": {"hostId": number}})
    if "service" in parts or "/cm/service" in request.path:
        cluster, service = service_of(world, request)
        if "role" in parts:
            role = role_of(service, parts["role"])
            return Entity(f"role {role['name']}", commands.role_ref(cluster, service, role))
        return Entity(key(cluster, service), commands.service_ref(cluster, service))
    if "cluster" in parts:
        cluster = cluster_of(world, request)
        return Entity(f"cluster {cluster['name']}", commands.cluster_ref(cluster))
    return Entity("", {})


def key(cluster: Doc | None, service: Doc) -> str:
    """Return under which name a service is kept in maintenance mode."""
    return f"service {cluster['name'] if cluster else ''}/{service['name']}"


def part(field: str) -> Callable[[World, Request], list[Doc]]:
    """Return what finds a list of the deployment."""
    return lambda world, _: list(world.deployment.get(field) or [])


def all_of(entries: Callable[[World, Request], list[Doc]]) -> Handler:
    """Return what answers with every entry."""
    return lambda world, request: listing(entries(world, request))


def one(entries: Callable[[World, Request], list[Doc]], what: str, key: str = "name") -> Handler:
    """Return what answers with the entry that the last word of the path names, by its `key`."""
    return lambda world, request: Response(
        value=one_of(entries(world, request), key, list(request.parts.values())[-1], what)
    )


def config_items(
    world: World, listed: list[Doc], request: Request, defaults: Mapping[str, str] | None = None
) -> list[Doc]:
    """Return config items as the API shows them; the full view has those of `defaults` that are not set, too."""
    shown = hide_items(listed) if world.redaction else list(listed)
    if not request.full:
        return shown
    known = {str(item.get("name")) for item in listed}
    shown += [{"name": name} for name in defaults or {} if name not in known]
    return sorted((_described(item, (defaults or {}).get(str(item.get("name")))) for item in shown), key=_name)


def _described(item: Doc, default: str | None) -> Doc:
    name = str(item.get("name"))
    words = name.replace("_", " ").capitalize()
    added: Doc = {"required": False, "default": default, "displayName": words, "description": f"{words}."}
    return {**item, **added, "relatedName": "", "validationState": "OK", "validationWarningsSuppressed": False}


def _name(item: Doc) -> str:
    return json.dumps(item.get("name"))
