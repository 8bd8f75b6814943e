"""What the configuration is declared with, and how it is read where nothing is wrong with it.

Every command reads the configuration first, so this reads it quickly and has no words for mistakes: whatever is not
plainly right is read again by `mirror.py`, which makes the same models for pydantic and knows all the words.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
)

from maint.model.json import Json

Read = Callable[[Any], Any]  # Any: from what the document holds to what the model holds
_REQUIRED = object()


class Doubt(Exception):
    """Something is not plainly right."""


@dataclass(frozen=True)
class Declared:
    """What is declared of a field, or of a kind of value within `Annotated`; limits are None where there are none."""

    default: Any = _REQUIRED
    description: str = ""
    examples: Sequence[Any] = ()
    ge: int | None = None
    le: int | None = None
    min_length: int | None = None

    @property
    def required(self) -> bool:
        """Whether the document must have it."""
        return self.default is _REQUIRED

    def holds(self, value: Any) -> bool:
        """Tell whether a value keeps the limits."""
        return (
            (self.ge is None or value >= self.ge)
            and (self.le is None or value <= self.le)
            and (self.min_length is None or len(value) >= self.min_length)
        )


def Field(  # reads as a declaration
    *,
    default: Any = _REQUIRED,
    description: str = "",
    examples: Sequence[Any] = (),
    ge: int | None = None,
    le: int | None = None,
    min_length: int | None = None,
) -> Any:
    """Declare a field, or the limits of a kind of value; see `Declared`."""
    return Declared(default, description, examples, ge, le, min_length)


@dataclass(frozen=True)
class Before:
    """Makes the value of a field from what the document holds; ValueError says what is wrong."""

    make: Read


@dataclass(frozen=True)
class After:
    """Looks at a value of the right type; ValueError says what is wrong."""

    look: Read


@dataclass(frozen=True)
class Shown:
    """How a kind of value is shown in the JSON schema."""

    schema: Mapping[str, Json]


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
class Strict:
    """A part of the configuration: it takes nothing that it does not know, and never changes."""

    declared: ClassVar[Mapping[str, Declared]] = {}

    def __init_subclass__(cls) -> None:
        cls.declared = {name: getattr(cls, name) for name in cls.__annotations__}

    def __init__(self, **values: Any) -> None:
        left_out = {name: field.default for name, field in self.declared.items() if name not in values}
        self.__dict__.update(values, **left_out)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} never changes")

    def model_dump(self) -> dict[str, Any]:  # Any: values of any field
        """Return the values as plain data."""
        return {name: plain(getattr(self, name)) for name in self.declared}

    @classmethod
    def of(cls, value: object) -> Self:
        """Read it from what a document holds.

        Raises:
            Doubt: it is not plainly right.
        """
        readers = _readers(cls)
        if not isinstance(value, dict) or not value.keys() <= readers.keys():
            raise Doubt
        found = {name: readers[name](item) for name, item in value.items()}
        if any(field.required and name not in found for name, field in cls.declared.items()):
            raise Doubt
        return cls(**found)


M = TypeVar("M", bound=Strict)


def plain(value: Any) -> Any:  # Any: any value of any field, and what JSON makes of it
    """Return a value as JSON holds it."""
    if isinstance(value, Strict):
        return value.model_dump()
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.isoformat() if isinstance(value, date) else value


def _readers(model: type[Strict]) -> Mapping[str, Read]:
    if model not in _READERS:
        fields = model.declared.items()
        _READERS[model] = {name: _limited(_reader(model.__annotations__[name]), field) for name, field in fields}
    return _READERS[model]


def _reader(annotation: Any) -> Read:  # Any: annotations have no type of their own
    """Return what reads a value of some type; it raises Doubt, or ValueError, for all that is not plainly right."""
    kind, inner = get_origin(annotation), get_args(annotation)
    if kind is Annotated:
        return _annotated(_reader(inner[0]), inner[1:])
    if kind in (Union, UnionType):
        return _first_of([_reader(one) for one in inner])
    if kind is Literal:
        return lambda value: value if type(value) is str and value in inner else _doubt()
    if kind is dict:
        key, one = _reader(inner[0]), _reader(inner[1])
        return lambda value: {key(k): one(v) for k, v in (value.items() if isinstance(value, dict) else _doubt())}
    if kind is not None:
        one = _reader(inner[0])
        return lambda value: tuple(one(v) for v in (value if isinstance(value, list) else _doubt()))
    if issubclass(annotation, Strict):
        return cast(Read, annotation.of)
    return _PLAIN[annotation]


def _annotated(inner: Read, notes: Sequence[object]) -> Read:
    found = inner
    for note in notes:
        if isinstance(note, After):
            found = _then(found, note.look)
        elif isinstance(note, Before):
            found = _then(note.make, found)
        elif isinstance(note, Declared):
            found = _limited(found, note)
    return found


def _then(first: Read, second: Read) -> Read:
    return lambda value: second(first(value))


def _limited(inner: Read, field: Declared) -> Read:
    if field.ge is None and field.le is None and field.min_length is None:
        return inner

    def limited(value: Any) -> Any:  # Any: see Read
        found = inner(value)
        return found if field.holds(found) else _doubt()

    return limited


def _first_of(members: Sequence[Read]) -> Read:
    def first(value: Any) -> Any:  # Any: see Read
        for member in members:
            try:
                return member(value)
            except (Doubt, ValueError):
                continue
        return _doubt()

    return first


def _exactly(kind: type) -> Read:
    return lambda value: value if type(value) is kind else _doubt()


def _number(value: Any) -> float:  # Any: see Read
    return float(value) if type(value) in (int, float) else _doubt()


def _day(value: Any) -> date:  # Any: see Read
    return date.fromisoformat(value) if type(value) is str and len(value) == len("2027-06-30") else _doubt()


def _doubt() -> Any:  # Any: stands where a value would
    raise Doubt


_READERS: dict[type[Strict], Mapping[str, Read]] = {}
_PLAIN: Mapping[type, Read] = {
    str: _exactly(str),
    int: _exactly(int),
    bool: _exactly(bool),
    NoneType: _exactly(NoneType),
    float: _number,
    date: _day,
}
