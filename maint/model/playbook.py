"""A playbook as it was written: parameters and steps, each with its place in the file."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from maint.errors import Position
from maint.model.json import Json
from maint.model.plan import Phase, Retry


class ParameterType(StrEnum):
    """What a parameter may hold."""

    STRING = "string"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    DURATION = "duration"
    LIST = "list"


class Parameter(msgspec.Struct, frozen=True):
    """Something that the operator may set."""

    name: str
    type: ParameterType
    help: str
    default: Json
    required: bool
    source: str | None = None  # the list that fills it where nothing is given


class StepText(msgspec.Struct, frozen=True):
    """One step as written; `do` names a step kind, `include` another playbook, and only one of them is set."""

    name: str
    at: Position
    do: str | None
    include: str | None
    arguments: Mapping[str, Json] = {}
    argument_places: Mapping[str, Position] = {}
    when: str | None = None
    register: str | None = None
    timeout: float | None = None
    retry: Retry = Retry()
    each: Json = None
    apart: bool = False  # each item in a lane of its own
    phase: Phase = Phase.MAIN


class Playbook(msgspec.Struct, frozen=True):
    """An ordered list of steps with its parameters."""

    name: str
    summary: str
    parameters: Sequence[Parameter]
    steps: Sequence[StepText]
    text: str

    def parameter(self, name: str) -> Parameter | None:
        """Return a parameter by name, None where there is none."""
        return next((item for item in self.parameters if item.name == name), None)
