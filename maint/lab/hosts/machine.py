"""One host of the lab: a folder as its file tree, facts, units, at times a fault; and what hosts know of each other."""

import socket
import ssl
import time
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from string import Template
from typing import Protocol

import msgspec

from maint.lab.hosts.shell.tree import Tree

_SSH, _AGENTS, _DATABASE, _KDC = 22, 7182, 5432, 88
_SAYS = tomllib.loads((Path(__file__).parents[1] / "data" / "host-files.toml").read_text())["says"]
LOG = "/var/log/lab-commands.log"
TRUSTED = "/etc/pki/tls/certs/ca-bundle.crt"  # the authorities that a host trusts
KeystoreOpens = Callable[[bytes, str], Sequence[str] | None]


_NOBODY = "not found in Kerberos database"


class Shown(msgspec.Struct, frozen=True):
    """What a TLS port shows: its certificate (PEM); number and words of what OpenSSL finds wrong, 0 for nothing."""

    certificate: bytes
    number: int
    words: str


class Unit(Protocol):
    """One systemd unit of a lab host."""

    def start(self) -> None:
        """Start it; returns once the process was launched."""

    def stop(self) -> None:
        """Stop it and wait until it is gone."""

    def restart(self) -> None:
        """Stop it, start it, return once the process was launched."""

    def active(self) -> bool:
        """Return whether it runs."""

    def properties(self) -> dict[str, str]:
        """Return what `systemctl show` knows beyond the states: InvocationID, MainPID, ActiveEnterTimestamp, …"""


class Machine:
    """A lab host.

    Args:
        name: what the lab calls it; also its host name unless the fact `fqdn` says otherwise.
        root: the folder that is its `/`.
        units: its systemd units by name, without `.service`.
        facts: what it answers about itself (`FACTS`).

    Attributes:
        watchers: called after `fault` has changed.
        keystore_opens: returns a keystore's aliases by bytes and password, None where it does not open.
        shows: by host name, port and trusted authorities (PEM), the certificate (PEM) that is shown there and what is
            wrong with its chain; None where nobody answers.
        login: returns why a principal's keytab gets no ticket, "" where it does; without a keytab, whether it is known.
        programs: commands that this host alone has, by absolute path.
        tickets: what sessions keep, by the cache's name: begin, end, end of renewal, realm.
        docker: returns whether the docker daemon of the data services runs here.
        now: seconds since 1970 as a clock that is right shows them, the realm's too.
    """

    def __init__(
        self,
        name: str,
        root: Path,
        units: dict[str, Unit],
        *,
        facts: dict[str, str] | None = None,
        address: str = "127.0.0.1",
    ) -> None:
        self.name = name
        self.units = units
        self.facts = dict(facts or {})
        self.address = address
        self._fault: str | None = None
        self._ailments: tuple[str, ...] = ()
        self.watchers: list[Callable[[], None]] = []
        self.keystore_opens: KeystoreOpens = _opens_nothing
        self.listening: Callable[[], Collection[int]] = lambda: (_SSH,)
        self.reaches: Callable[[str, int], bool] = lambda host, port: host == "localhost" and port in self.listening()
        self.shows: Callable[[str, int, bytes], Shown | None] = lambda *_: None
        self.login: Callable[[str, bytes | None], str] = lambda principal, _: f"Client '{principal}' {_NOBODY}"
        self.programs: dict[str, Callable[..., int]] = {}
        self.shells: set[int] = set()
        self.tickets: dict[str, tuple[float, float, float, str]] = {}
        self.docker: Callable[[], bool] = lambda: False
        self.now: Callable[[], float] = time.time
        self.files = Tree(root, full=lambda: self.fault == "disk-full")
        self.root = self.files.root

    @property
    def fault(self) -> str | None:
        """What is wrong with the host, or None; watchers hear of a change before the assignment returns."""
        return self._fault

    @fault.setter
    def fault(self, name: str | None) -> None:
        self._fault = name
        for notify in self.watchers:
            notify()

    @property
    def ailments(self) -> tuple[str, ...]:
        """What is wrong with its set-up, in the order in which it came; watchers hear of a change at once."""
        return self._ailments

    @ailments.setter
    def ailments(self, names: tuple[str, ...]) -> None:
        self._ailments = names
        for notify in self.watchers:
            notify()

    def clock(self) -> float:
        """Return the host's time, seconds since 1970, the fact `clock_drift` (seconds) added."""
        return self.now() + float(self.fact("clock_drift"))

    def tell(self, words: str) -> None:
        """Write down, in the host's own log, that something was done that cannot be taken back."""
        before = self.files.read(LOG) if self.files.exists(LOG) else b""
        self.files.write(LOG, before + f"{words}\n".encode())

    @property
    def lacking(self) -> Collection[str]:
        """The commands that are not installed, of those that every lab host has by itself."""
        return self.fact("lacks").split()

    def says(self, line: str) -> str | None:
        """Return what a command line prints that tells facts alone; None for any other."""
        text, full = _SAYS.get(line), self.fact("fqdn")
        known = {name: self.fact(name) for name in ("selinux", "cpus", "python", "arch", "kernel")}
        known |= {"fqdn": full, "short": full.partition(".")[0]}
        known |= {"address": self.address, "network": self.address.rpartition(".")[0]}
        return None if text is None else Template(text).substitute(known)

    def fact(self, name: str) -> str:
        found = self.facts.get(name, FACTS.get(name, ""))
        if name == "fqdn" and not found:
            return self.name if "." in self.name else f"{self.name}.example.internal"
        return found


def _opens_nothing(content: bytes, password: str) -> Sequence[str] | None:
    del content, password
    return None


# What a host answers about itself, and its defaults; of one file system alone, the name ends in `:/TARGET`.
FACTS: dict[str, str] = {
    "fqdn": "",  # full host name; "": the machine's name, under example.internal when it has no dot
    "os_id": "rhel",  # ID of /etc/os-release
    "os_version": "9.4",  # VERSION_ID of /etc/os-release
    "kernel": "5.14.0-427.13.1.el9_4.x86_64",  # uname -r
    "arch": "x86_64",  # uname -m
    "cpus": "16",
    "memory_kb": "65536000",  # KiB
    "timezone": "UTC+0000",  # name and offset
    "selinux": "Disabled",  # what getenforce prints
    "disk_kb": "209715200",  # size of a file system, KiB
    "disk_used_percent": "20",
    "inodes": "104857600",
    "inodes_used_percent": "1",
    "dns": "",  # further names that resolve, as ADDRESS NAME…;ADDRESS NAME…
    "packages": "bash-5.1.8-9.el9.x86_64 openssl-3.0.7-27.el9.x86_64 cloudera-manager-agent-7.13.1-1.el9.x86_64"
    " cloudera-manager-daemons-7.13.1-1.el9.x86_64 nfs-utils-2.5.4-25.el9.x86_64"
    " iscsi-initiator-utils-6.2.1.9-1.el9.x86_64 e2fsprogs-1.46.5-5.el9.x86_64 iptables-1.8.10-2.el9.x86_64",
    "renewable_days": "7",  # for how long the realm renews tickets
    "lacks": "",  # commands that are not installed, with blanks in between
    "python": "3.9.18",
    "iptables_backend": "legacy",  # or nf_tables
    "iptables_rules": "",  # beyond the default policies, `;` between
    "mounts_in_use": "",  # mount points that programs hold, `;` between
    "database_refuses": "",  # the words with which the manager's database refuses a dump
    "cut_off_from": "",  # `kdc`: the realm's key distribution centre cannot be reached
    "clock_offset": "0.000012",  # seconds by which the host believes to be off
    "clock_drift": "0",  # seconds by which the clock is off in truth
}


class Server(Protocol):
    """The manager's ports."""

    plain_port: int
    tls_port: int

    @property
    def opened(self) -> Collection[int]:
        """Those of them that are open now; a process that runs may have opened none."""


class Neighbours:
    """All hosts of a lab by name, and the manager's server with its release ("" for the usual one)."""

    def __init__(self, machines: Mapping[str, Machine], manager: str, server: Server, release: str) -> None:
        self._machines = machines
        self._manager = manager
        self._server = server
        self._release = release
        self._published: dict[str, int] = {}  # domain -> port

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
            machine.shows = lambda *asked, name=name: self._shows(name, *asked)

    def publish(self, domain: str, address: str, port: int) -> None:
        """Make all names below a domain lead to an address; its service really listens on this port of loopback."""
        self._published[domain] = port
        for machine in self._machines.values():
            known = machine.fact("dns")
            if f"*.{domain}" not in known:
                machine.facts["dns"] = f"{known};{address} *.{domain}"

    def _shows(self, own: str, host: str, port: int, authorities: bytes) -> Shown | None:
        """Return what a TLS port shows to one of the hosts; agents and people get the certificate of the server."""
        for domain, listening in self._published.items():
            if host.endswith(f".{domain}"):
                return _shown(host, listening, authorities)
        if port in (_AGENTS, self._server.tls_port) and self._answers(own, host, port):
            return _shown(host, self._server.tls_port, authorities)
        return None

    def _ports(self, name: str) -> Collection[int]:
        found = {_SSH}
        if name == self._manager:
            found.add(_DATABASE)
            opened = self._server.opened
            found |= {*opened, _AGENTS} if opened else {*opened}
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
    rules = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    rules.check_hostname = False  # a name is judged by the caller
    with suppress(ssl.SSLError):
        rules.load_verify_locations(cadata=authorities.decode("ascii", "replace"))
    try:
        return Shown(_peer(rules, name, port), 0, "ok")
    except ssl.SSLCertVerificationError as error:
        refused = error.verify_code, error.verify_message
    except OSError:
        return None
    rules.verify_mode = ssl.CERT_NONE  # it is looked at, not believed
    try:
        return Shown(_peer(rules, name, port), *refused)
    except OSError:
        return None


def _peer(rules: ssl.SSLContext, name: str, port: int) -> bytes:
    with (
        socket.create_connection(("127.0.0.1", port), 5) as plain,
        rules.wrap_socket(plain, server_hostname=name) as tls,
    ):
        return ssl.DER_cert_to_PEM_cert(tls.getpeercert(binary_form=True) or b"").encode()
