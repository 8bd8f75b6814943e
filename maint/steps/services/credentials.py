"""Kerberos credentials, which no export holds: the KDC's account imported, what is missing made (M21)."""

from collections.abc import Iterable, Sequence

from maint.errors import WorkFailed
from maint.model.formatting import show_count
from maint.model.manager import Command, Place
from maint.model.plan import Action, Effect
from maint.ports import ManagerSight, Sight, Site, Work
from maint.steps.manager.commands import Mover, send_once
from maint.steps.step import NoArguments, Progress, Step, done, skipped, unchanged

_IMPORT = "importAdminCredentials"


def missing_principals(manager: ManagerSight) -> Sequence[str]:
    """Return the principals that services need and that have no credentials; none where nothing uses Kerberos."""
    found = manager.get("/cm/kerberosPrincipals?missingOnly=true")
    listed = found.get("items") if isinstance(found, dict) else found
    entries = listed if isinstance(listed, list) else []
    return [str(one.get("principal", "")) if isinstance(one, dict) else str(one) for one in entries]


class _Credentials(Step[NoArguments]):
    effect = Effect.CHANGE
    command: str
    words: str  # what is done, for the plan

    def plan(self, args: NoArguments, sight: Sight) -> Iterable[Action]:
        """Plan nothing where nothing is missing; say what is missing where no account is configured."""
        try:
            missing = missing_principals(sight.manager)
        except WorkFailed as error:
            if self.command == _IMPORT:
                words = f"whether Kerberos credentials are missing could not be asked: {error.message}"
                yield self.action("the manager", words, effect=Effect.READ)
            return
        if not missing:
            return
        lacking = f"no credentials yet for {show_count(len(missing), 'principal')}"
        if sight.settings.manager.kdc is None:
            if self.command == _IMPORT:
                words = f"WARNING: {lacking}, and roles that need them do not start; set `manager.kdc` in the config"
                yield self.action(
                    "the manager", f"{words}, or import the KDC's account in the manager", effect=Effect.READ
                )
            return
        yield self.action("the manager", f"{self.words} ({lacking})", facts={"missing": len(missing)})

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Look again; send it once and wait."""
        if action.effect is Effect.READ:
            return skipped(action.summary)
        if not missing_principals(site.manager):
            return unchanged("no credentials are missing")
        mover = Mover(site, Place(), lambda _: self.send(site))
        finished = yield from send_once(work, mover, self.command)
        return done(finished.message or f"{self.command} is done")

    def send(self, site: Site) -> Command:
        """Send the command."""
        return site.manager.place_command(Place(), self.command)


class ImportCredentials(_Credentials):
    """Import the KDC's account of the config into the manager, where Kerberos credentials are missing."""

    kind = "credentials.import"
    command, words = _IMPORT, "import the KDC's account"

    def send(self, site: Site) -> Command:
        """Send account and password; the password stands in no plan and no journal."""
        account = site.settings.manager.kdc
        assert account is not None  # planned only where there is one
        return site.manager.import_kdc_account(account.username, site.secrets.resolve(account.password))


class GenerateCredentials(_Credentials):
    """Make the Kerberos credentials that services need and that are missing, as after a restore."""

    kind = "credentials.generate"
    command, words = "generateCredentials", "make the missing Kerberos credentials"
