"""The monitoring service of a platform: its roles are started, some before others (M13.2)."""

from collections.abc import Generator, Iterable, Sequence

from pydantic import Field

from maint.errors import AnswerMissing, Refused, WorkFailed
from maint.model.formatting import show_count
from maint.model.manager import Role
from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, Work
from maint.retry import looks
from maint.steps.hosts.fan_out import texts
from maint.steps.manager.commands import finish, polls, wait_until
from maint.steps.step import Arguments, Progress, Step, done, skipped, unchanged

_LIMIT = 1800.0  # seconds
LAG = 30.0  # seconds that states may lag behind a command whose answer was lost to a kill
_SENT = "roles sent"
_NOT_IDLE = ("STARTED", "STARTING", "BUSY", "NA")


class RolesArguments(Arguments):
    """Which roles of the monitoring service."""

    only: list[str] = Field([], description="these types; empty: all")
    without: list[str] = Field([], description="not these types")


class StartManagement(Step[RolesArguments]):
    """Start roles of the monitoring service, by type, and wait until they run."""

    kind = "management.start"
    effect = Effect.CHANGE

    def plan(self, args: RolesArguments, sight: Sight) -> Iterable[Action]:
        if sight.manager.management_service() is None:
            yield self.action(
                "management service", "the manager has no management service", {"roles": []}, effect=Effect.READ
            )
            return
        roles = [role for role in sight.manager.management_roles() if _wanted(role, args)]
        _refuse_unknown(sight.manager.management_roles(), args)
        names = [role.name for role in roles]
        idle = sorted({role.type for role in roles if role.state not in _NOT_IDLE})
        running = sorted({role.type for role in roles} - set(idle))
        words = f"start {', '.join(idle) or 'no role'}"
        yield self.action(
            "management service",
            f"{words}; running already: {', '.join(running)}" if running else words,
            {"roles": names},
            effect=Effect.CHANGE if names else Effect.READ,
            undo="stop these roles in the manager",
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        wanted = texts(action.arguments["roles"])
        if not wanted:
            return skipped("nothing of that kind here")
        idle = _idle(site, wanted)
        if idle and work.noted(_SENT):
            yield "an earlier attempt has sent the command; looking whether the roles move"
            idle = _idle_after_all(site, wanted)
        if idle:
            work.note(_SENT, True)
            yield f"starting {', '.join(sorted(role.type for role in idle))}"
            yield from _start(site, [role.name for role in idle], work.timeout or _LIMIT)
        yield from wait_until(
            site.clock,
            work.timeout or _LIMIT,
            lambda: _missing(site, wanted),
            "the management service is not up",
            "`maint playbook resume` looks again",
        )
        return done(f"{show_count(len(idle), 'role')} started") if idle else unchanged("all of them run already")


def _wanted(role: Role, args: RolesArguments) -> bool:
    return (not args.only or role.type in args.only) and role.type not in args.without


def _refuse_unknown(roles: Sequence[Role], args: RolesArguments) -> None:
    known = {role.type for role in roles}
    unknown = [name for name in args.without if name not in known]
    if unknown:
        raise Refused(
            f"the management service has no role of type {', '.join(unknown)}",
            hint=f"it has {', '.join(sorted(known)) or 'none'}",
        )


def _roles(site: Site, names: Sequence[str]) -> list[Role]:
    return [role for role in site.manager.management_roles() if role.name in names]


def _idle(site: Site, names: Sequence[str]) -> list[Role]:
    return [role for role in _roles(site, names) if role.state not in _NOT_IDLE]


def _idle_after_all(site: Site, names: Sequence[str]) -> list[Role]:
    # Their states may lag behind a command.
    idle = list[Role]()
    for _ in looks(site.clock, LAG, polls()):
        if not (idle := _idle(site, names)):
            break
    return idle


def _start(site: Site, names: Sequence[str], limit: float) -> Generator[str, None, None]:
    try:
        commands = site.manager.management_command("start", names)
    except AnswerMissing as error:
        yield f"{error.message}; looking at the roles' states"
        return
    for command in commands:
        finished = yield from finish(site.manager, site.clock, command, limit)
        if finished is not None and finished.success is False:
            idle = [role for role in _roles(site, names) if role.state != "STARTED"]
            if idle:
                raise WorkFailed(
                    "the management service did not start all roles",
                    detail=[finished.reason],
                    hint="mend what it names, then `maint playbook resume`",
                )


def _missing(site: Site, names: Sequence[str]) -> list[str]:
    return [f"{role.type} is {role.state}" for role in _roles(site, names) if role.state not in ("STARTED", "NA")]
