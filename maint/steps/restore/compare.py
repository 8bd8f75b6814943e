"""Read the deployment back and hold it against the snapshot: what differs, what cannot be compared, what was added."""

from collections.abc import Iterable

from pydantic import Field

from maint.deployment.compare import Comparison, compare, masked
from maint.deployment.fingerprint import site_fingerprint
from maint.deployment.secret_index import SecretIndex
from maint.errors import WorkFailed
from maint.model.formatting import show_count
from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, Work
from maint.restore.payload import Edit, outgoing, planned_edit
from maint.restore.preview import tree_of_server
from maint.restore.select_snapshot import chosen, manifest_fact, planned
from maint.restore.subset import same_places
from maint.steps.restore.deployment import EditedArguments
from maint.steps.step import Progress, Step, done

_SHOWN = 20  # differences named in a message; the value registered holds them all


class CompareArguments(EditedArguments):
    """With which snapshot, which of its hosts have become others, and which clusters alone are compared."""

    clusters: list[str] = Field(
        default_factory=list, description="only these clusters and what was brought back with them"
    )


class CompareDeployment(Step[CompareArguments]):
    """Read the deployment back and compare it with a snapshot by meaning; differences fail."""

    kind = "deployment.compare"
    effect = Effect.READ

    def plan(self, args: CompareArguments, sight: Sight) -> Iterable[Action]:
        snapshot = chosen(sight, args.snapshot)
        edit, part = planned_edit(sight, snapshot, args.clusters, args.map_hosts), ", ".join(args.clusters)
        yield self.action(
            f"manager {sight.settings.manager.host}",
            f"compare {f'cluster {part}' if part else 'the configuration'} with snapshot {snapshot.id}",
            {"snapshot": snapshot.id, "edit": edit.to_json()},
            facts=manifest_fact(snapshot),
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        snapshot = planned(site, action)
        out = outgoing(site, snapshot, Edit.from_json(action.arguments["edit"]))
        yield "reading the configuration back"
        site.manager.forget_login()
        known = SecretIndex()
        wanted, present = out.tree(site, known), tree_of_server(site, known)
        found = compare(wanted, present if out.whole else same_places(present, wanted))
        found.differences = masked(found.differences, [known], site_fingerprint(site))
        if found.differences:
            raise WorkFailed(
                f"the configuration differs from snapshot {snapshot.id} in {len(found.differences)} places",
                detail=[_spelled(found, index) for index in range(min(len(found.differences), _SHOWN))],
                hint="look at these places in the manager",
            )
        return done(_words(found), found.to_json())


def _spelled(found: Comparison, index: int) -> str:
    difference = found.differences[index]
    return f"{difference.path}: {difference.before or 'nothing'} → {difference.after or 'nothing'}"


def _words(found: Comparison) -> str:
    words = ["nothing differs"]
    if found.not_comparable:
        words.append(f"{len(found.not_comparable)} values not comparable, since the server hides them")
    if found.added_keys:
        words.append(f"{len(found.added_keys)} keys that only the server has: {', '.join(found.added_keys[:5])}")
    if found.volatile:
        words.append(f"{show_count(found.volatile, 'volatile value')} passed over")
    return "; ".join(words)
