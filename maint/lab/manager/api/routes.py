"""Which call is answered by whom, since which API version, for which roles (contract sections 1, 2.2)."""

import re
from dataclasses import dataclass
from urllib.parse import unquote

from maint.lab.manager.api import clusters, commands, hosts, manager, security, services
from maint.lab.manager.api.messages import Handler

READ, OPERATE, ADMINISTER, FULL, PRIVILEGED = "read", "operate", "administer", "full", "privileged"


@dataclass(frozen=True, slots=True)
class Route:
    """One call.

    Attributes:
        needs: what the account must be allowed to do.
        since: the API version that brought it.
    """

    handler: Handler
    needs: str = READ
    since: int = 1


_SERVICE = "clusters/{cluster}/services/{service}"

ROUTES: dict[str, Route] = {
    "GET tools/echo": Route(manager.echo),
    "GET tools/echoError": Route(manager.echo_error),
    "GET cm/version": Route(manager.version),
    "GET cm/config": Route(manager.read_config),
    "PUT cm/config": Route(manager.write_config, FULL),
    "GET cm/allHosts/config": Route(manager.hosts_config),
    "GET cm/scmDbInfo": Route(manager.database, since=14),
    "GET cm/shutdownReadiness": Route(manager.shutdown_readiness, since=30),
    "GET cm/instances": Route(manager.instances, since=41),
    "GET cm/commands": Route(manager.active_commands),
    "GET cm/peers": Route(manager.peers, since=3),
    "GET cm/deployment": Route(manager.read_deployment, ADMINISTER, 2),
    "PUT cm/deployment": Route(manager.replace_deployment, ADMINISTER, 2),
    "GET cm/license": Route(security.read_installed_license, PRIVILEGED),
    "POST cm/license": Route(security.upload_license, PRIVILEGED),
    "GET cm/licensedFeatureUsage": Route(security.license_usage, since=6),
    "POST cm/trial/begin": Route(security.begin_trial, FULL, 6),
    "POST cm/trial/end": Route(security.end_trial, FULL, 6),
    "GET cm/service": Route(services.read),
    "GET cm/service/config": Route(services.read_config),
    "GET cm/service/roles": Route(services.read_roles),
    "GET cm/service/roles/{role}": Route(services.read_role),
    "GET cm/service/roles/{role}/config": Route(services.read_role_config),
    "GET cm/service/roleConfigGroups": Route(services.read_groups, since=3),
    "GET cm/service/commands": Route(services.active_commands),
    "POST cm/service/commands/{verb}": Route(services.command, OPERATE),
    "POST cm/service/roleCommands/{verb}": Route(services.role_command, OPERATE),
    "GET certs/truststorePassword": Route(security.truststore_password, PRIVILEGED, 41),
    "GET certs/truststore": Route(security.truststore, PRIVILEGED, 41),
    "GET clusters": Route(clusters.read_all),
    "GET clusters/{cluster}": Route(clusters.read),
    "DELETE clusters/{cluster}": Route(clusters.delete, ADMINISTER),
    "GET clusters/{cluster}/commands": Route(clusters.active_commands),
    "POST clusters/{cluster}/commands/{verb}": Route(clusters.command, OPERATE),
    "GET clusters/{cluster}/hosts": Route(hosts.read_of_cluster, since=3),
    "GET clusters/{cluster}/parcels": Route(clusters.read_parcels, since=3),
    "GET clusters/{cluster}/services": Route(services.read_all),
    f"GET {_SERVICE}": Route(services.read),
    f"GET {_SERVICE}/config": Route(services.read_config),
    f"GET {_SERVICE}/commands": Route(services.active_commands),
    f"GET {_SERVICE}/roles": Route(services.read_roles),
    f"GET {_SERVICE}/roles/{{role}}": Route(services.read_role),
    f"GET {_SERVICE}/roles/{{role}}/config": Route(services.read_role_config),
    f"GET {_SERVICE}/roleConfigGroups": Route(services.read_groups, since=3),
    f"POST {_SERVICE}/commands/{{verb}}": Route(services.command, OPERATE),
    f"POST {_SERVICE}/roleCommands/{{verb}}": Route(services.role_command, OPERATE),
    "GET commands/{id}": Route(commands.read),
    "POST commands/{id}/abort": Route(commands.abort, OPERATE),
    "POST commands/{id}/retry": Route(commands.retry, OPERATE),
    "GET hosts": Route(hosts.read_all),
    "GET hosts/{host}": Route(hosts.read),
    "DELETE hosts/{host}": Route(hosts.delete, ADMINISTER),
    "GET users": Route(security.read_users),
    "GET users/sessions": Route(security.sessions, FULL, 30),
    "GET users/{user}": Route(security.read_user),
    "POST users/expireSessions/{user}": Route(security.expire_sessions, FULL, 30),
    "GET dataContexts": Route(clusters.read_contexts, since=32),
    "GET dataContexts/{context}": Route(clusters.read_context, since=32),
    "DELETE dataContexts/{context}": Route(clusters.delete_context, ADMINISTER, 32),
    "GET controlPlanes": Route(clusters.control_planes, since=45),
}


def find(method: str, path: str) -> tuple[Route, dict[str, str]] | None:
    """Return the route of a path below `/api/vN/`, and the values of its placeholders."""
    for pattern, route in _COMPILED.items():
        found = pattern.fullmatch(f"{method} {path}")
        if found:
            return route, {name: unquote(value) for name, value in found.groupdict().items()}
    return None


def methods(path: str) -> list[str]:
    """Return the methods that a path answers to."""
    return [method for method in ("GET", "POST", "PUT", "DELETE") if find(method, path)]


def _pattern(spelled: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(spelled)))


_COMPILED = {_pattern(spelled): route for spelled, route in ROUTES.items()}
