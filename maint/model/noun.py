"""What nouns are made of: frozen dataclasses that are put together when the first of a kind is made.

The standard library writes and compiles six methods for each dataclass, which takes longer than reading the module that
holds it. A command imports the nouns of a whole room and makes objects of a few. So `class Login(Noun)` stands for
`@dataclass(frozen=True) class Login`, and is one in every respect as soon as there is an object of it; what needs the
dataclass before (`dataclasses.fields` of the class itself) asks `made`.
"""

from dataclasses import Field, dataclass, field
from threading import RLock
from typing import Any, ClassVar, TypeVar, dataclass_transform

_N = TypeVar("_N", bound="Noun")
_MAKING = RLock()


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Noun:
    """A noun; its subclasses declare fields as dataclasses do."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # Any: of every type

    def __init_subclass__(cls) -> None:
        if any(base is not Noun and issubclass(base, Noun) for base in cls.__bases__):
            made(cls)  # at once, for it may find the method of the noun that it builds on, and never ours

    def __init__(self, *args: Any, **values: Any) -> None:  # Any: the dataclass's own method knows
        made(type(self)).__init__(self, *args, **values)


def made(kind: type[_N]) -> type[_N]:
    """Return a kind of noun, which is a dataclass from now on."""
    with _MAKING:
        for cls in reversed(kind.__mro__):
            if cls is not Noun and issubclass(cls, Noun) and "__dataclass_fields__" not in vars(cls):
                _make(cls)
    return kind


def _make(cls: type) -> None:
    """Make a class a dataclass, or leave it as it was: a signal may end this anywhere, and final steps still follow."""
    before = dict(vars(cls))
    try:
        dataclass(frozen=True)(cls)
    except BaseException:
        for name in vars(cls).keys() - before.keys():
            delattr(cls, name)
        for name, value in before.items():
            if vars(cls).get(name) is not value:
                setattr(cls, name, value)
        raise
