"""Who works on a site, of several machines: a row of files, and two machines with clocks of their own."""

import io
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, rule
from hypothesis.strategies import integers, sampled_from

from maint.adapters.clock import SystemClock
from maint.adapters.stores.local import LocalStore
from maint.engine import lease as leases
from maint.engine.lease import Lease, LeaseLost, Terms, insist_fit, newest
from maint.errors import DeadlinePassed, Interrupted, Locked, Refused, StoreFailed, WorkFailed
from maint.snapshots import parts

QUIET = Terms(beat=0.0)
START = datetime(2026, 1, 1, tzinfo=UTC)


class World:
    """Seconds that pass for everybody, and a store that stamps files by them."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.files: dict[str, tuple[bytes, datetime]] = {}
        self.down = False
        self.loses_answers = False


class Machine:
    """A machine's clock, off by some seconds, and its way to the store: `ports.Clock` and `ports.Store`."""

    location = "the shared state"

    def __init__(self, world: World, off: float) -> None:
        self.world, self.off, self.began = world, timedelta(seconds=off), 1000 * off
        self.limits: list[float] = []

    def now(self) -> datetime:
        return START + timedelta(seconds=self.world.seconds) + self.off

    def monotonic(self) -> float:
        return self.world.seconds + self.began

    def sleep(self, seconds: float) -> None:
        self.world.seconds += seconds

    @contextmanager
    def limit(self, seconds, of=None):
        yield lambda until: None

    def _up(self) -> None:
        if self.world.down:
            raise StoreFailed("no way there")

    def names(self, prefix: str = "") -> Iterator[str]:
        self._up()
        return iter(sorted(name for name in self.world.files if name.startswith(f"{prefix}/")))

    @contextmanager
    def open(self, name: str):
        self._up()
        if name not in self.world.files:
            raise FileNotFoundError(name)
        yield io.BytesIO(self.world.files[name][0])

    def written(self, name: str) -> datetime | None:
        self._up()
        found = self.world.files.get(name)
        return found[1].replace(microsecond=0) if found else None  # S3 and SFTP know no more than the second

    @contextmanager
    def create(self, name: str):
        self._up()
        content = io.BytesIO()
        yield content
        self._up()
        if name in self.world.files:
            raise FileExistsError(name)
        self.world.files[name] = (content.getvalue(), START + timedelta(seconds=self.world.seconds))
        if self.world.loses_answers:
            raise StoreFailed("no answer")

    def remove(self, name: str) -> None:
        self._up()
        self.world.files.pop(name, None)


def lease(machine: Machine, owner: str, terms: Terms = QUIET) -> Lease:
    return Lease(machine, "prod", machine, owner, "playbook backup", terms)


def taken(machine: Machine, owner: str) -> Lease:
    found = lease(machine, owner)
    for _ in found.take():
        pass
    return found


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def one(world: World) -> Machine:
    return Machine(world, 0.0)


@pytest.fixture
def other(world: World) -> Machine:
    return Machine(world, 90.0)


def test_a_machine_that_finds_the_lease_taken_is_told_who_holds_it_and_for_what(one, other):
    taken(one, "one")
    with pytest.raises(Locked, match="another machine works on site prod") as caught:
        taken(other, "other")
    assert caught.value.exit_code == 6
    assert "playbook backup" in caught.value.detail[0]
    assert "lapses in" in caught.value.hint


def test_a_machine_that_was_cloned_with_its_state_folder_finds_the_lease_of_its_twin_taken(one, other, monkeypatch):
    taken(one, "one")
    monkeypatch.setattr("socket.gethostname", lambda: "twin")
    with pytest.raises(Locked, match="another machine works on site prod"):
        taken(other, "one")


def test_a_lease_that_was_given_back_is_free_at_once(one, other):
    held = taken(one, "one")
    assert held.give_back() == ""
    assert taken(other, "other").taken_over is None


def test_a_lapsed_lease_is_taken_over_and_that_is_told(world, one, other):
    taken(one, "one")
    world.seconds += QUIET.lapses + 10
    found = lease(other, "other")
    assert "taking over the lease of" in next(iter(list(found.take())))
    assert found.taken_over.claim.owner == "one"


def test_what_was_under_way_is_waited_for_before_a_lapsed_lease_is_taken_over(world, one, other):
    held = taken(one, "one")
    held.renew("stop cluster c1")
    began, world.seconds = world.seconds, world.seconds + QUIET.lapses + 10
    told = list(lease(other, "other").take())
    assert "waiting" in told[0]
    assert "stop cluster c1" in told[0]
    assert world.seconds >= began + QUIET.ends


def test_a_holder_that_was_only_away_and_gives_the_lease_back_is_not_waited_for(world, one, other):
    held = taken(one, "one")
    held.renew("stop cluster c1")
    world.seconds += QUIET.lapses + 10
    found = lease(other, "other")
    steps = found.take()
    assert "waiting" in next(steps)
    ends = world.seconds + QUIET.ends / 2
    held.give_back()
    assert list(steps) == []
    assert found.taken_over is None
    assert world.seconds < ends


def test_the_same_state_folder_waits_for_nobody(one):
    taken(one, "one").renew("stop cluster c1")
    assert taken(one, "one").taken_over is not None


def test_a_machine_whose_lease_was_taken_over_begins_nothing_further(world, one, other):
    held = taken(one, "one")
    world.seconds += QUIET.lapses + 10
    taken(other, "other")
    for _ in range(2):
        with pytest.raises(LeaseLost, match="went to another machine"):
            held.renew("start cluster c1")


def test_a_number_that_was_removed_long_ago_is_not_taken_for_the_highest(world, one, other):
    held = taken(one, "one")
    world.seconds += QUIET.lapses + 10
    newer = taken(other, "other")
    for _ in range(10):
        newer.renew("act")
    assert "prod/lease/000000000002" not in world.files
    with pytest.raises(LeaseLost):
        held.renew("act")
    newer.renew("act")


def test_a_lost_answer_is_decided_by_looking(world, one):
    held = taken(one, "one")
    world.loses_answers = True
    with pytest.raises(LeaseLost, match="cannot be renewed"):
        held.renew("act")
    world.loses_answers = False
    held.renew("act")
    assert newest(one, "prod").claim.act == "act"


def test_a_lease_is_given_back_though_the_answer_to_its_last_row_was_lost(world, one, other):
    held = taken(one, "one")
    world.loses_answers = True
    with pytest.raises(LeaseLost, match="cannot be renewed"):
        held.renew("act")
    world.loses_answers = False
    assert held.give_back() == ""
    assert newest(one, "prod").claim.token == ""
    taken(other, "other")


def test_a_store_that_is_away_stops_the_next_act_and_no_other(world, one):
    held = taken(one, "one")
    world.down = True
    with pytest.raises(LeaseLost, match="cannot be renewed") as caught:
        held.renew("act")
    assert caught.value.detail == ("no way there",)
    world.down = False
    held.renew("act")


def test_what_cannot_be_given_back_or_asked_is_told_and_lapses(world, one):
    held = taken(one, "one")
    world.down = True
    assert held.heir() == ""
    told = held.give_back()
    assert "could not be given back, and lapses in" in told and "no way there" in told


def test_a_store_that_does_not_keep_what_is_written_holds_no_lease(world, one):
    class Forgetful(Machine):
        def written(self, name):
            return None if "/time-" in name else super().written(name)

    taken(one, "one").renew("act")
    with pytest.raises(StoreFailed, match="does not keep what is written"):
        taken(Forgetful(world, 0.0), "other")


def test_a_row_that_another_machine_wrote_and_removed_at_that_very_moment_loses_the_lease(world):
    class Late(Machine):
        late = False

        @contextmanager
        def create(self, name):
            if self.late and "/time-" not in name:
                raise FileExistsError(name)
            with super().create(name) as file:
                yield file

    machine = Late(world, 0.0)
    held = taken(machine, "one")
    machine.late = True
    with pytest.raises(LeaseLost, match="went to another machine"):
        held.renew("act")


def test_few_numbers_stay(world, one):
    held = taken(one, "one")
    for _ in range(20):
        held.renew("act")
    assert len(world.files) == 3


def test_a_store_that_lets_a_file_be_created_twice_is_refused(world):
    class Overwriting(Machine):
        @contextmanager
        def create(self, name):
            content = io.BytesIO()
            yield content
            self.world.files[name] = (content.getvalue(), START)

    store = Overwriting(world, 0.0)
    with pytest.raises(StoreFailed, match="cannot hold a lease"):
        taken(store, "one")
    world.files.clear()
    with pytest.raises(StoreFailed, match="cannot hold a lease"):
        insist_fit(store, "prod/trial")
    assert not world.files


def test_a_row_that_is_none_of_ours_is_refused_with_its_name(world, one):
    world.files["prod/lease/000000000007"] = (b"{}", START)
    with pytest.raises(Refused, match="000000000007"):
        taken(one, "one")


def test_of_many_machines_at_once_one_gets_the_lease(tmp_path):
    gate, got = threading.Barrier(6), []

    def work(number: int) -> None:
        found = Lease(LocalStore(tmp_path), "prod", SystemClock(), str(number), "work", QUIET)
        gate.wait()
        with suppress(Locked):
            list(found.take())
            got.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1


def test_while_it_lives_a_holder_renews_beside_its_work_and_an_act_that_is_not_renewed_is_stopped(tmp_path):
    store, clock = LocalStore(tmp_path), SystemClock()
    held = Lease(store, "prod", clock, "one", "work", Terms(lapses=0.2, ends=0.4, beat=0.02))
    list(held.take())
    with held.acting("slow"):
        clock.sleep(0.6)
    assert newest(store, "prod").number > 5
    # The lock keeps the thread beside it from the store, as a frozen process or a network that is away does.
    with pytest.raises(LeaseLost, match="slow: stopped"), held.acting("slow"), held._mutex:
        clock.sleep(5)
    held.give_back()


def test_a_lease_that_is_over_is_not_renewed_by_a_beat_that_was_waiting(tmp_path):
    store = LocalStore(tmp_path)
    held = Lease(store, "prod", SystemClock(), "one", "work", Terms(lapses=5.0, ends=20.0, beat=0.02))
    list(held.take())
    with held._mutex:
        time.sleep(0.1)  # the next beat waits for it by now
        number = newest(store, "prod").number
        held._over.set()
    time.sleep(0.1)
    assert newest(store, "prod").number == number


def test_a_limit_of_the_operator_within_an_act_is_not_taken_for_a_lost_lease(tmp_path):
    clock = SystemClock()
    held = Lease(LocalStore(tmp_path), "prod", clock, "one", "work", QUIET)
    list(held.take())
    with pytest.raises(DeadlinePassed), clock.limit(0.05), held.acting("slow"):
        clock.sleep(5)


def test_a_signal_while_it_is_asked_who_took_over_is_not_taken_for_an_answer(world, one, monkeypatch):
    held = taken(one, "one")

    def struck(prefix: str = "") -> Iterator[str]:
        raise Interrupted(15)

    monkeypatch.setattr(one, "names", struck)
    with pytest.raises(Interrupted):
        held.heir()


class TwoMachines(RuleBasedStateMachine):
    """Two machines, with clocks 90 s apart, work, freeze and die as they like; an act lasts until it has to end."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.machines = {"a": Machine(self.world, 0.0), "b": Machine(self.world, 90.0)}
        self.leases: dict[str, Lease] = {}
        self.acts: list[tuple[Lease, float]] = []  # until when, in the world's seconds
        self.lives = 0

    @rule(who=sampled_from("ab"))
    def take(self, who: str) -> None:
        if who not in self.leases:
            self.lives += 1
            with suppress(Locked):
                self.leases[who] = taken(self.machines[who], f"{who}{self.lives}")

    @rule(who=sampled_from("ab"))
    def act(self, who: str) -> None:
        if who not in self.leases:
            return
        held = self.leases[who]
        self.acts = [one for one in self.acts if one[0] is not held]
        try:
            held.renew("act")
        except LeaseLost:
            del self.leases[who]
        else:
            assert [until for _, until in self.acts if until > self.world.seconds] == []
            self.acts.append((held, held._until - self.machines[who].began))

    @rule(who=sampled_from("ab"))
    def end(self, who: str) -> None:
        if held := self.leases.pop(who, None):
            self.acts = [one for one in self.acts if one[0] is not held]
            held.give_back()

    @rule(who=sampled_from("ab"))
    def die(self, who: str) -> None:
        """The machine is gone with its state folder, and what it does on the server goes on until its latest end."""
        self.leases.pop(who, None)

    @rule(seconds=integers(1, 200))
    def pass_by(self, seconds: int) -> None:
        self.world.seconds += seconds + 0.7


TestTwoMachines = TwoMachines.TestCase
TestTwoMachines.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def test_rows_of_another_site_in_the_same_shared_state_do_not_count(world, one):
    taken(one, "one")
    assert newest(one, "test") is None
    assert leases.folder_of("test") == "test/lease"


class Endless(LocalStore):
    """A store whose lists and files do not end."""

    def names(self, prefix: str = "") -> Iterator[str]:
        yield from (f"{prefix}/{number:012d}" for number in count(1))


def test_a_store_without_an_end_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "_NAMES_END", 1000)
    with pytest.raises(WorkFailed, match="more than 1000 files"):
        newest(Endless(tmp_path), "prod")
    (tmp_path / "prod/lease").mkdir(parents=True)
    with (tmp_path / "prod/lease/000000000001").open("wb") as claim:
        claim.truncate(1 << 32)
    with pytest.raises(Refused, match="says nothing of who works"):
        newest(LocalStore(tmp_path), "prod")


def test_a_store_that_lists_a_row_which_it_does_not_have_is_left(world, one, monkeypatch):
    monkeypatch.setattr(one, "names", lambda prefix: iter([f"{prefix}/000000000007"]))
    with pytest.raises(StoreFailed, match="lists prod/lease/000000000007, and does not have it"):
        taken(one, "one")


def test_a_list_that_fails_for_once_does_not_end_the_renewing_beside_the_work(tmp_path, monkeypatch):
    store, clock, failures = LocalStore(tmp_path), SystemClock(), [WorkFailed("more than 1000 files", hint="look")]
    held = Lease(store, "prod", clock, "one", "work", Terms(lapses=5.0, ends=20.0, beat=0.02))
    list(held.take())
    names = store.names

    def failing(prefix=""):
        if failures and threading.current_thread() is not threading.main_thread():
            raise failures.pop()
        return names(prefix)

    monkeypatch.setattr(store, "names", failing)
    with held.acting("slow"), clock.limit(10):
        while failures:
            clock.sleep(0.01)
        after = newest(store, "prod").number
        while newest(store, "prod").number < after + 3:
            clock.sleep(0.01)
    held.give_back()


def test_a_lease_of_ones_own_that_was_not_given_back_is_no_news(world, one):
    taken(one, "one")
    assert list(lease(one, "one").take()) == []
