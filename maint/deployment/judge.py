"""Judge a deployment document in one pass: is it redacted, what is in it, and could a manager be rebuilt from it?

The rules are those of contract sections 7.1 (redaction), 7.2 (shape) and 8 (what a restore needs).
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from maint.deployment.accounts import Accounts
from maint.deployment.deployment_summary import TLS_SETTINGS, TRUSTSTORE_SETTINGS, Outline
from maint.deployment.fast_lists import Condenser
from maint.deployment.integrity import References
from maint.deployment.json_events import Events
from maint.deployment.json_reducer import Fields, Fold, Rules, drop
from maint.deployment.records import Group, Item, Role, items_of
from maint.deployment.redaction_check import Redactions
from maint.deployment.secret_index import Known
from maint.deployment.sensitive import readable
from maint.deployment.structure import Shapes
from maint.model.secret import Secret
from maint.model.snapshot import Finding, Judgement, Redaction


class Verdict(msgspec.Struct, frozen=True):
    """A judgement, and what is in the document."""

    judgement: Judgement
    outline: Outline

    @property
    def restorable(self) -> bool:
        """Whether a manager may be rebuilt from it: every secret readable, and no rule broken."""
        broken = any(finding.passed is False for finding in self.judgement.findings)
        return self.judgement.redaction is Redaction.NONE and not broken


class Judge:
    """Takes a document block by block and says in the end what it is worth.

    Args:
        account: the account that was just used to log in, and
        password: its password, to see whether this server stores passwords by the known rule (contract section 7.3).
        known: collects every secret of the document, when given.
    """

    def __init__(self, account: str = "", password: Secret | None = None, known: Known | None = None) -> None:
        self._counts: Counter[str] = Counter()
        self._known = known
        self._redactions = Redactions(known)
        self._shapes = Shapes()
        self._references = References(self._counts, self._shapes)
        self._accounts = Accounts(account, password, known)
        self._release = ""
        self._settings: dict[str, str] = {}
        self._truststore_password = False
        condenser = Condenser()
        self._fold = Fold(self._rules(), condenser)
        self._events = Events(self._fold, condenser=condenser)

    def feed(self, block: bytes) -> None:
        """Take the next bytes; raises `WorkFailed` when they are no JSON."""
        self._events.feed(block)

    def close(self) -> Verdict:
        """Say that the document has ended.

        Raises:
            WorkFailed: it is not complete.
        """
        self._events.close()
        self._fold.result()
        self._counts.update(self._redactions.counts())
        return Verdict(self._judgement(), self._outline())

    def _outline(self) -> Outline:
        return Outline(
            release=self._release,
            hosts=self._counts["hosts"],
            clusters=self._references.clusters,
            users=self._accounts.names,
            administrators=self._accounts.administrators,
            settings=self._settings,
            truststore_password=self._truststore_password,
        )

    def _judgement(self) -> Judgement:
        redaction = self._redaction()
        findings = (
            self._redactions.finding(redaction, self._accounts.hidden),
            self._accounts.administrator(),
            self._versions(),
            *self._references.findings(self._fold.repeated),
            self._accounts.complete(),
            self._shapes.finding(self._fold.nulls),
        )
        return Judgement(
            redaction=redaction,
            flagged=self._redactions.flagged,
            hash_rule=self._accounts.hash_rule,
            counts={name: self._counts[name] for name in COUNTED},
            findings=findings,
        )

    def _redaction(self) -> Redaction:
        """Decide by the values received, never by a switch (contract section 7.1)."""
        if self._redactions.hidden or self._accounts.hidden:
            return Redaction.REDACTED
        fresh = self._accounts.readable and not self._counts["services"]
        return Redaction.NONE if self._redactions.readable or fresh else Redaction.UNKNOWN

    def _versions(self) -> Finding:
        words = f"taken from a manager of release {self._release}" if self._release else "no release in versionInfo"
        return Finding("versions", bool(self._release), words)

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
                "peers[]": self._peer,
                "authRoles[]": self._auth_role,
                "hostTemplates.items[]": references.template,
                "versionInfo": self._version,
                "managerSettings.items[]": self._manager_item,
                "clusters[].tags[]": drop,
            },
            ending={
                "roles[]": references.role,
                "roleConfigGroups[]": references.group,
                **dict.fromkeys(ITEMS, self._item),
                **{f"{items}.value": self._shapes.misplaced for items in ITEMS},
                **dict.fromkeys(HOLDERS, references.items),
                **dict.fromkeys(KEPT, references.keep),
            },
            otherwise=drop,
            whole={references.role: self._roles, references.group: self._groups, self._item: self._items},
        )

    def _roles(self, roles: list[Role]) -> Iterable[tuple[object, object, object]]:
        self._configs(roles)
        return [self._references.decoded_role(role) for role in roles]

    def _groups(self, groups: list[Group]) -> Iterable[tuple[object, object, object]]:
        self._configs(groups)
        return [self._references.decoded_group(group) for group in groups]

    def _configs(self, elements: Sequence[Role | Group]) -> None:
        every: list[Item] = []
        for element in elements:
            items = items_of(element)
            every += items
            if len(names := {item.name for item in items}) != len(items):
                self._references.items({"items": [item.name for item in items if isinstance(item.name, str)]})
            if not all(names):
                self._shapes.valued(None, None, None)
        self._redactions.items(every)

    def _items(self, items: Sequence[Item]) -> list[str]:
        self._redactions.items(items)
        if any(not item.name for item in items):
            self._shapes.valued(None, None, None)
        return [item.name for item in items if isinstance(item.name, str)]

    def _item(self, item: Fields) -> object:
        self._redactions.item(item)
        self._shapes.valued(item.get("name"), item.get("value"), item.get("sensitive"))
        return item.get("name")

    def _manager_item(self, item: Fields) -> object:
        if item.get("name") in TLS_SETTINGS:
            self._settings[str(item["name"])] = str(item.get("value", ""))
        elif item.get("name") in TRUSTSTORE_SETTINGS and readable(item.get("value")):
            self._truststore_password = True
        return self._item(item)

    def _user(self, user: Fields) -> None:
        self._counts["users"] += 1
        self._references.named("user", user.get("name"))
        self._accounts.user(user)

    def _peer(self, peer: Fields) -> None:
        self._references.named("peer", peer.get("name"))
        self._redactions.peer(peer)

    def _auth_role(self, role: Fields) -> None:
        self._accounts.auth_role(role)
        self._references.auth_role(role)

    def _version(self, info: Fields) -> None:
        release = info.get("version")
        self._release = release if isinstance(release, str) and readable(release) else ""


COUNTED = (
    "clusters",
    "services",
    "roles",
    "management_roles",
    "groups",
    "hosts",
    "users",
    "items",
    "sensitive",
    "redacted",
)
# Where lists of config items stand, the form of API 2 included.
HOLDERS = ("config", "managerSettings", "allHostsConfig", "roleTypeConfigs[]")
ITEMS = tuple(f"{holder}.items[]" for holder in HOLDERS)
# Small objects that point to something else: kept until their owner is judged.
KEPT = ("hostRef", "clusterRef", "serviceRef", "roleConfigGroupRef", "roleConfigGroupRefs[]", "authRoles[]", "users[]")
