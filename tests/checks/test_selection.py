"""What was asked for decides what is judged, and no result is never a pass."""

from datetime import timedelta

import pytest

from maint.checks.check import judge
from maint.checks.facts import ManagerFacts
from maint.checks.registry import CHECKS, select
from maint.errors import UsageError
from maint.model.fleet import State
from maint.model.formatting import show_time
from tests.checks.facts import NOW, host, site


def test_a_check_that_concerns_none_of_the_hosts_is_a_skip_and_not_silence() -> None:
    known = host({}, profiles="B").site
    (finding,) = judge([CHECKS["cm.server"]], known)
    assert (finding.state, finding.host) == (State.SKIP, "")
    assert "manager" in finding.observed


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"ids": ["cm.server"], "groups": ["ecs"]}, "not in group ecs"),
        ({"groups": ["database"], "phase": "before-backup"}, "belongs to phase before-backup"),
    ],
)
def test_a_choice_that_leaves_nothing_is_refused(asked: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        select(**asked)  # type: ignore[arg-type]


def heartbeats(*, chosen: bool) -> dict[str, State]:
    fresh = NOW.isoformat()
    ahead = (NOW + timedelta(minutes=5)).isoformat()
    stamps = {"base-01": fresh, "base-02": "2020-01-01T00:00:00Z", "base-04": ahead}
    known = site(ManagerFacts("", hosts=[{"hostname": n, "lastHeartbeat": stamp} for n, stamp in stamps.items()]))
    for name, profiles in (("base-01", "B"), ("base-03", "B"), ("db", "D")):
        host({}, name=name, profiles=profiles, site=known)
    return {one.host: one.state for one in judge([CHECKS["cm.agent.heartbeat"]], known, chosen=chosen)}


@pytest.mark.parametrize(
    ("behind", "state"),
    [(timedelta(minutes=10), State.FAIL), (-timedelta(minutes=10), State.PASS), (None, State.PASS)],
)
def test_a_sign_of_life_is_judged_by_the_clock_that_stamped_it(behind: timedelta | None, state: State) -> None:
    told = NOW + (behind or timedelta())
    heard = NOW if behind is None or behind > timedelta() else told
    manager = ManagerFacts(
        "", hosts=[{"hostname": "one", "lastHeartbeat": heard.isoformat()}], clock=show_time(told) if behind else ""
    )
    (found,) = judge([CHECKS["cm.agent.heartbeat"]], site(manager))
    assert found.state is state
    assert ("by this machine's clock" in found.observed) is (behind is None)


def test_a_choice_of_hosts_leaves_out_what_the_manager_says_of_others() -> None:
    found = {"base-01": State.PASS, "base-03": State.FAIL, "db": State.SKIP}
    assert heartbeats(chosen=True) == found
    assert heartbeats(chosen=False) == {**found, "base-02": State.FAIL, "base-04": State.ERROR}
