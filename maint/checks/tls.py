"""Checks of certificates: the files and keys of Auto-TLS on the hosts, and what the manager shows."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from shlex import quote

from maint.checks.check import FAIL, Check, Verdict, broken, failed, good, held, warned
from maint.checks.facts import CouldNotTell, HostFacts, NotApplicable, SiteFacts
from maint.model.fleet import State
from maint.model.formatting import show_count
from maint.ports.manager_host import DEFAULT_PATH, mending

_AGENT = "/var/lib/cloudera-scm-agent"
_FOLDER = f"{_AGENT}/agent-cert"
_CHAIN = f"{_FOLDER}/cm-auto-host_key_cert_chain.pem"
FILES = (
    "cm-auto-host_key_cert_chain.pem", "cm-auto-host_key.pem", "cm-auto-host_keystore.jks",
    "cm-auto-global_truststore.jks", "cm-auto-in_cluster_ca_cert.pem",
)  # fmt: skip
_MIN_DAYS, _WARN_DAYS = 7, 30
_OWNER = "cloudera-scm"
_VERIFY = re.compile(r"error (\d+) at (\d+ depth.*)")
_NOT_ISSUED = (2, 7, 18, 19, 20, 21)  # errors of verification: no issuer, another one's signature, its own issuer
_ROTATE = "a new authority is needed, and certificates of it: Administration, Security, Rotate Auto-TLS Certificates"
_BELIEVED = (
    "give the server a certificate for the name in `manager.host`, of an authority in `manager.ca` (Auto-TLS:"
    " Administration, Security), then restart it; or correct these two in the config"
)
_RENEW_PORT = "give the server a new certificate (Auto-TLS: Administration, Security), then restart it"
# Where a folder is closed to this account, nobody knows what is in it.
_LOOK = f"for d in {_AGENT} {_FOLDER}; do [ -d $d ] && ! [ -x $d ] && echo denied; done;"
QUESTIONS = {
    "tls_files": f"{_LOOK} [ -d {_FOLDER} ] && cd {_FOLDER} && for f in {' '.join(FILES)}; do"
    ' [ -e $f ] && echo "$f $(stat -L -c "%U %a" $f)"; done; true',
    "certificate": f"{_LOOK} [ -e {_CHAIN} ] || exit 0; [ -r {_CHAIN} ] || {{ echo denied; exit 0; }};"
    f" openssl x509 -noout -enddate -in {_CHAIN};"
    f" openssl x509 -noout -text -in {_CHAIN} | grep -A1 'Subject Alternative Name' | grep DNS;"
    f" a={_FOLDER}/cm-auto-in_cluster_ca_cert.pem;"
    f" openssl verify -partial_chain -CAfile $a -untrusted {_CHAIN} {_CHAIN} 2>&1;"
    " true",
    "tls_match": f"[ -r {_CHAIN} ] && [ -r {_FOLDER}/cm-auto-host_key.pem ] || exit 0;"
    f' echo "certificate=$(openssl x509 -noout -pubkey -in {_CHAIN} | sha256sum)";'
    f" p={_FOLDER}/cm-auto-host_key.pw; [ -r $p ] && a=\"-passin file:$p\" || a='-passin pass:';"
    f' echo "key=$(openssl pkey -pubout -in {_FOLDER}/cm-auto-host_key.pem $a | sha256sum)"',
}


@Check(
    id="tls.files", profiles="", severity=FAIL, asks=("tls_files",), source="FX EXE",
    expected="all five files of Auto-TLS, of cloudera-scm; the key with mode 0400 or 0440",
    why="Every role of the host reads them when it starts.",
    remedy="let the manager make the host's certificate anew (Hosts, Generate certificates)",
).host_rule  # fmt: skip
def _files(host: HostFacts) -> Verdict:
    rows = {row[0]: row[1:] for row in (line.split() for line in host.lines("tls_files")) if len(row) == 3}
    if not rows:
        raise _without_auto_tls(host.lines("tls_files"))
    missing = [f"{name} missing" for name in FILES if name not in rows]
    foreign = [name for name, row in rows.items() if row[0] != _OWNER]
    owners = [f"{name} belongs to {rows[name][0]}" for name in foreign]
    key = rows.get("cm-auto-host_key.pem")
    modes = [f"the key has mode {key[1]}"] if key and int(key[1], 8) & ~0o440 else []
    wrong = ", ".join([*missing, *owners, *modes])
    if missing or not wrong:
        return held(not wrong, wrong or f"{show_count(len(rows), 'file')}")
    commands = [f"chown {_OWNER} {' '.join(map(quote, foreign))}"] if foreign else []
    commands += ["chmod 0440 cm-auto-host_key.pem"] if modes else []
    return broken(wrong, " && ".join([f"cd {_FOLDER}", *commands]))


def require_auto_tls(host: HostFacts) -> None:
    """Raise NotApplicable where a host has no file of Auto-TLS, CouldNotTell where this account may not look."""
    if not any("cm-auto-" in line for line in host.lines("tls_files")):
        raise _without_auto_tls(host.lines("tls_files"))


def _without_auto_tls(lines: Sequence[str]) -> CouldNotTell | NotApplicable:
    if "denied" in lines:
        return CouldNotTell(f"this account may not read what is in {_FOLDER}")
    return NotApplicable("Auto-TLS is off")


def until(text: str) -> datetime:
    """Return the time of OpenSSL's `notAfter=Nov 21 03:17:23 2027 GMT`."""
    return datetime.strptime(text.removeprefix("notAfter="), "%b %d %H:%M:%S %Y %Z").replace(tzinfo=UTC)


@Check(
    id="tls.expiry", profiles="", severity=FAIL, asks=("certificate", "names"), source="FX own",
    expected="valid for 30 days more (7 at the very least), for this host, issued by the cluster's own authority",
    why="On the day it ends, everything stops at once.",
    remedy="let the manager make the certificate anew (Hosts, Generate certificates; Administration, Security)",
).host_rule  # fmt: skip
def _expiry(host: HostFacts) -> Verdict:
    port = _port(host) if "M" in host.profiles else None
    if port is not None and port.state is State.FAIL:
        return port
    try:
        own = _own(host)
    except NotApplicable:
        if port is None:
            raise
        return port
    if own.state is not State.PASS:
        return own
    manager = host.site.manager
    if port is None and "M" in host.profiles and manager.ends is not None:
        raise CouldNotTell(f"{own.observed}; the manager's port: {manager.reason or 'it shows no certificate'}")
    return port or own


def _port(host: HostFacts) -> Verdict | None:
    """Return what the certificate of the manager's TLS port says; None where none was seen."""
    manager = host.site.manager
    if manager.chain:
        return failed(f"the manager's port: {manager.chain}", _RENEW_PORT if "expired" in manager.chain else _BELIEVED)
    if not manager.ends:
        return None
    words, days = _term(datetime.fromisoformat(manager.ends), host)
    words = f"the manager's port: {words}"
    if days < _MIN_DAYS:
        return failed(words, _RENEW_PORT)
    return warned(words, _RENEW_PORT) if days < _WARN_DAYS else good(words)


def _term(end: datetime, host: HostFacts) -> tuple[str, float]:
    days = (end - host.site.taken_at).total_seconds() / 86400
    return f"{'ends' if days >= 0 else 'ended'} {end:%Y-%m-%d}", days


def _own(host: HostFacts) -> Verdict:
    lines = host.lines("certificate")
    if "denied" in lines or not lines:
        raise _without_auto_tls(lines)
    shown_end = next((line for line in lines if line.startswith("notAfter=")), "")
    if not shown_end:
        raise CouldNotTell("openssl cannot read the certificate")
    words, days = _term(until(shown_end), host)
    if days < _MIN_DAYS:
        return failed(words)
    full = host.fields("names").get("full", "")
    if not full:
        raise CouldNotTell(f"{words}, but the host does not say its own name")
    wrong = _mistakes(lines, full)
    if wrong:
        above = any(int(said[2].split()[0]) for line in lines if (said := _VERIFY.match(line)))
        return broken(f"{words}; {', '.join(wrong)}", _ROTATE if above else "")
    return warned(words) if days < _WARN_DAYS else held(True, words)


def _mistakes(lines: list[str], full: str) -> list[str]:
    wrong = []
    names = [part.strip().removeprefix("DNS:") for line in lines if "DNS:" in line for part in line.split(",")]
    if full.lower() not in (name.lower() for name in names):
        wrong.append(f"for {', '.join(names[:3]) or 'no name at all'}, not for {full}")
    said = [found for line in lines if (found := _VERIFY.match(line))]
    if any(int(found[1]) in _NOT_ISSUED for found in said):
        wrong.append("not issued by the cluster's own authority")
    elif said:
        wrong.append(f"openssl verify: {said[0][2]}")
    return wrong


@Check(
    id="tls.match", profiles="", severity=FAIL, asks=("tls_match", "tls_files"), source="own",
    expected="the key fits the certificate",
    why="A pair that does not fit is found at the next restart, by everybody.",
    remedy="let the manager make the certificate anew",
).host_rule  # fmt: skip
def _match(host: HostFacts) -> Verdict:
    require_auto_tls(host)
    seen = host.fields("tls_match")
    nothing = "e3b0c44298fc1c14"  # the digest of nothing: OpenSSL could not read it
    if not seen or any(value.startswith(nothing) for value in seen.values()) or len(seen) < 2:
        raise CouldNotTell("certificate or key cannot be read by this account, or the key has a passphrase")
    return held(seen["certificate"] == seen["key"], "fits" if seen["certificate"] == seen["key"] else "does not fit")


@Check(
    id="tls.truststore", profiles="M", severity=FAIL, asks=(), source="own",
    expected="the password that the manager serves opens the shared truststore",
    why="Everyone who gets that password, and every restore, finds a truststore that it does not open.",
    remedy=mending(DEFAULT_PATH),
    needs_manager=True,
).cross_rule  # fmt: skip
def _truststore(site: SiteFacts) -> Mapping[str, Verdict]:
    manager = site.manager.must()
    if not manager.truststore:
        raise NotApplicable("the manager serves no truststore password: Auto-TLS is off, or its API older than v41")
    if manager.opens is None:
        raise CouldNotTell(f"the password {manager.truststore}")
    path = next((word for word in manager.truststore.split() if word.startswith("/")), DEFAULT_PATH)
    return {"": held(manager.opens, f"the password {manager.truststore}", mending(path))}
