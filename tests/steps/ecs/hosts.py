"""The hosts of the lab's ECS cluster, seen from outside."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from maint.lab.hosts.machine import LOG, Machine
from maint.lab.hosts.shell.executor import run
from maint.lab.manager.document import items
from tests.steps.operator import Operator, Said

ONE, TWO = "ds-01.example.internal", "ds-02.example.internal"
STOP = "POST /api/v45/clusters/ecs-01/commands/stop"
DELETE = "DELETE /api/v45/clusters/ecs-01"
RETIRE = ("cluster", "delete", "ecs-01", "--confirm", "ecs-01")
ONCE = ["docker stop registry", "docker rm registry", "docker rmi registry:2", "dnf remove iscsi-initiator-utils"]


def retire(operator: Operator, *words: str) -> Said:
    """Delete the ECS cluster; only requests from here on count."""
    operator.forget_requests()
    return operator(*RETIRE, *words)


def machine(operator: Operator, name: str) -> Machine:
    return operator.lab.machines[name]


def did(operator: Operator, name: str) -> list[str]:
    """What was done on a host that cannot be taken back."""
    files = machine(operator, name).files
    return files.read(LOG).decode().splitlines() if files.exists(LOG) else []


def on(operator: Operator, name: str, command: str) -> str:
    """Run something on a host, past SSH."""
    ended = run(machine(operator, name), command)
    assert ended.status == 0, ended.err
    return ended.out.decode()


def tree(root: Path) -> dict[str, str]:
    """Return everything in a tree: a digest by path."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = Path(folder) / name
            shown = f"-> {path.readlink()}" if path.is_symlink() else "folder"
            if path.is_file() and not path.is_symlink():
                shown = hashlib.sha256(path.read_bytes()).hexdigest()
            found["/" + str(path.relative_to(root))] = shown
    return found


def trees(operator: Operator) -> dict[str, dict[str, str]]:
    return {name: tree(host.root) for name, host in operator.lab.machines.items()}


def set_data(operator: Operator, setting: str, path: str) -> None:
    """Change a data directory in the manager; `setting` is `service.name`."""
    service, name = setting.split(".")
    world = operator.lab.world
    with world.lock:
        cluster = next(one for one in world.deployment["clusters"] if one["name"] == "ecs-01")
        config = next(one for one in cluster["services"] if one["name"] == service)["config"]
        next(item for item in items(config) if item["name"] == name)["value"] = path


def when_told(host: Machine, words: str, act: Callable[[], object]) -> None:
    """Do something once, just after a host has done something that cannot be taken back."""
    tell, done = host.tell, []

    def told(said: str) -> None:
        tell(said)
        if said.startswith(words) and not done:
            done.append(said)
            act()

    host.tell = told  # type: ignore[method-assign]  # the lab's own seam for what is done on a host
