"""The docker client of the ECS parcel: containers and images in a file of docker's data directory."""

import json
import re
from typing import Any

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated

_DAEMON = "/etc/docker/daemon.json"
_STATE = "lab.json"  # in the data directory
_FIELDS = {"ID": "id", "Image": "image", "Names": "name", "State": "state", "Repository": "name"}

# Any: a mapping of `containers` (id, image, name, state, volumes of each) and `images` (id, name).
Held = dict[str, Any]


def docker(call: Call) -> int:
    """`docker ps|stop|rm|images|rmi`."""
    verb, *words = call.args or [""]
    if verb not in _VERBS:
        raise NotSimulated(f"command {verb}")
    return _VERBS[verb](call.again("docker", words))


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


def _stop(call: Call) -> int:
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


_VERBS = {"ps": _ps, "images": _images, "stop": _stop, "rm": _rm, "rmi": _rmi}
