"""Turn the options of a job into the objects of the jobs API."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any

import msgspec
from msgspec.structs import astuple

from maint.cli.command import OwnFirst
from maint.cli.options import number, option, pairs_of
from maint.errors import UsageError
from maint.model.json import Json
from maint.model.virtual_cluster import UNSCHEDULED

YES_NO = {"true": True, "false": False, "yes": True, "no": False}


class ScheduleWords(msgspec.Struct, frozen=True):
    """What was said of a schedule; None is "not said"."""

    enabled: Annotated[str | None, option("--schedule-enabled", "Switch the schedule on, or off with =false.")] = None
    start: Annotated[str | None, option("--schedule-start", "When the schedule starts, ISO 8601.")] = None
    end: Annotated[str | None, option("--schedule-end", "When the schedule ends.")] = None
    cron: Annotated[str | None, option("--cron-expression", "When it runs, as five fields of cron.")] = None
    every_days: Annotated[int | None, number("--every-days", "Every so many days, 31 at most.", 1, 31)] = None
    minutes: Annotated[str | None, option("--for-minutes-of-hour", "At these minutes of the hour.")] = None
    hours: Annotated[str | None, option("--for-hours-of-day", "At these hours of the day, UTC.")] = None

    @property
    def said(self) -> bool:
        """Whether anything was."""
        return any(part is not None for part in astuple(self))


def schedule(words: ScheduleWords) -> dict[str, Json]:
    """Return the keys of a schedule that were said; UsageError: they make no sense."""
    found: dict[str, Json] = {}
    if words.enabled is not None:
        if words.enabled.lower() not in YES_NO:
            raise UsageError(f"--schedule-enabled is true or false, not {words.enabled!r}", hint="true or false")
        found["enabled"] = YES_NO[words.enabled.lower()]
    cron = _cron(words)
    pairs = (("cronExpression", cron), ("start", words.start), ("end", words.end))
    return found | {key: value for key, value in pairs if value is not None}


def _cron(words: ScheduleWords) -> str | None:
    """Return the cron expression, whose day may come as "every so many"."""
    parts = (words.every_days, words.minutes, words.hours)
    if all(part is None for part in parts):
        return words.cron
    if words.cron is not None:
        raise UsageError("--cron-expression says it all", hint="leave out the other options for when it runs")
    days = "*" if words.every_days is None else f"*/{words.every_days}"
    hours = words.hours if words.hours is not None else "0" if words.every_days is not None else "*"
    return f"{_numbers(words.minutes or '0', 59)} {_numbers(hours, 23)} {days} * *"


def _numbers(text: str, largest: int) -> str:
    for part in text.replace("-", ",").split(","):
        if part != "*" and not (part.isascii() and part.isdigit() and len(part) < 5 and int(part) <= largest):
            raise UsageError(f"{text!r} is not a list of numbers from 0 to {largest}", hint="such as 0 or 0,30")
    return text


def mounts(resources: Mapping[int, str], prefixes: Mapping[int, str]) -> list[Json]:
    """Return the mounts in the order of their numbers; UsageError: a prefix has no resource."""
    lonely = sorted(set(prefixes) - set(resources))
    if lonely:
        hint = "give it its resource, such as --mount-1-resource NAME"
        raise UsageError(f"mount {lonely[0]} has a prefix and no resource", hint=hint)
    return [
        {"resourceName": resources[number], "dirPrefix": prefixes.get(number, "").strip("/")}
        for number in sorted(resources)
    ]


Class = Annotated[str, option("--class", "The main class of an archive.")]
CONF = option("--conf", "KEY=VALUE of the engine; repeatable.")


class Application(msgspec.Struct, frozen=True):
    """What a job runs, and with what."""

    file: Annotated[str, option("--application-file", "A file of a mounted resource, or a URL.")] = ""
    class_name: Class = ""
    args: Annotated[list[str], option("--arg", "An argument of the application; repeatable.")] = []
    conf: Annotated[list[str], CONF] = []
    num_executors: Annotated[int | None, number("--num-executors", "How many executors.")] = None
    driver_memory: Annotated[str | None, option("--driver-memory", "Such as 1g.")] = None
    driver_cores: Annotated[int | None, number("--driver-cores", "How many.")] = None
    executor_memory: Annotated[str | None, option("--executor-memory", "Such as 1g.")] = None
    executor_cores: Annotated[int | None, number("--executor-cores", "How many.")] = None
    python_env: Annotated[str | None, option("--python-env-resource-name", "A resource of the type python-env.")] = None


def spark(application: Application) -> dict[str, Json]:
    """Return the `spark` object of a definition; what was not said is left to the server."""
    said: dict[str, Json] = {
        "file": application.file,
        "className": application.class_name,
        "args": list(application.args),
        "conf": pairs_of("--conf", application.conf, "spark.executor.memory=2g"),  # all values are texts (J4.3)
        "logLevel": "INFO",
        "pyFiles": [],
        "jars": [],
        "files": [],
    }
    optional: dict[str, Json] = {
        "numExecutors": application.num_executors,
        "driverMemory": application.driver_memory,
        "driverCores": application.driver_cores,
        "executorMemory": application.executor_memory,
        "executorCores": application.executor_cores,
        "pythonEnvResourceName": application.python_env,
    }
    return said | {key: value for key, value in optional.items() if value is not None}


def spark_job(name: str, application: Application, mounted: list[Json], when: ScheduleWords) -> dict[str, Json]:
    """Return the definition of a spark job, unscheduled unless told otherwise."""
    planned = {**UNSCHEDULED, "paused": False, **schedule(when)} if when.said else dict(UNSCHEDULED)
    if planned["enabled"] is False:
        planned["paused"] = True
    return {"name": name, "type": "spark", "mounts": mounted, "spark": spark(application), "schedule": planned}


def airflow_job(name: str, dag_file: str, mounted: list[Json]) -> dict[str, Json]:
    """Return the definition of an airflow job; it has no schedule, its DAG file has (J4.4)."""
    return {"name": name, "type": "airflow", "mounts": mounted, "airflow": {"dagFile": dag_file}}


def is_remote(file: str) -> bool:
    """Whether an application file is not one of ours to upload (J4.3)."""
    return "://" in file or file.startswith(("local:/", "/app/mount/"))


def file_name(path: str) -> str:
    """Return the name that a local file gets in a resource."""
    return PurePosixPath(path).name


_NUMBERED = re.compile(r"-{2}mount-(\d{1,3})-(resource|prefix)(?:=(.*))?", re.DOTALL)
_DECLARED = {"resource": "--mount-N-resource", "prefix": "--mount-N-prefix"}
_OPTIONAL = "--schedule-enabled"


class ClientCommand(OwnFirst):
    """A command with `--mount-N-resource` and `--mount-N-prefix` for any N, and `--schedule-enabled[=true]`.

    It declares them as repeatable options named with the letter N, whose values arrive as `number=value`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # Any: Typer's own Context, which it does not export
        """Bring the options into the form in which they are declared."""
        valued = {
            text
            for option in self.params
            if not getattr(option, "is_flag", True)
            for text in getattr(option, "opts", ())
        }
        return list(super().parse_args(ctx, list(declared(args, valued))))


def declared(words: Sequence[str], valued: Collection[str]) -> Iterator[str]:
    """Yield the words of a command line as its options are declared; `valued` options take the word after them."""
    rest = iter(words)
    for word in rest:
        numbered = _NUMBERED.fullmatch(word)
        if word == "--":
            yield word
            yield from rest
        elif numbered:
            number, kind, value = numbered.groups()
            yield _DECLARED[kind]
            value = next(rest, None) if value is None else value
            if value is not None:
                yield f"{number}={value}"
        elif word == _OPTIONAL:
            following = next(rest, None)
            answers = following is not None and following.lower() in YES_NO
            yield f"{_OPTIONAL}={following if answers else 'true'}"
            if following is not None and not answers:
                yield from declared([following, *rest], valued)
        elif word in valued:
            yield word
            yield from (value for value in [next(rest, None)] if value is not None)
        else:
            yield word


def numbered(values: Sequence[str] | None) -> dict[int, str]:
    """Return `number=value` pairs by number; UsageError: a number is given twice."""
    found: dict[int, str] = {}
    for text in values or ():
        number, _, value = text.partition("=")
        if not (number.isdecimal() and len(number) < 4):
            raise UsageError(f"{text!r} has no number", hint="such as --mount-1-resource NAME")
        if int(number) in found:
            raise UsageError(f"mount {number} is given twice", hint="number the mounts 1, 2, 3, …")
        found[int(number)] = value
    return found
