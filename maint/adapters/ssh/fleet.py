"""Ask many hosts at once: plain threads, one connection and one channel a host, results in the hosts' order."""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from maint.adapters.ssh.settings import Reach
from maint.config.schema import HostSettings, SiteSettings
from maint.model.fleet import Presented, Reply
from maint.ports import Secrets

if TYPE_CHECKING:
    from maint.adapters.ssh.fleet_session import Visits

T = TypeVar("T")
_LEAVE = 2.0  # seconds that a thread may take to notice that nobody waits for it any more
_STACK = 512 * 1024  # bytes; the usual 8 MiB a thread are address space only, but containers count it at times


class FabricFleet:
    """`ports.Fleet`: known hosts and key are read once and shared by all connections.

    Args:
        settings: the site, whose `ssh` says how hosts are reached.
        secrets: resolves the reference to sudo's password.
        monotonic: seconds that never go back.
        now: seconds since 1970.
        home: whose `.ssh/known_hosts` counts where the site configures none; None for the user's own.
        heard: told of each reply as it comes, whatever the order; called by the thread that iterates.
    """

    def __init__(
        self,
        settings: SiteSettings,
        secrets: Secrets,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        home: Path | None = None,
        heard: Callable[[Reply], None] | None = None,
    ) -> None:
        self._reach = Reach(settings, secrets)
        self._monotonic = monotonic
        self._now = now
        self._home = home
        self._heard = heard

    def ask(
        self, hosts: Sequence[HostSettings], scripts: Mapping[str, bytes], *, timeout: float | None = None
    ) -> Iterator[Reply]:
        """Feed each host's script to its `/bin/sh` and yield one reply a host; see `ports.Fleet.ask`."""
        self._reach.sudo_password()  # a reference that leads nowhere is told before anybody is asked
        visits = self._visits()

        def work(host: HostSettings) -> Reply:
            return visits.ask(host, scripts[host.name])

        def late(host: HostSettings) -> Reply:
            return Reply(host.name, reason="not done when the whole run's limit had passed", hint="give --timeout more")

        yield from self._each(hosts, visits, work, late, timeout, self._heard)

    def keys(self, hosts: Sequence[HostSettings], *, timeout: float | None = None) -> Iterator[Presented]:
        """Yield the host key that each host presents; see `ports.Fleet.keys`."""
        visits = self._visits()

        def late(host: HostSettings) -> Presented:
            return Presented(host.name, "", reason="not seen when the whole run's limit had passed")

        yield from self._each(hosts, visits, visits.key, late, timeout, None)

    def _visits(self) -> "Visits":
        from maint.adapters.ssh.fleet_session import Visits  # paramiko takes its time to import

        return Visits(self._reach.ssh, self._reach.sudo_password, self._monotonic, self._now, self._home)

    def _each(
        self,
        hosts: Sequence[HostSettings],
        visits: "Visits",
        work: Callable[[HostSettings], T],
        late: Callable[[HostSettings], T],
        timeout: float | None,
        heard: Callable[[T], None] | None,
    ) -> Iterator[T]:
        crew = Crew(hosts, work, min(self._reach.ssh.at_once, len(hosts)), visits)
        deadline = None if timeout is None else self._monotonic() + timeout
        left = partial(_left, deadline, self._monotonic)
        arrived: dict[int, T] = {}
        try:
            for place in range(len(hosts)):
                while place not in arrived:
                    found = crew.next(left())
                    if found is None:
                        arrived |= {n: late(other) for n, other in enumerate(hosts) if n >= place and n not in arrived}
                        break
                    arrived[found[0]] = found[1]
                    if heard:
                        heard(found[1])
                yield arrived.pop(place)
        finally:
            crew.dismiss()


def _left(deadline: float | None, monotonic: Callable[[], float]) -> float | None:
    return None if deadline is None else max(0.0, deadline - monotonic())


class Ends(Protocol):
    """Something whose connections can all be closed from outside."""

    def end(self) -> None:
        """Close everything, and open nothing any more."""


class Crew(Generic[T]):
    """Threads that take one host after the other.

    Args:
        hosts: the work.
        work: what to do with a host.
        at_once: how many threads.
        ends: closed when the crew is dismissed, so that no thread waits for a host any longer.
    """

    def __init__(
        self, hosts: Sequence[HostSettings], work: Callable[[HostSettings], T], at_once: int, ends: Ends
    ) -> None:
        self._work = work
        self._ends = ends
        self._waiting: queue.SimpleQueue[tuple[int, HostSettings]] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[int, T | Exception]] = queue.SimpleQueue()
        for item in enumerate(hosts):
            self._waiting.put(item)
        before = threading.stack_size(_STACK)
        try:
            self._threads = [threading.Thread(target=self._run, name=f"fleet-{n}", daemon=True) for n in range(at_once)]
            for thread in self._threads:
                thread.start()
        finally:
            threading.stack_size(before)

    def next(self, timeout: float | None) -> tuple[int, T] | None:
        """Return the next host that is done, by its place, or None when nothing came within so many seconds."""
        try:
            place, found = self._done.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(found, Exception):  # not of one host: a broken configuration, or a bug
            raise found
        return place, found

    def dismiss(self) -> None:
        """Let nobody begin another host, close all connections, and wait for the threads."""
        while not self._waiting.empty():
            try:
                self._waiting.get_nowait()
            except queue.Empty:
                break
        self._ends.end()  # also when all threads have gone: the connection to a jump host is nobody's own
        until = time.monotonic() + _LEAVE
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _run(self) -> None:
        while True:
            try:
                place, host = self._waiting.get_nowait()
            except queue.Empty:
                return
            try:
                self._done.put((place, self._work(host)))
            except Exception as error:  # it belongs to whoever iterates, not to this thread
                self._done.put((place, error))
