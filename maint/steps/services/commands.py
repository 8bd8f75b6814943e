"""Any command of the manager by its name (M18.1), and Kerberos credentials, which no export holds (M21)."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Self

from pydantic import Field, model_validator

from maint.errors import Refused, WorkFailed
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.manager import Command, Place
from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, Work
from maint.steps.manager.commands import Mover, missing_principals, send_once
from maint.steps.services.places import (
    PlaceArguments,
    find_place,
    own_cluster,
    place_from,
    place_to_json,
    refuse_moved,
)
from maint.steps.services.services import role_mover
from maint.steps.step import NoArguments, Progress, Step, done, in_a_template, skipped, unchanged

_IMPORT = "importAdminCredentials"


class _Credentials(Step[NoArguments]):
    effect = Effect.CHANGE
    command: str
    words: str  # what is done, for the plan

    def plan(self, args: NoArguments, sight: Sight) -> Iterable[Action]:
        """Plan nothing where nothing is missing; say what is missing where no account is configured."""
        try:
            missing = missing_principals(sight.manager)
        except WorkFailed as error:
            if self.command == _IMPORT:
                words = f"whether Kerberos credentials are missing could not be asked: {error.message}"
                yield self.action("the manager", words, effect=Effect.READ)
            return
        if not missing:
            return
        lacking = f"no credentials yet for {show_count(len(missing), 'principal')}"
        if sight.settings.manager.kdc is None:
            if self.command == _IMPORT:
                words = f"WARNING: {lacking}, and roles that need them do not start; set `manager.kdc` in the config"
                words += " and begin anew, or have them made in the manager"
                yield self.action("the manager", words, effect=Effect.READ)
            return
        yield self.action("the manager", f"{self.words} ({lacking})", facts={"missing": len(missing)})

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Look again; send it once and wait."""
        if action.effect is Effect.READ:
            return skipped(action.summary)
        if not missing_principals(site.manager):
            return unchanged("no credentials are missing")
        mover = Mover(site, Place(), lambda _: self.send(site))
        finished = yield from send_once(work, mover, self.command)
        return done(finished.message or f"{self.command} is done")

    def send(self, site: Site) -> Command:
        """Send the command."""
        return site.manager.place_command(Place(), self.command)


class ImportCredentials(_Credentials):
    """Import the KDC's account of the config into the manager, where Kerberos credentials are missing."""

    kind = "credentials.import"
    command, words = _IMPORT, "import the KDC's account"

    def send(self, site: Site) -> Command:
        """Send account and password; the password stands in no plan and no journal."""
        account = site.settings.manager.kdc
        if account is None:
            raise Refused(
                "the config names no `manager.kdc` any more, whose account was to be imported",
                hint="name it again, or import an account in the manager; then `maint playbook resume`",
            )
        return site.manager.import_kdc_account(account.username, site.secrets.resolve(account.password))


class GenerateCredentials(_Credentials):
    """Make the Kerberos credentials that services need and that are missing, as after a restore."""

    kind = "credentials.generate"
    command, words = "generateCredentials", "make the missing Kerberos credentials"


_HARMFUL = re.compile(
    r"delete|format|clean|teardown|remove|uninstall|disable|decommission|upgrade|reset", re.IGNORECASE
)
_GUARDED = {"stop": "cluster.stop", "start": "cluster.start"}  # of clusters: these have guards of their own
_SECRET = ("importAdminCredentials", "importKerberosPrincipal")  # their arguments are secrets, which a plan would keep


class CommandArguments(PlaceArguments):
    """Which command of what."""

    name: str = Field(description="as the manager's API spells it, such as deployClientConfig")
    # Any: whatever JSON can spell
    arguments: dict[str, Any] = Field({}, description="what it takes as JSON; no secrets")

    @model_validator(mode="after")
    def _can_be_sent(self) -> Self:
        if self.role_group:
            raise ValueError("a role group takes no commands: name a service or a role")
        if self.role and self.arguments:
            raise ValueError("commands of roles take no arguments: leave them out")
        return self


class SendCommand(Step[CommandArguments]):
    """Run any command of the manager by its name, on the manager, a cluster, service, role or host."""

    kind = "command.run"
    blind = True
    effect = Effect.DESTROY

    def worst(self, given: Mapping[str, object]) -> Effect:
        name = str(given.get("name"))
        return Effect.DESTROY if in_a_template(name) or _HARMFUL.search(name) else Effect.CHANGE

    def plan(self, args: CommandArguments, sight: Sight) -> Iterable[Action]:
        """Plan the command; one whose name sounds harmful asks for the name of what it is done to."""
        place = find_place(sight.manager, args)
        _refuse(args, place)
        harmful = bool(_HARMFUL.search(args.name))
        name = place.role or place.service or place.hostname or place.cluster or sight.settings.name
        given = f" with {', '.join(args.arguments)}" if args.arguments else ""
        yield self.action(
            str(place),
            f"run command {args.name} on {place}{given}",
            {**place_to_json(place), "name": args.name, "arguments": args.arguments},
            effect=Effect.DESTROY if harmful else Effect.CHANGE,
            confirm=name if harmful else None,
            facts={"place": str(place), **own_cluster(sight.manager, place)},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Send it once and wait; on resume the one that was sent is asked for; what destroys is not sent blindly."""
        place, name = place_from(action.arguments), str(action.arguments["name"])
        refuse_moved(action, site, work, place)
        mover = role_mover(site, place) if place.role else _mover(site, place, action.arguments["arguments"])
        finished = yield from send_once(work, mover, name, destroys=action.effect is Effect.DESTROY)
        said = f": {finished.message}" if finished.message else ""
        return done(f"{name} of {place} is done{said}", {"id": finished.id, "message": finished.message})


def _mover(site: Site, place: Place, arguments: Json) -> Mover:
    given = arguments if isinstance(arguments, dict) and arguments else None
    return Mover(site, place, lambda name: site.manager.place_command(place, name, given))


def _refuse(args: CommandArguments, place: Place) -> None:
    if args.name in _SECRET:
        raise Refused(f"{args.name} takes a password, which a plan would keep", hint="do it in the manager's own pages")
    own = _GUARDED.get(args.name) if place.is_cluster else None
    if own:
        raise Refused(f"{args.name} of {place} has a step of its own", hint=f"use `{own}`")
