"""Ask many hosts at once: plain threads, one connection and one command a host, results in the hosts' order."""

import base64
import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from maint.adapters.ssh.connections import Connections, KeptConnection
from maint.adapters.ssh.known_hosts import recorded_name
from maint.adapters.ssh.runner import SHELL, RemoteCommand, SudoGates, ssh_settings
from maint.config.schema import HostSettings, SiteSettings
from maint.errors import CannotReach, Interrupted, MaintError, TimedOut
from maint.model.fleet import LATE, HostReply, Presented
from maint.model.secret import scrub
from maint.ports import Secrets

T = TypeVar("T")
LARGEST = 8 * 1024 * 1024  # bytes of one host's answer, of which a hundred may come at once
_LATE = ("the whole run's limit had passed", LATE)  # why a host has not answered, and what to do
_STOPPED = ("it was interrupted", "ask again")

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
        heard: called with each reply as it comes, whatever the order, by the thread that iterates.
        stopped: called when a signal ends the questions: the answers that have come are yielded all the same, with a
            reason for each host that has not answered. Without it, the interruption is raised.
    """

    def __init__(
        self,
        settings: SiteSettings,
        secrets: Secrets,
        *,
        heard: Callable[[HostReply], None] | None = None,
        stopped: Callable[[Interrupted], None] | None = None,
    ) -> None:
        self._settings = settings
        self._sudo = SudoGates(settings, secrets)
        self._heard = heard
        self._stopped = stopped

    def ask(
        self, hosts: Sequence[HostSettings], scripts: Mapping[str, bytes], *, timeout: float | None = None
    ) -> Iterator[HostReply]:
        """Feed each host's script to its `/bin/sh` and yield one reply a host; see `ports.Fleet.ask`."""
        _ = self._sudo.password  # a reference that leads nowhere is reported before any host is asked
        connections = self._connections()
        at_work: dict[str, tuple[RemoteCommand, float]] = {}  # by host, with when its script was sent

        def late(host: HostSettings, words: str, hint: str) -> HostReply:
            reply = HostReply(host.name, reason=f"not done when {words}", hint=hint)
            if host.name not in at_work:
                return reply
            command, sent = at_work[host.name]
            return replace(reply, out=command.received, sent=sent, received=time.time())

        def work(host: HostSettings) -> HostReply:
            return self._visit(connections, host, scripts[host.name], at_work)

        yield from self._each(hosts, connections, work, late, timeout, self._heard)

    def keys(self, hosts: Sequence[HostSettings], *, timeout: float | None = None) -> Iterator[Presented]:
        """Yield the host key that each host presents; see `ports.Fleet.keys`."""
        connections = self._connections()

        def late(host: HostSettings, words: str, _: str) -> Presented:
            return Presented(host.name, "", reason=f"not seen when {words}")

        yield from self._each(hosts, connections, partial(_presented, connections), late, timeout, None)

    def _connections(self) -> Connections:
        return Connections(ssh_settings(self._settings), once=True)

    def _each(
        self,
        hosts: Sequence[HostSettings],
        connections: Connections,
        work: Callable[[HostSettings], T],
        late: Callable[[HostSettings, str, str], T],
        timeout: float | None,
        heard: Callable[[T], None] | None,
    ) -> Iterator[T]:
        pool = ThreadPoolExecutor(max(1, min(connections.settings.at_once, len(hosts))), "fleet-")
        came: queue.SimpleQueue[Future[T]] = queue.SimpleQueue()
        futures = [pool.submit(work, host) for host in hosts]
        for future in futures:
            future.add_done_callback(came.put)
        arrived: set[Future[T]] = set()
        deadline = None if timeout is None else time.monotonic() + timeout
        why: tuple[str, str] | None = None

        def take(seconds: float | None) -> None:
            found = came.get(timeout=seconds)
            arrived.add(found)
            if heard:
                heard(found.result())

        try:
            for host, future in zip(hosts, futures, strict=True):
                while why is None and future not in arrived:
                    try:
                        take(None if deadline is None else max(0.0, deadline - time.monotonic()))
                    except queue.Empty:
                        why = _LATE
                    except Interrupted as failure:
                        if self._stopped is None:
                            raise
                        self._stopped(failure)
                        why = _STOPPED
                        with suppress(queue.Empty):
                            while True:
                                take(0)
                yield future.result() if future in arrived else late(host, *(why or _LATE))
        finally:  # nobody begins another host, and no thread is left behind
            pool.shutdown(wait=False, cancel_futures=True)
            connections.close()
            pool.shutdown()

    def _visit(
        self,
        connections: Connections,
        host: HostSettings,
        script: bytes,
        at_work: dict[str, tuple[RemoteCommand, float]],
    ) -> HostReply:
        # Failures are part of the reply.
        kept, limit = KeptConnection(connections, connections.address(host)), connections.settings.command_timeout
        name = str(kept.address)
        begun, login, sent, received = time.monotonic(), 0.0, 0.0, 0.0
        command: RemoteCommand | None = None
        status: int | None = None
        words: str | None = None
        hint: str | None = None
        try:
            _, channel, _ = kept.session()
            gate = self._sudo.gate(name)
            command = RemoteCommand(
                name, channel, gate, stdin=watched(script), hold=True, timeout=limit, largest=LARGEST,
            )  # fmt: skip
            login, sent = time.monotonic() - begun, time.time()
            at_work[host.name] = command, sent
            status = command.begin(SHELL).finish().status
        except TimedOut:
            words = f"its answer did not end within {limit:g} s"
            hint = "give it more time (ssh.command_timeout), or look at what hangs there"
        except MaintError as error:
            failure: MaintError = error
            if command and isinstance(error, CannotReach):
                failure = connections.blamed(kept.address, error)
            words = scrub(failure.in_a_line).removeprefix(f"{name}: ")
            hint = failure.hint
        finally:
            received = time.time() if command else 0.0
            kept.drop()
        seconds = time.monotonic() - begun
        return HostReply(
            host=host.name,
            out=command.received if command else b"",
            status=status,
            reason=words,
            hint=hint,
            sent=sent,
            received=received,
            seconds=seconds,
            login_seconds=login or seconds,
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
