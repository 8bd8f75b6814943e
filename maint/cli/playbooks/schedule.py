"""`maint playbook schedule`: let any playbook run by itself, by a systemd timer or by cron."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from maint.cli.command import command
from maint.cli.configless import settings_of
from maint.cli.help.airflow import Dag, print_one
from maint.cli.options import Flags, argument, option, pairs_of
from maint.cli.playbooks.new import NAME
from maint.cli.run_playbook import kinds_of
from maint.cli.schedule.install import Folder, User, form_of, own, put, take_away
from maint.cli.schedule.units import Job, ScheduleRequest, calendar
from maint.config.paths import absolute
from maint.engine.hosts import limited_to
from maint.engine.load import Library, library
from maint.engine.parameters import render
from maint.engine.plan import parameters
from maint.engine.read_step import is_file, is_template
from maint.errors import Refused, UsageError
from maint.model.json import Json
from maint.model.plan import Effect, Playbook
from maint.render import template
from maint.steps.registry import STEPS


@command()
def schedule(
    flags: Flags,
    name: Annotated[str, argument("A shipped playbook's name, or a path to a .yaml file.")],
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
        found = own(settings.site(), user, place, (job,))
        return take_away(flags, settings.site(), found, user=user, folder=place)
    filled = parameters(
        playbook, pairs_of("--set", values, "cluster=base")
    )  # what is missing is told now, not every night
    words = ["playbook", "run", word, *(part for text in values or () for part in ("--set", text))]
    words += ["--limit", limit] if limit else []
    words += ["--yes", *_confirmed(flags, playbook)]
    if any(STEPS[kind].asks for kind in kinds_of(playbook)):
        flags.screen().warn("it asks a person: each run stops (1) until `maint playbook approve` and `resume`")
    if airflow:
        print_one(flags, Dag(at, every), playbook.name, words)
        return 0
    settings = settings_of(flags)
    limited_to(settings.site(), limit.replace(",", " ").split())
    rhythm = calendar(at, every, jitter)
    by = f"maint playbook schedule {shlex.quote(word)}"
    read = [Path(word)] if is_file(name) else []
    read += [Path(one) for one in _local(playbook, filled, shipped, "reads") if one.startswith("/")]
    made = [_folder(one) for one in _local(playbook, filled, shipped, "writes")]
    run = Job(job, rhythm, f"Playbook {playbook.name}", [words], by, f"{by} --remove", read, made)
    request = ScheduleRequest(rhythm, form_of(form), user, folder=place, own=run)
    return put(flags, settings, request)


def _found(name: str, shipped: Library) -> tuple[Playbook, str]:
    """Return a playbook, and the word by which a scheduled run finds it wherever it starts."""
    playbook, word = shipped.find(name), str(Path(name).absolute()) if is_file(name) else name
    if not NAME.fullmatch(playbook.name):
        hint = "small letters, digits and dashes, since files of the schedule are named after it"
        raise UsageError(f"a playbook named {playbook.name!r} cannot be scheduled", hint=hint)
    return playbook, word


def _confirmed(flags: Flags, playbook: Playbook) -> Sequence[str]:
    if all(STEPS[kind].effect < Effect.DESTROY for kind in kinds_of(playbook)):
        return ()
    if flags.confirm is None:
        raise Refused(
            f"{playbook.name} may destroy something, and a scheduled run has nobody to ask",
            hint="give --confirm NAME, which each run is then given",
        )
    return ("--confirm", flags.confirm)


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
