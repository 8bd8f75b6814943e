"""A host of the group manager that runs another manager, or none: it is told, and nothing of it is touched."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from maint.cli.site import doctor as doctor_command
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from tests.house.source import modules
from tests.steps.conftest import FAST
from tests.steps.operator import Operator

REFUSED = "is not the machine that runs the manager"
UNSHOWN = "nothing shows it: the API names no server, and lists no such host"
Stranger = Callable[..., Operator]


def point(operator: Operator, port: int) -> None:
    """Let the config's host of the manager lead to another port of SSH."""
    path = Path(operator.config)
    mine = json.loads((operator.lab.folder / "lab.json").read_bytes())["ssh_ports"][operator.lab.manager_host]
    text = path.read_text()
    assert text.count(f"port: {mine}\n") == 1
    path.write_text(text.replace(f"port: {mine}\n", f"port: {port}\n"))


@pytest.fixture(autouse=True)
def looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctor looks at the manager alone, as at all else in its own tests."""
    whole = doctor_command.guarded

    def guarded(label: str, *told: Any) -> Iterator[Any]:
        return whole(label, *told) if label == "manager" else iter(())

    monkeypatch.setattr(doctor_command, "guarded", guarded)


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Stranger]:
    """Bring up a manager of somebody else's, whose host the operator's config takes for its own manager's."""
    labs: list[Lab] = []

    def build(operator: Operator, **more: object) -> Operator:
        folder = tmp_path / "stranger"
        (folder / "ssh").mkdir(parents=True)
        shutil.copy(operator.lab.folder / "ssh/id_ed25519", folder / "ssh")
        lab = Lab(folder, Options(switches=FAST, **more))  # type: ignore[arg-type]  # as the caller says
        lab.start()
        labs.append(lab)
        known = operator.lab.folder / "ssh/known_hosts"
        known.write_text(known.read_text() + (folder / "ssh/known_hosts").read_text())
        point(operator, lab.status()["ssh"]["port"])
        return Operator(lab)

    yield build
    for lab in labs:
        lab.stop()


def untouched(theirs: Operator) -> Callable[[], bool]:
    """Return what tells whether the options file and the running server of a manager are as they are now."""
    before = theirs.options.read_bytes(), theirs.lab.server.properties()
    return lambda: (theirs.options.read_bytes(), theirs.lab.server.properties()) == before


def doctor(operator: Operator) -> tuple[str, str, str]:
    """Return state, words and hint of doctor's line about the manager's host."""
    lines = operator("doctor", "-o", "json").json["checks"]
    return next((one["state"], one["words"], one["hint"]) for one in lines if one["label"] == "manager's host")


def checked(operator: Operator) -> dict[str, str]:
    """Return what `host check` finds out about it."""
    found = operator("host", "check", "--check", "cm.identity", "-o", "json").json["findings"]
    return next(one for one in found if one["check"] == "cm.identity")


ACTS = {
    "a window": ("backup", "create", "--open-window", "--yes"),
    "an export through the window": ("manager", "export", "--open-window", "--yes"),
    "closing": ("manager", "export", "--close-window", "--yes"),
}
OTHERS = {"of other names": {"fresh": True}, "of the same names": {}}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_another_managers_host_is_left_alone_and_told_and_nothing_is_restored_there(
    loaded: Operator, stranger: Stranger, other: dict[str, object]
):
    theirs = stranger(loaded, **other)
    as_before = untouched(theirs)
    for what, words in ACTS.items():
        said = loaded(*words)
        assert (said.code, REFUSED in said.err, as_before()) == (5, True, True), (what, said.err)
        assert not loaded.window and "accepted:" in said.err
    state, words, hint = doctor(loaded)
    assert state == "FAIL" and loaded.lab.manager_host in words and "under `hosts:`" in hint
    found = checked(loaded)
    assert (found["state"], found["observed"] in words) == ("fail", True)
    loaded.lab.lose_database()
    said = loaded.restore()
    assert (said.code, REFUSED in said.err, loaded.puts, as_before()) == (5, True, 0, True), said.err


PLAYBOOK = "name: one\nsummary: One step.\nsteps:\n  - {name: one, do: KIND}\n"


def test_no_step_acts_on_another_managers_server_no_password_goes_there_and_nothing_of_it_goes_into_a_backup(
    loaded, stranger, tmp_path
):
    as_before = untouched(stranger(loaded))
    path = tmp_path / "one.yaml"
    for kind in ("server.restart", "server.stop", "server.start", "window.open"):
        path.write_text(PLAYBOOK.replace("KIND", kind))
        said = loaded("playbook", "run", str(path), "--yes")
        assert (said.code, REFUSED in said.err, as_before()) == (5, True, True), (kind, said.err)
    left = json.dumps({"run": "r", "opened_at": "2026-11-28T00:00:00Z", "hosts": {
        loaded.lab.manager_host: {"original": "0" * 32, "before": "absent", "after": "0" * 64}}})  # fmt: skip
    (loaded.state / "window.json").write_text(left)  # and the config names another host by now
    said = loaded("manager", "export", "--close-window", "--yes")
    assert (said.code, as_before(), loaded.window) == (5, True, True), said.err
    (loaded.state / "window.json").unlink()
    lines = {one["label"]: one for one in loaded("doctor", "-o", "json").json["checks"]}
    assert (lines["truststore"]["state"], "could not be tried" in lines["truststore"]["words"]) == ("skip", True)
    loaded.lab.world.redaction = False
    said = loaded("backup", "create", "-v")
    assert "is left out: it is not the manager's host" in said.err, said.err
    newest = loaded("backup", "list", "-o", "json").json["snapshots"][-1]
    assert not [part for part in newest["parts"] if part["name"].startswith(("manager-files", "database"))]


def test_a_host_that_runs_no_manager_is_not_the_managers(loaded):
    other = list(loaded.lab.machines)[1]
    point(loaded, loaded.lab._facts["ssh_ports"][other])
    said = loaded("backup", "create", "--open-window", "--yes")
    assert (said.code, "it has no cloudera-scm-server" in said.err) == (5, True), said.err
    assert doctor(loaded)[0] == "FAIL"


def accept(operator: Operator, until: str) -> None:
    """Let somebody answer for the manager's host."""
    path = Path(operator.config)
    lines = [
        "    accepted:",
        f'      - {{check: cm.identity, reason: "a balancer ends TLS", owner: ops, until: {until}}}',
    ]
    text = path.read_text()
    assert "    manager:\n" in text
    path.write_text(text.replace("    manager:\n", "\n".join([*lines, "    manager:", ""]), 1))


def test_what_stands_in_front_of_a_manager_is_accepted_in_the_config_until_its_day(loaded, stranger):
    theirs = stranger(loaded)
    accept(loaded, "2099-01-01")
    state, words, hint = doctor(loaded)
    assert (state, "accepted by ops until 2099-01-01: a balancer ends TLS" in words, hint) == ("ok", True, None)
    assert checked(loaded)["state"] == "pass"
    said = loaded("backup", "create", "--open-window", "--dry-run")
    assert (said.code, "NOT SHOWN to run this manager" in said.out + said.err) == (0, True), said.err
    text = Path(loaded.config).read_text()
    Path(loaded.config).write_text(text.replace("2099-01-01", "2020-01-01"))
    as_before = untouched(theirs)
    assert (loaded("backup", "create", "--open-window", "--yes").code, as_before()) == (5, True)


@pytest.mark.parametrize("switches", [{}, {"lost": True}, {"announced_api": "40"}], ids=["TLS", "plain", "old API"])
def test_the_managers_own_host_is_shown_to_be_it(make, switches):
    operator = make(**switches)
    path = Path(operator.config)
    path.write_text(path.read_text().replace('"v45"', '"v40"'))
    assert doctor(operator)[0] == "ok"
    found = checked(operator)
    assert (found["state"], found["observed"]) == ("pass", "shown to be it")


def test_a_host_of_which_nothing_shows_whose_it_is_is_believed_also_where_nothing_listens_and_the_plan_says_so(
    make, stranger
):
    operator = make(lost=True, announced_api="40")  # no server is named, no host is listed
    path = Path(operator.config)
    path.write_text(re.sub(r"\bv4[0-9]\b", "v40", path.read_text()))
    assert doctor(operator)[:2] == ("skip", f"{operator.lab.manager_host}: {UNSHOWN}")
    found = checked(operator)
    assert (found["state"], found["observed"]) == ("error", UNSHOWN)
    said = operator("backup", "create", "--open-window", "--dry-run", "--allow-plain")
    assert (said.code, "NOT SHOWN to run this manager" in said.out + said.err) == (0, True), said.err
    stranger(operator, fresh=True)
    said = operator("backup", "create", "--open-window", "--dry-run")
    assert (said.code, "NOT SHOWN to run this manager" in said.out + said.err) == (0, True), said.err
    assert (doctor(operator)[0], checked(operator)["state"]) == ("skip", "error")


def test_a_manager_that_is_down_is_started_and_the_plan_says_that_nothing_shows_whose_it_is(loaded, tmp_path):
    path = tmp_path / "one.yaml"
    path.write_text(PLAYBOOK.replace("KIND", "server.start"))
    loaded.lab.server.stop()
    said = loaded("playbook", "plan", str(path))
    assert (said.code, "NOT SHOWN to run this manager" in said.out) == (0, True), said.out + said.err
    assert loaded("playbook", "run", str(path), "--yes").code == 0
    assert loaded.lab.server.active()


# What names the manager's hosts and does nothing to them by itself.
ELSEWHERE = {
    "maint.ports.manager_host": "who asks",
    "maint.adapters.ssh.shell": "the way to each host",
    "maint.engine.hosts": "names",
    "maint.engine.load": "names",
    "maint.restore.preview": "words",
    "maint.steps.hosts.check": "reads",
    "maint.steps.hosts.fan_out": "hosts that the operator names",
}


def test_whatever_works_on_the_managers_hosts_asks_first_whether_they_are_its():
    texts = {name: path.read_text() for name, path in modules().items() if not name.startswith("maint.cli.")}
    named = {name for name, text in texts.items() if 'hosts_in("manager")' in text}
    assert {name for name in named if "manager_host import" not in texts[name]} == {*ELSEWHERE}
