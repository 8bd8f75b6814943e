"""Ask 1, 20 and 100 real OpenSSH servers on loopback the same twelve questions, with maint and with others.

    python -m tests.benchmarks.fleet [--hosts 1,20,100] [--rounds 5] [--others PYTHON] [--slow] [--only NAME…]

The floor is plain `ssh` under `xargs -P`, with the same combined script on its input. All run in turns, so the ratios
mean something on whatever machine it is. `--others` names a Python in whose environment asyncssh, Fabric, parallel-ssh,
pyinfra and ansible-core are looked for; what is not there is left out and said. `--slow` adds those that take minutes,
once. `--only` names some of: fleets, trips (20 hosts over a longer way), questions (12 and 60), silent (one host drops
packets).
"""

import argparse
import contextlib
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.fleet_rivals import Call, Rivals, questions, sixty

PARTS = ("fleets", "trips", "questions", "silent")


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
        self._host, own = self._key("host"), self._key("id")
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
        self.know(self.ports)
        for port in self.ports:
            self._wait(port)

    def know(self, ports: Sequence[int]) -> None:
        """Record the servers' key for ports that lead to them."""
        with (self.folder / "known_hosts").open("a") as known:
            known.writelines(f"[127.0.0.1]:{port} {self._host}" for port in ports)

    def _key(self, name: str) -> str:
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(self.folder / name)]
        subprocess.run(words, check=True)
        return (self.folder / f"{name}.pub").read_text().strip() + "\n"

    def _wait(self, port: int) -> None:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.05)

    def close(self) -> None:
        """Stop them all."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()


def surroundings(folder: Path) -> dict[str, str]:
    """Return the environment of a contestant: nobody's own settings, and byte code kept, as an installation does."""
    without = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAINT_") and name not in without}
    own = {"HOME": folder, "ANSIBLE_CONFIG": folder / "ansible.cfg", "PYTHONPYCACHEPREFIX": folder / "bytecode"}
    return kept | {name: str(path) for name, path in own.items()}


def measured(words: Sequence[str], folder: Path) -> Took:
    """Run a command and return what it cost, its children included."""
    begun = time.perf_counter()
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=surroundings(folder), cwd=folder
        )
        _, status, used = os.wait4(process.pid, 0)
    took = Took(time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
    process.returncode = os.waitstatus_to_exitcode(status)
    said = (folder / "output").read_text(errors="replace")
    own = "maint.cli.start" in str(words)  # whose status tells what was found
    if process.returncode not in ((0, 1, 7) if own else (0,)) or (own and '"reached": false' in said):
        raise RuntimeError(f"{Path(words[0]).name} ended with {process.returncode}: {said[-500:]}")
    return took


def middle(runs: Sequence[Took], kind: str = "wall") -> float:
    """Return the median."""
    return statistics.median(getattr(took, kind) for took in runs)


def in_turns(contestants: Mapping[str, Callable[[], list[str]]], folder: Path, rounds: int) -> dict[str, list[Took]]:
    """Run contestants one after the other, round by round; one that fails is left out, and said."""
    found: dict[str, list[Took]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, words in contestants.items():
            if name not in found:
                continue
            try:
                found[name].append(measured(words(), folder))
                print(f"  {name}: {found[name][-1].wall:.2f} s", file=sys.stderr, flush=True)
            except (RuntimeError, OSError) as error:
                del found[name]
                print(f"({name} left out: {str(error)[:300]!r})", file=sys.stderr)
    return found


def compare(servers: Servers, rivals: Mapping[str, Call], count: int, rounds: int) -> dict[str, list[Took]]:
    """Print one table: medians, and ratios to the first, the floor."""
    ports = servers.ports[:count]
    found = in_turns({name: lambda call=call: call(ports) for name, call in rivals.items()}, servers.folder, rounds)
    print(f"\n{count} hosts, medians of {rounds}; load {os.getloadavg()[0]:.0f}\n")
    print("| | wall s | of floor | CPU s | of floor | MiB |\n|---|---|---|---|---|---|")
    floor = next(iter(found.values()))
    for name, runs in found.items():
        wall, cpu = middle(runs) / middle(floor), middle(runs, "cpu") / middle(floor, "cpu")
        print(
            f"| {name} | {middle(runs):.2f} | {wall:.2f} | {middle(runs, 'cpu'):.2f} | {cpu:.2f}"
            f" | {middle(runs, 'memory'):.0f} |",
            flush=True,
        )
    return found


def fleets(servers: Servers, rivals: Rivals, counts: Sequence[int], rounds: int, *, slow: bool) -> None:
    """Print tables for each size, and what a further host takes."""
    memory = {}
    for count in counts:
        found = compare(servers, rivals.quick, count, rounds)
        memory[count] = {name: middle(runs, "memory") for name, runs in found.items()}
    small, large = min(counts), max(counts)
    for name in memory[large] if large > small else ():
        grown = (memory[large][name] - memory[small].get(name, 0.0)) / (large - small)
        print(f"\n{name}: {1024 * grown:.0f} KiB a further host")
    if slow:
        first = {name: call for name, call in rivals.quick.items() if not name.startswith("asyncssh")}
        compare(servers, first | rivals.slow, large, 1)


@contextlib.contextmanager
def longer_way(servers: Servers, trip: int, count: int) -> Iterator[list[int]]:
    """Yield ports that lead to servers over a way of so many milliseconds there and back."""
    words = [sys.executable, "-m", "tests.benchmarks.delay", str(trip), *map(str, servers.ports[:count])]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ports = [int(word) for word in process.stdout.readline().split()]
        servers.know(ports)
        yield ports
    finally:
        process.communicate("")


def trips(servers: Servers, rivals: Rivals, rounds: int) -> None:
    """Print what a longer way makes of twenty hosts."""
    print(f"\n20 hosts over a delaying relay, medians of {rounds}\n")
    print("| round trip | floor s | maint s | ratio |\n|---|---|---|---|")
    for trip in (0, 10, 50):
        with longer_way(servers, trip, 20) as ports:
            both = {"floor": lambda ports=ports: rivals.floor(ports), "maint": lambda ports=ports: rivals.maint(ports)}
            found = in_turns(both, servers.folder, rounds)
        floor, own = middle(found["floor"]), middle(found["maint"])
        print(f"| {trip} ms | {floor:.2f} | {own:.2f} | {own / floor:.2f} |  load {os.getloadavg()[0]:.0f}", flush=True)


def more_questions(servers: Servers, rivals: Rivals, rounds: int) -> None:
    """Print what sixty questions take instead of twelve, at 10 ms."""
    chosen = sixty()
    with longer_way(servers, 10, 1) as ports:
        found = in_turns(
            {
                "maint12": lambda: rivals.maint(ports),
                "maint60": lambda: rivals.maint(ports, chosen),
                "alone12": lambda: rivals.alone("script", 1),
                "alone60": lambda: rivals.alone("script60", 1),
            },
            servers.folder,
            rounds,
        )
    few, many, own_few, own_many = (middle(found[name]) for name in ("maint12", "maint60", "alone12", "alone60"))
    beyond = (many - few) - (own_many - own_few)
    print(
        f"\n{len(questions(chosen))} questions instead of 12, one host, 10 ms: {many:.2f} s instead of {few:.2f} s;"
        f" the programs alone {own_many:.2f} s instead of {own_few:.2f} s; beyond that {100 * beyond / few:+.0f} %"
    )


def silent_host(servers: Servers, rivals: Rivals, count: int, rounds: int) -> None:
    """Print when the last answer of the live hosts is shown, with and without a host that drops packets."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port, held = full.getsockname()[1], [socket.socket() for _ in range(4)]
        for sock in held:  # its queue is full from now on: what comes further is dropped
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))
        live = servers.ports[: count - 1]
        shown: dict[str, list[float]] = {"without": [], "with": []}
        for _ in range(rounds):
            for name, ports in (("without", live), ("with", [*live, port])):
                shown[name].append(_last_shown(rivals.maint(ports, *_TOLD), len(live), servers.folder))
        for sock in held:
            sock.close()
    without, with_it = statistics.median(shown["without"]), statistics.median(shown["with"])
    print(f"\n{len(live)} live hosts: all shown after {without:.2f} s, with a silent one after {with_it:.2f} s")


_TOLD = (("os.swappiness",), "-v")


def _last_shown(words: Sequence[str], count: int, folder: Path) -> float:
    begun, heard, last = time.perf_counter(), 0, 0.0
    with subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=surroundings(folder), cwd=folder, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "answered in" in line:
                heard, last = heard + 1, time.perf_counter() - begun
    if heard != count:
        raise RuntimeError(f"{heard} of {count} answered")
    return last


def main() -> None:
    """Run all contestants and print tables in Markdown."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--hosts", default="1,20,100")
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("--others", default=sys.executable)
    words.add_argument("--slow", action="store_true")
    words.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    given = words.parse_args()
    counts = [int(count) for count in given.hosts.split(",")]
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        servers = Servers(Path(name), max(*counts, 20))
        rivals = Rivals(Path(name), given.others)
        try:
            in_turns(
                {n: lambda c=c: c(servers.ports[:1]) for n, c in rivals.quick.items()}, servers.folder, 1
            )  # byte code
            if "fleets" in given.only:
                fleets(servers, rivals, counts, given.rounds, slow=given.slow)
            if "trips" in given.only:
                trips(servers, rivals, given.rounds)
            if "questions" in given.only:
                more_questions(servers, rivals, given.rounds)
            if "silent" in given.only:
                silent_host(servers, rivals, max(counts), given.rounds)
        finally:
            servers.close()


if __name__ == "__main__":
    main()
