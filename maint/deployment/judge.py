"""Judge a deployment in one pass: redacted (M7.1), of the right shape (M7.2), enough to rebuild a manager (M8)?"""

import gc
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from maint.deployment.accounts import Accounts
from maint.deployment.integrity import LISTS_OF_OBJECTS, REFERENCES, TEXTS, References, Shapes
from maint.deployment.reader import Pairs, Reader, blocks
from maint.deployment.reducer import KEEP, Fields, Reducer, Rules, drop
from maint.deployment.secrets import (
    ITEM_HOLDER_LISTS,
    ITEM_HOLDERS,
    REDACTED,
    Item,
    Redactions,
    SecretIndex,
    readable,
)
from maint.model.secret import Secret
from maint.model.snapshot import Judgement, Redaction, RuleResult

# Manager settings that a restore depends on (M2.1, M7.2, M11); none of them is secret.
TLS_SETTINGS = frozenset({"WEB_TLS", "AUTO_TLS_TYPE", "KEYSTORE_PATH", "TRUSTSTORE_PATH"})
# Either holds the password that `GET /certs/truststorePassword` serves (M11).
TRUSTSTORE_SETTINGS = frozenset({"TRUSTSTORE_PASSWORD", "AUTO_TLS_TRUSTSTORE_PASSWORD"})
COUNTED = (
    "clusters", "services", "roles", "management_roles", "groups", "hosts", "users", "items", "sensitive", "redacted",
)  # fmt: skip
_HOLDERS = (*ITEM_HOLDERS, *(f"{name}[]" for name in ITEM_HOLDER_LISTS))
# Small objects that point to something else: kept until their owner is judged.
_KEPT = (*REFERENCES, "roleConfigGroupRefs[]", "authRoles[]", "users[]")
# The rules that a redacted document breaks for being redacted.
_OF_REDACTION = frozenset({"redaction", "administrator", "accounts"})


class DeploymentSummary(msgspec.Struct, frozen=True):
    """The few facts about a document that a restore has to know before it starts."""

    release: str = ""  # "" where it is not named
    hosts: int = 0
    clusters: tuple[str, ...] = ()
    users: tuple[str, ...] = ()  # internal ones too
    administrators: tuple[str, ...] = ()  # those who can log in
    settings: Mapping[str, str] = msgspec.field(default_factory=dict)  # the manager's that concern TLS
    truststore_password: bool = False  # whether it is readable
    secrets: int = 0  # readable ones

    @property
    def web_tls(self) -> bool:
        """Whether the restored server serves 7183 after its restart."""
        return self.settings.get("WEB_TLS", "").lower() == "true"

    @property
    def auto_tls(self) -> bool:
        """Whether the manager makes the certificates itself, and needs its `certmanager` folder for that."""
        return self.settings.get("AUTO_TLS_TYPE", "").upper() not in ("", "NONE")

    def key_files(self) -> Iterator[str]:
        """Yield the files on the manager host without which TLS cannot come up (M2.1)."""
        if self.web_tls:
            for name in ("KEYSTORE_PATH", "TRUSTSTORE_PATH"):
                if path := self.settings.get(name):
                    yield path


class JudgedDocument(msgspec.Struct, frozen=True):
    """A judgement, and what is in the document."""

    judgement: Judgement
    summary: DeploymentSummary

    @property
    def restorable(self) -> bool:
        """Whether a manager may be rebuilt from it: every secret readable, and no rule broken."""
        broken = any(finding.passed is False for finding in self.judgement.findings)
        return self.judgement.redaction is Redaction.NONE and not broken


def broken(judgement: Judgement) -> Sequence[RuleResult]:
    """Return the rules that a document breaks by itself: no unredacted export of the same configuration keeps them."""
    redacted = judgement.redaction is Redaction.REDACTED
    failed = (finding for finding in judgement.findings if finding.passed is False)
    return [finding for finding in failed if not (redacted and finding.rule in _OF_REDACTION)]


def only_redacted(judgement: Judgement) -> bool:
    """Whether an export through the redaction window would make a restorable one of it."""
    return judgement.redaction is Redaction.REDACTED and not broken(judgement)


class Judge:
    """Takes a document block by block and judges it; the password shows whether the server hashes by M7.3."""

    def __init__(self, account: str = "", password: Secret | None = None, secrets: SecretIndex | None = None) -> None:
        self._counts: Counter[str] = Counter()
        self._redactions = Redactions(secrets)
        self._shapes = Shapes()
        self._references = References(self._counts, self._shapes)
        self._accounts = Accounts(account, password, secrets)
        self._release = ""
        self._settings: dict[str, str] = {}
        self._truststore_password = False
        self._reducer = Reducer(self._rules())
        self._reader = Reader(self._reducer)

    def feed(self, block: bytes) -> None:
        """Take the next bytes; raises `WorkFailed` when they are not JSON."""
        self._reader.feed(block)

    def verdict(self, blocks: Iterable[bytes]) -> JudgedDocument:
        """Return the verdict on a whole document; raises `WorkFailed` where it is not one."""
        for block in blocks:
            self.feed(block)
        return self.close()

    def close(self) -> JudgedDocument:
        """Return the verdict; raises `WorkFailed` where the document is not complete."""
        self._reader.close()
        self._counts.update(self._redactions.counts())
        return JudgedDocument(self._judgement(), self._summary())

    def _summary(self) -> DeploymentSummary:
        return DeploymentSummary(
            release=self._release,
            hosts=self._counts["hosts"],
            clusters=self._references.clusters,
            users=self._accounts.names,
            administrators=self._accounts.administrators,
            settings=self._settings,
            truststore_password=self._truststore_password,
            secrets=self._redactions.readable + self._redactions.readable_of_peers + self._accounts.secrets,
        )

    def _judgement(self) -> Judgement:
        redaction = self._redaction()
        findings = (
            self._redactions.finding(redaction, self._accounts.hidden),
            self._accounts.administrator(),
            self._versions(),
            *self._references.findings(self._reducer.repeated),
            self._accounts.complete(),
            self._shapes.finding(self._reducer.nulls),
        )
        return Judgement(
            redaction=redaction,
            flagged=self._redactions.flagged,
            hash_rule=self._accounts.hash_rule,
            counts={name: self._counts[name] for name in COUNTED},
            findings=findings,
        )

    def _redaction(self) -> Redaction:
        # By the values received, never by a switch (M7.1).
        if self._redactions.hidden or self._accounts.hidden:
            return Redaction.REDACTED
        fresh = self._accounts.readable and not self._counts["services"]
        return Redaction.NONE if self._redactions.readable or fresh else Redaction.UNKNOWN

    def _versions(self) -> RuleResult:
        words = f"taken from a manager of release {self._release}" if self._release else "no release in versionInfo"
        return RuleResult("versions", bool(self._release), words)

    def _rules(self) -> Rules:
        references = self._references
        return Rules(
            exact={
                "": references.deployment,
                "clusters[]": references.cluster,
                "clusters[].services[]": references.service,
                "managementService": references.management,
                "hosts[]": references.host,
                "users[]": self._user,
                "users[].roles": partial(self._shapes.displaced, "roles"),
                "peers[]": self._peer,
                "authRoles[]": self._auth_role,
                "externalUserMappings[]": self._mapping,
                "hostTemplates": partial(self._shapes.members, "hostTemplates"),
                "dataContexts": partial(self._shapes.members, "dataContexts"),
                "hostTemplates.items[]": references.template,
                "versionInfo": self._version,
                "managerSettings": self._manager_settings,
                "clusters[].tags[]": drop,
            },
            ending={
                "parcels[]": partial(self._shapes.members, "a parcel"),
                "roles[]": references.role,
                "roleConfigGroups[]": references.group,
                **dict.fromkeys(_HOLDERS, self._configuration),
                **{f"{holder}.items[].value": self._shapes.misplaced for holder in _HOLDERS},
                **dict.fromkeys([f"{holder}.items[]" for holder in _HOLDERS], KEEP),
                **dict.fromkeys(_KEPT, KEEP),
                **{key: partial(self._shapes.displaced, key) for key in (*TEXTS, *LISTS_OF_OBJECTS)},
            },
            otherwise=drop,
            early=(self._configuration, self._plain_configuration),
        )

    def _plain_configuration(self, holder: Pairs) -> bool:
        """Take settings of which none breaks a rule, as nearly all are, in one step; False where one may."""
        names, secrets = set(), []
        try:
            ((items, elements),) = holder
            if items != "items" or elements.__class__ is not list:
                return False
            for one in elements:
                if one.__class__ is not tuple:
                    return False
                (first, name), (second, value), (third, flag) = one
                if first != "name" or second != "value" or third != "sensitive" or flag.__class__ is not bool:
                    return False
                if not name or name.__class__ is not str or value.__class__ is not str:
                    return False
                names.add(name)
                if flag or value == REDACTED:
                    secrets.append((name, value, flag))
        except ValueError:  # more or fewer members than these
            return False
        if len(names) < len(elements):
            return False
        self._redactions.items(secrets, plain=len(elements) - len(secrets))
        return True

    def _configuration(self, holder: Fields) -> None:
        self._config(holder)

    def _config(self, holder: Fields) -> Sequence[Item]:
        items = self._references.items(holder)
        self._redactions.items(items)
        self._shapes.items(items)
        return items

    def _manager_settings(self, holder: Fields) -> None:
        for name, value, _ in self._config(holder):
            if name in TLS_SETTINGS:
                self._settings[str(name)] = "" if value is None else str(value)
            elif name in TRUSTSTORE_SETTINGS and readable(value):
                self._truststore_password = True

    def _user(self, user: Fields) -> None:
        self._counts["users"] += 1
        self._references.named("user", user.get("name"))
        self._references.account("user", user)
        self._accounts.user(user)

    def _peer(self, peer: Fields) -> None:
        self._references.named("peer", peer.get("name"))
        self._redactions.peer(peer)

    def _auth_role(self, role: Fields) -> None:
        self._accounts.auth_role(role)
        self._references.auth_role(role)

    def _mapping(self, mapping: Fields) -> None:
        self._references.account("external mapping", mapping)

    def _version(self, info: Fields) -> None:
        release = info.get("version")
        self._release = release if isinstance(release, str) and readable(release) else ""


class CopyCounts(msgspec.Struct, frozen=True):
    """How many of what are in a redacted copy, and how many of its secrets are readable."""

    counts: dict[str, int]
    secrets: int


def main() -> None:
    """Write the `CopyCounts` of the document on the input as JSON; where it cannot be judged, nothing."""
    gc.disable()  # nothing here goes in circles
    verdict = Judge().verdict(blocks(sys.stdin.buffer.read))
    sys.stdout.buffer.write(msgspec.json.encode(CopyCounts(dict(verdict.judgement.counts), verdict.summary.secrets)))


if __name__ == "__main__":
    main()
