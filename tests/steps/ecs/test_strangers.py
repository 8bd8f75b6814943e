"""An address in the config that leads to another machine than the cluster's host harms nobody there."""

import re
from pathlib import Path

from tests.steps.ecs.hosts import ONE, TWO, did, retire, trees
from tests.steps.operator import Operator

OTHER = "base-02.example.internal"


def swap(operator: Operator) -> None:
    """Let the config reach one of the cluster's hosts where another host is, and that one there."""
    config = Path(operator.config)
    text = config.read_text()
    ports = [m[1] for name in (TWO, OTHER) if (m := re.search(rf'"{name}".*?port: (\d+)', text, re.DOTALL))]
    places = {ports[0]: ports[1], ports[1]: ports[0]}
    config.write_text(re.sub(r"(?<=port: )\d+", lambda m: places.get(m[0], m[0]), text))


def test_another_machine_is_told_when_the_plan_is_made_and_one_of_another_name_is_known_by_its_address(
    loaded: Operator,
) -> None:
    swap(loaded)
    before = trees(loaded)
    said = retire(loaded)
    assert (said.code, loaded.sent) == (5, []), said.err
    words = f"{TWO}: what answers there calls itself {OTHER}, not {TWO} (192.0.2.22)"
    assert words in said.err and "hint: set `address`" in said.err, said.err
    assert "`maint cluster delete ecs-01 --api-only`" in said.err
    assert trees(loaded) == before
    swap(loaded)
    loaded.lab.machines[TWO].facts["fqdn"] = "ecs2.example.internal"
    assert retire(loaded, "--dry-run").code == 0


def test_another_machine_is_told_when_the_run_is_taken_up_also_at_the_same_address(loaded: Operator) -> None:
    loaded.lab.break_("commands", "command-fails-in-child")
    assert retire(loaded).code == 1
    swap(loaded)
    loaded.lab.repair()
    said = loaded("playbook", "resume")
    assert (said.code, f"works on host {TWO} at" in said.err) == (5, True), said.err
    assert not did(loaded, OTHER) and not any(words.startswith("dnf") for words in did(loaded, ONE))
    swap(loaded)
    machine = loaded.lab.machines[TWO]
    facts, address = dict(machine.facts), machine.address
    machine.facts["fqdn"], machine.address = "base-09.example.internal", "192.0.2.99"
    said = loaded("playbook", "resume")
    assert (said.code, "calls itself base-09.example.internal" in said.err) == (5, True), said.err
    assert "then `maint playbook resume " in said.err and "--api-only" not in said.err, "the run has begun"
    assert not any(words.startswith("dnf") for name in (ONE, TWO) for words in did(loaded, name))
    machine.facts, machine.address = facts, address
    said = loaded("playbook", "resume")
    assert said.code == 0, said.err
    assert not did(loaded, OTHER)
