"""Reading a document piece by piece: cut, broken and odd ones."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from maint.deployment.judge import Judge
from maint.deployment.reader import Reader, read_into
from maint.deployment.reducer import Reducer, Rules, reduced
from maint.errors import WorkFailed


@pytest.fixture(params=[1, 20, 1 << 18], autouse=True)
def window(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reader, "window", request.param)


def read(content: bytes, size: int = 7) -> Any:
    """Return a document, put together again from whatever pieces it is given out in."""
    return reduced((content[at : at + size] for at in range(0, len(content), size)), Rules({}))


def test_a_signed_64_bit_salt_stays_exact() -> None:
    assert read(b'{"pwSalt" : -8906817278156687271}') == {"pwSalt": -8906817278156687271}


def test_a_cut_document_tells_where_it_ends() -> None:
    with pytest.raises(WorkFailed, match="ends at byte 12, before it is complete"):
        read(b'{"users" : [')


def test_an_empty_answer_is_no_document() -> None:
    with pytest.raises(WorkFailed, match="nothing readable in 0 bytes"):
        read(b"")


def test_an_error_page_is_no_document() -> None:
    with pytest.raises(WorkFailed, match="not JSON"):
        read(b"<html><h1>502 Bad Gateway</h1></html>")


@pytest.mark.parametrize("tail", [b"x", b" {}", b"\n<html>", b"]"])
def test_nothing_may_follow_the_document(tail: bytes) -> None:
    with pytest.raises(WorkFailed):
        read(b'{"users" : [ ]}' + tail)


def test_blanks_may_follow_the_document() -> None:
    assert read(b'{"a" : [ ]}\r\n ') == {"a": []}


def test_an_error_never_quotes_the_document() -> None:
    with pytest.raises(WorkFailed) as caught:
        read(b'{"password" : "hunter2-very-secret" oops}')
    assert "hunter2" not in str(caught.value) + str(caught.value.detail)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("indent", [2, None], ids=["as the server writes", "in one line"])
@pytest.mark.parametrize("size", [1 << 20, 5000, 7])
def test_a_fault_is_told_with_its_byte(size: int, indent: int | None, recording: Callable[[str], Path]) -> None:
    document = json.loads(recording("example").read_bytes())
    content = json.dumps(document, indent=indent, separators=(", ", " : ")).replace(", \n", ",\n").encode()
    for at in range(1, len(content), 4001 if size == 7 else 2003):
        broken = content[:at] + b"\x01" + content[at:]
        with pytest.raises(WorkFailed, match="byte") as caught:
            reduced((broken[start : start + size] for start in range(0, len(broken), size)), Rules({}))
        (told,) = re.findall(r"near byte (\d+)", caught.value.message)
        assert at <= int(told) <= at + 8


def test_a_wrong_shape_is_told_with_its_place_and_bytes(recording: Callable[[str], Path]) -> None:
    content = recording("example").read_bytes()
    at = content.index(b'"managementService" : {')
    broken = content[:at] + b'"clusters" : [ {"services" : 3} ], ' + content[at:]
    words = r"no deployment: unexpected values near clusters\[\], between byte \d+ and"
    with pytest.raises(WorkFailed, match=words) as caught:
        judge = Judge()
        judge.feed(broken)
        judge.close()
    first, last = (int(number) for number in re.findall(r"byte (\d+)", caught.value.message))
    assert first <= at + 30 <= last


def test_every_deployment_cut_anywhere_is_refused(deployment: Path) -> None:
    content = deployment.read_bytes()
    for at in range(0, len(content), 4096):
        with pytest.raises(WorkFailed):
            reduced(iter([content[:at]]), Rules({}))


def test_reducing_without_rules_gives_back_the_document(deployment: Path) -> None:
    content = deployment.read_bytes()
    pieces = iter([content[at : at + 997] for at in range(0, len(content), 997)])
    assert reduced(pieces, Rules({})) == json.loads(content)


@pytest.mark.parametrize("content", [b"[ ]", b"3", b'"text"', b"null"])
def test_only_an_object_is_a_deployment(content: bytes) -> None:
    with pytest.raises(WorkFailed, match="no deployment"):
        reduced(iter([content]), Rules({}))


@pytest.mark.parametrize(
    ("content", "nulls", "repeated"),
    [(b'{"a" : [ null, 1 ]}', ["a"], []), (b'{"a" : {"b" : 1, "b" : 2}}', [], ["a.b"]), (b'{"a" : [ 1 ]}', [], [])],
)
def test_nulls_in_lists_and_keys_that_stand_twice_are_noted(content: bytes, nulls: Any, repeated: Any) -> None:
    reducer = Reducer(Rules({}))
    read_into(reducer, [content])
    assert (reducer.nulls, reducer.repeated) == (nulls, repeated)
