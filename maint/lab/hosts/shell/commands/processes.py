"""ps, pidof, pgrep, kill: the processes of the machine's active units."""

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated


def _running(call: Call) -> dict[str, str]:
    """Return the main process by unit."""
    return {
        name: unit.properties().get("MainPID", "0")
        for name, unit in sorted(call.machine.units.items())
        if unit.active() and unit.properties().get("MainPID", "0") != "0"
    }


def ps(call: Call) -> int:
    """`ps [-e|aux|-ef] [-o pid=,comm=] [-p PID]`: one line per active unit, number and name."""
    args = [a for a in call.args if a not in ("aux", "ax", "-ef", "-e", "-A", "aux", "-eo", "-o", "-p")]
    numbers = [a for a in args if a.isdigit()]
    columns = [a for a in args if not a.isdigit()]
    if columns and not all(set(c.split(",")) <= {"pid=", "comm=", "args=", "cmd=", "pid", "comm"} for c in columns):
        raise NotSimulated(" ".join(columns))
    if not any("=" in c for c in columns):
        call.out("    PID COMMAND\n")
    wanted = [(pid, name) for name, pid in _running(call).items() if not numbers or pid in numbers]
    for pid, name in wanted:
        call.out(f"{pid:>7} {name}\n")
    return 0 if wanted or not numbers else 1


def pgrep(call: Call) -> int:
    """`pgrep [-f|-x|-l] NAME`, `pidof NAME`."""
    options = call.options("fxlao", "u")
    found = [(pid, name) for name, pid in _running(call).items() if any(o in name for o in options.operands)]
    glue = " " if call.name == "pidof" else "\n"
    if found:
        call.out(glue.join(f"{pid} {name}" if "l" in options else pid for pid, name in found) + "\n")
    return 0 if found else 1


def kill(call: Call) -> int:
    """`kill [-SIGNAL] PID…`: asks whether it is there; units are stopped with systemctl."""
    numbers = [arg for arg in call.args if not arg.startswith("-")]
    known = {*_running(call).values(), *(str(number) for number in call.machine.shells)}
    for number in numbers:
        if number not in known:
            raise Failed(f"({number}) - No such process")
    if "-0" not in call.args:
        raise NotSimulated("sending a signal")
    return 0
