"""What asks a fleet the same twelve questions: plain ssh as the floor, maint, and what else there is."""

# ruff: noqa: E501 - command lines of others are kept in one piece

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from maint.checks.gather import script
from maint.checks.registry import CHECKS, QUESTIONS

IDS = (
    "os.swappiness", "os.overcommit", "os.somaxconn", "os.entropy", "os.umask", "net.hosts", "net.localhost",
    "disk.inodes", "disk.ro", "os.kernel", "os.tz", "net.multihome",
)  # fmt: skip
# What waits for a network says nothing about us.
_FAR = {"peers", "endpoints", "reverse", "forward", "wildcard", "kdc", "agent_reach", "certificate"}
COMMANDS = (
    "cat /proc/sys/vm/swappiness", "cat /proc/sys/vm/overcommit_memory", "cat /proc/sys/net/core/somaxconn",
    "cat /proc/sys/kernel/random/poolsize", "sh -c umask", "cat /etc/hosts", "getent ahostsv4 localhost", "df -Pi /",
    "cat /proc/mounts", "uname -r", "date +%Z%z", "ip -4 -o addr show scope global",
)  # fmt: skip
_TOKEN = "maint-0123456789abcdef01234567"
_ASYNCSSH = """
import asyncio, asyncssh, sys
known, key, user, script, *ports = sys.argv[1:]
text = open(script, "rb").read()
async def ask(port):
    async with asyncssh.connect("127.0.0.1", int(port), known_hosts=known, client_keys=[key], username=user,
                                agent_path=None, config=None) as c:
        return (await c.run("exec /bin/sh -s", input=text, encoding=None)).stdout
async def main():
    assert all(b"done" in out for out in await asyncio.gather(*map(ask, ports)))
asyncio.run(main())
"""
_FABRIC = """
import sys
from fabric import Connection, ThreadingGroup
known, key, user, commands, *ports = sys.argv[1:]
made = [Connection("127.0.0.1", user=user, port=int(p), connect_kwargs={"key_filename": key, "allow_agent": False,
        "look_for_keys": False}) for p in ports]
for c in made:
    c.client.load_host_keys(known)
group = ThreadingGroup.from_connections(made)
for command in open(commands).read().splitlines():
    assert all(r.ok for r in group.run(command, hide=True).values())
"""
_PARALLEL = """
import sys
from pssh.clients import ParallelSSHClient
from pssh.config import HostConfig
known, key, user, commands, *ports = sys.argv[1:]
client = ParallelSSHClient(["127.0.0.1"] * len(ports), user=user, pkey=key, pool_size=len(ports),
                           host_config=[HostConfig(port=int(p)) for p in ports])
for command in open(commands).read().splitlines():
    answers = client.run_command(command)
    assert all(list(a.stdout) is not None and a.exit_code == 0 for a in answers)
"""

Call = Callable[[Sequence[int]], list[str]]


def questions(ids: Sequence[str]) -> dict[str, str]:
    """Return what some checks ask."""
    return {name: text for name, text in QUESTIONS.items() if any(name in CHECKS[check].asks for check in ids)}


def sixty() -> list[str]:
    """Return checks that ask sixty questions altogether, the twelve among them."""
    chosen = list(IDS)
    for check in CHECKS.values():
        more = questions([*chosen, check.id])
        if not (check.opt_in or check.needs_manager) and len(more) <= 60 and not _FAR & set(more):
            chosen.append(check.id)
    return list(dict.fromkeys(chosen))


class Rivals:
    """Each contestant's command line for some ports.

    Args:
        folder: where keys and known hosts are, and where files for the contestants are written.
        others: a Python in whose environment others are looked for.
    """

    def __init__(self, folder: Path, others: str) -> None:
        self._folder = folder
        self._others = others
        self._user = os.environ.get("USER") or "root"
        self._keyed = [str(folder / "known_hosts"), str(folder / "id"), self._user]
        for name, ids in (("script", IDS), ("script60", sixty())):
            (folder / name).write_bytes(script(questions(ids), {}, _TOKEN))
        for name, text in (
            ("commands", "\n".join(COMMANDS) + "\n"),
            ("ask_asyncssh.py", _ASYNCSSH),
            ("fabric_groups.py", _FABRIC),
            ("parallel.py", _PARALLEL),
            ("ansible.cfg", "[defaults]\nforks = 100\n[ssh_connection]\npipelining = true\n"),
        ):
            (folder / name).write_text(text)
        (folder / "pyinfra_deploy.py").write_text(
            "from pyinfra.operations import server\n" + "".join(f"server.shell(commands=[{c!r}])\n" for c in COMMANDS)
        )
        tasks = "".join(f"    - command: {command}\n" for command in COMMANDS)
        (folder / "play.yml").write_text(f"- hosts: all\n  gather_facts: false\n  tasks:\n{tasks}")

    @property
    def quick(self) -> dict[str, Call]:
        """Those with one script in one channel."""
        return {
            "ssh under xargs (floor)": self.floor,
            "maint host check": self.maint,
            "asyncssh, one script": self._asyncssh,
        }

    @property
    def slow(self) -> dict[str, Call]:
        """Those that ask twelve times; they may take minutes."""
        return {
            "Fabric groups, 12 runs": lambda ports: self._twelve("fabric_groups.py", ports),
            "parallel-ssh, 12 runs": lambda ports: self._twelve("parallel.py", ports),
            "pyinfra, 12 operations": self._pyinfra,
            "ansible-core, 12 tasks": self._ansible,
        }

    def floor(self, ports: Sequence[int], name: str = "script") -> list[str]:
        """Return plain ssh, one process a host."""
        folder = self._folder
        options = (
            f"-F none -i {folder}/id -o IdentitiesOnly=yes -o BatchMode=yes -o UserKnownHostsFile={folder}/known_hosts"
        )
        one = f"exec ssh {options} -o KexAlgorithms=curve25519-sha256 -p $0 {self._user}@127.0.0.1 exec /bin/sh -s < {folder}/{name}"
        return ["sh", "-c", f"printf '%s\\n' {' '.join(map(str, ports))} | xargs -P {len(ports)} -n 1 sh -c {one!r}"]

    def alone(self, name: str, times: int) -> list[str]:
        """Return the script run here, without any connection: the programs' own time."""
        return ["sh", "-c", f"seq {times} | xargs -P {times} -n 1 sh -c 'exec /bin/sh -s < {self._folder}/{name}'"]

    def maint(self, ports: Sequence[int], ids: Sequence[str] = IDS, *more: str) -> list[str]:
        """Return our own command line."""
        folder = self._folder
        hosts = "".join(
            f"      - {{name: h{port}, address: 127.0.0.1, port: {port}, groups: [base, ecs, manager]}}\n"
            for port in ports
        )
        (folder / "config.yaml").write_text(
            f"sites:\n  bench:\n    manager: {{host: cm, username: a, password: 'env:NOBODY'}}\n    ssh: {{user: {self._user},"
            f" key: {folder}/id, known_hosts: {folder}/known_hosts, at_once: {max(len(ports), 1)}}}\n    hosts:\n{hosts}"
        )
        checks = [word for check in ids for word in ("--check", check)]
        start = [sys.executable, "-c", "from maint.cli.start import main; main()", "host", "check"]
        return [*start, *(more or ("-o", "json")), "--config", str(folder / "config.yaml"), *checks]

    def _asyncssh(self, ports: Sequence[int]) -> list[str]:
        return [
            self._others,
            f"{self._folder}/ask_asyncssh.py",
            *self._keyed,
            f"{self._folder}/script",
            *map(str, ports),
        ]

    def _twelve(self, program: str, ports: Sequence[int]) -> list[str]:
        return [self._others, f"{self._folder}/{program}", *self._keyed, f"{self._folder}/commands", *map(str, ports)]

    def _inventory(self, ports: Sequence[int]) -> None:
        key = str(self._folder / "id")
        line = "h{0} ansible_host=127.0.0.1 ansible_port={0} ansible_user={1} ansible_ssh_private_key_file={2}\n"
        (self._folder / "hosts.ini").write_text("".join(line.format(port, self._user, key) for port in ports))
        (self._folder / "inventory.py").write_text(
            f"hosts = [(f'h{{p}}', dict(ssh_hostname='127.0.0.1', ssh_port=p, ssh_user={self._user!r}, ssh_key={key!r},"
            f" ssh_known_hosts_file={str(self._folder / 'known_hosts')!r}, ssh_strict_host_key_checking='yes')) for p in {list(ports)}]\n"
        )

    def _pyinfra(self, ports: Sequence[int]) -> list[str]:
        self._inventory(ports)
        return [
            str(Path(self._others).parent / "pyinfra"),
            "-y",
            "--parallel",
            "100",
            "inventory.py",
            "pyinfra_deploy.py",
        ]

    def _ansible(self, ports: Sequence[int]) -> list[str]:
        self._inventory(ports)
        common = f"-o UserKnownHostsFile={self._folder}/known_hosts"
        play = str(Path(self._others).parent / "ansible-playbook")
        return [play, "-i", "hosts.ini", "--ssh-common-args", common, "play.yml"]
