"""The models of the configuration once more, for pydantic: for words about mistakes, JSON schema, sample and reference.

Made from the declarations in `schema.py`, so there is nothing to keep in step.
"""

from collections.abc import Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, WithJsonSchema, create_model

from maint.config import strict
from maint.config.document import Document
from maint.config.models import After, Before, Declared, M, Shown, Strict


def mirror(model: type[Strict]) -> type[BaseModel]:
    """Return the pydantic model of a part of the configuration."""
    if model not in _MADE:
        fields: dict[str, Any] = {  # Any: as pydantic takes them
            name: (_annotation(model.__annotations__[name]), _field(field)) for name, field in model.declared.items()
        }
        found = create_model(model.__name__, __base__=strict.Strict, __doc__=model.__doc__, **fields)
        _MADE[model], _OWN[found] = found, model
    return _MADE[model]


def read_with_words(model: type[M], document: Document) -> M:
    """Read a document, and say all that is wrong with it.

    Raises:
        Invalid: one error at the first wrong place; further ones are detail lines with places of their own.
    """
    return _back(model, strict.decode(mirror(model), document))


def _back(model: type[M], found: BaseModel) -> M:
    return model(**{name: _value(getattr(found, name)) for name in model.declared})


def _value(found: Any) -> Any:  # Any: a value of any field
    """Return what pydantic read as our own models hold it."""
    if isinstance(found, BaseModel):
        return _back(_OWN[type(found)], found)
    if isinstance(found, dict):
        return {key: _value(item) for key, item in found.items()}
    return tuple(map(_value, found)) if isinstance(found, list | tuple) else found


_FIELD: Any = pydantic.Field  # Any: its overloads want to see each argument by itself
_MADE: dict[type[Strict], type[BaseModel]] = {}
_OWN: dict[type[BaseModel], type[Strict]] = {}


def _annotation(annotation: Any) -> Any:  # Any: annotations have no type of their own
    kind, inner = get_origin(annotation), get_args(annotation)
    if kind is Annotated:
        return Annotated[(_annotation(inner[0]), *map(_note, inner[1:]))]
    if kind in (Union, UnionType):
        return Union[tuple(map(_annotation, inner))]  # noqa: UP007  # members are known at run time only
    if kind is None and issubclass(annotation, Strict):
        return mirror(annotation)
    if kind in (None, Literal):
        return annotation
    return (dict if kind is dict else Sequence)[tuple(map(_annotation, inner))]


def _note(note: object) -> object:
    if isinstance(note, After):
        return AfterValidator(note.look)
    if isinstance(note, Before):
        return BeforeValidator(note.make)
    if isinstance(note, Shown):
        return WithJsonSchema(dict(note.schema))
    assert isinstance(note, Declared)
    return _FIELD(**_limits(note))


def _field(field: Declared) -> Any:  # Any: as pydantic declares it
    default = field.default
    if isinstance(default, Strict):
        default = mirror(type(default)).model_construct(**vars(default))
    given = {} if field.required else {"default": default}
    examples = {"examples": list(field.examples)} if field.examples else {}
    return _FIELD(**given, description=field.description or None, **examples, **_limits(field))


def _limits(field: Declared) -> dict[str, Any]:  # Any: as pydantic takes them
    limits = {"ge": field.ge, "le": field.le, "min_length": field.min_length}
    return {name: limit for name, limit in limits.items() if limit is not None}
