"""Look into the type annotations of pydantic models: which keys there are, and which types a key leads to."""

from collections.abc import Iterable
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

from pydantic import BaseModel


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
