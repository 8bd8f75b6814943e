"""Nouns are frozen dataclasses from their first object on."""

import dataclasses
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import FrozenInstanceError, asdict, field, fields, is_dataclass, replace
from types import FrameType

import pytest

from maint.model.noun import Noun, made


class Point(Noun):
    """A place."""

    x: int
    y: int = 0
    marks: Mapping[str, int] = field(default_factory=dict)


class Named(Point):
    """A place with a name."""

    name: str = ""

    def __post_init__(self) -> None:
        if not self.name.isprintable():
            raise ValueError(self.name)


def test_a_noun_is_compared_shown_and_copied_as_a_dataclass_is():
    one = Point(1, marks={"a": 1})
    assert one == Point(1, 0, {"a": 1}) != Point(1)
    assert repr(one) == "Point(x=1, y=0, marks={'a': 1})"
    assert replace(one, y=2) == Point(1, 2, {"a": 1}) == deepcopy(Point(1, 2, {"a": 1}))
    assert asdict(one) == {"x": 1, "y": 0, "marks": {"a": 1}}
    match one:
        case Point(x, y):
            assert (x, y) == (1, 0)


def test_a_noun_is_never_changed_and_takes_nothing_it_does_not_know():
    one = Point(1)
    for name in ("x", "other"):
        with pytest.raises(FrozenInstanceError):
            setattr(one, name, 2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Point(1, z=2)  # type: ignore[call-arg]  # what is tried here
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]  # what is tried here


def test_a_noun_may_build_on_another_and_look_at_what_it_is_given():
    assert [one.name for one in fields(Named(1))] == ["x", "y", "marks", "name"]
    with pytest.raises(ValueError, match="\n"):
        Named(1, name="\n")


def test_a_noun_can_be_asked_for_before_there_is_an_object_of_it():
    class Later(Noun):
        number: int

    assert not is_dataclass(Later)
    assert is_dataclass(made(Later))
    assert hash(Later(1)) == hash(Later(1))


def test_threads_that_need_a_noun_for_the_first_time_at_once_all_get_one():
    for _ in range(20):

        class Fresh(Noun):
            number: int
            more: list[int] = field(default_factory=list)

        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(Fresh, range(50)))
        assert [(one.number, one.more) for one in found] == [(number, []) for number in range(50)]


class Signal(BaseException):
    """What a signal's handler raises."""


def interrupted_at(line: int, kind: type[Noun]) -> bool:
    """Make a kind of noun, let a signal come before a line of it, counted from 0; return whether it had so many."""
    left = line

    def look(frame: FrameType, event: str, _: object) -> object:
        nonlocal left
        if event == "line" and frame.f_globals.get("__name__") == dataclasses.__name__:
            left -= 1
            if left < 0:
                raise Signal
        return look

    tracing = sys.gettrace()
    sys.settrace(look)
    try:
        made(kind)
    except Signal:
        return True
    finally:
        sys.settrace(tracing)
    return False


def test_a_signal_while_a_noun_becomes_a_dataclass_leaves_a_noun_wherever_it_comes():
    line, more = 0, True
    while more:

        class Fresh(Noun):
            number: int
            more: list[int] = field(default_factory=list)
            name: str = ""

        more = interrupted_at(line, Fresh)
        assert Fresh(1) == Fresh(1, []) != Fresh(1, name="x")
        assert repr(Fresh(1)).endswith("Fresh(number=1, more=[], name='')")
        with pytest.raises(FrozenInstanceError):
            Fresh(1).number = 2  # type: ignore[misc]  # what is tried here
        line += 1
    assert line > 100
