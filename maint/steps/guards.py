"""Prove before destroy: what must hold before a cluster is stopped or deleted and before a deployment is sent.

The rules, which the steps keep by themselves, in the plan and again just before they act:

- A cluster is stopped or deleted only when a restorable snapshot that holds it, on one of its hosts at least, no
  older than `max_age`, passes verification to level 3. Safety copies do not count, nor does a namesake on other
  hosts, such as another manager's, nor what was taken before the manager was upgraded: it would not take that back.
  Where a whole deployment is about to be put over the server, the proof for stopping its clusters is the very
  snapshot to be put, whatever its age and whichever clusters it holds: stopping loses nothing that the PUT would not
  replace a moment later, and the PUT asks for that proof itself.
- An ECS cluster is cleaned off its hosts or deleted only when, of each virtual cluster that the config names, a
  complete backup no older than `max_age` passes verification to level 2: which cluster carries which nobody can tell
  once it is stopped, and an empty list may be a missing role. `manager/clusters.py`: those that Kubernetes names.
- A deployment is sent only when the very snapshot that it comes from passes level 3, whatever its age and whatever
  became of the virtual clusters in it.
- Before a delete and before anything is sent, the present state is exported besides, as a safety snapshot, and proven
  to level 2; a redacted one will do, and says that it is audit-only. A run that is taken up exports it again where the
  manager has changed since. With `open_window` it is taken through the redaction window, which closes again before
  anything is destroyed.

`no_safety_net` lifts all rules but that of the deployment to be sent, which nothing lifts, and is said aloud.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from weakref import WeakKeyDictionary

from pydantic import Field

from maint.config.fields import Limit
from maint.deployment.secrets import REDACTED
from maint.errors import CannotReach, Invalid, Refused, WorkFailed
from maint.model.formatting import show_count, show_duration
from maint.model.manager import Cluster
from maint.model.plan import Action
from maint.model.snapshot import Purpose, Snapshot
from maint.ports import Sight, Site, Work
from maint.restore.preconditions import release_fits
from maint.restore.select_snapshot import GUARDED, clusters_in
from maint.snapshots.capture import (
    committed,
    described,
    forget_taken,
    recipients_of,
    refuse_closed,
    refuse_full,
    taken_once,
)
from maint.snapshots.catalogue import Entry, Gone, entries
from maint.snapshots.diff import differences, of_server, of_snapshot
from maint.snapshots.open_windows import remembered
from maint.snapshots.parts import DEPLOYMENT
from maint.snapshots.records import Verification
from maint.snapshots.verify import future, verify
from maint.snapshots.virtual_clusters.document import part_name
from maint.steps.manager.window import OpenWindow, close_own
from maint.steps.step import Arguments, NoArguments

MAX_AGE = 86400.0  # seconds; a day: what a nightly backup can keep
_SHOWN = 5  # snapshots whose shortcomings are named
_PROVEN: WeakKeyDictionary[Site, set[tuple[str, str]]] = WeakKeyDictionary()  # in which run, and which snapshot
_TAKE = "`maint backup create --open-window` takes one that will do"
_WAIVE = "`--no-safety-net REASON` goes without"


class Guarded(Arguments):
    """What every guarded step accepts: why its backup guards are lifted; empty: they are not."""

    no_safety_net: str = Field("", description="a reason to go on without the guard; loud, and journalled")


class Proven(Guarded):
    """How old the snapshot may be that proves that a cluster can come back."""

    max_age: Limit = Field(MAX_AGE, description="how old the proving snapshot may be")


class SafetyArguments(Guarded):
    """Whether the safety export goes through the redaction window."""

    open_window: bool = Field(False, description="take the safety snapshot through the redaction window")


def cluster_proof(sight: Sight, cluster: Cluster | None, max_age: float) -> Verification:
    """Return the verification of the newest snapshot that proves that a cluster can come back.

    Args:
        cluster: what it must hold; None for any restorable snapshot.
        max_age: seconds.

    Raises:
        Refused: there is none; with what is wrong with each that could have been.
    """
    reasons: list[str] = []
    for entry in _candidates(sight):
        if old := _too_old(sight, entry, max_age):
            reasons.append(old)
            break
        try:
            judged = None if _unfit(entry) else verify(sight, entry.id, 3, read_before=True)
        except Gone as gone:  # an older one may prove as much
            reasons.append(gone.message)
            continue
        reason = _unfit(entry) if judged is None else _shortcoming(sight, entry, judged, cluster)
        if judged is not None and not reason:
            return judged
        reasons.append(f"{entry.id} {reason}")
    wanted = f"cluster {cluster.name}" if cluster else "this site"
    raise Refused(
        f"no snapshot proves that {wanted} can come back, so nothing is destroyed",
        detail=[*(reasons[:_SHOWN] or [f"there is no backup in {sight.store.location}"]), GUARDED],
        hint=f"{_TAKE}; {_WAIVE}",
    )


def contents_proof(sight: Sight, args: Proven) -> Mapping[str, Snapshot]:
    """Return what brings each virtual cluster back that may go with an ECS cluster, nothing where that is waived.

    Raises:
        Refused: of one of them there is no backup that will do; with what is wrong with each that could have been.
    """
    listed, judged = list(_candidates(sight)), dict[str, Verification]()
    names = [] if args.no_safety_net else [one.name for one in sight.settings.virtual_clusters]
    return {name: _holding(sight, name, listed, judged, args.max_age) for name in names}


def _holding(
    sight: Sight, name: str, listed: Iterable[Entry], judged: dict[str, Verification], max_age: float
) -> Snapshot:
    reasons: list[str] = []
    for entry in listed:
        held = [one for one in entry.snapshot.virtual_clusters if one.name == name] if entry.snapshot else []
        if entry.snapshot is None or not entry.snapshot.has(part_name(name)):
            reasons += [f"{entry.id}: {entry.problem}"] if entry.snapshot is None else []
            continue
        if (ahead := future(sight, entry.snapshot)).passed is False:
            reasons.append(f"{entry.id}: {ahead.words}")
            continue
        if old := _too_old(sight, entry, max_age):
            reasons.append(old)
            break
        if lacking := [words for one in held for words in (*one.problems, one.doubt) if words]:
            reasons.append(f"{entry.id} does not hold it wholly: {lacking[0]}")
            continue
        try:
            if entry.id not in judged:
                judged[entry.id] = verify(sight, entry.id, 2, read_before=True)
        except Gone as gone:
            reasons.append(gone.message)
            continue
        if judged[entry.id].proven:
            return entry.snapshot
        reasons.append(f"{entry.id} is not proven: {judged[entry.id].words}")
    raise Refused(
        f"no backup proves that virtual cluster {name} can come back, so nothing is destroyed",
        detail=[*(reasons[:_SHOWN] or [f"there is none of it in {sight.store.location}"]), GUARDED],
        hint=f"`maint vc backup --vc {name}` takes one that will do, while it still answers; `--max-age` lets an "
        f"older one do; where {name} runs elsewhere or is gone, take it out of `virtual_clusters` for this run; "
        f"{_WAIVE}, and without any other proof",
    )


def contents_words(sight: Sight, args: Proven, found: Mapping[str, Snapshot]) -> str:
    """Return what a plan says about the virtual clusters that may go with an ECS cluster; `found`: what proves them."""
    names = ", ".join(one.name for one in sight.settings.virtual_clusters)
    if not names:
        return "; the config names no virtual cluster: what any that it carries holds does not come back"
    if args.no_safety_net:
        return f"; WARNING: without a proof that virtual clusters come back: {names} ({args.no_safety_net})"
    return "".join(
        f"; virtual cluster {name} ({show_count(one.jobs, 'job')}, {show_count(one.resources, 'resource')}), "
        f"where it runs there, goes too and comes back from snapshot {snapshot.id}"
        for name, snapshot in found.items()
        for one in snapshot.virtual_clusters
        if one.name == name
    )


def prove_contents(action: Action, site: Site, work: Work) -> Generator[str, None, None]:
    """Prove again, just before an ECS cluster goes, the snapshots that the plan names, whatever their age is by now.

    Files are read anew once in a run: when the cluster is deleted, what its hosts held is gone already.
    """
    # By now nobody can take another one: the virtual clusters are stopped.
    planned = action.arguments.get("virtual_clusters")
    for name, snapshot in planned.items() if isinstance(planned, Mapping) else ():
        yield f"proving that virtual cluster {name} can come back"
        proven = _PROVEN.setdefault(site, set())
        judged = verify(site, str(snapshot), 2, read_before=(work.run, str(snapshot)) in proven)
        if not judged.proven:
            raise Refused(
                f"snapshot {snapshot}, which was to bring virtual cluster {name} back, is proven no more",
                detail=[judged.words, GUARDED],
                hint="where a copy in another store is sound (`maint backup verify --store`), put what is damaged "
                f"back from there, then `maint playbook resume`; {_WAIVE}",
            )
        proven.add((work.run, str(snapshot)))


def put_proof(sight: Sight, snapshot: str) -> Verification:
    """Return the verification to level 3 of the very snapshot about to be put, or refuse; nothing lifts this."""
    judged = verify(sight, snapshot, 3, read_before=True, rebuilding=True)
    if judged.proven:
        return judged
    raise Refused(
        f"snapshot {snapshot} is not proven restorable, so it is not sent",
        detail=[judged.words, GUARDED],
        hint=f"{judged.way_on}; `--no-safety-net` does not help here",
    )


def plan_to_keep(sight: Sight, args: SafetyArguments) -> str:
    """Return words on the safety export that will be taken; refuses early where it could not be."""
    if args.no_safety_net:
        return f"; WARNING: without a safety net ({args.no_safety_net})"
    with naming_the_waiver():
        recipients_of(sight)
        refuse_full(sight)  # else clusters are stopped for what does not follow
        refuse_closed(sight)
    if not args.open_window:
        words = "; the present state is exported first"
        if REDACTED not in sight.manager.settings().values():
            return words
        return f"{words}, for audit only, since the manager redacts its API: `--open-window` makes it restorable"
    list(OpenWindow().plan(NoArguments(), sight))
    return "; the present state is exported first, through the redaction window (the manager restarts twice)"


def keep(action: Action, site: Site, work: Work) -> Generator[str, None, str]:
    """Store a safety snapshot, proven, once for all attempts of the run as long as the manager holds what is in it;
    return words for the outcome.
    """
    if waived := str(action.arguments["no_safety_net"]):
        yield f"WARNING: no safety net, the present state is not kept: {waived}"
        return f"without a safety net ({waived})"
    through_window = bool(action.arguments["open_window"])
    if (before := committed(site, work, Purpose.SAFETY)) is not None and _has_changed(site, before):
        yield f"the manager has changed since safety snapshot {before.id}, which stays: it is kept as it is now, too"
        forget_taken(work)
    try:
        with naming_the_waiver():
            if through_window and committed(site, work, Purpose.SAFETY) is None:
                yield from _open(site, work)
            snapshot = yield from taken_once(site, work, Purpose.SAFETY)
    finally:
        window = remembered(site.state) if through_window else None
        if window is not None and window.run == work.run:
            yield from close_own(site, window, work.heir())
    yield f"the present state is kept: {described(snapshot)}"
    return f"the state before is safety snapshot {snapshot.id}{'' if snapshot.restorable else ', audit-only'}"


def _has_changed(site: Site, before: Snapshot) -> bool:
    """Whether the manager holds anything else by now than an earlier attempt has kept: days may lie between them."""
    kept, now = of_snapshot(site, before, redacted=True, whole=True), of_server(site, whole=True)
    return not differences(site, kept, now).same


@contextmanager
def naming_the_waiver() -> Iterator[None]:
    """Say of whatever keeps a safety snapshot from being taken how the work goes on without one."""
    try:
        yield
    except (WorkFailed, CannotReach, Refused, Invalid) as error:
        way = f"begun anew with {_WAIVE}: what is there now is then not kept"
        error.hint = f"{error.way_on or 'mend what it names'}; {way}"
        raise


def prove_cluster(action: Action, site: Site, cluster: Cluster) -> Generator[str, None, None]:
    """Prove again, just before it is stopped or deleted, that a cluster can come back, or refuse."""
    if waived := str(action.arguments["no_safety_net"]):
        yield f"WARNING: no safety net, whether cluster {cluster.name} can come back is not proven: {waived}"
        return
    yield f"proving that cluster {cluster.name} can come back"
    put = action.arguments.get("snapshot")
    age = float(str(action.arguments["max_age"]))
    judged = put_proof(site, put) if isinstance(put, str) else cluster_proof(site, cluster, age)
    yield f"proven by snapshot {judged.snapshot}: {judged.words}"


def _open(site: Site, work: Work) -> Generator[str, None, None]:
    opening = OpenWindow()
    for action in opening.plan(NoArguments(), site):
        yield from opening.apply(action, site, work)


def _candidates(sight: Sight) -> Iterator[Entry]:
    # Safety copies prove nothing.
    for entry in reversed(entries(sight)):
        if entry.snapshot is None or entry.snapshot.purpose is Purpose.BACKUP:
            yield entry


def _too_old(sight: Sight, entry: Entry, max_age: float) -> str:
    if entry.snapshot is None or sight.clock.now() - entry.snapshot.taken_at <= timedelta(seconds=max_age):
        return ""
    age = show_duration((sight.clock.now() - entry.snapshot.taken_at).total_seconds())
    return f"{entry.id} is {age} old, and {show_duration(max_age)} is allowed; so are all before it"


def _unfit(entry: Entry) -> str:
    # Why a snapshot need not even be opened.
    if entry.snapshot is None:
        return entry.problem or "" if entry.unread else f"cannot be believed: {entry.problem}"
    if not entry.snapshot.restorable:
        return "is audit-only" if entry.snapshot.has(DEPLOYMENT) else "holds virtual clusters alone"
    if entry.rejected:
        return f"did not come back in its last drill: {entry.drilled.reason if entry.drilled else ''}"
    return ""


def _shortcoming(sight: Sight, entry: Entry, judged: Verification, cluster: Cluster | None) -> str:
    if not judged.proven:
        return f"is not proven restorable: {judged.words}"
    assert entry.snapshot is not None  # it was verified
    if cluster is None:
        return ""
    if not (release := release_fits(entry.snapshot, sight.manager.release())).passed:
        return f"would not come back here: {release.words}"
    held = clusters_in(sight, entry.snapshot)
    theirs = held.get(cluster.name, held.get(cluster.display_name))
    if theirs is None:
        return f"does not hold cluster {cluster.name}"
    ours = {host.host_id for host in sight.manager.hosts() if cluster.name in host.owners}
    if ours and not ours & theirs:
        return f"holds a cluster {cluster.name} on other hosts, none of which it has here"
    return ""
