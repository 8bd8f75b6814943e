"""`GET /api/version` (contract section 3)."""

from maint.lab.manager.api.messages import Request, Response, plain
from maint.lab.manager.world import World


def read(world: World, request: Request) -> Response:
    """Answer the highest API version as bare text."""
    del request
    text = {"bare": "v{}", "quoted": '"v{}"', "line": "v{}\n"}[world.switches["version-body"]].format(world.api)
    return plain(text, world.switches["version-content-type"])
