"""The Kerberos credentials that a manager has beside its deployment, and loses with its database (M21)."""

import re
from collections.abc import Iterable, Mapping

from maint.lab.manager.document import Doc, clusters, items, roles, services
from maint.lab.manager.world import Command, World

IMPORT, GENERATE, DELETE = "ImportKdcAccountManagerCredentials", "GenerateCredentials", "DeleteCredentials"
_REALM = "HADOOP.COM"  # where the settings name none
_SECURE = re.compile(r"kerberos|true")
_SWITCHES = ("hadoop_security_authentication", "enableSecurity", "kerberos_auth_enabled")  # of services


def secured(cluster: Doc) -> list[Doc]:
    """Return the services of a cluster that use Kerberos: those that say so, and what stands on such an HDFS."""
    said = [one for one in services(cluster) if _says_so(one)]
    return services(cluster) if any(one.get("type") == "HDFS" for one in said) else said


def principals(world: World, *, missing: bool = False) -> list[str]:
    """Return the principals that services need; only those without credentials where `missing`."""
    names = {name: None for name, _ in _needed(world)}
    had = names if world.credentials is None else world.credentials
    return [name for name in names if not missing or name not in had]


def lacking(world: World, moved: Iterable[Doc]) -> str:
    """Return the principal that one of some roles needs to start and has no credentials of, "" where none does."""
    if world.credentials is None:
        return ""
    wanted = {str(role["name"]) for role in moved}
    return next((name for name, role in _needed(world) if role in wanted and name not in world.credentials), "")


def account(named: Mapping[str, str]) -> tuple[str, str]:
    """Return name and password of the account that the KDC takes, from the manager's settings."""
    realm, user = named.get("SECURITY_REALM", _REALM), named.get("KDC_ADMIN_USER", "")
    return user if user.endswith(f"@{realm}") else f"scm/admin@{realm}", named.get("KDC_ADMIN_PASSWORD") or "kdc-admin"


def info(world: World, cluster: Doc | None = None) -> Doc:
    """Return what is known of Kerberos, for a cluster or the manager."""
    asked = [cluster] if cluster else clusters(world.deployment)
    named = world.settings
    found: Doc = {"kerberized": any(secured(one) for one in asked), "kdcType": named.get("KDC_TYPE", "MIT KDC")}
    return found | {"kerberosRealm": named.get("SECURITY_REALM", _REALM), "kdcHost": named.get("KDC_HOST")}


def problem_with(world: World, username: str, password: str) -> str:
    """Return why the KDC does not take an account, "" where it does; its password is the one in the settings."""
    realm = world.settings.get("SECURITY_REALM", _REALM)
    if not username.endswith(f"@{realm}"):
        return f"The full name including the realm {realm} must be specified."
    expected = world.settings.get("KDC_ADMIN_PASSWORD", password)
    return "" if password and password == expected else "kinit: Preauthentication failed"


def finished(world: World, command: Command) -> None:
    """Take over what a command that succeeded has done."""
    if command.name == IMPORT:
        world.kdc_account = True
    elif command.name == GENERATE:
        world.credentials = sorted({*(world.credentials or ()), *principals(world)})
    elif command.name == DELETE:
        world.credentials = []


def _needed(world: World) -> Iterable[tuple[str, str]]:
    # Each principal with a role that starts with it.
    realm = world.settings.get("SECURITY_REALM", _REALM)
    addresses = {str(host.get("hostId")): str(host.get("hostname")) for host in world.deployment.get("hosts") or []}
    for cluster in clusters(world.deployment):
        for service in secured(cluster):
            for role in roles(service):
                if role.get("type") != "GATEWAY":
                    host = addresses.get(str((role.get("hostRef") or {}).get("hostId")), "unknown")
                    yield f"{service['name']}/{host}@{realm}", str(role["name"])


def _says_so(service: Doc) -> bool:
    named = {str(item.get("name")): str(item.get("value")) for item in items(service.get("config"))}
    return any(_SECURE.fullmatch(named.get(name, "")) for name in _SWITCHES)
