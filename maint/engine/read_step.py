"""The keys of a playbook and of a step as they are written, and what makes one step right: arguments, names, order."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias, get_origin

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maint import files
from maint.config.error_messages import words_of
from maint.config.fields import SHARE, WORD, Duration, Limit
from maint.config.yaml import Document
from maint.engine.parameters import in_condition, in_text, refuse_reserved
from maint.errors import Invalid, Position
from maint.model.formatting import did_you_mean, meant
from maint.model.json import Json
from maint.model.plan import Effect, Phase, Playbook, Retry, StepText
from maint.steps.hosts.fan_out import HostsArguments
from maint.steps.registry import STEPS
from maint.steps.step import Arguments, Step, in_a_template

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


Keys = tuple[str | int, ...]
_SECTIONS = {"steps": Phase.MAIN, "on_failure": Phase.ON_FAILURE, "finally": Phase.FINALLY}


MOST = 10_000  # steps that are read of one playbook, with those that it includes


def is_file(name: str) -> bool:
    """Whether a playbook is named by its file."""
    return "/" in name or name.endswith((".yaml", ".yml"))


class Mistakes:
    """Collects mistakes: what is raised within `with` is kept, and the reading goes on."""

    def __init__(self) -> None:
        self.listed: list[Invalid] = []

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, Invalid):
            self.listed.append(error)
        return isinstance(error, Invalid)


class _Done(msgspec.Struct, frozen=True):
    """What a step does in which phase, for what depends on the order; an included playbook does several things."""

    kind: str
    phase: Phase
    at: Position


class StepReader:
    """Reads the steps of one playbook, in order; `include` loads a playbook by name, given those that include it."""

    def __init__(
        self,
        document: Document,
        include: Callable[[str, Sequence[str]], Playbook],
        known: Mapping[str, str],
        within: Sequence[str],
        parameters: set[str],
        found: Mistakes,
    ) -> None:
        self._document = document
        self._load = include
        self._known = known
        self._within = within
        self._parameters = parameters
        self._found = found
        self._registered: set[str] = set()
        self._done: list[_Done] = []
        self._wrong: set[str] = set()  # playbooks that have mistakes

    def step(self, section: str, index: int, item: StepForm) -> StepText:
        """Check one step, and return what the planner needs of it."""
        path: Keys = (section, index)
        with_ = {key: _json(value) for key, value in item.with_.items()}
        known = self._parameters | ({"item"} if item.each is not None else set())
        for check in (self._form, self._each, self._rolling):
            with self._found:
                check(path, item)
        for check_names in (self._do, self._include, self._when, self._until):
            with self._found:
                check_names(path, item, known)
        if item.register_ is not None:
            with self._found:
                self._register(item.register_, self._document.where((*path, "register")))
            self._registered.add(item.register_)
        retry = item.retry
        return StepText(
            name=item.name,
            at=self._document.where(path),
            do=item.do,
            include=self._place(item.playbook) if item.playbook else None,
            arguments=with_,
            argument_places={key: self._document.where((*path, "with", key)) for key in with_},
            when=item.when if isinstance(item.when, str) or item.when is None else str(item.when).lower(),
            register=item.register_,
            timeout=item.timeout,
            retry=Retry(retry.attempts, retry.pause, retry.backoff, retry.longest) if retry else Retry(),
            until=item.until,
            each=_json(item.each),
            apart=item.apart,
            serial=item.serial,
            max_fail=item.max_fail,
            phase=_SECTIONS[section],
        )

    def refuse_questions_amid_a_window(self) -> None:
        """Note a step that waits for a person while everyone who may read the manager's API sees passwords."""
        opened = False
        hint = "ask before `window.open`, or after `window.close`"
        for one in self._done:
            if one.phase is Phase.MAIN:  # a final step closes it when the run ends, wherever it stands
                opened = (opened or one.kind == "window.open") and one.kind != "window.close"
            waits = STEPS[one.kind].asks and (opened if one.phase is Phase.MAIN else self._opens())
            with self._found:
                if waits:
                    raise Invalid("nobody is asked while the redaction window may be open", at=one.at, hint=hint)

    def _opens(self) -> bool:
        return any(one.kind == "window.open" for one in self._done)

    def _register(self, name: str, at: Position) -> None:
        refuse_reserved(name, at)
        if name in self._parameters:
            hint = "register it under another name: steps would be given the parameter"
            raise Invalid(f"{name!r} is the name of a parameter", at=at, hint=hint)

    def _form(self, path: Keys, item: StepForm) -> None:
        if (item.do is None) == (item.playbook is None):
            raise Invalid("a step has either `do` or `playbook`", at=self._document.where(path))
        if item.apart and item.each is None:
            raise Invalid("`apart` belongs to a step with `each`", at=self._document.where((*path, "apart"), key=True))

    def _do(self, path: Keys, item: StepForm, known: set[str]) -> None:
        if item.do is None:
            return
        at = self._document.where((*path, "do"))
        step = STEPS.get(item.do)
        if step is None:
            hint = meant(item.do, STEPS, "`maint help steps` lists them")
            raise Invalid(f"there is no step kind {item.do!r}", at=at, hint=hint)
        self._done.append(_Done(item.do, _SECTIONS[str(path[0])], at))
        for key in ("retry", "until"):
            with self._found:
                self._refuse_repeating(step, item, key, path)
        for key, value in item.with_.items():
            with self._found:
                self._argument(step, key, _json(value), (*path, "with", key), known)
        self._found.listed += argument_mistakes(step, item.with_, self._document, path)

    def _refuse_repeating(self, step: Step[Arguments], item: StepForm, key: str, path: Keys) -> None:
        if _repeats(item, key) and step.worst(item.with_) is not Effect.READ:
            hint = "`maint playbook resume` takes up a run that failed, and looks before it repeats"
            if "reads" in step.arguments.model_fields:
                hint = "say `reads: true` of what changes nothing"
            words = f"`{key}` is for steps that only read; {step.kind} changes something"
            raise Invalid(words, at=self._document.where((*path, key)), hint=hint)

    def _argument(self, step: Step[Arguments], key: str, value: Json, path: Keys, known: set[str]) -> None:
        if key in step.expressions and isinstance(value, str):
            at = self._document.where(path)
            self._names(in_condition(value, at=at), known | self._registered, at)
            return
        late = self._registered if key in step.late else set()
        for text, place in texts(value, path):
            self._filled(text, place, known | late)

    def _include(self, path: Keys, item: StepForm, known: set[str]) -> None:
        if item.playbook is None:
            return
        at, name = self._document.where((*path, "playbook")), self._place(item.playbook)
        whole_name = str(Path(name).resolve()) if is_file(name) else name
        if whole_name in self._within:
            words = " → ".join((*self._within, whole_name))
            raise Invalid(f"playbook {item.playbook!r} would include itself", at=at, detail=[words])
        if is_file(name) and not files.is_file(Path(name)):
            raise Invalid(f"there is no file {name}", at=at, hint="a path counts from the folder of this playbook")
        if not is_file(name) and name not in self._known:
            raise Invalid(f"there is no playbook {name!r}", at=at, hint=meant(name, self._known, ""))
        own = [item.register_, item.retry, item.timeout, item.until, item.max_fail]
        if any(one is not None for one in own):
            words = (
                "`register`, `retry`, `timeout`, `until` and `max_fail` belong to the steps of the included playbook"
            )
            raise Invalid(words, at=at)
        if len(self._done) >= MOST:
            words = f"a playbook has at most {MOST} steps, with those of the playbooks that it includes"
            raise Invalid(words, at=at, hint="split it, or let one step name many hosts")
        if name in self._wrong:  # its mistakes are told where it is included first
            return
        self._wrong.add(name)
        inner = self._load(name, self._within)
        self._wrong.discard(name)
        for key, value in item.with_.items():
            with self._found:
                self._handed_over(inner, key, _json(value), (*path, "with", key), known)
        names = [parameter.name for parameter in inner.parameters]
        strange = [key for key in item.with_ if key not in names]
        given = {*item.with_, *(did_you_mean(key, names) for key in strange)}  # misspelled is not missing
        missing = [
            parameter.name for parameter in inner.parameters if parameter.required and parameter.name not in given
        ]
        if missing:
            raise Invalid(f"playbook {name!r} needs {', '.join(missing)}", at=at)
        self._registered |= {step.register for step in inner.steps if step.register}
        self._done += [_Done(kind, phase, at) for kind, phase in self._inner(inner, _SECTIONS[str(path[0])])]

    def _place(self, name: str) -> str:
        """Return the name of an included playbook, or its path, which counts from the folder of this file."""
        return str(Path(self._document.name).parent / name) if is_file(name) else name

    def _inner(self, playbook: Playbook, phase: Phase) -> Iterator[tuple[str, Phase]]:
        for step in playbook.steps:
            here = step.phase if phase is Phase.MAIN else phase
            if step.include is not None:
                yield from self._inner(self._load(step.include, ()), here)
            elif step.do is not None:
                yield step.do, here

    def _handed_over(self, inner: Playbook, key: str, value: Json, path: Keys, known: set[str]) -> None:
        if inner.parameter(key) is None:
            raise Invalid(
                f"playbook {inner.name!r} has no parameter {key!r}",
                at=self._document.where(path, key=True),
                hint=meant(key, [parameter.name for parameter in inner.parameters], ""),
            )
        for text, place in texts(value, path):
            self._filled(text, place, known)

    def _each(self, path: Keys, item: StepForm) -> None:
        for text, place in texts(_json(item.each), (*path, "each")):
            self._filled(text, place, self._parameters)

    def _when(self, path: Keys, item: StepForm, known: set[str]) -> None:
        if isinstance(item.when, str):
            place = self._document.where((*path, "when"))
            late = self._registered if item.do is not None else set()  # what is included is fixed by the plan
            self._names(in_condition(item.when, at=place), known | late, place)

    def _until(self, path: Keys, item: StepForm, known: set[str]) -> None:
        if item.until is None:
            return
        place = self._document.where((*path, "until"))
        self._names(in_condition(item.until, at=place), known | self._registered | {"result"}, place)
        if item.timeout is None:
            raise Invalid("a step with `until` needs a `timeout`", at=place, hint="such as `timeout: 10m`")

    def _rolling(self, path: Keys, item: StepForm) -> None:
        step = STEPS.get(item.do) if item.do else None
        hosts = step is not None and issubclass(step.arguments, HostsArguments)
        if item.max_fail is not None and step is not None and not hosts:
            at = self._document.where((*path, "max_fail"), key=True)
            raise Invalid(f"`max_fail` belongs to a step that names hosts; {step.kind} does not", at=at)
        if item.serial is None:
            return
        at = self._document.where((*path, "serial"), key=True)
        if item.serial in (0, "0%"):
            raise Invalid("`serial` is at least 1", at=at)
        if item.each is None and not hosts:
            raise Invalid("`serial` belongs to a step that names hosts, or has `each`", at=at)

    def _filled(self, text: str, place: Keys, known: set[str]) -> None:
        at = self._document.where(place)
        self._names(in_text(text, at=at), known, at)

    def _names(self, names: frozenset[str], known: set[str], at: Position) -> None:
        for name in sorted(names - known):
            if name in self._registered:
                raise Invalid(
                    f"{name!r} is only known while the playbook runs, and this chooses what is done",
                    at=at,
                    hint="targets are fixed when the plan is made; use a parameter",
                )
            hint = meant(name, sorted(known), "declare it under `parameters:`")
            raise Invalid(f"{name!r} is not defined", at=at, hint=hint)


def _repeats(item: StepForm, key: str) -> bool:
    return item.until is not None if key == "until" else item.retry is not None and item.retry.attempts > 1


def texts(value: Json, path: Keys) -> Iterator[tuple[str, Keys]]:
    """Yield all texts in a value, each with its place."""
    if isinstance(value, str):
        yield value, path
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from texts(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from texts(inner, (*path, index))


def _json(value: object) -> Json:
    # What came out of YAML holds nothing but JSON.
    return value  # type: ignore[return-value]  # the YAML reader builds only JSON types


def is_template(value: Json) -> bool:
    """Whether a value holds a template anywhere."""
    if isinstance(value, str):
        return in_a_template(value)
    if isinstance(value, Mapping):
        return any(is_template(inner) for inner in value.values())
    return isinstance(value, Sequence) and any(is_template(inner) for inner in value)


def argument_mistakes(
    step: Step[Arguments], with_: Mapping[str, object], document: Document, path: Keys
) -> Iterator[Invalid]:
    """Yield what is wrong with the names and, where they are not templates, the types of a step's arguments."""
    try:
        step.arguments.model_validate({key: _as_list(step, key, value) for key, value in with_.items()})
    except ValidationError as error:
        names = list(step.arguments.model_fields)
        misspelled = {did_you_mean(key, names) for key in with_ if key not in names}
        for problem in error.errors():
            key = str(problem["loc"][0]) if problem["loc"] else ""
            if key in with_ and problem["type"] != "extra_forbidden" and is_template(_json(with_[key])):
                continue  # judged when it is rendered, still before anything is touched
            if problem["type"] == "missing" and key in misspelled:
                continue
            words = words_of(problem, _json(with_.get(key)))
            yield _argument_error(step, problem["type"], words, key, with_, document, path)


def _as_list(step: Step[Arguments], key: str, value: object) -> object:
    # What fills a whole list hides nothing that is wrong beside it.
    field = step.arguments.model_fields.get(key)
    if isinstance(value, str) and in_a_template(value) and field and get_origin(field.annotation) is list:
        return [value]
    return value


def _argument_error(
    step: Step[Arguments], kind: str, words: str, key: str, with_: Mapping[str, object], document: Document, path: Keys
) -> Invalid:
    if kind == "extra_forbidden":
        names = list(step.arguments.model_fields)
        at = document.where((*path, "with", key), key=True)
        return Invalid(
            f"{step.kind} has no argument {key!r}",
            at=at,
            hint=meant(key, names, f"it has {', '.join(names) or 'none'}"),
        )
    if kind == "missing":
        at = document.where((*path, "with") if with_ else (*path, "do"), key=True)
        return Invalid(f"{step.kind} needs the argument {key!r}", at=at)
    at = document.where((*path, "with", key)) if key else document.where(path)
    return Invalid(f"{key}: {words}" if key else words, at=at)
