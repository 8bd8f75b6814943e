"""Copies of snapshots as a step: bring every further store up to date with the first."""

from collections.abc import Iterable

from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, Work
from maint.snapshots.replicate import spread
from maint.steps.step import NoArguments, Progress, Step, done


class CopySnapshots(Step[NoArguments]):
    """Copies what is missing."""

    kind = "snapshot.copy"
    help = "Copy to every further store what it lacks, bytes as stored, and verify each copy; nothing without `copies`."
    effect = Effect.READ
    arguments = NoArguments

    def plan(self, args: NoArguments, sight: Sight) -> Iterable[Action]:
        """Plan the copies, where there are further stores."""
        copies = list(sight.settings.backup.copies) if sight.settings.backup else []
        if copies:
            words = f"copy what is missing to {', '.join(copies)}, and verify the copies"
            yield self.action(f"store {sight.store.location}", words)

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Copy; a store that is down is told, and tried again by the next run."""
        problems = yield from spread(site)
        yield from problems
        if problems:
            return done("; ".join(problems), partly=True, hint="the next run tries these copies again")
        return done("every store holds every snapshot")
