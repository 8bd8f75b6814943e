"""Write the configuration that makes the toolkit talk to a lab."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from maint.lab.manager.document import Doc


def yaml(value: Mapping[str, Any]) -> str:  # Any: texts, numbers, lists and mappings
    """Return block-style YAML; every text is in double quotes, as JSON writes it."""
    return "\n".join(_lines(value)) + "\n"


def _lines(value: Any, indent: str = "") -> list[str]:  # Any: texts, numbers, lists and mappings
    lines: list[str] = []
    entries = value.items() if isinstance(value, Mapping) else [("-", member) for member in value]
    for name, member in entries:
        head = f"{indent}{name}" if name == "-" else f"{indent}{name}:"
        if isinstance(member, Mapping) and member and name == "-":
            inner = _lines(member, indent + "  ")
            lines += [f"{indent}- {inner[0].lstrip()}", *inner[1:]]
        elif isinstance(member, Mapping | list | tuple) and member:
            lines += [head, *_lines(member, indent + "  ")]
        else:
            lines.append(f"{head} {json.dumps(member)}")
    return lines


def groups_of(deployment: Doc) -> Mapping[str, Sequence[str]]:
    """Return the groups of each host that carries roles, by its id, told by these roles."""
    found: dict[str, set[str]] = {}
    for cluster in deployment.get("clusters") or []:
        for host, types in _types(cluster).items():
            groups = found.setdefault(host, set())
            if types & {"ECS_SERVER", "DOCKER_SERVER", "ECS_AGENT"}:
                groups |= {"ecs"} | ({"ecs-master"} if "ECS_SERVER" in types else set())
            else:
                groups.add("base")
    return {host: sorted(groups) for host, groups in found.items()}


def _types(cluster: Doc) -> dict[str, set[str]]:
    """Return the types of the roles of a cluster, by the host's id."""
    found: dict[str, set[str]] = {}
    for service in cluster.get("services") or []:
        for role in service.get("roles") or []:
            if isinstance(host := (role.get("hostRef") or {}).get("hostId"), str):
                found.setdefault(host, set()).add(str(role.get("type")))
    return found
