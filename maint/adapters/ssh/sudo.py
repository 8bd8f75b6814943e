"""Become root by sudo, and tell sudo's refusal from a command's failure."""

import secrets
import shlex

from maint.errors import LoginRefused
from maint.model.secret import Secret


class SudoGate:
    """One call of sudo: it holds the command's input back until the command itself has begun.

    sudo asks for a password only where its rules want one, and by its rules alone the password could end up as the
    command's first line of input. So sudo's prompt and the command's beginning are both marked on stderr.

    Args:
        host: whose sudo it is, for messages.
        password: what to answer when asked; None where sudo is expected not to ask.
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
        """Return the command line that runs a command as root."""
        how = "-n" if self._password is None else f"-S -p {shlex.quote(self._prompt)}"
        inner = f"printf %s {shlex.quote(self._ready)} >&2\n{command}"
        return f"sudo {how} -- /bin/sh -c {shlex.quote(inner)}"

    def feed(self, block: bytes) -> tuple[bytes, bytes]:
        """Take what came on stderr; return what of it is the command's own, and what to answer sudo.

        Raises:
            LoginRefused: the password was wrong.
        """
        if self.opened:
            return block, b""
        self._seen += block
        _, ready, rest = self._seen.partition(self._ready.encode())
        if ready:
            self.opened = True
            return rest, b""
        return b"", self._answer()

    def _answer(self) -> bytes:
        if self._seen.count(self._prompt.encode()) <= self._asked:
            return b""
        self._asked += 1
        if self._asked > 1 or self._password is None:
            raise LoginRefused(f"{self._host}: sudo did not accept the password", hint="look at ssh.sudo.password")
        return self._password.reveal().encode() + b"\n"

    def refusal(self) -> LoginRefused:
        """Return why the command never began, in sudo's own words."""
        words = self._seen.decode("utf-8", "replace").replace(self._prompt, "").split("\n")
        return LoginRefused(
            f"{self._host}: sudo refused to run a command",
            detail=[word.strip() for word in words if word.strip()][:5],
            hint="give the account the right in sudoers, or a password by ssh.sudo.password",
        )
