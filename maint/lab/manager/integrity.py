"""Whether a deployment is whole: names unique, references resolved (contract section 17)."""

from collections import Counter
from collections.abc import Iterable, Iterator

from maint.lab.manager.document import Doc, all_services, clusters, hosts, items, roles, users

_LONGEST_NAME = 64


def faults_of(doc: Doc, *, known_hosts: set[str], rejected: str = "") -> list[str]:
    """Return what is wrong with a deployment, in the server's words.

    Args:
        known_hosts: host ids that roles may name.
        rejected: name of a role that is refused; its text holds `{message}`.
    """
    found = [*_twice(doc)]
    for cluster, service in all_services(doc):
        found += _service_faults(cluster, service, known_hosts, rejected)
    found += _account_faults(doc)
    return [*found, *_template_faults(doc)]


def _twice(doc: Doc) -> Iterator[str]:
    named = {
        "host": [host.get("hostId") for host in hosts(doc)],
        "cluster": [cluster.get("name") for cluster in clusters(doc)],
        "user": [user.get("name") for user in users(doc)],
    }
    for kind, names in named.items():
        for name in _repeated(names):
            yield f"Duplicate entity: {kind} '{_plain(name)}' is listed twice."
        if None in names or "" in names:
            yield f"Cannot read the deployment: a {kind} has no name."


def _service_faults(cluster: Doc | None, service: Doc, known_hosts: set[str], rejected: str) -> Iterator[str]:
    groups = {group.get("name") for group in service.get("roleConfigGroups") or []}
    for name in _repeated(role.get("name") for role in roles(service)):
        yield f"Duplicate entity: role '{_plain(name)}' is listed twice."
    for role in roles(service):
        name = _plain(role.get("name"))
        ref = role.get("hostRef") or {}
        host = ref.get("hostId") or ref.get("hostname")
        group = (role.get("roleConfigGroupRef") or {}).get("roleConfigGroupName")
        if rejected and role.get("name") == rejected:
            yield f"Role '{name}' of service '{_plain(service.get('name'))}': {{message}}"
        if len(str(role.get("name"))) > _LONGEST_NAME:
            yield f"Role name '{name}' is longer than {_LONGEST_NAME} characters."
        if host not in known_hosts:
            yield f"Host '{_plain(host)}' of role '{name}' not found."
        if group is not None and group not in groups:
            yield f"Role config group '{_plain(group)}' of role '{name}' not found."
    for group in service.get("roleConfigGroups") or []:
        ref = group.get("serviceRef") or {}
        if ref.get("serviceName", service.get("name")) != service.get("name"):
            yield f"Role config group '{_plain(group.get('name'))}' belongs to another service."
        if cluster and ref.get("clusterName", cluster.get("name")) != cluster.get("name"):
            yield f"Role config group '{_plain(group.get('name'))}' belongs to another cluster."


def _account_faults(doc: Doc) -> Iterator[str]:
    known = {role.get("name") for role in doc.get("authRoles") or []}
    for user in users(doc):
        for ref in user.get("authRoles") or []:
            name = str(ref.get("name") or "")
            if name and name not in known and not name.startswith("ROLE_"):
                yield f"Role '{_plain(name)}' of user '{_plain(user.get('name'))}' not found."


def _template_faults(doc: Doc) -> Iterator[str]:
    by_cluster: dict[str, set[str]] = {str(cluster.get("name")): set() for cluster in clusters(doc)}
    for cluster, service in all_services(doc):
        if cluster:
            names = {str(group.get("name")) for group in service.get("roleConfigGroups") or []}
            by_cluster[str(cluster.get("name"))] |= names
    for template in items(doc.get("hostTemplates")):
        owner = (template.get("clusterRef") or {}).get("clusterName")
        if owner not in by_cluster:
            yield f"Cluster '{_plain(owner)}' of host template '{_plain(template.get('name'))}' not found."
            continue
        for ref in template.get("roleConfigGroupRefs") or []:
            if ref.get("roleConfigGroupName") not in by_cluster[owner]:
                yield f"Role config group '{_plain(ref.get('roleConfigGroupName'))}' of a host template not found."


def _repeated(names: Iterable[object]) -> list[object]:
    return [name for name, times in Counter(names).items() if times > 1]


def _plain(name: object) -> str:
    return str(name).replace("{", "(").replace("}", ")")
