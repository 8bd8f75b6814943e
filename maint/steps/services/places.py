"""Which service, role, group, host or manager a step means, by the names that an operator types (M18, M19)."""

from collections.abc import Mapping, Sequence
from typing import Self

import msgspec
from msgspec.structs import replace
from pydantic import Field, model_validator

from maint.errors import Refused
from maint.model.formatting import unknown
from maint.model.json import Json
from maint.model.manager import Cluster, Place, Role, Service
from maint.model.plan import Action
from maint.ports import ManagerSight, Site, Work
from maint.steps.manager.clusters import own_id, refuse_made_anew, resolve
from maint.steps.step import Arguments

_LIST = "`maint service list` shows what there is"
_INSTANCES = "the manager shows all under Instances of the service, and its groups under Configuration"


class ServiceArguments(Arguments):
    """Which service."""

    service: str = Field(description="its name")
    cluster: str = Field("", description="name or display name; may be left out where one cluster has such a service")


class RoleArguments(ServiceArguments):
    """Which roles of a service: by name, type or host; all that are named must fit."""

    roles: list[str] = Field([], description="these, by name")
    type: str = Field("", description="those of a type, such as DATANODE")
    host: str = Field("", description="those on a host")

    @model_validator(mode="after")
    def _some_are_named(self) -> Self:
        if not (self.roles or self.type or self.host):
            raise ValueError("no role is named: give `roles: [NAME, …]`, `type` or `host`")
        return self


class PlaceArguments(Arguments):
    """What has the setting, or takes the command: exactly one of them."""

    cluster: str = Field("", description="name or display name; alone: the cluster itself")
    service: str = Field("", description="a service by its name")
    role_group: str = Field("", description="a role config group by its name")
    role: str = Field("", description="a role by its name")
    host: str = Field("", description="a host by its name or id")
    manager: bool = Field(False, description="the manager itself")

    @model_validator(mode="after")
    def _one_thing(self) -> Self:
        alone = [bool(self.role_group), bool(self.role), bool(self.host), self.manager]
        if sum(alone) > 1 or ((self.host or self.manager) and (self.service or self.cluster)):
            raise ValueError("several things are named: name one, a service, role group, role, host or the manager")
        if not (self.cluster or self.service or any(alone)):
            raise ValueError("nothing is named: name a service, role group, role, host, or the manager")
        return self


class SettingPlaceArguments(PlaceArguments):
    """What has the settings."""

    @model_validator(mode="after")
    def _has_settings(self) -> Self:
        if self.cluster and not (self.service or self.role or self.role_group):
            raise ValueError("a cluster has no settings of its own: name a service, role group or role of it")
        return self


def find_service(manager: ManagerSight, service: str, cluster: str = "") -> Place:
    """Return a service by its name, as `found_service` does."""
    return found_service(manager, service, cluster)[0]


def found_service(manager: ManagerSight, service: str, cluster: str = "") -> tuple[Place, Service]:
    """Return a service by its name, with what the manager says of it; the monitoring service has a name, no cluster.

    Raises:
        UnknownName: there is none.
        Refused: several clusters have one.
    """
    searched: Sequence[Cluster] = [resolve(manager, cluster)] if cluster else manager.clusters()
    known = {Place(one.name, each.name): each for one in searched for each in manager.services(one.name)}
    if not cluster and (monitoring := manager.management_service()) is not None:
        known[Place("", monitoring.name)] = monitoring
    if found := [place for place in known if place.service == service]:
        place = _only(found, f"{len(found)} clusters have a service {service!r}", "say which cluster")
        return place, known[place]
    names = sorted({place.service for place in known})
    where = f" in cluster {searched[0].name}" if cluster else ""
    raise unknown(f"there is no service {service!r}{where}", service, names, _LIST)


def service_of(manager: ManagerSight, place: Place) -> Service | None:
    """Return what the manager says of a service now, None where it is gone."""
    if not place.cluster:
        return manager.management_service()
    return next((one for one in manager.services(place.cluster) if one.name == place.service), None)


def find_roles(manager: ManagerSight, args: RoleArguments) -> tuple[Place, Sequence[Role]]:
    """Return a service and the roles of it that are meant; UnknownName where nothing fits."""
    service = find_service(manager, args.service, args.cluster)
    known = manager.roles(service)
    for name in args.roles:
        if name not in {role.name for role in known}:
            raise unknown(f"{service} has no role {name!r}", name, [role.name for role in known], _INSTANCES)
    host = find_host(manager, args.host).host if args.host else ""
    found = [
        role
        for role in known
        if (not args.roles or role.name in args.roles)
        and (not args.type or role.type == args.type)
        and (not host or role.host_id == host)
    ]
    if not found:
        raise unknown(f"{service} has no such role", args.type, sorted({role.type for role in known}), _INSTANCES)
    return service, found


def find_host(manager: ManagerSight, name: str) -> Place:
    """Return a host by its name or id, or raise UnknownName."""
    hosts = manager.hosts()
    for host in hosts:
        if name in (host.hostname, host.host_id):
            return Place(host=host.host_id, hostname=host.hostname)
    short = [host for host in hosts if host.hostname.partition(".")[0] == name]
    if len(short) == 1:
        return Place(host=short[0].host_id, hostname=short[0].hostname)
    raise unknown(
        f"the manager knows no host {name!r}",
        name,
        [host.hostname for host in hosts],
        "`maint host list` shows them with `--hosts-from manager`",
    )


def find_place(manager: ManagerSight, args: PlaceArguments) -> Place:
    """Return what is meant; UnknownName where it is not there."""
    if args.manager:
        return Place()
    if args.host:
        return find_host(manager, args.host)
    if args.role or args.role_group:
        return _inside(manager, args)
    if args.service:
        return find_service(manager, args.service, args.cluster)
    return Place(resolve(manager, args.cluster).name)


def place_to_json(place: Place) -> dict[str, Json]:
    """Return a place as the arguments of an action; `place_from` reads it back."""
    return {"place": msgspec.to_builtins(place)}


def place_from(arguments: Mapping[str, Json]) -> Place:
    """Return the place that `place_to_json` wrote."""
    return msgspec.convert(arguments["place"], Place)


def own_cluster(manager: ManagerSight, place: Place) -> dict[str, Json]:
    """Return, for a plan, what tells the cluster of a place from one made anew under its name; see `refuse_moved`."""
    return own_id(resolve(manager, place.cluster)) if place.cluster else {}


def refuse_moved(action: Action, site: Site, work: Work, place: Place) -> None:
    """Refuse a place whose cluster was made anew since the plan: a run may be taken up long after."""
    if place.cluster:
        refuse_made_anew(action, site.manager, work, place.cluster)


def _inside(manager: ManagerSight, args: PlaceArguments) -> Place:
    # A role or a group, whose service may be left out where one service alone has it.
    if args.service:
        services = [find_service(manager, args.service, args.cluster)]
    else:
        clusters = [resolve(manager, args.cluster)] if args.cluster else manager.clusters()
        services = [Place(one.name, each.name) for one in clusters for each in manager.services(one.name)]
        if not args.cluster and (monitoring := manager.management_service()) is not None:
            services.append(Place("", monitoring.name))
    wanted, what = args.role or args.role_group, f"role {'' if args.role else 'group '}"
    names = [[r.name for r in manager.roles(one)] if args.role else manager.role_groups(one) for one in services]
    which = {"role": wanted} if args.role else {"role_group": wanted}
    found = [replace(one, **which) for one, known in zip(services, names, strict=True) if wanted in known]
    if not found:
        known = [name for each in names for name in each]
        raise unknown(f"there is no {what}{wanted!r}", wanted, known, _INSTANCES)
    return _only(found, f"{len(found)} services have a {what}{wanted!r}", "say which service, and of which cluster")


def _only(found: Sequence[Place], words: str, hint: str) -> Place:
    """Return the one that was found, or refuse to choose."""
    if len(found) > 1:
        raise Refused(words, detail=[str(place) for place in found], hint=hint)
    return found[0]
