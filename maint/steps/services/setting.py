"""Settings of a service, role group, role, host or the manager: set, unset, put back, taken from a snapshot (M19)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Self

from msgspec.structs import replace
from pydantic import Field, field_validator, model_validator

from maint.config.secrets import check_reference
from maint.deployment.compare import reason
from maint.errors import Refused
from maint.model.formatting import show_some
from maint.model.json import Json
from maint.model.manager import Place, Setting
from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, Work
from maint.restore.payload import groups_in, settings_in
from maint.restore.select_snapshot import chosen, manifest_fact
from maint.restore.select_snapshot import planned as planned_snapshot
from maint.snapshots.prune import of_passed_over, passed_over
from maint.steps.guards import put_proof
from maint.steps.services import change_setting
from maint.steps.services.change_setting import kept_settings, old_value, overwritten_by, spans
from maint.steps.services.places import (
    PlaceArguments,
    SettingPlaceArguments,
    find_place,
    own_cluster,
    place_from,
    place_to_json,
)
from maint.steps.step import Arguments, Progress, Step, in_a_template, skipped


class SettingArguments(SettingPlaceArguments):
    """Which setting of what, and its value."""

    name: str = Field(description="as the manager's API spells it, such as dfs_replication")
    value: str | int | float | bool | None = Field(None, description="what it shall be; null unsets it")
    secret: str = Field("", description="a reference to the value of a secret, such as file:PATH")

    @field_validator("secret")
    @classmethod
    def _is_a_reference(cls, text: str) -> str:
        if text and not in_a_template(text):
            check_reference(text)
        return text

    @model_validator(mode="after")
    def _one_value(self) -> Self:
        if bool(self.secret) == ("value" in self.model_fields_set):
            raise ValueError("give `value` (null unsets it), or `secret` with a reference; not both")
        return self

    @property
    def text(self) -> str | None:
        """The value as the API takes it: a text, whatever it was in YAML."""
        if isinstance(self.value, bool):
            return str(self.value).lower()
        return None if self.value is None else str(self.value)


class SetSetting(Step[SettingArguments]):
    """Set one setting of a service, role group, role, host or the manager; its old value is kept, sealed."""

    kind = "config.set"
    effect = Effect.CHANGE

    def plan(self, args: SettingArguments, sight: Sight) -> Iterable[Action]:
        """Plan the change, old value and new one; refuses what could not be put back, and secrets in clear."""
        place = find_place(sight.manager, args)
        live = change_setting.setting_of(sight.manager, place, args.name)
        secret = change_setting.is_secret(live)
        if secret and args.text is not None:
            hint = "give a reference instead, such as file:PATH"
            raise Refused(f"{args.name} of {place} is a secret, and a plan keeps what it is given", hint=hint)
        wanted = sight.secrets.resolve(args.secret).reveal() if args.secret else args.text
        change_setting.refuse_mask(place, args.name, wanted)
        before, after = change_setting.print_of(sight, live), change_setting.value_print(sight, wanted)
        secret = secret or bool(args.secret)
        seen, new = change_setting.difference(live, wanted, secret=secret, new="another secret")
        words, source, idle = f"{seen} → {new}", "", change_setting.is_so(live, wanted)
        if idle:
            words = f"→ {seen if before == after or secret else f'{new}, its default'} (it is so already)"
            seen = "it is so already"
        elif source := change_setting.old_source(sight, place, live):
            change_setting.refuse_unkept(sight, place, args.name, source)
            words += f"; its old value is taken from snapshot {source}"
        yield self.action(
            str(place),
            f"{args.name} of {place}: {words}",
            {**place_to_json(place), "name": args.name, "value": args.text, "secret": args.secret},
            effect=Effect.READ if idle else Effect.CHANGE,
            undo="`maint playbook undo RUN` puts it back",
            facts={
                "before": before,
                "after": after,
                "source": source,
                "secret": secret,
                **own_cluster(sight.manager, place),
            },
            seen=seen,
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Set it once; looks before, and after."""
        given = action.arguments
        reference, clear = str(given["secret"]), given["value"]
        wanted = site.secrets.resolve(reference).reveal() if reference else (str(clear) if clear is not None else None)
        if action.facts.get("after", change_setting.value_print(site, wanted)) != change_setting.value_print(
            site, wanted
        ):
            raise Refused(
                f"the secret {reference} is another one than when the plan was made", hint="make the plan again"
            )
        return (yield from change_setting.carry_out(action, site, work, wanted))


class UndoSettingsArguments(Arguments):
    """Whose changes are put back."""

    run: str = Field(description="the id of a run")


class PutSettingsBack(Step[UndoSettingsArguments]):
    """Put back the settings that a run has changed, unless somebody has changed them since."""

    kind = "config.put_back"
    effect = Effect.CHANGE

    def plan(self, args: UndoSettingsArguments, sight: Sight) -> Iterable[Action]:
        kept = kept_settings(sight.settings.state, args.run)
        settings = list(spans(kept))
        if not settings:
            hint = f"what it deleted in a virtual cluster comes back by `maint vc undo {args.run}`, a file that it"
            hint += f" replaced on hosts by a playbook with the step `host.put_back` and `run: {args.run}`"
            if sight.settings.shared_state:
                hint = f"where another machine brought it to its end, undo it there; {hint}"
            raise Refused(f"run {args.run} has changed no setting of the manager, or it is too long ago", hint=hint)
        conflicts = list[str]()
        planned_ones = list[Action]()
        for one in settings:
            live = change_setting.current(sight.manager, one.place, one.name)
            if live is None:
                words = f"{one.name} of {one.place} is no longer there: nothing to put back"
                planned_ones.append(self.action(str(one.place), words, effect=Effect.READ))
                continue
            now = change_setting.print_of(sight, live)
            same = [each for each in kept if (each.place, each.name) == (one.place, one.name)]
            own = {each.print for each in same} | {each.was for each in same}
            if now == change_setting.HIDDEN and (run := overwritten_by(sight.settings.state, args.run, one, own)):
                conflicts.append(f"{one.name} of {one.place}: run {run} changed it since, and the manager hides it")
                continue
            if now != change_setting.HIDDEN and not change_setting.is_own(sight, same, live):
                conflicts.append(f"{one.name} of {one.place}: the run left {one.after}, now it is "
                                 f"{change_setting.shown_value(live.value, secret=one.secret)}")  # fmt: skip
                continue
            arguments: dict[str, Json] = {**place_to_json(one.place), "name": one.name, "sealed": one.sealed}
            source = change_setting.old_source(sight, one.place, live)
            facts: dict[str, Json] = {"before": now, "secret": one.secret, "source": source}
            facts |= own_cluster(sight.manager, one.place)
            words = f"put back {one.name} of {one.place}: {one.after} → {one.before}"
            if not one.secret and now == one.was:
                words = f"{one.name} of {one.place}: {one.before}, as it was before"
            undo = ""
            if change_setting.later_run(sight, one.place, one.name, source):
                undo = f"what is there now is hidden, and not kept: undoing this gives what snapshot {source} has"
            planned_ones.append(self.action(str(one.place), words, arguments, undo=undo, facts=facts))
        if conflicts:
            hint = "decide for each by `maint setting set`"
            raise Refused(f"somebody has changed since what run {args.run} had set", detail=conflicts, hint=hint)
        yield from planned_ones

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        if action.effect is Effect.READ:
            return skipped(action.summary)
        kept, name = (str(action.arguments[key]) for key in ("sealed", "name"))
        wanted = old_value(site.undo, kept, place_from(action.arguments), name)
        return (yield from change_setting.carry_out(action, site, work, wanted))


_ITS = "the snapshot's secret"


class RestoreSettingsArguments(PlaceArguments):
    """Which settings of what, from which snapshot."""

    snapshot: str = Field("", description="its id; empty: the newest restorable one")
    properties: list[str] = Field([], description="these settings; empty: all that differ")


class RestoreSettings(Step[RestoreSettingsArguments]):
    """Put the settings of a service, role group, role, host or the manager back as a snapshot has them."""

    kind = "config.restore"
    effect = Effect.CHANGE
    restores = True

    def plan(self, args: RestoreSettingsArguments, sight: Sight) -> Iterable[Action]:
        """Plan one action for each setting that differs; refuses a snapshot that is not proven."""
        place = find_place(sight.manager, args)
        if place.is_cluster:
            raise Refused("a cluster has no settings of its own", hint="name a service")
        snapshot = chosen(sight, args.snapshot)
        put_proof(sight, snapshot.id)
        own = {**manifest_fact(snapshot), **own_cluster(sight.manager, place)}
        places = [place, *(replace(place, role_group=name) for name in _groups(sight, args, place, snapshot.id))]
        found, unread, known = list[Action](), list[str](), set[str]()
        for one in places:
            held = settings_in(sight, snapshot, one)
            live = {setting.name: setting for setting in sight.manager.settings_of(one)}
            known |= {*held, *live}
            for name in sorted({*held, *live}):
                if args.properties and name not in args.properties:
                    continue
                if not args.properties and _is_the_servers(one, name):
                    continue
                now = live.get(name, Setting(name))
                if change_setting.is_hidden(now) and not args.properties:
                    unread.append(f"{name} of {one}")
                    continue
                wanted = held[name].value if name in held else None
                if not change_setting.is_so(now, wanted):
                    found.append(self._change(sight, one, now, wanted, snapshot.id, own))
        if unknown := [name for name in args.properties if name not in known]:
            raise change_setting.no_setting(place, unknown, known)
        yield from found
        newer = passed_over(sight, snapshot)
        if not found or unread or newer:
            words = _summary(snapshot.id, found, unread) + of_passed_over(newer)
            yield self.action(str(place), words, {}, effect=Effect.READ)

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        if "name" not in action.arguments:
            return skipped(action.summary)
        snapshot, place = planned_snapshot(site, action), place_from(action.arguments)
        yield f"reading {action.arguments['name']} from snapshot {snapshot.id}"
        held = settings_in(site, snapshot, place).get(str(action.arguments["name"]))
        wanted = held.value if held else None
        return (yield from change_setting.carry_out(action, site, work, wanted))

    def _change(
        self, sight: Sight, place: Place, now: Setting, wanted: str | None, snapshot: str, own: Mapping[str, Json]
    ) -> Action:
        secret = change_setting.is_secret(now)
        change_setting.refuse_mask(place, now.name, wanted)
        arguments: dict[str, Json] = {**place_to_json(place), "name": now.name, "snapshot": snapshot}
        source = change_setting.old_source(sight, place, now)
        change_setting.refuse_unkept(sight, place, now.name, source)
        facts: dict[str, Json] = {
            "before": change_setting.print_of(sight, now),
            "after": change_setting.value_print(sight, wanted),
            "secret": secret,
            "source": source,
            **own,
        }
        old, new = change_setting.difference(now, wanted, secret=secret, new=_ITS)
        words, undo = f"{now.name} of {place}: {old} → {new}", "`maint playbook undo RUN` puts it back"
        return self.action(str(place), words, arguments, undo=undo, facts=facts, seen=old)


def _is_the_servers(place: Place, name: str) -> bool:
    """Whether the manager writes a setting by itself: its value of today is the right one, whatever a snapshot has."""
    path = ("roles", place.role, "config", name) if place.role else ("managerSettings", name)
    return reason(path) is not None


def _groups(sight: Sight, args: RestoreSettingsArguments, place: Place, snapshot: str) -> Iterator[str]:
    # A service is meant with its role config groups, which is where most of its settings stand.
    if not place.service or args.role or args.role_group:
        return
    live = sight.manager.role_groups(place)
    yield from (name for name in groups_in(sight, chosen(sight, snapshot), place) if name in live)


def _summary(snapshot: str, found: Sequence[Action], unread: Sequence[str]) -> str:
    words = f"from snapshot {snapshot}" if found else f"nothing that can be read differs from snapshot {snapshot}"
    if not unread:
        return words
    more = f"not compared, since the manager hides them: {len(unread)}; put one back by its name (`--property`): "
    return f"{words}{'; ' if words else ''}{more}{show_some(unread, 3)}"
