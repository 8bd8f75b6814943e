"""Become root by sudo, its password resolved once, and tell sudo's refusal from a command's failure."""

import secrets
import shlex
from functools import cached_property

from maint.config.schema import SiteSettings, SshSettings
from maint.errors import Invalid, LoginRefused
from maint.model.secret import Secret
from maint.ports import Secrets


def ssh_settings(settings: SiteSettings) -> SshSettings:
    """Return how a site's hosts are reached; Invalid where the site does not say."""
    if settings.ssh is None:
        raise Invalid(
            f"site {settings.name} has no ssh section, so its hosts cannot be reached",
            hint="add sites.NAME.ssh to the config",
        )
    return settings.ssh


class Sudo:
    """Whether a site's commands go through sudo, and its password, which is resolved once, not for each host."""

    def __init__(self, settings: SiteSettings, secrets: Secrets) -> None:
        self._settings = settings
        self._secrets = secrets

    @cached_property
    def password(self) -> Secret | None:
        """The password, None where none is configured."""
        reference = ssh_settings(self._settings).sudo_password
        return None if reference is None else self._secrets.resolve(reference)

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
        inner = f"printf %s {shlex.quote(self._ready)} >&2\n{command}"
        return f"sudo {how} -- /bin/sh -c {shlex.quote(inner)}"

    def feed(self, block: bytes) -> tuple[bytes, bytes]:
        """Take what came on stderr; return the command's own part and the answer to sudo, or raise LoginRefused."""
        if self.opened:
            return block, b""
        self._seen += block
        _, ready, rest = self._seen.partition(self._ready.encode())
        if ready:
            self.opened = True
            return rest, b""
        if self._seen.count(self._prompt.encode()) <= self._asked:
            return b"", b""
        self._asked += 1
        if self._asked > 1 or self._password is None:
            raise LoginRefused(f"{self._host}: sudo did not accept the password", hint="look at ssh.sudo.password")
        return b"", self._password.reveal().encode() + b"\n"

    def refusal(self) -> LoginRefused:
        words = self._seen.decode("utf-8", "replace").replace(self._prompt, "").split("\n")
        return LoginRefused(
            f"{self._host}: sudo refused to run a command",
            detail=[word.strip() for word in words if word.strip()][:5],
            hint="give the account the right in sudoers, or a password by ssh.sudo.password",
        )
