"""Judge the preconditions before anything is sent, once for the plan and once more for the run."""

from collections.abc import Iterable, Sequence

import msgspec
from pydantic import Field

from maint.deployment.judge import DeploymentSummary
from maint.errors import Refused
from maint.model.formatting import show_count
from maint.model.plan import Action, Effect
from maint.model.snapshot import RuleResult, Snapshot
from maint.ports import Sight, Site, Work
from maint.restore.payload import Edit, Outgoing, outgoing, planned_edit
from maint.restore.preconditions import TargetServer, insist, insist_on_bytes, ready, running_server
from maint.restore.select_snapshot import chosen, manifest_fact, planned, usable_license
from maint.snapshots import extra_parts
from maint.snapshots.extra_parts import LicenseText
from maint.snapshots.prune import of_passed_over, passed_over
from maint.snapshots.records import Verification
from maint.snapshots.verify import verify
from maint.snapshots.virtual_clusters.document import clusters_in
from maint.steps.hosts.fan_out import require_ssh
from maint.steps.restore.deployment import EditedArguments
from maint.steps.step import Progress, Step, done


class ReadyArguments(EditedArguments):
    """Which snapshot, edited how, and whether the licence must be installed already."""

    clusters: list[str] = Field([], description="only these clusters, to be added to what is there")
    license: bool = Field(False, description="whether a licence must be installed already")


# What must hold of a document that was edited, besides what holds of the snapshot; a part stands on what is there.
_OF_A_WHOLE = frozenset({"redaction", "references", "duplicates", "hosts"})
_OF_A_PART = frozenset({"redaction", "duplicates"})
_SHOWN = 3  # doubts that a plan names


class RestoreReady(Step[ReadyArguments]):
    """Verify the snapshot to level 3 and hold it against the server and its host; refuse before anything is sent."""

    kind = "restore.ready"
    effect = Effect.READ

    def plan(self, args: ReadyArguments, sight: Sight) -> Iterable[Action]:
        """Judge them for the plan; a broken one refuses here."""
        require_ssh(sight)
        snapshot = chosen(sight, args.snapshot)
        judged = _verified(sight, snapshot)
        edit = planned_edit(sight, snapshot, args.clusters, args.map_hosts)
        findings = _judged(sight, outgoing(sight, snapshot, edit), judged, args.license)
        insist(snapshot, findings)
        yield self.action(
            f"snapshot {snapshot.id}",
            f"prove that snapshot {snapshot.id} can be restored here ({show_count(len(findings), 'rule')})"
            + _doubted(judged)
            + of_passed_over(passed_over(sight, snapshot)),
            {"snapshot": snapshot.id, "license": args.license, "edit": edit.to_json()},
            facts={
                **manifest_fact(snapshot),
                "snapshot": snapshot.id,
                "rules": [[finding.rule, finding.passed] for finding in findings],
            },
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Judge them again: the server may have changed since the plan."""
        snapshot = planned(site, action)
        yield f"verifying snapshot {snapshot.id} and looking at the server and its host"
        judged = _verified(site, snapshot)
        out = outgoing(site, snapshot, Edit.from_json(action.arguments["edit"]))
        findings = _judged(site, out, judged, bool(action.arguments["license"]))
        insist(snapshot, findings)
        untold = [f"{finding.rule}: {finding.words}" for finding in findings if finding.passed is None]
        words = f"{len(findings) - len(untold)} rules hold"
        held = "; could not tell: ".join([words, *(["; ".join(untold)] if untold else [])])
        strange = [name for name in clusters_in(snapshot) if name not in _configured(site)]
        return done(held + (f"; not in the config, so not brought back: {', '.join(strange)}" if strange else ""))


def _doubted(judged: Verification) -> str:
    more = f", and {len(judged.doubts) - _SHOWN} more" if len(judged.doubts) > _SHOWN else ""
    return f"; WARNING, not about the manager: {'; '.join(judged.doubts[:_SHOWN])}{more}" if judged.doubts else ""


def _configured(sight: Sight) -> set[str]:
    return {one.name for one in sight.settings.virtual_clusters}


def _verified(sight: Sight, snapshot: Snapshot) -> Verification:
    judged = verify(sight, snapshot.id, 3, rebuilding=True)
    insist_on_bytes(snapshot, judged)
    return judged


def _judged(sight: Sight, out: Outgoing, judged: Verification, installed: bool) -> Sequence[RuleResult]:
    snapshot, verdict = out.snapshot, out.verdict(sight)
    server = _server(sight, snapshot, verdict.summary, installed)
    rungs = ready(snapshot, verdict.summary, judged, server, whole=out.whole)
    if out.content is None:
        return rungs
    rules = _OF_A_WHOLE if out.whole else _OF_A_PART
    return [*rungs, *(finding for finding in verdict.judgement.findings if finding.rule in rules)]


def _server(sight: Sight, snapshot: Snapshot, summary: DeploymentSummary, installed: bool) -> TargetServer:
    account, running = sight.manager.log_in(), running_server(sight)
    return TargetServer(
        **msgspec.structs.asdict(running),
        fresh=account.bootstrap,
        licensed=_has_license(sight, None if installed else snapshot),
        host_files=extra_parts.look_at_host(sight, summary),
    )


def _has_license(sight: Sight, snapshot: Snapshot | None) -> bool:
    # One in date must be installed or, where a snapshot is given, be there to upload.
    if snapshot is None:
        own = sight.manager.license()
        return own is not None and not LicenseText.of(*msgspec.structs.astuple(own)).objection(sight.clock.now())
    try:
        return bool(usable_license(sight, snapshot=snapshot))
    except Refused:
        return False
