"""Services and their roles: stop, start, restart and refresh them, and maintenance mode (M18, M20)."""

from collections.abc import Iterable, Mapping
from shlex import quote

from msgspec.structs import replace
from pydantic import Field

from maint.errors import Refused, WorkFailed
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.manager import Command, Place, Role, Service
from maint.model.plan import Action, Effect
from maint.ports import ManagerSight, Sight, Site, Work
from maint.steps.manager.commands import ENDS, LIMIT, Mover, finish, move, restart
from maint.steps.services import places
from maint.steps.step import A, Progress, Step, done, unchanged

# Roles that take a refresh (M18.2).
_REFRESHABLE = ("NAMENODE", "DATANODE", "RESOURCEMANAGER", "JOBTRACKER")
_IDLE = "nothing to do"
_OPPOSITE = {"stop": "start", "start": "stop"}


def _state(place: Place, found: Service | Role | None) -> Mapping[str, str]:
    return {str(place): found.state if found else ""}


class _Moving(Step[A]):
    """Sends one command to what its plan names, waits for it, and believes the state alone."""

    effect = Effect.CHANGE
    verb: str

    def mover(self, site: Site, place: Place) -> Mover:
        raise TypeError(f"{self.kind} moves nothing")

    def why(self, state: str, more: str = "") -> str:
        """Return what a plan says of the present state."""
        return _IDLE if self.verb != "restart" and state in ENDS[self.verb] else f"it is {state}{more}"

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        place = places.place_from(action.arguments)
        places.refuse_moved(action, site, work, place)
        mover = self.mover(site, place)
        return (yield from restart(work, mover) if self.verb == "restart" else move(work, mover, self.verb))


class _ServiceVerb(_Moving[places.ServiceArguments]):
    def plan(self, args: places.ServiceArguments, sight: Sight) -> Iterable[Action]:
        """Plan one command; the service is found here, once."""
        place, found = places.found_service(sight.manager, args.service, args.cluster)
        stale = f", its configuration {found.staleness}" if found.staleness not in ("", "FRESH") else ""
        opposite = _OPPOSITE.get(self.verb)
        yield self.action(
            str(place),
            f"{self.verb} {place} ({(seen := self.why(found.state, stale))})",
            places.place_to_json(place),
            undo=f"`maint service {opposite} {_typed(place)}`" if opposite else None,
            facts={"service": str(place), "state": found.state, **places.own_cluster(sight.manager, place)},
            seen=seen,
            idle=seen == _IDLE,
        )

    def mover(self, site: Site, place: Place) -> Mover:
        manager = site.manager
        return Mover(
            site,
            place,
            lambda name: manager.place_command(place, name),
            lambda: _state(place, places.service_of(manager, place)),
        )


class StopService(_ServiceVerb):
    """Stop a service and wait until it is STOPPED or NA; what depends on it is not stopped."""

    kind = "service.stop"
    verb = "stop"


class StartService(_ServiceVerb):
    """Start a service and wait until it is STARTED or NA."""

    kind = "service.start"
    verb = "start"


class RestartService(_ServiceVerb):
    """Restart a service and wait until it is STARTED; it takes over its changed configuration."""

    kind = "service.restart"
    verb = "restart"


class RefreshService(Step[places.ServiceArguments]):
    """Have the running roles of a service read their refreshable configuration anew; nothing restarts."""

    kind = "service.refresh"
    effect = Effect.CHANGE

    def plan(self, args: places.ServiceArguments, sight: Sight) -> Iterable[Action]:
        place = places.find_service(sight.manager, args.service, args.cluster)
        roles = [one for one in sight.manager.roles(place) if one.type in _REFRESHABLE and one.state == "STARTED"]
        if not roles or not place.cluster:
            raise Refused(
                f"no role of {place} runs that can be refreshed",
                detail=[f"these can: {', '.join(_REFRESHABLE)}"],
                hint="`command.run` with the command `refresh` of the cluster writes all files that can be refreshed",
            )
        types = ", ".join(sorted({role.type for role in roles}))
        given: Mapping[str, Json] = {**places.place_to_json(place), "roles": [role.name for role in roles]}
        words = f"refresh {show_count(len(roles), 'role')} of {place} ({types})"
        yield self.action(str(place), words, given, facts=places.own_cluster(sight.manager, place))

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        place, names = places.place_from(action.arguments), action.arguments["roles"]
        assert isinstance(names, list | tuple)
        places.refuse_moved(action, site, work, place)
        sent = site.manager.role_command(place, "refresh", [str(name) for name in names])
        failed = [] if sent else ["the manager began nothing"]
        for command in sent:
            ended = yield from finish(site.manager, site.clock, command, work.timeout or LIMIT)
            if ended is None:
                failed.append(f"the manager no longer knows command {command.id}, nor whether it succeeded")
            elif not ended.success:
                failed.append(ended.reason)
        if failed:
            hint = "mend what it names, then `maint playbook resume`; a refresh may be repeated"
            raise WorkFailed(
                f"not refreshed: {len(failed)} of {show_count(len(names), 'role')} of {place}", detail=failed, hint=hint
            )
        return done(f"refreshed {show_count(len(names), 'role')} of {place}")


def _typed(place: Place) -> str:
    return f"{quote(place.service)} --cluster {quote(place.cluster)}" if place.cluster else quote(place.service)


def role_mover(site: Site, place: Place) -> Mover:
    """Return how a role is moved."""

    def send(name: str) -> Command:
        answered = site.manager.role_command(_service(place), name, [place.role])
        return answered[0] if answered else Command(-1, name, active=False, success=False, message="nothing was begun")

    return Mover(site, place, send, lambda: _state(place, _role(site.manager, place)))


class _RoleVerb(_Moving[places.RoleArguments]):
    def plan(self, args: places.RoleArguments, sight: Sight) -> Iterable[Action]:
        """Plan one action for each role; they are carried out one after the other."""
        service, roles = places.find_roles(sight.manager, args)
        own = places.own_cluster(sight.manager, service)
        for role in roles:
            if role.state == "NA":
                continue
            place = replace(service, role=role.name)
            words = f"{self.verb} {place} ({(seen := self.why(role.state))})"
            facts: Mapping[str, Json] = {"state": role.state, **own}
            found = places.place_to_json(place)
            yield self.action(str(place), words, found, facts=facts, seen=seen, idle=seen == _IDLE)

    def mover(self, site: Site, place: Place) -> Mover:
        return role_mover(site, place)


class StopRole(_RoleVerb):
    """Stop roles of a service, one after the other."""

    kind = "role.stop"
    verb = "stop"


class StartRole(_RoleVerb):
    """Start roles of a service, one after the other."""

    kind = "role.start"
    verb = "start"


class RestartRole(_RoleVerb):
    """Restart roles of a service, one after the other; the next waits until the one before it runs."""

    kind = "role.restart"
    verb = "restart"


class MaintenanceArguments(places.RoleArguments):
    """Which roles, and which way."""

    on: bool = Field(True, description="false: out of maintenance mode")


class MaintainRole(Step[MaintenanceArguments]):
    """Put roles of a service into maintenance mode, in which the manager raises no alerts, or take them out."""

    kind = "role.maintenance"
    effect = Effect.CHANGE

    def plan(self, args: MaintenanceArguments, sight: Sight) -> Iterable[Action]:
        service, roles = places.find_roles(sight.manager, args)
        own = places.own_cluster(sight.manager, service)
        for role in roles:
            place = replace(service, role=role.name)
            words = f"{'put' if args.on else 'take'} {place} {'into' if args.on else 'out of'} maintenance mode"
            seen = _IDLE if role.maintenance == args.on else ""
            words += f" ({seen})" if seen else ""
            given = {**places.place_to_json(place), "on": args.on}
            yield self.action(str(place), words, given, facts=own, seen=seen, idle=bool(seen))

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        place, on = places.place_from(action.arguments), action.arguments["on"] is True
        yield f"looking at {place}"
        places.refuse_moved(action, site, work, place)
        if _in_maintenance(site.manager, place) == on:
            return unchanged(f"{place} is {'in' if on else 'out of'} maintenance mode already")
        answered = site.manager.maintain(place, on=on)
        if answered.success is False:
            raise WorkFailed(f"the manager did not change {place}", detail=[answered.reason], hint="try again")
        there = _in_maintenance(site.manager, place)
        if on and not there:
            raise WorkFailed(
                f"{place} is not in maintenance mode, though the manager took that",
                hint="look at it in the manager, then `maint playbook resume`",
            )
        if there != on:
            return done(
                f"{place} itself is out of maintenance mode; what it belongs to, its service or host, is still in it"
            )
        return done(f"{place} is {'in' if on else 'out of'} maintenance mode")


def _service(place: Place) -> Place:
    return Place(place.cluster, place.service)


def _role(manager: ManagerSight, place: Place) -> Role | None:
    return next((one for one in manager.roles(_service(place)) if one.name == place.role), None)


def _in_maintenance(manager: ManagerSight, place: Place) -> bool:
    found = _role(manager, place)
    return found is not None and found.maintenance
