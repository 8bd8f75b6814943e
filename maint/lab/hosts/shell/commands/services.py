"""systemctl, pidof, kill: units and their processes; docker of the ECS parcel: its containers and images."""

import json
import re
import uuid
from collections.abc import Callable
from typing import Any

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


_DAEMON = "/etc/docker/daemon.json"
_STATE = "lab.json"  # in the data directory
_FIELDS = {"ID": "id", "Image": "image", "Names": "name", "State": "state", "Repository": "name"}

# Any: a mapping of `containers` (id, image, name, state, volumes of each) and `images` (id, name).
Held = dict[str, Any]


def docker(call: Call) -> int:
    """`docker ps|stop|rm|images|rmi`."""
    verb, *words = call.args or [""]
    if verb not in _DOCKER_VERBS:
        raise NotSimulated(f"command {verb}")
    return _DOCKER_VERBS[verb](call.again("docker", words))


def _place(call: Call) -> str:
    try:
        root = json.loads(call.files.read(_DAEMON))["data-root"]
    except (OSError, ValueError, KeyError):
        root = "/var/lib/docker"
    return f"{root}/{_STATE}"


def _held(call: Call) -> Held:
    if not call.machine.docker():
        raise Failed(
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
        )
    place = _place(call)
    found: Held = json.loads(call.files.read(place)) if call.files.exists(place) else {"containers": [], "images": []}
    return found


def _keep(call: Call, held: Held) -> None:
    call.files.write(_place(call), json.dumps(held).encode())


def _ps(call: Call) -> int:
    options = call.options("a", ("no-trunc", "format="))
    shown = [one for one in _held(call)["containers"] if "a" in options or one["state"] == "running"]
    form = options.get("format") or "{{.ID}}   {{.Image}}   {{.State}}   {{.Names}}"
    call.out("".join(_line(one, form) for one in shown))
    return 0


def _images(call: Call) -> int:
    options = call.options("q")
    wanted = options.operands
    shown = [one for one in _held(call)["images"] if not wanted or wanted[0] in (one["name"], one["id"])]
    form = "{{.ID}}" if "q" in options else "{{.Repository}}   {{.ID}}"
    call.out("".join(_line(one, form) for one in shown))
    return 0


def _line(one: dict[str, str], form: str) -> str:
    if unknown := [name for name in re.findall(r"\{\{\.(\w+)\}\}", form) if name not in _FIELDS]:
        raise NotSimulated(f"field {unknown[0]}")
    filled = re.sub(r"\{\{\.(\w+)\}\}", lambda name: one.get(_FIELDS[name[1]], ""), form)
    return filled.replace("\\t", "\t") + "\n"


def _named(held: Held, word: str) -> dict[str, Any]:  # Any: see Held
    for one in held["containers"]:
        if word == one["name"] or (word and one["id"].startswith(word)):
            return dict(one)
    raise Failed(f"Error response from daemon: No such container: {word}")


def _stop_containers(call: Call) -> int:
    for word in call.options().operands:
        held = _held(call)
        found = _named(held, word)
        for one in held["containers"]:
            one["state"] = "exited" if one["id"] == found["id"] else one["state"]
        _keep(call, held)
        call.machine.tell(f"docker stop {found['name']}")
        call.out(f"{word}\n")
    return 0


def _rm(call: Call) -> int:
    options = call.options("v")
    for word in options.operands:
        held = _held(call)
        found = _named(held, word)
        if found["state"] == "running":
            raise Failed(f"Error response from daemon: container {word} is running: stop it before removing it")
        held["containers"] = [one for one in held["containers"] if one["id"] != found["id"]]
        _keep(call, held)
        for volume in found.get("volumes", []) if "v" in options else []:
            if call.files.exists(volume):
                call.files.remove_folder(volume, all_below=True)
        call.machine.tell(f"docker rm {found['name']}")
        call.out(f"{word}\n")
    return 0


def _rmi(call: Call) -> int:
    for word in call.options().operands:
        held = _held(call)
        found = [one for one in held["images"] if word in (one["name"], one["id"])]
        if not found:
            raise Failed(f"Error response from daemon: No such image: {word}")
        if any(one["image"] in (word, found[0]["name"]) for one in held["containers"]):
            raise Failed(f"Error response from daemon: conflict: unable to remove {word}: a container uses it")
        held["images"] = [one for one in held["images"] if one is not found[0]]
        _keep(call, held)
        call.machine.tell(f"docker rmi {word}")
        call.out(f"Untagged: {word}\n")
    return 0


_DOCKER_VERBS = {"ps": _ps, "images": _images, "stop": _stop_containers, "rm": _rm, "rmi": _rmi}
