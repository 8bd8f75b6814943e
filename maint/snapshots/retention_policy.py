"""Decide which snapshots stay and which go: a pure function, so that it can be proved (`maint help retention`).

- A snapshot is *good* when taken as a backup, restorable, verified to level 3, with no later failure. Only good ones
  are counted: the newest `last`, the newest of each hour, day, …, and, whatever `keep` says, the newest `minimum`.
- Safety copies, audit-only and unverified ones stay 30 days, and while fewer than `minimum` good ones are newer.
- Of each virtual cluster that the config names the newest stays, the newest whole one, the newest whole verified one.
- A damaged one stays until the operator says otherwise; one from the future stays and is not counted.
- A hold keeps, and while a restore is under way everything stays.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

import msgspec

from maint.config.schema import Keep
from maint.errors import Refused
from maint.snapshots.holds import Hold, words_of

OWN_LIFE = timedelta(days=30)  # how long a snapshot stays that is counted by nobody
LEVEL = 3  # the depth of verification from which on a restorable snapshot counts

_PERIODS: Mapping[str, Callable[[datetime], tuple[int, ...]]] = {
    "hourly": lambda time: (time.year, time.month, time.day, time.hour),
    "daily": lambda time: (time.year, time.month, time.day),
    "weekly": lambda time: tuple(time.isocalendar()[:2]),
    "monthly": lambda time: (time.year, time.month),
    "yearly": lambda time: (time.year,),
}


class Candidate(msgspec.Struct, frozen=True):
    """What retention has to know of a snapshot."""

    id: str  # sorts by time
    taken_at: datetime
    good: bool = True  # a backup, restorable, verified to level 3
    kind: str = ""  # where it is not good: `safety copy`, `audit-only`, `not verified`
    damage: str | None = None  # why it cannot be believed
    clusters: tuple[str, ...] = ()  # virtual clusters of the site for which it is a backup
    whole: tuple[str, ...] = ()  # those of which nothing is missing or doubted
    opened: bool = True  # whether a verification has looked into them, and found nothing since


class Decision(msgspec.Struct, frozen=True):
    """What becomes of one snapshot, and why."""

    id: str
    keep: bool
    reasons: tuple[str, ...]


class Retention(msgspec.Struct, frozen=True):
    """What becomes of every snapshot, the oldest first."""

    decisions: tuple[Decision, ...]

    @property
    def removed(self) -> tuple[str, ...]:
        """The ids of those that go, the oldest first."""
        return tuple(decision.id for decision in self.decisions if not decision.keep)

    @property
    def kept(self) -> tuple[str, ...]:
        """The ids of those that stay, the oldest first."""
        return tuple(decision.id for decision in self.decisions if decision.keep)


def required(policy: Keep | None) -> Keep:
    """Return a policy that keeps something; Refused: there is none, or it would keep nothing."""
    if policy is None or not any(_count(policy, name) for name in ("last", *_PERIODS)):
        raise Refused(
            "there is no retention policy, so nothing is removed",
            detail=["`backup.keep` is missing, or all its numbers are 0"],
            hint="say in the config what stays, such as `keep: {last: 3, daily: 7, weekly: 5, monthly: 12}`",
        )
    return policy


def decide(
    snapshots: Iterable[Candidate],
    policy: Keep | None,
    now: datetime,
    *,
    minimum: int,
    holds: Mapping[str, Sequence[Hold]],
    frozen: str | None = None,
    damaged: bool = False,
) -> Retention:
    """Return what becomes of each snapshot by the module's rules; Refused where the policy would keep nothing.

    Args:
        minimum: how many good ones stay whatever the policy says; at least one.
        holds: by id; those that have run out do not count.
        frozen: why nothing may go now, None where nothing stands against it.
        damaged: the operator's word that damaged ones may go, once they are old enough.
    """
    policy = required(policy)
    ordered = sorted(snapshots, key=lambda one: (one.taken_at, one.id))
    good = [one for one in reversed(ordered) if one.good and one.damage is None and one.taken_at <= now]
    floor = max(minimum, 1)
    reasons = _counted(good, policy, floor)
    newer = _Newer(good, floor, now, damaged)
    last = newest_of_clusters(ordered, now)
    decisions = []
    for one in ordered:
        why = words_of(holds.get(one.id, ()), now)
        why += reasons.get(one.id, []) + list(newer.reasons(one))
        why += [f"the newest that holds {what}" for what, id_ in last if id_ == one.id]
        why += [f"nothing is removed now: {frozen}"] if frozen else []
        decisions.append(Decision(one.id, bool(why), tuple(why) or (_gone(one),)))
    return Retention(tuple(decisions))


def newest_of_clusters(snapshots: Iterable[Candidate], now: datetime) -> Sequence[tuple[str, str]]:
    """Return what of each virtual cluster always stays: what it is the newest of, in words, and the snapshot's id."""
    ordered = sorted(snapshots, key=lambda one: (one.taken_at, one.id))
    believed = [one for one in ordered if one.damage is None and one.taken_at <= now]
    whole = {name: one.id for one in believed for name in one.whole}
    proven = {name: one.id for one in believed if one.opened for name in one.whole}
    last = {
        "": {name: one.id for one in believed for name in one.clusters},
        " whole": whole,
        " whole and verified": {name: id_ for name, id_ in proven.items() if whole[name] != id_},
    }
    return [(f"virtual cluster {name}{how}", id_) for how, ids in last.items() for name, id_ in ids.items()]


def _counted(good: Sequence[Candidate], policy: Keep, floor: int) -> Mapping[str, list[str]]:
    """Return the reasons of the good snapshots that policy and floor keep; `good` has the newest first."""
    reasons: dict[str, list[str]] = {}
    for number, one in enumerate(good[: policy.last], 1):
        reasons.setdefault(one.id, []).append(f"last {number} of {policy.last}")
    for name, period in _PERIODS.items():
        count = _count(policy, name)
        for number, one in enumerate(islice(_first_of_each(good, period), count), 1):
            reasons.setdefault(one.id, []).append(f"{name} {number} of {count}")
    for number, one in enumerate(good[:floor], 1):
        reasons.setdefault(one.id, []).append(f"minimum {number} of {floor}")
    return reasons


def _count(policy: Keep, name: str) -> int:
    return int(getattr(policy, name))


def _first_of_each(good: Sequence[Candidate], period: Callable[[datetime], tuple[int, ...]]) -> Iterator[Candidate]:
    seen = set()
    for one in good:
        if (which := period(one.taken_at.astimezone(UTC))) not in seen:
            seen.add(which)
            yield one


class _Newer(msgspec.Struct, frozen=True):
    good: Sequence[Candidate]
    floor: int
    now: datetime
    damaged: bool

    def reasons(self, one: Candidate) -> Iterator[str]:
        if one.damage is not None and not self.damaged:
            yield f"it cannot be believed ({one.damage}), and is never removed by itself"
        elif one.taken_at > self.now:
            yield "it comes from the future: its age is not known"
        elif one.damage is not None or not one.good:
            yield from self._young(one)

    def _young(self, one: Candidate) -> Iterator[str]:
        what = one.kind or "it cannot be believed"
        if self.now - one.taken_at <= OWN_LIFE:
            yield f"{what}, younger than {OWN_LIFE.days} days"
        newer = sum(good.taken_at > one.taken_at for good in self.good)
        if newer < self.floor:
            yield f"{what}, and only {newer} of {self.floor} verified restorable snapshots are newer"


def _gone(one: Candidate) -> str:
    if one.damage is not None:
        return f"it cannot be believed ({one.damage}), and the operator said that such may go"
    if one.good:
        return "no rule keeps it"
    return f"{one.kind}, older than {OWN_LIFE.days} days, and newer ones are verified"
