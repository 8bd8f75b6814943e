"""Put settings back from a snapshot one by one, without a PUT of the whole deployment (M19)."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace
from pydantic import Field

from maint.errors import Refused
from maint.model.json import Json
from maint.model.manager import Place, Setting
from maint.model.plan import Action, Effect
from maint.model.secret import Secret
from maint.ports import Sight, Site, Work
from maint.restore.select_snapshot import chosen, manifest_fact
from maint.restore.select_snapshot import planned as planned_snapshot
from maint.restore.settings import groups_in, settings_in
from maint.steps.guards import put_proof
from maint.steps.services import changing
from maint.steps.services.places import PlaceArguments, find_place, place_from, place_to_json
from maint.steps.step import Progress, Step, skipped

_ITS = "the snapshot's secret"


class RestoreArguments(PlaceArguments):
    """Which settings of what, from which snapshot."""

    snapshot: str = Field("", description="its id; empty: the newest restorable one")
    properties: list[str] = Field([], description="these settings; empty: all that differ")


class RestoreSettings(Step[RestoreArguments]):
    """Put the settings of a service, role group, role, host or the manager back as a snapshot has them."""

    kind = "config.restore"
    effect = Effect.CHANGE
    restores = True

    def plan(self, args: RestoreArguments, sight: Sight) -> Iterable[Action]:
        """Plan one action for each setting that differs; refuses a snapshot that is not proven."""
        place = find_place(sight.manager, args)
        if place.is_cluster:
            raise Refused("a cluster has no settings of its own", hint="name a service")
        snapshot = chosen(sight, args.snapshot)
        put_proof(sight, snapshot.id)
        places = [place, *(replace(place, role_group=name) for name in _groups(sight, args, place, snapshot.id))]
        found, unread, known = list[Action](), list[str](), set[str]()
        for one in places:
            held = settings_in(sight, snapshot, one)
            live = {setting.name: setting for setting in sight.manager.settings_of(one)}
            known |= {*held, *live}
            for name in sorted({*held, *live}):
                if args.properties and name not in args.properties:
                    continue
                now = live.get(name, Setting(name))
                if changing.is_hidden(now) and not args.properties:
                    unread.append(f"{name} of {one}")
                    continue
                wanted = held[name].value if name in held else None
                if not changing.is_so(now, wanted):
                    found.append(self._change(sight, one, now, wanted, snapshot.id, manifest_fact(snapshot)))
        if unknown := [name for name in args.properties if name not in known]:
            raise changing.no_setting(place, unknown, known)
        yield from found
        if not found or unread:
            yield self.action(str(place), _summary(snapshot.id, found, unread), {}, effect=Effect.READ)

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        if "name" not in action.arguments:
            return skipped(action.summary)
        snapshot, place = planned_snapshot(site, action), place_from(action.arguments)
        yield f"reading {action.arguments['name']} from snapshot {snapshot.id}"
        held = settings_in(site, snapshot, place).get(str(action.arguments["name"]))
        wanted = held.value if held else None
        if action.facts["secret"] is True and wanted is not None:
            Secret(wanted)  # so that no answer of the manager shows it
        return (yield from changing.carry_out(site, work, changing.planned(action, wanted)))

    def _change(
        self, sight: Sight, place: Place, now: Setting, wanted: str | None, snapshot: str, manifest: dict[str, str]
    ) -> Action:
        secret = changing.is_secret(now)
        changing.refuse_mask(place, now.name, wanted)
        arguments: dict[str, Json] = {**place_to_json(place), "name": now.name, "snapshot": snapshot}
        source = changing.old_source(sight, place, now)
        changing.refuse_unkept(sight, place, now.name, source)
        facts: dict[str, Json] = {
            "before": changing.print_of(sight, now), "after": changing.value_print(sight, wanted), "secret": secret,
            "source": source, **manifest,
        }  # fmt: skip
        old, new = changing.difference(now, wanted, secret=secret, new=_ITS)
        words, undo = f"{now.name} of {place}: {old} → {new}", "`maint playbook undo RUN` puts it back"
        return self.action(str(place), words, arguments, undo=undo, facts=facts, seen=old)


def _groups(sight: Sight, args: RestoreArguments, place: Place, snapshot: str) -> Iterator[str]:
    # A service is meant with its role config groups, which is where most of its settings stand.
    if not place.service or args.role or args.role_group:
        return
    live = sight.manager.role_groups(place)
    yield from (name for name in groups_in(sight, chosen(sight, snapshot), place) if name in live)


def _summary(snapshot: str, found: Sequence[Action], unread: Sequence[str]) -> str:
    words = "" if found else f"nothing that can be read differs from snapshot {snapshot}"
    if not unread:
        return words
    more = (
        f"not compared, since the manager hides them: {len(unread)}; put one back by its name: {', '.join(unread[:3])}"
    )
    return f"{words}; {more}{', …' if len(unread) > 3 else ''}" if words else more
