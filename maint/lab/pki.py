"""A certificate authority for the lab: root, intermediate, certificates good and bad, and the keys of age and SSH."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from pyrage import x25519 as age

_CURVE = ec.SECP256R1()
_PEM, _PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
_PUBLIC = serialization.PublicFormat.SubjectPublicKeyInfo
LOOPBACK = ("localhost", "127.0.0.1")


class Pair(msgspec.Struct, frozen=True):
    """A private key with its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def key_pem(self) -> bytes:
        """The key, PKCS#8 PEM without a password."""
        return self.key.private_bytes(_PEM, _PKCS8, serialization.NoEncryption())

    @property
    def key_der(self) -> bytes:
        """The key, PKCS#8 DER."""
        return self.key.private_bytes(serialization.Encoding.DER, _PKCS8, serialization.NoEncryption())

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(_PEM)

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)


class Authority:
    """A root that signs an intermediate that signs servers."""

    def __init__(self, root: Pair, intermediate: Pair) -> None:
        self.root = root
        self.intermediate = intermediate

    @classmethod
    def create(cls, now: datetime, name: str = "Lab") -> "Authority":
        """Return a new authority; its root lasts ten years."""
        root = _issue(f"{name} Root CA", None, now - timedelta(days=30), now + timedelta(days=3650), level=1)
        inner = _issue(f"{name} In-cluster CA", root, now - timedelta(days=30), now + timedelta(days=3000), level=0)
        return cls(root, inner)

    @classmethod
    def load(cls, folder: Path) -> "Authority":
        """Return the authority that `save` wrote."""
        return cls(_load_pair(folder, "root"), _load_pair(folder, "intermediate"))

    def save(self, folder: Path) -> None:
        """Write keys and certificates, and `bundle.pem`, the one that clients trust."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, pair in (("root", self.root), ("intermediate", self.intermediate)):
            (folder / f"{name}.pem").write_bytes(pair.pem)
            key = folder / f"{name}.key"
            key.touch(0o600)
            key.write_bytes(pair.key_pem)
        (folder / "bundle.pem").write_bytes(self.root.pem)

    def server(self, names: Sequence[str], now: datetime) -> Pair:
        """Return a server certificate for host names and addresses, good for a year."""
        return _issue(names[0], self.intermediate, now - timedelta(days=1), now + timedelta(days=365), names)

    def expired(self, names: Sequence[str], now: datetime) -> Pair:
        """Return a server certificate that expired yesterday."""
        return _issue(names[0], self.intermediate, now - timedelta(days=29), now - timedelta(days=1), names)

    def expired_copy(self, pem: bytes, now: datetime) -> bytes:
        """Return a PEM text whose first certificate expired yesterday; it is of the same key and names."""
        end = b"-----END CERTIFICATE-----\n"
        before, _, rest = pem.partition(b"-----BEGIN CERTIFICATE-----")
        own = x509.load_pem_x509_certificates(pem)[0]
        names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        shown = [str(name.value) for name in names]
        public = own.public_key()
        if not isinstance(public, ec.EllipticCurvePublicKey):
            raise ValueError("the certificate is not one of this lab")
        begins, ends = now - timedelta(days=29), now - timedelta(days=1)
        copy = _issue(shown[0], self.intermediate, begins, ends, shown, public=public)
        return before + copy.pem + rest.partition(end)[2]

    def chain_pem(self, pair: Pair) -> bytes:
        """Return what a server shows: its certificate, then the intermediate."""
        return pair.pem + self.intermediate.pem


def self_signed(names: Sequence[str], now: datetime) -> Pair:
    """Return a server certificate that vouches for itself, good for a year."""
    return _issue(names[0], None, now - timedelta(minutes=5), now + timedelta(days=365), names)


def pem_of_key(der: bytes) -> bytes:
    """Return a PKCS#8 key as PEM."""
    key = serialization.load_der_private_key(der, None)
    return key.private_bytes(_PEM, _PKCS8, serialization.NoEncryption())


def pem_of_certificate(der: bytes) -> bytes:
    """Return a certificate as PEM."""
    return x509.load_der_x509_certificate(der).public_bytes(_PEM)


def encrypted_key(pair: Pair, password: str) -> bytes:
    """Return a key as PEM under a password."""
    protection = serialization.BestAvailableEncryption(password.encode())
    return pair.key.private_bytes(_PEM, _PKCS8, protection)


def age_key() -> tuple[str, str]:
    """Return a fresh age identity and its recipient."""
    identity = age.Identity.generate()
    return str(identity), str(identity.to_public())


def _issue(
    name: str,
    issuer: Pair | None,
    begins: datetime,
    ends: datetime,
    names: Sequence[str] = (),
    *,
    level: int | None = None,
    public: ec.EllipticCurvePublicKey | None = None,
) -> Pair:
    # A certificate of the `public` key, where one is given: the private key stays with its owner.
    key = ec.generate_private_key(_CURVE)
    public = public or key.public_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    signer = issuer.key if issuer else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins.astimezone(UTC))
        .not_valid_after(ends.astimezone(UTC))
        .add_extension(x509.BasicConstraints(ca=level is not None, path_length=level), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(_usage(level is not None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_name(each) for each in names]), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return Pair(key, builder.sign(signer, hashes.SHA256()))


def _usage(authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=authority, crl_sign=authority, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _load_pair(folder: Path, name: str) -> Pair:
    key = serialization.load_pem_private_key((folder / f"{name}.key").read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{folder / name}.key is not a key of this lab")
    return Pair(key, x509.load_pem_x509_certificate((folder / f"{name}.pem").read_bytes()))


def new_ssh_key() -> bytes:
    """Return a fresh Ed25519 key in OpenSSH's private key format, without a passphrase."""
    key = ed25519.Ed25519PrivateKey.generate()
    return key.private_bytes(_PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())


class Described(msgspec.Struct, frozen=True):
    """What a certificate says; names as OpenSSL writes them."""

    until: datetime
    issuer: str
    subject: str
    names: Sequence[str]
    public_key: str


def described(pem: bytes) -> Described | None:
    """Return what the first certificate of a PEM text says, None where there is none."""
    try:
        found = x509.load_pem_x509_certificates(pem)[0]
    except ValueError:
        return None
    public, names = found.public_key().public_bytes(_PEM, _PUBLIC).decode(), _alternatives(found)
    return Described(found.not_valid_after_utc, _spelled(found.issuer), _spelled(found.subject), names, public)


def _spelled(name: x509.Name) -> str:
    return ", ".join(f"{part.rfc4514_attribute_name} = {part.value!s}" for part in name)


def _alternatives(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [f"{'DNS' if isinstance(name, x509.DNSName) else 'IP Address'}:{name.value!s}" for name in names]


def public_half(pem: bytes, password: bytes) -> str | None:
    """Return the public half (PEM) of a private key, None where the password does not open it."""
    for given in (password or None, None):
        try:
            key = serialization.load_pem_private_key(pem, given)
        except (ValueError, TypeError):
            continue
        return key.public_key().public_bytes(_PEM, _PUBLIC).decode()
    return None


def leads_to(chain: bytes, authority: bytes) -> bool:
    """Return whether the first certificate of a chain was issued, step by step, by one of the authority's."""
    try:
        own, trusted = x509.load_pem_x509_certificates(chain), x509.load_pem_x509_certificates(authority)
    except ValueError:
        return False
    here, seen = own[0], 0
    while seen <= len(own):
        for issuer in trusted:
            if here.issuer == issuer.subject:
                return True
        here = next((other for other in own if other.subject == here.issuer), here)
        seen += 1
    return False
