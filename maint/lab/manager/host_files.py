"""The files of a manager's hosts: settings, GUID, JVM options, Auto-TLS keys and truststores (contract 11, 12)."""

import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from maint.lab import pki
from maint.lab.files import write_whole
from maint.lab.manager import jks
from maint.lab.manager.document import Doc, settings
from maint.lab.manager.redact import MARKER

DEFAULTS = "etc/default/cloudera-scm-server"
GUID = "etc/cloudera-scm-server/uuid"
AGENT_CERT = "var/lib/cloudera-scm-agent/agent-cert"
CERTMANAGER = "var/lib/cloudera-scm-server/certmanager"
_OPTIONS = """\
# Settings of the Cloudera Manager server; read by its start script.
export CMF_JDBC_DRIVER_JAR="/usr/share/java/mysql-connector-java.jar:/usr/share/java/oracle-connector-java.jar"
# Java options.
export CMF_JAVA_OPTS="-Xmx2G -XX:MaxPermSize=256m -XX:+HeapDumpOnOutOfMemoryError -XX:HeapDumpPath=/tmp"
"""
_DATABASE = """\
com.cloudera.cmf.db.type={kind}
com.cloudera.cmf.db.host=localhost
com.cloudera.cmf.db.name=scm
com.cloudera.cmf.db.user=scm
com.cloudera.cmf.db.setupType=EXTERNAL
com.cloudera.cmf.db.password={password}
"""


@dataclass(frozen=True, slots=True)
class StorePasswords:
    """The passwords of the Auto-TLS stores."""

    keystore: str
    truststore: str


def auto_tls(doc: Doc) -> bool:
    """Return whether Auto-TLS is on in a document (contract section 7.2)."""
    return settings(doc).get("AUTO_TLS_TYPE", "NONE") not in ("", "NONE")


def store_passwords(doc: Doc) -> StorePasswords:
    """Return the passwords that a document names, fresh ones where it names none or hides them."""
    named = settings(doc)

    def first(*names: str) -> str:
        known = [named[name] for name in names if named.get(name) not in (None, "", MARKER)]
        return known[0] if known else secrets.token_urlsafe(32)

    return StorePasswords(
        first("KEYSTORE_PASSWORD", "AUTO_TLS_KEYSTORE_PASSWORD"),
        first("AUTO_TLS_TRUSTSTORE_PASSWORD", "TRUSTSTORE_PASSWORD"),
    )


def write_manager(root: Path, *, database: str = "postgresql") -> None:
    """Write the settings of the manager's host, keeping what is there."""
    _keep(root / DEFAULTS, _OPTIONS.encode())
    _keep(root / GUID, str(uuid.uuid4()).encode())
    content = _DATABASE.format(kind=database, password=secrets.token_urlsafe(12))
    _keep(root / "etc/cloudera-scm-server/db.properties", content.encode(), 0o600)
    _keep(root / "var/log/cloudera-scm-server/cloudera-scm-server.log", b"")
    (root / CERTMANAGER).mkdir(parents=True, exist_ok=True)


def write_agent(root: Path, manager: str) -> None:
    """Write the settings of an agent."""
    _keep(root / "etc/cloudera-scm-agent/config.ini", f"[General]\nserver_host={manager}\nserver_port=7182\n".encode())
    (root / "var/lib/cloudera-scm-agent").mkdir(parents=True, exist_ok=True)
    (root / "var/run/cloudera-scm-agent").mkdir(parents=True, exist_ok=True)


def write_agent_certificates(
    root: Path, authority: pki.Authority, names: Sequence[str], passwords: StorePasswords, now: datetime
) -> None:
    """Write the Auto-TLS files of one host."""
    pair = authority.server(names, now)
    folder = root / AGENT_CERT
    truststore = truststore_jks(authority, passwords.truststore, now)
    chain = authority.chain_pem(pair)
    content = {
        "cm-auto-global_truststore.jks": truststore,
        "cm-auto-global_cacerts.pem": authority.root.pem,
        "cm-auto-in_cluster_truststore.jks": truststore,
        "cm-auto-in_cluster_ca_cert.pem": authority.root.pem,
        "cm-auto-host_cert_chain.pem": chain,
    }
    private = {
        "cm-auto-host_keystore.jks": keystore_jks(authority, pair, passwords.keystore, now),
        "cm-auto-host_key_cert_chain.pem": pki.encrypted_key(pair, passwords.keystore) + chain,
        "cm-auto-host_key.pem": pki.encrypted_key(pair, passwords.keystore),
        "cm-auto-host_key.pw": passwords.keystore.encode(),
    }
    for name, data in content.items():
        write_whole(folder / name, data)
    for name, data in private.items():
        write_whole(folder / name, data, 0o600)


def write_certmanager(root: Path, authority: pki.Authority, passwords: StorePasswords, now: datetime) -> None:
    """Write what the server keeps of its own authority; none of it is in an export (contract section 11)."""
    folder = root / CERTMANAGER
    write_whole(folder / "CMCA/ca-db/newcerts/cacert.pem", authority.intermediate.pem)
    write_whole(folder / "CMCA/private/ca_key.pem", authority.intermediate.key_pem, 0o600)
    write_whole(folder / "trust-store/cm-auto-global_cacerts.pem", authority.root.pem)
    store = truststore_jks(authority, passwords.truststore, now)
    write_whole(folder / "trust-store/cm-auto-global_truststore.jks", store)
    write_whole(folder / "private/.global_truststore.pw", passwords.truststore.encode(), 0o600)
    write_whole(folder / "private/.host_keystore.pw", passwords.keystore.encode(), 0o600)


def write_own_keystore(
    root: Path, path: str, authority: pki.Authority, names: Sequence[str], password: str, now: datetime
) -> None:
    """Write a keystore where the manager's settings look for one, unless there is one."""
    target = inside(root, path)
    if not target.exists():
        pair = authority.server(names, now)
        write_whole(target, keystore_jks(authority, pair, password, now), 0o600)


def truststore_jks(authority: pki.Authority, password: str, now: datetime) -> bytes:
    """Return a truststore that holds both certificates of the authority."""
    created = int(now.timestamp() * 1000)
    entries = [
        jks.Entry("rootca", created, (authority.root.der,)),
        jks.Entry("cmrootca-0", created, (authority.intermediate.der,)),
    ]
    return jks.write(entries, password)


def keystore_jks(authority: pki.Authority, pair: pki.Pair, password: str, now: datetime) -> bytes:
    """Return a keystore that holds a host's key and chain."""
    protected = jks.protect(pair.key_der, password, secrets.token_bytes(20))
    chain = (pair.der, authority.intermediate.der)
    return jks.write([jks.Entry("host", int(now.timestamp() * 1000), chain, protected)], password)


def inside(root: Path, path: str) -> Path:
    """Return where an absolute path of a host lies in its tree."""
    return root / path.lstrip("/")


def _keep(path: Path, content: bytes, mode: int = 0o644) -> None:
    if not path.exists():
        write_whole(path, content, mode)
