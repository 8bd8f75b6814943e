"""Whether agents are heard: by the manager's clock, and a time that is none is a late one."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from maint.adapters.clock import SystemClock
from maint.adapters.manager import decoding
from maint.config.schema import HostSettings
from maint.model.formatting import show_time
from maint.model.manager import Host
from maint.steps.hosts import units


@pytest.mark.parametrize("beat", ["soon", "2026-11-22T10:00:00", 7, "9" * 50])
def test_a_heartbeat_that_is_no_time_is_a_late_one(beat):
    listed = [decoding.host({"hostname": "one", "lastHeartbeat": beat})]
    hosts = [HostSettings(name="one", address="one")]
    manager = SimpleNamespace(hosts=lambda: listed)
    site = SimpleNamespace(manager=manager, clock=SystemClock(), settings=SimpleNamespace(hosts=hosts))
    assert "heard it last" in units._heard(site)["one"]


def test_an_agent_is_late_by_the_clock_of_the_manager_that_heard_it():
    now = SystemClock().now()
    listed = [
        Host("", name, "", heard=show_time(now), listed=show_time(now + ahead))
        for name, ahead in (("one", timedelta(minutes=5)), ("two", timedelta(seconds=5)))
    ]
    hosts = [HostSettings(name=name, address=name) for name in ("one", "two")]
    manager = SimpleNamespace(hosts=lambda: listed)
    site = SimpleNamespace(manager=manager, clock=SystemClock(), settings=SimpleNamespace(hosts=hosts))
    late = units._heard(site)
    assert "heard it last" in late["one"] and not late["two"]
