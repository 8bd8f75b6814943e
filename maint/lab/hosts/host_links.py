"""What the lab's hosts know of each other: names, who listens where, and the manager's release."""

import socket
import ssl
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Protocol

from maint.lab.hosts.machine import Machine, Shown

_SSH, _AGENTS, _DATABASE, _KDC = 22, 7182, 5432, 88


class Server(Protocol):
    """The manager's ports."""

    plain_port: int
    tls_port: int

    def active(self) -> bool:
        """Return whether its process runs."""


class Neighbours:
    """All hosts of a lab by name, and the manager's server with its release ("" for the usual one)."""

    def __init__(self, machines: Mapping[str, Machine], manager: str, server: Server, release: str) -> None:
        self._machines = machines
        self._manager = manager
        self._server = server
        self._release = release

    def introduce(self) -> None:
        names = ";".join(f"{m.address} {m.fact('fqdn')}" for m in self._machines.values() if m.address != "127.0.0.1")
        for name, machine in self._machines.items():
            machine.facts.setdefault("dns", names)
            packages = machine.fact("packages").replace("7.13.1", self._release or "7.13.1")
            if name == self._manager:
                version = self._release or "7.13.1"
                packages += f" cloudera-manager-server-{version}-1.el9.x86_64"
            machine.facts.setdefault("packages", packages)
            machine.listening = lambda name=name: self._ports(name)  # type: ignore[misc]  # bound at once, not later
            machine.reaches = lambda host, port, name=name: self._answers(name, host, port)  # type: ignore[misc]  # as above

    def publish(self, domain: str, address: str, port: int) -> None:
        """Make all names below a domain lead to an address; its service really listens on this port of loopback."""

        def shows(host: str, _: int, authorities: bytes) -> Shown | None:
            return _shown(host, port, authorities) if host.endswith(f".{domain}") else None

        for machine in self._machines.values():
            known = machine.fact("dns")
            if f"*.{domain}" not in known:
                machine.facts["dns"] = f"{known};{address} *.{domain}"
            machine.shows = shows

    def _ports(self, name: str) -> Collection[int]:
        found = {_SSH}
        if name == self._manager:
            found.add(_DATABASE)
            if self._server.active():
                found |= {_AGENTS, self._server.plain_port, self._server.tls_port}
        return found

    def _answers(self, own: str, host: str, port: int) -> bool:
        if host.startswith("kdc.") and port == _KDC:
            return self._machines[own].fact("cut_off_from") != "kdc"
        for name, machine in self._machines.items():
            known = (name, machine.fact("fqdn"), machine.address)
            if host in known or (host in ("localhost", "127.0.0.1") and name == own):
                return port in self._ports(name)
        return False


def _shown(name: str, port: int, authorities: bytes) -> Shown | None:
    looking, judging = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    looking.check_hostname, looking.verify_mode = False, ssl.CERT_NONE  # it is looked at, not believed
    judging.check_hostname = False  # a name is judged by the caller
    with suppress(ssl.SSLError):
        judging.load_verify_locations(cadata=authorities.decode("ascii", "replace"))
    try:
        certificate = ssl.DER_cert_to_PEM_cert(_peer(looking, name, port)).encode()
    except OSError:
        return None
    try:
        _peer(judging, name, port)
    except ssl.SSLCertVerificationError as error:
        return Shown(certificate, error.verify_code, error.verify_message)
    except OSError:
        return None
    return Shown(certificate, 0, "ok")


def _peer(rules: ssl.SSLContext, name: str, port: int) -> bytes:
    with (
        socket.create_connection(("127.0.0.1", port), 5) as plain,
        rules.wrap_socket(plain, server_hostname=name) as tls,
    ):
        return tls.getpeercert(binary_form=True) or b""
