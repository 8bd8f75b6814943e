"""Make the first world of a lab: from a deployment file, or empty; with an account whose password is known."""

import random
import secrets
from collections.abc import Sequence
from pathlib import Path

import msgspec

from maint.lab.manager import accounts
from maint.lab.manager.accounts import factory_account
from maint.lab.manager.document import DEFAULT_RELEASE, Doc, announced, major, read, users
from maint.lab.manager.world import World
from maint.lab.switches import Switches

EXAMPLE = Path(__file__).parents[1] / "data" / "deployment-example.json"


class Options(msgspec.Struct, frozen=True):
    """What a lab is made from."""

    deployment: Path | None = None  # None for the example, or for nothing with `fresh`
    fresh: bool = False  # a server just installed; a deployment then only gives hosts, release and files
    release: str = DEFAULT_RELEASE  # of a fresh server without a deployment
    password: str | None = None  # one to try for the administrators, besides the factory one
    admin: str | None = None  # who is given `new_password`; None: the first administrator
    new_password: str | None = None
    switches: dict[str, str] = msgspec.field(default_factory=dict)
    plain_port: int = 0  # 0 chooses a free one, as below
    tls_port: int = 0
    ssh_ports: dict[str, int] = msgspec.field(default_factory=dict)  # by host name; others are chosen free
    ssh: bool = True  # whether hosts are served over SSH
    # Names of empty ones, besides the default one of a deployment with data services
    virtual_clusters: Sequence[str] = ()


class Loaded(msgspec.Struct, frozen=True):
    """A world that is ready to serve."""

    world: World
    blueprint: Doc  # whose hosts and files the lab has, even when the manager is empty
    username: str  # an administrator that is let in
    password: str
    remarks: tuple[str, ...]  # what was changed in the lab's copy, for people


def load(options: Options, chance: random.Random | None = None) -> Loaded:
    """Return the world that the options ask for; OSError or ValueError where the deployment file cannot be read."""
    chance = chance or random.SystemRandom()
    switches = Switches(options.switches)
    if options.fresh and options.deployment is None:
        deployment = default_deployment(options.release, chance)
        world = World(deployment, switches, chance=chance)
        return Loaded(world, deployment, "admin", accounts.FACTORY_PASSWORD, ())
    deployment = _checked(read(options.deployment or EXAMPLE))
    username, password, remarks = _known_account(deployment, options, switches, chance)
    world = World(deployment, switches, chance=chance)
    if options.fresh:
        empty = World(empty_deployment(deployment, world.shape, chance), switches, chance=chance)
        return Loaded(empty, deployment, "admin", accounts.FACTORY_PASSWORD, ())
    return Loaded(world, deployment, username, password, remarks)


def _known_account(
    deployment: Doc, options: Options, switches: Switches, chance: random.Random
) -> tuple[str, str, tuple[str, ...]]:
    candidates = accounts.administrators(deployment)
    if options.admin:
        candidates = [user for user in candidates if user["name"] == options.admin]
        if not candidates:
            raise ValueError(f"{options.admin!r} is not an administrator of the deployment who logs in with a password")
    if options.new_password is None:
        for password in (options.password, accounts.FACTORY_PASSWORD):
            for user in candidates if password else []:
                if accounts.check_password([user], user["name"], str(password)):
                    return _rehashed(user, str(password), switches, chance)
    remarks = []
    if not candidates:
        candidates = [_added_admin(deployment)]
        remarks.append("No administrator of the deployment logs in with a password: account 'lab-admin' was added.")
    chosen = candidates[0]
    password = options.new_password or secrets.token_urlsafe(18)
    accounts.set_password(chosen, password, chance, switches["pwhash-algorithm"])
    if options.new_password is None:
        remarks.append(f"No administrator's password is known: the lab gave '{chosen['name']}' one in its own copy.")
    else:
        remarks.append(f"The lab gave '{chosen['name']}' the chosen password, in its own copy.")
    return str(chosen["name"]), password, tuple(remarks)


def _rehashed(user: Doc, password: str, switches: Switches, chance: random.Random) -> tuple[str, str, tuple[str, ...]]:
    # Hashed anew only where another algorithm is asked for (U14).
    if switches["pwhash-algorithm"] != "cm5":
        accounts.set_password(user, password, chance, switches["pwhash-algorithm"])
    return str(user["name"]), password, ()


def _added_admin(deployment: Doc) -> Doc:
    user: Doc = {"name": "lab-admin"}
    if any("authRoles" in other for other in users(deployment)) or "authRoles" in deployment:
        user["authRoles"] = [{"displayName": "Full Administrator", "name": accounts.ADMIN}]
    else:
        user["roles"] = [accounts.ADMIN]
    deployment["users"] = sorted([*users(deployment), user], key=lambda each: str(each["name"]).encode())
    return user


def _checked(deployment: Doc) -> Doc:
    if not isinstance(deployment.get("users", []), list) or not isinstance(deployment.get("versionInfo", {}), dict):
        raise ValueError("this is not a deployment document")
    return deployment


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
    """Return the deployment of a server just installed, in the shape of an API version, with the release of `like`."""
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
