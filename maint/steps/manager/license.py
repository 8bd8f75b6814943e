"""The licence: uploaded before a restore, bytes unchanged (contract section 9)."""

from collections.abc import Iterable

from maint.errors import AnswerMissing, Refused, WorkFailed
from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, Work
from maint.restore.license import license_content
from maint.snapshots.extra_parts import parse_license
from maint.steps.step import Arguments, Progress, Step, done, unchanged


class LicenseArguments(Arguments):
    """Which file; without one, the file that the config names, else the snapshot's own part."""

    file: str = ""
    snapshot: str | None = None


class UploadLicense(Step[LicenseArguments]):
    """Uploads a licence."""

    kind = "license.upload"
    help = "Upload a licence file, unless the manager has that very licence already."
    effect = Effect.CHANGE
    arguments = LicenseArguments

    def plan(self, args: LicenseArguments, sight: Sight) -> Iterable[Action]:
        """Plan the upload; an unreadable or expired file is refused here."""
        content, source = license_content(sight, file=args.file, snapshot=args.snapshot)
        license_ = parse_license(content, source)
        if objection := license_.objection(sight.clock.now()):
            raise Refused(
                f"the licence in {source} is out of date",
                detail=[f"it {objection}"],
                hint="put a valid licence file where the config's `license:` points",
            )
        yield self.action(
            "licence",
            f"upload the licence of {license_.owner} from {source}",
            {"file": args.file, "snapshot": args.snapshot, "uuid": license_.uuid},
            facts={"uuid": license_.uuid},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Look, upload, look again when the answer is missing."""
        uuid = str(action.arguments["uuid"])
        present = site.manager.license()
        if present is not None and present.uuid == uuid:
            return unchanged(f"the manager has the licence of {present.owner} already")
        file, snapshot = action.arguments["file"], action.arguments["snapshot"]
        content, source = license_content(site, file=str(file), snapshot=None if snapshot is None else str(snapshot))
        if parse_license(content, source).uuid != uuid:
            raise Refused(f"the licence in {source} is another one than planned", hint="make the plan again")
        yield "uploading the licence"
        said = ""
        try:
            site.manager.upload_license(content)
        except AnswerMissing as error:
            said = error.message
        seen = site.manager.license()  # an answer of 200 may be somebody else's page
        if seen is None or seen.uuid != uuid:
            raise WorkFailed(
                "the manager did not take the licence",
                detail=[said] if said else ["it answered the upload, and shows no such licence"],
                hint="`maint playbook resume` tries again",
            )
        return done(f"licence of {seen.owner}, valid until {seen.expiration}")
