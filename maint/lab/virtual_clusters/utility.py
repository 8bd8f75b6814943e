"""The virtual-cluster utility as a lab host has it: certificates and Kerberos secrets (J11)."""

import posixpath
from datetime import UTC, datetime

from maint.lab import pki
from maint.lab.hosts.shell.call import Call, Options
from maint.lab.virtual_clusters.cluster import Cluster, secret_names
from maint.lab.virtual_clusters.kubernetes import SHARED, Denied, Hangs, Kubernetes, never_end
from maint.lab.virtual_clusters.service import Service

SCRIPT = "/opt/cloudera/cde-utils.sh"
UTILITY, KUBECTL = "/opt/cloudera/lib/cde-utils", "/opt/cloudera/lib/kubectl"  # the programs behind the scripts
TEXT = b"""#!/bin/bash
# The virtual-cluster utility of the Data Engineering service, as a lab host has it.
set -e
exec /opt/cloudera/lib/cde-utils "$@"
"""
_KUBECTL = b"""#!/bin/sh
exec /opt/cloudera/lib/kubectl "$@"
"""
_OPTIONS = "ah:c:k:w:u:p:"
_PARCEL = "/opt/cloudera/parcels/ECS"
USAGE = """Usage: cde-utils.sh COMMAND [OPTIONS]
  init-virtual-cluster           -h <vc host> -a | -h <vc host> -c <certificate> -k <key> [-w <wildcard>]
  init-user-in-virtual-cluster   -h <vc host> -u <user> -p <principal file> -k <keytab>
  delete-user-in-virtual-cluster -h <vc host> -u <user>
"""


def master_files(release: str) -> list[tuple[str, bytes, int]]:
    """Return the files of an ECS master for virtual clusters: path, content, mode; no script from 1.5.5 on (J11.1)."""
    parcel = f'{{\n  "schema_version": 1,\n  "name": "ECS",\n  "version": "{release}-b1-ecs-{release}-b1.p0.1"\n}}\n'
    gone = tuple(int(part) for part in release.split(".")[:3]) > (1, 5, 4)
    return [
        *([] if gone else [(SCRIPT, TEXT, 0o755)]),
        (f"{_PARCEL}/meta/parcel.json", parcel.encode(), 0o644),
        (f"{_PARCEL}/installer/install/bin/linux/kubectl", _KUBECTL, 0o755),
        ("/var/lib/rancher/rke2/bin/kubectl", _KUBECTL, 0o755),
        ("/etc/rancher/rke2/rke2.yaml", b"apiVersion: v1\nkind: Config\n", 0o600),
    ]


class Utility:
    """The utility of one service, called as a program of a lab host."""

    def __init__(self, service: Service, kubernetes: Kubernetes) -> None:
        self._service, self._kubernetes = service, kubernetes

    def __call__(self, call: Call) -> int:
        """Carry a call out; a failure ends it with nothing but the failing command's own words, as `set -e` does."""
        words = call.args[1:] if call.args[:1] == ["-d"] else call.args
        commands = {
            "init-virtual-cluster": self._init,
            "init-user-in-virtual-cluster": self._init_user,
            "delete-user-in-virtual-cluster": self._delete_user,
        }
        if not words or words[0] not in commands:
            call.out(USAGE)
            return int(words not in ([], ["help"]))
        try:
            options = call.again(call.name, words[1:]).options(_OPTIONS)
            commands[words[0]](_Wish(call, options, dry=len(words) < len(call.args)))
        except Hangs:
            never_end(call)
        except Denied as denial:
            call.stderr.write(f"{denial}\n".encode())
            return 1
        return 0

    def _init(self, wish: "_Wish") -> None:
        """Give a virtual cluster and its gateway a certificate; again means: rotate both (J11.3)."""
        host = wish.need("h", "-host")
        if "a" in wish.options:
            wide = host.partition(".")[2]
            names = [host if len(host) < 64 else f"*.{wide}", host]
            both = self._service.switches["vc-self-signed"] == "both"
            pair = pki.self_signed([*names, *([f"service.{wide}"] if both else [])], datetime.now(UTC))
            content = {"tls.key": pair.key_pem, "tls.crt": pair.pem}
        else:
            key, certificate = wish.file(wish.need("k", "-key")), wish.file(wish.need("c", "-certificate"))
            if b"PRIVATE KEY-----" not in key or b"-----BEGIN CERTIFICATE" not in certificate:
                raise Denied("error: tls: failed to find any PEM data in certificate or key input")
            content = {"tls.key": key, "tls.crt": certificate}
        cluster = self._cluster(host)
        if wish.dry:
            return
        for name in (cluster.identity.gateway, cluster.identity.host):
            secret = SHARED if name == cluster.identity.gateway else f"tls-dex-app-{cluster.identity.id}"
            self._kubernetes.asks("apply", secret)
            self._kubernetes.put(self._kubernetes.base, secret, content)
            wish.call.out(f"secret/{secret} configured\n")
            wish.call.stderr.write(f"[INFO] Ingress of {name} patched\n".encode())
        with cluster.lock:
            cluster.set_tls(True)

    def _init_user(self, wish: "_Wish") -> None:
        """Replace a user's secrets: they are deleted before the new ones are made (J11.4)."""
        host, user = wish.need("h", "-host"), wish.need("u", "-user")
        contents: dict[str, bytes] = {}
        for letter, noun in {"p": "principal", "k": "keytab"}.items():
            place = wish.need(letter, f"-{noun}")
            contents[letter] = wish.file(place, f"ERROR: No {noun} file found at location: {place}")
        cluster, names = self._cluster(host), dict(zip("pk", secret_names(user), strict=True))
        if wish.dry:
            return
        call, files = wish.call, wish.call.files
        call.out(f"Deleting old secrets of {user}\n")
        for name in reversed(names.values()):
            self._drop(cluster, name)
        for letter, name in names.items():
            if posixpath.normpath(call.path(wish.options.get(letter))) == call.path(name):
                raise Denied(f"cp: '{wish.options.get(letter)}' and './{name}' are the same file")
            files.write(call.path(name), contents[letter], 0o666 & ~call.state.umask)
        for letter, name in names.items():
            self._kubernetes.asks("create", name)
            self._kubernetes.put(f"dex-app-{cluster.identity.id}", name, {name: contents[letter]})
            call.out(f"secret/{name} created\n")
        for name in names.values():
            files.remove(call.path(name))

    def _delete_user(self, wish: "_Wish") -> None:
        host, user = wish.need("h", "-host"), wish.need("u", "-user")
        cluster, names = self._cluster(host), secret_names(user)
        for name in () if wish.dry else reversed(names):
            if not self._drop(cluster, name):
                raise Denied(f'Error from server (NotFound): secrets "{name}" not found')
            wish.call.out(f'secret "{name}" deleted\n')

    def _drop(self, cluster: Cluster, name: str) -> bool:
        self._kubernetes.asks("delete", name)
        with cluster.lock:
            return cluster.drop_secret(name)

    def _cluster(self, host: str) -> Cluster:
        """Return the virtual cluster of a host; anything else, such as a URL, names a namespace that is not there."""
        cluster = self._service.by_host(host)
        if cluster is None:
            first = host.partition(".")[0]
            raise Denied(f'Error from server (NotFound): namespaces "dex-app-{first}" not found')
        return cluster


class _Wish:
    """A call of the utility with its options read."""

    def __init__(self, call: Call, options: Options, *, dry: bool) -> None:
        self.call, self.options, self.dry = call, options, dry

    def need(self, letter: str, name: str) -> str:
        if not (value := self.options.get(letter)):
            raise Denied(f"Missing {name} value...")
        return value

    def file(self, place: str, missing: str = "") -> bytes:
        path = self.call.path(place)
        if not self.call.files.exists(path):
            raise Denied(missing or f"error: open {place}: no such file or directory")
        return self.call.files.read(path)
