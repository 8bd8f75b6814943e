"""Hostile documents end in an error that names what is wrong, never in a traceback, and hold up nobody."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from maint.deployment.compare import compare
from maint.deployment.document import parse, spell
from maint.deployment.judge import Judge, JudgedDocument, broken
from maint.deployment.normalize import Tree, normalize
from maint.deployment.reader import Reader
from maint.deployment.redacted_copy import RedactedCopy
from maint.deployment.reducer import Rules, reduced
from maint.deployment.secrets import Fingerprint, SecretIndex
from maint.errors import WorkFailed

FINGERPRINT = Fingerprint(b"k" * 32)


@pytest.fixture(params=[1, 1 << 18], ids=["member by member", "whole"], autouse=True)
def window(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reader, "window", request.param)


def judged(content: bytes, size: int = 1 << 20) -> JudgedDocument:
    judge = Judge()
    for at in range(0, len(content), size):
        judge.feed(content[at : at + size])
    return judge.close()


def copied(content: bytes) -> bytes:
    return RedactedCopy(iter([content]), SecretIndex(), FINGERPRINT).read(1 << 20)


def tree(content: bytes) -> dict[str, Tree]:
    return normalize([content], FINGERPRINT)


READERS = [judged, copied, tree, parse]
HUGE = b"9" * 5_000


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("number", [HUGE, b"-" + HUGE, b"1e99999999999999999999"])
def test_a_number_beyond_all_bounds_is_told(read: Callable[[bytes], object], number: bytes) -> None:
    with pytest.raises(WorkFailed, match=r"(too large to be read|not JSON).* byte") as caught:
        read(b'{"clusters" : [ ], "more" : %b}' % number)
    assert "999" not in str(caught.value)


@pytest.mark.parametrize("read", [judged, tree, lambda content: spell(parse(content))])
@pytest.mark.parametrize("depth", [65, 500, 100_000])
@pytest.mark.parametrize(("begin", "end"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_what_is_nested_too_deep_is_told(read: Callable[[bytes], object], begin: bytes, end: bytes, depth: int) -> None:
    content = b'{"clusters" : ' + begin * depth + b"1" + end * depth + b"}"
    if read is tree and depth < 1_000:
        return  # which does a tree no harm
    with pytest.raises(WorkFailed, match=r"nested deeper than 64 times|not JSON"):
        read(content)


@pytest.mark.parametrize(
    "content",
    [
        b'{"users" : [ {"name" : "a", "pwHash" : %b1%b} ]}' % (b"[" * 65, b"]" * 65),  # a secret's slot
        b'{"clusters" : %b{"name" : "a"}%b}' % (b"[" * 63, b"]" * 63),  # an object written at once
    ],
)
def test_no_copy_is_made_of_what_is_nested_too_deep(content: bytes) -> None:
    with pytest.raises(WorkFailed, match="nested deeper than 64 times"):
        copied(content)


def test_a_tree_that_python_itself_cannot_walk_is_told() -> None:
    with pytest.raises(WorkFailed, match="nested deeper than 64 times"):
        tree(b'{"clusters" : ' + b'{"a":' * 900 + b"1" + b"}" * 901)


_SETTINGS = b'{"clusters" : [ {"name" : "c", "services" : [ {"name" : "s", "config" : {"items" : [%b]}} ]} ]}'


@pytest.mark.parametrize(
    ("content", "rule", "words"),
    [
        (b'{"clusters" : [null, {"name" : "c"}]}', "shape", "clusters"),
        (b'{"clusters" : [], "clusters" : []}', "duplicates", "clusters"),
        (b'{"clusters" : [], "managerSettings" : {"items" : ["x"]}}', "shape", "a list of settings has elements that"),
        (_SETTINGS % b'"x"', "shape", "a list of settings has elements that"),
        (_SETTINGS % b'{"name" : "", "value" : "v", "sensitive" : false}', "shape", "a setting has no name"),
        (_SETTINGS % b'{"value" : "v", "name" : "", "sensitive" : false}', "shape", "a setting has no name"),
    ],
)
def test_what_stands_where_it_may_not_is_told_whether_read_whole_or_member_by_member(
    content: bytes, rule: str, words: str
) -> None:
    for size in (1, len(content)):
        failed = {one.rule: one.words for one in broken(judged(content, size).judgement)}
        assert words in failed[rule], failed


@pytest.mark.parametrize("text", [r"\ud800", r"\ude00", r"x\udfffy", r"\ude00\ud83d", r"\ud800\ud800", r"\udbff\n"])
def test_half_a_surrogate_pair_is_kept(text: str) -> None:
    content = (
        b'{\n  "clusters" : [ ],\n  "users" : [ ],\n  "hosts" : [ {\n    "hostId" : "%b"\n  } ]\n}' % text.encode()
    )
    assert spell(parse(content)) == content
    assert copied(content) == content
    assert tree(content)["hosts"] == {json.loads(f'"{text}"'): {"hostId": json.loads(f'"{text}"')}}
    kept = reduced([content], Rules({}))
    assert kept == json.loads(content)
    secret = b'{"users" : [ {"name" : "a", "pwHash" : "%b"} ]}' % text.encode()
    known = SecretIndex()
    judge = Judge(secrets=known)
    judge.feed(secret)
    judge.close()
    assert FINGERPRINT(json.loads(f'"{text}"')).encode() in copied(secret)


@pytest.mark.parametrize("read", READERS)
def test_a_surrogate_that_is_not_escaped_is_broken_utf8(read: Callable[[bytes], object]) -> None:
    with pytest.raises(WorkFailed, match="broken UTF-8 near byte 28"):
        read(b'{"clusters" : [ ], "name" : "\xed\xa0\x80"}'.replace(b'"name" : "', b'"nam" : "'))


@pytest.mark.parametrize("read", READERS)
def test_bytes_that_are_not_utf8_are_told_with_their_place(read: Callable[[bytes], object]) -> None:
    with pytest.raises(WorkFailed, match="byte"):
        read(b'{"clusters" : [ ], "name" : "\xff"}')


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("word", [b"NaN", b"Infinity", b"-Infinity"])
def test_what_only_some_readers_take_for_a_number_is_not_json(read: Callable[[bytes], object], word: bytes) -> None:
    with pytest.raises(WorkFailed, match="not JSON"):
        read(b'{"clusters" : [ ], "more" : %b}' % word)


def changed(path: Path, change: Callable[[dict[str, Any]], None]) -> Sequence[bytes]:
    document = json.loads(path.read_bytes())
    change(document)
    return path.read_bytes(), json.dumps(document).encode()


def every_config(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, dict):
        own = [node["config"]] if isinstance(node.get("config"), dict) else []
        return own + [found for child in node.values() for found in every_config(child)]
    return [found for child in node for found in every_config(child)] if isinstance(node, list) else []


def test_a_key_that_a_newer_server_adds_to_each_configuration_is_no_setting(
    recording: Callable[[str], Path],
) -> None:
    def add(document: dict[str, Any]) -> None:
        for config in every_config(document):
            config["revision"] = 7
        document["managerSettings"]["total"] = 3

    before, after = (normalize([content], FINGERPRINT) for content in changed(recording("17"), add))
    found = compare(before, after)
    assert found.differences == []
    assert len(found.added) > 20
    assert "managerSettings/total" in found.added_keys


def test_a_setting_with_the_name_of_such_a_key_is_still_a_setting(recording: Callable[[str], Path]) -> None:
    def add(document: dict[str, Any]) -> None:
        document["managerSettings"]["items"].append({"name": "total", "value": "x", "sensitive": False})
        document["managerSettings"]["total"] = 3

    before, after = (normalize([content], FINGERPRINT) for content in changed(recording("17"), add))
    found = compare(before, after)
    assert [one.path for one in found.differences] == ["managerSettings/total"]
    assert found.added_keys == ["managerSettings/total (2)"]
