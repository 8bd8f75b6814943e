"""Try the password of the shared truststore (M11) where the truststore lies, on the manager's host."""

import shlex
from collections.abc import Mapping

import msgspec

from maint.errors import CannotReach, Invalid, WorkFailed
from maint.model.formatting import show_count
from maint.model.secret import Secret
from maint.ports import Sight
from maint.ports.manager_host import stranger

DEFAULT_PATH = "/var/lib/cloudera-scm-agent/agent-cert/cm-auto-global_truststore.jks"
_HINT = (
    "the file may be an old one: put the server's own in its place:"
    ' `cat "$(find /var/lib/cloudera-scm-server/certmanager -name cm-auto-global_truststore.jks)" > {}`;'
    " where the password does not open that either, have the manager make all anew (Administration, Security,"
    " Rotate Auto-TLS Certificates)"
)
_LIMIT = 60.0  # seconds
_UNREADABLE, _NO_TOOL = 91, 92
# The password goes over standard input only.
_TRIAL = (
    "p={path}; test -r $p || exit 91; t=$(command -v keytool || ls /usr/java/*/bin/keytool /usr/lib/jvm/*/bin/keytool"
    ' /usr/lib/jvm/*/jre/bin/keytool 2> /dev/null | head -n 1); test -n "$t" || exit 92;'
    ' LC_ALL=C "$t" -list -keystore $p'
)


class Trial(msgspec.Struct, frozen=True):
    """Whether a password opens the truststore (`None`: that could not be tried), and the same in words."""

    opens: bool | None
    words: str
    hint: str = ""  # what to do where it could not be tried, or opens nothing


def mending(path: str) -> str:
    """Return what is to be done, on the manager's host, about a truststore that the served password does not open."""
    return _HINT.format(shlex.quote(path))


def path_of(settings: Mapping[str, str]) -> str:
    """Return where the truststore lies, by the manager's settings."""
    return settings.get("TRUSTSTORE_PATH") or DEFAULT_PATH


def try_served(sight: Sight) -> Trial | None:
    """Try the password that the manager serves; None where it has none to give. Raises as the manager does."""
    password = sight.manager.truststore_password()
    return None if password is None else try_password(sight, path_of(sight.manager.settings()), password)


def try_password(sight: Sight, path: str, password: Secret) -> Trial:
    """Try a password on the truststore at a path of the manager's host, with keytool; never raises for the host."""
    hosts = sight.settings.hosts_in("manager") if sight.settings.ssh else ()
    if not hosts:
        return _untried("the config names no host over SSH")
    host, given = hosts[0].name, password.reveal().encode() + b"\n"
    try:
        if why := stranger(sight, host):
            return _untried(why, "maint host check --check cm.identity")
        ran = sight.shell.ask(host, _TRIAL.format(path=shlex.quote(path)), stdin=given, timeout=_LIMIT)
    except (CannotReach, WorkFailed, Invalid) as failure:
        return _untried(failure.message, failure.way_on or "")
    if ran.status == _UNREADABLE:
        return _untried(f"{host} has no readable {path}", "restore the host's agent-cert folder")
    if ran.status == _NO_TOOL:
        return _untried(f"{host} has no keytool", "a JDK under /usr/java or /usr/lib/jvm brings it")
    if ran.ok:
        count = sum(b"trustedCertEntry" in line or b"PrivateKeyEntry" in line for line in ran.out.splitlines())
        return Trial(True, f"opens {path} on {host} ({show_count(count, 'entry')})")
    said = next((line for line in ran.words.splitlines() if line.startswith("keytool error:")), "")
    if "password" in said:
        return Trial(False, f"does not open {path} on {host}", mending(path))
    return _untried(f"{said or f'keytool ended with {ran.status}'} ({path} on {host})", mending(path))


def _untried(why: str, hint: str = "") -> Trial:
    return Trial(None, f"could not be tried: {why}", hint)
