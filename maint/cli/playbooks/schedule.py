"""`maint playbook schedule`: let any playbook run by itself, by a systemd timer or by cron."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from maint.cli.command import command
from maint.cli.configless import settings_of
from maint.cli.help.airflow import Dag, print_one
from maint.cli.options import Flags, argument, option, pairs_of
from maint.cli.playbooks.new import NAME
from maint.cli.run_playbook import kinds_of
from maint.cli.schedule.install import Folder, User, form_of, own, put, take_away
from maint.cli.schedule.units import Job, ScheduleRequest, calendar, refuse_impossible
from maint.config.paths import absolute
from maint.engine.load import Library, library
from maint.engine.plan import parameters
from maint.engine.read_step import is_file
from maint.errors import Refused, UsageError
from maint.model.plan import Effect, Playbook
from maint.steps.registry import STEPS


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
    place, job = absolute(folder) if folder else None, f"playbook-{playbook.name}"
    if remove:
        settings = settings_of(flags)
        found = own(settings.site(), user, place, (job,))
        return take_away(flags, settings.site(), found, user=user, folder=place)
    parameters(playbook, pairs_of("--set", values, "cluster=base"))  # what is missing is told now, not every night
    words = ["playbook", "run", word, *(part for text in values or () for part in ("--set", text))]
    words += ["--limit", limit] if limit else []
    words += ["--yes", *_confirmed(flags, playbook)]
    if airflow:
        print_one(flags, Dag(at, every), playbook.name, words)
        return 0
    settings = settings_of(flags)
    rhythm = calendar(at, every, jitter)
    by = f"maint playbook schedule {shlex.quote(word)}"
    run = Job(job, rhythm, f"Playbook {playbook.name}", [words], by, f"{by} --remove")
    request = ScheduleRequest(rhythm, form_of(form), user, folder=place, own=run)
    refuse_impossible(settings.site(), request)
    if any(STEPS[kind].asks for kind in kinds_of(playbook)):
        flags.screen().warn("it asks a person: each run stops (1) until `maint playbook approve` and `resume`")
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
