"""Whatever stands in a key of a file that people write, what is wrong is said once, and in their words."""

import json
import re
from collections.abc import Iterator
from typing import get_args

import pytest
from pydantic import BaseModel

from maint.config.error_messages import decoded
from maint.config.schema import Config
from maint.config.yaml import load
from maint.engine.expectations import ExpectationForm
from maint.engine.read_step import PlaybookForm
from maint.model.json import Json

WRONG: list[Json] = [
    None, "", [], {}, -1, 0, 1.5, 1e300, 10**30, True, "abc", "12", "-5s", "../..", "env:", ["x"], [1], {"a": 1},
    {"x": {"y": [1]}},
]  # fmt: skip
THEIRS = re.compile(r"[Ii]nput|\bunion|\bvalid\b|\^|\\|\bNone\b|\bint\b|\bstr\b|\bdict\b|pydantic")


def within(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from within(inner)


def fields(model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[tuple[type[BaseModel], str]]:
    if model in seen:
        return
    seen.add(model)
    for name, field in model.model_fields.items():
        yield model, field.alias or name
        for inner in within(field.annotation):
            yield from fields(inner, seen)


@pytest.mark.parametrize("root", [Config, PlaybookForm, ExpectationForm])
def test_each_mistake_is_said_once_and_in_the_words_of_those_who_write_the_file(root: type[BaseModel]) -> None:
    found = 0
    for model, key in fields(root, set()):
        for value in WRONG:
            _, mistakes = decoded(model, load(json.dumps({key: value}), "file.yaml"))
            told = [(one.at, one.message) for one in mistakes if "is missing" not in one.message]
            case = (model.__name__, key, value, told)
            assert len({at for at, _ in told}) == len(told), case
            for _, message in told:
                assert not THEIRS.search(message.partition(": ")[2]), case
                found += 1
    assert found > 200
