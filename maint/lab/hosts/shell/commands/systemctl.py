"""systemctl, pidof, kill: the machine's units and their processes."""

import uuid
from collections.abc import Callable

from maint.lab.hosts.machine import Unit
from maint.lab.hosts.shell.call import Call, Failed, NotSimulated, Options

Verb = Callable[[Call, Options], int]

_SUFFIXES = (".service", ".socket", ".timer", ".target")
_WANTS = "/etc/systemd/system/multi-user.target.wants"


def systemctl(call: Call) -> int:
    """`systemctl VERB UNIT…`; a unit is enabled when multi-user.target wants it or nothing says otherwise."""
    options = call.options("p:", ("quiet", "no-pager", "value", "now"))
    verb = (options.operands or [""])[0]
    if verb not in VERBS:
        raise NotSimulated(f"verb {verb}")
    return VERBS[verb](call, options)


def _units(options: Options) -> list[str]:
    return options.operands[1:]


def _full(name: str) -> str:
    return name if name.endswith(_SUFFIXES) else name + ".service"


def _unit(call: Call, name: str) -> Unit | None:
    return call.machine.units.get(name.removesuffix(".service")) or call.machine.units.get(_full(name))


def _is_active(call: Call, options: Options) -> int:
    units = _units(options)
    states = [_state(call, name) for name in units]
    if "quiet" not in options:
        call.out("".join(f"{state}\n" for state in states))
    return 0 if "active" in states else 4 if all(_unit(call, name) is None for name in units) else 3


def _state(call: Call, name: str) -> str:
    unit = _unit(call, name)
    if unit is None:
        return "inactive"
    return "active" if unit.active() else unit.properties().get("ActiveState", "inactive")


def _file_state(call: Call, name: str) -> str:
    unit = _unit(call, name)
    masked = f"{_WANTS}/{_full(name)}"
    if call.files.exists(masked, follow=False):
        return "enabled"
    if call.files.exists(f"/etc/systemd/system/{_full(name)}.disabled"):
        return "disabled"
    return unit.properties().get("UnitFileState", "enabled") if unit else "not-found"


def _change(work: Callable[[Unit], None]) -> Verb:
    def changed(call: Call, options: Options) -> int:
        status = 0
        for name in _units(options):
            unit = _unit(call, name)
            if unit is None:
                verb = options.operands[0]
                call.stderr.write(f"Failed to {verb} {_full(name)}: Unit {_full(name)} not found.\n".encode())
                status = 5
                continue
            work(unit)
        return status

    return changed


def _start(unit: Unit) -> None:
    if not unit.active():
        unit.start()


def _stop(unit: Unit) -> None:
    if unit.active() or unit.properties().get("ActiveState") == "activating":
        unit.stop()


def _enable(call: Call, options: Options) -> int:
    verb = options.operands[0]
    for name in _units(options):
        link, mark = f"{_WANTS}/{_full(name)}", f"/etc/systemd/system/{_full(name)}.disabled"
        unit = _unit(call, name)
        if unit is None:
            call.stderr.write(f"Failed to {verb} unit: Unit file {_full(name)} does not exist.\n".encode())
            return 1
        for before in (link, mark):
            if call.files.exists(before, follow=False):
                call.files.remove(before)
        if verb == "enable":
            call.files.make_folders(_WANTS)
            call.files.link(f"/usr/lib/systemd/system/{_full(name)}", link)
        else:
            call.files.write(mark, b"")
        if "now" in options:
            (_start if verb == "enable" else _stop)(unit)
    return 0


def _properties(call: Call, name: str) -> dict[str, str]:
    unit = _unit(call, name)
    known = {"Id": _full(name), "LoadState": "not-found", "ActiveState": "inactive", "SubState": "dead"}
    known |= {"UnitFileState": "", "MainPID": "0", "InvocationID": "", "NRestarts": "0", "Result": "success"}
    known |= {"ActiveEnterTimestamp": "", "FragmentPath": ""}
    if unit:
        active = unit.active()
        known |= {"LoadState": "loaded", "UnitFileState": _file_state(call, name)}
        known |= {"ActiveState": "active" if active else "inactive", "SubState": "running" if active else "dead"}
        known |= {"FragmentPath": f"/usr/lib/systemd/system/{_full(name)}"} | unit.properties()
    return known


def _show(call: Call, options: Options) -> int:
    wanted = [name for text in options.all("p") for name in text.split(",")]
    for place, name in enumerate(_units(options)):
        known = _properties(call, name)
        if place:
            call.out("\n")
        for key in [k for k in known if k in wanted] if wanted else known:
            call.out((known[key] if "value" in options else f"{key}={known[key]}") + "\n")
    return 0


def _status(call: Call, options: Options) -> int:
    code = 0
    for name in _units(options):
        known = _properties(call, name)
        if known["LoadState"] == "not-found":
            call.stderr.write(f"Unit {_full(name)} could not be found.\n".encode())
            code = 4
            continue
        since = f" since {known['ActiveEnterTimestamp']}" if known["ActiveEnterTimestamp"] else ""
        call.out(
            f"{known['Id']}\n   Loaded: {known['LoadState']} ({known['FragmentPath']}; {known['UnitFileState']})\n"
        )
        call.out(f"   Active: {known['ActiveState']} ({known['SubState']}){since}\n Main PID: {known['MainPID']}\n")
        code = code or (0 if known["ActiveState"] == "active" else 3)
    return code


def _reboot(call: Call, _: Options) -> int:
    """Start the host anew: what lay in memory is gone, and the kernel has another boot's id."""
    call.files.write("/proc/sys/kernel/random/boot_id", f"{uuid.uuid4()}\n".encode())
    if call.files.exists("/run/k3s/.busy"):
        call.files.remove("/run/k3s/.busy")
    call.machine.tell("reboot")
    return 0


def pidof(call: Call) -> int:
    """`pidof [-s] NAME…`: the main processes of active units."""
    names = call.options("s").operands
    found = [process for unit, process in _processes(call).items() if any(name in unit for name in names)]
    if found:
        call.out(" ".join(found) + "\n")
    return 0 if found else 1


def kill(call: Call) -> int:
    """`kill -0 PID…`: asks whether it is there; units are stopped with systemctl."""
    if call.args[:1] != ["-0"]:
        raise NotSimulated("sending a signal")
    known = {*_processes(call).values(), *(str(number) for number in call.machine.shells)}
    for number in call.args[1:]:
        if number not in known:
            raise Failed(f"({number}) - No such process")
    return 0


def _processes(call: Call) -> dict[str, str]:
    """Return the main process by active unit."""
    found = {name: unit.properties().get("MainPID", "0") for name, unit in call.machine.units.items() if unit.active()}
    return {name: process for name, process in sorted(found.items()) if process != "0"}


VERBS: dict[str, Verb] = {
    "disable": _enable,
    "enable": _enable,
    "is-active": _is_active,
    "reboot": _reboot,
    "restart": _change(lambda unit: unit.restart()),
    "show": _show,
    "start": _change(_start),
    "status": _status,
    "stop": _change(_stop),
}
