"""The manager itself: build, settings, servers, database (contract section 10.5)."""

from maint.lab.manager import commands
from maint.lab.manager.api.configs import items_shown
from maint.lab.manager.api.messages import ApiError, Request, Response, listing
from maint.lab.manager.document import Doc, hosts, items, parse
from maint.lab.manager.world import World


def version(world: World, request: Request) -> Response:
    """Answer what was built."""
    del request
    return Response(value=world.deployment.get("versionInfo"))


def read_config(world: World, request: Request) -> Response:
    """Answer the manager's own settings."""
    del request
    return listing(items_shown(world, items(world.deployment.get("managerSettings"))))


def write_config(world: World, request: Request) -> Response:
    """Change settings: null resets one, what is not listed stays (contract section 10.5)."""
    try:
        changed = items(parse(request.content()))
    except ValueError as error:
        raise ApiError(400, f"Cannot read the settings: {error}") from error
    settings = {str(item["name"]): item for item in items(world.deployment.get("managerSettings"))}
    for item in changed:
        settings.pop(str(item["name"]), None)
        if item.get("value") is not None:
            settings[str(item["name"])] = _item(world, item, str(item["name"]))
    world.deployment["managerSettings"] = {"items": [settings[name] for name in sorted(settings)]}
    world.changed()
    return read_config(world, request)


def hosts_config(world: World, request: Request) -> Response:
    """Answer the settings of all hosts."""
    del request
    return listing(items_shown(world, items(world.deployment.get("allHostsConfig"))))


def database(world: World, request: Request) -> Response:
    """Answer the kind of database."""
    del world, request
    return Response(value={"scmDbType": "POSTGRESQL", "embeddedDbUsed": False})


def shutdown_readiness(world: World, request: Request) -> Response:
    """Answer whether the server could be stopped now."""
    del request
    busy = any(command.active for command in world.commands.values())
    return Response(value={"state": "NOT_READY" if busy else "READY"})


def instances(world: World, request: Request) -> Response:
    """List the servers of this manager: the first hosts of its deployment (contract section 10.5)."""
    del request
    known = [(str(host.get("hostname")), str(host.get("ipAddress"))) for host in hosts(world.deployment)]
    servers = (known or [("cm", "127.0.0.1")])[: int(world.switches.number("server-instances"))]
    stamp = world.now().strftime("%Y-%m-%dT%H:%M:%S.") + "000Z"
    times = {"createdTime": stamp, "lastUpdatedTime": stamp}
    return listing([
        {"cmServerId": f"server-{number}", "name": name, "ipAddress": address, **times}
        for number, (name, address) in enumerate(servers, 1)
    ])  # fmt: skip


def active_commands(world: World, request: Request) -> Response:
    """List the active commands of the manager itself."""
    del request
    return listing([commands.view(world, each, full=False) for each in commands.listed(world, {})])


def peers(world: World, request: Request) -> Response:
    """List peers; their passwords are never shown here."""
    del request
    listed = [{name: value for name, value in peer.items() if name != "password"}
              for peer in world.deployment.get("peers") or []]  # fmt: skip
    return listing(listed)


def _item(world: World, item: Doc, name: str) -> Doc:
    flagged = {"sensitive": "PASSWORD" in name or name.endswith("_PW")} if world.shape >= 14 else {}
    return {"name": name, "value": str(item["value"]), **flagged}
