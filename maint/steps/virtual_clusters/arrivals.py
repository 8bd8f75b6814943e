"""Whether files arrived as they were sent: a damaged upload is named, and a resume knows it as its run's own."""

from collections.abc import Mapping, Sequence

from maint.errors import WorkFailed
from maint.model.virtual_cluster import File, Resource
from maint.ports import VirtualClusterSight, Work

_NOTE = "damaged"  # the note under which a run keeps what of it arrived as something else: signatures by place


def prove_arrival(cluster: VirtualClusterSight, work: Work, sent: Mapping[str, Sequence[File]]) -> None:
    """Hold what was uploaded against what the server has.

    Args:
        sent: the files by the name of their resource.

    Raises:
        WorkFailed: something arrived as other bytes; it is noted, so that a resume replaces it.
    """
    wrong = {
        f"{name}/{file.path}": found.signature
        for name, files in sent.items()
        for live in [cluster.resource(name)]
        for file in files
        if live is not None and (found := live.file(file.path)) is not None and found.signature != file.signature
    }
    if wrong:
        before = work.noted(_NOTE)
        work.note(_NOTE, {**(before if isinstance(before, Mapping) else {}), **wrong})
        raise WorkFailed(
            f"uploads were damaged on their way: {len(wrong)}",
            detail=[
                f"resource {place.partition('/')[0]}: {place.partition('/')[2]} is not what was sent" for place in wrong
            ],
            hint="`maint playbook resume` uploads them again; where it stays so, look at the proxy in between",
        )


def own_damage(work: Work, live: Resource, path: str, signature: str) -> bool:
    """Whether a file is what an upload of this very run became on its way."""
    noted = work.noted(_NOTE)
    return isinstance(noted, Mapping) and noted.get(f"{live.name}/{path}") == signature
