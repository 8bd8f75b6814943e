"""`maint vc status|smoke|init|init-user`: whether a virtual cluster works, and what it needs before it does."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from maint.cli.command import command
from maint.cli.open_site import opened
from maint.cli.options import VC, Flags, argument, option
from maint.cli.run_playbook import carry_out
from maint.cli.screen import Screen, cell, table
from maint.cli.vc.select import chosen, ready, warn_of_blindness
from maint.errors import CannotReach, UsageError
from maint.model.json import Json
from maint.model.virtual_cluster import Object
from maint.steps.virtual_clusters.smoke import mended

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
        yield cluster, screen, seconds, info


@command(VC)
def smoke(flags: Flags) -> int:
    """Prove that a virtual cluster runs jobs, with a tiny job of our own that leaves nothing behind."""
    with _let_in(flags):  # who does not get in has begun nothing: exit 4, and no run to take up
        pass
    return carry_out(ready(flags), "smoke-test", {"vc": chosen(flags)})


@command(VC)
def init(
    flags: Flags,
    name: Name = "",
    renew: Annotated[
        bool, option("--renew", "Without a configured certificate: make a new one although one is good.")
    ] = False,
) -> int:
    """Give a virtual cluster its certificate; without a configured one, asks for the virtual cluster's name."""
    return carry_out(flags, "init-virtual-cluster", {"vc": chosen(flags, name), "renew": renew})


@command(VC)
def init_user(
    flags: Flags, name: Name = "", user: Annotated[str, argument("The user, from `users:` of the config.")] = ""
) -> int:
    """Give a user of a virtual cluster its Kerberos secrets: the old ones or the new ones, never none."""
    name, user = (name, user) if user else ("", name)  # one word is the user
    if not user:
        raise UsageError("no user is named", hint="`maint vc init-user --vc NAME USER`")
    return carry_out(flags, "init-user", {"vc": chosen(flags, name), "user": user})
