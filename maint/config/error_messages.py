"""Turn a YAML document into a pydantic model, and pydantic's complaints into words with file, line and column."""

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from maint.config.fields import SHAPES
from maint.config.yaml import Document
from maint.errors import Invalid, Position, UsageError
from maint.model.formatting import KeyPath, did_you_mean, dotted
from maint.model.json import Json

M = TypeVar("M", bound=BaseModel)


def decode(
    model: type[M], document: Document, path: KeyPath = (), *, hint: str | None = None, context: object = None
) -> M:
    """Read a part of a document as a model.

    Args:
        model: derived from `Strict`.
        hint: the next step where a mistake has none of its own.
        context: what validators of the model are given.

    Raises:
        Invalid: one error at the first wrong place; further ones are detail lines with places of their own.
    """
    found, mistakes = decoded(model, document, path, context=context)
    if found is None:
        raise together(mistakes, hint)
    return found


def decoded(
    model: type[M], document: Document, path: KeyPath = (), *, context: object = None
) -> tuple[M | None, Sequence[Invalid]]:
    """Read a part of a document as a model, and return it, or None and one error for each wrong place; see `decode`."""
    data = document.at(path)
    try:
        # JSON mode is what makes strictness useful: text may become a path, a date or an enum, but never a number.
        return model.model_validate_json(json.dumps(data), context=context), ()
    except ValidationError as error:
        complaints = error.errors(include_url=False, include_input=False)
    found = _sorted(_Reading(model, document, path, data), complaints)
    return None, [Invalid(one.line, at=one.at, hint=one.hint) for one in found]


def readable(model: type[M], document: Document, path: KeyPath, vital: Set[str]) -> M | None:
    """Return what can be read of a part without the keys that are wrong; None where a vital one is not left."""
    data = document.at(path)
    for _ in range(2):
        try:
            return model.model_validate_json(json.dumps(data))
        except ValidationError as error:
            wrong = {problem["loc"][0] for problem in error.errors() if problem["loc"]}
        if not isinstance(data, Mapping) or not vital <= data.keys() - wrong:
            return None
        data = {key: value for key, value in data.items() if key not in wrong}
    return None


def typed(model: type[M], values: Mapping[str, object]) -> M:
    """Return a model of what stands on the command line; UsageError: it cannot be."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        problem = error.errors()[0]
        key = problem["loc"][0] if problem["loc"] else ""
        words = words_of(problem, None)
        raise UsageError(f"{key}: {words}" if key else words) from None


def together(mistakes: Sequence[Invalid], hint: str | None = None) -> Invalid:
    """Return one error at the first place for all mistakes, each further one a detail line with its own place."""
    first, *others = mistakes
    hint = hint if first.at is None or first.at.line else None  # an option or a variable stands in no file
    lines = [(f"{one.message}{f' ({one.hint})' if one.hint else ''}", *one.detail) for one in others]
    more = [line for one in lines for line in one]
    message, way = first.message.removeprefix(f"{first.at}: "), first.hint or hint
    if others and first.hint:  # which is about the first alone
        message, way = f"{message} ({first.hint})", hint or "correct each at its place"
    return Invalid(message, at=first.at, detail=[*first.detail, *more], hint=way)


class _Complaint(msgspec.Struct):
    """One thing that is wrong: where, and in which words."""

    at: Position
    path: KeyPath
    words: str
    hint: str | None = None
    key: str | None = None
    guess: str | None = None

    @property
    def subject(self) -> KeyPath:
        """What it is about: the path, or the key below it that is unknown or missing."""
        return self.path if self.key is None else (*self.path, self.key)

    @property
    def order(self) -> tuple[int, int, bool]:
        """The order of the file; what is missing comes last, for it may only be misspelled."""
        return self.at.line, self.at.column, self.words.endswith("is missing")

    @property
    def line(self) -> str:
        """The complaint without its place; an option or a variable tells by its name which key is meant."""
        where = dotted(self.path) if self.at.line else ""
        return f"{where}: {self.words}" if where else self.words


class _Reading(msgspec.Struct):
    model: type[BaseModel]
    document: Document
    path: KeyPath
    data: Json

    def complaint(self, error: ErrorDetails) -> _Complaint:
        """Translate one of pydantic's errors."""
        kind, location = error["type"], error["loc"]
        is_key = bool(location) and location[-1] == "[key]"
        inner, known = self._walk(location[:-1] if is_key else location, absent=kind == "missing")
        path = (*self.path, *inner)
        name = str(inner[-1]) if inner else ""
        if kind == "extra_forbidden":
            guess = did_you_mean(name, known)
            hint = f"did you mean {guess}?" if guess else f"known keys: {', '.join(known)}" if known else None
            place = self.document.where(path, key=True)
            return _Complaint(place, path[:-1], f"unknown key {name!r}", hint, key=name, guess=guess)
        if kind == "missing":
            return _Complaint(self.document.where(path[:-1]), path[:-1], f"the key {name!r} is missing", key=name)
        return _Complaint(self.document.where(path, key=is_key), path, words_of(error, self._value(inner)))

    def _walk(self, location: Sequence[str | int], *, absent: bool) -> tuple[KeyPath, Sequence[str]]:
        """Return the location without pydantic's labels of union members, and the keys known at its last step."""
        # A label is told from a key by looking: nothing of that name is there.
        value: Json = self.data
        types: list[object] = [self.model]
        path: list[str | int] = []
        known: list[str] = []
        for number, step in enumerate(location):
            models = [item for item in types if isinstance(item, type) and issubclass(item, BaseModel)]
            last = number == len(location) - 1
            if not _holds(value, step) and not (last and absent):
                continue
            known = [name for item in models for name in keys(item)]
            types = members([inner for item in types for inner in inside(item, step)])
            path.append(step)
            value = _inner(value, step)
        return tuple(path), known

    def _value(self, path: KeyPath) -> Json:
        value = self.data
        for step in path:
            value = _inner(value, step)
        return value


def _holds(value: Json, step: str | int) -> bool:
    if isinstance(step, int):
        return isinstance(value, list | tuple) and step < len(value)
    return isinstance(value, Mapping) and step in value


def _inner(value: Json, step: str | int) -> Json:
    found: Json = None
    if isinstance(value, Mapping) and isinstance(step, str):
        found = value.get(step)
    elif isinstance(value, list | tuple) and isinstance(step, int) and step < len(value):
        found = value[step]
    return found


_EXPECTED = {
    "string_type": "text",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    "float_type": "a number",
    "bool_type": "true or false",
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type"), "a list"),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type"), "a mapping"),
    "path_type": "a path",
    "none_required": "nothing",
    **dict.fromkeys(
        ("date_type", "date_parsing", "date_from_datetime_parsing", "date_from_datetime_inexact"),
        "a date such as 2027-06-30",
    ),
    **dict.fromkeys(("datetime_type", "datetime_parsing"), "a time such as 2027-06-30T12:00:00Z"),
}
_LIMITS = {
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "too_short": "needs {min_length} or more entries",
    "too_long": "may have at most {max_length} entries",
    "string_too_short": "needs {min_length} or more characters",
    "string_too_long": "may hold at most {max_length} characters",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
}


def words_of(error: ErrorDetails, value: Json) -> str:
    """Say what is wrong without repeating the value: it may be a secret."""
    kind, context = error["type"], error.get("ctx", {})
    if kind in _EXPECTED:
        return f"must be {_EXPECTED[kind]}, not {_described(value)}"
    if kind == "string_pattern_mismatch":
        return SHAPES[context["pattern"]]
    if kind in _LIMITS:
        return _LIMITS[kind].format(**context)
    if kind == "value_error":
        return str(context["error"])
    return error["msg"][:1].lower() + error["msg"][1:]


def _described(value: Json) -> str:
    if value is None:
        return "empty"
    names: tuple[tuple[Any, str], ...] = (  # Any: isinstance takes types and tuples of them
        (bool, "true or false"),
        (int, "a number"),
        (float, "a fraction"),
        (str, "text"),
        (Mapping, "a mapping"),
        (Sequence, "a list"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "something else")


def _sorted(reading: _Reading, errors: Sequence[ErrorDetails]) -> Sequence[_Complaint]:
    complaints = _merged(_pertinent([reading.complaint(error) for error in errors]))
    return sorted(complaints, key=lambda complaint: complaint.order)


def _pertinent(complaints: Sequence[_Complaint]) -> list[_Complaint]:
    """Leave out what another complaint says better."""
    return [one for one in complaints if not any(_outdone(one, other) for other in complaints)]


def _outdone(one: _Complaint, other: _Complaint) -> bool:
    """Tell whether a complaint is only the shadow of another one."""
    # What was read as one member of a union and is wrong inside is not of the union's other types either, and a key
    # that is misspelled is missing too.
    depth = len(one.subject)
    inside_it = len(other.subject) > depth and other.subject[:depth] == one.subject
    return inside_it or (other.path == one.path and other.guess is not None and (*one.path, other.guess) == one.subject)


def _merged(complaints: Sequence[_Complaint]) -> list[_Complaint]:
    """Make one complaint of those that the members of a union raised about the same value."""
    by_place: dict[tuple[Position, KeyPath], _Complaint] = {}
    extra: list[_Complaint] = []
    for complaint in complaints:
        known = by_place.setdefault((complaint.at, complaint.path), complaint)
        if known is complaint or known.words == complaint.words:
            continue
        if not _of_kind(complaint):  # it fits one of the kinds, and this is what else is wrong with it
            if _of_kind(known):
                known.words = complaint.words
            else:
                extra.append(complaint)
        elif _of_kind(known):
            expected, received = known.words.split(", not ")
            known.words = f"{expected} or {complaint.words.removeprefix('must be ').split(', not ')[0]}, not {received}"
    return [*by_place.values(), *extra]


def _of_kind(complaint: _Complaint) -> bool:
    return complaint.words.startswith("must be ") and ", not " in complaint.words


def keys(model: type[BaseModel]) -> list[str]:
    """Return the keys of a model as they are written in a file."""
    return [field.alias or name for name, field in model.model_fields.items()]


def inside(annotation: object, step: str | int) -> list[object]:
    """Return the types that a key or index leads to."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [field.annotation for name, field in annotation.model_fields.items() if step in (name, field.alias)]
    arguments = get_args(annotation)
    if not arguments:
        return []
    return [arguments[0] if isinstance(step, int) else arguments[-1]]


def members(annotations: Iterable[object]) -> list[object]:
    """Take unions and `Annotated` apart, until only plain types are left."""
    found: list[object] = []
    for annotation in annotations:
        if get_origin(annotation) is Annotated:
            found += members(get_args(annotation)[:1])
        elif get_origin(annotation) in (Union, UnionType):
            found += members(get_args(annotation))
        else:
            found.append(annotation)
    return found
