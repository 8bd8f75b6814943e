"""Accounts of a deployment: who is let in, and what they may do (M2.2, M7.2)."""

import hashlib
import hmac
import random
from collections.abc import Container, Iterable

import msgspec

from maint.lab.manager.document import Doc, users

ADMIN = "ROLE_ADMIN"
CLUSTER_ADMIN = "ROLE_CLUSTER_ADMIN"
FACTORY_PASSWORD = "admin"
_BY_DISPLAY_NAME = {
    "Full Administrator": ADMIN,
    "Cluster Administrator": CLUSTER_ADMIN,
    "Operator": "ROLE_OPERATOR",
    "Configurator": "ROLE_CONFIGURATOR",
    "Read-Only": "ROLE_USER",
    "Limited Operator": "ROLE_LIMITED",
    "User Administrator": "ROLE_USER_ADMIN",
}


class Grant(msgspec.Struct, frozen=True):
    """A role, everywhere or on some clusters."""

    role: str
    clusters: tuple[str, ...] | None = None


def check_password(doc_users: Iterable[Doc], name: str, password: str) -> Doc | None:
    """Return the account when the password is its own; external accounts never match."""
    for user in doc_users:
        if user.get("name") == name and user.get("pwLogin") is not False and "pwHash" in user:
            return user if matches(password, str(user["pwHash"]), user.get("pwSalt")) else None
    return None


def grants(doc: Doc, user: Doc) -> list[Grant]:
    """Return the roles of an account; a custom role counts as the one it is based on."""
    given = [Grant(str(name)) for name in user.get("roles") or []]
    for reference in user.get("authRoles") or []:
        given.append(_grant(doc, reference))
    return given


def is_admin(doc: Doc, user: Doc) -> bool:
    """Return whether an account is a Full Administrator who can log in with a password."""
    return user.get("pwLogin") is not False and Grant(ADMIN) in grants(doc, user)


def administrators(doc: Doc) -> list[Doc]:
    """Return the Full Administrators who can log in with a password; `admin` first, internal ones left out."""
    found = [user for user in users(doc) if is_admin(doc, user) and not internal(user)]
    return sorted(found, key=lambda user: user.get("name") != "admin")


def internal(user: Doc) -> bool:
    """Return whether an account belongs to a role of the platform."""
    return str(user.get("name", "")).startswith("__cloudera_internal_user__")


def forget_clusters(doc: Doc, left: Container[object]) -> None:
    """Drop what is limited to clusters that are gone; a role limited to them alone goes, for it would hold everywhere.

    What a real server makes of such a role, no source says.
    """
    known, gone = list[Doc](doc.get("authRoles") or []), list[Doc]()
    for role in known:
        if limited := role.get("clusters"):
            role["clusters"] = [ref for ref in limited if ref.get("clusterName") in left]
            gone += [] if role["clusters"] else [role]
    if not gone:
        return
    for holder in (*users(doc), *(doc.get("externalUserMappings") or [])):
        if refs := holder.get("authRoles"):
            holder["authRoles"] = [ref for ref in refs if _auth_role(doc, ref) not in gone]
    doc["authRoles"] = [role for role in known if role not in gone]


def set_password(user: Doc, password: str, chance: random.Random, algorithm: str) -> None:
    """Give an account another password."""
    salt = new_salt(chance)
    user["pwHash"], user["pwSalt"] = hash_password(password, salt, algorithm), salt
    user.setdefault("pwLogin", True)


def _grant(doc: Doc, reference: Doc) -> Grant:
    full = _auth_role(doc, reference) or reference
    base = full.get("baseRole") or full
    role = str(base.get("name") or _BY_DISPLAY_NAME.get(str(base.get("displayName")), ""))
    limited = [str(entry.get("clusterName")) for entry in full.get("clusters") or []]
    return Grant(role, tuple(limited) or None)


def _auth_role(doc: Doc, reference: Doc) -> Doc | None:
    for role in doc.get("authRoles") or []:
        for key in ("name", "uuid", "displayName"):
            if reference.get(key):
                if role.get(key) == reference[key]:
                    return dict(role)
                break
    return None


ROUNDS = 1024


def hash_password(password: str, salt: int, algorithm: str = "cm5") -> str:
    """Return `pwHash` in hex for a signed 64-bit salt; the algorithm `other` is one that no document describes."""
    if algorithm == "other":
        return hashlib.pbkdf2_hmac("sha256", password.encode(), str(salt).encode(), ROUNDS).hex()
    digest = f"{password}{{{salt}}}".encode()
    for _ in range(ROUNDS):
        digest = hashlib.sha256(digest).digest()
    return digest.hex()


def matches(password: str, pw_hash: str, salt: int | None) -> bool:
    """Return whether a password belongs to a stored pair, by either rule; by neither where there is no salt."""
    if salt is None:
        return False
    made = (hash_password(password, salt, rule).encode() for rule in ("cm5", "other"))
    return any(hmac.compare_digest(one, pw_hash.encode()) for one in made)


def new_salt(chance: random.Random) -> int:
    """Return a random signed 64-bit salt."""
    return chance.randrange(-(2**63), 2**63)
