"""klist, kinit, kdestroy: what a keytab holds, and which ticket the realm gives for it, in the words of MIT's tools."""

import errno
import time

from maint.lab.hosts.kerberos import NoKeytab, read_keytab
from maint.lab.hosts.shell.call import Call, Failed, NotSimulated
from maint.lab.hosts.shell.commands.host import zone_offset

_CONFIG, _DEFAULT = "/etc/krb5.conf", "/etc/krb5.keytab"
_KDC = 88
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
    default, centres = _configured(call)
    if "@" not in principal:
        if not default:
            raise Failed(f"Configuration file does not specify default realm when parsing name {principal}")
        principal = f"{principal}@{default}"
    if trouble := _refused(call, principal, options.get("t", _DEFAULT).removeprefix("FILE:"), centres):
        raise Failed(f"{trouble} while getting initial credentials")
    if _cache(call).startswith("KEYRING:"):
        now, longest = call.machine.clock(), float(call.machine.fact("renewable_days"))
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


def _configured(call: Call) -> tuple[str, dict[str, list[str]]]:
    """Return the default realm of /etc/krb5.conf, and the hosts of the KDCs of each realm."""
    text = call.files.read(_CONFIG).decode("utf-8", "replace") if call.files.exists(_CONFIG) else ""
    default, realm = "", ""
    centres: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, _, value = (word.strip() for word in line.partition("="))
        if value == "{":
            realm = name
        elif name == "default_realm":
            default = value
        elif name == "kdc" and realm:
            centres.setdefault(realm, []).append(value.partition(":")[0])
    return default, centres
