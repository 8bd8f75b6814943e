"""Accounts and sessions (contract section 10.5)."""

from maint.lab.manager.accounts import internal
from maint.lab.manager.api.messages import ApiError, Request, Response, listing
from maint.lab.manager.document import Doc, users
from maint.lab.manager.world import World


def read_all(world: World, request: Request) -> Response:
    """List accounts; no hashes here, and no internal ones (recordings)."""
    del request
    return listing([_shown(user) for user in users(world.deployment) if not internal(user)])


def read(world: World, request: Request) -> Response:
    """Answer one account."""
    for user in users(world.deployment):
        if user.get("name") == request.parts["user"]:
            return Response(value=_shown(user))
    raise ApiError(404, f"User '{request.parts['user']}' not found.")


def sessions(world: World, request: Request) -> Response:
    """List open sessions: one for each call that came without a cookie (contract section 2.2)."""
    del request
    stamp = world.now().strftime("%Y-%m-%dT%H:%M:%S.") + "000Z"
    return listing([
        {"name": name, "remoteAddr": "127.0.0.1", "lastRequest": stamp} for name in world.sessions.values()
    ])  # fmt: skip


def expire_sessions(world: World, request: Request) -> Response:
    """End the sessions of an account."""
    world.sessions = {key: name for key, name in world.sessions.items() if name != request.parts["user"]}
    return Response(204)


def _shown(user: Doc) -> Doc:
    return {name: user[name] for name in ("name", "roles", "authRoles") if name in user}
