"""Make the sample configuration, its JSON schema and the reference of all keys from the models, so that they agree."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import cast, get_origin

import msgspec
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from maint.config.error_messages import inside, members
from maint.config.schema import Config
from maint.config.secrets import FORMS
from maint.config.yaml import resolve
from maint.model.json import Json

SITE = "prod"
_PLAIN = re.compile(r"[A-Za-z0-9/][A-Za-z0-9_/.@:+-]*[A-Za-z0-9_/.@+-]|[A-Za-z0-9]")

_HEAD = f"""\
## The configuration of maint. Lines that begin with a single # show further keys; take the # away to use them.
## A secret is always a reference, never a value: {FORMS}.
## An encryption key pair is made with age-keygen: its public key goes to recipients, its private key into a file
## that identity names and only its owner reads (chmod 600).
"""

_HEAD_FILLED = f"""\
## The configuration of maint, as `maint config init` has tried it. `maint help configuration` describes every key,
## and `maint config init --sample` writes a file that shows them all.
## A secret is always a reference, never a value: {FORMS}.
"""


class ConfigKey(msgspec.Struct, frozen=True):
    """A key of the configuration, for the reference."""

    name: str
    description: str
    required: bool
    default: Json


def sample() -> str:
    """Return a commented configuration that loads as it is, and still loads with every key taken into use."""
    return _HEAD + "\n".join(_block(Config, 0, None)) + "\n"


def reference() -> list[ConfigKey]:
    """Return every key, nested ones in dotted form, in the order of the schema."""
    return list(_keys(Config, ""))


def json_schema() -> dict[str, Json]:
    """Return the JSON schema of the file, for editors."""
    _build(Config)
    return Config.model_json_schema()


def _build(model: type[BaseModel]) -> None:
    """Have the models within one built: older pydantic shows no default of one that was never used."""
    for _, field in _fields(model):
        if inner := _nested(field)[0]:
            inner.model_rebuild()
            _build(inner)


def _keys(model: type[BaseModel], prefix: str) -> Iterator[ConfigKey]:
    for name, field in _fields(model):
        inner, several = _nested(field)
        here = f"{prefix}{name}{'.NAME' if several == 'mapping' else '[]' if several else ''}"
        default = None if inner or field.is_required() else _default(field)
        yield ConfigKey(here, field.description or "", field.is_required(), default)
        if inner:
            yield from _keys(inner, f"{here}.")


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        yield field.alias or name, field


def _nested(field: FieldInfo) -> tuple[type[BaseModel] | None, str]:
    """Return the model that a key holds, and whether it holds a `list` or `mapping` of them."""
    for item in members([field.annotation]):
        if isinstance(item, type) and issubclass(item, BaseModel):
            return item, ""
        for element in members(inside(item, 0) + inside(item, "")) if get_origin(item) else []:
            if isinstance(element, type) and issubclass(element, BaseModel):
                return element, "mapping" if get_origin(item) is dict else "list"
    return None, ""


def _default(field: FieldInfo) -> Json:
    value = field.get_default()
    return list(value) if isinstance(value, tuple) else value


def _block(model: type[BaseModel], indent: int, off: int | None) -> list[str]:
    """Return the lines of a model's keys; `off`: the column of the comment sign when all of it is commented out."""
    lines: list[str] = []
    for name, field in _fields(model):
        inner, several = _nested(field)
        sign = off if off is not None or field.is_required() else indent
        if inner is None:
            lines.append(_line(f"{name}: {_shown(field)}", indent, sign, field.description))
            continue
        lines.append(_line(f"{name}:", indent, sign, field.description))
        lines += _inner_block(inner, several, indent, sign)
    return lines


def _inner_block(inner: type[BaseModel], several: str, indent: int, off: int | None) -> list[str]:
    if several == "mapping":
        return [_line(f"{SITE}:", indent + 2, off, None), *_block(inner, indent + 4, off)]
    lines = _block(inner, indent + (4 if several else 2), off)
    if several:
        dash = indent + (2 if off is None else 4)  # the comment sign moves the text by two
        lines[0] = f"{lines[0][:dash]}- {lines[0][dash + 2 :]}"
    return lines


def _line(text: str, indent: int, off: int | None, description: str | None) -> str:
    line = " " * indent + text if off is None else " " * off + "# " + " " * (indent - off) + text
    return f"{line:<70}  # {description}" if description else line


def _shown(field: FieldInfo) -> str:
    if field.examples:
        return _spelled(field.examples[0])
    return _spelled(_default(field))


def _spelled(value: Json) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and isinstance(resolve(value), str):
        return value
    return json.dumps(value, ensure_ascii=False)


def filled(site: str, values: Mapping[str, Json]) -> str:
    """Return a configuration of one site with these values (keys below `sites.NAME`), each key with what it means."""
    meant = {key.name: key.description for key in reference()}
    return _HEAD_FILLED + "\n".join(_entries({"sites": {site: values}}, "", 0, meant)) + "\n"


def _entries(values: Mapping[str, Json], path: str, indent: int, meant: Mapping[str, str]) -> list[str]:
    lines: list[str] = []
    for name, value in values.items():
        here = "sites.NAME" if path == "sites" else f"{path}.{name}".lstrip(".")
        if isinstance(value, Mapping):
            lines.append(_line(f"{name}:", indent, None, meant.get(here)))
            lines += _entries(value, here, indent + 2, meant)
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            lines.append(_line(f"{name}:", indent, None, meant.get(f"{here}[]")))
            for one in value:
                inner = _entries(cast("Mapping[str, Json]", one), f"{here}[]", indent + 4, meant)
                lines += [f"{inner[0][: indent + 2]}- {inner[0][indent + 4 :]}", *inner[1:]]
        else:
            lines.append(_line(f"{name}: {_spelled(value)}", indent, None, meant.get(here)))
    return lines
