"""What can be wrong with a lab host's set-up: planted in its files and facts, and taken back."""

from collections.abc import Callable, Mapping

from maint.lab.hosts import kerberos
from maint.lab.hosts.machine import TRUSTED, Machine

_HOSTS, _OPTIONS = "/etc/hosts", "/etc/default/cloudera-scm-server"
_CHAIN = "/var/lib/cloudera-scm-agent/agent-cert/cm-auto-host_key_cert_chain.pem"
_SWAPPINESS = "/proc/sys/vm/swappiness"
_THP = "/sys/kernel/mm/transparent_hugepage/enabled"


class Ailments:
    """Plants what ails a machine, any number of things at once, and takes it back when it goes.

    Args:
        expired: returns an expired certificate chain for it.
        strangers: returns the certificates of an authority that has to do with nobody here.
    """

    def __init__(self, machine: Machine, expired: Callable[[], bytes], strangers: Callable[[], bytes]) -> None:
        self._machine = machine
        self._expired = expired
        self._strangers = strangers
        self._files: dict[str, bytes] = {}
        self._modes: dict[str, int] = {}
        self._facts: dict[str, str] | None = None
        self._planted: tuple[str, ...] = ()
        machine.watchers.append(self.follow)

    def follow(self) -> None:
        if self._machine.ailments == self._planted:
            return
        self._take_back()
        self._planted = self._machine.ailments
        if self._planted:
            self._facts = dict(self._machine.facts)
        for ailment in self._planted:
            self._machine.facts |= _FACTS.get(ailment, {})
            for path, content in self._contents(ailment).items():
                self._files.setdefault(path, self._machine.files.read(path))
                self._put(path, content)
            if ailment == "keytab-readable":
                for path in self._keytabs():
                    self._modes.setdefault(path, self._machine.files.entry(path).mode & 0o7777)
                    self._machine.files.own(path, 0o644)

    def _keytabs(self) -> list[str]:
        files = self._machine.files
        return [p for top in _WITH_KEYTABS if files.exists(top) for p in files.walk(top) if p.endswith(".keytab")]

    def _contents(self, ailment: str) -> Mapping[str, bytes]:
        read, machine = self._machine.files.read, self._machine
        if ailment == "swappiness-60":
            return {_SWAPPINESS: b"60\n"}
        if ailment == "huge-pages":
            return {_THP: b"[always] madvise never\n"}
        if ailment == "expired-host-certificate" and machine.files.exists(_CHAIN):
            return {_CHAIN: self._expired()}
        if ailment == "untrusted-chain" and machine.files.exists(TRUSTED):
            return {TRUSTED: self._strangers()}
        if ailment in _SPOILING:
            return {path: _SPOILING[ailment](self._files.get(path) or read(path)) for path in self._keytabs()}
        if ailment == "wrong-dns":
            return {_HOSTS: read(_HOSTS).replace(machine.address.encode() + b" ", b"198.51.100.66 ")}
        if ailment == "redaction-twice" and machine.files.exists(_OPTIONS):
            twice = b" -Dcom.cloudera.api.redaction=true -Dcom.cloudera.api.redaction=false"
            return {_OPTIONS: read(_OPTIONS) + b'export CMF_JAVA_OPTS="${CMF_JAVA_OPTS}' + twice + b'"\n'}
        return {}

    def _take_back(self) -> None:
        for path, content in self._files.items():
            self._put(path, content)
        self._files.clear()
        for path, mode in self._modes.items():
            self._machine.files.own(path, mode)
        self._modes.clear()
        if self._facts is not None:
            self._machine.facts.clear()
            self._machine.facts.update(self._facts)
            self._facts = None

    def _put(self, path: str, content: bytes) -> None:
        self._machine.files.write(path, content)  # mode and owner stay


_WITH_KEYTABS = ("/var/run/cloudera-scm-agent/process", "/opt/cloudera/cde")
_SPOILING: dict[str, Callable[[bytes], bytes]] = {
    "keytab-wrong-principal": kerberos.with_wrong_principal,
    "keytab-rc4": kerberos.with_rc4_alone,
    "keytab-stale": kerberos.with_old_keys,
    "keytab-truncated": kerberos.cut_off,
}
_FACTS: dict[str, dict[str, str]] = {
    "kdc-silent": {"cut_off_from": "kdc"},
    "disk-97": {"disk_used_percent": "97"},
    "clock-7s": {"clock_drift": "7"},
}
