"""Change one setting: its old value is sealed and can be put back; reading decides what became of the change."""

import json
import secrets
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from maint.deployment.secrets import REDACTED, hidden, masked, sensitive, site_fingerprint
from maint.deployment.secrets_in_text import veiled, without_secrets
from maint.errors import AnswerMissing, NotKept, Refused, UnknownName, WorkFailed
from maint.model.formatting import meant, show_count
from maint.model.json import Moment
from maint.model.manager import Place, Setting
from maint.model.plan import Action
from maint.model.secret import MASK, Secret, know
from maint.ports import ManagerSight, Sight, Site, Undo, Work
from maint.restore.payload import settings_in
from maint.restore.select_snapshot import chosen
from maint.steps.guards import put_proof
from maint.steps.services.places import place_from, refuse_moved
from maint.steps.step import Progress, done, unchanged
from maint.steps.undo_records import KEPT_FOR, UndoRecords

HIDDEN, UNSET = "hidden", "unset"  # prints of what cannot be read, and of what is not set
_SENT, _SEALED = "sent", "sealed"
_LONGEST = 60  # characters of a value that is shown


class SettingChange(msgspec.Struct, frozen=True):
    """One change."""

    place: Place
    name: str
    wanted: str | None  # the value to be set, None to unset it
    secret: bool  # whether the value is one
    before: str  # the print of the value that the plan has seen
    source: str = ""  # the snapshot that has the old value where the manager hides it; "" where it is read

    def __repr__(self) -> str:
        return f"SettingChange({self.name} of {self.place})"


def _planned(action: Action, wanted: str | None) -> SettingChange:
    secret = action.facts["secret"] is True
    if wanted is not None:  # so that no answer of the manager shows a secret
        know(wanted) if secret else veiled(wanted, _known)
    return SettingChange(
        place_from(action.arguments),
        str(action.arguments["name"]),
        wanted,
        secret,
        str(action.facts["before"]),
        str(action.facts["source"]),
    )


def _known(secret: str) -> str:
    know(secret)
    return MASK


def setting_of(manager: ManagerSight, place: Place, name: str) -> Setting:
    """Return a setting as it is now; UnknownName where the place knows none of that name (M19.1)."""
    known = {one.name: one for one in manager.settings_of(place)}
    if name in known:
        return known[name]
    raise no_setting(place, [name], known)


def no_setting(place: Place, names: Sequence[str], known: Iterable[str]) -> UnknownName:
    """Return what is said of names that no setting of a place has."""
    hint = meant(names[0], known, f"`maint setting list {place.options} --all` shows what there is")
    return UnknownName(f"{place} has no setting {', '.join(map(repr, names))}", names[0], hint=hint)


def current(manager: ManagerSight, place: Place, name: str) -> Setting | None:
    """Return a setting as it is now, None where its place is gone; what an old server does not list is not set."""
    listed = manager.settings_if_there(place)
    return None if listed is None else next((one for one in listed if one.name == name), Setting(name))


def is_secret(setting: Setting) -> bool:
    """Return whether a setting's value must not be shown."""
    return sensitive(setting.name, setting.sensitive)


def is_hidden(setting: Setting) -> bool:
    """Return whether the manager hides a setting's value."""
    return hidden(setting.name, setting.value, setting.sensitive)


def print_of(sight: Sight, setting: Setting) -> str:
    """Return what stands for the value of a setting as it is read: a fingerprint under the site's key."""
    return HIDDEN if is_hidden(setting) else value_print(sight, setting.value)


def value_print(sight: Sight, value: str | None) -> str:
    """Return what stands for a value."""
    return UNSET if value is None else site_fingerprint(sight)(value)


def shown_value(value: str | None, *, secret: bool, default: str | None = None) -> str:
    """Return a value as it may be shown: a secret never, a long one by its length."""
    if value is None:
        return f"unset (default {default})" if default and not secret and len(default) <= _LONGEST else "unset"
    if secret:
        return "a secret"
    value = without_secrets(value)
    if len(value) > _LONGEST or "\n" in value:
        return f"{show_count(len(value), 'character')} in {show_count(len(value.splitlines()) or 1, 'line')}"
    return repr(value)


def difference(live: Setting, wanted: str | None, *, secret: bool, new: str) -> tuple[str, str]:
    """Return the old value and the new one as a plan shows them; `new` is what a new secret is called."""
    old = "a secret that the manager hides"
    if not is_hidden(live):
        old = shown_value(live.value, secret=secret, default=live.default)
    if secret and wanted is not None:
        return old, new
    shown = shown_value(wanted, secret=secret, default=live.default)
    return old, f"{shown} with another secret in it" if shown == old and MASK in shown else shown


def refuse_mask(place: Place, name: str, value: str | None) -> None:
    """Refuse a value that only stands in a secret's place (M8.1, M19.2)."""
    if value == REDACTED or masked(value) or MASK in (value or ""):
        shown = without_secrets(value or "")
        raise Refused(f"{shown!r} is what is shown in a secret's place; it is never written to {name} of {place}",
                      hint="give the secret itself, by a reference")  # fmt: skip


def old_source(sight: Sight, place: Place, setting: Setting) -> str:
    """Return the snapshot that holds a value that the manager hides, "" where it can be read.

    Raises:
        Refused: no proven snapshot has it, so that it could not be put back.
    """
    if not is_hidden(setting):
        return ""
    try:
        snapshot = chosen(sight, "")
        put_proof(sight, snapshot.id)
        if setting.name in settings_in(sight, snapshot, place):
            return snapshot.id
        reason = f"snapshot {snapshot.id} does not have it"
    except (Refused, WorkFailed) as error:
        reason = error.message
    raise Refused(
        f"the manager hides the present value of {setting.name}, and it could not be put back: it is not changed",
        detail=[reason],
        hint="`maint backup create --open-window` keeps it; then do this again",
    )


def later_run(sight: Sight, place: Place, name: str, source: str) -> str:
    """Return the run that changed a hidden value after the snapshot that is its source; "" where none did."""
    return changed_since(sight.settings.state, place, name, chosen(sight, source).taken_at) if source else ""


def refuse_unkept(sight: Sight, place: Place, name: str, source: str) -> None:
    """Refuse to overwrite a hidden value that a run set after the snapshot that is its source: nothing keeps it."""
    if run := later_run(sight, place, name, source):
        raise Refused(
            f"run {run} changed {name} of {place} after snapshot {source}: its present value could not be put back",
            hint=f"`maint playbook undo {run}` takes that change back; or keep it by "
            "`maint backup create --open-window`, and do this again",
        )


def carry_out(action: Action, site: Site, work: Work, wanted: str | None) -> Progress:
    """Set it once; by reading it is decided whether that is done, still to do, or somebody else's change.

    Args:
        wanted: the value to be set, None to unset it.
    """
    change = _planned(action, wanted)
    place, name = change.place, change.name
    refuse_moved(action, site, work, place)
    now_is = "is unset" if change.wanted is None else "is set"
    live = current(site.manager, place, name) or Setting(name)
    if is_so(live, change.wanted):
        if work.noted(_SENT):
            return done(f"{name} of {place} {now_is}, by an earlier attempt{put_back_by(site.state, work.run)}")
        return unchanged(f"{name} of {place} is so already")
    now = print_of(site, live)
    mine = [one for one in kept_settings(site.state, work.run) if (one.place, one.name) == (place, name)]
    if now != change.before and not is_own(site, mine, live):
        raise Refused(
            f"{name} of {place} is not what the plan has seen: somebody has changed it since, and it is left alone",
            detail=[f"now it is {shown_value(live.value, secret=change.secret)}"],
            hint="look who did that, then make the plan again",
        )
    if work.noted(_SENT) and now == HIDDEN:
        yield "whether an earlier attempt has set it cannot be read: the manager hides it; the same value is sent again"
    _keep(site, work, change, live)
    work.note(_SENT, True)
    lost = ""
    try:
        site.manager.configure(place, name, change.wanted, f"maint {work.run}")
    except AnswerMissing as error:
        lost = error.message
        yield f"{lost}; reading what became of it"
    after = current(site.manager, place, name) or Setting(name)
    if not is_hidden(after) and not is_so(after, change.wanted):
        raise WorkFailed(
            lost or f"the manager took {name} of {place}, and reads otherwise",
            detail=[f"it reads {shown_value(after.value, secret=change.secret)}"],
            hint="look at the manager; `maint playbook resume` looks again",
        )
    if lost and is_hidden(after):
        hint = "`maint playbook resume` sends the same value again"
        raise WorkFailed(
            f"whether {name} of {place} was set cannot be read: the manager hides it", detail=[lost], hint=hint
        )
    return done(f"{name} of {place} {now_is}{put_back_by(site.state, work.run)}")


def is_own(sight: Sight, kept: "Sequence[KeptSetting]", live: Setting) -> bool:
    """Return whether a setting has a value that a run has set or seen, by all that it keeps of this setting.

    It may have been killed, or refused, before it set the last one; a server may drop what equals the default.
    """
    own = {one.print for one in kept} | {one.was for one in kept}
    dropped = live.value is None and live.default is not None and value_print(sight, live.default) in own
    return dropped or print_of(sight, live) in own


def is_so(live: Setting, wanted: str | None) -> bool:
    """Return whether a setting has a value; what is hidden is never known to."""
    if is_hidden(live):
        return False
    # A server may drop what equals the default (M19.3).
    return live.value == wanted or (live.value is None and wanted is not None and live.default == wanted)


def _keep(site: Site, work: Work, change: SettingChange, live: Setting) -> None:
    sealed = work.noted(_SEALED)
    if not isinstance(sealed, str):
        sealed = secrets.token_hex(16)
        work.note(_SEALED, sealed)
    old = _from_snapshot(site, change) if change.source else live.value
    kept = KeptSetting(
        change.place,
        change.name,
        sealed,
        shown_value(old, secret=change.secret),
        shown_value(change.wanted, secret=change.secret),
        value_print(site, change.wanted),
        change.secret,
        value_print(site, old),
    )
    keep(site, work.run, kept, old)


def _from_snapshot(site: Site, change: SettingChange) -> str | None:
    held = settings_in(site, chosen(site, change.source), change.place).get(change.name)
    return Secret(held.value).reveal() if held and held.value is not None else None


class KeptSetting(msgspec.Struct, frozen=True):
    """One setting that was changed."""

    place: Place
    name: str
    sealed: str  # name of the sealed old value
    before: str  # the old value as it may be shown
    after: str  # the new one as it may be shown
    print: str  # stands for the new value, so that it is told whether somebody has changed it since
    secret: bool  # whether the value is one
    was: str = ""  # stands for the old value; "" in records of older versions


class _Kept(msgspec.Struct, frozen=True):
    until: Moment
    settings: Sequence[KeptSetting] = ()

    @property
    def names(self) -> Sequence[str]:
        return [one.sealed for one in self.settings]


_RECORDS = UndoRecords(
    "setting-undo",
    _Kept,
    "which settings run {run} changed is not known",
    "move the file away; a snapshot may hold the old values: `maint restore config`",
)


def expire(state: Path, undo: Undo, now: datetime) -> None:
    """Drop the old values that were kept for their time."""
    _RECORDS.expire(state, undo, now)


def kept_settings(state: Path, run: str) -> Sequence[KeptSetting]:
    """Return what a run has changed, in its order; WorkFailed where the record is damaged."""
    found = _RECORDS.read(state, run)
    return found.settings if found else ()


def promised(state: Path) -> dict[str, str]:
    """Return the runs whose settings can be put back still, each with the day until which that was said."""
    return {run: f"{record.until:%Y-%m-%d}" for run, record in _RECORDS.all(state)}


def changed_since(state: Path, place: Place, name: str, moment: datetime) -> str:
    """Return the newest run that changed a setting and was at it after a moment, "" where none is known."""
    return next((run for run, at, _ in _changes(state, place, name) if at >= moment), "")


def overwritten_by(state: Path, run: str, one: KeptSetting, own: Container[str]) -> str:
    """Return the newest run that left a setting with another value than those that a run itself saw, "" for none."""
    last = next(_changes(state, one.place, one.name), None)
    return last[0] if last is not None and last[0] != run and last[2].print not in own else ""


def _changes(state: Path, place: Place, name: str) -> Iterator[tuple[str, datetime, KeptSetting]]:
    """Yield who changed a setting, when it was last at one, and how it left this one; the newest first."""
    found = []
    for run, record in _RECORDS.all(state, damaged=True):
        mine = [one for one in record.settings if (one.place, one.name) == (place, name)]
        if mine:
            found.append((record.until - KEPT_FOR, run, mine[-1]))
    yield from ((run, at, one) for at, run, one in sorted(found, key=lambda each: each[:2], reverse=True))


def put_back_by(state: Path, run: str) -> str:
    """Return in words how a run's changes are put back, "" where it has kept nothing."""
    return _RECORDS.way_back(state, run, "playbook undo")


def keep(site: Site, run: str, one: KeptSetting, value: str | None) -> None:
    """Seal an old value and write it down, on disk before this returns; doing it again changes nothing."""
    expire(site.state, site.undo, site.clock.now())
    before = kept_settings(site.state, run)
    if any(each.sealed == one.sealed for each in before):
        return
    with suppress(KeyError):  # an earlier attempt sealed it, and was killed before it wrote that down
        site.undo.keep(json.dumps({"value": value}).encode(), one.sealed)
    until = site.clock.now() + KEPT_FOR
    _RECORDS.write(site.state, run, _Kept(until, (*before, one)))


def old_value(undo: Undo, sealed: str, place: Place, name: str) -> str | None:
    """Return a sealed value, None for one that was not set; WorkFailed where it is gone or damaged."""
    try:
        value = json.loads(undo.fetch(sealed))["value"]
    except (NotKept, ValueError, KeyError, TypeError, RecursionError) as failure:
        became = "is not kept any more" if isinstance(failure, NotKept) else "is kept, but damaged"
        hint = f"take it from a snapshot: `maint restore config {place.options} --property {name}`"
        raise WorkFailed(f"the old value {became}", hint=hint) from None
    return value if isinstance(value, str) else None


def spans(settings: Sequence[KeptSetting]) -> Iterator[KeptSetting]:
    """Yield each setting once, the last changed first: with its oldest value and its newest print."""
    newest: dict[tuple[Place, str], KeptSetting] = {}
    for one in settings:
        first = newest.get((one.place, one.name), one)
        newest[one.place, one.name] = replace(first, after=one.after, print=one.print)
    yield from reversed(newest.values())
