"""Judge whether a document is whole: of the right shape, every reference resolved, nothing there twice."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType

from maint.deployment.reducer import Fields
from maint.deployment.secrets import Item
from maint.model.formatting import show_count, show_some
from maint.model.snapshot import RuleResult

_SHOWN = 3
_BUILT_IN = "ROLE_"  # begins the names of auth roles that every manager has
_TEXT = (str, NoneType)
_FLAG = (bool, NoneType)
# What every export holds, be it as an empty list, beside the settings that each server has; what may be left out.
_DUE = ("clusters", "hosts", "users")
_LISTS = (*_DUE, "peers", "authRoles", "externalUserMappings")
_OBJECTS = ("versionInfo", "managementService", "managerSettings", "allHostsConfig", "hostTemplates", "dataContexts")
# What known members hold, whatever they are members of; one that is there may be null.
TEXTS = (
    "name", "displayName", "type", "roleType", "version", "hostId", "hostname", "ipAddress", "rackId", "product",
    "stage", "clusterName", "serviceName", "roleConfigGroupName",
)  # fmt: skip
LISTS_OF_OBJECTS = (
    "clusters", "users", "items", "parcels", "tags", "roleConfigGroupRefs", "dataContextRefs", "authRoles",
    "externalUserMappings",
)  # fmt: skip
# Lists whose elements are objects: where one is null, something was lost.
_OF_OBJECTS = frozenset({"services", "roles", "roleConfigGroups", "hosts", "peers", *LISTS_OF_OBJECTS})
REFERENCES = frozenset({"hostRef", "roleConfigGroupRef", "serviceRef", "clusterRef", "baseRole"})
_MEMBERS: Mapping[str, type[str | list[object] | dict[str, object]]] = {
    **dict.fromkeys(TEXTS, str),
    **dict.fromkeys(LISTS_OF_OBJECTS, list),
    **dict.fromkeys(("config", *REFERENCES), dict),
}
_KINDS = {str: "text", list: "a list of objects", dict: "an object"}


class Shapes:
    """Takes objects as reducing leaves them; an object that was judged has become None."""

    # A server may take a document in another shape for an empty one, and would restore nothing of what it holds.
    def __init__(self) -> None:
        self._wrong: list[str] = []

    def deployment(self, fields: Mapping[str, object]) -> None:
        """Take the outermost object."""
        if absent := [key for key in (*_DUE, "managerSettings") if key not in fields]:
            self._wrong.append(f"there is no {' and no '.join(absent)}")
        self._wrong += [f"{key} has elements that are not objects" for key in _LISTS if fields.get(key)]
        self.lists("the deployment", fields, *_LISTS)
        self.objects("the deployment", fields, *_OBJECTS)

    def lists(self, owner: str, fields: Mapping[str, object], *keys: str) -> None:
        """Insist that each of these fields is a list or left out."""
        for key in keys:
            if key in fields and not isinstance(fields[key], list):  # an object was left out by its rule
                self._wrong.append(f"{key} of {owner} is not a list (a manager writes one, or leaves out {key})")

    def objects(self, owner: str, fields: Mapping[str, object], *keys: str) -> None:
        """Insist that each of these fields was an object or is left out."""
        self._wrong += [f"{key} of {owner} is not an object" for key in keys if fields.get(key) is not None]

    def members(self, kind: str, fields: Mapping[str, object]) -> None:
        """Insist that known fields hold what they always do; an object that was left out by its rule is not seen."""
        for key, value in fields.items():
            due = _MEMBERS.get(key)
            if due is None or value is None or (value.__class__ is due and due is str):  # as nearly always
                continue
            if key in REFERENCES:
                fits = isinstance(value, dict) and list not in map(type, value.values())
            elif due is str:
                fits = not isinstance(value, list)  # a server reads a number for a text
            else:
                fits = isinstance(value, due) and (due is dict or all(isinstance(one, dict) for one in value))
            if not fits:
                owner = fields.get("name") or fields.get("hostId") or ""
                what = "a reference" if key in REFERENCES else _KINDS[due]
                self._wrong.append(f"{key} of {kind} {owner} is not {what}")

    def displaced(self, key: str, _: Mapping[str, object]) -> None:
        """Take an object that stands where a text or a list should."""
        self._wrong.append(f"a {key} is an object")

    def objects_in(self, key: str, elements: Sequence[object]) -> list[Fields]:
        """Return the objects of a list, and insist that there is nothing else in it."""
        found = [element for element in elements if isinstance(element, dict)]
        if len(found) != len(elements):
            self._wrong.append(f"{key} has elements that are not objects")
        return found

    def named(self, kind: str, *texts: object) -> None:
        """Insist that what a thing is known by is text, and not empty."""
        if not all(isinstance(text, str) and text for text in texts):
            shown = next((text for text in texts if isinstance(text, str) and text), "")
            self._wrong.append(f"a {kind} lacks its name or type{f': {shown}' if shown else ''}")

    def items(self, items: Iterable[Item]) -> None:
        """Insist that config items are what they always are: texts, and perhaps a flag."""
        for name, value, flag in items:
            if not isinstance(name, str) or not name:
                self._wrong.append("a setting has no name")
            elif not isinstance(value, _TEXT) or not isinstance(flag, _FLAG):
                self._wrong.append(f"the value of {name} is not text, or its flag not true or false")

    def misplaced(self, _: Mapping[str, object]) -> None:
        """Take an object that stands where a text should."""
        self._wrong.append("the value of a setting is an object")

    def finding(self, nulls: Sequence[str]) -> RuleResult:
        """Return what was found; `nulls` are the lists in which a null stands, such as `clusters[].services`."""
        lost = [f"null in {place}" for place in nulls if place.rpartition(".")[2] in _OF_OBJECTS]
        wrong = dict.fromkeys([*self._wrong, *lost])
        return _finding("shape", wrong, "everything is where it belongs", "not the shape of an export")


# Names are only compared, never taken apart: a generated role name may be cut at 64 characters.
class References:
    """Takes the objects of a document from the leaves up; counts them in `counts`, tells `shapes` what they are."""

    def __init__(self, counts: Counter[str], shapes: Shapes) -> None:
        self._counts, self._shapes = counts, shapes
        self._hosts: set[str] = set()
        self._clusters: dict[str, set[str]] = {}  # name → its config groups
        self._users: set[str] = set()
        self._names: set[tuple[str, str]] = set()
        self._role_hosts: Counter[str] = Counter()
        self._templates: list[tuple[str, str, tuple[str, ...]]] = []
        self._member_users: set[str] = set()
        self._granted: set[str] = set()  # auth roles by name
        self._missing: list[str] = []
        self._twice: list[str] = []
        self._nameless = 0
        self._unknown_hosts: dict[str, int] = {}

    @property
    def clusters(self) -> tuple[str, ...]:
        """The names of all clusters."""
        return tuple(self._clusters)

    def host(self, host: Fields) -> None:
        """Take one host."""
        self._counts["hosts"] += 1
        name = host.get("hostId")
        if not isinstance(name, str) or not name:
            self._nameless += 1
        elif name in self._hosts:
            self._twice.append(f"host {name}")
        else:
            self._hosts.add(name)
            self._shapes.named("host", host.get("hostname"))
            self._shapes.members("host", host)
            self._repeats("host name", [host.get("hostname")], among=self._names)

    def role(self, role: Fields) -> tuple[object, object, object]:
        """Take one role; return its name, its group and its type."""
        host = _ref(role.get("hostRef"), "hostId")
        if host is not None:
            self._role_hosts[str(host)] += 1
        elif "hostRef" in role or "type" in role:
            self._missing.append(f"role {role.get('name')} stands on no host")
        self._shapes.members("role", role)
        group = _ref(role.get("roleConfigGroupRef"), "roleConfigGroupName")
        return role.get("name"), group, role.get("type")

    def group(self, group: Fields) -> tuple[object, object, object]:
        """Take one config group; return its name, and the cluster and service that it says it belongs to."""
        self._counts["groups"] += 1
        owner = group.get("serviceRef")
        self._shapes.members("config group", group)
        return group.get("name"), _ref(owner, "clusterName"), _ref(owner, "serviceName")

    def service(self, service: Fields) -> tuple[object, list[str], set[str]]:
        """Take one service of a cluster; return its name, its groups, and the clusters that they name."""
        self._counts["services"] += 1
        self._counts["roles"] += len(service.get("roles") or ())
        return service.get("name"), *self._inside(service)

    def management(self, service: Fields) -> None:
        """Take the management service."""
        self._counts["management_roles"] += len(service.get("roles") or ())
        self._inside(service)

    def _inside(self, service: Fields) -> tuple[list[str], set[str]]:
        name = service.get("name")
        roles = service.get("roles") or ()
        groups = service.get("roleConfigGroups") or ()
        self._shapes.named("service", name, service.get("type"))
        self._shapes.lists(f"service {name}", service, "roles", "roleConfigGroups")
        self._shapes.members("service", service)
        self._repeats(f"role of {name}", [role[0] for role in roles])
        self._repeats(f"config group of {name}", [group[0] for group in groups])
        known = {group[0] for group in groups}
        for role, group, kind in roles:
            if not (role and role.__class__ is str and kind and kind.__class__ is str):
                self._shapes.named(f"role of {name}", role, kind)
            if group is not None and group not in known:
                self._missing.append(f"role {role} names the config group {group}")
        for group, _, owner in groups:
            if not group or group.__class__ is not str:
                self._shapes.named(f"config group of {name}", group)
            if owner is not None and owner != name:
                self._missing.append(f"config group {group} of {name} names the service {owner}")
        return [str(group) for group in known], {str(group[1]) for group in groups if group[1] is not None}

    def cluster(self, cluster: Fields) -> None:
        """Take one cluster."""
        self._counts["clusters"] += 1
        name = str(cluster.get("name"))
        self._shapes.named("cluster", cluster.get("name"))
        self._shapes.lists(f"cluster {name}", cluster, "services")
        self._shapes.members("cluster", cluster)
        if name in self._clusters:
            self._twice.append(f"cluster {name}")
        services = cluster.get("services") or ()
        self._repeats(f"service of {name}", [service[0] for service in services])
        groups = self._clusters.setdefault(name, set())
        for service, own, named in services:
            groups.update(own)
            self._missing += [f"config groups of {service} name the cluster {other}" for other in named - {name}]

    def template(self, template: Fields) -> None:
        """Take one host template."""
        name = str(template.get("name"))
        cluster = str(_ref(template.get("clusterRef"), "clusterName"))
        self._shapes.members("host template", template)
        self._repeats(f"host template of {cluster}", [name], among=self._names)
        refs = template.get("roleConfigGroupRefs") or ()
        self._templates.append((name, cluster, tuple(str(_ref(ref, "roleConfigGroupName")) for ref in refs)))

    def auth_role(self, role: Fields) -> None:
        """Take one auth role: its members must be users of the document."""
        self._shapes.members("auth role", role)
        self._repeats("auth role", [role.get("name") or role.get("uuid")], among=self._names)
        self._member_users.update(str(_ref(user, "name")) for user in role.get("users") or ())

    def account(self, kind: str, account: Fields) -> None:
        """Take a user or an external mapping: the auth roles that are no built-in ones must be in the document."""
        self._shapes.members(kind, account)
        if account.get("roles") is not None:  # those of before API 30, names alone
            self._shapes.lists(f"{kind} {account.get('name')}", account, "roles")
        names = [_ref(ref, "name") for ref in account.get("authRoles") or ()]
        self._granted.update(str(name) for name in names if name and not str(name).startswith(_BUILT_IN))

    def named(self, kind: str, name: object) -> None:
        """Take the name of a user or a peer."""
        self._shapes.named(kind, name)
        if kind == "user":
            self._users.add(str(name))
        self._repeats(kind, [name], among=self._names)

    def items(self, holder: Fields) -> Sequence[Item]:
        """Take what holds config items, and return these."""
        self._shapes.lists("a configuration", holder, "items")
        elements = self._shapes.objects_in("a list of settings", holder.get("items") or ())
        items = [(one.get("name"), one.get("value"), one.get("sensitive")) for one in elements]
        names = [name for name, _, _ in items if name is not None]
        if len(names) != len(set(names)):
            self._repeats("setting", names)
        return items

    def deployment(self, fields: Fields) -> None:
        """Compare what can only be compared when everything was seen."""
        self._shapes.deployment(fields)
        self._unknown_hosts = {host: count for host, count in self._role_hosts.items() if host not in self._hosts}
        for name, cluster, groups in self._templates:
            if cluster not in self._clusters:
                self._missing.append(f"host template {name} names the cluster {cluster}")
                continue
            lost = [group for group in groups if group not in self._clusters[cluster]]
            self._missing += [f"host template {name} names the config group {group}" for group in lost]
        self._missing += [f"an auth role names the user {name}" for name in sorted(self._member_users - self._users)]
        lost = sorted(name for name in self._granted if ("auth role", name) not in self._names)
        self._missing += [f"an account names the auth role {name}" for name in lost]

    def findings(self, repeated_keys: Sequence[str]) -> tuple[RuleResult, RuleResult, RuleResult]:
        """Return what was found: `references`, `duplicates`, `hosts`."""
        twice = [*self._twice, *(f"key {key}" for key in repeated_keys)]
        return (
            _finding("references", self._missing, "everything that is named is there", "not in the document"),
            _finding("duplicates", twice, "nothing is there twice", "there twice"),
            self._host_finding(),
        )

    def _host_finding(self) -> RuleResult:
        if self._nameless:
            return RuleResult("hosts", False, f"{show_count(self._nameless, 'host')} without a hostId")
        unknown = [f"{host} ({show_count(count, 'role')})" for host, count in self._unknown_hosts.items()]
        return _finding(
            "hosts", unknown, f"all roles stand on one of {show_count(len(self._hosts), 'host')}", "hosts unknown"
        )

    def _repeats(self, kind: str, names: Sequence[object], among: set[tuple[str, str]] | None = None) -> None:
        if among is None and len({*map(str, names)}) == len(names):  # as nearly always
            return
        seen: set[tuple[str, str]] = set() if among is None else among
        for name in names:
            if (kind, str(name)) in seen:
                self._twice.append(f"{kind} {name}")
            seen.add((kind, str(name)))


def _ref(reference: object, key: str) -> object:
    return reference.get(key) if isinstance(reference, dict) else None


def _finding(rule: str, wrong: Iterable[str], well: str, ill: str) -> RuleResult:
    culprits = list(wrong)
    if not culprits:
        return RuleResult(rule, True, well)
    return RuleResult(rule, False, f"{ill}: {show_some(culprits, _SHOWN, '; ')}")
