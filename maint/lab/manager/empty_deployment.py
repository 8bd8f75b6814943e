"""The deployment of a server just installed, in the shape of a release (contract section 7.2, recordings)."""

import random

from maint.lab.manager.accounts import factory_account
from maint.lab.manager.document import Doc
from maint.lab.manager.releases import DEFAULT_RELEASE, announced, major

_SETTINGS = (
    ("CLUSTER_STATS_START", "10/25/2012 2:10"),
    ("PUBLIC_CLOUD_STATUS", "NOT_ON_PUBLIC_CLOUD"),
    ("REMOTE_PARCEL_REPO_URLS", "https://archive.cloudera.com/cdh{major}/parcels/{{latest_supported}}/"),
)
_VERSION_INFO: Doc = {
    "version": DEFAULT_RELEASE,
    "buildUser": "jenkins",
    "buildTimestamp": "20220801-1523",
    "gitHash": "4161fd6e24d7a897b47a4f9635a50e4ff926e205",
    "snapshot": False,
}
# Built-in roles of accounts: name, what the UI calls it, a uuid made up for the lab.
_BUILT_IN = (
    ("ROLE_ADMIN", "Full Administrator", "0d1c5a52-8f0b-4c33-a0b1-6f0f6a3a9d01"),
    ("ROLE_USER", "Read-Only", "0d1c5a52-8f0b-4c33-a0b1-6f0f6a3a9d02"),
    ("ROLE_CLUSTER_ADMIN", "Cluster Administrator", "0d1c5a52-8f0b-4c33-a0b1-6f0f6a3a9d03"),
    ("ROLE_OPERATOR", "Operator", "0d1c5a52-8f0b-4c33-a0b1-6f0f6a3a9d04"),
    ("ROLE_CONFIGURATOR", "Configurator", "0d1c5a52-8f0b-4c33-a0b1-6f0f6a3a9d05"),
    ("ROLE_LIMITED", "Limited Operator", "0d1c5a52-8f0b-4c33-a0b1-6f0f6a3a9d06"),
    ("ROLE_USER_ADMIN", "User Administrator", "0d1c5a52-8f0b-4c33-a0b1-6f0f6a3a9d07"),
    ("ROLE_DASHBOARD_USER", "Dashboard User", "0d1c5a52-8f0b-4c33-a0b1-6f0f6a3a9d08"),
)


def empty_deployment(like: Doc | None, shape: int, chance: random.Random) -> Doc:
    """Return the deployment of a server just installed.

    Args:
        like: a deployment whose release it takes, None for the default one.
        shape: the API version whose shape it has.
        chance: where the salt of admin/admin comes from.
    """
    version = dict((like or {}).get("versionInfo") or _VERSION_INFO)
    account = factory_account(shape, chance)
    fresh: Doc = {"clusters": [], "hosts": []}
    if shape >= 32:
        account["authRoles"][0]["uuid"] = _BUILT_IN[0][2]
        fresh |= {"authRoles": [_role(*row) for row in _BUILT_IN], "externalUserMappings": []}
    fresh |= {"users": [account], "versionInfo": version, "managerSettings": _settings(version, shape)}
    if shape >= 3:
        fresh |= {"allHostsConfig": {"items": []}, "peers": [], "hostTemplates": {"items": []}}
    if shape >= 32:
        fresh["dataContexts"] = {"items": []}
    return {"timestamp": "", **fresh}


def default_deployment(release: str, chance: random.Random) -> Doc:
    """Return the deployment of a server just installed, of a release."""
    like: Doc = {"versionInfo": {**_VERSION_INFO, "version": release}}
    return empty_deployment(like, announced(release), chance)


def _settings(version: Doc, shape: int) -> Doc:
    listed = []
    for name, value in _SETTINGS:
        item: Doc = {"name": name, "value": value.format(major=major(str(version.get("version", ""))))}
        listed.append(item | ({"sensitive": False} if shape >= 14 else {}))
    return {"items": listed}


def _role(name: str, shown: str, number: str) -> Doc:
    members = [{"name": "admin"}] if name == "ROLE_ADMIN" else []
    return {
        "displayName": shown, "name": name, "clusters": [], "users": members, "externalUserMappings": [],
        "uuid": number, "isCustom": False,
    }  # fmt: skip
