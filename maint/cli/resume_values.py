"""Go on with a run: the values of `playbook resume --set`, and the run that a `--run-key` names.

The plan fixed which virtual clusters come back, from which snapshot, and what is done. An address is none of it: it
does not exist while the plan is made. The operator names the virtual cluster with it, and the journal keeps it.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from maint.cli.composition import BEFORE_TLS, ConfiguredSite
from maint.cli.configless import gateway_of, location
from maint.cli.options import Flags
from maint.cli.run_report import action_json
from maint.cli.screen import Screen
from maint.config.fields import API_PATH, endpoint, jobs_api, url
from maint.config.paths import absolute
from maint.engine import past_runs
from maint.engine.history import actions_left
from maint.engine.journal import RunState
from maint.errors import Invalid, PartlyDone, Refused
from maint.files import is_file
from maint.model.formatting import did_you_mean, tell_times
from maint.model.json import Json
from maint.model.plan import Action, Phase, Plan
from maint.ports import Site
from maint.steps.restore.deployment import ANSWER

FIELDS = ("base_url", "auth_url", "connect_to", "ca", "source_gone", "initialised", "confirmed", "skip")
_FINDS = "vc.find"  # the step kind that takes an address
CLUSTERS = "virtual_clusters"  # where they are that a run changes, in the options of its journal
HOSTS = "hosts"  # where they are on which a run may act, and their keys, in the options of its journal
_BY_THEMSELVES = ("manager", "ecs-master")  # groups of hosts on which steps act that name none
_STORE = "store"  # what was read instead of the config's store, in the options of its journal
_RESTARTS = {"server.restart", "tls.switch"}
MANAGER = "manager"  # where a run works, in the options of its journal and as an answer
_SWITCHES = (ANSWER, "source_gone", "initialised", "confirmed", "skip")
_WORDS = {"true": True, "yes": True, "false": False, "no": False}
_FORM = "vc.NAME.base_url=https://HOST/dex/api/v1"

Said = Mapping[str, Mapping[str, str]]


def by_lane(given: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return `vc.NAME.FIELD=VALUE` as name → field → value; Invalid: a key is none of these."""
    found: dict[str, dict[str, str]] = {}
    for key, value in given.items():
        if key in (ANSWER, MANAGER):
            found.setdefault("", {})[key] = value
            continue
        head, _, rest = key.partition(".")
        name, _, field = rest.rpartition(".")
        if head != "vc" or not name or field not in FIELDS:
            guess = did_you_mean(field, FIELDS) if head == "vc" and name else None
            raise Invalid(
                f"--set {key}: a run that is taken up takes vc.NAME.FIELD, with FIELD one of {', '.join(FIELDS)}",
                detail=["all else was fixed when it was planned"],
                hint=f"did you mean --set vc.{name}.{guess}=…?" if guess else f"such as --set {_FORM}",
            )
        found.setdefault(name, {})[field] = value
    return found


def checked(site: ConfiguredSite, past: RunState, said: Said) -> dict[str, dict[str, Json]]:
    """Return what is new in what was said by virtual cluster; the site looks where earlier attempts were pointed to.

    Raises:
        Invalid: a value makes no sense, or the run does not bring such a virtual cluster back.
        Refused: it is back already, nothing answers there, it is somebody else's address, or the source lives; or the
            config names another manager than the run's, another host, or another address of a virtual cluster.
    """
    moved = f"`maint playbook resume {past.id} --set {MANAGER}={manager_of(site)}`"
    refuse_elsewhere(site, past, said.get("", {}).get(MANAGER, ""), moved)
    _refuse_moved(site, past)
    _refuse_exchanged(site, past)
    for name, values in past.answers.items():
        if name:
            site.find_at(name, values)
    told: dict[str, dict[str, Json]] = {}
    for name, texts in said.items():
        if not name:
            told[name] = _answer(past, texts)
            continue
        _refuse_unknown(past, name)
        known = past.answers.get(name, {})
        values = _read(name, texts)
        fresh = {key: value for key, value in values.items() if value != known.get(key, _present(site, name, key))}
        if not fresh:
            continue
        _refuse_back(past, name)
        site.find_at(name, fresh)
        told[name] = fresh
    for name, fresh in told.items():
        if "base_url" in fresh:
            _refuse_address(site, past, name, {**past.answers.get(name, {}), **fresh})
    _trust_own(site, _lanes(past))
    return told


def manager_of(site: ConfiguredSite) -> str:
    """Return where the site's manager is, as HOST:PLAIN:TLS."""
    return ":".join(map(str, site.settings.manager.address))


def refuse_elsewhere(
    site: ConfiguredSite, past: RunState, said: str = "", otherwise: str = "`maint setting set` sets one by one"
) -> None:
    """Refuse to go on with a run, or to undo it, on another manager than its own.

    Args:
        said: where that manager is by now, as the operator says.
        otherwise: what to do where it is the same manager at another address.
    """
    here = manager_of(site)
    begun = said or past.answers.get("", {}).get(MANAGER) or past.options.get(MANAGER) or here  # not in older journals
    if begun != here:
        raise Refused(
            f"run {past.id} works on the manager at {begun}, and the config names the one at {here}",
            hint=f"let the config name that one again; where it is the same manager at another address: {otherwise}",
        )


def addresses_of(site: ConfiguredSite, plan: Plan) -> dict[str, Json]:
    """Return where the virtual clusters are that a plan changes, by name; not of those whose address it asks for."""
    named = {str(action.arguments["vc"]) for action in plan.actions if "vc" in action.arguments and not action.lane}
    return {one.name: one.base_url for one in site.settings.virtual_clusters if {one.name, ""} & named}


def as_found_now(site: ConfiguredSite, action: Action) -> Action:
    """Return an action of a plan with the address where its virtual cluster is by now, which may have moved since."""
    here = next((one.base_url for one in site.settings.virtual_clusters if one.name == action.lane), "")
    return replace(action, summary=re.sub(rf"https?://\S+{API_PATH}", here, action.summary)) if here else action


def _refuse_moved(site: ConfiguredSite, past: RunState) -> None:
    """Refuse to go on with a run in another virtual cluster, which the config gives the name of its own by then."""
    begun, here = past.options.get(CLUSTERS), addresses_of(site, past.plan)  # not in older journals
    for name, address in begun.items() if isinstance(begun, dict) else ():
        if here.get(name, address) != address:
            raise Refused(
                f"run {past.id} works in virtual cluster {name} at {address}, and the config names {here[name]}",
                hint="let the config name that address again; where it is the same one at another address:"
                f" `maint playbook dismiss {past.id} --reason WORDS`, and begin anew what is left",
            )


def hosts_of(site: ConfiguredSite, plan: Plan) -> dict[str, Json]:
    """Return where the hosts are on which a plan may act, by name, each followed by the fingerprints of its keys."""
    ssh, settings = site.settings.ssh, site.settings
    if ssh is None or not plan.locks:
        return {}
    from maint.adapters.ssh.known_hosts import recorded_name, trusted  # many sites have no hosts

    every = {host.name: host for host in (*settings.hosts_in("manager"), *settings.hosts)}
    named = {str(one) for action in plan.actions for value in action.arguments.values() for one in _each(value)}
    named.update(host.name for group in _BY_THEMSELVES for host in settings.hosts_in(group))
    with suppress(Invalid):  # then no host is known, and a step that needs one says so
        known = trusted(ssh)
        return {
            name: [
                f"{at.address}:{port}",
                *(key.fingerprint for key in known.keys([recorded_name(one, port) for one in (at.address, name)])),
            ]
            for name, at in every.items()
            if name in named
            for port in [at.port or ssh.port]
        }
    return {}


def _each(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list | tuple) else [value]


def _refuse_exchanged(site: ConfiguredSite, past: RunState) -> None:
    """Refuse to go on with a run on another host, to which the config gives the name of its own by then.

    A host is the same at another address where that has one of its keys; one that nobody knew has done nothing yet.
    """
    begun, here = past.options.get(HOSTS), hosts_of(site, past.plan)  # not in older journals
    for name, then in begun.items() if isinstance(begun, dict) else ():
        (place, *keys), (now, *found) = _each(then), _each(here.get(name, then))
        if now != place and keys and not {*map(str, keys)} & {*map(str, found)}:
            trust = "" if found else f"`maint host trust {name}` where it is the same host; "
            raise Refused(
                f"run {past.id} works on host {name} at {place}, and the config names {now}",
                detail=["no key of that one is known"] if trust else ["the keys that are known of these two differ"],
                hint=f"{trust}let the config name that address again; where it is the same host with a new key:"
                f" `maint playbook dismiss {past.id} --reason WORDS`, and begin anew what is left",
            )


def _answer(past: RunState, texts: Mapping[str, str]) -> dict[str, Json]:
    """Return what the operator answers for the run as a whole; Refused: the run has not asked."""
    found: dict[str, Json] = {MANAGER: texts[MANAGER]} if MANAGER in texts else {}
    if ANSWER not in texts:
        return found
    if ANSWER not in past.needs:
        raise Refused(
            f"run {past.id} has not asked whether its deployment was applied",
            hint=f"`maint playbook resume {past.id}` without --set lets it look by itself",
        )
    return {**found, ANSWER: _value(ANSWER, ANSWER, texts[ANSWER])}


def _trust_own(site: ConfiguredSite, names: Sequence[str]) -> None:
    for name in names:
        from maint.steps.virtual_clusters.recover import trust_own  # most runs have nothing to do with virtual clusters

        trust_own(site, name)


def _lanes(past: RunState) -> list[str]:
    """Return the virtual clusters that a run brings back."""
    return [action.lane for action in past.plan.actions if action.lane and action.kind == _FINDS]


def _refuse_unknown(past: RunState, name: str) -> None:
    lanes = _lanes(past)
    if name in lanes:
        return
    if not lanes:
        raise Invalid(
            f"run {past.id} ({past.plan.source}) brings no virtual cluster back, and can be told nothing",
            hint=f"`maint playbook resume {past.id}` without --set takes it up",
        )
    guess = did_you_mean(name, lanes) or lanes[0]
    raise Invalid(
        f"run {past.id} brings back no virtual cluster {name!r}",
        detail=[f"it brings back: {', '.join(lanes)}"],
        hint=f"did you mean --set vc.{guess}.base_url=…?",
    )


def _refuse_back(past: RunState, name: str) -> None:
    if all(past.record(index).settled for index in past.lane(name)):
        raise Refused(
            f"virtual cluster {name} is back already: this run has nothing left to do with it",
            hint="was another one meant? `maint playbook report` shows how far each has come",
        )


def _read(name: str, texts: Mapping[str, str]) -> dict[str, Json]:
    """Return the values in their types; a new address brings its gateway along."""
    found: dict[str, Json] = {field: _value(f"vc.{name}.{field}", field, text) for field, text in texts.items()}
    address = found.get("base_url")
    if isinstance(address, str) and "auth_url" not in found:
        found["auth_url"] = gateway_of(address)
    return found


def _value(key: str, field: str, text: str) -> Json:
    said = f"--set {key}" if "@" in text else f"--set {key}={text}"  # what stands before it may be a password
    if field in _SWITCHES:
        if text.lower() not in _WORDS:
            raise Invalid(f"{said}: write true or false", hint=f"such as --set {key}=true")
        return _WORDS[text.lower()]
    if field == "ca":
        if not is_file(Path(text)):
            raise Invalid(f"{said}: there is no such file", hint="a PEM bundle; see `ca` in the config")
        return str(absolute(text))
    if "@" in text:
        raise Invalid(
            f"{said}: an address holds no user and no password",
            hint=f"such as --set {_FORM}; the account is in the config",
        )
    shaped = {"connect_to": endpoint, "base_url": jobs_api}.get(field, url)
    try:
        return shaped(text.rstrip("/"))
    except ValueError as error:
        raise Invalid(f"{said}: {error}", hint=f"such as --set {_FORM}") from None


def _present(site: ConfiguredSite, name: str, field: str) -> Json:
    """Return what holds without anything being said."""
    if field in _SWITCHES:
        return False
    found = getattr(site.settings.virtual_cluster(name), field)
    return str(found).rstrip("/") if found is not None else None


def _refuse_address(site: ConfiguredSite, past: RunState, name: str, values: Mapping[str, Json]) -> None:
    """Refuse an address where the virtual cluster cannot be, or must not be yet."""
    from maint.restore.conflicts import refuse_live_source

    address = str(values["base_url"])
    for other in site.settings.virtual_clusters:
        if other.name != name and other.base_url.rstrip("/") == address:
            raise Refused(
                f"{address} is the address of another virtual cluster of this site",
                hint=f"give that of {name}: on its details page in the vendor's UI",
            )
    if not site.virtual_cluster(name).answers(address):
        raise Refused(
            f"nothing answers at {address}",
            detail=["nothing was touched, and nothing written down"],
            hint="is it copied whole? A new virtual cluster needs some minutes: then the same command again",
        )
    action = next(one for one in past.plan.actions if one.lane == name and one.kind == _FINDS)
    gone = action.arguments["source_gone"] is True or values.get("source_gone") is True
    refuse_live_source(
        str(action.arguments["source"]),
        site.virtual_cluster(name),
        gone=gone,
        waiver=f"--set vc.{name}.source_gone=true",
    )


def store_of(flags: Flags) -> dict[str, Json]:
    """Return what a journal keeps of a store that was named instead of the config's; empty where none was."""
    connection = flags.connection
    return {_STORE: location(connection.store)} if connection.store and not connection.replaces_config else {}


def from_its_store(flags: Flags, past: RunState) -> Flags | None:
    """Return the flags with the store that a run was told to read, None where they name one, or it was told none."""
    store = str(past.options.get(_STORE) or "")
    if not store or flags.connection.store or flags.connection.replaces_config:
        return None
    return replace(flags, connection=replace(flags.connection, store=store))


def before_tls(past: RunState) -> tuple[set[str], bool]:
    """Return the kinds of a run's steps, none where the restart that gives TLS lies behind; whether it has put."""
    kinds, left = {action.kind for action in past.plan.actions}, actions_left(past)
    # A final step that has ended, and only follows this attempt too, gives no TLS that is not there already.
    remaining = {one.kind for one, state in left if one.phase is not Phase.FINALLY or state != "looks again"}
    puts = [index for index, action in enumerate(past.plan.actions) if action.kind == "deployment.put"]
    sent = any(past.record(index).notes.get("sent") is not None for index in puts)
    behind = kinds & _RESTARTS and not remaining & {*BEFORE_TLS, *_RESTARTS}
    return (set() if behind else kinds), sent


def keyed(flags: Flags, playbook: str = "") -> dict[str, Json]:
    """Return what a journal keeps of a command with a key, and of its playbook's text; empty where it has none."""
    if not flags.run_key:
        return {}
    return {"run_key": flags.run_key, "asked": hashlib.sha256(f"{flags.asked}\n{playbook}".encode()).hexdigest()}


def earlier_run(site: Site, key: Mapping[str, Json]) -> RunState | None:
    """Return the run that a command with this key began, None where it is to begin one.

    A run that was refused has done nothing, and one that was dismissed is given up: neither stands in the way.

    Raises:
        Refused: the key is another command's.
    """
    past = past_runs.of_key(site.state, str(key["run_key"])) if key else None
    if past is None or past.state in ("refused", "dismissed"):
        return None
    if past.options.get("asked") != key["asked"]:
        raise Refused(
            f"the key {key['run_key']!r} belongs to another command: run {past.id} ({past.plan.source}), {past.state}",
            detail=["a key stands for one command with its arguments and the playbook as it was then"],
            hint="use a new key; `maint playbook history` lists the runs",
        )
    return past


def done_already(screen: Screen, past: RunState) -> None:
    """Say that a run is done already; PartlyDone: so it ended then."""
    ended = [(action, past.record(index).result) for index, action in enumerate(past.plan.actions)]
    actions = [action_json(action, result) for action, result in ended if result]
    words = f"done already: run {past.id} ({past.plan.source}), ended {tell_times(past.at)}"
    screen.say(words)
    if screen.output != "table":
        screen.emit({"run": past.id, "playbook": past.plan.source, "actions": actions, "done_already": True}, "")
    if partly := [result.detail for _, result in ended if result and result.partly]:
        raise PartlyDone(f"{words}, but not all that was asked for", detail=partly, hint="see what is left above")
