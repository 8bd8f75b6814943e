"""Services: stop, start, restart and refresh them (M18)."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from maint.errors import Refused, WorkFailed
from maint.model.json import Json
from maint.model.manager import Place
from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, Work
from maint.steps.manager.commands import finish
from maint.steps.services.moving import ENDS, LIMIT, Mover, move, restart
from maint.steps.services.places import ServiceArguments, find_service, place_from, place_to_json, service_of
from maint.steps.step import Progress, Step, done

# Roles that take a refresh (M18.2).
_REFRESHABLE = ("NAMENODE", "DATANODE", "RESOURCEMANAGER", "JOBTRACKER")
_OPPOSITE = {"stop": "start", "start": "stop"}
A = TypeVar("A", bound=ServiceArguments)


def service_mover(site: Site, place: Place) -> Mover:
    """Return how a service is moved."""

    def state() -> str:
        found = service_of(site.manager, place)
        return found.state if found else ""

    return Mover(
        str(place),
        state,
        lambda name: site.manager.place_command(place, name),
        lambda: list(site.manager.commands_of(place)),
    )


class _Verb(Step[ServiceArguments]):
    effect = Effect.CHANGE
    arguments = ServiceArguments
    verb: str

    def plan(self, args: ServiceArguments, sight: Sight) -> Iterable[Action]:
        """Plan one command; the service is found here, once."""
        place = find_service(sight.manager, args.service, args.cluster)
        found = service_of(sight.manager, place)
        assert found is not None  # it was just found
        idle = self.verb != "restart" and found.state in ENDS[self.verb]
        stale = f", its configuration {found.staleness}" if found.staleness not in ("", "FRESH") else ""
        words = "nothing to do" if idle else f"it is {found.state}{stale}"
        opposite = _OPPOSITE.get(self.verb)
        yield self.action(
            str(place),
            f"{self.verb} {place} ({words})",
            place_to_json(place),
            undo=f"maint service {opposite} {_typed(place)}" if opposite else None,
            facts={"service": str(place), "state": found.state},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Send the command once, wait for it, and believe the service's state."""
        mover = service_mover(site, place_from(action.arguments))
        return (yield from restart(site, work, mover) if self.verb == "restart" else move(site, work, mover, self.verb))


class StopService(_Verb):
    """Stops a service."""

    kind = "service.stop"
    help = "Stop a service and wait until it is STOPPED or NA; what depends on it is not stopped."
    verb = "stop"


class StartService(_Verb):
    """Starts a service."""

    kind = "service.start"
    help = "Start a service and wait until it is STARTED or NA."
    verb = "start"


class RestartService(_Verb):
    """Restarts a service."""

    kind = "service.restart"
    help = "Restart a service and wait until it is STARTED; it takes over its changed configuration."
    verb = "restart"


class RefreshService(Step[ServiceArguments]):
    """Refreshes the roles of a service that can be refreshed; doing it again does no harm."""

    kind = "service.refresh"
    help = "Have the running roles of a service read their refreshable configuration anew; nothing restarts."
    effect = Effect.CHANGE
    arguments = ServiceArguments

    def plan(self, args: ServiceArguments, sight: Sight) -> Iterable[Action]:
        """Plan the roles that know it and run."""
        place = find_service(sight.manager, args.service, args.cluster)
        roles = [one for one in sight.manager.roles(place) if one.type in _REFRESHABLE and one.state == "STARTED"]
        if not roles or not place.cluster:
            raise Refused(
                f"no role of {place} runs that can be refreshed",
                detail=[f"these can: {', '.join(_REFRESHABLE)}"],
                hint="`command.run` with the command `refresh` of the cluster writes all files that can be refreshed",
            )
        types = ", ".join(sorted({role.type for role in roles}))
        given: Mapping[str, Json] = {**place_to_json(place), "roles": [role.name for role in roles]}
        yield self.action(str(place), f"refresh {len(roles)} roles of {place} ({types})", given)

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Send it to all of them, and wait."""
        place, names = place_from(action.arguments), action.arguments["roles"]
        assert isinstance(names, list | tuple)
        failed = []
        for command in site.manager.role_command(place, "refresh", [str(name) for name in names]):
            ended = yield from finish(site.manager, site.clock, command, work.timeout or LIMIT)
            failed += [ended.reason] if ended is not None and ended.success is False else []
        if failed:
            hint = "mend what it names, then `maint playbook resume`; a refresh may be repeated"
            raise WorkFailed(
                f"{len(failed)} of {len(names)} roles of {place} were not refreshed", detail=failed, hint=hint
            )
        return done(f"{len(names)} roles of {place} are refreshed")


def _typed(place: Place) -> str:
    return f"{place.service} --cluster {place.cluster}" if place.cluster else place.service
