"""openssl and keytool: certificates, keys and Java keystores of the host."""

from maint.lab import pki
from maint.lab.hosts.machine import TRUSTED
from maint.lab.hosts.shell.call import Call, Failed, NotSimulated
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
