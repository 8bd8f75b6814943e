"""`maint vc`: the noun, `status` and `smoke`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from maint.cli.flags import Flags, command
from maint.cli.ondemand import add_groups
from maint.cli.vc import backup, init
from maint.cli.vc.select import Vc, chosen, ready, remember

if TYPE_CHECKING:
    from maint.adapters.virtual_clusters.client import VirtualClusterClient
    from maint.cli.screen import Screen
    from maint.model.virtual_cluster import Object

group = typer.Typer(no_args_is_help=True, help="Virtual clusters: jobs, resources, runs, schedules.")
add_groups(
    group,
    {
        "job": "maint.cli.vc.jobs",
        "resource": "maint.cli.vc.resources",
        "run": "maint.cli.vc.runs",
        "spark": "maint.cli.vc.submit",
    },
)
backup.add_to(group)
init.add_to(group)


@group.callback()
def _before_the_verb(vc: Vc = "") -> None:
    remember(vc)


@command(group, "status")
def status(flags: Flags, vc: Vc = "") -> None:
    """Log in to a virtual cluster, and show its name and what its user sees."""
    from maint.cli.screen import table
    from maint.cli.vc.select import warn_of_blindness
    from maint.model.json import Json

    with _let_in(flags, vc) as (cluster, screen, seconds, info):
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
        screen.emit({"virtual_cluster": found}, table(["WHAT", "IS"], [[k, str(v)] for k, v in found.items()]))
        if not jobs_ and not resources_:
            warn_of_blindness(screen, cluster)


@contextmanager
def _let_in(flags: Flags, vc: str) -> "Iterator[tuple[VirtualClusterClient, Screen, float | None, Object]]":
    """Log in; yield how long the token is good, and the virtual cluster's own words; else say what is missing."""
    from maint.cli.open_site import limit_of, opened
    from maint.errors import CannotReach
    from maint.steps.virtual_clusters.smoke import mended

    with opened(ready(flags)) as (site, screen), site.clock.limit(limit_of(flags)):
        cluster = site.virtual_cluster(chosen(vc))
        try:
            seconds, info = cluster.token_until(), cluster.info()
        except CannotReach as error:
            raise mended(error, cluster.settings, site.state) from None
        yield cluster, screen, seconds, info


@command(group, "smoke")
def smoke(flags: Flags, vc: Vc = "") -> int:
    """Prove that a virtual cluster runs jobs, with a tiny job of our own that leaves nothing behind."""
    from maint.cli.run_playbook import carry_out

    with _let_in(flags, vc):  # who does not get in has begun nothing: exit 4, and no run to take up
        pass
    return carry_out(ready(flags), "smoke-test", {"vc": chosen(vc)})
