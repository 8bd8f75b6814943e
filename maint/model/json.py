"""JSON values: their type, a time within them, and the one canonical spelling that digests are made from."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, TypeAlias

import msgspec

from maint.errors import Invalid
from maint.model.formatting import show_time

Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None

Moment = Annotated[datetime, msgspec.Meta(tz=True)]  # in files of ours: one that says its zone


def listed(value: object) -> Sequence[Json]:
    """Return a list, or the list `items` of an object; an empty one where there is none."""
    found = value.get("items") if isinstance(value, Mapping) else value
    return found if isinstance(found, list | tuple) else ()


def objects_of(value: object) -> list[Mapping[str, Json]]:
    """Return the objects of a list, or of the list `items` of an object; none where there is no list."""
    return [one for one in listed(value) if isinstance(one, Mapping)]


def as_json(record: msgspec.Struct) -> dict[str, Json]:
    """Return a record's fields as JSON has them, its own times as `show_time` spells them."""
    fields = msgspec.to_builtins(record, builtin_types=(datetime,))
    return {name: show_time(value) if isinstance(value, datetime) else value for name, value in fields.items()}


def spelled(value: Json) -> str:
    """Return a value in words for people: a text as it is, all else as JSON spells it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def canonical(value: Json) -> bytes:
    """Return the one spelling of a value: keys sorted, no blanks, UTF-8; Invalid where a text in it has no such one."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        word = next(one for one in text.split('"') if not _is_text(one))
        raise Invalid(f"{word!r} is not UTF-8 text, and no plan can hold it", hint="rename what is called so") from None


def _is_text(word: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in word)


def digest(value: Json) -> str:
    """Return the SHA-256 of the canonical spelling, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()
