"""Which handler answers a call, since which API version, for which roles (M1, M2.2)."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import msgspec

from maint.lab.http.messages import Routes
from maint.lab.manager.api import changes, clusters, commands, hosts, manager, services, settings
from maint.lab.manager.api.messages import Handler, Request, all_of, cluster_of, host_of, one, part, role_of, service_of
from maint.lab.manager.document import Doc
from maint.lab.manager.world import World

READ, OPERATE, CONFIGURE = "read", "operate", "configure"
ADMINISTER, FULL, PRIVILEGED = "administer", "full", "privileged"


class Route(msgspec.Struct, frozen=True):
    """One call."""

    handler: Handler
    needs: str = READ  # what the account must be allowed to do
    since: int = 1  # the API version that brought it
    takes_json: bool = False  # and no other body


_REAL_CALLS = Path(__file__).parents[2] / "data" / "management-api.txt"
_AUTH_ROLES, _MAPPINGS = part("authRoles"), part("externalUserMappings")
_MAINTENANCE = "{verb:enterMaintenanceMode|exitMaintenanceMode}"
_PARCEL = "clusters/{cluster}/parcels/products/{product}/versions/{version}"

_TAGGED: dict[str, Callable[[World, Request], Doc]] = {
    "clusters/{cluster}": cluster_of,
    "clusters/{cluster}/services/{service}": services.service,
    "clusters/{cluster}/services/{service}/roles/{role}": lambda world, request: role_of(
        service_of(world, request)[1], request.parts["role"]
    ),
    "hosts/{host}": lambda world, request: host_of(world, request.parts["host"]),
}

# The calls of a service: one of a cluster, or the management service.
_OF_A_SERVICE = {
    "GET ": Route(services.read),
    "GET /config": Route(settings.read),
    "PUT /config": Route(settings.write, CONFIGURE, takes_json=True),
    "GET /commands": Route(commands.active),
    "DELETE ": Route(changes.delete_service, ADMINISTER),
    "GET /roleTypes": Route(changes.role_types),
    "POST /roles": Route(changes.make_roles, ADMINISTER, takes_json=True),
    "DELETE /roles/{role}": Route(changes.delete_role, ADMINISTER),
    "PUT /roleConfigGroups/{group}": Route(settings.write_group, CONFIGURE, 3, takes_json=True),
    "GET /roles": Route(all_of(services.roles_shown)),
    "GET /roles/{role}": Route(one(services.roles_shown, "Role")),
    "GET /roles/{role}/config": Route(settings.read),
    "PUT /roles/{role}/config": Route(settings.write, CONFIGURE, takes_json=True),
    "GET /roles/{role}/commands": Route(commands.active),
    f"POST /roles/{{role}}/commands/{_MAINTENANCE}": Route(commands.maintain, OPERATE, 2),
    "GET /roleConfigGroups": Route(all_of(services.groups_shown), since=3),
    "GET /roleConfigGroups/{group}": Route(one(services.groups_shown, "Role config group"), since=3),
    "GET /roleConfigGroups/{group}/config": Route(settings.read, since=3),
    "PUT /roleConfigGroups/{group}/config": Route(settings.write, CONFIGURE, 3, takes_json=True),
    "GET /roleConfigGroups/{group}/roles": Route(all_of(services.roles_shown), since=3),
    "POST /commands/{name:start|stop|restart}": Route(commands.begin, OPERATE),
    f"POST /commands/{_MAINTENANCE}": Route(commands.maintain, OPERATE, 2),
    "POST /roleCommands/{name:start|stop|restart}": Route(commands.begin_on_roles, OPERATE, takes_json=True),
}
ROUTES: dict[str, Route] = {
    # Before the group of a name, which it would else be.
    "PUT clusters/{cluster}/services/{service}/roleConfigGroups/roles": Route(
        changes.move_roles, ADMINISTER, 3, takes_json=True
    ),
    **{
        call.replace(" ", f" {service}", 1): route
        for service in ("cm/service", "clusters/{cluster}/services/{service}")
        for call, route in _OF_A_SERVICE.items()
    },
    **{
        f"{method} {owner}/tags": Route(changes.tags(holder), READ if method == "GET" else ADMINISTER, 41)
        for owner, holder in _TAGGED.items()
        for method in ("GET", "PUT", "DELETE")
    },
    "GET tools/echo": Route(manager.echo),
    "GET tools/echoError": Route(manager.echo_error),
    "GET cm/version": Route(manager.version),
    "GET clusters/{cluster}/services/{service}/commandsByName": Route(commands.names, since=6),
    "POST clusters/{cluster}/services/{service}/commands/{name}": Route(commands.begin, OPERATE, 6),
    "GET clusters/{cluster}/services/{service}/roles/{role}/commandsByName": Route(commands.names, since=6),
    "POST clusters/{cluster}/services/{service}/roleCommands/{name}": Route(
        commands.begin_on_roles, OPERATE, 6, takes_json=True
    ),
    f"POST cm/service/commands/{_MAINTENANCE}": Route(commands.maintain, OPERATE, 18),
    f"POST cm/service/roles/{{role}}/commands/{_MAINTENANCE}": Route(commands.maintain, OPERATE, 18),
    "PUT cm/service": Route(changes.make_management_service, FULL, takes_json=True),
    "PUT clusters/{cluster}/services/{service}": Route(changes.rename_service, ADMINISTER, 3, takes_json=True),
    "POST clusters/{cluster}/services/{service}/roleConfigGroups": Route(
        changes.make_groups, ADMINISTER, 3, takes_json=True
    ),
    "PUT clusters/{cluster}/services/{service}/roleConfigGroups/{group}/roles": Route(
        changes.move_roles, ADMINISTER, 3, takes_json=True
    ),
    "DELETE clusters/{cluster}/services/{service}/roleConfigGroups/{group}": Route(changes.delete_group, ADMINISTER, 3),
    "GET cm/config": Route(settings.read),
    "PUT cm/config": Route(settings.write, FULL, takes_json=True),
    "GET cm/allHosts/config": Route(settings.read),
    "PUT cm/allHosts/config": Route(settings.write, CONFIGURE, takes_json=True),
    "GET cm/scmDbInfo": Route(manager.database, since=14),
    "GET cm/shutdownReadiness": Route(manager.shutdown_readiness, since=30),
    "GET cm/instances": Route(manager.instances, since=41),
    "GET cm/commands": Route(commands.active),
    "POST cm/commands/generateCmca": Route(commands.generate_cmca, FULL, 32, takes_json=True),
    "POST cm/commands/{name:inspectHosts|refreshParcelRepos}": Route(commands.begin, OPERATE),
    "POST cm/commands/importAdminCredentials": Route(commands.import_kdc_account, FULL, 7),
    "POST cm/commands/generateCredentials": Route(commands.generate_credentials, FULL),
    "POST cm/commands/deleteCredentials": Route(commands.delete_credentials, FULL),
    "GET cm/kerberosInfo": Route(commands.kerberos_info, since=7),
    "GET cm/kerberosPrincipals": Route(commands.kerberos_principals, since=9),
    "GET cm/peers": Route(manager.peers, since=3),
    "GET cm/deployment": Route(manager.read_deployment, ADMINISTER, 2),
    "PUT cm/deployment": Route(manager.replace_deployment, ADMINISTER, 2, takes_json=True),
    "GET cm/license": Route(manager.read_installed_license, PRIVILEGED),
    "POST cm/license": Route(manager.upload_license, PRIVILEGED),
    "GET cm/licensedFeatureUsage": Route(manager.license_usage, since=6),
    "POST cm/trial/{verb:begin|end}": Route(manager.trial, FULL, 6),
    "GET certs/truststorePassword": Route(manager.truststore_password, PRIVILEGED, 41),
    "GET certs/truststore": Route(manager.truststore, PRIVILEGED, 41),
    "GET clusters": Route(clusters.read_all),
    "POST clusters": Route(changes.make_clusters, ADMINISTER, takes_json=True),
    "GET clusters/{cluster}": Route(clusters.read),
    "DELETE clusters/{cluster}": Route(clusters.delete, ADMINISTER),
    "GET clusters/{cluster}/commands": Route(commands.active),
    "POST clusters/{cluster}/commands/{name:start|stop|restart}": Route(commands.begin, OPERATE),
    "POST clusters/{cluster}/commands/{name:deployClientConfig}": Route(commands.begin, OPERATE, 2),
    "POST clusters/{cluster}/commands/{name:refresh}": Route(commands.begin, OPERATE, 6),
    f"POST clusters/{{cluster}}/commands/{_MAINTENANCE}": Route(commands.maintain, OPERATE, 2),
    "GET clusters/{cluster}/kerberosInfo": Route(commands.kerberos_info, since=12),
    "GET clusters/{cluster}/hosts": Route(hosts.read_of_cluster, since=3),
    "POST clusters/{cluster}/hosts": Route(hosts.add_to_cluster, ADMINISTER, 3, takes_json=True),
    "DELETE clusters/{cluster}/hosts/{host}": Route(hosts.remove_from_cluster, ADMINISTER, 10),
    "GET clusters/{cluster}/hostTemplates": Route(all_of(clusters.templates), since=3),
    "GET clusters/{cluster}/hostTemplates/{template}": Route(one(clusters.templates, "Host template"), since=3),
    "POST clusters/{cluster}/hostTemplates": Route(changes.make_templates, ADMINISTER, 3, takes_json=True),
    "PUT clusters/{cluster}/hostTemplates/{template}": Route(changes.change_template, ADMINISTER, 3, takes_json=True),
    "DELETE clusters/{cluster}/hostTemplates/{template}": Route(changes.delete_template, ADMINISTER, 3),
    "POST clusters/{cluster}/hostTemplates/{template}/commands/applyHostTemplate": Route(
        changes.apply_template, ADMINISTER, 3, takes_json=True
    ),
    "GET clusters/{cluster}/parcels": Route(clusters.read_parcels, since=3),
    f"GET {_PARCEL}": Route(clusters.read_parcel, since=3),
    f"POST {_PARCEL}/commands/{{verb:{'|'.join(clusters.MOVES)}}}": Route(clusters.command_parcel, ADMINISTER, 3),
    "GET clusters/{cluster}/serviceTypes": Route(changes.service_types),
    "GET clusters/{cluster}/services": Route(services.read_all),
    "POST clusters/{cluster}/services": Route(changes.make_services, ADMINISTER, takes_json=True),
    "GET commands/{id}": Route(commands.read),
    "GET commands/{id}/logs/{stream:stdout|stderr}": Route(commands.log),
    "POST commands/{id}/abort": Route(commands.abort, OPERATE),
    "POST commands/{id}/retry": Route(commands.retry, OPERATE),
    "GET hosts": Route(hosts.read_all),
    "GET hosts/{host}": Route(hosts.read),
    "PUT hosts/{host}": Route(hosts.change, ADMINISTER, takes_json=True),
    "GET hosts/{host}/config": Route(settings.read),
    "PUT hosts/{host}/config": Route(settings.write, CONFIGURE, takes_json=True),
    f"POST hosts/{{host}}/commands/{_MAINTENANCE}": Route(commands.maintain, OPERATE, 2),
    "POST hosts/removeHostsFromCluster": Route(hosts.remove_all_from_cluster, ADMINISTER, 40, takes_json=True),
    "DELETE hosts/{host}": Route(hosts.delete, ADMINISTER),
    "GET authRoles": Route(all_of(_AUTH_ROLES), since=18),
    "GET authRoles/metadata": Route(all_of(manager.roles_metadata), since=18),
    "GET authRoles/{uuid}": Route(one(_AUTH_ROLES, "Role", "uuid"), since=18),
    "GET externalUserMappings": Route(all_of(_MAPPINGS), since=19),
    "GET externalUserMappings/{uuid}": Route(one(_MAPPINGS, "External user mapping", "uuid"), since=19),
    "POST externalUserMappings": Route(manager.make_mappings, FULL, 19, takes_json=True),
    "PUT externalUserMappings/{uuid}": Route(manager.change_mapping, FULL, 19, takes_json=True),
    "DELETE externalUserMappings/{uuid}": Route(manager.delete_mapping, FULL, 19),
    "GET externalAccounts/account/{name}": Route(one(manager.no_accounts, "External account"), since=16),
    "GET externalAccounts/type/{type}": Route(all_of(manager.no_accounts), since=16),
    "POST users": Route(manager.make_users, FULL, takes_json=True),
    "PUT users/{user}": Route(manager.change_user, FULL, takes_json=True),
    "DELETE users/{user}": Route(manager.delete_user, FULL),
    "GET users": Route(manager.read_users),
    "GET users/sessions": Route(manager.sessions, FULL, 30),
    "GET users/{user}": Route(manager.read_user),
    "POST users/expireSessions/{user}": Route(manager.expire_sessions, FULL, 30),
    "GET dataContexts": Route(all_of(clusters.contexts), since=32),
    "POST dataContexts": Route(changes.make_context, ADMINISTER, 32, takes_json=True),
    "GET dataContexts/{context}": Route(clusters.read_context, since=32),
    "DELETE dataContexts/{context}": Route(clusters.delete_context, ADMINISTER, 32),
    "GET controlPlanes": Route(clusters.control_planes, since=45),
}
CALLS = Routes(ROUTES)  # below `/api/vN/`


def is_real(method: str, path: str) -> bool:
    """Return whether a real server has a call, though the lab may not."""
    return any(pattern.fullmatch(path) and method in allowed for pattern, allowed in _real_calls())


@cache
def _real_calls() -> list[tuple[re.Pattern[str], list[str]]]:
    lines = [line.split() for line in _REAL_CALLS.read_text().splitlines() if not line.startswith("#")]
    return [(re.compile(re.escape(path).replace(r"\*", "[^/]+")), allowed) for path, *allowed in lines]
