"""`maint playbook schedule`: let any playbook run by itself, by a systemd timer or by cron."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from maint.cli.command import command
from maint.cli.configless import settings_of
from maint.cli.help.airflow import Dag, print_one
from maint.cli.options import Flags, argument, option
from maint.cli.schedule.install import Folder, User, form_of, own, put, take_away
from maint.cli.schedule.units import Job, ScheduleRequest, calendar, refuse_impossible
from maint.config.yaml import read_text
from maint.engine.load import Library, library, load
from maint.engine.plan import parameters
from maint.errors import Refused, UsageError
from maint.model.plan import Effect, Playbook
from maint.steps.registry import STEPS

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


@command(example="maint playbook schedule probe --every 6h --dry-run")
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
    shipped = library()
    playbook, word = _found(name, shipped)
    place, job = Path(folder).expanduser().absolute() if folder else None, f"playbook-{playbook.name}"
    if remove:
        settings = settings_of(flags)
        found = own(settings.site(), user, place, (job,))
        return take_away(flags, settings.site(), found, user=user, folder=place)
    given = dict(_pair(text) for text in values or ())
    parameters(playbook, given)  # what is missing is told now, not every night
    words = ["playbook", "run", word, *(part for text in values or () for part in ("--set", text))]
    words += ["--limit", limit] if limit else []
    words += ["--yes", *_confirmed(flags, playbook, shipped)]
    if airflow:
        print_one(flags, Dag(at, every), playbook.name, words)
        return 0
    settings = settings_of(flags)
    rhythm = calendar(at, every, jitter)
    by = f"maint playbook schedule {shlex.quote(word)}"
    run = Job(job, rhythm, f"Playbook {playbook.name}", [words], by, f"{by} --remove")
    request = ScheduleRequest(rhythm, form_of(form), user, folder=place, own=run)
    refuse_impossible(settings.site(), request)
    if any(STEPS[kind].asks for kind in _kinds(playbook, shipped)):
        flags.screen().warn("it asks a person: each run stops (1) until `maint playbook approve` and `resume`")
    return put(flags, settings, request)


def _found(name: str, shipped: Library) -> tuple[Playbook, str]:
    """Return a playbook, and the word by which a scheduled run finds it wherever it starts."""
    if "/" in name or name.endswith((".yaml", ".yml")):
        playbook, word = load(read_text(Path(name)), name, shipped), str(Path(name).absolute())
    else:
        playbook, word = shipped.load(name), name
    if not _NAME.fullmatch(playbook.name):
        hint = "small letters, digits and dashes, since files of the schedule are named after it"
        raise UsageError(f"a playbook named {playbook.name!r} cannot be scheduled", hint=hint)
    return playbook, word


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"--set {text!r} is not key=value", hint="such as --set cluster=base")
    return key, value


def _kinds(playbook: Playbook, shipped: Library) -> set[str]:
    included = [_kinds(shipped.load(step.include), shipped) for step in playbook.steps if step.include]
    return {step.do for step in playbook.steps if step.do}.union(*included)


def _confirmed(flags: Flags, playbook: Playbook, shipped: Library) -> Sequence[str]:
    if all(STEPS[kind].effect < Effect.DESTROY for kind in _kinds(playbook, shipped)):
        return ()
    if flags.confirm is None:
        raise Refused(
            f"{playbook.name} may destroy something, and a scheduled run has nobody to ask",
            hint="give --confirm NAME, which each run is then given",
        )
    return ("--confirm", flags.confirm)
