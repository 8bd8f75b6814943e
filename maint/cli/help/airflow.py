"""`maint generate airflow`: a DAG for all sites of a config, printed without Airflow."""

import ast
import os
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec

import maint
from maint.cli.command import command
from maint.cli.options import Flags, number, option, seconds_of
from maint.cli.schedule.units import calendar
from maint.config.paths import absolute
from maint.errors import UsageError
from maint.render import from_file

_ROOM = ("outcome", "child", "hook", "operator")  # in the order in which one needs the other
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_PACKAGE = ["from maint.airflow.operator import MaintOperator"]


class Dag(msgspec.Struct, frozen=True):
    """What the operator says of a DAG."""

    at: Annotated[str, option("--at", "When: 02:15 (every day), or 'Sun 02:15'.")] = ""
    every: Annotated[str, option("--every", "How often: 6h, 12h, 24h.")] = ""
    timezone: Annotated[str, option("--timezone", "The schedule's timezone, such as Europe/Berlin.")] = "UTC"
    program: Annotated[
        str, option("--program", "A maint outside Airflow's environment: the DAG then needs no package of ours.")
    ] = ""
    connection: Annotated[str, option("--connection", "The connection of Airflow that has the config.")] = ""
    dag_id: Annotated[str, option("--dag-id", "The DAG's name.")] = ""
    pool: Annotated[str, option("--pool", "The pool that limits how many commands run at once.")] = "maint"
    limit: Annotated[str, option("--limit-each", "How long one command may take.")] = "2h"


@command()
def airflow(
    flags: Flags,
    dag: Dag,
    drill: Annotated[str, option("--drill", "The day on which restores are rehearsed: Mon … Sun.")] = "Sun",
    at_once: Annotated[int, number("--at-once", "Slots of the pool, as the DAG tells you to make it.", 1)] = 8,
) -> None:
    """Print a DAG for Apache Airflow: all sites, backup → verify → copy, a weekly drill, host checks."""
    if drill not in _DAYS:
        raise UsageError(f"--drill {drill!r} is no day", hint=", ".join(_DAYS))
    more = {"drill_day": drill, "weekday": _DAYS.index(drill), "at_once": at_once, "words": ()}
    text = from_file("airflow.py.j2", {**_values(flags, dag, "maint_estate"), **more})
    flags.screen().emit({"dag": text}, text.rstrip())


def print_one(flags: Flags, dag: Dag, title: str, words: Sequence[str]) -> None:
    """Print a DAG, named after its title, that carries one command out; `words` stand after `maint`."""
    more = {"title": title, "words": repr(list(words)), "site": repr(flags.site), "at_once": 8}
    text = from_file("airflow.py.j2", {**_values(flags, dag, f"maint_{title}".replace("-", "_")), **more})
    flags.screen().emit({"dag": text}, text.rstrip())


def _values(flags: Flags, dag: Dag, name: str) -> dict[str, object]:
    """Return what a template of a DAG is filled with; `name` is the DAG's where none was asked for."""
    config = flags.config or os.environ.get("MAINT_CONFIG") or ""
    if not re.fullmatch(r"[\w.-]{0,250}", dag.dag_id):
        hint = "letters, digits, dashes, dots and underscores"
        raise UsageError(f"Airflow takes no DAG named {dag.dag_id!r}", hint=hint)
    if flags.config and dag.connection:
        raise UsageError("--config and --connection exclude each other", hint="the connection names the config")
    try:
        ZoneInfo(dag.timezone)
    except (KeyError, ValueError, OSError):
        raise UsageError(f"there is no timezone {dag.timezone!r}", hint="such as --timezone Europe/Berlin") from None
    where = {"program": dag.program} if dag.program else {}
    where |= {"maint_conn_id": dag.connection} if dag.connection else {}
    where |= {"config": str(absolute(config))} if config and not dag.connection else {}
    imports, code = _inlined() if dag.program else (_PACKAGE, "")
    return {
        "version": maint.__version__,
        "imports": _joined([*imports, *_NEEDED]),
        "code": code,
        "where": repr(where),
        "pool": dag.pool,
        "limit": dag.limit,
        "limit_seconds": round(seconds_of("--limit-each", dag.limit)),
        "dag_id": dag.dag_id or name,
        "cron": calendar(dag.at, dag.every).cron,
        "timezone": dag.timezone,
    }


_NEEDED = (
    "from datetime import datetime, timedelta",
    "from zoneinfo import ZoneInfo",
    "from airflow.sdk import DAG, task, task_group",
)


def _joined(imports: Sequence[str]) -> str:
    """Return imports as one block: the standard library's, then Airflow's; each module once."""
    plain = sorted({line for line in imports if line.startswith("import ")})
    names: dict[str, set[str]] = {}
    for line in imports:
        if line not in plain:
            module, _, wanted = line.removeprefix("from ").partition(" import ")
            names.setdefault(module, set()).update(wanted.split(", "))
    whole = [f"from {module} import {', '.join(sorted(wanted))}" for module, wanted in sorted(names.items())]
    known = [line for line in whole if "airflow" not in line]
    return "\n".join([*plain, *known, "", *(line for line in whole if "airflow" in line)])


def _inlined() -> tuple[Sequence[str], str]:
    """Return the package for Airflow as one text: its imports, and all else."""
    imports, parts = list[str](), list[str]()
    for name in _ROOM:
        text = files("maint.airflow").joinpath(f"{name}.py").read_text("utf-8")
        lines = text.splitlines()
        for node in ast.parse(text).body:
            heading = isinstance(node, ast.Expr) and node.lineno == 1
            if heading or isinstance(node, ast.Import | ast.ImportFrom):
                ours = isinstance(node, ast.ImportFrom) and (node.module or "").startswith("maint.")
                imports += [] if heading or ours else [ast.unparse(node)]
                lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
        parts.append("\n".join(lines).strip())
    return imports, "\n\n\n".join(parts)
