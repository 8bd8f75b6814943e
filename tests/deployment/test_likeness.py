"""A copy that is held against its document is called its redacted copy only where judging it would say the same."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maint.deployment.document import spell
from maint.deployment.judge import Judge
from maint.deployment.likeness import Likeness
from maint.errors import WorkFailed
from tests.deployment.test_redacted_copy import copy
from tests.snapshots.conftest import DEPLOYMENTS

SIZES = (1000, 1 << 18)  # bytes of a block


def cut(content: bytes, size: int) -> Iterator[bytes]:
    return (content[at : at + size] for at in range(0, len(content), size))


def alike(content: bytes, shown: bytes, size: int = SIZES[-1]) -> bool:
    """Return whether a copy is proven, as a verification asks it."""
    likeness = Likeness(cut(content, size), cut(shown, size // 2))
    return likeness.proves(Judge().verdict(likeness.blocks()))


def counted(content: bytes) -> tuple[dict[str, int], int]:
    """Return what a copy holds, and how many secrets can be read in it."""
    verdict = Judge().verdict([content])
    return {**verdict.judgement.counts, "redacted": 0}, verdict.summary.secrets


@pytest.mark.parametrize("size", SIZES)
def test_the_copy_of_what_a_server_writes_is_proven_without_being_judged(deployment: Path, size: int) -> None:
    content = deployment.read_bytes()
    shown = copy(content)
    assert alike(content, shown, size)
    assert counted(shown) == (counted(content)[0], 0)


def test_a_document_in_another_style_proves_nothing(recording: Callable[[str], Path]) -> None:
    content = recording("17").read_bytes()
    assert not alike(json.dumps(json.loads(content)).encode(), copy(content))


@pytest.mark.parametrize("size", SIZES)
def test_a_copy_that_ends_early_goes_on_or_shows_a_secret_is_not_proven(
    recording: Callable[[str], Path], size: int
) -> None:
    content = recording("17").read_bytes()
    shown = copy(content)
    for wrong in (b"", shown[:-1], shown[: shown.rfind(b"\n") + 1], shown + b"{}", content, shown[: len(shown) // 2]):
        assert not alike(content, wrong, size)
    for found in list(re.finditer(rb'"(?:value|password|pwHash|pwSalt)" : "fp:[0-9a-f]{16}"', shown))[::40]:
        clear = shown[: found.end() - 20] + b"in clear" + shown[found.end() - 1 :]
        assert not alike(content, clear, size)


def test_a_copy_that_cannot_be_read_to_its_end_is_not_proven(recording: Callable[[str], Path]) -> None:
    content = recording("17").read_bytes()

    def broken() -> Iterator[bytes]:
        yield copy(content)
        raise WorkFailed("its content is not what was captured", hint="")

    likeness = Likeness(cut(content, SIZES[0]), broken())
    assert b"".join(likeness.blocks()) == content
    assert not likeness.holds


def test_secrets_longer_than_a_block_and_inside_other_text_are_held_against_their_fingerprints() -> None:
    long = "s" * 100_000
    items = [
        {"name": "a_password", "value": long, "sensitive": True},
        {"name": "url", "value": f'jdbc:x?"{long}"&\\é', "sensitive": False},
        {"name": "b_password", "value": 'ö\n\\ "q' * 9, "sensitive": True},
    ]
    document = {"clusters": [], "hosts": [], "users": [], "managerSettings": {"items": items}}
    content = spell(document)
    assert alike(content, copy(content), SIZES[0])


SMALL = min((path.read_bytes() for path in DEPLOYMENTS), key=len)
SHOWN = copy(SMALL)
MARKS = [found.start() for found in re.finditer(b"fp:", SHOWN)]


@given(st.data())
def test_whatever_is_done_to_a_copy_it_is_only_proven_where_it_reads_as_before(data: st.DataObject) -> None:
    at = data.draw(st.sampled_from(MARKS)) + data.draw(st.integers(-60, 30))
    gone = data.draw(st.integers(0, 25))
    put = data.draw(st.sampled_from([b"", b'"', b"\\", b"\n", b"\xff", b"{", b"fp:", b" : ", b'", "x" : "']))
    spoiled = SHOWN[:at] + put + SHOWN[at + gone :]
    if alike(SMALL, spoiled):
        assert counted(spoiled) == counted(SHOWN)


def settings(*items: object, **beside: object) -> dict[str, Any]:
    return {"clusters": [], "hosts": [], "users": [], "managerSettings": {"items": [*items]}, **beside}


SECRET = {"name": "db_password", "value": "hunter2hunter2", "sensitive": True}
OTHER = {"name": "db_password", "value": "other-secret-1"}
FLAG = {"name": "plain", "value": "x", "sensitive": False}
LISTED = [{"name": "dr", "password": ["hunter2hunter2"]}]
TAGGED = [{"name": "base", "tags": [OTHER]}]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("document", "left"),
    [
        (settings(FLAG, peers=LISTED, clusters=TAGGED), b'"password" : [ "hunter2hunter2" ]'),
        (settings(SECRET, clusters=TAGGED), b'"value" : "hunter2hunter2"'),
        (settings(OTHER, clusters=TAGGED), b'"value" : "other-secret-1"'),
        (settings(FLAG, OTHER, clusters=TAGGED), b'"value" : "other-secret-1"'),
        (
            settings(SECRET, {**FLAG, "value": "hunter2hunter2"}),
            b'"value" : "hunter2hunter2",\n      "sensitive" : true',
        ),
        (settings({**SECRET, "value": ["hunter2hunter2"]}, clusters=TAGGED), b'"value" : [ "hunter2hunter2" ]'),
    ],
)
def test_one_secret_in_clear_is_not_made_up_for_by_something_hidden_that_no_rule_counts(
    document: dict[str, Any], left: bytes, size: int
) -> None:
    content = spell(document)
    shown = copy(content)
    assert counted(shown) == (counted(content)[0], 0)
    places = [found.start() for found in re.finditer(re.escape(left), content)]
    assert places
    for at in places:
        key = left[: left.index(b" : ")]
        before = content[:at].count(key)
        spot = [found.start() for found in re.finditer(re.escape(key), shown)][before]
        clear = shown[:spot] + re.sub(
            rb'"fp:[0-9a-f]{16}"', lambda _: left.split(b" : ")[1].split(b",\n")[0], shown[spot:], count=1
        )
        assert not alike(content, clear, size)


def test_a_plain_value_that_equals_a_password_does_not_keep_the_copy_from_being_proven() -> None:
    content = spell(settings(SECRET, {**FLAG, "value": "hunter2hunter2"}))
    assert b'"fp:' in copy(content)
    assert alike(content, copy(content))


@pytest.mark.parametrize("key", ["s\\u0065nsitive", 'sensitive" :  true, "x'])
def test_a_flag_that_is_spelled_in_another_way_proves_nothing(key: str) -> None:
    content = spell(settings(SECRET, clusters=TAGGED)).replace(b'"sensitive"', f'"{key}"'.encode())
    assert not alike(content, copy(spell(settings(clusters=TAGGED))))
    shown = content.replace(b"other-secret-1", b"fp:0123456789abcdef")
    assert not alike(content, shown)


def test_a_value_that_stands_twice_in_an_item_is_left_to_the_judge() -> None:
    twice = b'"value" : "first-secret-1",\n      "value" : "hunter2hunter2"'
    content = spell(settings(SECRET)).replace(b'"value" : "hunter2hunter2"', twice)
    shown = copy(content)
    assert shown.count(b'"value" : "fp:') == 2
    spot = shown.index(b'"fp:')
    assert not alike(content, shown[:spot] + b'"first-secret-1"' + shown[spot + 21 :])
