"""Roles: stop, start and restart them one after the other, and maintenance mode (M18, M20)."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace
from pydantic import Field

from maint.errors import WorkFailed
from maint.model.manager import Command, Place, Role
from maint.model.plan import Action, Effect
from maint.ports import ManagerSight, Sight, Site, Work
from maint.steps.services.moving import ENDS, Mover, move, restart
from maint.steps.services.places import RoleArguments, find_roles, place_from, place_to_json
from maint.steps.step import Progress, Step, done, unchanged


def role_mover(site: Site, place: Place) -> Mover:
    """Return how a role is moved."""

    def send(name: str) -> Command:
        answered: Sequence[Command] = site.manager.role_command(_service(place), name, [place.role])
        return answered[0] if answered else Command(-1, name, active=False, success=False, message="nothing was begun")

    def state() -> str:
        found = _role(site.manager, place)
        return found.state if found else ""

    return Mover(str(place), state, send, lambda: list(site.manager.commands_of(place)))


class _Verb(Step[RoleArguments]):
    effect = Effect.CHANGE
    arguments = RoleArguments
    verb: str

    def plan(self, args: RoleArguments, sight: Sight) -> Iterable[Action]:
        """Plan one action for each role; they are carried out one after the other."""
        service, roles = find_roles(sight.manager, args)
        for role in roles:
            if role.state == "NA":
                continue
            place = replace(service, role=role.name)
            idle = self.verb != "restart" and role.state in ENDS[self.verb]
            words = "nothing to do" if idle else f"it is {role.state}"
            yield self.action(
                str(place), f"{self.verb} {place} ({words})", place_to_json(place), facts={"state": role.state}
            )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Send the command once, wait for it, and believe the role's state."""
        mover = role_mover(site, place_from(action.arguments))
        return (yield from restart(site, work, mover) if self.verb == "restart" else move(site, work, mover, self.verb))


class StopRole(_Verb):
    """Stops roles."""

    kind = "role.stop"
    help = "Stop roles of a service, one after the other."
    verb = "stop"


class StartRole(_Verb):
    """Starts roles."""

    kind = "role.start"
    help = "Start roles of a service, one after the other."
    verb = "start"


class RestartRole(_Verb):
    """Restarts roles."""

    kind = "role.restart"
    help = "Restart roles of a service, one after the other; the next waits until the one before it runs."
    verb = "restart"


class MaintenanceArguments(RoleArguments):
    """Which roles, and which way."""

    on: bool = Field(True, description="false: out of maintenance mode")


class MaintainRole(Step[MaintenanceArguments]):
    """Puts roles into maintenance mode, or takes them out; the manager answers once it is done (M20)."""

    kind = "role.maintenance"
    help = "Put roles of a service into maintenance mode, in which the manager raises no alerts, or take them out."
    effect = Effect.CHANGE
    arguments = MaintenanceArguments

    def plan(self, args: MaintenanceArguments, sight: Sight) -> Iterable[Action]:
        """Plan one action for each role."""
        service, roles = find_roles(sight.manager, args)
        for role in roles:
            place = replace(service, role=role.name)
            words = f"{'put' if args.on else 'take'} {place} {'into' if args.on else 'out of'} maintenance mode"
            same = " (nothing to do)" if role.maintenance == args.on else ""
            yield self.action(str(place), words + same, {**place_to_json(place), "on": args.on})

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Look, send, look again."""
        place, on = place_from(action.arguments), action.arguments["on"] is True
        yield f"looking at {place}"
        if _in_maintenance(site.manager, place) == on:
            return unchanged(f"{place} is {'in' if on else 'out of'} maintenance mode already")
        answered = site.manager.maintain(place, on=on)
        if answered.success is False:
            raise WorkFailed(f"the manager did not change {place}", detail=[answered.reason], hint="try again")
        if _in_maintenance(site.manager, place) != on:
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
