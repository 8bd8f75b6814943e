"""Ask hosts over SSH, and act on them: one at a time, with its files, or many at once, results in their order."""

import base64
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

from msgspec.structs import replace
from paramiko import Channel

from maint.adapters.ssh.connections import Connections, KeptConnection
from maint.adapters.ssh.known_hosts import recorded_name
from maint.adapters.ssh.runner import SHELL, Lost, RemoteCommand, SudoGates, ssh_settings
from maint.adapters.ssh.transport import end
from maint.config.schema import HostSettings, SiteSettings
from maint.config.secrets import know_at_hand
from maint.errors import CannotReach, Interrupted, Invalid, LoginRefused, MaintError, TimedOut, WorkFailed
from maint.model.fleet import LATE, HostReply, Presented
from maint.model.secret import scrub
from maint.ports import Answer, Ran, Secrets
from maint.ports.hosts import MISSING, read_script, write_script


def _connections(settings: SiteSettings, secrets: Secrets, *, once: bool) -> Connections:
    made = Connections(ssh_settings(settings), once=once)
    # A login script or sudo may quote what nothing else reads.
    know_at_hand(secrets.resolve, settings.references().values())
    return made


class FabricShell:
    """`ports.Shell`: connections are made when first needed, kept while the shell is, and shared by threads."""

    def __init__(self, settings: SiteSettings, secrets: Secrets) -> None:
        self._settings = settings
        self._secrets, self._sudo = secrets, SudoGates(settings, secrets)
        self._connections: Connections | None = None
        self._kept: dict[str, KeptConnection] = {}
        self._opening = threading.Lock()

    def ask(self, host: str, command: str, *, stdin: bytes = b"", timeout: float | None = None) -> Ran:
        """Run a command that changes nothing, once more where a kept connection is dead; see `ports.ShellSight.ask`."""
        return self._run(host, command, stdin, timeout, repeatable=True)

    def run(self, host: str, command: str, *, stdin: bytes = b"", timeout: float | None = None) -> Ran:
        """Run a command that may change something, never a second time once it may have begun; see `ask`."""
        return self._run(host, command, stdin, timeout, repeatable=False)

    @contextmanager
    def stream(self, host: str, command: str, *, timeout: float | None = None) -> Iterator[Answer]:
        """Run a command that changes nothing and give out what it prints; see `ports.ShellSight.stream`."""
        kept = self._host(host)
        connection, channel, _ = kept.session()
        try:
            yield self._command(kept, channel, b"", timeout).begin(command)
        except Lost as lost:
            kept.drop(connection)
            raise kept.connections.blamed(kept.address, lost) from None
        finally:
            end(channel)

    def read_file(self, host: str, path: str) -> bytes | None:
        """Return a file's bytes, or None where there is none; WorkFailed where it is there, but cannot be read."""
        ran = self.ask(host, read_script(path))
        if ran.status == MISSING:
            return None
        if not ran.ok:
            raise _failed(f"{host}: cannot read {path}", ran)
        return ran.out

    def write_file(
        self,
        host: str,
        path: str,
        content: bytes,
        *,
        owner: str = "",
        group: str = "",
        mode: str = "",
        timeout: float | None = None,
    ) -> None:
        """Replace or make a file atomically, see `ports.Shell.write_file`; WorkFailed leaves the old one as it was."""
        words = write_script(path, content, owner=owner, group=group, mode=mode)
        ran = self.run(host, words, stdin=content, timeout=timeout)
        if not ran.ok:
            raise _failed(f"{host}: cannot write {path}", ran)

    def close(self) -> None:
        with self._opening:
            for kept in self._kept.values():
                kept.drop()
            self._kept.clear()
            if self._connections is not None:
                self._connections.close()
                self._connections = None

    def __enter__(self) -> "FabricShell":
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def _run(
        self, host: str, command: str, stdin: bytes, timeout: float | None, *, repeatable: bool, again: bool = False
    ) -> Ran:
        kept = self._host(host)
        try:
            connection, channel, reused = kept.session()
        except CannotReach as away:
            away.untouched = True
            raise
        try:
            return self._command(kept, channel, stdin, timeout).begin(command).finish()
        except LoginRefused as refusal:  # sudo's, before the command
            refusal.untouched = True
            raise
        except Lost as lost:
            kept.drop(connection)
            failure = kept.connections.blamed(kept.address, lost)
            if not repeatable:
                failure.detail = ("the command may have begun, and may still run",)
                failure.hint = "look at the host before running it again"
            if again or not (repeatable and reused):
                raise failure from None
        finally:
            end(channel)
        return self._run(host, command, stdin, timeout, repeatable=True, again=True)

    def _command(self, kept: KeptConnection, channel: Channel, stdin: bytes, timeout: float | None) -> RemoteCommand:
        return RemoteCommand(
            str(kept.address),
            channel,
            self._sudo.gate(str(kept.address)),
            stdin=stdin,
            timeout=kept.connections.settings.command_timeout if timeout is None else timeout,
        )

    def _host(self, name: str) -> KeptConnection:
        host = self._named(name)
        with self._opening:
            if self._connections is None:
                self._connections = _connections(self._settings, self._secrets, once=False)
            if name not in self._kept:
                self._kept[name] = KeptConnection(self._connections, self._connections.address(host))
            return self._kept[name]

    def _named(self, name: str) -> HostSettings:
        for host in (*self._settings.hosts, *self._settings.hosts_in("manager")):
            if host.name == name:
                return host
        known = ", ".join(host.name for host in self._settings.hosts) or "none"
        raise Invalid(
            f"site {self._settings.name} has no host {name!r}",
            detail=[f"hosts: {known}"],
            hint="add it below `hosts`, or name one of these",
        )


def _failed(what: str, ran: Ran) -> WorkFailed:
    return WorkFailed(
        what,
        detail=ran.last_words,
        hint="look at that host: its disk, its permissions, and whether sudo works there without a password",
    )


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
        self._secrets, self._sudo = secrets, SudoGates(settings, secrets)
        self._heard = heard
        self._stopped = stopped

    def ask(
        self, hosts: Sequence[HostSettings], scripts: Mapping[str, bytes], *, timeout: float | None = None
    ) -> Iterator[HostReply]:
        """Feed each host's script to its `/bin/sh` and yield one reply a host; see `ports.Fleet.ask`."""
        _ = self._sudo.password  # a reference that leads nowhere is reported before any host is asked
        connections = _connections(self._settings, self._secrets, once=True)
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
        connections = _connections(self._settings, self._secrets, once=True)

        def late(host: HostSettings, words: str, _: str) -> Presented:
            return Presented(host.name, "", reason=f"not seen when {words}")

        yield from self._each(hosts, connections, partial(_presented, connections), late, timeout, None)

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
