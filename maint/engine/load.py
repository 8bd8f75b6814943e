"""Read a playbook strictly: every mistake in it is found, with its place, before anything is touched."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maint.config.error_messages import decode
from maint.config.fields import Duration
from maint.config.suggestions import did_you_mean
from maint.config.yaml import Document
from maint.config.yaml import load as load_yaml
from maint.errors import Invalid, Position, UsageError
from maint.model.formatting import parse_duration
from maint.model.json import Json
from maint.model.plan import Effect, Parameter, ParameterType, Phase, Playbook, Retry, StepText
from maint.render import expression, template
from maint.steps.parameter_sources import LISTS
from maint.steps.registry import STEPS
from maint.steps.step import Arguments, Step

Path = tuple[str | int, ...]
_SECTIONS = {"steps": Phase.MAIN, "on_failure": Phase.ON_FAILURE, "finally": Phase.FINALLY}
_NAME = r"^[a-z][a-z0-9_]*$"


class _Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, populate_by_name=True, arbitrary_types_allowed=True
    )


class _ParameterText(_Model):
    type: str
    help: str = ""
    default: object = None
    from_: str | None = Field(default=None, alias="from")


class _RetryText(_Model):
    attempts: Annotated[int, Field(ge=1, le=100)]
    pause: Duration = 5.0


class _Step(_Model):
    name: str
    do: str | None = None
    playbook: str | None = None
    with_: dict[str, object] = Field(default_factory=dict, alias="with")
    when: str | bool | None = None
    register_: Annotated[str, Field(pattern=_NAME)] | None = Field(default=None, alias="register")
    timeout: Duration | None = None
    retry: _RetryText | None = None
    each: str | list[object] | None = None
    apart: bool = False


class _Playbook(_Model):
    name: str
    summary: str
    parameters: dict[Annotated[str, Field(pattern=_NAME)], _ParameterText] = Field(default_factory=dict)
    steps: list[_Step]
    on_failure: list[_Step] = Field(default_factory=list)
    finally_: list[_Step] = Field(default_factory=list, alias="finally")


class Library(msgspec.Struct, frozen=True):
    """The playbooks that can be named, by name, as text."""

    texts: Mapping[str, str]

    def load(self, name: str) -> Playbook:
        """Return a playbook by name; UsageError where there is none, Invalid where it has a mistake."""
        if name not in self.texts:
            raise UsageError(
                f"there is no playbook {name!r}", hint=_meant(name, self.texts, "`maint playbook list` lists them")
            )
        return _shipped(name, tuple(self.texts.items()))


@lru_cache
def _shipped(name: str, texts: tuple[tuple[str, str], ...]) -> Playbook:
    # A plan includes the same playbooks again and again.
    library = Library(dict(texts))
    return load(library.texts[name], f"{name}.yaml", library)


def _meant(word: str, known: Sequence[str] | Mapping[str, object], otherwise: str) -> str:
    guess = did_you_mean(word, list(known))
    return f"did you mean {guess!r}?" if guess else otherwise


def load(text: str, file: str, library: Library, *, within: Sequence[str] = ()) -> Playbook:
    """Read and check one playbook; Invalid with file, line and column.

    Args:
        file: its name, for messages.
        within: the names of the playbooks that include this one.
    """
    document = load_yaml(text, file)
    model = decode(_Playbook, document)
    parameters = tuple(_parameter(document, name, item) for name, item in model.parameters.items())
    reader = _Reader(document, library, (*within, model.name), {item.name for item in parameters})
    sections = {"steps": model.steps, "on_failure": model.on_failure, "finally": model.finally_}
    if not model.steps:
        raise Invalid("a playbook needs at least one step", at=document.where(("steps",), key=True))
    steps = [reader.step(key, index, item) for key, items in sections.items() for index, item in enumerate(items)]
    return Playbook(model.name, model.summary, parameters, tuple(steps), text)


def _parameter(document: Document, name: str, item: _ParameterText) -> Parameter:
    at = document.where(("parameters", name, "type"))
    if item.type not in list(ParameterType):
        kinds = ", ".join(ParameterType)
        raise Invalid(
            f"a parameter's type is one of {kinds}, not {item.type!r}",
            at=at,
            hint=_meant(item.type, list(ParameterType), ""),
        )
    given = "default" in item.model_fields_set
    if item.from_ is not None:
        _source(document.where(("parameters", name, "from")), item, given=given)
    default = convert(ParameterType(item.type), item.default, document.where(("parameters", name))) if given else None
    required = not given and item.from_ is None
    return Parameter(name, ParameterType(item.type), item.help, default, required, item.from_)


def _source(at: Position, item: _ParameterText, *, given: bool) -> None:
    if item.from_ not in LISTS:
        raise Invalid(f"there is no list {item.from_!r}", at=at, hint=_meant(item.from_ or "", LISTS, ""))
    if given or item.type != ParameterType.LIST:
        raise Invalid("`from` fills a parameter of type list that has no default", at=at)


def convert(kind: ParameterType, value: object, at: Position | None = None) -> Json:
    """Return a parameter's value in its type, or Invalid; texts come from `--set`, typed values from YAML."""
    readers: dict[ParameterType, Callable[[object], Json]] = {
        ParameterType.STRING: _string,
        ParameterType.INTEGER: _integer,
        ParameterType.BOOLEAN: _boolean,
        ParameterType.DURATION: _duration,
        ParameterType.LIST: _list,
    }
    if value is None:
        return None
    try:
        return readers[kind](value)
    except (ValueError, TypeError) as error:
        raise Invalid(f"{value!r} is not of type {kind.value}: {error}", at=at) from None


def _string(value: object) -> Json:
    if not isinstance(value, str):
        raise TypeError("write it in quotes")
    return value


def _integer(value: object) -> Json:
    if isinstance(value, bool):
        raise TypeError("it is true or false")
    return int(str(value))


def _boolean(value: object) -> Json:
    words = {"true": True, "false": False, "yes": True, "no": False}
    if isinstance(value, bool):
        return value
    if str(value).lower() not in words:
        raise ValueError("write true or false")
    return words[str(value).lower()]


def _duration(value: object) -> Json:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return parse_duration(str(value))


def _list(value: object) -> Json:
    if isinstance(value, str):
        return [item.strip() for item in value.split(",") if item.strip()]
    if not isinstance(value, list):
        raise TypeError("write a list, or a text with commas")
    return value


class _Reader(msgspec.Struct):
    document: Document
    library: Library
    within: Sequence[str]
    parameters: set[str]
    registered: set[str] = set()

    def step(self, section: str, index: int, item: _Step) -> StepText:
        path: Path = (section, index)
        at = self.document.where(path)
        if (item.do is None) == (item.playbook is None):
            raise Invalid("a step has either `do` or `playbook`", at=at)
        with_ = {key: _json(value) for key, value in item.with_.items()}
        known = self.parameters | ({"item"} if item.each is not None else set())
        self._each(path, item)
        if item.apart and item.each is None:
            raise Invalid("`apart` belongs to a step with `each`", at=self.document.where((*path, "apart"), key=True))
        if item.do is not None:
            self._do(path, item, with_, known)
        elif item.playbook is not None:
            self._include(path, item, with_, known)
        if isinstance(item.when, str):
            place = self.document.where((*path, "when"))
            late = self.registered if item.do is not None else set()  # what is included is fixed by the plan
            self._names(expression(item.when, at=place).names(), known | late, place, self.registered)
        if item.register_ is not None:
            self.registered.add(item.register_)
        return StepText(
            name=item.name,
            at=at,
            do=item.do,
            include=item.playbook,
            arguments=with_,
            argument_places={key: self.document.where((*path, "with", key)) for key in with_},
            when=item.when if isinstance(item.when, str) or item.when is None else str(item.when).lower(),
            register=item.register_,
            timeout=item.timeout,
            retry=Retry(item.retry.attempts, item.retry.pause) if item.retry else Retry(),
            each=_json(item.each),
            apart=item.apart,
            phase=_SECTIONS[section],
        )

    def _do(self, path: Path, item: _Step, with_: Mapping[str, Json], known: set[str]) -> None:
        at = self.document.where((*path, "do"))
        step = STEPS.get(item.do or "")
        if step is None:
            raise Invalid(
                f"there is no step kind {item.do!r}",
                at=at,
                hint=_meant(item.do or "", STEPS, "`maint help steps` lists them"),
            )
        if item.retry is not None and item.retry.attempts > 1 and step.effect is not Effect.READ:
            raise Invalid(
                f"`retry` is for steps that only read; {step.kind} changes something",
                at=self.document.where((*path, "retry")),
                hint="a run that failed is taken up again with `maint playbook resume`, which looks before it repeats",
            )
        for key, value in with_.items():
            late = self.registered if key in step.late else set()
            for text, place in self._texts(value, (*path, "with", key)):
                self._filled(text, place, known | late)
        check_arguments(step, with_, self.document, path)

    def _include(self, path: Path, item: _Step, with_: Mapping[str, Json], known: set[str]) -> None:
        at = self.document.where((*path, "playbook"))
        name = item.playbook or ""
        if name in self.within:
            raise Invalid(f"playbook {name!r} would include itself", at=at, detail=[" → ".join((*self.within, name))])
        if name not in self.library.texts:
            raise Invalid(f"there is no playbook {name!r}", at=at, hint=_meant(name, self.library.texts, ""))
        if item.register_ or item.retry or item.timeout:
            raise Invalid("`register`, `retry` and `timeout` belong to the steps of the included playbook", at=at)
        inner = load(self.library.texts[name], f"{name}.yaml", self.library, within=self.within)
        for key, value in with_.items():
            if inner.parameter(key) is None:
                raise Invalid(
                    f"playbook {name!r} has no parameter {key!r}",
                    at=self.document.where((*path, "with", key), key=True),
                    hint=_meant(key, [parameter.name for parameter in inner.parameters], ""),
                )
            for text, place in self._texts(value, (*path, "with", key)):
                self._filled(text, place, known)
        missing = [p.name for p in inner.parameters if p.required and p.name not in with_]
        if missing:
            raise Invalid(f"playbook {name!r} needs {', '.join(missing)}", at=at)
        self.registered |= {step.register for step in inner.steps if step.register}

    def _each(self, path: Path, item: _Step) -> None:
        for text, place in self._texts(_json(item.each), (*path, "each")):
            self._filled(text, place, self.parameters)

    def _filled(self, text: str, place: Path, known: set[str]) -> None:
        at = self.document.where(place)
        self._names(template(text, at=at).names(), known, at, self.registered)

    def _texts(self, value: Json, path: Path) -> Iterator[tuple[str, Path]]:
        if isinstance(value, str):
            yield value, path
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                yield from self._texts(inner, (*path, key))
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                yield from self._texts(inner, (*path, index))

    def _names(self, names: frozenset[str], known: set[str], at: Position, late: set[str] | None = None) -> None:
        for name in sorted(names - known):
            if late and name in late:
                raise Invalid(
                    f"{name!r} is only known while the playbook runs, and this chooses what is done",
                    at=at,
                    hint="targets are fixed when the plan is made; use a parameter",
                )
            raise Invalid(
                f"{name!r} is not defined", at=at, hint=_meant(name, sorted(known), "declare it under `parameters:`")
            )


def _json(value: object) -> Json:
    # What came out of YAML holds nothing but JSON.
    return value  # type: ignore[return-value]  # the YAML reader builds only JSON types


def is_template(value: Json) -> bool:
    """Whether a value holds a template anywhere."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, Mapping):
        return any(is_template(inner) for inner in value.values())
    return isinstance(value, Sequence) and any(is_template(inner) for inner in value)


def check_arguments(step: Step[Arguments], with_: Mapping[str, Json], document: Document, path: Path) -> None:
    """Check names and, where they are not templates, types of a step's arguments."""
    try:
        step.arguments.model_validate(with_)
    except ValidationError as error:
        for problem in error.errors():
            key = str(problem["loc"][0]) if problem["loc"] else ""
            if key in with_ and problem["type"] != "extra_forbidden" and is_template(with_[key]):
                continue  # judged when it is rendered, still before anything is touched
            raise _argument_error(step, problem["type"], problem["msg"], key, with_, document, path) from None


def _argument_error(
    step: Step[Arguments], kind: str, words: str, key: str, with_: Mapping[str, Json], document: Document, path: Path
) -> Invalid:
    if kind == "extra_forbidden":
        names = list(step.arguments.model_fields)
        at = document.where((*path, "with", key), key=True)
        return Invalid(
            f"{step.kind} has no argument {key!r}",
            at=at,
            hint=_meant(key, names, f"it has {', '.join(names) or 'none'}"),
        )
    if kind == "missing":
        at = document.where((*path, "with") if with_ else (*path, "do"), key=True)
        return Invalid(f"{step.kind} needs the argument {key!r}", at=at)
    at = document.where((*path, "with", key)) if key else document.where(path)
    return Invalid(f"{key}: {words[0].lower()}{words[1:]}", at=at)
