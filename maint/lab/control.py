"""Bring a lab up in a process of its own, send it orders, break it, take it down."""

import contextlib
import fcntl
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from maint.errors import CannotReach, Refused, UsageError, WorkFailed
from maint.files import Damaged, load, write_whole, writing
from maint.lab.manager.load import Options

# Any: what `Lab.status` returns, as JSON.
Status: TypeAlias = dict[str, Any]
CONTROL, MADE_FROM, OPTIONS, OUTPUT = "control.json", "lab.json", "options.json", "daemon.log"
PASSING = "passing"  # what tells a lab's process that its standard input is held open by whom it is for
BLUEPRINT = "blueprint.json"  # the deployment of a lab that exists
_PATIENCE = 60.0  # seconds, and as many for each megabyte of its deployment


class _Access(msgspec.Struct, frozen=True):
    # What `CONTROL` says of the lab's process.
    port: int
    token: str
    pid: int


class _Ports(msgspec.Struct, frozen=True):
    # What `MADE_FROM` says of where the lab answers.
    plain_port: int
    tls_port: int
    ssh_ports: dict[str, int] = {}


def up(folder: Path, options: Options | None = None, *, passing: bool = False) -> Status:
    """Bring a lab up, an existing one as it was, and return once its manager answers.

    Args:
        passing: it ends with this process, however that ends, and its folder goes.

    Raises:
        Refused: the folder holds something else than a lab.
        WorkFailed: it did not come up; of a new one nothing is left.
    """
    folder = folder.resolve()
    deadline = time.monotonic() + _PATIENCE * (1 + _megabytes(folder, options))
    while not _answers(folder):
        with writing(folder, "name another folder"):
            handle = _held(folder)
        if handle is not None:
            try:
                return status(folder) if _answers(folder) else _begun(folder, options, handle, passing=passing)
            finally:
                os.close(handle)
        if time.monotonic() > deadline:
            words = f"another process has {folder}, and no lab answers there"
            raise WorkFailed(words, hint=f"see {folder / OUTPUT}, and end that process")
        time.sleep(0.05)
    return status(folder)


def _held(folder: Path) -> int | None:
    # The handle of a folder that is held, made where there is none; None while another lab's process has it.
    if not folder.is_dir():
        refuse_other(folder)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), folder.stat()):  # else it was removed meanwhile
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:  # a file system without locks
        return handle
    os.close(handle)
    return None


def _begun(folder: Path, options: Options | None, handle: int, *, passing: bool) -> Status:
    # The lab's process keeps the handle, and with it the folder, for as long as it lives.
    existed = is_lab(folder)
    with writing(folder, "name another folder"):
        if not existed:
            refuse_other(folder)
            for left in folder.iterdir():  # of one that was killed while it was made
                shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        (folder / CONTROL).unlink(missing_ok=True)
        write_whole(folder / OPTIONS, json.dumps(_spelled(options or Options())).encode(), 0o600)
        said = (folder / OUTPUT).open("ab")
    ours, held = os.pipe() if passing else (subprocess.DEVNULL, 0)  # nobody closes `held` while we live
    with said as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "maint.lab.daemon", str(folder), *([PASSING] if held else [])],
            stdin=ours, stdout=output, stderr=output, start_new_session=True, pass_fds=[handle],
        )  # fmt: skip
    if held:
        os.close(ours)
    deadline = time.monotonic() + _PATIENCE * (1 + _megabytes(folder, options))
    while not _answers(folder):
        if process.poll() is not None or time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
            words = _last_words(folder)
            if existed:
                raise WorkFailed("the lab did not come up", detail=words, hint=f"see {folder / OUTPUT}")
            shutil.rmtree(folder)
            raise WorkFailed(
                "the lab did not come up, and nothing of it is left",
                detail=words,
                hint="run it again; `maint lab up` in another folder shows whether it is this deployment",
            )
        time.sleep(0.02)
    return status(folder)


def _megabytes(folder: Path, options: Options | None) -> float:
    # The hosts of a deployment are made one by one, and there may be hundreds.
    deployment = options.deployment if options and options.deployment else folder / BLUEPRINT
    return deployment.stat().st_size / 1e6 if deployment.is_file() else 0.0


def is_lab(folder: Path) -> bool:
    """Return whether there is a lab in a folder, up or down."""
    return (folder / MADE_FROM).is_file()


def refuse_other(folder: Path) -> None:
    """Raise Refused where a folder holds something else: what a lab does not come up in is removed."""
    with writing(folder, "name another folder"):
        taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not _is_unfinished(folder)
    if taken:
        raise Refused(f"{folder} is not empty and holds no lab", hint="name another folder")


def _is_unfinished(folder: Path) -> bool:
    # Whether it holds what is left of a lab that was killed while it was made: any program may have such a file.
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads((folder / OPTIONS).read_bytes()) if (folder / OPTIONS).is_file() else None
        return isinstance(found, dict) and found.keys() == _spelled(Options()).keys()
    return False


def status(folder: Path) -> Status:
    """Return what is known of a lab; `running` is False where nothing answers."""
    if not _answers(folder):
        return {"running": False, "config": str(folder.resolve() / "config.yaml")}
    return ask(folder, "status")


def is_down(folder: Path) -> bool:
    """Return whether there is a lab in a folder of which nothing answers: no process of its own, no port."""
    if not is_lab(folder) or _answers(folder):
        return False
    try:
        made = load(folder / MADE_FROM, _Ports)
    except Damaged:
        return False
    ports = [made.plain_port, made.tls_port, *list(made.ssh_ports.values())[:1]] if made else []
    return not any(_listens(port) for port in ports)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def down(folder: Path) -> bool:
    """Take a lab down, its files stay; return whether there was one up."""
    if not _answers(folder):
        return False
    number = _access(folder).pid
    ask(folder, "stop")
    deadline = time.monotonic() + _PATIENCE
    while _lives(number):
        if time.monotonic() > deadline:
            os.kill(number, signal.SIGKILL)
        time.sleep(0.02)
    (folder / CONTROL).unlink(missing_ok=True)
    return True


def break_(folder: Path, target: str, fault: str) -> None:
    """Set a fault on the manager's calls, on the server, or on a host by its name."""
    ask(folder, "break", target=target, fault=fault)


def repair(folder: Path, fault: str = "", target: str = "") -> int:
    """Clear a fault, or all of them, everywhere or at one target; return how many there were."""
    return int(ask(folder, "repair", fault=fault, target=target)["cleared"])


def lose_database(folder: Path) -> None:
    """Make the manager one that was just installed; the hosts' files stay."""
    ask(folder, "lose-database")


def lose_virtual_clusters(folder: Path) -> None:
    """Take all virtual clusters away with everything in them; the lab's config keeps the addresses that they had."""
    ask(folder, "lose-vcs")


def create_vc(folder: Path, name: str, *, initialised: bool = False) -> Status:
    """Make a virtual cluster as the vendor's UI does: `initialised` adds TLS and secrets."""
    ask(folder, "create-vc", name=name, initialised="yes" * initialised)
    found: Status = next(each for each in status(folder)["virtual_clusters"] if each["name"] == name)
    return found


def switch(folder: Path, name: str, value: str) -> None:
    """Choose a behaviour from now on."""
    ask(folder, "switch", name=name, value=value)


def ask(folder: Path, order: str, **words: str) -> Status:
    """Send one order; `CannotReach` where no lab is up, `UsageError` where the lab does not know what it is asked."""
    try:
        access = _access(folder)
        with socket.create_connection(("127.0.0.1", access.port), timeout=_PATIENCE) as connection:
            connection.sendall(json.dumps({"token": access.token, "order": order, **words}).encode() + b"\n")
            line = connection.makefile("rb").readline()
        answer: Status = json.loads(line)
    except (OSError, ValueError, OverflowError, Damaged) as error:
        raise CannotReach(
            f"no lab is up in {folder}", hint=f"maint lab up --folder {shlex.quote(str(folder))}"
        ) from error
    if "error" in answer:
        raise UsageError(str(answer["error"]), hint="`maint help lab` lists what a lab has and takes")
    return answer


def _access(folder: Path) -> _Access:
    found = load(folder / CONTROL, _Access)
    if found is None:
        raise Damaged("there is none")
    return found


def _answers(folder: Path) -> bool:
    try:
        return bool(ask(folder, "ping").get("up"))
    except CannotReach:
        return False


def _spelled(options: Options) -> Status:
    spelled: Status = msgspec.structs.asdict(options)
    spelled["deployment"] = str(options.deployment.resolve()) if options.deployment else None
    return spelled


def _last_words(folder: Path) -> list[str]:
    return (folder / OUTPUT).read_text(errors="replace").splitlines()[-1:]


def _lives(number: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(number, os.WNOHANG)  # a child of ours would stay a zombie
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True
