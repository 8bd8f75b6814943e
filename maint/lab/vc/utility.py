"""The virtual-cluster utility as a lab host has it: certificates and Kerberos secrets (jobs API, section 11)."""

import posixpath
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from maint.lab import pki
from maint.lab.files import write_whole
from maint.lab.vc.cluster import Cluster
from maint.lab.vc.service import Service

Read = Callable[[str], bytes | None]

SCRIPT = "/opt/cloudera/cde-utils.sh"
TEXT = b"""#!/bin/bash
# The virtual-cluster utility of the Data Engineering service, as a lab host has it.
set -e
exec /opt/cloudera/lib/cde-utils "$@"
"""
USAGE = """Usage: cde-utils.sh COMMAND [OPTIONS]
  init-virtual-cluster           -h <vc host> -a | -h <vc host> -c <certificate> -k <key> [-w <wildcard>]
  init-user-in-virtual-cluster   -h <vc host> -u <user> -p <principal file> -k <keytab>
  delete-user-in-virtual-cluster -h <vc host> -u <user>
"""
_SECRET_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


class Failure(Exception):
    """The utility gives up: `set -e`, and only the failing command's own words."""


@dataclass(slots=True)
class Told:
    """What a call of the utility says, and its exit status."""

    status: int = 0
    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)

    def info(self, text: str) -> None:
        """Say something for people; it goes to standard error (section 11.4)."""
        self.err.append(f"[INFO] {text}\n")


class Utility:
    """The utility of one service.

    Args:
        service: whose virtual clusters it initialises.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    def __call__(self, words: list[str], folder: str, read: Read) -> tuple[int, str, str]:
        """Carry a call out as a program does; return its status, output and errors."""
        told = self.run(words, folder, read)
        return told.status, "".join(told.out), "".join(told.err)

    def run(self, words: list[str], folder: str, read: Read) -> Told:
        """Carry a call out.

        Args:
            folder: where it was called from.
            read: returns a file of the host, None where there is none.
        """
        told = Told()
        dry, words = words[:1] == ["-d"], words[1:] if words[:1] == ["-d"] else words
        commands = {
            "init-virtual-cluster": self._init,
            "init-user-in-virtual-cluster": self._init_user,
            "delete-user-in-virtual-cluster": self._delete_user,
        }
        if not words or words[0] == "help" or words[0] not in commands:
            return Told(int(bool(words) and words[0] != "help"), [USAGE])
        try:
            commands[words[0]](_Call(_options(words[1:]), folder, read, dry), told)
        except Failure as failure:
            told.err.append(f"{failure}\n")
            told.status = 1
        return told

    def _init(self, call: "_Call", told: Told) -> None:
        """Give a virtual cluster and its gateway a certificate; again means: rotate both (section 11.3)."""
        host = call.need("h", "-host")
        if "a" in call.options:
            wide = host.partition(".")[2]
            pair = pki.self_signed(
                [host if len(host) < 64 else f"*.{wide}", host, f"service.{wide}"], datetime.now(UTC)
            )
            content = pair.key_pem + pair.pem
        else:
            key, certificate = call.file(call.need("k", "-key")), call.file(call.need("c", "-certificate"))
            if b"PRIVATE KEY-----" not in key or b"-----BEGIN CERTIFICATE" not in certificate:
                raise Failure("error: tls: failed to find any PEM data in certificate or key input")
            content = key + certificate
        cluster = self._cluster(host)
        if call.dry:
            return
        for name in (cluster.identity.gateway, cluster.identity.host):
            path = self._service.folder / "tls" / f"{name}.pem"
            write_whole(path, content, 0o600)
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
            except (ssl.SSLError, ValueError) as error:
                path.unlink()
                raise Failure(f"error: tls: failed to parse certificate and key: {error}") from error
            secret = "tls-dex-base" if name == cluster.identity.gateway else f"tls-dex-app-{cluster.identity.id}"
            told.out.append(f"secret/{secret} configured\n")
            told.info(f"Ingress of {name} patched")
        with cluster.lock:
            cluster.set_tls(True)

    def _init_user(self, call: "_Call", told: Told) -> None:
        """Replace a user's secrets: they are deleted before the new ones are made (section 11.4)."""
        host, user = call.need("h", "-host"), call.need("u", "-user")
        sources = {"p": "principal", "k": "keytab"}
        contents: dict[str, bytes] = {}
        for letter, noun in sources.items():
            place = call.need(letter, f"-{noun}")
            content = call.read(place)
            if content is None:
                article = "principal file" if letter == "p" else "keytab file"
                raise Failure(f"ERROR: No {article} found at location: {place}")
            contents[letter] = content
        cluster, name = self._cluster(host), user.replace("_", "---")
        if call.dry:
            return
        with cluster.lock:
            told.out.append(f"Deleting old secrets of {user}\n")
            cluster.set_kerberos(user, None)
            for letter, kind in (("p", "principal"), ("k", "secret")):
                target = posixpath.join(call.folder, f"{name}-krb5-{kind}")
                if posixpath.normpath(posixpath.join(call.folder, call.options[letter])) == target:
                    raise Failure(f"cp: '{call.options[letter]}' and './{name}-krb5-{kind}' are the same file")
            if not _SECRET_NAME.fullmatch(name):
                raise Failure(f'The Secret "{name}-krb5-principal" is invalid: metadata.name: Invalid value')
            told.out += [f"secret/{name}-krb5-principal created\n", f"secret/{name}-krb5-secret created\n"]
            cluster.set_kerberos(user, _principal(contents["p"], contents["k"]))

    def _delete_user(self, call: "_Call", told: Told) -> None:
        host, user = call.need("h", "-host"), call.need("u", "-user")
        cluster, name = self._cluster(host), user.replace("_", "---")
        if call.dry:
            return
        with cluster.lock:
            if not cluster.set_kerberos(user, None):
                raise Failure(f'Error from server (NotFound): secrets "{name}-krb5-secret" not found')
        told.out += [f'secret "{name}-krb5-secret" deleted\n', f'secret "{name}-krb5-principal" deleted\n']

    def _cluster(self, host: str) -> Cluster:
        """Return the virtual cluster of a host; anything else, such as a URL, names a namespace that is not there."""
        cluster = self._service.by_host(host)
        if cluster is None:
            first = host.partition(".")[0]
            raise Failure(f'Error from server (NotFound): namespaces "dex-app-{first}" not found')
        return cluster


@dataclass(frozen=True, slots=True)
class _Call:
    options: dict[str, str]
    folder: str
    read: Read
    dry: bool

    def need(self, letter: str, name: str) -> str:
        """Return the value of an option."""
        if not self.options.get(letter):
            raise Failure(f"Missing {name} value...")
        return self.options[letter]

    def file(self, place: str) -> bytes:
        """Return a file of the host."""
        content = self.read(place)
        if content is None:
            raise Failure(f"error: open {place}: no such file or directory")
        return content


def _options(words: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    waiting = list(words)
    while waiting:
        letter = waiting.pop(0).removeprefix("-")
        found[letter] = "yes" if letter == "a" else (waiting.pop(0) if waiting else "")
    return found


def _principal(text: bytes, keytab: bytes) -> str:
    """Return the principal that jobs can log in with, "" where the files do not fit: nothing checks them before."""
    principal = text.decode("utf-8", "replace").removesuffix("\n")
    name, _, realm = principal.partition("@")
    parts = [part.encode() for part in (*name.split("/"), realm)]
    fits = keytab.startswith(b"\x05\x02") and all(part and part in keytab for part in parts)
    return principal if fits and not re.search(r"\s", principal) else ""
