"""Write the configuration that makes the toolkit talk to a lab."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from maint.lab.document import Doc


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


def groups_of(deployment: Doc, host_id: str) -> Sequence[str]:
    """Return the groups of a host, told by the roles it carries."""
    found = set()
    for cluster in deployment.get("clusters") or []:
        types = {
            str(role.get("type"))
            for service in cluster.get("services") or []
            for role in service.get("roles") or []
            if (role.get("hostRef") or {}).get("hostId") == host_id
        }
        if types & {"ECS_SERVER", "DOCKER_SERVER", "ECS_AGENT"}:
            found |= {"ecs"} | ({"ecs-master"} if "ECS_SERVER" in types else set())
        elif types:
            found.add("base")
    return sorted(found)
