"""A run on a site that several machines work on: two state folders, one shared folder."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from maint.adapters.clock import SystemClock
from maint.adapters.stores.local import LocalStore
from maint.cli.composition import ConfiguredSite
from maint.config.secrets import ReferencedSecrets
from maint.engine import journal as journals
from maint.engine.lease import Lease, LeaseLost, Terms, newest
from maint.errors import Locked
from maint.steps.registry import STEPS
from tests.engine.conftest import TRIES, Bench, Changing, site_in

HEAD = "name: x\nsummary: X.\n"
A, B = "  - {name: A, do: try.change, with: {target: a}}\n", "  - {name: B, do: try.change, with: {target: b}}\n"
READ = "  - {name: R, do: try.read, with: {target: r}}\n"
TAIL = "finally:\n  - {name: F, do: try.change, with: {target: closed}}\n"


def machine(folder: Path, name: str) -> Bench:
    """Return a machine with a state folder of its own; what it does is written beside that."""
    (folder / name).mkdir(exist_ok=True)
    site = site_in(folder / name)
    settings = site.settings.model_copy(update={"shared_state": str(folder / "shared")})
    return Bench(ConfiguredSite(settings, ReferencedSecrets(folder, {}), lambda words: None))


@pytest.fixture
def one(tmp_path: Path) -> Bench:
    return machine(tmp_path, "one")


@pytest.fixture
def other(tmp_path: Path) -> Bench:
    return machine(tmp_path, "other")


def steal(folder: Path) -> None:
    """Take the lease away, as another machine does once it has lapsed."""
    store = LocalStore(folder / "shared")
    row = newest(store, "prod")
    assert row is not None
    list(Lease(store, "prod", SystemClock(), row.claim.owner, "stealing", Terms(beat=0)).take())


@pytest.fixture
def stolen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While step `a` acts, another machine takes the lease."""
    apply = Changing.apply

    def stealing(step, action, site, work):
        if action.target == "a":
            steal(tmp_path)
        return (yield from apply(step, action, site, work))

    monkeypatch.setattr(Changing, "apply", stealing)


def test_a_run_takes_the_lease_names_itself_and_its_act_and_gives_it_back(one, monkeypatch):
    seen = []
    apply = Changing.apply

    def looking(step, action, site, work):
        seen.append(newest(site.shared, "prod").claim)
        return (yield from apply(step, action, site, work))

    monkeypatch.setattr(Changing, "apply", looking)
    one.run(HEAD + "steps:\n" + A + B)
    run = journals.history(one.site.state)[0].id
    assert [(claim.run, claim.act) for claim in seen] == [(run, "work on a"), (run, "work on b")]
    assert newest(one.site.shared, "prod").claim.token == ""


def test_without_a_shared_state_nothing_is_leased(tmp_path):
    bench = Bench(site_in(tmp_path))
    bench.run(HEAD + "steps:\n" + A)
    assert bench.site.shared is None
    assert not (bench.site.state / "owner").exists()


def test_a_second_machine_is_refused_while_the_first_one_works(one, other):
    held = Lease(one.site.shared, "prod", one.site.clock, "somebody", "playbook restore")
    list(held.take())
    assert isinstance(other.fails(HEAD + "steps:\n" + A), Locked)
    assert (other.did, journals.history(other.site.state)) == ([], [])
    held.give_back()
    other.run(HEAD + "steps:\n" + A)
    assert other.did == ["a"]


def test_what_only_reads_asks_for_no_further_number(one):
    one.run(HEAD + "steps:\n" + READ * 3)
    assert newest(one.site.shared, "prod").number == 2  # taken, and given back


def test_a_machine_that_lost_its_lease_begins_no_further_act(one, stolen):
    error = one.fails(HEAD + "steps:\n" + A + B + TAIL)
    assert isinstance(error, LeaseLost)
    assert one.did == ["a"]
    run = journals.history(one.site.state)[0]
    assert (run.state, run.record(1).begun, run.record(2).begun) == ("failed", False, False)


def test_where_one_branch_lost_the_lease_no_other_goes_on(one, stolen):
    plan = one.plan(HEAD + "steps:\n" + A + B + READ)
    lanes = [replace(action, lane=f"lane-{number}") for number, action in enumerate(plan.actions)]
    assert isinstance(one.fails(replace(plan, actions=lanes)), LeaseLost)
    assert one.did == ["a"]


def test_the_window_that_it_opened_is_closed_even_by_a_machine_that_lost_its_lease(one, stolen, monkeypatch):
    monkeypatch.setitem(STEPS, "window.close", TRIES["try.change"])
    plan = one.plan(HEAD + "steps:\n" + A + B + TAIL)
    closing = replace(plan.actions[-1], kind="window.close")
    assert isinstance(one.fails(replace(plan, actions=[*plan.actions[:-1], closing])), LeaseLost)
    assert one.did == ["a", "closed"]


def test_a_lease_that_was_taken_over_is_told_and_stands_in_the_journal(one, other):
    lapsed = Terms(lapses=-10.0, ends=0.0, beat=0.0)
    held = Lease(one.site.shared, "prod", one.site.clock, "somebody", "playbook restore", lapsed)
    list(held.take())
    other.run(HEAD + "steps:\n" + A)
    (path,) = (other.site.state / "runs").glob("*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    (told,) = [line for line in lines if line["what"] == "lease"]
    assert "playbook restore" in told["taken_over"]
    assert journals.read(path).state == "done"
