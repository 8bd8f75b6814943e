"""The virtual-cluster utility as a lab host has it: certificates and Kerberos secrets (jobs API, section 11)."""

import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from maint.lab import pki
from maint.lab.virtual_clusters import kerberos
from maint.lab.virtual_clusters.cluster import Cluster
from maint.lab.virtual_clusters.kubernetes import SHARED, Denied, Kubernetes
from maint.lab.virtual_clusters.service import Service


class Files(Protocol):
    """The host's files, as a program there finds them."""

    def read(self, place: str) -> bytes | None:
        """Return a file's bytes, None where there is none."""

    def write(self, place: str, content: bytes) -> None:
        """Make or replace a file."""

    def remove(self, place: str) -> None:
        """Remove a file."""


SCRIPT = "/opt/cloudera/cde-utils.sh"
TEXT = b"""#!/bin/bash
# The virtual-cluster utility of the Data Engineering service, as a lab host has it.
set -e
exec /opt/cloudera/lib/cde-utils "$@"
"""
_KUBECTL = b"""#!/bin/sh
exec /opt/cloudera/lib/kubectl "$@"
"""
_PARCEL = "/opt/cloudera/parcels/ECS"
USAGE = """Usage: cde-utils.sh COMMAND [OPTIONS]
  init-virtual-cluster           -h <vc host> -a | -h <vc host> -c <certificate> -k <key> [-w <wildcard>]
  init-user-in-virtual-cluster   -h <vc host> -u <user> -p <principal file> -k <keytab>
  delete-user-in-virtual-cluster -h <vc host> -u <user>
"""


def master_files(release: str) -> list[tuple[str, bytes, int]]:
    """Return the files of an ECS master that have to do with virtual clusters: path, content, mode.

    Args:
        release: of the data services; the script is gone from 1.5.5 on (section 11.1).
    """
    parcel = f'{{\n  "schema_version": 1,\n  "name": "ECS",\n  "version": "{release}-b1-ecs-{release}-b1.p0.1"\n}}\n'
    gone = tuple(int(part) for part in release.split(".")[:3]) > (1, 5, 4)
    return [
        *([] if gone else [(SCRIPT, TEXT, 0o755)]),
        (f"{_PARCEL}/meta/parcel.json", parcel.encode(), 0o644),
        (f"{_PARCEL}/installer/install/bin/linux/kubectl", _KUBECTL, 0o755),
        ("/var/lib/rancher/rke2/bin/kubectl", _KUBECTL, 0o755),
        ("/etc/rancher/rke2/rke2.yaml", b"apiVersion: v1\nkind: Config\n", 0o600),
    ]


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
        kubernetes: where their secrets are.
    """

    def __init__(self, service: Service, kubernetes: Kubernetes) -> None:
        self._service, self._kubernetes = service, kubernetes

    def __call__(self, words: list[str], folder: str, files: Files) -> tuple[int, str, str]:
        """Carry a call out as a program does; return its status, output and errors."""
        told = self.run(words, folder, files)
        return told.status, "".join(told.out), "".join(told.err)

    def run(self, words: list[str], folder: str, files: Files) -> Told:
        """Carry a call out.

        Args:
            folder: where it was called from.
            files: of the host.
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
            commands[words[0]](_Call(_options(words[1:]), folder, files, dry), told)
        except Failure as failure:
            told.err.append(f"{failure}\n")
            told.status = 1
        return told

    def _init(self, call: "_Call", told: Told) -> None:
        """Give a virtual cluster and its gateway a certificate; again means: rotate both (section 11.3)."""
        host = call.need("h", "-host")
        if "a" in call.options:
            wide = host.partition(".")[2]
            names = [host if len(host) < 64 else f"*.{wide}", host]
            both = self._service.switches["vc-self-signed"] == "both"
            pair = pki.self_signed([*names, *([f"service.{wide}"] if both else [])], datetime.now(UTC))
            content = {"tls.key": pair.key_pem, "tls.crt": pair.pem}
        else:
            key, certificate = call.file(call.need("k", "-key")), call.file(call.need("c", "-certificate"))
            if b"PRIVATE KEY-----" not in key or b"-----BEGIN CERTIFICATE" not in certificate:
                raise Failure("error: tls: failed to find any PEM data in certificate or key input")
            content = {"tls.key": key, "tls.crt": certificate}
        cluster = self._cluster(host)
        if call.dry:
            return
        for name in (cluster.identity.gateway, cluster.identity.host):
            secret = SHARED if name == cluster.identity.gateway else f"tls-dex-app-{cluster.identity.id}"
            with _told_by_kubectl():
                self._kubernetes.asks("apply", secret)
                self._kubernetes.put(self._kubernetes.base, secret, content)
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
            content = call.files.read(place)
            if content is None:
                article = "principal file" if letter == "p" else "keytab file"
                raise Failure(f"ERROR: No {article} found at location: {place}")
            contents[letter] = content
        cluster, names = self._cluster(host), dict(zip("pk", kerberos.names(user), strict=True))
        if call.dry:
            return
        told.out.append(f"Deleting old secrets of {user}\n")
        for name in reversed(names.values()):
            self._drop(cluster, name)
        for letter, name in names.items():
            target = posixpath.join(call.folder, name)
            if posixpath.normpath(posixpath.join(call.folder, call.options[letter])) == target:
                raise Failure(f"cp: '{call.options[letter]}' and './{name}' are the same file")
            call.files.write(target, contents[letter])
        for letter, name in names.items():
            self._put(cluster, name, contents[letter])
            told.out.append(f"secret/{name} created\n")
        for name in names.values():
            call.files.remove(posixpath.join(call.folder, name))

    def _drop(self, cluster: Cluster, name: str) -> bool:
        with _told_by_kubectl():
            self._kubernetes.asks("delete", name)
        with cluster.lock:
            return cluster.drop_secret(name)

    def _put(self, cluster: Cluster, name: str, content: bytes) -> None:
        with _told_by_kubectl():
            self._kubernetes.asks("create", name)
            self._kubernetes.put(f"dex-app-{cluster.identity.id}", name, {name: content})

    def _delete_user(self, call: "_Call", told: Told) -> None:
        host, user = call.need("h", "-host"), call.need("u", "-user")
        cluster, names = self._cluster(host), kerberos.names(user)
        if call.dry:
            return
        for name in reversed(names):
            if not self._drop(cluster, name):
                raise Failure(f'Error from server (NotFound): secrets "{name}" not found')
            told.out.append(f'secret "{name}" deleted\n')

    def _cluster(self, host: str) -> Cluster:
        """Return the virtual cluster of a host; anything else, such as a URL, names a namespace that is not there."""
        cluster = self._service.by_host(host)
        if cluster is None:
            first = host.partition(".")[0]
            raise Failure(f'Error from server (NotFound): namespaces "dex-app-{first}" not found')
        return cluster


@contextmanager
def _told_by_kubectl() -> Iterator[None]:
    """Leave something to kubectl, whose words are all that is said of a failure."""
    try:
        yield
    except Denied as denial:
        raise Failure(str(denial)) from denial


@dataclass(frozen=True, slots=True)
class _Call:
    options: dict[str, str]
    folder: str
    files: Files
    dry: bool

    def need(self, letter: str, name: str) -> str:
        """Return the value of an option."""
        if not self.options.get(letter):
            raise Failure(f"Missing {name} value...")
        return self.options[letter]

    def file(self, place: str) -> bytes:
        """Return a file of the host."""
        content = self.files.read(place)
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
