"""The path of what has settings or takes commands, below `/api/vN` (M18, M19)."""

from maint.adapters.manager.calls import segment
from maint.model.manager import Place


def service_path(place: Place) -> str:
    """Return the path of a service; that of the monitoring service where no cluster is named."""
    return f"/clusters/{segment(place.cluster)}/services/{segment(place.service)}" if place.cluster else "/cm/service"


def path_of(place: Place) -> str:
    """Return the path of a place; `/cm` for the manager itself."""
    if place.role:
        return f"{service_path(place)}/roles/{segment(place.role)}"
    if place.role_group:
        return f"{service_path(place)}/roleConfigGroups/{segment(place.role_group)}"
    if place.service:
        return service_path(place)
    if place.host:
        return f"/hosts/{segment(place.host)}"
    return f"/clusters/{segment(place.cluster)}" if place.cluster else "/cm"
