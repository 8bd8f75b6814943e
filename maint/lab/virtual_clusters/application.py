"""What a spark run executes: the files it mounts, the command or why there is none, and its process (J4.3, J6.4)."""

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

import msgspec

from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters import sandbox
from maint.lab.virtual_clusters.cluster import Cluster

# Settings of a cluster's engine that mean nothing to one on this machine.
_NOT_LOCAL = ("spark.dynamicAllocation.", "spark.pyspark.", "spark.kubernetes.", "spark.executor.", "spark.driver.")
_CAGE = str(Path(sandbox.__file__))
_POLL = 0.05  # seconds
_GRACE = 2.0  # seconds between asking a process to end and ending it
PREFIX = "/app/mount"


class CannotRun(Exception):
    """The submitter gives up; the message is what its log says."""


class Application(msgspec.Struct, frozen=True):
    """A process to be started."""

    command: list[str]  # its words; the application lies below the mount
    environment: dict[str, str]  # all of its environment
    literal: bool  # it names /app/mount, so it must find its files there


def within_mount(text: str) -> str | None:
    """Return the path of an application file below the mount, None where it lies elsewhere."""
    # Given as a path within a mount, as an absolute path under `/app/mount/`, or as a `local:` or `file:` URL.
    if "://" in text and not text.startswith(("local://", "file://")):
        return None
    plain = text.removeprefix("local:").removeprefix("file:")
    if plain.startswith("/"):
        absolute = PurePosixPath("/" + plain.lstrip("/"))
        return str(absolute.relative_to(PREFIX)) if absolute.is_relative_to(PREFIX) else None
    return str(PurePosixPath(plain))


def mounted_files(cluster: Cluster, mounts: Iterable[Doc]) -> Iterator[tuple[str, Doc]]:
    """Yield where each mounted file lies below the mount, with its entry; later mounts win."""
    for mount in mounts:
        prefix = str(mount.get("dirPrefix") or "").strip("/")
        for entry in cluster.files.entries(str(mount.get("resourceName"))):
            yield (f"{prefix}/{entry['path']}" if prefix else str(entry["path"])), entry


def lay_out(cluster: Cluster, mounts: Iterable[Doc], target: Path) -> None:
    """Copy all mounted files below a folder, so that nothing that a job does there reaches the resources."""
    target.mkdir(parents=True, exist_ok=True)
    linked: set[Path] = set()
    with cluster.lock:  # short: only links, which keep content that is deleted meanwhile
        for place, entry in mounted_files(cluster, mounts):
            path = target / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.hardlink_to(cluster.files.blob(entry["signature"]))
            linked.add(path)
    for path in linked:
        own = path.with_name(f".{path.name}.copy")
        shutil.copyfile(path, own)
        own.replace(path)


def prepare(spec: Doc, mount: Path, seen_at: str, work: Path) -> Application:
    """Return what a spark definition executes, its mounted files being `seen_at`; CannotRun: nothing that runs here."""
    place = within_mount(str(spec["file"]))
    if place is None:
        raise CannotRun(f"cannot download {spec['file']}: the lab has no way out")
    file = mount / place
    if not file.is_file():
        raise CannotRun(f"file {spec['file']} not found in the mounts of the job")
    arguments = [str(argument) for argument in spec.get("args") or ()]
    application = f"{seen_at}/{place}"
    command = [*_interpreter(spec, file), application, *arguments]
    told = [*arguments, str(spec["file"]), *(spec.get("conf") or {}).values()]
    # A file:// address is Spark's business and may point anywhere below the mount.
    literal = any(PREFIX in str(text) for text in told) or _named_in_code(mount)
    return Application(command, _environment(spec, seen_at, work), literal)


def lacking(errors: Path) -> str:
    """Return in words what a driver has missed, by what it wrote to its standard error; "" for nothing."""
    said = errors.read_text(errors="replace")[-4000:]
    if "No module named 'pyspark'" in said:
        return ": the application needs PySpark, which the lab's Python lacks (pip install 'maint[spark]')"
    if module := re.search(r"No module named '([\w.]+)'", said):
        return f": the lab's Python lacks {module[1]}, and the lab does not really build environments"
    if "JAVA_GATEWAY_EXITED" in said or "JAVA_HOME is not set" in said:
        return ": PySpark needs Java, which this machine lacks"
    return ""


def _named_in_code(mount: Path) -> bool:
    return any(PREFIX.encode() in module.read_bytes() for module in mount.rglob("*.py"))


def _interpreter(spec: Doc, file: Path) -> list[str]:
    if file.suffix == ".py":
        return [sys.executable, "-u"]
    if file.suffix != ".jar":
        raise CannotRun(f"{file.name} is neither a Python application nor a jar")
    submit = _spark_submit()
    if submit is None:
        raise CannotRun(f"{file.name} needs Spark and Java, which this machine lacks (install maint[spark])")
    named = ["--class", str(spec["className"])] if spec.get("className") else []
    return [str(submit), "--master", "local[1]", *_conf(spec), *named]


def _spark_submit() -> Path | None:
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations or not shutil.which("java"):
        return None
    return Path(found.submodule_search_locations[0]) / "bin" / "spark-submit"


def _conf(spec: Doc) -> list[str]:
    given = {name: value for name, value in (spec.get("conf") or {}).items() if name.startswith("spark.")}
    kept = {name: value for name, value in given.items() if not name.startswith(_NOT_LOCAL)}
    return [word for name, value in kept.items() for word in ("--conf", f"{name}={value}")]


def _environment(spec: Doc, seen_at: str, work: Path) -> dict[str, str]:
    """Return an environment that holds nothing of the lab's own."""
    submit = " ".join(["--master", "local[1]", *map(shlex.quote, _conf(spec)), "pyspark-shell"])
    found = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(work),
        "LANG": "C.UTF-8",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": submit,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    own = [f"{seen_at}/{place}" for text in spec.get("pyFiles") or () if (place := within_mount(str(text)))]
    return found | ({"PYTHONPATH": ":".join(own)} if own else {})


def caging_works(folder: Path) -> bool:
    """Return whether this system allows private mount namespaces; nothing stays in the folder."""
    words = [sys.executable, "-I", _CAGE, sandbox.PROBE, str(folder)]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def execute(
    application: Application, place: Path, outputs: tuple[Path, Path], killed: threading.Event, *, caged: bool
) -> int:
    """Run an application to its end and return its exit status, negative where a signal ended it; `killed` ends it.

    Args:
        place: the run's folder, with `mount` and `work`.
        caged: whether it sees its files at /app/mount; CannotRun where the system forbids it after all.
    """
    work = place / "work"
    words = [sys.executable, "-I", _CAGE, str(place / "root"), str(place / "mount"), str(work)] if caged else []
    for output in outputs:
        output.parent.mkdir(parents=True, exist_ok=True)
    with outputs[0].open("ab") as standard, outputs[1].open("ab") as errors:
        process = subprocess.Popen(
            [*words, *application.command], cwd=work, env=application.environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=standard, stderr=errors,
        )  # fmt: skip
    try:
        while process.poll() is None and not killed.wait(_POLL):
            pass
    finally:
        _end(process)
    if process.returncode == sandbox.REFUSED and caged:
        raise CannotRun(outputs[1].read_text(errors="replace").strip())
    return process.returncode


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        _signal(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
