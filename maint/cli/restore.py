"""`maint restore plan|run`: bring a manager back to a snapshot, or a snapshot's clusters back to a manager."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import join
from typing import Annotated

import msgspec
from msgspec.structs import replace

from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.configless import insist_on_manager, settings_of
from maint.cli.open_site import naming, opened
from maint.cli.options import GUARDS, MANAGER, DagRace, Flags, SafetyWindow, option
from maint.cli.run_playbook import carry_out
from maint.cli.screen import ask_change
from maint.engine import last_command
from maint.errors import Failure, Invalid, MaintError, Unfinished
from maint.files import is_file, read_file
from maint.model.json import Json
from maint.model.plan import Action, Plan
from maint.restore.preview import preview
from maint.restore.select_snapshot import chosen
from maint.snapshots.verify import verdict_of
from maint.steps.hosts.fan_out import texts
from maint.steps.restore.deployment import AddClusters, PutDeployment, outgoing_of
from maint.steps.virtual_clusters.recover import FindCluster, contents_of

_SHORTEST = 8  # characters of a digest that still tell plans apart


class RestoreRequest(msgspec.Struct, frozen=True):
    """What the operator wants restored."""

    snapshot: Annotated[str, option("--snapshot", "Its id; else the newest restorable one.")] = ""
    cluster: Annotated[list[str], option("--cluster", "Bring back only this cluster, which the manager lacks.")] = []
    map_host: Annotated[list[str], option("--map-host", "OLD=NEW: a host that has become another machine.")] = []
    open_window: SafetyWindow = False
    accept_dag_race: DagRace = False
    source_gone: Annotated[
        bool, option("--source-gone", "Although a virtual cluster's source still answers: it does no harm.")
    ] = False
    manager_only: Annotated[
        bool, option("--manager-only", "Bring back the manager, and leave virtual clusters as they are.")
    ] = False

    def or_as_in(self, given: Mapping[str, Json]) -> "RestoreRequest":
        """Return what a saved plan was made for, where nothing else is said; whatever differs makes it stale."""
        return RestoreRequest(
            self.snapshot or str(given.get("snapshot") or ""),
            self.cluster or texts(given.get("clusters")),
            self.map_host or texts(given.get("map_hosts")),
            self.open_window or bool(given.get("open_window")),
            self.accept_dag_race or bool(given.get("accept_dag_race")),
            self.source_gone or bool(given.get("source_gone")),
            self.manager_only or given.get("virtual_clusters") == [],
        )


@command(MANAGER, GUARDS)
def plan(flags: Flags, request: RestoreRequest) -> int:
    """Show what a restore would do, in which order, what it would meet, and what would be lost."""
    insist_on_manager(flags.connection)
    name, given = _playbook(flags, request, shown=True)
    with _naming_a_way_round():
        return carry_out(replace(flags, dry_run=True), name, given, beside=restore_preview)


@command(MANAGER, GUARDS, playbooks=("disaster-recovery", "restore-cluster --cluster NAME"))
def run(
    flags: Flags,
    request: RestoreRequest,
    planned: Annotated[str, option("--plan", "Only if the plan still has this digest; or a saved plan.")] = "",
    then_start: Annotated[bool, option("--then-start", "Start agents, monitors and the clusters after it.")] = False,
) -> int:
    """Bring a manager back to a snapshot's configuration, or clusters back to a manager, and prove that it is so."""
    insist_on_manager(flags.connection)
    expect, given = planned_as(planned)
    request = request.or_as_in(given)
    name, given = _playbook(flags, request)
    if then_start and not flags.dry_run:
        question = "once the restore is done, start agents, monitors and the clusters?"
        ask_change(flags.screen(), question, yes=flags.yes)

    def start() -> int:
        if not then_start or flags.dry_run:
            return 0
        key = flags.run_key and f"{flags.run_key}, then start"
        alone = flags.quiet or flags.screen().output != "table"  # the restore's run is the one document
        clusters = request.cluster or _clusters(flags, str(given["snapshot"]))
        asked = replace(flags, yes=True, run_key=key, output="table", quiet=alone)
        with _naming_the_start(flags, clusters):
            return carry_out(asked, "start-platform", {"clusters": clusters})

    try:
        with _naming_a_way_round():
            code = carry_out(flags, name, given, expect=expect, beside=restore_preview)
    except Unfinished as unfinished:  # a virtual cluster is made in a platform that runs
        try:
            start()
        except MaintError as error:
            error.hint = "; ".join(filter(None, [error.hint, unfinished.hint]))
            raise
        raise
    return code or start()


@contextmanager
def _naming_the_start(flags: Flags, clusters: Sequence[str]) -> Iterator[None]:
    """Where what was restored cannot be started, say what starts it: the restore is not to be repeated for that."""
    try:
        yield
    except MaintError as error:
        if "playbook resume" not in (error.hint or ""):  # no run has begun
            words = join(["maint", "manager", "start", *(word for one in clusters for word in ("--cluster", one))])
            settings = settings_of(flags)
            start = naming(settings, settings.site().name, flags)(f"`{words}`")
            error.hint = "; ".join(filter(None, [error.way_on, f"{start} starts it without another restore"]))
        raise


@contextmanager
def _naming_a_way_round() -> Iterator[None]:
    """Where a virtual cluster stands in the way of a plan, say how the manager comes back meanwhile."""
    try:
        yield
    except MaintError as error:
        if error.lane:
            error.hint = f"{error.hint or 'mend it'}; meanwhile `--manager-only` brings the manager back"
        raise


def _playbook(flags: Flags, request: RestoreRequest, *, shown: bool = False) -> tuple[str, dict[str, Json]]:
    """Return the playbook for what was asked, and its parameters; the snapshot by its whole id, so that plans agree.

    Args:
        shown: whether it is only to be shown, so that nothing was asked for that a run may lack.
    """
    with opened(flags, warn_of_window=False) as (site, _):
        if not (flags.dry_run or shown):
            last_command.note(site.state, flags.command, site.clock.now())
        snapshot = chosen(site, request.snapshot).id
    given: dict[str, Json] = {"snapshot": snapshot, "map_hosts": request.map_host}
    given["open_window"] = request.open_window
    if request.cluster:
        return "restore-cluster", {**given, "clusters": request.cluster}
    given |= {"accept_dag_race": request.accept_dag_race, "source_gone": request.source_gone}
    return "disaster-recovery", {**given, "virtual_clusters": []} if request.manager_only else given


def _clusters(flags: Flags, snapshot: str) -> list[str]:
    """Return the clusters that a snapshot holds."""
    with opened(flags) as (site, _):
        return list(verdict_of(site, chosen(site, snapshot)).summary.clusters)


def restore_preview(site: ConfiguredSite, plan: Plan) -> tuple[dict[str, Json], str]:
    """Return what a plan that restores would meet, for programs and for people."""
    sending = (PutDeployment.kind, AddClusters.kind)
    action = next(action for action in plan.actions if action.kind in sending)
    sent = outgoing_of(action, site)
    found, uncovered = preview(site, sent, action.facts["present"]), list(sent.snapshot.uncovered)
    missing = [f"{'lacks' if number == 0 else '':9} {words}" for number, words in enumerate(uncovered)]
    clusters = [_look(site, one) for one in plan.actions if one.kind == FindCluster.kind]
    lines = [f"virtual   {one['name']} at {one['base_url']}: {_answers(one)}" for one in clusters]
    return {**found.to_json(), "virtual_clusters": clusters, "uncovered": uncovered}, "\n".join(
        [*found.lines(), *lines, *missing, f"digest    {plan.digest}"]
    )


def _look(site: ConfiguredSite, action: Action) -> dict[str, Json]:
    """Return whether a virtual cluster that is to come back answers by now; no part of the plan's digest."""
    cluster = site.virtual_cluster(str(action.arguments["vc"]))
    settings = cluster.settings
    answers, holds = cluster.answers(settings.base_url), None
    if answers:
        with suppress(Failure):  # an account that is not let in learns so when the run looks
            holds = contents_of(cluster)
    if settings.base_url.rstrip("/") != str(action.arguments["source"]).rstrip("/"):
        holds = None  # a new one, where things come back
    return {"name": settings.name, "base_url": settings.base_url, "answers": answers, "holds": holds or None}


def _answers(one: Mapping[str, Json]) -> str:
    if one["holds"]:
        return f"answers, and holds {one['holds']}: where that is still so, nothing in it is changed"
    if one["answers"]:
        return "answers"
    return "does not answer; where it still does not once the manager is back, the run stops and says what to do"


def planned_as(text: str) -> tuple[str | None, Mapping[str, Json]]:
    """Return the digest that `--plan FILE|DIGEST` names, None without one, and a FILE's parameters; else Invalid."""
    path = Path(text)
    if text and is_file(path):
        try:
            saved = json.loads(read_file(path))
            if not _is_digest(digest := str(saved["digest"])):  # an empty one would fit every plan
                raise ValueError
            return digest, Plan.from_json(saved["plan"]).parameters
        except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError) as error:
            raise Invalid(
                f"{path} is not a saved plan", hint="`maint restore plan -o json > FILE` writes one"
            ) from error
    if text and not _is_digest(text):
        hint = "`maint restore plan` shows the digest"
        raise Invalid(f"{text!r} is neither a file nor the digest of a plan", hint=hint)
    return text or None, {}


def _is_digest(text: str) -> bool:
    return len(text) >= _SHORTEST and all(character in "0123456789abcdef" for character in text)
