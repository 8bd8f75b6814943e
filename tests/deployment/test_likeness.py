"""A copy that is held against its document is called its redacted copy only where judging it would say the same."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

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
    verdict = Judge().verdict(likeness.blocks())
    return likeness.holds and likeness.hidden == verdict.summary.secrets


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
