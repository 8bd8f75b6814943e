"""What all step kinds of virtual clusters share: which one is meant, and when a step must be done once more."""

import hashlib
import socket
from pathlib import Path
from typing import TypeVar

from maint.model.plan import Action
from maint.ports import Site, VirtualCluster, Work
from maint.steps.step import Arguments, Step
from maint.steps.vc_kept import was_put_back


class VcArguments(Arguments):
    """Which virtual cluster; empty: the only one."""

    vc: str = ""


A = TypeVar("A", bound=VcArguments)


class VcStep(Step[A]):
    """A step on a virtual cluster."""

    def holds(self, action: Action, site: Site, work: Work) -> bool:
        """Whether it still is so: not once everything was put back as it had been."""
        return not was_put_back(site.state, work.run)


def cluster_of(action: Action, site: Site) -> VirtualCluster:
    """Return the virtual cluster that an action is meant for."""
    return site.virtual_cluster(str(action.arguments["vc"]))


def own_prefix(state: Path) -> str:
    """Return what the names of all temporary objects of a site begin with.

    Only who holds the lock of that state folder makes such objects, so that whoever holds it may also remove them.
    """
    place = f"{socket.gethostname()}:{state.resolve()}"
    return f"maint-{hashlib.sha256(place.encode()).hexdigest()[:8]}-"


def temporary(state: Path, what: str, which: str) -> str:
    """Return the name of a temporary job or resource: `what` it is for, `which` run it belongs to."""
    return f"{own_prefix(state)}{what}-{hashlib.sha256(which.encode()).hexdigest()[:8]}"
