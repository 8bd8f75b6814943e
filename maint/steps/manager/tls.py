"""TLS: make a stored WEB_TLS effective, verify the TLS port (M2.1, M8.4); the password of the shared truststore."""

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from maint import files
from maint.errors import Refused, WorkFailed
from maint.model.manager import Door
from maint.model.plan import Action, Effect
from maint.model.secret import Secret
from maint.ports import ManagerSight, Sight, Site, Work
from maint.ports.manager_host import Trial, insist, path_of, try_password
from maint.restore.select_snapshot import chosen, manifest_fact
from maint.snapshots.verify import verdict_of
from maint.steps.hosts.fan_out import require_ssh
from maint.steps.manager.server import START_LIMIT, await_version, restart_and_wait, stores_tls
from maint.steps.restore.deployment import SnapshotArguments
from maint.steps.step import Arguments, NoArguments, Progress, Step, done, in_a_template, skipped, unchanged


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
        words = f"TLS port {site.settings.manager.tls_port} serves API v{version}, {_chain(site)}"
        return unchanged(f"{words}; it did before") if action.arguments["serving"] else done(words)


def _chain(site: Site) -> str:
    return f"chain {'NOT verified (--insecure)' if site.settings.manager.insecure else 'verified'}"


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
            words += insist(sight)
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
            return unchanged(f"TLS port {site.settings.manager.tls_port} serves already, {_chain(site)}")
        version = yield from restart_and_wait(site, work, work.timeout or START_LIMIT, tls=True)
        return done(f"TLS port {site.settings.manager.tls_port} serves API v{version}, {_chain(site)}")


_LIMIT = 300.0  # seconds for a command that takes it
_SINCE = 41  # API version (M11)


def fetch(manager: ManagerSight) -> Secret:
    """Return the password; WorkFailed where the manager has none to give."""
    password = manager.truststore_password()
    if password is None:
        raise WorkFailed(
            "the manager has no truststore password",
            detail=["Auto-TLS is off, its API is older than v41, or the call failed (its log tells)"],
            hint="switch Auto-TLS on in the manager first",
        )
    return password


class DeliverArguments(Arguments):
    """Where the password goes: exactly one of both."""

    file: str = Field("", description="a file that does not exist yet")
    command: str = Field("", description="words of a command; no shell")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if bool(self.file) == bool(self.command) and not (in_a_template(self.file) or in_a_template(self.command)):
            raise ValueError("the truststore password needs one place to go: give either `file` or `command`")
        return self


class DeliverPassword(Step[DeliverArguments]):
    """Write the truststore password to a new 0600 file, or feed it to a command's standard input."""

    kind = "truststore.deliver"
    effect = Effect.READ
    writes = frozenset({"file"})

    def plan(self, args: DeliverArguments, sight: Sight) -> Iterable[Action]:
        if args.file and files.visible(Path(args.file)):
            raise Refused(f"{args.file} is there already", hint="name a new file; nothing is overwritten")
        where = f"file {args.file}" if args.file else f"command {_words(args.command)[0]}"
        yield self.action(
            where, f"hand the truststore password to {where}", {"file": args.file, "command": args.command}
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        password = fetch(site.manager)
        yield "the manager gave the password"
        store = path_of(site.manager.settings())
        yield f"trying it on {store}"
        trial = try_password(site, store, password)
        if trial.opens is False:
            raise _does_not_open(trial)
        tried = f"it {trial.words}"
        if action.arguments["file"]:
            path = Path(str(action.arguments["file"]))
            _write(path, password.reveal().encode(), again=work.resumed)
            return done(f"written to {path}, readable by its owner only; {tried}")
        words = _words(str(action.arguments["command"]))
        site.programs.run(words, password.reveal().encode(), work.timeout or _LIMIT, Path.cwd())
        return done(f"the command took it; {tried}")


def _write(path: Path, content: bytes, *, again: bool) -> None:
    hint = "name a new file in a folder of yours"
    with files.writing(path, hint):
        path.parent.stat()  # a missing folder is a mistake in the name: it is not made
        made = files.create(path, content)
    if not made and not (again and files.read_private(path) == content):  # else an earlier attempt wrote it
        raise WorkFailed(f"{path} cannot be written: it is there already", hint=hint)


def _words(command: str) -> list[str]:
    hint = "write it as in a shell: `PROGRAM ARGUMENT`, each quote closed"
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise Refused(f"the command cannot be split into words: {error}", hint=hint) from None
    if not words:
        raise Refused("the command is blank", hint=hint)
    return words


class CheckTruststore(Step[SnapshotArguments]):
    """Fetch the truststore password and check with keytool on the manager's host that it opens the truststore."""

    kind = "truststore.check"
    effect = Effect.READ

    def plan(self, args: SnapshotArguments, sight: Sight) -> Iterable[Action]:
        snapshot = chosen(sight, args.snapshot)
        outline = verdict_of(sight, snapshot).summary
        expected, path = outline.web_tls and outline.auto_tls, path_of(outline.settings)
        if expected:
            require_ssh(sight)
        words = f"check that the truststore password opens {path}"
        yield self.action(
            path,
            words if expected else "no Auto-TLS in this deployment: no truststore password to check",
            {"expected": expected, "path": path},
            facts=manifest_fact(snapshot),
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        if not action.arguments["expected"]:
            return skipped("no Auto-TLS in this deployment, or an API below v41")
        if site.manager.api_version() < _SINCE:
            return skipped(f"API v{site.manager.api_version()} has no call for it (v41 has)")
        password, path = fetch(site.manager), str(action.arguments["path"])
        yield f"trying it on {path}"
        trial = try_password(site, path, password)
        if not trial.opens:
            raise _does_not_open(trial)
        return done(f"the password {trial.words}")


def _does_not_open(trial: Trial) -> WorkFailed:
    return WorkFailed(f"the truststore password that the manager serves {trial.words}", hint=trial.hint)
