"""A real MIT KDC in a folder of its own, on a free port, and the tools that make keytabs for it."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.ports import free_port

_LONG = 200.0  # seconds; no more than an end for what never comes
SBIN = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
REALM = "EXAMPLE.COM"
NEEDED = ("krb5kdc", "kdb5_util", "kadmin.local", "ktutil", "kinit", "klist")

_CLIENT = """[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 rdns = false
 udp_preference_limit = 1
 renew_lifetime = 7d
 allow_weak_crypto = true
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
"""
_SERVER = """[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
  max_renewable_life = 7d
  supported_enctypes = aes256-cts:normal aes128-cts:normal
 }}
"""
# What kinit does (principal, keytab), as if this machine's clock were so many seconds ahead.
AHEAD = """
import ctypes, sys, time
library, (principal, keytab, ahead) = ctypes.CDLL("libkrb5.so.3"), sys.argv[1:]
library.krb5_get_error_message.restype = ctypes.c_char_p
context, client, place = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
library.krb5_init_context(ctypes.byref(context))
library.krb5_parse_name(context, principal.encode(), ctypes.byref(client))
library.krb5_kt_resolve(context, keytab.encode(), ctypes.byref(place))
library.krb5_set_real_time(context, int(time.time()) + int(ahead), 0)
ticket = ctypes.create_string_buffer(4096)
code = library.krb5_get_init_creds_keytab(context, ticket, client, place, 0, None, None)
words = library.krb5_get_error_message(context, code).decode()
sys.exit(f"kinit: {words} while getting initial credentials" if code else 0)
"""


def lacking() -> list[str]:
    """Return the programs that are not here."""
    return [name for name in NEEDED if not shutil.which(name, path=SBIN)]


@dataclass
class Kdc:
    """A KDC that runs."""

    folder: Path
    port: int

    @property
    def environment(self) -> dict[str, str]:
        """What clients of it need."""
        return {"KRB5_CONFIG": str(self.folder / "krb5.conf")}

    def tool(self, *words: str, given: str = "") -> str:
        """Run a program and return what it printed."""
        environ = {**os.environ, **self.environment, "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"), "LC_ALL": "C"}
        path = shutil.which(words[0], path=SBIN) or words[0]
        ended = subprocess.run([path, *words[1:]], input=given, env=environ, capture_output=True, text=True, check=True)
        return ended.stdout

    def admin(self, *words: str) -> str:
        """Run one order of kadmin.local."""
        return self.tool("kadmin.local", "-r", REALM, *words)

    def add(self, principal: str, *, preauth: bool = True) -> None:
        """Make a principal with random keys."""
        self.admin("addprinc", f"{'+' if preauth else '-'}requires_preauth", "-randkey", principal)

    def keytab(self, principal: str, *enctypes: str) -> bytes:
        """Return a keytab with new keys: the key version goes up by one."""
        path = self.folder / "fresh.keytab"
        path.unlink(missing_ok=True)
        self.admin("ktadd", "-q", "-k", str(path), *(("-e", ",".join(enctypes)) if enctypes else ()), principal)
        return path.read_bytes()

    def ktutil(self, principal: str, entries: Sequence[tuple[int, str]]) -> bytes:
        """Return a keytab derived from a password: key versions with their encryption types."""
        path = self.folder / "typed.keytab"
        path.unlink(missing_ok=True)
        lines = [f"addent -password -p {principal} -k {version} -e {kind}\nsecret" for version, kind in entries]
        self.tool("ktutil", given="\n".join([*lines, f"wkt {path}", "quit", ""]))
        return path.read_bytes()

    def told(self, keytab: bytes) -> list[tuple[int, str]]:
        """Return what klist reads in a keytab: key version and principal of each key."""
        path = self.folder / "shown.keytab"
        path.write_bytes(keytab)
        rows = [line.split() for line in self.tool("klist", "-k", str(path)).splitlines()[3:]]
        return [(int(row[0]), row[1]) for row in rows]


def start(folder: Path) -> "tuple[Kdc, subprocess.Popen[bytes]]":
    """Lay a realm out and start its KDC; returns once it answers."""
    port = free_port()
    kdc = Kdc(folder, port)
    for name, text in (("krb5.conf", _CLIENT), ("kdc.conf", _SERVER)):
        (folder / name).write_text(text.format(realm=REALM, port=port, folder=folder))
    kdc.tool("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
    environ = {**os.environ, **kdc.environment, "KRB5_KDC_PROFILE": str(folder / "kdc.conf")}
    log = (folder / "kdc.log").open("wb")
    program = shutil.which("krb5kdc", path=SBIN) or "krb5kdc"
    process = subprocess.Popen([program, "-n", "-r", REALM], env=environ, stdout=log, stderr=log)
    limit = time.monotonic() + _LONG
    while time.monotonic() < limit:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return kdc, process
        except OSError:
            assert process.poll() is None, (folder / "kdc.log").read_text()
            time.sleep(0.02)
    raise AssertionError("the KDC did not come up")
