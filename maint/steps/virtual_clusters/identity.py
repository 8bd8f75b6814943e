"""A user's principal and keytab: proven fit, here and in memory only, before anything is sent (jobs API, 12)."""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

from maint.config.schema import VirtualClusterSettings, VirtualClusterUser
from maint.errors import Invalid, Refused
from maint.model.keytab import BadKeytab, Key, newest_usable, parse
from maint.model.secret import SecretBytes
from maint.ports import Secrets

_PRINCIPAL = re.compile(r"[^@/\s\\]+(/[^@/\s\\]+)*@[^@/\s\\]+")
_MOST = 1024  # bytes of a principal file
_NOT = "not tried with kinit"
_LIMIT = 30.0  # seconds; three tries at an unreachable KDC take 10 to 20
_NEEDED = ("PATH", "HOME", "KRB5_CONFIG")
# What kinit says when it could not even ask, or when it is not the keytab's fault.
_UNTOLD = (
    "cannot contact any kdc",
    "cannot find kdc",
    "cannot resolve",
    "no kdc",
    "clock skew",
    "configuration file",
    "can't open/find",
    "kdc unreachable",
)
_STALE = ("preauthentication failed", "password incorrect", "decrypt integrity", "key version", "pre-authentication")


class Identity(msgspec.Struct, frozen=True):
    """What a user's jobs log in with.

    Attributes:
        principal: its name.
        keytab: the file as it is.
        key: its newest usable key.
        tried: what kinit said to it, in words.
    """

    principal: str
    keytab: SecretBytes
    key: Key
    tried: str

    @property
    def files(self) -> Mapping[str, bytes]:
        """Both files, as the utility wants them."""
        return {"principal": f"{self.principal}\n".encode(), "keytab": self.keytab.reveal()}


def user_of(settings: VirtualClusterSettings, name: str) -> VirtualClusterUser:
    """Return a configured user.

    Raises:
        Invalid: none of that name is configured.
    """
    for user in settings.users:
        if user.name == name:
            return user
    known = ", ".join(user.name for user in settings.users) or "none"
    raise Invalid(
        f"virtual cluster {settings.name} has no user {name!r} in the config",
        detail=[f"configured: {known}"],
        hint=f"add `users: [{{name: {name}, principal: {name}@REALM, keytab: file:PATH}}]`",
    )


def identity_of(user: VirtualClusterUser, secrets: Secrets, environ: Mapping[str, str] = os.environ) -> Identity:
    """Return a user's principal and keytab, once they have proven to fit each other, and the KDC where one answers.

    Raises:
        Invalid: a file cannot be read.
        Refused: they are not what jobs could log in with.
    """
    principal = principal_of(user)
    content = secrets.resolve_bytes(user.keytab)
    try:
        key = newest_usable(parse(content.reveal()), principal)
    except BadKeytab as error:
        raise Refused(
            f"the keytab of {user.name} is of no use: {error}",
            hint=f"make it anew for {principal}: `maint help virtual-clusters`",
        ) from None
    return Identity(principal, content, key, try_login(user.name, principal, content, key, environ))


def principal_of(user: VirtualClusterUser) -> str:
    """Return the principal that the config names, or that stands in the file it names.

    Raises:
        Invalid: the file cannot be read.
        Refused: it is not one clean line `name@REALM`: a CR or a second line would become part of the name.
    """
    if not user.principal.startswith("file:"):
        content, where = user.principal.encode(), f"the principal of {user.name}"
    else:
        path = Path(user.principal.removeprefix("file:"))
        where = f"the principal file {path}"
        try:
            with path.open("rb") as file:
                content = file.read(_MOST + 1)
        except OSError as error:
            raise Invalid(f"{where} cannot be read: {error.strerror}") from None
        content = content.removesuffix(b"\n")
    if problem := _unclean(content):
        raise Refused(
            f"{where} {problem}", hint="it must be one line, name@REALM, and nothing else: `printf '%s\\n' NAME@REALM`"
        )
    return content.decode()


def _unclean(content: bytes) -> str:
    if content.startswith(b"\xef\xbb\xbf"):
        return "begins with a byte order mark"
    if b"\r" in content:
        return "has a carriage return at the end of its line"
    if b"\n" in content:
        return "has more than one line"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "is not UTF-8 text"
    if not text.isprintable() or not _PRINCIPAL.fullmatch(text):
        return "is no principal of the form name@REALM"
    return ""


def refuse_older(identity: Identity, live: Mapping[str, bytes] | None) -> None:
    """Refuse a keytab that is older than the one in place, where kinit could not tell.

    Args:
        identity: what is to be written.
        live: what the secret with the present keytab holds.

    Raises:
        Refused: it has an older key version of the same principal.
    """
    for content in (live or {}).values() if identity.tried.startswith(_NOT) else ():
        with contextlib.suppress(BadKeytab):
            there = newest_usable(parse(content), identity.principal)
            if there.version > identity.key.version:
                raise Refused(
                    f"the keytab has key version {identity.key.version} of {identity.principal}, and the virtual "
                    f"cluster has version {there.version} already",
                    detail=[identity.tried],
                    hint="export it anew; with a KDC in reach kinit tells which one is good",
                )


def try_login(user: str, principal: str, keytab: SecretBytes, key: Key, environ: Mapping[str, str]) -> str:
    """Log in with a keytab as a job would, and return in words that it worked, or why it was not tried.

    Ticket and keytab lie in memory only.

    Raises:
        Refused: the KDC does not accept it.
    """
    if shutil.which("kinit", path=environ.get("PATH")) is None:
        return f"{_NOT}: it is not installed here"
    if not hasattr(os, "memfd_create"):
        return f"{_NOT}: this system has no files in memory"
    try:
        ended = _kinit(principal, keytab, environ)
    except subprocess.TimeoutExpired:
        return f"{_NOT}: no KDC answered within {_LIMIT:g} s"
    except OSError as error:
        return f"{_NOT}: {error.strerror}"
    if ended.returncode == 0:
        return "kinit with it works"
    words = " ".join(ended.stderr.decode(errors="replace").split()).removeprefix("kinit: ")
    told = words.lower()
    if any(word in told for word in _UNTOLD):
        return f"{_NOT}: {words}"
    stale = (
        f"the KDC has other keys than version {key.version} in the keytab: it is older than the KDC's, "
        "or was made with another password or salt"
    )
    raise Refused(
        f"the KDC refuses the keytab of {user}",
        detail=[f"kinit: {words}", *([stale] if any(word in told for word in _STALE) else [])],
        hint=f"export it anew (`ktadd -norandkey` keeps the keys that others hold), and compare `kvno {principal}`",
    )


def _kinit(principal: str, keytab: SecretBytes, environ: Mapping[str, str]) -> "subprocess.CompletedProcess[bytes]":
    handle = os.memfd_create("maint-keytab")
    try:
        os.write(handle, keytab.reveal())
        kept = {name: environ[name] for name in _NEEDED if name in environ}
        return subprocess.run(
            ["kinit", "-k", "-t", f"FILE:/proc/self/fd/{handle}", principal],
            env={**kept, "KRB5CCNAME": "MEMORY:maint", "LC_ALL": "C"},
            pass_fds=[handle],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_LIMIT,
            check=False,
        )
    finally:
        os.close(handle)
