"""`maint vc`, of a virtual cluster as a whole: status, init, init-user, smoke, backup, drift, restore, undo."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec.structs import asdict

from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.open_site import opened
from maint.cli.options import GUARDS, VC, DagRace, Flags, argument, option
from maint.cli.run_playbook import carry_out, run_steps
from maint.cli.screen import Screen, cell, table
from maint.cli.vc.select import chosen, ready, warn_of_blindness
from maint.engine import past_runs
from maint.engine.plan import AdhocStep
from maint.errors import CannotReach, Differences, UsageError
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.virtual_cluster import Object
from maint.restore.conflicts import POLICIES, chosen_cluster
from maint.snapshots.virtual_clusters.document import drift_of
from maint.snapshots.virtual_clusters.verify import read_document
from maint.steps.virtual_clusters.smoke import mended, stranger

if TYPE_CHECKING:
    from maint.adapters.virtual_clusters.client import VirtualClusterClient

Name = Annotated[str, argument("The virtual cluster; or `--vc`, or left out when one is configured.")]


@command(VC)
def status(flags: Flags) -> None:
    """Log in to a virtual cluster, and show its name and what its user sees."""
    with _let_in(flags) as (cluster, screen, seconds, info):
        jobs_, resources_ = cluster.jobs(), cluster.resources()
        settings = cluster.settings
        found: dict[str, Json] = {
            "name": settings.name,
            "base_url": settings.base_url,
            "user": settings.login.username,
            "token_seconds": None if seconds is None else round(seconds),
            "info": info,
            "jobs": len(jobs_),
            "schedules_awake": sum(job.scheduled and not job.paused for job in jobs_),
            "resources": len(resources_),
        }
        screen.emit(
            {"virtual_cluster": found},
            table(["WHAT", "IS"], [[key.replace("_", " "), cell(value)] for key, value in found.items()]),
        )
        if not jobs_ and not resources_:
            warn_of_blindness(screen, cluster)


@contextmanager
def _let_in(flags: Flags) -> Iterator[tuple["VirtualClusterClient", Screen, float | None, Object]]:
    """Log in; yield how long the token is good, and the virtual cluster's own words; else say what is missing."""
    with opened(ready(flags)) as (site, screen):
        cluster = site.virtual_cluster(chosen(flags))
        try:
            seconds, info = cluster.token_until(), cluster.info()
        except CannotReach as error:
            raise mended(error, cluster.settings, site.state) from None
        if other := stranger(cluster):
            screen.warn(other)
        yield cluster, screen, seconds, info


@command(VC, playbooks=("smoke-test",))
def smoke(flags: Flags) -> int:
    """Prove that a virtual cluster runs jobs, with a tiny job of our own that leaves nothing behind."""
    with _let_in(flags):  # who does not get in has begun nothing: exit 4, and no run to take up
        pass
    return carry_out(ready(flags), "smoke-test", {"vc": chosen(flags)})


@command(VC, playbooks=("init-virtual-cluster",))
def init(
    flags: Flags,
    name: Name = "",
    renew: Annotated[
        bool, option("--renew", "Without a configured certificate: make a new one although one is good.")
    ] = False,
) -> int:
    """Give a virtual cluster its certificate; without a configured one, asks for the virtual cluster's name."""
    return carry_out(flags, "init-virtual-cluster", {"vc": chosen(flags, name), "renew": renew})


@command(VC, playbooks=("init-user",))
def init_user(
    flags: Flags, name: Name = "", user: Annotated[str, argument("The user, from `users:` of the config.")] = ""
) -> int:
    """Give a user of a virtual cluster its Kerberos secrets: the old ones or the new ones, never none."""
    name, user = (name, user) if user else ("", name)  # one word is the user
    if not user:
        raise UsageError("no user is named", hint="`maint vc init-user --vc NAME USER`")
    return carry_out(flags, "init-user", {"vc": chosen(flags, name), "user": user})


SnapshotOption = Annotated[str, option("--snapshot", "Its id or the beginning of it; else the newest that holds it.")]


@command(VC, playbooks=("backup-virtual-cluster",))
def backup(
    flags: Flags,
    accept_empty: Annotated[bool, option("--accept-empty", "It holds what is found, however little it is.")] = False,
) -> int:
    """Take a backup of one virtual cluster alone: jobs, resources, and every file held against its signature."""
    return carry_out(flags, "backup-virtual-cluster", {"vc": chosen(flags), "accept_empty": accept_empty})


@command(VC)
def drift(
    flags: Flags,
    snapshot: SnapshotOption = "",
    exit_code: Annotated[bool, option("--exit-code", "End with 8 when something differs.")] = False,
) -> int:
    """Show what differs between a snapshot and the live virtual cluster; no file is downloaded, no value shown."""
    name = chosen(flags)
    with opened(ready(flags)) as (site, screen):
        cluster = site.virtual_cluster(name)
        held = chosen_cluster(site, snapshot, cluster.settings.name)
        found = drift_of(read_document(site, held, cluster.settings.name), cluster)
        listed: list[Json] = [one.to_json() for one in found]
        rows = [[one.what, one.name, one.change, one.property or "-"] for one in found]
        screen.emit(
            {"virtual_cluster": cluster.settings.name, "snapshot": held.id, "differences": listed},
            table(["WHAT", "NAME", "CHANGE", "PROPERTY"], rows) if found else "",
        )
        words = show_count(len(found), "difference") if found else "nothing differs"
        screen.say(f"{words} (snapshot {held.id}, live {cluster.settings.base_url})")
        return Differences.exit_code if exit_code and found else 0


class ClusterRestoreRequest(msgspec.Struct, frozen=True):
    """What is brought back, and what is done where something stands in the way."""

    snapshot: SnapshotOption = ""
    on_conflict: Annotated[str, option("--on-conflict", "Where a name is taken: refuse, skip, rename or replace.")] = (
        "refuse"
    )
    accept_dag_race: DagRace = False
    source_gone: Annotated[bool, option("--source-gone", "Although the source still answers: it does no harm.")] = False


@command(VC, GUARDS, playbooks=("restore-virtual-cluster",))
def restore(flags: Flags, request: ClusterRestoreRequest) -> int:
    """Bring a virtual cluster's resources and jobs back, schedules paused; asks for the virtual cluster's name."""
    if request.on_conflict not in POLICIES:
        raise UsageError(f"there is no --on-conflict {request.on_conflict!r}", hint=f"one of {', '.join(POLICIES)}")
    return carry_out(flags, "restore-virtual-cluster", {"vc": chosen(flags), **asdict(request)})


@command(VC)
def undo(flags: Flags, run: Annotated[str, argument("The run that deleted: its id or the beginning of it.")]) -> int:
    """Bring back the jobs, resources, files and certificates that a run removed or replaced; schedules stay paused."""

    def lines(site: ConfiguredSite, _: Screen) -> list[AdhocStep]:
        given: dict[str, Json] = {"vc": chosen(flags), "run": past_runs.find(site.state, run).id}
        return [AdhocStep("Bring it back", "vc.undo", given)]

    return run_steps(ready(flags), "vc undo", lines)
