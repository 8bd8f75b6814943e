"""The files of a manager's hosts: settings, GUID, JVM options, Auto-TLS keys and truststores (M11, M12)."""

import re
import secrets
import uuid
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from posixpath import normpath

import msgspec

from maint.files import write_whole
from maint.lab import pki
from maint.lab.manager import jks
from maint.lab.manager.document import MARKER, Doc, settings

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
com.cloudera.cmf.db.type=postgresql
com.cloudera.cmf.db.host=localhost
com.cloudera.cmf.db.name=scm
com.cloudera.cmf.db.user=scm
com.cloudera.cmf.db.setupType=EXTERNAL
com.cloudera.cmf.db.password={password}
"""


class StorePasswords(msgspec.Struct, frozen=True):
    """The passwords of the Auto-TLS stores."""

    keystore: str
    truststore: str


def auto_tls(doc: Doc) -> bool:
    """Return whether Auto-TLS is on in a document (M7.2)."""
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


def write_manager(root: Path) -> None:
    """Write the settings of the manager's host, keeping what is there."""
    _keep(root / DEFAULTS, _OPTIONS.encode())
    _keep(root / GUID, str(uuid.uuid4()).encode())
    content = _DATABASE.format(password=secrets.token_urlsafe(12))
    _keep(root / "etc/cloudera-scm-server/db.properties", content.encode(), 0o600)
    _keep(root / "var/log/cloudera-scm-server/cloudera-scm-server.log", b"")
    (root / CERTMANAGER).mkdir(parents=True, exist_ok=True)


def folder_name(host: Doc) -> str:
    """Return the name of a host, which is also the name of a folder; ValueError where it has no usable one."""
    for name in (host.get("hostname"), host.get("hostId")):
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", str(name or "")):
            return str(name)
    raise ValueError(f"a host of the deployment has no usable name: {host.get('hostname')!r}")


def write_agent(
    root: Path, name: str, manager: str, doc: Doc, authority: pki.Authority, passwords: StorePasswords, now: datetime
) -> None:
    """Write what each host of a manager has: the settings of its agent, and its Auto-TLS files where that is on."""
    if auto_tls(doc):
        _write_agent_certificates(root, authority, [name, *pki.LOOPBACK], passwords, now)
    _keep(root / "etc/cloudera-scm-agent/config.ini", f"[General]\nserver_host={manager}\nserver_port=7182\n".encode())
    (root / "var/lib/cloudera-scm-agent").mkdir(parents=True, exist_ok=True)
    (root / "var/run/cloudera-scm-agent").mkdir(parents=True, exist_ok=True)


def _write_agent_certificates(
    root: Path, authority: pki.Authority, names: Sequence[str], passwords: StorePasswords, now: datetime
) -> None:
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


def write_stores(
    root: Path, name: str, doc: Doc, authority: pki.Authority, passwords: StorePasswords, now: datetime
) -> None:
    """Write what the manager's host has besides: the authority of Auto-TLS, and the keystore of its settings."""
    if auto_tls(doc):
        _write_certmanager(root, authority, passwords, now)
    named = settings(doc)
    target = inside(root, named.get("KEYSTORE_PATH", ""))
    if named.get("WEB_TLS", "").lower() == "true" and named.get("KEYSTORE_PATH") and not target.exists():
        pair = authority.server([name, *pki.LOOPBACK], now)
        write_whole(target, keystore_jks(authority, pair, passwords.keystore, now), 0o600)


def _write_certmanager(root: Path, authority: pki.Authority, passwords: StorePasswords, now: datetime) -> None:
    # None of it is in an export (M11).
    folder = root / CERTMANAGER
    write_whole(folder / "CMCA/ca-db/newcerts/cacert.pem", authority.intermediate.pem)
    write_whole(folder / "CMCA/private/ca_key.pem", authority.intermediate.key_pem, 0o600)
    write_whole(folder / "trust-store/cm-auto-global_cacerts.pem", authority.root.pem)
    store = truststore_jks(authority, passwords.truststore, now)
    write_whole(folder / "trust-store/cm-auto-global_truststore.jks", store)
    write_whole(folder / "private/.global_truststore.pw", passwords.truststore.encode(), 0o600)
    write_whole(folder / "private/.host_keystore.pw", passwords.keystore.encode(), 0o600)


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
    """Return where an absolute path of a host lies in its tree, out of which it does not lead."""
    return root / normpath(f"/{path}").lstrip("/")


def _keep(path: Path, content: bytes, mode: int = 0o644) -> None:
    if not path.exists():
        write_whole(path, content, mode)


_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?-([^}]*))?\}|(\w+))")
REDACTION = "com.cloudera.api.redaction"


def java_options(text: str) -> list[str]:
    """Return the words of CMF_JAVA_OPTS after the file has been read from top to bottom."""
    values: dict[str, str] = {}
    for line in _logical_lines(text):
        for assignment in _assignments(line):
            found = _ASSIGNMENT.fullmatch(assignment)
            if found:
                values[found[1]] = _value(found[2], values)
    return values.get("CMF_JAVA_OPTS", "").split()


def redaction_property(text: str) -> bool | None:
    """Return what the file says about redaction, None where it does not; the last -D wins."""
    said = None
    for option in java_options(text):
        name, _, value = option.removeprefix("-D").partition("=")
        if option.startswith("-D") and name == REDACTION:
            said = value.lower() == "true"
    return said


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    current, quoted, index = "", "", 0
    while index < len(text):
        letter = text[index]
        if letter == "\\" and quoted != "'" and index + 1 < len(text):
            current += "" if text[index + 1] == "\n" else text[index : index + 2]
            index += 2
            continue
        if not quoted and letter == "#" and (not current or current[-1] in " \t;"):
            index = text.find("\n", index) if "\n" in text[index:] else len(text)
            continue
        if letter in "\"'" and quoted in ("", letter):
            quoted = "" if quoted else letter
        if letter in "\n;" and not quoted:
            lines.append(current.strip())
            current = ""
        else:
            current += letter
        index += 1
    return [line for line in [*lines, current.strip()] if line]


def _assignments(line: str) -> list[str]:
    # [] for any other command than assignments.
    words = _words(line)
    if words and words[0] == "export":
        words = words[1:]
    return words if all(_ASSIGNMENT.fullmatch(word) for word in words) else []


def _words(line: str) -> list[str]:
    return re.findall(r"""(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+""", line, re.DOTALL)


def _value(raw: str, values: dict[str, str]) -> str:
    parts = re.findall(r"""'[^']*'|"(?:[^"\\]|\\.)*"|(?:[^"'\\]|\\.)+""", raw, re.DOTALL)
    return "".join(_part(part, values) for part in parts)


def _part(part: str, values: dict[str, str]) -> str:
    if part.startswith("'"):
        return part[1:-1]
    inner = part[1:-1] if part.startswith('"') else part
    expanded = _VARIABLE.sub(lambda found: values.get(found[1] or found[3], found[2] or ""), inner)
    return re.sub(r"\\(.)", r"\1", expanded)
