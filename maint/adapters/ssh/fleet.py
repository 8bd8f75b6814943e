"""Ask many hosts at once: plain threads, one connection and one command a host, results in the hosts' order."""

import base64
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from paramiko import Channel

from maint.adapters.ssh.connections import BROKEN, JUMP_LOST, Address, Connections, reason
from maint.adapters.ssh.known_hosts import recorded_name
from maint.adapters.ssh.runner import SHELL, Command
from maint.adapters.ssh.sudo import Sudo, ssh_settings
from maint.config.schema import HostSettings, SiteSettings
from maint.errors import CannotReach, Interrupted, LoginRefused, MaintError, TimedOut
from maint.model.fleet import Presented, Reply
from maint.ports import Secrets

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
LARGEST = 16 * 1024 * 1024  # bytes of one host's answer
_LEAVE = 2.0  # seconds that a thread may take to notice that nobody waits for it any more
_STACK = 512 * 1024  # bytes; the usual 8 MiB a thread are address space only, but containers count it at times

# What runs on a host ends when we are gone, however we went. SSH leaves a command running when its connection ends, and
# OpenSSH passes no signals on to root's commands. So the script gets a watcher beside it, for whom the end of input,
# which nobody sends otherwise, means that nobody is there.
_HEAD = b"maint_visit() {\n:\n"
# One command, so that the shell has read all of it before the watcher begins to read the same input. The watcher ends
# its whole process group: only where that group is this login's own, which /proc tells.
_TAIL = b"""
}
{
maint_group= maint_session= maint_watcher=
{ read -r maint_ maint_ maint_ maint_ maint_group maint_session maint_ < /proc/$$/stat; } 2> /dev/null
if [ -n "$maint_group" ] && { [ "$maint_group" = $$ ] || [ "$maint_group" = "$maint_session" ]; }; then
  exec 3<&0
  ( read -r maint_ <&3; kill -s TERM 0 ) > /dev/null 2>&1 &
  maint_watcher=$!
  exec 3<&-
fi
maint_visit < /dev/null
maint_status=$?
[ -z "$maint_watcher" ] || kill "$maint_watcher" 2> /dev/null
exit "$maint_status"
}
"""


def watched(script: bytes) -> bytes:
    """Return a script, whole commands without input, that ends with all it started once its input ends."""
    return _HEAD + script + _TAIL


class FabricFleet:
    """`ports.Fleet`: known hosts and key are read once and shared by all connections.

    Args:
        home: whose `.ssh/known_hosts` counts where the site configures none; None for the user's own.
        heard: called with each reply as it comes, whatever the order, by the thread that iterates.
        stopped: called when a signal ends the questions: the answers that have come are yielded all the same, with a
            reason for each host that has not answered. Without it, the interruption is raised.
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
        stopped: Callable[[Interrupted], None] | None = None,
    ) -> None:
        self._settings = settings
        self._sudo = Sudo(settings, secrets)
        self._monotonic = monotonic
        self._now = now
        self._home = home
        self._heard = heard
        self._stopped = stopped

    def ask(
        self, hosts: Sequence[HostSettings], scripts: Mapping[str, bytes], *, timeout: float | None = None
    ) -> Iterator[Reply]:
        """Feed each host's script to its `/bin/sh` and yield one reply a host; see `ports.Fleet.ask`."""
        self._sudo.password()  # a reference that leads nowhere is reported before any host is asked
        connections = self._connections()

        def work(host: HostSettings) -> Reply:
            visit = _Visit(connections, self._sudo, connections.address(host), self._now, self._monotonic)
            return visit.reply(scripts[host.name])

        def late(host: HostSettings, *, interrupted: bool) -> Reply:
            if interrupted:
                return Reply(host.name, reason="not done when it was interrupted", hint="ask again")
            return Reply(host.name, reason="not done when the whole run's limit had passed", hint="give --timeout more")

        yield from self._each(hosts, connections, work, late, timeout, self._heard)

    def keys(self, hosts: Sequence[HostSettings], *, timeout: float | None = None) -> Iterator[Presented]:
        """Yield the host key that each host presents; see `ports.Fleet.keys`."""
        connections = self._connections()

        def late(host: HostSettings, *, interrupted: bool) -> Presented:
            words = "it was interrupted" if interrupted else "the whole run's limit had passed"
            return Presented(host.name, "", reason=f"not seen when {words}")

        yield from self._each(hosts, connections, partial(_presented, connections), late, timeout, None)

    def _connections(self) -> Connections:
        return Connections(ssh_settings(self._settings), self._home, once=True)

    def _each(
        self,
        hosts: Sequence[HostSettings],
        connections: Connections,
        work: Callable[[HostSettings], T],
        late: "_Late[T]",
        timeout: float | None,
        heard: Callable[[T], None] | None,
    ) -> Iterator[T]:
        crew = _Crew(hosts, work, min(connections.settings.at_once, len(hosts)), connections)
        deadline = None if timeout is None else self._monotonic() + timeout
        arrived: dict[int, T] = {}

        def take(timeout: float | None) -> bool:
            found = crew.next(timeout)
            if found is not None:
                arrived[found[0]] = found[1]
                if heard:
                    heard(found[1])
            return found is not None

        try:
            for place in range(len(hosts)):
                went_on, interrupted = True, False
                while went_on and place not in arrived:
                    try:
                        went_on = take(None if deadline is None else max(0.0, deadline - self._monotonic()))
                    except Interrupted as failure:
                        if self._stopped is None:
                            raise
                        self._stopped(failure)
                        went_on, interrupted = False, True
                        while take(0):
                            continue
                if not went_on:
                    for n, host in enumerate(hosts[place:], place):
                        arrived.setdefault(n, late(host, interrupted=interrupted))
                yield arrived.pop(place)
        finally:
            crew.dismiss()


class _Late(Protocol[T_co]):
    def __call__(self, host: HostSettings, *, interrupted: bool) -> T_co:
        """Return what stands for a host that has not answered."""


class _Crew(Generic[T]):
    """Threads that take one host after the other; dismissing them closes the connections, so that none waits on."""

    def __init__(
        self, hosts: Sequence[HostSettings], work: Callable[[HostSettings], T], at_once: int, connections: Connections
    ) -> None:
        self._work = work
        self._connections = connections
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
        while self._take() is not None:
            continue
        self._connections.close()  # also when all threads have gone: that to a jump host is nobody's own
        until = time.monotonic() + _LEAVE
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _take(self) -> tuple[int, HostSettings] | None:
        try:
            return self._waiting.get_nowait()
        except queue.Empty:
            return None

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            try:
                self._done.put((taken[0], self._work(taken[1])))
            except Exception as error:  # it belongs to the thread that iterates
                self._done.put((taken[0], error))


class _Visit:
    def __init__(
        self,
        connections: Connections,
        sudo: Sudo,
        address: Address,
        now: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._connections = connections
        self._settings = connections.settings
        self._sudo = sudo
        self._address = address
        self._now = now
        self._monotonic = monotonic
        self._begun = monotonic()
        self._login = self._sent = self._received = 0.0
        self._command: Command | None = None
        self._status: int | None = None

    def reply(self, script: bytes) -> Reply:
        """Run a script and return what came of it; failures are part of the reply."""
        words: str | None = None
        hint: str | None = None
        try:
            self._run(script)
        except TimedOut:
            words = f"its answer did not end within {self._settings.command_timeout:g} s"
            hint = "give it more time (ssh.command_timeout), or look at what hangs there"
        except MaintError as error:
            words = "; ".join([error.message.removeprefix(f"{self._address}: "), *error.detail])
            hint = error.hint
        seconds = self._monotonic() - self._begun
        return Reply(
            host=self._address.name,
            out=self._command.received if self._command else b"",
            status=self._status,
            reason=words,
            hint=hint,
            sent=self._sent,
            received=self._received,
            seconds=seconds,
            login_seconds=self._login or seconds,
        )

    def _run(self, script: bytes) -> None:
        connection = self._connections.open(self._address)
        try:
            self._command = self._made(connection.create_session(), script)
            self._login, self._sent = self._monotonic() - self._begun, self._now()
            self._status = self._command.begin(SHELL).finish().status
        except BROKEN as error:
            words = reason(error, self._settings.connect_timeout)
            raise CannotReach(f"{self._address}: no session: {words}") from None
        except (CannotReach, LoginRefused) as failure:
            if isinstance(failure, LoginRefused) or not self._connections.jump_lost:
                raise
            hint = "look at the jump host (ssh.jump), then again"
            raise CannotReach(f"{self._address}: {JUMP_LOST}", hint=hint) from None
        finally:
            self._received = self._now() if self._command else 0.0
            self._connections.drop(connection)

    def _made(self, channel: Channel, script: bytes) -> Command:
        return Command(
            str(self._address),
            channel,
            self._sudo.gate(str(self._address)),
            stdin=watched(script),
            hold=True,
            timeout=self._settings.command_timeout,
            largest=LARGEST,
            monotonic=self._monotonic,
        )


def _presented(connections: Connections, host: HostSettings) -> Presented:
    address = connections.address(host)
    recorded = recorded_name(address.host, address.port)
    try:
        key = connections.presented(address)
    except MaintError as error:
        return Presented(host.name, recorded, reason=error.message.removeprefix(f"{address}: "))
    standing = connections.known.judge(address.recorded, key)
    return Presented(
        host.name, recorded, key.type, base64.b64encode(key.blob).decode(), key.fingerprint, standing, None
    )
