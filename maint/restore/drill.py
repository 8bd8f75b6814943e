"""Rehearse a restore: bring a snapshot back into a throw-away manager, read it back, compare, and measure."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from maint import __version__
from maint.deployment.compare import Comparison, compare
from maint.deployment.judge import DeploymentSummary
from maint.deployment.normalize import normalize
from maint.deployment.reader import BLOCK, blocks
from maint.deployment.secrets import site_fingerprint
from maint.errors import (
    AnswerMissing,
    CannotReach,
    LoginRefused,
    NotTrusted,
    NotWritten,
    PartlyDone,
    Refused,
    StoreFailed,
    TimedOut,
    WorkFailed,
)
from maint.model.formatting import show_count, show_size
from maint.model.json import Json
from maint.model.manager import Door
from maint.model.snapshot import Snapshot
from maint.ports import Body, Clock, Rehearsal, Site, Stage
from maint.restore.select_snapshot import usable_license
from maint.snapshots.catalogue import refuse_removed
from maint.snapshots.parts import DEPLOYMENT, open_part
from maint.snapshots.recipients import escrow
from maint.snapshots.records import DRILL, FAILED, PASSED, Verification, unkept, write_record
from maint.snapshots.verify import insist_on_password, refuse_mistyped, verdict_of, verify

LIMIT = 3600.0  # seconds that the PUT may take
_SHOWN = 5  # differences named in a reason


class DrillPhase(msgspec.Struct, frozen=True):
    """One phase and how long it took."""

    name: str
    seconds: float


class Drilled(msgspec.Struct):
    """What a drill found."""

    snapshot: str
    release: str
    api: str
    passed: bool = False  # the configuration came back whole
    reason: str = ""  # in words; the server's own where it was the server that said no
    detail: Sequence[str] = ()  # further lines
    phases: list[DrillPhase] = msgspec.field(default_factory=list)  # in order; the last one is where it ended
    rto_seconds: float | None = None  # from opening the snapshot to the configuration read back
    comparison: Comparison | None = None  # what the read-back differs in
    unkept: PartlyDone | None = None  # why the store has no record of it

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON, as it also stands in records; differences are counted, never quoted."""
        found = self.comparison
        return {
            "snapshot": self.snapshot,
            "release": self.release,
            "api": self.api,
            "tool": __version__,
            "result": PASSED if self.passed else FAILED,
            "reason": self.reason,
            "detail": list(self.detail),
            "phases": [{"name": phase.name, "seconds": round(phase.seconds, 3)} for phase in self.phases],
            "rto_seconds": None if self.rto_seconds is None else round(self.rto_seconds, 3),
            "differences": len(found.differences) if found else None,
            "not_comparable": len(found.not_comparable) if found else None,
        }


def drill(site: Site, rehearsal: Rehearsal, snapshot: Snapshot) -> Generator[str, None, Drilled]:
    """Rehearse a restore under the site's lock and keep the result, signed; yields words.

    Raises:
        Gone: it was removed meanwhile.
        Refused: no private key or no licence is at hand that it needs, or nothing can be brought up here.
        StoreFailed: the store did not give the snapshot; NotWritten: this machine has no room to prove it.
        WorkFailed: the throw-away manager did not answer, as on a machine that is overloaded.
        Invalid: password or key cannot be read, Mistyped: it was typed wrongly; that says nothing of the snapshot.
    """
    if not site.identities():
        readers = ", ".join(snapshot.recipients) or "the recipients of the snapshot"
        raise Refused(
            "this machine cannot drill: it has no private key to open snapshots with",
            detail=[f"snapshot {snapshot.id} opens with the private key of {readers}"],
            hint="run `maint backup drill` where `backup.identity` is, with this store in its config",
        )
    insist_on_password(site)
    found = Drilled(snapshot.id, snapshot.versions.get("manager", ""), snapshot.versions.get("api", ""))
    try:
        yield from _Rehearsed(site, rehearsal, snapshot, found).run()
    except (StoreFailed, NotWritten):  # the store's, or this machine's own: neither says anything of the snapshot
        raise
    except (LoginRefused, NotTrusted) as failure:
        found.reason, found.detail = failure.message, tuple(failure.detail)
    except (CannotReach, TimedOut, AnswerMissing) as failure:
        raise WorkFailed(
            "the throw-away manager did not answer, which says nothing of the snapshot: nothing is recorded of it",
            detail=[failure.message, *failure.detail],
            hint="drill again when this machine has less to do, or more memory",
        ) from failure
    except WorkFailed as failure:
        refuse_removed(site, snapshot.id)
        found.reason, found.detail = failure.message, tuple(failure.detail)
    found.passed = not found.reason
    found.reason = found.reason or "the configuration came back, and nothing differs"
    try:
        write_record(site, DRILL, snapshot.id, found.to_json())
    except StoreFailed as failure:
        found.unkept = unkept(failure)
    return found


class _Rehearsed:
    """One rehearsal under way; notes phases and findings in `found`."""

    def __init__(self, site: Site, rehearsal: Rehearsal, snapshot: Snapshot, found: Drilled) -> None:
        self._site, self._rehearsal, self._snapshot, self._found = site, rehearsal, snapshot, found
        self._unlicensed: Refused | None = None  # why there is no licence to upload

    def run(self) -> Iterator[str]:
        yield f"verifying snapshot {self._snapshot.id}"
        with self._phase("verify"):
            verification = verify(self._site, self._snapshot.id, 3)
        refuse_mistyped(self._site, verification)
        if verification.unread or verification.locked or verification.misdated or verification.shut_out:
            raise Refused(
                f"snapshot {self._snapshot.id} cannot be drilled here and now, which says nothing of it",
                detail=[verification.words],
                hint=verification.way_on,
            )
        if not verification.proven:  # doubts about virtual clusters say nothing of the manager
            raise WorkFailed(
                f"it does not pass level 3: {verification.words}",
                hint="drill another snapshot (`maint backup list`), and take a new backup",
            )
        for one in escrow(self._site, self._snapshot):
            # A key that does not fit says nothing of the snapshot: it is told, and brands no good backup.
            yield f"{'' if one.opens else 'WARNING: '}recipient {one.recipient}: {one.words}"
        begun = self._site.clock.monotonic()
        with self._phase("open"):
            summary = verdict_of(self._site, self._snapshot).summary
        yield f"bringing up a throw-away manager of release {self._found.release}"
        api = int(self._found.api.removeprefix("v"))
        size = self._snapshot.part(DEPLOYMENT).content_bytes
        with (
            open_part(self._site, self._snapshot, DEPLOYMENT) as document,
            self._rehearsal.stage(document, size, api) as stage,
        ):
            yield from self._restore(stage, summary, verification, api)
            self._found.rto_seconds = self._site.clock.monotonic() - begun
            yield "comparing"
            with self._phase("compare"):
                self._judge(self._compare(stage))

    def _restore(self, stage: Stage, summary: DeploymentSummary, verification: Verification, api: int) -> Iterator[str]:
        with self._phase("licence"):
            stage.manager.log_in()
            if licence := self._license():
                stage.manager.upload_license(licence)
        yield f"sending {show_size(self._snapshot.part(DEPLOYMENT).content_bytes)} of configuration"
        with self._phase("put"):
            self._put(stage, api)
        yield "restarting it"
        with self._phase("restart"):
            stage.restart()
            stage.manager.forget_login()
        if summary.web_tls:
            with self._phase("tls"):
                _insist_on_tls(stage)
        yield "logging in with the restored account"
        with self._phase("login"):
            self._log_in(stage, verification)

    def _license(self) -> bytes | None:
        try:
            return usable_license(self._site, snapshot=self._snapshot, own=False).content
        except Refused as none:  # the deployment may need none
            self._unlicensed = none
            return None

    def _put(self, stage: Stage, api: int) -> None:
        with open_part(self._site, self._snapshot, DEPLOYMENT) as stream:
            body = Body(stream.read, self._snapshot.part(DEPLOYMENT).content_bytes)
            try:
                answer = stage.manager.put_deployment(body, api=api, delete_current=True, timeout=LIMIT)
            except WorkFailed as failure:
                if self._unlicensed is None or "license" not in failure.message:
                    raise
                raise Refused(
                    f"snapshot {self._snapshot.id} cannot be drilled without a licence, which says nothing of it",
                    detail=[failure.message, *self._unlicensed.detail],
                    hint="put a licence that is in date where `manager.license` in the config points, then drill again",
                ) from failure
        while answer.read(BLOCK):
            pass

    def _log_in(self, stage: Stage, verification: Verification) -> None:
        """Log in as configured; where nobody can tell how the server hashes, the stage lets the account in."""
        if any(one.rule == "login" and one.passed is None for one in verification.findings):
            stage.admit()
        account = stage.manager.log_in()
        if account.bootstrap:
            raise LoginRefused(
                f"{self._site.settings.manager.login.username} is not let in after the restore",
                hint="the account in the config must be one that the snapshot holds, with the password of that time",
            )

    def _compare(self, stage: Stage) -> Comparison:
        fingerprint = site_fingerprint(self._site)
        with open_part(self._site, self._snapshot, DEPLOYMENT) as stream:
            wanted = normalize(blocks(stream.read), fingerprint)
        with stage.manager.deployment() as answer:
            present = normalize(blocks(answer.read), fingerprint)
        return compare(wanted, present)

    def _judge(self, comparison: Comparison) -> None:
        self._found.comparison = comparison
        if comparison.differences:
            raise WorkFailed(
                f"what came back differs in {show_count(len(comparison.differences), 'place')}",
                detail=[one.path for one in comparison.differences[:_SHOWN]],
                hint="do not rely on this snapshot: take a new backup, and drill that",
            )

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        clock: Clock = self._site.clock
        begun = clock.monotonic()
        try:
            yield
        finally:
            self._found.phases.append(DrillPhase(name, clock.monotonic() - begun))


def _insist_on_tls(stage: Stage) -> None:
    presence = stage.manager.presence()
    if presence.door is not Door.TLS or presence.silent:
        raise WorkFailed(
            f"TLS did not come up: plain port {presence.plain}, TLS port {presence.tls}",
            hint="`maint backup show` says which files of TLS the snapshot keeps; drill another one",
        )
    if presence.chain is not None:
        raise NotTrusted(
            f"the certificate on the TLS port is not to be trusted: {presence.chain}",
            hint="`manager.ca` must hold the certificate that signed the manager's",
        )
