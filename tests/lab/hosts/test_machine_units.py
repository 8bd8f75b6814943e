"""A lab host's units, as systemctl shows and moves them."""

from pathlib import Path

import pytest

from maint.lab.hosts.furnish import furnish_host
from maint.lab.hosts.machine import Machine
from maint.lab.hosts.shell.executor import run


class Process:
    """A unit that remembers what it was told."""

    def __init__(self, running: bool = True) -> None:
        self.running, self.launches, self.told = running, 1, list[str]()

    def start(self) -> None:
        self.told.append("start")
        self.running, self.launches = True, self.launches + 1

    def stop(self) -> None:
        self.told.append("stop")
        self.running = False

    def restart(self) -> None:
        self.told.append("restart")
        self.running, self.launches = True, self.launches + 1

    def active(self) -> bool:
        return self.running

    def properties(self) -> dict[str, str]:
        return {"InvocationID": f"{self.launches:032x}", "MainPID": str(100 + self.launches) if self.running else "0"}


@pytest.fixture
def server() -> Process:
    return Process()


@pytest.fixture
def machine(tmp_path: Path, server: Process) -> Machine:
    machine = Machine("cm", tmp_path / "cm", {"cloudera-scm-server": server, "chronyd": Process(running=False)})
    furnish_host(machine)
    return machine


def _says(machine: Machine, command: str) -> tuple[int, str]:
    ended = run(machine, command)
    return ended.status, ended.out.decode()


def test_states_and_their_codes(machine: Machine) -> None:
    assert _says(machine, "systemctl is-active cloudera-scm-server") == (0, "active\n")
    assert _says(machine, "systemctl is-active chronyd.service") == (3, "inactive\n")
    assert _says(machine, "systemctl is-active --quiet nothing")[0] == 4
    assert _says(machine, "systemctl status chronyd")[0] == 3
    assert _says(machine, "systemctl status nothing")[0] == 4


def test_a_restart_is_a_new_invocation(machine: Machine, server: Process) -> None:
    show = "systemctl show -p InvocationID --value cloudera-scm-server"
    before = _says(machine, show)[1]
    assert _says(machine, "sudo -n systemctl restart cloudera-scm-server") == (0, "")
    assert _says(machine, show)[1] != before
    assert server.told == ["restart"]


def test_starting_what_runs_and_stopping_what_stands_does_nothing(machine: Machine, server: Process) -> None:
    assert _says(machine, "systemctl start cloudera-scm-server; systemctl stop chronyd")[0] == 0
    assert server.told == []
    assert _says(machine, "systemctl stop cloudera-scm-server; systemctl stop cloudera-scm-server")[0] == 0
    assert server.told == ["stop"]


def test_an_unknown_unit_is_not_found(machine: Machine) -> None:
    ended = run(machine, "systemctl restart nothing")
    assert (ended.status, ended.err) == (5, b"Failed to restart nothing.service: Unit nothing.service not found.\n")
    assert _says(machine, "systemctl show -p LoadState,ActiveState nothing")[1] == (
        "LoadState=not-found\nActiveState=inactive\n"
    )


def test_what_is_shown_is_asked_for(machine: Machine) -> None:
    asked = "systemctl show -p ActiveState,SubState,NRestarts cloudera-scm-server"
    assert _says(machine, asked)[1] == "ActiveState=active\nSubState=running\nNRestarts=0\n"


def test_disabling_is_remembered(machine: Machine) -> None:
    state = "systemctl show -p UnitFileState --value chronyd"
    assert _says(machine, f"systemctl disable chronyd; {state}") == (0, "disabled\n")
    assert _says(machine, f"systemctl enable --now chronyd; {state}") == (0, "enabled\n")
    assert machine.units["chronyd"].active()


def test_processes_are_those_of_active_units(machine: Machine) -> None:
    assert _says(machine, "pidof cloudera-scm-server; pidof chronyd") == (1, "101\n")


def test_watchers_hear_of_a_fault(machine: Machine) -> None:
    heard: list[str | None] = []
    machine.watchers.append(lambda: heard.append(machine.fault))
    machine.fault = "slow"
    machine.fault = None
    assert heard == ["slow", None]


def test_furnishing_leaves_what_is_there(machine: Machine) -> None:
    machine.files.write("/etc/hosts", b"mine\n")
    furnish_host(machine)
    assert machine.files.read("/etc/hosts") == b"mine\n"
