"""What of Data Engineering runs on an ECS cluster, as its Kubernetes tells: what goes with it, named or not."""

import re
from collections.abc import Mapping

from maint.errors import CannotReach, Invalid, Refused, WorkFailed
from maint.model.manager import Cluster
from maint.ports import Sight
from maint.steps.guards import Guarded
from maint.steps.hosts.fan_out import error_text
from maint.steps.hosts.selection import configured_as
from maint.steps.virtual_clusters.init_host import GROUP, SETUP, address_of

_ASK = f"{SETUP}kubectl get namespaces -o name"
_LIMIT = 60.0  # seconds
_SPACE = r"namespace/dex-(app|base)-([a-z0-9-]+)"


def carried(sight: Sight, cluster: Cluster, args: Guarded) -> str:
    """Return what a plan says of what runs on an ECS cluster, or why nobody can see it.

    Raises:
        Refused: there is a virtual cluster that the config does not name, so no backup of it is asked for; where no
            reason to go on without guards was given.
    """
    names, unseen = _namespaces(sight, cluster)
    if unseen:
        return f"; WARNING: whether it carries virtual clusters that the config does not name cannot be seen: {unseen}"
    found = [match.groups() for name in names.splitlines() if (match := re.fullmatch(_SPACE, name.strip()))]
    known, services = _known(sight), [one for kind, one in found if kind == "base"]
    strangers = [one for kind, one in found if kind == "app" and one not in known]
    if strangers and not args.no_safety_net:
        raise Refused(
            f"cluster {cluster.name} carries virtual clusters that the config does not name, so nothing is destroyed",
            detail=[f"virtual cluster {one} (namespace dex-app-{one})" for one in strangers],
            hint="name each under `virtual_clusters` and take `maint vc backup`, or delete it in the vendor's UI; "
            "`--no-safety-net REASON` goes without, and without any other proof",
        )
    seen = [f"{one} ({known[one]})" for kind, one in found if kind == "app" and one in known]
    words = f"; it carries Data Engineering services: {', '.join(services) or 'none'}"
    words += f"; virtual clusters: {', '.join(seen) or 'none that the config names'}"
    return words + (f"; WARNING: without a backup: {', '.join(strangers)}" if strangers else "")


def _namespaces(sight: Sight, cluster: Cluster) -> tuple[str, str]:
    """Return what kubectl lists on the first master that answers, or else why none does."""
    hosts = [host for host in sight.manager.hosts() if host.cluster == cluster.name]
    masters = {name for host in hosts for name in configured_as(sight.settings.hosts_in(GROUP), host)}
    reason = f"no host of it is in the group {GROUP}" if sight.settings.ssh else "the config has no `ssh`"
    for name in sorted(masters) if sight.settings.ssh else ():
        try:
            ran = sight.shell.ask(name, _ASK, timeout=_LIMIT)
        except (CannotReach, WorkFailed) as failure:
            reason = failure.message
            continue
        if ran.ok:
            return ran.words, ""
        reason = f"{name}: {error_text(ran)}"
    return "", reason


def _known(sight: Sight) -> Mapping[str, str]:
    known: dict[str, str] = {}
    for one in sight.settings.virtual_clusters:
        try:
            known[address_of(one).cluster] = one.name
        except Invalid:  # no address of one that Kubernetes would show
            continue
    return known
