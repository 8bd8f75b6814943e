"""`maint playbook schedule` and `generate airflow`: let playbooks run by themselves: a timer, cron, or a DAG."""

import ast
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec

import maint
from maint.cli.command import command
from maint.cli.configless import settings_of
from maint.cli.open_site import opened
from maint.cli.options import Flags, number, option, pairs_of, seconds_of
from maint.cli.playbooks.commands import NAME, Name
from maint.cli.run_playbook import kinds_of
from maint.cli.schedule.commands import Folder, User, form_of, own_files, put, take_away, told_if_it_fails
from maint.cli.schedule.units import ScheduledJob, ScheduleRequest, calendar
from maint.cli.screen import confirm
from maint.config.error_messages import together
from maint.config.paths import absolute
from maint.engine.hosts import limited_to
from maint.engine.load import Library, library, unknown_names
from maint.engine.parameters import render
from maint.engine.plan import make_plan, parameters
from maint.engine.read_step import is_file, is_template
from maint.errors import Refused, UsageError
from maint.model.json import Json
from maint.model.plan import Effect, Playbook
from maint.render import from_file, template
from maint.steps.registry import STEPS

_ROOM = ("child", "hook", "operator")  # in the order in which one needs the other
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_PACKAGE = ["from maint.airflow.operator import MaintOperator"]


class DagRequest(msgspec.Struct, frozen=True):
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
    dag: DagRequest,
    drill: Annotated[str, option("--drill", "The day on which restores are rehearsed: Mon … Sun.")] = "Sun",
    at_once: Annotated[int, number("--at-once", "Slots of the pool, as the DAG tells you to make it.", 1)] = 8,
) -> None:
    """Print a DAG for Apache Airflow: all sites, backup → verify → copy, a weekly drill, host checks."""
    if drill not in _DAYS:
        raise UsageError(f"--drill {drill!r} is not a day", hint=", ".join(_DAYS))
    more = {"drill_day": drill, "weekday": _DAYS.index(drill), "at_once": at_once, "words": ()}
    text = from_file("airflow.py.j2", {**_values(flags, dag, "maint_estate"), **more})
    flags.screen().emit({"dag": text}, text.rstrip())


def print_one(flags: Flags, dag: DagRequest, title: str, words: Sequence[str]) -> None:
    """Print a DAG, named after its title, that carries one command out; `words` stand after `maint`."""
    more = {"title": title, "words": repr(list(words)), "site": repr(flags.site), "at_once": 8}
    text = from_file("airflow.py.j2", {**_values(flags, dag, f"maint_{title}".replace("-", "_")), **more})
    flags.screen().emit({"dag": text}, text.rstrip())


def _values(flags: Flags, dag: DagRequest, name: str) -> dict[str, object]:
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


@command()
def schedule(
    flags: Flags,
    name: Name,
    values: Annotated[list[str] | None, option("--set", "A parameter of each run, key=value.")] = None,
    limit: Annotated[str, option("--limit", "Only these hosts and groups of hosts: HOST,GROUP.")] = "",
    at: Annotated[str, option("--at", "When: 02:15 (every day), or 'Sun 02:15'.")] = "",
    every: Annotated[str, option("--every", "How often: 15m, 30m, 1h, 6h, 12h, 24h.")] = "",
    jitter: Annotated[str, option("--jitter", "How far to spread the start; else a tenth, at most 15m.")] = "",
    form: Annotated[str, option("--form", "systemd or cron; else what runs this machine.")] = "",
    user: User = False,
    folder: Folder = "",
    airflow: Annotated[bool, option("--airflow", "Print a DAG for Apache Airflow instead.")] = False,
    remove: Annotated[bool, option("--remove", "Take the schedule of this playbook away.")] = False,
) -> int:
    """Write a timer, or a line for cron, that carries a playbook out; --dry-run shows the files.

    What was agreed to here is agreed to in each run: `--yes` is given to it, and `--confirm NAME` where it destroys.
    """
    if airflow and (form or folder or jitter or user or remove):
        hint = (
            "leave out --form, --folder, --jitter, --user and --remove: the DAG is printed, and Airflow keeps the time"
        )
        raise UsageError("--airflow writes neither a timer nor a line for cron", hint=hint)
    shipped = library()
    playbook, word = _found(name, shipped)
    place, job = absolute(folder) if folder else None, f"playbook-{playbook.name}"
    if remove:
        settings = settings_of(flags)
        found = own_files(settings.site(), user, place, (job,))
        return take_away(flags, settings.site(), found, user=user, folder=place)
    given = pairs_of("--set", values, "cluster=base")
    filled = parameters(playbook, given)  # what is missing is told now, not every night
    words = ["playbook", "run", word, *(part for text in values or () for part in ("--set", text))]
    words += ["--limit", limit] if limit else []
    words += ["--yes", *_confirmed(flags, playbook, shipped)]
    if any(STEPS[kind].asks for kind in kinds_of(playbook)):
        flags.screen().warn("it asks a person: each run stops (1) until `maint playbook approve` and `resume`")
    if airflow:
        print_one(flags, DagRequest(at, every), playbook.name, words)
        return 0
    settings = settings_of(flags)
    only = limit.replace(",", " ").split()
    limited_to(settings.site(), only)
    if unknown := list(unknown_names(playbook, settings.site(), filled)):
        wrong = together(unknown)
        raise UsageError(wrong.message.removeprefix(f"{wrong.at}: "), hint=wrong.hint) if values else wrong
    rhythm = calendar(at, every, jitter)
    plan = None
    with told_if_it_fails(flags, "a run"), opened(flags, warn_of_window=False) as (site, screen):
        site.works_on(kinds_of(playbook))
        plan = make_plan(playbook, given, site, shipped, flags.no_safety_net, only)
    if plan is not None:
        confirm(plan, screen, yes=True, name=flags.confirm)
    by = f"maint playbook schedule {shlex.quote(word)}"
    read = [Path(word)] if is_file(name) else []
    read += [Path(one) for one in _local(playbook, filled, shipped, "reads") if one.startswith("/")]
    made = [_folder(one) for one in _local(playbook, filled, shipped, "writes")]
    run = ScheduledJob(job, rhythm, f"Playbook {playbook.name}", [words], by, f"{by} --remove", read, made)
    request = ScheduleRequest(rhythm, form_of(form), user, folder=place, own=run)
    return put(flags, settings, request, jitter)


def _found(name: str, shipped: Library) -> tuple[Playbook, str]:
    """Return a playbook, and the word by which a scheduled run finds it wherever it starts."""
    playbook, path = shipped.find(name), Path(name).absolute()
    if ".." in path.parts:  # what it leads through need not be there when it runs
        path = path.parent.resolve() / path.name
    word = str(path) if is_file(name) else name
    if not NAME.fullmatch(playbook.name):
        hint = "small letters, digits and dashes, since files of the schedule are named after it"
        raise UsageError(f"a playbook named {playbook.name!r} cannot be scheduled", hint=hint)
    return playbook, word


def _confirmed(flags: Flags, playbook: Playbook, shipped: Library) -> Sequence[str]:
    if _worst(playbook, shipped) < Effect.DESTROY:
        return ()
    if flags.confirm is None:
        raise Refused(
            f"{playbook.name} may destroy something, and a scheduled run has nobody to ask",
            hint="give --confirm NAME, which each run is then given",
        )
    return ("--confirm", flags.confirm)


def _worst(playbook: Playbook, shipped: Library) -> Effect:
    """Return the worst that a playbook may plan, as far as its own words tell."""
    inner = (_worst(shipped.load(step.include), shipped) for step in playbook.steps if step.include)
    own = (STEPS[step.do].worst(step.arguments) for step in playbook.steps if step.do)
    return max((*inner, *own))


def _local(playbook: Playbook, values: Mapping[str, Json], shipped: Library, what: str) -> Iterator[str]:
    """Yield the local files that a playbook reads or writes, as `what` says: as far as it can be told now."""
    for step in playbook.steps:
        given = {key: _filled(value, values) for key, value in step.arguments.items()}
        if step.include is not None:
            inner = shipped.load(step.include)
            known = {one.name: one.default for one in inner.parameters}
            yield from _local(inner, {**known, **given}, shipped, what)
        elif step.do is not None:
            for key in sorted(getattr(STEPS[step.do], what)):
                if given.get(key):
                    yield str(given[key])


def _filled(value: Json, values: Mapping[str, Json]) -> Json:
    """Return an argument with the parameters in it, itself where it holds what is known in a run only."""
    if isinstance(value, str) and is_template(value) and template(value).names() <= values.keys():
        return render(value, values)
    return value


def _folder(path: str) -> Path:
    """Return the folder of a file that runs write; of one that is named in a run, the folder that is sure."""
    sure = path.partition("{")[0].rpartition("/")[0]
    if not sure.startswith("/"):
        raise Refused(
            f"{path} does not say now where a run writes", hint="begin it with its folder: /srv/files/{{ name }}"
        )
    return Path(sure)
