"""Judge the accounts of a document: can an administrator log in after a restore (M7.2, M7.3, M8)?"""

import hashlib
import hmac
import re
from collections.abc import Sequence

import msgspec

from maint.deployment.reducer import Fields
from maint.deployment.secrets import SECRET_FIELDS, SecretIndex, readable
from maint.model.formatting import show_count, show_some
from maint.model.secret import Secret
from maint.model.snapshot import RuleResult

ADMIN = "ROLE_ADMIN"
ADMIN_DISPLAY = "Full Administrator"
SHOWN = 3
ROUNDS = 1024  # of SHA-256; proved on CM 5, assumed on CM 7 (M7.3)
_HEX = r"[0-9a-fA-F]{64}"


class _Account(msgspec.Struct, frozen=True):
    name: str
    logs_in: bool  # not kept by an outside directory
    has_hash: bool
    sound: bool  # what it carries is of the form in which managers keep it
    admin: bool
    uuids: tuple[str, ...]  # of its roles, where nothing but a uuid says what they are


class Accounts:
    """Takes users and auth roles; tries the password of one account, and collects secrets where `secrets` is given."""

    def __init__(self, account: str, password: Secret | None, secrets: SecretIndex | None) -> None:
        self._account, self._password, self._secrets = account, password, secrets
        self._all: list[_Account] = []
        self._admin_uuids: set[str] = set()
        self.hash_rule: bool | None = None
        self.secrets = 0  # readable ones

    def user(self, user: Fields) -> None:
        """Take one user."""
        secrets = [str(user[field]) for field in SECRET_FIELDS if readable(user.get(field))]
        self.secrets += len(secrets)
        if self._secrets is not None:
            for secret in secrets:
                self._secrets.add(secret)
        roles = [*(user.get("authRoles") or ()), *(user.get("roles") or ())]
        self._all.append(
            _Account(
                name=str(user.get("name")),
                logs_in=user.get("pwLogin") is not False,
                has_hash=readable(user.get("pwHash")) or readable(user.get("password")),
                sound=_sound(user),
                admin=any(_is_admin(role) for role in roles),
                uuids=tuple(str(role["uuid"]) for role in roles if isinstance(role, dict) and "uuid" in role),
            )
        )
        if self._password and user.get("name") == self._account and user.get("pwLogin") is not False:
            self.hash_rule = opens(self._password, user.get("pwHash"), user.get("pwSalt"))

    def auth_role(self, role: Fields) -> None:
        """Take one auth role."""
        if _is_admin(role) and "uuid" in role:
            self._admin_uuids.add(str(role["uuid"]))

    @property
    def hidden(self) -> int:
        """How many accounts that log in by password have no hash: as redacted views leave them out."""
        return sum(1 for one in self._all if one.logs_in and not one.has_hash)

    @property
    def readable(self) -> bool:
        """Whether at least one account carries its hash."""
        return any(one.has_hash for one in self._all)

    @property
    def names(self) -> tuple[str, ...]:
        """All accounts."""
        return tuple(one.name for one in self._all)

    @property
    def administrators(self) -> tuple[str, ...]:
        """The administrators who can log in."""
        return tuple(one.name for one in self._admins() if one.logs_in and one.has_hash and one.sound)

    def _admins(self) -> list[_Account]:
        return [one for one in self._all if one.admin or self._admin_uuids.intersection(one.uuids)]

    def administrator(self) -> RuleResult:
        """Is there an administrator who can log in?"""
        admins, able = self._admins(), self.administrators
        if able:
            return RuleResult("administrator", True, f"{_some(able)} can log in as administrator")
        if admins:
            return RuleResult(
                "administrator", False, f"no administrator could log in: {_some([a.name for a in admins])}"
            )
        return RuleResult("administrator", False, f"no user has the role {ADMIN}")

    def complete(self) -> RuleResult:
        """Does every account that logs in by password carry its hash?"""
        lacking = [one.name for one in self._all if one.logs_in and not one.has_hash]
        if lacking:
            return RuleResult("accounts", False, f"no password hash: {_some(lacking)}")
        if broken := [one.name for one in self._all if not one.sound]:
            return RuleResult("accounts", False, f"no usable password hash, salt or login flag: {_some(broken)}")
        return RuleResult("accounts", True, f"all of {show_count(len(self._all), 'account')} can log in as before")


def _sound(user: Fields) -> bool:
    # Of the types of M7.2; how CM 7 hashes is not asked (U14).
    flag, pw_hash, salt = user.get("pwLogin"), user.get("pwHash"), user.get("pwSalt")
    if not isinstance(flag, bool | None) or not isinstance(pw_hash, str | None):
        return False
    if salt is None:  # by the known rule, such a hash opens to nobody without its salt
        return not (pw_hash and re.fullmatch(_HEX, pw_hash))
    return isinstance(salt, int) and not isinstance(salt, bool) and -(2**63) <= salt < 2**63


def _is_admin(role: object) -> bool:
    if isinstance(role, dict):
        name = role.get("name")
        return name == ADMIN if name else role.get("displayName") == ADMIN_DISPLAY
    return role == ADMIN


def _some(names: Sequence[str]) -> str:
    return show_some(names, SHOWN)


def password_hash(password: str, salt: int) -> str:
    """Return `pwHash` in hex for a password and its signed decimal `pwSalt`."""
    digest = hashlib.sha256(f"{password}{{{salt}}}".encode()).digest()
    for _ in range(ROUNDS - 1):
        digest = hashlib.sha256(digest).digest()
    return digest.hex()


def opens(password: Secret, pw_hash: object, salt: object) -> bool | None:
    """Return whether a password fits a stored hash; None where hash or salt are not of the known form."""
    if not isinstance(pw_hash, str) or len(pw_hash) != 64 or not isinstance(salt, int) or isinstance(salt, bool):
        return None
    return hmac.compare_digest(password_hash(password.reveal(), salt), pw_hash.lower())
