"""`/tools`: calls that only talk back (contract section 2.4)."""

from maint.lab.manager.api.messages import ApiError, Request, Response
from maint.lab.manager.world import World


def echo(world: World, request: Request) -> Response:
    """Answer the message."""
    del world
    return Response(value={"message": request.query.get("message", "Hello, World!")})


def echo_error(world: World, request: Request) -> Response:
    """Always fail, with the message."""
    del world
    raise ApiError(500, request.query.get("message", "Default error message"))
