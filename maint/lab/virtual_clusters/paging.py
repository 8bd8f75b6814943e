"""Lists: filtered, ordered, a page at a time (contract on the jobs API, section 3.3)."""

from collections.abc import Callable, Iterable

from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters import filters
from maint.lab.virtual_clusters.cluster import Cluster
from maint.lab.virtual_clusters.messages import ApiError, Request, Response

_DEFAULT, _MOST = 20, 100
_DERIVED = ("signature", "nextexecution", "latestruninfo")
_FLAGS = ("true", "false", "1", "0", "")


def page(
    cluster: Cluster, request: Request, noun: str, entries: Iterable[Doc], view: Callable[[Doc], Doc], order: str
) -> Response:
    """Return one page of a list in its envelope.

    Args:
        noun: the name of the list in the envelope.
        view: what the API shows of an entry.
        order: the field it is ordered by unless asked otherwise.
    """
    found = _chosen(request, entries, view, order)
    limit, offset = _numbers(cluster, request)
    total, begin = _shifted(cluster, request, len(found), offset)
    shown = [view(entry) for entry in found[begin : begin + limit]]
    meta: Doc = {"hasNext": offset + limit < total, "limit": limit, "offset": offset}
    meta["count"] = len(shown) if cluster.switches["vc-meta-count"] == "page" else total
    if request.flag("includeTotal"):
        meta["total"] = total
    return Response(value={noun: shown if request.sees else [], "meta": meta})


def _chosen(request: Request, entries: Iterable[Doc], view: Callable[[Doc], Doc], order: str) -> list[Doc]:
    if not request.sees:
        return []
    try:
        match = filters.parse(request.query.get("filter", ()))
    except filters.BadFilter as error:
        raise ApiError(400, str(error)) from error
    if request.word("orderasc").lower() not in _FLAGS:
        raise ApiError(400, f"invalid orderasc {request.word('orderasc')!r}")
    by = request.word("orderby", order)
    asked = " ".join([by, *request.query.get("filter", ())]).lower()
    if any(field in asked for field in _DERIVED):  # all others are kept as they are shown
        entries = [entry | view(entry) for entry in entries]
    found = [entry for entry in entries if match(entry)]
    found.sort(key=filters.order(by), reverse=not request.flag("orderasc", True))
    return found


def _numbers(cluster: Cluster, request: Request) -> tuple[int, int]:
    try:
        limit, offset = int(request.word("limit", str(_DEFAULT))), int(request.word("offset", "0"))
    except ValueError as error:
        raise ApiError(400, "limit and offset must be numbers") from error
    if limit > _MOST and cluster.switches["vc-over-limit"] == "refuse":
        raise ApiError(400, f"limit {limit} exceeds the maximum of {_MOST}")
    if limit < 1 or offset < 0:
        raise ApiError(400, "limit must be positive, and offset not negative")
    return min(limit, _MOST), offset


def _shifted(cluster: Cluster, request: Request, total: int, offset: int) -> tuple[int, int]:
    """Return how many entries there are and where the page begins, as if others came or went between two pages."""
    if offset and cluster.strikes("vc-pages-repeat", request.call):
        return total + 1, offset - 1
    if offset and cluster.strikes("vc-pages-skip", request.call):
        return total - 1, offset + 1
    return total, offset
