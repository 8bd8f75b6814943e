"""Data contexts and control planes (contract sections 6, 7.2)."""

from maint.lab.manager.api.clusters import kind_of
from maint.lab.manager.api.messages import ApiError, Request, Response, listing
from maint.lab.manager.document import Doc, clusters, items
from maint.lab.manager.world import World


def read_all(world: World, request: Request) -> Response:
    """List data contexts."""
    del request
    return listing(items(world.deployment.get("dataContexts")))


def read(world: World, request: Request) -> Response:
    """Answer one data context; a missing one is no 404 on real servers (contract section 2.4)."""
    return Response(value=_find(world, request))


def delete(world: World, request: Request) -> Response:
    """Delete a data context."""
    context = _find(world, request)
    kept = [each for each in items(world.deployment.get("dataContexts")) if each is not context]
    world.deployment["dataContexts"] = {"items": kept}
    world.changed()
    return Response(value=context)


def control_planes(world: World, request: Request) -> Response:
    """List control planes, one for each cluster of containers."""
    del request
    found = [cluster for cluster in clusters(world.deployment) if kind_of(cluster) == "EXPERIENCE_CLUSTER"]
    return listing([
        {"namespace": "cdp", "remoteKubernetesCluster": False,
         "tags": [{"name": "_cldr_cm_ek8s_control_plane", "value": str(cluster["name"])}]}
        for cluster in found
    ])  # fmt: skip


def _find(world: World, request: Request) -> Doc:
    name = request.parts["context"]
    for context in items(world.deployment.get("dataContexts")):
        if context.get("name") == name:
            return context
    raise ApiError(int(world.switches["missing-data-context"]), f"Data context '{name}' not found.")
