"""Run one command on a session of a host, through sudo or not: its input, both outputs within bounds, how it ended."""

import re
import secrets
import select
import shlex
import time
from collections.abc import Callable
from functools import cached_property

from paramiko import Channel

from maint.adapters.ssh.connections import BROKEN, reason
from maint.adapters.ssh.transport import begin
from maint.config.schema import SiteSettings, SshSettings
from maint.config.secrets import in_one_line
from maint.errors import CannotReach, Invalid, LoginRefused, TimedOut, WorkFailed
from maint.model.secret import Secret, scrub
from maint.ports import Ran, Secrets


def ssh_settings(settings: SiteSettings) -> SshSettings:
    """Return how a site's hosts are reached; Invalid where the site does not say."""
    if settings.ssh is None:
        raise Invalid(
            f"site {settings.name} has no ssh section, so its hosts cannot be reached",
            hint="add sites.NAME.ssh to the config",
        )
    return settings.ssh


class SudoGates:
    """Whether a site's commands go through sudo, and its password, which is resolved once, not for each host."""

    def __init__(self, settings: SiteSettings, secrets: Secrets) -> None:
        self._settings = settings
        self._secrets = secrets

    @cached_property
    def password(self) -> Secret | None:
        """The password, None where none is configured."""
        reference = ssh_settings(self._settings).sudo_password
        return None if reference is None else in_one_line(self._secrets.resolve(reference), reference)

    def gate(self, host: str) -> "SudoGate | None":
        """Return a call of sudo on a host, None where commands run without it."""
        through = self.password is not None or ssh_settings(self._settings).sudo
        return SudoGate(host, self.password) if through else None


class SudoGate:
    """One call of sudo, which gets the command's input only once the command has begun; None: it asks for no password.

    sudo asks for a password only where its rules want one, and by its rules alone the password could end up as the
    command's first line of input. So sudo's prompt and the command's beginning are both marked on stderr.
    """

    def __init__(self, host: str, password: Secret | None) -> None:
        token = secrets.token_hex(8)
        self._host = host
        self._password = password
        self._prompt = f"[maint-{token}-password]"
        self._ready = f"[maint-{token}-ready]"
        self._seen = b""
        self._asked = 0
        self.opened = False

    def command(self, command: str) -> str:
        how = "-n" if self._password is None else f"-S -p {shlex.quote(self._prompt)}"
        return f"sudo {how} -- {in_sh(f'printf %s {shlex.quote(self._ready)} >&2; {command}')}"

    def feed(self, block: bytes) -> tuple[bytes, bytes]:
        """Take what came on stderr; return the command's own part and the answer to sudo, or raise LoginRefused."""
        if self.opened:
            return block, b""
        self._seen += block
        _, ready, rest = self._seen.partition(self._ready.encode())
        if ready:
            self.opened = True
            return rest, b""
        if len(self._seen) > _LONGEST:
            raise self.refusal()
        if self._seen.count(self._prompt.encode()) <= self._asked:
            return b"", b""
        self._asked += 1
        if self._asked > 1 or self._password is None:
            raise LoginRefused(f"{self._host}: sudo did not accept the password", hint="look at ssh.sudo.password")
        return b"", self._password.reveal().encode() + b"\n"

    def refusal(self) -> LoginRefused:
        words = scrub(self._seen.decode("utf-8", "replace")).replace(self._prompt, "").split("\n")
        return LoginRefused(
            f"{self._host}: sudo refused to run a command",
            detail=[word.strip()[:_SHOWN] for word in words if word.strip()][:5],
            hint="`Defaults:ACCOUNT !requiretty` in sudoers lets an account work without a terminal"
            if re.search(rb"\btty\b", self._seen)
            else "give the account the right in sudoers, or a password by ssh.sudo.password",
        )


SHELL = "exec /bin/sh -s"  # no rc files are read, nothing stands in `ps`, no argument is too long
LARGEST = 64 * 1024 * 1024  # bytes that a command may print, where nobody gives another limit
_BLOCK = 32 * 1024
_LONGEST = 64 * 1024  # bytes of what sudo says, and of error output that are kept of a command read while it runs
_SHOWN = 400  # characters of a line of what sudo says
_WINDOW_PAUSE = 0.02  # seconds; paramiko tells nobody when the far side makes room for more input
_IDLE_PAUSE = 1.0
KILLED = -1
# What stands before it a login script printed, such as a greeting with the time of day: none of it is an answer.
BEGUN = "maint: what follows is the answer"
_GONE = "did that host, its sshd or the way to it go down? Then again"


class Lost(CannotReach):
    """The connection went away while the command ran."""


# In the language of every login shell but csh: fish takes two backslashes between single quotes for one.
_SPECIAL = r"['\\]"
_QUOTED = {"'": "'\"'\"'", "\\": "'\"\\\\\"'"}


def in_sh(command: str) -> str:
    """Return how /bin/sh is had to carry out a command, whatever the login shell: fish is none, zsh splits no words."""
    return f"/bin/sh -c '{re.sub(_SPECIAL, lambda found: _QUOTED[found[0]], command)}'"


class RemoteCommand:
    """A command on a channel, until it ends: `finish` for all that it prints, or `read` while it runs.

    Args:
        gate: sudo's, where the command goes through it.
        hold: whether its input stays open after `stdin`.
        timeout: seconds, for `read` between two blocks; None is not a limit.
        largest: bytes that it may print.
    """

    def __init__(
        self,
        host: str,
        channel: Channel,
        gate: SudoGate | None,
        *,
        stdin: bytes = b"",
        hold: bool = False,
        timeout: float | None,
        largest: int = LARGEST,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._channel = channel
        self._gate = gate
        self._stdin = stdin
        self._timeout = timeout
        self._largest = largest
        self._monotonic = monotonic
        self._deadline = None if timeout is None else monotonic() + timeout
        self._pending = memoryview(b"")
        self._input_given = False
        self._input_ended = hold
        self._begun = False
        self._greeting = bytearray()
        self._out = bytearray()
        self._err = bytearray()
        self._poller = select.poll()

    def begin(self, command: str) -> "RemoteCommand":
        """Send the command, and wait until the host has taken it; TimedOut, Lost, or CannotReach where it said no."""
        command = f"echo '{BEGUN}'; {command}"
        try:
            self._poller.register(self._channel.fileno(), select.POLLIN)  # which opens a pipe
            line = self._gate.command(command) if self._gate else f"exec {in_sh(command)}"
            begin(self._channel, "exec", line, self._timeout)
        except TimeoutError:
            raise self._late() from None
        except BROKEN as error:
            words = f"{self._host}: the command was not taken: {reason(error, self._timeout or 0)}"
            if self._channel.get_transport().is_active():
                hint = "may that account run commands there? The log of its sshd says why not"
                raise CannotReach(words, hint=hint) from None
            raise Lost(words, hint=_GONE) from None
        return self

    def finish(self) -> Ran:
        """Return how it ended; the status is -1 when a signal killed it.

        Raises:
            TimedOut: it did not end in time.
            WorkFailed: it printed too much.
            Lost: the connection went away.
            LoginRefused: sudo did not let it begin.
        """
        while self._went_on():
            self._left()
            if len(self._out) + len(self._err) > self._largest:
                raise WorkFailed(
                    f"{self._host}: a command printed more than {self._largest // 1024**2} MiB, and was ended",
                    hint="look at what it prints there; a file of that size is fetched by `host.fetch`",
                )
        return self._ended()

    def read(self, size: int = -1, /) -> bytes:
        """Return at most so many bytes; b'' once the command has ended well, WorkFailed for any other status.

        What nobody reads stays on the host: the channel's window makes the command wait.
        """
        while not self._out and self._went_on():
            del self._err[_LONGEST:]
            if self._out and self._timeout is not None:
                self._deadline = self._monotonic() + self._timeout
        if not self._out and not (ran := self._ended()).ok:
            words = f"{self._host}: a command whose output was read ended with status {ran.status}"
            raise WorkFailed(
                words, detail=ran.last_words, hint="look at that host; what was read before the end is not used"
            )
        block = bytes(self._out[: len(self._out) if size < 0 else size])
        del self._out[: len(block)]
        return block

    @property
    def received(self) -> bytes:
        """All that came, what a login script printed too."""
        return bytes(self._greeting + self._out)

    def _ended(self) -> Ran:
        status = self._status()
        if self._gate and not self._gate.opened:
            raise self._gate.refusal()
        if not self._begun and status == 0:
            raise self._not_begun("it ended well, and carried out no command")
        return Ran(status=status, out=bytes(self._out if self._begun else self._greeting), err=bytes(self._err))

    def _went_on(self) -> bool:
        # In this order: what came before the end is in the buffers by the time that the end is seen.
        over = self._channel.eof_received or self._channel.closed
        self._write()
        came = self._read_errors()
        if self._channel.recv_ready():
            self._take(self._channel.recv(_BLOCK))
        elif over and not came:
            return False
        else:  # only now: what has come while the reader was busy elsewhere is not late
            pause = 0 if came else _WINDOW_PAUSE if self._pending else _IDLE_PAUSE
            self._poller.poll(1000 * min(pause, self._left()))
        return True

    def _take(self, block: bytes) -> None:
        if self._begun:
            self._out += block
            return
        self._greeting += block
        before, mark, rest = self._greeting.partition(f"{BEGUN}\n".encode())
        if mark:
            self._begun, self._greeting = True, before
            self._out += rest
        elif len(self._greeting) > _LONGEST:
            raise self._not_begun(f"it prints more than {_LONGEST // 1024} KiB before the command begins")

    def _not_begun(self, words: str) -> WorkFailed:
        said = [line.strip()[:_SHOWN] for line in scrub(self._greeting.decode("utf-8", "replace")).splitlines()]
        return WorkFailed(
            f"{self._host}: the account's login is of no use: {words}",
            detail=[line for line in said if line][:5],
            hint="look at its login shell and at what that reads, and at a forced command in authorized_keys",
        )

    def _read_errors(self) -> bool:
        if not self._channel.recv_stderr_ready():
            return False
        block = self._channel.recv_stderr(_BLOCK)
        if self._gate is not None:
            block, answer = self._gate.feed(block)
            self._pending = memoryview(answer) if answer else self._pending
        self._err += block
        return True

    def _write(self) -> None:
        if not self._input_given and (self._gate is None or self._gate.opened):
            self._pending = memoryview(self._stdin)
            self._input_given = True
        try:
            while self._pending and self._channel.send_ready():
                sent = self._channel.send(bytes(self._pending[:_BLOCK]))
                self._pending = self._pending[sent:]
            if self._input_given and not self._pending and not self._input_ended:
                self._input_ended = True
                self._channel.shutdown_write()
        except BROKEN:
            # A command may end without having read its input; its status says how it ended.
            self._pending = memoryview(b"")
            self._input_ended = True

    def _left(self) -> float:
        if self._deadline is None:
            return _IDLE_PAUSE
        left = self._deadline - self._monotonic()
        if left <= 0:
            raise self._late()
        return left

    def _late(self) -> TimedOut:
        return TimedOut(
            f"{self._host}: a command did not end within {self._timeout:g} s",
            detail=["it may still run there"],
            hint="give it more time (ssh.command_timeout, or the step's timeout)",
        )

    def _status(self) -> int:
        # A command may close its outputs and run on.
        while not self._channel.status_event.wait(min(self._left(), _IDLE_PAUSE)):
            pass
        if self._channel.exit_status != -1:
            return self._channel.exit_status
        # Without a status: killed by a signal, after which the host closes the channel; or the connection is gone.
        if self._channel.get_transport().is_active():
            return KILLED
        raise Lost(f"{self._host}: the connection was lost while a command ran", hint=_GONE)
