"""Make the first world of a lab: from a deployment file, or empty; with an account whose password is known."""

import random
import secrets
from collections.abc import Sequence
from pathlib import Path

import msgspec

from maint.lab.manager import accounts
from maint.lab.manager.document import DEFAULT_RELEASE, Doc, announced, as_of, major, read, release, users
from maint.lab.manager.world import World
from maint.lab.switches import Switches

_DATA = Path(__file__).parents[1] / "data"
EXAMPLE, _FRESH = _DATA / "deployment-example.json", _DATA / "deployment-fresh.json"


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


def empty_deployment(like: Doc, shape: int, chance: random.Random) -> Doc:
    """Return the deployment of a server just installed, in the shape of an API version, with the release of `like`."""
    fresh = as_of(read(_FRESH), shape if shape >= 32 else min(shape, 29))  # before v32 accounts name their roles
    fresh["versionInfo"] = dict(like.get("versionInfo") or fresh["versionInfo"])
    accounts.set_password(fresh["users"][0], accounts.FACTORY_PASSWORD, chance, "cm5")
    for item in fresh["managerSettings"]["items"]:
        item["value"] = item["value"].replace("{major}", str(major(release(fresh))))
    return fresh


def default_deployment(named: str, chance: random.Random) -> Doc:
    """Return the deployment of a server just installed, of a release."""
    like = {"versionInfo": {**read(_FRESH)["versionInfo"], "version": named}}
    return empty_deployment(like, announced(named), chance)
