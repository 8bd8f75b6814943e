"""openssl, keytool, klist, kinit, kdestroy: certificates, keys and keystores of the host, its keytabs and tickets."""

import errno
import time

from maint.lab import pki
from maint.lab.hosts.kerberos import NoKeytab, read_keytab
from maint.lab.hosts.machine import TRUSTED
from maint.lab.hosts.shell.call import Call, Failed, NotSimulated
from maint.lab.hosts.shell.commands.host import zone_offset
from maint.lab.hosts.shell.state import decode

_OTHER_NAME = (62, "hostname mismatch")


def openssl(call: Call) -> int:
    """`openssl x509 -noout -enddate|-text|-pubkey [-in FILE]`, `pkey -pubout`, `verify`, `s_client`."""
    verb, *words = call.args or ["help"]
    known = {"x509": _x509, "pkey": _pkey, "verify": _verify, "s_client": _s_client}
    if verb not in known:
        raise NotSimulated(verb)
    return known[verb](call.again("openssl", [f"-{word}" if word.startswith("-") else word for word in words]))


def _read(call: Call, name: str) -> bytes:
    if name:
        return call.open(name).read()
    return call.stdin.read()


def _x509(call: Call) -> int:
    options = call.options(long=("noout", "enddate", "text", "pubkey", "in="))
    shown = pki.described(_read(call, options.get("in", "")))
    if shown is None:
        raise Failed("Could not read certificate")
    texts = {
        "enddate": f"notAfter={shown.until:%b %e %H:%M:%S %Y} GMT\n",
        "text": f"Certificate:\n        Issuer: {shown.issuer}\n        Subject: {shown.subject}\n"
        "            X509v3 Subject Alternative Name: \n"
        f"                {', '.join(shown.names)}\n",
        "pubkey": shown.public_key,
    }
    call.out("".join(text for name, text in texts.items() if name in options))
    return 0


def _pkey(call: Call) -> int:
    options = call.options(long=("pubout", "in=", "passin="))
    kind, _, place = options.get("passin", "").partition(":")
    if kind not in ("", "file"):
        raise NotSimulated(f"-passin {kind}")
    password = _read(call, place).split(b"\n")[0] if kind else b""
    public = pki.public_half(_read(call, options.get("in", "")), password)
    if public is None or "pubout" not in options:
        raise Failed("Could not read key")
    call.out(public)
    return 0


def _s_client(call: Call) -> int:
    options = call.options(long=("connect=", "servername=", "verify_hostname=", "CAfile=", "verify_return_error"))
    host, _, port = options.get("connect", "").rpartition(":")
    authorities = _trusted(call, options.get("CAfile", ""))
    shown = call.machine.shows(options.get("servername") or host, int(port), authorities) if port.isdigit() else None
    if shown is None:
        raise Failed("connect: Connection refused")
    number, why = shown.number, shown.words
    if not number and not _named(shown.certificate, options.get("verify_hostname", "")):
        number, why = _OTHER_NAME
    call.out("CONNECTED(00000003)\n---\n")
    if number:
        call.stderr.write(f"verify error:num={number}:{why}\n".encode())
        if "verify_return_error" in options:
            call.out("no peer certificate available\n---\n")
            return 1
    call.out("Server certificate\n")
    call.stdout.write(shown.certificate)
    call.out(f"---\n    Verify return code: {number} ({why})\n---\n")
    return 0


def _trusted(call: Call, name: str) -> bytes:
    """Return the authorities that are believed: those of a file, else those of the host."""
    if name:
        return _read(call, name)
    return call.files.read(TRUSTED) if call.files.exists(TRUSTED) else b""


def _named(certificate: bytes, name: str) -> bool:
    """Return whether a certificate is for a name, as far as one was asked for."""
    shown = pki.described(certificate)
    names = [one.removeprefix("DNS:").lower() for one in shown.names] if shown else []
    return not name or name.lower() in names or f"*.{name.lower().partition('.')[2]}" in names


def _verify(call: Call) -> int:
    options = call.options(long=("partial_chain", "CAfile=", "untrusted="))
    authority, chain = _read(call, options.get("CAfile", "")), _read(call, options.get("untrusted", ""))
    for name in options.operands:
        if not pki.leads_to(_read(call, name) + chain, authority):
            call.out("error 20 at 0 depth lookup: unable to get local issuer certificate\n")
            call.out(f"error {name}: verification failed\n")
            return 2
        call.out(f"{name}: OK\n")
    return 0


def keytool(call: Call) -> int:
    """`keytool -list -keystore FILE`; the first line of standard input is the password."""
    if call.args[:2] != ["-list", "-keystore"] or len(call.args) != 3:
        raise NotSimulated(" ".join(call.args) or "no command")
    path = call.args[2]
    if not call.files.exists(call.path(path)):
        call.out(f"keytool error: java.lang.Exception: Keystore file does not exist: {path}\n")
        return 1
    call.stderr.write(b"Enter keystore password:  ")
    password = decode(call.stdin.readline()).rstrip("\r\n")
    aliases = call.machine.keystore_opens(call.files.read(call.path(path)), password)
    if aliases is None:
        call.out("keytool error: java.io.IOException: keystore password was incorrect\n")
        return 1
    call.out(f"Keystore type: JKS\nKeystore provider: SUN\n\nYour keystore contains {len(aliases)} entries\n\n")
    call.out("".join(f"{alias}, trustedCertEntry,\n" for alias in aliases))
    return 0


_CONFIG, _DEFAULT = "/etc/krb5.conf", "/etc/krb5.keytab"
_KDC = 88
_SKEW = 300.0  # seconds that a host may be off, where the libraries do not take the KDC's time
_DAY = 86400.0  # seconds
_KINDS = {
    16: "DEPRECATED:des3-cbc-sha1",
    17: "aes128-cts-hmac-sha1-96",
    18: "aes256-cts-hmac-sha1-96",
    19: "aes128-cts-hmac-sha256-128",
    20: "aes256-cts-hmac-sha384-192",
    23: "DEPRECATED:arcfour-hmac",
    25: "camellia128-cts-cmac",
    26: "camellia256-cts-cmac",
}


def klist(call: Call) -> int:
    """`klist -k [-t] [-e] [FILE]`, or `klist -f`: the ticket that the session keeps."""
    options = call.options("kfte")
    if "k" not in options:
        return _ticket(call)
    name = (options.operands or [_DEFAULT])[0].removeprefix("FILE:")
    call.out(f"Keytab name: FILE:{name}\n")
    try:
        entries = read_keytab(_content(call, name))
    except _Unreadable as error:
        raise Failed(f"{error} while starting keytab scan") from None
    stamped, ahead = "t" in options, zone_offset(call.machine.fact("timezone"))[1]
    heads, lines = ("Timestamp         Principal", "-" * 17 + " " + "-" * 56) if stamped else ("Principal", "-" * 74)
    call.out(f"KVNO {heads}\n---- {lines}\n")
    for entry in entries:
        when = time.strftime("%m/%d/%y %H:%M:%S ", time.gmtime(entry.stamp + ahead)) if stamped else ""
        kind = f" ({_KINDS.get(entry.kind, f'DEPRECATED:etype {entry.kind}')}) " if "e" in options else ""
        call.out(f"{entry.version:4d} {when}{entry.principal}{kind}\n")
    return 0


def _ticket(call: Call) -> int:
    begun, ends, until, realm = call.machine.tickets.get(_cache(call), (0.0, 0.0, 0.0, ""))
    if not realm:
        raise Failed(f"Credentials cache keyring '{_cache(call).partition(':')[2]}' not found")
    first, last, most = (time.strftime("%m/%d/%y %H:%M:%S", time.gmtime(moment)) for moment in (begun, ends, until))
    call.out(f"Ticket cache: {_cache(call)}\n\nValid starting     Expires            Service principal\n")
    call.out(f"{first}  {last}  krbtgt/{realm}@{realm}\n\trenew until {most}, Flags: RIA\n")
    return 0


def kdestroy(call: Call) -> int:
    """`kdestroy [-q]`."""
    call.options("q")
    call.machine.tickets.pop(_cache(call), None)
    return 0


def _cache(call: Call) -> str:
    return call.state.environment().get("KRB5CCNAME", "")


_UNSUPPORTED = "Unsupported key table format version number"


class _Unreadable(Exception):
    """Why a keytab cannot be read, in MIT's words."""


def _content(call: Call, name: str) -> bytes:
    try:
        content = call.open(name).read()
        read_keytab(content)
    except NoKeytab:
        raise _Unreadable(_UNSUPPORTED) from None
    except OSError as error:
        missing = error.errno == errno.ENOENT
        words = f"Key table file '{name}' not found" if missing else error.strerror or "Unknown error"
        raise _Unreadable(words) from None
    return content


def kinit(call: Call) -> int:
    """`KRB5CCNAME=MEMORY:… kinit -k [-t FILE] [-r LIFE] PRINCIPAL`: a ticket, which only KEYRING:session:… keeps."""
    options = call.options("kt:r:")
    if "k" not in options:
        raise NotSimulated("asking for a password")
    if not _cache(call).startswith(("MEMORY:", "KEYRING:session:")):
        raise NotSimulated("keeping a ticket (set KRB5CCNAME=MEMORY:NAME)")
    principal = options.operands[0] if options.operands else f"host/{call.machine.fact('fqdn')}"
    default, centres, synced = _configured(call)
    if "@" not in principal:
        if not default:
            raise Failed(f"Configuration file does not specify default realm when parsing name {principal}")
        principal = f"{principal}@{default}"
    if trouble := _refused(call, principal, options.get("t", _DEFAULT).removeprefix("FILE:"), centres):
        raise Failed(f"{trouble} while getting initial credentials")
    if not synced and abs(call.machine.clock() - call.machine.now()) > _SKEW:
        raise Failed("Clock skew too great while getting initial credentials")
    if _cache(call).startswith("KEYRING:"):
        now, longest = call.machine.now(), float(call.machine.fact("renewable_days"))  # the KDC's time
        realm = principal.rpartition("@")[2]
        call.machine.tickets[_cache(call)] = (now, now + _DAY, now + longest * _DAY, realm)
    return 0


def _refused(call: Call, principal: str, name: str, centres: dict[str, list[str]]) -> str:
    """Return why there is no ticket, "" where there is one."""
    # A keytab without the principal is refused before anybody is asked; one that cannot be read only after the realm
    # has said that it knows the principal.
    realm = principal.rpartition("@")[2]
    content, trouble = None, ""
    try:
        content = _content(call, name)
    except _Unreadable as error:
        trouble = f"Pre-authentication failed: {error}"
    if content is not None and all(entry.principal != principal for entry in read_keytab(content)):
        return f"Keytab contains no suitable keys for {principal}"
    if not centres.get(realm):
        return f'Cannot find KDC for realm "{realm}"'
    if not any(call.machine.reaches(centre, _KDC) for centre in centres[realm]):
        return f"Cannot contact any KDC for realm '{realm}'"
    return call.machine.login(principal, content) or trouble


def _configured(call: Call) -> tuple[str, dict[str, list[str]], bool]:
    """Return /etc/krb5.conf's default realm, the hosts of the KDCs of each realm, whether the KDC's time is taken."""
    text = call.files.read(_CONFIG).decode("utf-8", "replace") if call.files.exists(_CONFIG) else ""
    default, realm, synced = "", "", True
    centres: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, _, value = (word.strip() for word in line.partition("="))
        if value == "{":
            realm = name
        elif name == "default_realm":
            default = value
        elif name == "kdc_timesync":
            synced = value != "0"
        elif name == "kdc" and realm:
            centres.setdefault(realm, []).append(value.partition(":")[0])
    return default, centres, synced
