"""What a spark run executes: which command, or why not (contract on the jobs API, sections 4.3, 6.4)."""

import importlib.util
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters import mounts

# Settings of a cluster's engine that mean nothing to one on this machine.
_NOT_LOCAL = ("spark.dynamicAllocation.", "spark.pyspark.", "spark.kubernetes.", "spark.executor.", "spark.driver.")


class CannotRun(Exception):
    """The submitter gives up; the message is what its log says."""


@dataclass(frozen=True, slots=True)
class Application:
    """A process to be started.

    Attributes:
        command: its words; the application lies below the mount.
        environment: all of its environment.
        literal: it names /app/mount, so it must find its files there.
    """

    command: list[str]
    environment: dict[str, str]
    literal: bool


def prepare(spec: Doc, mount: Path, seen_at: str, work: Path) -> Application:
    """Return what a spark definition executes.

    Args:
        mount: where the mounted files lie.
        seen_at: where the process will see them.
        work: its working folder.

    Raises:
        CannotRun: nothing that can be executed here.
    """
    place = mounts.within(str(spec["file"]))
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
    literal = any(mounts.PREFIX in str(text) for text in told) or _named_in_code(mount)
    return Application(command, _environment(spec, seen_at, work), literal)


def _named_in_code(mount: Path) -> bool:
    return any(mounts.PREFIX.encode() in module.read_bytes() for module in mount.rglob("*.py"))


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
    own = [f"{seen_at}/{place}" for text in spec.get("pyFiles") or () if (place := mounts.within(str(text)))]
    return found | ({"PYTHONPATH": ":".join(own)} if own else {})
