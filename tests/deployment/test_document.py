"""A document that is read and written again is the same, byte for byte."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maint.deployment.document import parse, spell
from maint.deployment.reader import DEEPEST
from maint.errors import WorkFailed
from tests.restore.documents import DEPLOYMENTS, number

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.parametrize("path", DEPLOYMENTS, ids=number)
def test_a_recording_comes_out_as_it_went_in(path: Path) -> None:
    assert spell(parse(path.read_bytes())) == path.read_bytes()


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_whatever_json_can_spell_survives(value: dict[str, Any]) -> None:
    assert json.loads(spell(value)) == value


@pytest.mark.parametrize("text", ["-8906817278156687271", "1.10", "1e400", "0.1000000000000000055511151231257827"])
def test_numbers_keep_their_digits(text: str) -> None:
    content = f'{{\n  "pwSalt" : {text}\n}}'.encode()
    assert spell(parse(content)) == content


@pytest.mark.parametrize("content", [b"<html>secret</html>", b"[ ]", b"\xff", b'{"a": '])
def test_what_is_no_deployment_is_refused_without_its_words(content: bytes) -> None:
    with pytest.raises(WorkFailed) as caught:
        parse(content)
    assert "secret" not in str(caught.value)


def test_what_is_nested_too_deep_is_not_written() -> None:
    deep: Any = {"a": "b"}
    for _ in range(DEEPEST + 1):
        deep = {"a": deep}
    with pytest.raises(WorkFailed, match="nested deeper"):
        spell(deep)
