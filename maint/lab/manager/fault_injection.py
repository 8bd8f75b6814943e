"""How faults change an exchange (contract section 16.10)."""

from maint.lab.manager.api.answer import Incoming
from maint.lab.manager.api.messages import ApiError, Response, html
from maint.lab.manager.world import World

SLOW_PIECES = 20


def stand_in(world: World, incoming: Incoming) -> Response | None:
    """Return what a fault answers in the server's place, None when none strikes."""
    faults, call = world.faults, incoming.call
    for name, answer in _STAND_INS.items():
        if faults.strikes(name, call):
            return answer
    return None


def pause(world: World, incoming: Incoming) -> float:
    """Return how many seconds pass before a request is carried out."""
    seconds = 0.0
    if incoming.method == "PUT" and incoming.path.endswith("/cm/deployment"):
        seconds = world.switches.number("put-seconds")
        if world.faults.strikes("put-slow", incoming.call):
            seconds += world.switches.number("slow-seconds")
    return seconds


def ending(world: World, incoming: Incoming, response: Response) -> bool:
    """Return whether the answer to something that was carried out gets lost."""
    if response.status != 200:
        return False
    return any(world.faults.strikes(name, incoming.call) for name in ("put-answer-lost", "delete-answer-lost"))


_BUSY = ApiError(503, "The server is busy, try again later.").response()
_FAILED = ApiError(500, "Internal server error: the lab was told to fail.").response()
_STAND_INS: dict[str, Response] = {
    "redirect-everything": Response(302, text=b"", headers={"Location": "https://elsewhere.invalid/login"}),
    "proxy-502": html(502, "502 Bad Gateway"),
    "html-error": html(500, "Error 500 Internal Server Error"),
    "html-200": html(200, "Please log in to the network"),
    "unavailable-once": _BUSY,
    "unavailable": _BUSY,
    "error-500-once": _FAILED,
    "error-500": _FAILED,
    "bad-request-once": ApiError(400, "Internal failure, try again.").response(),
}
