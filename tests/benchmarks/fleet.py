"""Ask 1, 20 and 100 real OpenSSH servers on loopback the same twelve questions, with maint and with others.

    python -m tests.benchmarks.fleet [--hosts 1,20,100] [--rounds 5] [--others PYTHON] [--slow]

The floor is plain `ssh` under `xargs -P`, with the same combined script on its input. All run in one go, so the ratios
mean something on whatever machine it is. `--others` names a Python in whose environment asyncssh, Fabric, pyinfra and
ansible-core are looked for; what is not there is left out and said. `--slow` adds those that take minutes.
"""

# ruff: noqa: E501 - command lines of others are kept in one piece

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from maint.checks.registry import CHECKS, QUESTIONS
from maint.checks.script import script

IDS = (
    "os.swappiness", "os.overcommit", "os.somaxconn", "os.entropy", "os.umask", "net.hosts", "net.localhost",
    "disk.inodes", "disk.ro", "os.kernel", "os.tz", "net.multihome",
)  # fmt: skip
COMMANDS = (
    "cat /proc/sys/vm/swappiness", "cat /proc/sys/vm/overcommit_memory", "cat /proc/sys/net/core/somaxconn",
    "cat /proc/sys/kernel/random/poolsize", "sh -c umask", "cat /etc/hosts", "getent ahostsv4 localhost", "df -Pi /",
    "cat /proc/mounts", "uname -r", "date +%Z%z", "ip -4 -o addr show scope global",
)  # fmt: skip
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


@dataclass(frozen=True)
class Took:
    """What one run cost: seconds by the clock and of this side's processors, and its largest process in MiB."""

    wall: float
    cpu: float
    memory: float


class Servers:
    """Real servers, each with a port of its own."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.ports: list[int] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        sshd = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:" + os.environ["PATH"]) or sys.exit("no sshd")
        Path("/run/sshd").mkdir(exist_ok=True)
        host, own = self._key("host"), self._key("id")
        (folder / "authorized_keys").write_text(own)
        (folder / "config").write_text(
            f"HostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized_keys\nPidFile none\nStrictModes no\n"
            "UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nMaxStartups 500\n"
            "PermitRootLogin prohibit-password\nSetEnv SHLVL=2\n"  # SHLVL: bash then reads no ~/.bashrc
        )
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        self.ports = [sock.getsockname()[1] for sock in held]
        for sock in held:
            sock.close()
        for port in self.ports:
            words = [sshd, "-D", "-f", str(folder / "config"), "-o", f"ListenAddress=127.0.0.1:{port}"]
            self._processes.append(subprocess.Popen(words, stderr=subprocess.DEVNULL))
        (folder / "known_hosts").write_text("".join(f"[127.0.0.1]:{port} {host}" for port in self.ports))
        self._wait()

    def _key(self, name: str) -> str:
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(self.folder / name)]
        subprocess.run(words, check=True)
        return (self.folder / f"{name}.pub").read_text().strip() + "\n"

    def _wait(self) -> None:
        for port in self.ports:
            for _ in range(200):
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.05)

    def close(self) -> None:
        """Stop them all."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()


def measured(words: Sequence[str], folder: Path) -> Took:
    """Run a command and return what it cost, its children included."""
    environ = {**os.environ, "HOME": str(folder), "ANSIBLE_CONFIG": str(folder / "ansible.cfg")}
    environ = {name: value for name, value in environ.items() if not name.startswith("MAINT_")}
    begun = time.perf_counter()
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environ, cwd=folder
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1) or (process.returncode and "maint.cli.app" not in str(words)):  # 1: findings
        raise RuntimeError(
            f"{Path(words[0]).name} ended with {process.returncode}: {(folder / 'output').read_text()[-500:]}"
        )
    return Took(time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def prepared(servers: Servers, others: str) -> dict[str, Callable[[Sequence[int]], list[str]]]:
    """Write what each contestant needs; return how each is called for some ports."""
    folder, user = servers.folder, os.environ.get("USER") or "root"
    asked = {q: t for q, t in QUESTIONS.items() if any(q in CHECKS[check].asks for check in IDS)}
    (folder / "script").write_bytes(script(asked, {}, "maint-0123456789abcdef01234567"))
    (folder / "commands").write_text("\n".join(COMMANDS) + "\n")
    (folder / "ask_asyncssh.py").write_text(_ASYNCSSH)
    (folder / "fabric_groups.py").write_text(_FABRIC)
    (folder / "pyinfra_deploy.py").write_text(
        "from pyinfra.operations import server\n" + "".join(f"server.shell(commands=[{c!r}])\n" for c in COMMANDS)
    )
    tasks = "".join(f"    - command: {command}\n" for command in COMMANDS)
    (folder / "play.yml").write_text(f"- hosts: all\n  gather_facts: false\n  tasks:\n{tasks}")
    (folder / "ansible.cfg").write_text("[defaults]\nforks = 100\n[ssh_connection]\npipelining = true\n")
    options = (
        f"-F none -i {folder}/id -o IdentitiesOnly=yes -o BatchMode=yes -o UserKnownHostsFile={folder}/known_hosts"
    )
    keyed = [str(folder / "known_hosts"), str(folder / "id"), user]

    def floor(ports: Sequence[int]) -> list[str]:
        one = f"exec ssh {options} -o KexAlgorithms=curve25519-sha256 -p $0 {user}@127.0.0.1 exec /bin/sh -s < {folder}/script"
        listed = " ".join(map(str, ports))
        return ["sh", "-c", f"printf '%s\\n' {listed} | xargs -P {len(ports)} -n 1 sh -c {one!r}"]

    def own(ports: Sequence[int]) -> list[str]:
        hosts = "".join(
            f"      - {{name: h{port}, address: 127.0.0.1, port: {port}, groups: [base]}}\n" for port in ports
        )
        (folder / "config.yaml").write_text(
            f"sites:\n  bench:\n    manager: {{host: cm, username: a, password: 'env:NOBODY'}}\n    ssh: {{user: {user},"
            f" key: {folder}/id, known_hosts: {folder}/known_hosts, at_once: {max(len(ports), 1)}}}\n    hosts:\n{hosts}"
        )
        checks = [word for check in IDS for word in ("--check", check)]
        maint = [sys.executable, "-c", "from maint.cli.app import main; main()"]
        return [*maint, "host", "check", "-o", "json", "--config", str(folder / "config.yaml"), *checks]

    def groups(ports: Sequence[int]) -> list[str]:
        return [others, f"{folder}/fabric_groups.py", *keyed, f"{folder}/commands", *map(str, ports)]

    def inventory(ports: Sequence[int]) -> None:
        line = "h{0} ansible_host=127.0.0.1 ansible_port={0} ansible_user={1} ansible_ssh_private_key_file={2}\n"
        (folder / "hosts.ini").write_text("".join(line.format(port, user, folder / "id") for port in ports))
        (folder / "inventory.py").write_text(
            f"hosts = [(f'h{{p}}', dict(ssh_hostname='127.0.0.1', ssh_port=p, ssh_user={user!r},"
            f" ssh_key={str(folder / 'id')!r}, ssh_known_hosts_file={str(folder / 'known_hosts')!r},"
            f" ssh_strict_host_key_checking='yes')) for p in {list(ports)}]\n"
        )

    def pyinfra(ports: Sequence[int]) -> list[str]:
        inventory(ports)
        return [str(Path(others).parent / "pyinfra"), "-y", "--parallel", "100", "inventory.py", "pyinfra_deploy.py"]

    def ansible(ports: Sequence[int]) -> list[str]:
        inventory(ports)
        common = f"-o UserKnownHostsFile={folder}/known_hosts"
        play = str(Path(others).parent / "ansible-playbook")
        return [play, "-i", "hosts.ini", "--ssh-common-args", common, "play.yml"]

    return {
        "ssh under xargs (floor)": floor,
        "maint host check": own,
        "asyncssh, one script": lambda ports: [
            others,
            f"{folder}/ask_asyncssh.py",
            *keyed,
            f"{folder}/script",
            *map(str, ports),
        ],
        "Fabric groups, 12 runs": groups,
        "pyinfra, 12 operations": pyinfra,
        "ansible-core, 12 tasks": ansible,
    }


def main() -> None:
    """Run all contestants and print a table in Markdown."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--hosts", default="1,20,100")
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("--others", default=sys.executable)
    words.add_argument("--slow", action="store_true")
    given = words.parse_args()
    counts = [int(count) for count in given.hosts.split(",")]
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        servers = Servers(Path(name), max(counts))
        try:
            for count in counts:
                compare(servers, given.others, count, given.rounds, slow=given.slow)
        finally:
            servers.close()


def compare(servers: Servers, others: str, count: int, rounds: int, *, slow: bool) -> None:
    """Print one table: medians, and ratios to the floor."""
    print(
        f"\n{count} hosts, medians of {rounds}\n\n| | wall s | of floor | CPU s | of floor | MiB |\n|---|---|---|---|---|---|"
    )
    found: dict[str, list[Took]] = {}
    contestants = prepared(servers, others)
    for number in range(rounds):
        for name, call in contestants.items():
            long = name.startswith(("ansible", "pyinfra", "Fabric"))
            if (long and (not slow or number > 0)) or (number > 0 and name not in found):
                continue
            try:
                found.setdefault(name, []).append(measured(call(servers.ports[:count]), servers.folder))
            except (RuntimeError, OSError) as error:
                found.pop(name, None)
                print(f"({name} left out: {str(error)[:300]!r})", file=sys.stderr)
    floor = next(iter(found.values()))
    wall, cpu = (statistics.median(getattr(took, kind) for took in floor) for kind in ("wall", "cpu"))
    for name, runs in found.items():
        own = [statistics.median(getattr(took, kind) for took in runs) for kind in ("wall", "cpu", "memory")]
        print(
            f"| {name} | {own[0]:.2f} | {own[0] / wall:.2f} | {own[1]:.2f} | {own[1] / cpu:.2f} | {own[2]:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
