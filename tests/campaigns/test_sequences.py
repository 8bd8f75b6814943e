"""Sequences of what an operator does, of kills, faults and damages: what is said stays true after each of them.

A command that is killed runs in a child of this process, which dies by SIGKILL at its n-th fsync. With MAINT_CAMPAIGN
set, 5,000 sequences are tried instead of a few, or MAINT_CAMPAIGN_TRIES; `--hypothesis-seed` chooses others.
"""

import json
import os
import shutil
import signal
import tempfile
import traceback
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from maint.lab.create import SITE
from maint.lab.pki import age_key
from maint.lab.running import Lab
from tests.campaigns.forks import fork
from tests.campaigns.size import FULL, size, tries
from tests.steps.conftest import copy
from tests.steps.operator import Operator, Said

TRIES = tries(2, 5000)
KILLS = st.none() | st.integers(1, 40)  # fsyncs until it dies
WHICH = st.integers(0, 20)
FAULTS = st.sampled_from(
    ["", "", "error-500-once", "connection-dropped", "cut-body", "cut-body-cleanly", "html-200", "unauthorised-once"]
)
PUT_FAULTS = st.sampled_from(["", "", "put-answer-lost", "put-fails", "proxy-502"])
ENDED = {"done", "partly", "refused", "dismissed"}


class Sequence(RuleBasedStateMachine):
    """One site, from its first backup on."""

    template: Path

    @initialize()
    def bring_up(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sequence-"))
        self.lab = Lab(copy(self.template, self.folder / "lab"))
        self.lab.start()
        self.operator = Operator(self.lab)
        self.before = self.operator.options.read_bytes()
        self._configure("    backup:\n", "    backup:\n      keep: {last: 1}\n      minimum: 1\n")
        self.held: set[str] = set()
        self.damaged: set[str] = set()
        self.restores = 0

    def _configure(self, old: str, new: str) -> None:
        path = Path(self.operator.config)
        path.write_text(path.read_text().replace(old, new))

    @property
    def stored(self) -> list[str]:
        return sorted(path.parent.name for path in (self.lab.folder / "backups" / SITE).glob("2*/manifest.json"))

    def _one(self, which: int) -> str:
        return self.stored[which % len(self.stored)]

    def _do(self, *words: str, kill: int | None = None, fault: str = "") -> Said:
        if fault:
            self.lab.break_("", fault)
        said = self.operator(*words) if kill is None else self._killed(words, kill)
        self.lab.repair()
        assert said.code in (0, 1, 2, 4, 5, 7, -9), (words, kill, fault, said)
        return said

    def _killed(self, words: tuple[str, ...], at: int) -> Said:
        answer = self.folder / "answer"
        answer.unlink(missing_ok=True)
        child = fork()
        if not child:
            try:
                real, left = os.fsync, [at]

                def fsync(handle: int) -> None:
                    left[0] -= 1
                    if not left[0]:
                        os.kill(os.getpid(), signal.SIGKILL)
                    real(handle)

                os.fsync = fsync
                said = self.operator(*words)
                answer.write_text(json.dumps([said.code, said.out, said.err]))
            except BaseException:
                answer.write_text(json.dumps([70, "", traceback.format_exc()]))
            finally:
                os._exit(0)
        try:
            os.waitpid(child, 0)
        except BaseException:  # whoever interrupts this leaves no child behind
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
        return Said(*json.loads(answer.read_text())) if answer.exists() else Said(-9, "", "")

    @rule(kill=KILLS, fault=FAULTS)
    def create(self, kill: int | None, fault: str) -> None:
        known = self.stored
        said = self._do("backup", "create", "--open-window", "--yes", kill=kill, fault=fault)
        if said.code == 0:
            new = [one for one in self.stored if one not in known]
            assert len(new) == 1, said.err
            assert self._verify(new[0]).code == 0

    def _verify(self, snapshot: str) -> Said:
        return self._do("backup", "verify", snapshot, "--level", "3")

    @rule(which=WHICH)
    def hold(self, which: int) -> None:
        if self._do("backup", "hold", self._one(which), "--reason", "so").code == 0:
            self.held.add(self._one(which))

    @rule(which=WHICH)
    def release(self, which: int) -> None:  # no precondition: what is drawn must not depend on how a kill went
        if not self.held:
            return
        one = sorted(self.held)[which % len(self.held)]
        if self._do("backup", "release", one, "--reason", "so").code == 0:
            self.held.discard(one)

    @rule(which=WHICH)
    def verify(self, which: int) -> None:
        listed = [one for one in self._listed() if one["restorable"] or one["id"] in self.damaged]
        if listed:
            one = listed[which % len(listed)]["id"]
            assert (self._verify(one).code == 0) is (one not in self.damaged)

    @rule(kill=KILLS)
    def prune(self, kill: int | None) -> None:
        self._do("backup", "prune", "--yes", kill=kill)

    @rule(kill=KILLS)
    def rekey(self, kill: int | None) -> None:
        identity = self.lab.folder / "identity"
        new, recipient = age_key()
        identity.write_text(f"{identity.read_text().strip()}\n{new}\n")
        old = next(word.strip("'\"- []") for word in Path(self.operator.config).read_text().split() if "age1" in word)
        self._configure(old, recipient)
        self._do("backup", "rekey", "--all", kill=kill)

    @rule(value=st.integers(1, 3))
    def drift(self, value: int) -> None:
        self._do("setting", "set", "dfs_replication", str(value), "--service", "hdfs", "--yes")

    @rule(which=WHICH)
    def damage(self, which: int) -> None:
        one = self._one(which)
        path = self.lab.folder / "backups" / SITE / one / "deployment.json.zst.age"
        content = path.read_bytes()
        path.chmod(0o600)
        path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
        self.damaged ^= {one}  # twice is back

    @rule(kill=KILLS, fault=PUT_FAULTS)
    def lose_and_restore(self, kill: int | None, fault: str) -> None:
        self.lab.lose_database()
        self.operator.forget_requests()
        runs = len(self._runs())
        self._do("restore", "run", "--confirm", SITE, "--manager-only", kill=kill, fault=fault)
        self._end_all()
        assert self.operator.puts <= 1 + (fault == "put-fails"), self.operator.sent
        assert len(self._runs()) <= runs + 1

    @rule(kill=KILLS)
    def resume(self, kill: int | None) -> None:
        self._do("playbook", "resume", "--yes", kill=kill)

    def _listed(self) -> Any:
        return self.operator("backup", "list", "-o", "json").json["snapshots"]

    def _runs(self) -> list[dict[str, str]]:
        runs: list[dict[str, str]] = self.operator("playbook", "history", "-o", "json").json["runs"]
        return runs

    def _end_all(self) -> None:
        for run in [one for one in self._runs() if one["state"] not in ENDED]:
            if self._do("playbook", "resume", run["id"], "--yes", "--confirm", SITE).code not in (0, 7):
                self._do("playbook", "dismiss", run["id"], "--reason", "so")

    @invariant()
    def what_is_held_is_there(self) -> None:
        assert self.held <= {*self.stored}
        self.damaged &= {*self.stored}

    def teardown(self) -> None:
        try:
            self._end_all()
            said = self._do("manager", "export", "--close-window", "--yes")
            assert (said.code, self.operator.window) == (0, False), said.err
            assert self.operator.options.read_bytes() == self.before
            for one in self._listed():
                if one["restorable"] and one["id"] not in self.damaged:
                    said = self._verify(one["id"])
                    assert said.code == 0, (one, said.err)
            for one in self.damaged:
                assert self._verify(one).code != 0
        finally:
            self.lab.stop()
            shutil.rmtree(self.folder, ignore_errors=True)  # a handler of the lab may still write a line of its log


def test_whatever_is_done_in_whatever_order_what_is_said_stays_true(backed_up: Path) -> None:
    Sequence.template = backed_up
    run_state_machine_as_test(
        Sequence,
        settings=settings(
            max_examples=TRIES, stateful_step_count=size(6, 12), derandomize=not FULL, database=None,
            deadline=None, phases=[Phase.generate], suppress_health_check=[*HealthCheck], report_multiple_bugs=False,
        ),
    )  # fmt: skip
