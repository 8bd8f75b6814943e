"""TLS: make a stored WEB_TLS effective, wait for the TLS port, verify its chain (M2.1, M8.4)."""

from collections.abc import Iterable

from maint.model.manager import Door
from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, Work
from maint.restore.select_snapshot import chosen, manifest_fact
from maint.snapshots.verify import verdict_of
from maint.steps.hosts.selection import require_ssh
from maint.steps.manager.server import START_LIMIT, await_version, restart_and_wait, stores_tls
from maint.steps.restore.deployment import SnapshotArguments
from maint.steps.step import NoArguments, Progress, Step, done, skipped, unchanged


class AwaitTls(Step[SnapshotArguments]):
    """Wait until the TLS port serves, and verify its certificate chain against the configured CA."""

    kind = "tls.verify"
    effect = Effect.READ

    def plan(self, args: SnapshotArguments, sight: Sight) -> Iterable[Action]:
        settings, snapshot = sight.settings.manager, chosen(sight, args.snapshot)
        expected = verdict_of(sight, snapshot).summary.web_tls
        serving = sight.manager.presence().door is Door.TLS
        words = f"wait for TLS on {settings.host}:{settings.tls_port} and verify its chain"
        yield self.action(
            f"manager {settings.host}",
            words if expected else "no WEB_TLS in this deployment: nothing to wait for",
            {"expected": expected, "serving": serving},
            facts=manifest_fact(snapshot),
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        if not action.arguments["expected"]:
            return skipped("the deployment has no WEB_TLS")
        version = yield from await_version(site, work.timeout or START_LIMIT, tls=True)
        trust = "NOT verified (--insecure)" if site.settings.manager.insecure else "verified"
        words = f"TLS port {site.settings.manager.tls_port} serves API v{version}, chain {trust}"
        return unchanged(f"{words}; it did before") if action.arguments["serving"] else done(words)


class SwitchTls(Step[NoArguments]):
    """Restart the manager server where WEB_TLS is set but not yet effective, and verify the TLS port."""

    kind = "tls.switch"
    effect = Effect.CHANGE

    def plan(self, args: NoArguments, sight: Sight) -> Iterable[Action]:
        serving = sight.manager.presence().door is Door.TLS
        wanted = serving or stores_tls(sight.manager)
        words = "restart the manager server so that WEB_TLS takes effect"
        if serving:
            words = "TLS is on already"
        elif not wanted:
            words = "WEB_TLS is not set: nothing to switch on"
        else:
            require_ssh(sight)
        yield self.action(
            f"manager {sight.settings.manager.host}",
            words,
            {"wanted": wanted},
            effect=Effect.CHANGE if wanted and not serving else Effect.READ,
            undo="set WEB_TLS to false in the manager and restart it",
            facts={"serving": serving, "wanted": wanted},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Restart, since listeners change only then (M8.4), wait for TLS, verify."""
        if not action.arguments["wanted"]:
            return skipped("the manager's settings have no WEB_TLS")
        presence = site.manager.presence()
        if presence.door is Door.TLS and presence.chain is None and not presence.silent:
            return unchanged(f"TLS port {site.settings.manager.tls_port} serves already, chain verified")
        version = yield from restart_and_wait(site, work, work.timeout or START_LIMIT, tls=True)
        return done(f"TLS port {site.settings.manager.tls_port} serves API v{version}, chain verified")
