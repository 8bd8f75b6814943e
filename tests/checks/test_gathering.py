"""Hosts and manager are asked side by side, and each is judged by the moment at which it answered."""

from collections.abc import Sequence
from datetime import datetime
from threading import Event
from types import SimpleNamespace
from typing import Any

from maint.checks.check import judge
from maint.checks.gather import Enquiry, ask_site
from maint.checks.registry import CHECKS
from maint.config.schema import HostSettings
from maint.model.fleet import HostReply, State
from maint.model.formatting import show_time
from maint.model.manager import Door, Host, Presence
from tests.checks.facts import site
from tests.snapshots.conftest import Clock


class Shared(Clock):
    """A clock that tells when somebody has read it after the manager answered."""

    def __init__(self) -> None:
        super().__init__()
        self.answered, self.read = False, Event()

    def now(self) -> datetime:
        time = super().now()
        if self.answered:
            self.read.set()
        return time


class Manager:
    """A manager to which every host reports a second before it answers."""

    def __init__(self, clock: Shared) -> None:
        self.clock = clock

    def presence(self) -> Presence:
        return Presence(Door.TLS, "refused", "answers")

    def certificate_end(self) -> None:
        return None

    def certificate_digest(self) -> str:
        return ""

    def instances(self) -> list[Any]:
        return []

    def release(self) -> str:
        return "7.6.5"

    def clusters(self) -> list[Any]:
        return []

    def hosts(self) -> list[Host]:
        stamp = show_time(self.clock.now())
        self.clock.sleep(1)
        self.clock.answered = True
        return [Host("", name, "", heard=stamp) for name in ("base-01", "ds-02")]


class SlowFleet:
    """Hosts that hang until their limit has passed, long after the manager has answered."""

    def __init__(self, clock: Shared) -> None:
        self.clock = clock

    def ask(self, hosts: Sequence[HostSettings], scripts: object, *, timeout: float | None = None) -> list[HostReply]:
        self.clock.read.wait(5)
        self.clock.sleep(90)
        return [HostReply(host.name, reason="no answer in time") for host in hosts]


def test_a_host_that_hangs_makes_no_sign_of_life_older() -> None:
    clock, check = Shared(), CHECKS["cm.agent.heartbeat"]
    hosts = [HostSettings(name=name, address=name, groups=("base",)) for name in ("base-01", "ds-02")]
    enquiry = Enquiry(hosts, [check], site().setting, {host.name: "B" for host in hosts}, {})
    sight: Any = SimpleNamespace(manager=Manager(clock), clock=clock, settings=SimpleNamespace(hosts=hosts))
    fleet: Any = SlowFleet(clock)
    found = judge([check], ask_site(sight, enquiry, fleet))
    assert {(one.host, one.state, one.observed) for one in found} == {
        (name, State.PASS, "1 s ago by this machine's clock") for name in ("base-01", "ds-02")
    }
