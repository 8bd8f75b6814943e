"""The step that uploads a licence before a restore, its bytes unchanged (M9)."""

from collections.abc import Iterable

from pydantic import Field

from maint.errors import AnswerMissing, Refused, WorkFailed
from maint.model.formatting import tell_times
from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, Work
from maint.restore.select_snapshot import chosen, manifest_fact, planned, usable_license
from maint.steps.step import Arguments, Progress, Step, done, unchanged


class LicenseArguments(Arguments):
    """Which file; without one, the file that the config names, else the snapshot's own part."""

    file: str = Field("", description="the file; empty: the one that the config names")
    snapshot: str | None = Field(
        None, description="where the config names none that is in date: the part of this snapshot"
    )


class UploadLicense(Step[LicenseArguments]):
    """Upload a licence file, unless the manager has that very licence already."""

    kind = "license.upload"
    effect = Effect.CHANGE
    restores = True

    def plan(self, args: LicenseArguments, sight: Sight) -> Iterable[Action]:
        """Plan the upload; an unreadable or expired file is refused here."""
        # Without a snapshot the operator asks to upload one whatever the manager has.
        snapshot = None if args.snapshot is None or args.file else chosen(sight, args.snapshot)
        source = None if args.snapshot is None else snapshot.id if snapshot else ""
        found = usable_license(sight, file=args.file, snapshot=snapshot, own=args.snapshot is not None)
        words = f"upload the licence of {found.text.owner} from {found.source}"
        if found.content is None:
            words = f"the manager has a licence of {found.text.owner} that is in date"
            words += "; WARNING: it is a trial, and there is no other to upload" if found.trial else ""
        yield self.action(
            "licence",
            words,
            {"file": args.file, "snapshot": source, "uuid": found.text.uuid},
            effect=Effect.CHANGE if found.content is not None else Effect.READ,
            facts={"uuid": found.text.uuid, **(manifest_fact(snapshot) if snapshot else {})},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        uuid = str(action.arguments["uuid"])
        present = site.manager.license()
        if present is not None and present.uuid == uuid:
            return unchanged(f"the manager has the licence of {present.owner} already")
        file, own = str(action.arguments["file"]), action.arguments["snapshot"] is not None
        found = usable_license(site, file=file, snapshot=planned(site, action) if own and not file else None, own=own)
        if found.text.uuid != uuid or found.content is None:
            raise Refused(f"the licence of {found.source} is not the planned one", hint="make the plan again")
        yield "uploading the licence"
        said = ""
        try:
            site.manager.upload_license(found.content)
        except AnswerMissing as error:
            said = error.message
        seen = site.manager.license()  # an answer of 200 may be somebody else's page
        if seen is None or seen.uuid != uuid:
            raise WorkFailed(
                "the manager did not take the licence",
                detail=[said] if said else ["it answered the upload, and shows no such licence"],
                hint="`maint playbook resume` tries again",
            )
        return done(f"licence of {seen.owner}, valid until {tell_times(seen.expiration)}")
