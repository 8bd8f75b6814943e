"""Retention as a pure function: what must hold for any snapshots, any policy and any time."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from maint.config.schema import Keep
from maint.errors import Refused
from maint.snapshots.holds import Hold
from maint.snapshots.retention_policy import OWN_LIFE, Candidate, Retention, decide

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
KINDS = ("good", "safety copy", "audit-only", "not verified to level 3", "damaged")

ages = st.integers(min_value=-60 * 24 * 10, max_value=60 * 24 * 800)  # minutes; below zero is the future
counts = st.integers(min_value=0, max_value=6)
policies = st.builds(Keep, last=counts, hourly=counts, daily=counts, weekly=counts, monthly=counts, yearly=counts)
full_policies = policies.filter(lambda keep: keep != Keep())
minimums = st.integers(min_value=0, max_value=5)


def snapshot(number: int, age: timedelta, kind: str = "good") -> Candidate:
    damage = "its verification failed" if kind == "damaged" else None
    return Candidate(f"{number:04d}", NOW - age, kind == "good", "" if kind == "good" else kind, damage)


@st.composite
def sets(draw: st.DrawFn) -> list[Candidate]:
    drawn = draw(st.lists(st.tuples(ages, st.sampled_from(KINDS)), max_size=40))
    return [snapshot(number, timedelta(minutes=age), kind) for number, (age, kind) in enumerate(drawn)]


holdings = st.dictionaries(
    st.integers(min_value=0, max_value=40).map(lambda number: f"{number:04d}"),
    st.sampled_from([(Hold("audit", NOW),), (Hold("audit", NOW, until=NOW + timedelta(days=1)),)]),
    max_size=6,
)


def judge(
    snapshots: list[Candidate], keep: Keep, minimum: int = 1, holds: Mapping[str, tuple[Hold, ...]] | None = None
) -> Retention:
    return decide(snapshots, keep, NOW, minimum=minimum, holds=holds or {})


def counted(snapshots: list[Candidate]) -> list[Candidate]:
    """Return the good ones that are not from the future, the newest first."""
    fitting = [one for one in snapshots if one.good and one.damage is None and one.taken_at <= NOW]
    return sorted(fitting, key=lambda one: (one.taken_at, one.id), reverse=True)


def reasons(verdict: Retention) -> dict[str, str]:
    return {one.id: "; ".join(one.reasons) for one in verdict.decisions}


@given(sets(), full_policies, minimums, holdings)
def test_the_newest_good_ones_stay_down_to_the_floor(
    snapshots: list[Candidate], keep: Keep, minimum: int, holds: dict[str, tuple[Hold, ...]]
) -> None:
    kept = set(judge(snapshots, keep, minimum, holds).kept)
    assert {one.id for one in counted(snapshots)[: max(minimum, 1)]} <= kept


@given(sets(), full_policies, minimums, holdings)
def test_what_is_held_stays(
    snapshots: list[Candidate], keep: Keep, minimum: int, holds: dict[str, tuple[Hold, ...]]
) -> None:
    assert not set(judge(snapshots, keep, minimum, holds).removed) & set(holds)


@given(sets(), full_policies, minimums, holdings)
def test_deciding_again_after_the_removal_removes_nothing_more(
    snapshots: list[Candidate], keep: Keep, minimum: int, holds: dict[str, tuple[Hold, ...]]
) -> None:
    kept = set(judge(snapshots, keep, minimum, holds).kept)
    left = [one for one in snapshots if one.id in kept]
    assert judge(left, keep, minimum, holds).removed == ()


@given(st.data(), sets(), full_policies, minimums, holdings)
def test_the_order_in_which_snapshots_are_listed_does_not_matter(
    data: st.DataObject, snapshots: list[Candidate], keep: Keep, minimum: int, holds: dict[str, tuple[Hold, ...]]
) -> None:
    shuffled = data.draw(st.permutations(snapshots))
    assert judge(shuffled, keep, minimum, holds) == judge(snapshots, keep, minimum, holds)


@given(sets(), full_policies, minimums)
def test_what_is_from_the_future_or_cannot_be_believed_stays_and_changes_nothing_for_the_others(
    snapshots: list[Candidate], keep: Keep, minimum: int
) -> None:
    odd = {one.id for one in snapshots if one.taken_at > NOW or one.damage is not None}
    whole = judge(snapshots, keep, minimum)
    alone = judge([one for one in snapshots if one.id not in odd], keep, minimum)
    assert odd <= set(whole.kept)
    assert whole.removed == alone.removed


@given(sets(), full_policies, minimums)
def test_every_snapshot_gets_one_decision_with_a_reason(snapshots: list[Candidate], keep: Keep, minimum: int) -> None:
    verdict = judge(snapshots, keep, minimum)
    assert sorted(one.id for one in verdict.decisions) == sorted(one.id for one in snapshots)
    assert all(one.reasons for one in verdict.decisions)


@given(sets(), full_policies, minimums)
def test_only_good_ones_are_counted(snapshots: list[Candidate], keep: Keep, minimum: int) -> None:
    others = {one.id for one in snapshots if not one.good or one.damage is not None}
    good = [one for one in snapshots if one.id not in others]
    removed = set(judge(snapshots, keep, minimum).removed)
    assert removed - others == set(judge(good, keep, minimum).removed)


@given(sets(), full_policies, minimums)
def test_nothing_goes_while_frozen(snapshots: list[Candidate], keep: Keep, minimum: int) -> None:
    verdict = decide(snapshots, keep, NOW, minimum=minimum, holds={}, frozen="a restore runs")
    assert verdict.removed == ()
    assert all("a restore runs" in "; ".join(one.reasons) for one in verdict.decisions)


@pytest.mark.parametrize("policy", [None, Keep()])
def test_an_empty_policy_is_refused(policy: Keep | None) -> None:
    with pytest.raises(Refused, match="no retention policy"):
        decide([snapshot(1, timedelta())], policy, NOW, minimum=3, holds={})


def test_each_rule_keeps_the_newest_of_its_newest_periods() -> None:
    daily = [snapshot(number, timedelta(hours=6 * number)) for number in range(40)]
    kept = judge(daily, Keep(daily=3)).kept
    # 12:00 is the newest of today; 18:00 the newest of the days before.
    assert set(kept) == {"0000", "0003", "0007"}


def test_days_without_a_snapshot_do_not_use_up_a_rule() -> None:
    sparse = [snapshot(number, timedelta(days=30 * number)) for number in range(5)]
    assert set(judge(sparse, Keep(daily=3)).kept) == {"0000", "0001", "0002"}


def test_the_reasons_name_every_rule_that_keeps() -> None:
    two = [snapshot(1, timedelta(days=2)), snapshot(2, timedelta())]
    assert reasons(judge(two, Keep(last=1, yearly=1))) == {
        "0001": "no rule keeps it",
        "0002": "last 1 of 1; yearly 1 of 1; minimum 1 of 1",
    }


def test_a_hold_that_has_run_out_keeps_nothing() -> None:
    two = [snapshot(1, timedelta(days=2)), snapshot(2, timedelta())]
    holds = {"0001": (Hold("audit", NOW - timedelta(days=3), until=NOW),)}
    assert judge(two, Keep(last=1), holds=holds).removed == ("0001",)


@pytest.mark.parametrize("kind", ["safety copy", "audit-only", "not verified to level 3"])
def test_what_nobody_counts_stays_until_it_is_old_and_enough_good_ones_are_newer(kind: str) -> None:
    old, young = snapshot(1, OWN_LIFE + timedelta(days=1), kind), snapshot(2, OWN_LIFE - timedelta(days=1), kind)
    good = [snapshot(number, timedelta(hours=number)) for number in (3, 4)]
    assert judge([old, young, *good], Keep(last=9), 2).removed == ("0001",)
    assert judge([old, young, *good], Keep(last=9), 3).removed == ()
    assert judge([old, young], Keep(last=9), 0).removed == ()


def test_the_operator_may_let_damaged_ones_go_once_they_are_old() -> None:
    old, young = snapshot(1, timedelta(days=90), "damaged"), snapshot(2, timedelta(days=2), "damaged")
    good = snapshot(3, timedelta())
    everything = [old, young, good, replace(old, id="0004", taken_at=NOW + timedelta(days=1))]
    asked = decide(everything, Keep(last=1), NOW, minimum=1, holds={}, damaged=True)
    assert asked.removed == ("0001",)
    assert decide(everything, Keep(last=1), NOW, minimum=1, holds={}).removed == ()


def test_the_newest_backup_of_each_virtual_cluster_stays_however_old_it_is() -> None:
    def alone(number: int, days: int, *clusters: str, damage: str | None = None) -> Candidate:
        return Candidate(f"{number:04d}", NOW - timedelta(days=days), False, "not restorable", damage, clusters)

    manager = [snapshot(number, timedelta(days=20 - number)) for number in range(10, 20)]
    vcs = [alone(0, 90, "a"), alone(1, 80, "a", "b"), alone(2, 70, "a"), alone(3, 60), alone(4, 50, "b", damage="rot")]
    vcs.append(alone(5, -1, "a", "b"))  # from the future
    verdict = judge([*vcs, *manager], Keep(last=1))
    assert [one for one in verdict.kept if one < "0006"] == ["0001", "0002", "0004", "0005"]
    assert reasons(verdict)["0001"] == "the newest that holds virtual cluster b"
