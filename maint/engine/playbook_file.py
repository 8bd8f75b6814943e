"""A playbook as it is written: the keys of the file, of a parameter and of a step."""

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from maint.config.fields import SHARE, WORD, Duration, Limit

# How many of several: a number, or a part of them such as "25%".
Share: TypeAlias = Annotated[int, Field(ge=0)] | Annotated[str, Field(pattern=SHARE)]


class Form(BaseModel):
    """Something that is written in a file, strictly."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, populate_by_name=True, arbitrary_types_allowed=True, defer_build=True
    )


class ParameterForm(Form):
    """Something that the operator may set."""

    type: str = Field(description="string, integer, boolean, duration or list")
    help: str = Field("", description="what it is for")
    default: object = Field(None, description="its value where none is given; without one it must be given")
    from_: str | None = Field(default=None, alias="from", description="the list of the site that fills it")


class RetryForm(Form):
    """How often a step is tried that only reads, and how long to wait in between."""

    attempts: Annotated[int, Field(ge=1, le=100)] = Field(1, description="how often it is tried")
    pause: Duration = Field(5.0, description="wait before the second try, and between two looks of `until`")
    backoff: Annotated[float, Field(ge=1, le=10)] = Field(
        1.0, description="how much longer each pause is than the last"
    )
    longest: Duration = Field(300.0, description="no pause is longer")


class StepForm(Form):
    """One step: `do` names a step kind, `playbook` includes another playbook."""

    name: str = Field(description="what the operator reads")
    do: str | None = Field(None, description="the step kind")
    playbook: str | None = Field(None, description="instead of `do`: the steps of another playbook")
    with_: dict[str, object] = Field({}, alias="with", description="the arguments")
    when: str | bool | None = Field(None, description="an expression; the step is done only where it holds")
    register_: Annotated[str, Field(pattern=WORD)] | None = Field(
        default=None, alias="register", description="the name under which its result is kept"
    )
    timeout: Limit | None = Field(None, description="limit for the step")
    retry: RetryForm | None = Field(None, description="how often it is tried; for steps that only read")
    until: str | None = Field(None, description="an expression over `result`; the step reads again until it holds")
    each: str | list[object] | None = Field(None, description="a list; the step is planned once per member, `item`")
    apart: bool = Field(False, description="with `each`: a member that fails does not hold up the others")
    serial: Share | None = Field(None, description="so many hosts, or members of `each`, at a time")
    max_fail: Share | None = Field(None, description="go on without the hosts that failed, up to so many")


class PlaybookForm(Form):
    """The whole file."""

    name: str = Field(description="its name")
    summary: str = Field(description="one line for `maint playbook list`")
    parameters: dict[Annotated[str, Field(pattern=WORD)], ParameterForm] = Field(
        {}, description="what the operator may set"
    )
    steps: list[StepForm] = Field(description="the steps, in order")
    on_failure: list[StepForm] = Field([], description="run when an earlier step failed")
    finally_: list[StepForm] = Field([], alias="finally", description="run in the end, whatever happened")
