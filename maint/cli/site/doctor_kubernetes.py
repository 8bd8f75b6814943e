"""What `maint doctor` looks at in the Kubernetes of the virtual clusters, by the checks that `maint host check` has."""

from collections.abc import Collection, Iterator

from maint.cli.composition import ConfiguredSite
from maint.cli.site.doctor_lines import SKIP, Line, by_checks
from maint.steps.virtual_clusters.init_host import GROUP

_CHECKS = ("ecs.kubelet.nodes", "ecs.vault")


def kubernetes(site: ConfiguredSite, silent: Collection[str]) -> Iterator[Line]:
    """Ask kubectl on the host where virtual clusters are initialised; nothing where there is none, or none of both."""
    hosts = site.settings.hosts_in(GROUP)[:1] if site.settings.ssh and site.settings.virtual_clusters else ()
    for host in hosts:
        if host.name in silent:
            yield Line("kubernetes", SKIP, f"not looked at, since {host.name} did not answer over SSH")
        else:
            yield from by_checks(site, "kubernetes", host, _CHECKS)
