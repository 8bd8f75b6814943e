"""systemctl over the machine's units."""

import uuid
from collections.abc import Callable

from maint.lab.hosts.machine import Unit
from maint.lab.hosts.shell.call import Call, NotSimulated, Options

Verb = Callable[[Call, Options, list[str]], int]

_SUFFIXES = (".service", ".socket", ".timer", ".target")
_WANTS = "/etc/systemd/system/multi-user.target.wants"


def systemctl(call: Call) -> int:
    """`systemctl [-q] VERB UNIT…`; a unit is enabled when multi-user.target wants it or nothing says otherwise."""
    options = call.options("qla", "pnt", (
        "quiet", "no-pager", "value", "property=", "now", "no-block", "all", "plain", "no-legend", "full", "type=",
        "state=", "lines=", "no-ask-password",
    ))  # fmt: skip
    verb, *units = options.operands or ["list-units"]
    if verb not in VERBS:
        raise NotSimulated(f"verb {verb}")
    return VERBS[verb](call, options, units)


def _short(name: str) -> str:
    return name.removesuffix(".service")


def _full(name: str) -> str:
    return name if name.endswith(_SUFFIXES) else name + ".service"


def _unit(call: Call, name: str) -> Unit | None:
    return call.machine.units.get(_short(name)) or call.machine.units.get(_full(name))


def _said(call: Call, options: Options, text: str) -> None:
    if "q" not in options and "quiet" not in options:
        call.out(text + "\n")


def _is_active(call: Call, options: Options, units: list[str]) -> int:
    states = [_state(call, name) for name in units]
    for state in states:
        _said(call, options, state)
    return 0 if "active" in states else 4 if all(_unit(call, name) is None for name in units) else 3


def _state(call: Call, name: str) -> str:
    unit = _unit(call, name)
    if unit is None:
        return "inactive"
    return "active" if unit.active() else unit.properties().get("ActiveState", "inactive")


def _is_failed(call: Call, options: Options, units: list[str]) -> int:
    states = [_state(call, name) for name in units]
    for state in states:
        _said(call, options, state)
    return 0 if "failed" in states else 1


def _is_enabled(call: Call, options: Options, units: list[str]) -> int:
    status = 1
    for name in units:
        if _unit(call, name) is None:
            call.stderr.write(f"Failed to get unit file state for {_full(name)}: No such file or directory\n".encode())
            continue
        state = _file_state(call, name)
        _said(call, options, state)
        status = 0 if state == "enabled" else status
    return status


def _file_state(call: Call, name: str) -> str:
    unit = _unit(call, name)
    masked = f"{_WANTS}/{_full(name)}"
    if call.files.exists(masked, follow=False):
        return "enabled"
    if call.files.exists(f"/etc/systemd/system/{_full(name)}.disabled"):
        return "disabled"
    return unit.properties().get("UnitFileState", "enabled") if unit else "not-found"


def _change(work: Callable[[Unit], None]) -> Verb:
    def changed(call: Call, options: Options, units: list[str]) -> int:
        del options
        status = 0
        for name in units:
            unit = _unit(call, name)
            if unit is None:
                verb = call.args[0]
                call.stderr.write(f"Failed to {verb} {_full(name)}: Unit {_full(name)} not found.\n".encode())
                status = 5
                continue
            work(unit)
        return status

    return changed


def _try_restart(unit: Unit) -> None:
    if unit.active():
        unit.restart()


def _start(unit: Unit) -> None:
    if not unit.active():
        unit.start()


def _stop(unit: Unit) -> None:
    if unit.active():
        unit.stop()


def _enable(call: Call, options: Options, units: list[str]) -> int:
    enabling = "enable" in options.operands
    for name in units:
        link, mark = f"{_WANTS}/{_full(name)}", f"/etc/systemd/system/{_full(name)}.disabled"
        unit = _unit(call, name)
        if unit is None:
            call.stderr.write(
                f"Failed to {options.operands[0]} unit: Unit file {_full(name)} does not exist.\n".encode()
            )
            return 1
        call.files.make_folders(_WANTS)
        if enabling and not call.files.exists(link, follow=False):
            call.files.link(f"/usr/lib/systemd/system/{_full(name)}", link)
        if not enabling:
            call.files.write(mark, b"")
        for gone in (mark if enabling else link,):
            if call.files.exists(gone, follow=False):
                call.files.remove(gone)
        if "now" in options:
            (_start if enabling else _stop)(unit)
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


def _show(call: Call, options: Options, units: list[str]) -> int:
    wanted = [p for text in [*options.all("p"), *options.all("property")] for p in text.split(",")]
    for place, name in enumerate(units):
        known = _properties(call, name)
        if place:
            call.out("\n")
        for key in [k for k in known if k in wanted] if wanted else known:
            call.out((known[key] if "value" in options else f"{key}={known[key]}") + "\n")
    return 0


def _status(call: Call, options: Options, units: list[str]) -> int:
    del options
    code = 0
    for name in units:
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


def _list(call: Call, options: Options, units: list[str]) -> int:
    del options
    for name in sorted(call.machine.units):
        known = _properties(call, name)
        if not units or _full(name) in [_full(u) for u in units]:
            call.out(f"{_full(name)} {known['LoadState']} {known['ActiveState']} {known['SubState']} {name}\n")
    return 0


def _list_files(call: Call, options: Options, units: list[str]) -> int:
    del options
    for name in sorted(call.machine.units):
        if not units or _full(name) in [_full(u) for u in units]:
            call.out(f"{_full(name)} {_file_state(call, name)}\n")
    return 0


def _nothing(call: Call, options: Options, units: list[str]) -> int:
    del call, options, units
    return 0


def _cat(call: Call, options: Options, units: list[str]) -> int:
    del options
    for name in units:
        path = _properties(call, name)["FragmentPath"]
        if not path or not call.files.exists(path):
            call.stderr.write(f"No files found for {_full(name)}.\n".encode())
            return 1
        call.out(f"# {path}\n")
        call.stdout.write(call.files.read(path))
    return 0


def _reboot(call: Call, options: Options, units: list[str]) -> int:
    """Start the host anew: what lay in memory is gone, and the kernel has another boot's id."""
    del options, units
    call.files.write("/proc/sys/kernel/random/boot_id", f"{uuid.uuid4()}\n".encode())
    if call.files.exists("/run/k3s/.busy"):
        call.files.remove("/run/k3s/.busy")
    call.machine.tell("reboot")
    return 0


VERBS: dict[str, Verb] = {
    "cat": _cat,
    "daemon-reload": _nothing,
    "disable": _enable,
    "enable": _enable,
    "is-active": _is_active,
    "is-enabled": _is_enabled,
    "is-failed": _is_failed,
    "list-unit-files": _list_files,
    "list-units": _list,
    "reboot": _reboot,
    "reset-failed": _nothing,
    "restart": _change(lambda unit: unit.restart()),
    "show": _show,
    "start": _change(_start),
    "status": _status,
    "stop": _change(_stop),
    "try-restart": _change(_try_restart),
}
