"""A test of a playbook as it is written, and how a plan and its run are compared with it."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

import msgspec
from pydantic import Field, model_validator

from maint.config.error_messages import decode
from maint.config.fields import BELOW_ROOT
from maint.config.yaml import Document
from maint.config.yaml import read as read_yaml
from maint.engine.read_step import Form
from maint.model.json import Json
from maint.model.plan import Plan

Scalar = str | int | float | bool | None
_CHANGING = ("POST", "PUT", "PATCH", "DELETE")


class FaultForm(Form):
    """A fault of the lab, as `maint lab break TARGET FAULT` sets it."""

    target: str = Field(description="manager, database, or a host's name")
    fault: str = Field(description="a fault's name; `maint lab break --list` shows them")


class BeforeForm(Form):
    """A playbook that was run before; it must have ended with 0 or 7."""

    playbook: str = Field(description="a shipped playbook's name, or a path from the test's folder to a .yaml file")
    set_: dict[str, Scalar | list[Scalar]] = Field({}, alias="set", description="values of its parameters")


class WorldForm(Form):
    """The lab in which the playbook is tried."""

    deployment: str | None = Field(None, description="an export of a manager, from the test's folder; else the example")
    fresh: bool = Field(False, description="a server just installed")
    backed_up: bool = Field(False, description="a restorable snapshot is taken first")
    after: list[BeforeForm] = Field([], description="playbooks that were run before, in order")
    lost: bool = Field(False, description="the manager's database is lost, after all that")
    virtual_clusters: list[str] = Field([], description="further, empty virtual clusters")
    switches: dict[str, str | int | float] = Field({}, description="behaviours; `maint help lab` lists them")
    faults: list[FaultForm] = Field([], description="what goes wrong")


class StateForm(Form):
    """One fact afterwards: of the manager's API, or of a file on a host."""

    get: Annotated[str, Field(pattern=BELOW_ROOT)] | None = Field(None, description="a path below /api/vN")
    key: str = Field("", description="where in the answer: `items.0.name`; else the whole")
    is_: Scalar = Field(None, alias="is", description="the value that stands there; null where none does")
    host: str = Field("", description="instead of `get`: a host's name")
    file: Annotated[str, Field(pattern=BELOW_ROOT)] = Field("/", description="a file on it")
    has: str | None = Field(None, description="a pattern for its text; null where there is no such file")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.get is None) == (not self.host):
            raise ValueError("give either `get` with `is`, or `host` with `file` and `has`")
        return self


class EndForm(Form):
    """How it ends; what is left out is not compared."""

    exit: int = Field(0, description="the exit code; `maint help exit-codes` lists them")
    message: str | None = Field(None, description="a pattern for what the failure says")
    done: list[str] | None = Field(None, description="the steps that were done or had nothing to do, in order")
    failed: list[str] | None = Field(None, description="the steps that failed")
    skipped: list[str] | None = Field(None, description="the steps that were skipped")
    state: list[StateForm] = Field([], description="facts afterwards")


class ExpectationForm(Form):
    """The whole file."""

    playbook: str = Field(description="a shipped playbook's name, or a path from the test's folder to a .yaml file")
    world: WorldForm = Field(
        default_factory=lambda: WorldForm.model_validate({}),
        description="the lab in which it is tried; else the example",
    )
    set_: dict[str, Scalar | list[Scalar]] = Field({}, alias="set", description="values of its parameters")
    answer: Literal["yes", "no"] | None = Field(
        None, description="what a person whom it asks answers; else nobody does"
    )
    plan: list[str] | None = Field(None, description="lines `EFFECT NAME: SUMMARY`; `*` stands for any text")
    calls: list[str] | None = Field(
        None, description="calls that change something, `METHOD PATH`, in order; `[]`: none; reads only where named"
    )
    end: EndForm = Field(default_factory=lambda: EndForm.model_validate({}), description="how it ends")


class Expectation(msgspec.Struct, frozen=True):
    """A test that was read."""

    path: Path
    form: ExpectationForm
    document: Document


class RunEnd(msgspec.Struct, frozen=True):
    """What happened."""

    plan: Sequence[str]
    calls: Sequence[str]
    exit: int
    message: str
    steps: Mapping[str, Sequence[str]]  # names by `done`, `failed`, `skipped`
    state: Sequence[Json]  # what was found, a value for each fact that is expected


class PartDifference(msgspec.Struct, frozen=True):
    """What is otherwise in one part: lines that begin with `-` (expected), `+` (happened) or a blank (both)."""

    part: str
    lines: Sequence[str]


def read(path: Path) -> Expectation:
    """Read a test strictly; Invalid with file, line and column where it has a mistake."""
    document = read_yaml(path)
    return Expectation(path, decode(ExpectationForm, document), document)


def plan_lines(plan: Plan) -> Sequence[str]:
    """Return the lines of a plan that tests name."""
    return [
        f"{one.effect.name} {one.name}: {one.summary}{f' [{one.follows}]' if one.follows else ''}"
        for one in plan.actions
    ]


def fits(pattern: str, text: str) -> bool:
    """Whether a text is what a pattern says, in which `*` stands for any text."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


def differences(wanted: ExpectationForm, ended: RunEnd) -> Sequence[PartDifference]:
    """Return what is otherwise than expected, part by part; nothing where all is as it should be."""
    end = wanted.end
    parts: list[tuple[str, Sequence[str] | None, Sequence[str]]] = [
        ("plan", wanted.plan, ended.plan),
        ("calls", wanted.calls, _counted(wanted.calls or (), ended.calls)),
        ("exit", [str(end.exit)], [str(ended.exit)]),
        ("message", None if end.message is None else [end.message], [ended.message]),
        ("done", end.done, ended.steps["done"]),
        ("failed", end.failed, ended.steps["failed"]),
        ("skipped", end.skipped, ended.steps["skipped"]),
    ]
    found = [PartDifference(part, compared(want, have)) for part, want, have in parts if want is not None]
    for want, have in zip(end.state, ended.state, strict=True):
        found.append(_fact(want, have))
    told = [one for one in found if any(line[0] in "-+" for line in one.lines)]
    if any(one.part == "exit" for one in told) and ended.message and end.message is None:
        told.append(PartDifference("message", [f"+ {ended.message}"]))
    return told


def _counted(wanted: Sequence[str], calls: Sequence[str]) -> Sequence[str]:
    """Return the calls that count: those that change something, and reads that a pattern names, a row of them once."""
    reads = [pattern for pattern in wanted if not pattern.startswith(_CHANGING)]
    found: list[str] = []
    for call in calls:
        read = not call.startswith(_CHANGING)
        if read and (not any(fits(pattern, call) for pattern in reads) or found[-1:] == [call]):
            continue
        found.append(call)
    return found


def _fact(want: StateForm, have: Json) -> PartDifference:
    if want.get is not None:
        same = type(have) is type(want.is_) and have == want.is_
        place, wanted = f"{want.get} {want.key}".strip(), want.is_
    else:
        same = fits(want.has, have) if isinstance(have, str) and want.has is not None else have is want.has
        place, wanted = f"{want.host}:{want.file}", want.has
    return PartDifference(place, [] if same else [f"- {_shown(wanted)}", f"+ {_shown(have)}"])


def _shown(value: Json) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}…"


def compared(wanted: Sequence[str], found: Sequence[str]) -> list[str]:
    """Return both lists as one: lines that only one has are marked, and a pattern is shown as what it fits."""
    rows, columns = len(wanted), len(found)
    longest = [[0] * (columns + 1) for _ in range(rows + 1)]  # of what both share from here on
    for row in range(rows - 1, -1, -1):
        for column in range(columns - 1, -1, -1):
            longest[row][column] = (
                longest[row + 1][column + 1] + 1
                if fits(wanted[row], found[column])
                else max(longest[row + 1][column], longest[row][column + 1])
            )
    lines: list[str] = []
    row = column = 0
    while row < rows or column < columns:
        if row < rows and column < columns and fits(wanted[row], found[column]):
            lines.append(f"  {found[column]}")
            row, column = row + 1, column + 1
        elif row < rows and (column == columns or longest[row + 1][column] >= longest[row][column + 1]):
            lines.append(f"- {wanted[row]}")
            row += 1
        else:
            lines.append(f"+ {found[column]}")
            column += 1
    return lines
