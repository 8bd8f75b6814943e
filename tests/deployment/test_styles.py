"""Whatever is in a document, in whichever style and pieces it comes or is taken apart, the same is said of it."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maint.deployment.compare import compare
from maint.deployment.judge import Judge
from maint.deployment.normalize import Tree, normalize
from maint.deployment.reader import Reader, blocks
from maint.deployment.redacted_copy import RedactedCopy
from maint.deployment.secrets import SECRET_FIELDS, Fingerprint, SecretIndex
from maint.errors import WorkFailed
from maint.lab.manager.document import dumps
from maint.model.secret import Secret
from tests.campaigns.size import size as of_campaign

FINGERPRINT = Fingerprint(b"k" * 32)
SIZES = (64, 1000, 1 << 18)  # bytes of a block
WRITTEN = json.loads((Path(__file__).parents[1] / "data" / "written.json").read_bytes())


def cut(content: bytes, size: int) -> Iterator[bytes]:
    return (content[at : at + size] for at in range(0, len(content), size))


def said(content: bytes, size: int) -> Sequence[Any]:
    """Return all that can be said about a document: judgement, summary, secrets, redacted copy, tree."""
    secrets = SecretIndex()
    judge = Judge("admin", Secret("alder-Admin1"), secrets)
    try:
        for block in cut(content, size):
            judge.feed(block)
        verdict = judge.close()
    except WorkFailed as failure:
        return (failure.message.partition(" between ")[0].partition(" near ")[0].partition(" at byte ")[0],)
    copy = b"".join(blocks(RedactedCopy(cut(content, size), secrets, FINGERPRINT).read, 1000))
    return verdict, secrets._index, copy, normalize(cut(content, size), FINGERPRINT)


def spelled(tree: Tree) -> Any:
    return [[key, spelled(tree[key])] for key in sorted(tree)] if isinstance(tree, dict) else str(tree)


def test_every_recording_is_the_same_in_any_style_pieces_and_window_and_as_by_the_first_version(
    deployment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies and fingerprints that an older version stored are compared with those of today."""
    content = deployment.read_bytes()
    expected = said(content, SIZES[-1])
    *_, copy, tree = expected
    digests = [sha256(part).hexdigest() for part in (copy, json.dumps(spelled(tree)).encode())]
    assert digests == WRITTEN[sha256(content).hexdigest()]
    line, indented = (json.dumps(json.loads(content), indent=indent).encode() for indent in (None, 1))
    for style, size in (
        (content, SIZES[0]),
        (line, SIZES[2]),
        (indented, SIZES[1]),
    ):
        assert said(style, size) == expected, size
    for window in (1, 500):
        monkeypatch.setattr(Reader, "window", window)
        assert said(content, SIZES[1]) == expected, window


@pytest.mark.parametrize("which", ["03", "06", "17", "example"])
def test_damaged_bytes_are_told_alike_however_they_come(which: str, recording: Callable[[str], Path]) -> None:
    content = recording(which).read_bytes()
    for at in range(7, len(content), len(content) // of_campaign(5, 40)):
        for byte in (b'"', b"}", b"\\", b"\n", b"\xff"):
            damaged = content[:at] + byte + content[at + 1 :]
            assert said(damaged, SIZES[1]) == said(damaged, SIZES[2])


@pytest.mark.parametrize("line", [b'"name" : "', b'"value" : "', b'"hostId" : "', b'"items" : ['])
def test_a_key_that_stands_twice_is_told(line: bytes, recording: Callable[[str], Path]) -> None:
    content = recording("17").read_bytes()
    at = content.index(line, len(content) // 3)
    begin, end = content.rindex(b"\n", 0, at), content.index(b"\n", at)
    twice = content[:begin] + content[begin:at] + b'"hostname" : "x",\n"name" : "x", "name" : "x",' + content[begin:end]
    verdict = said(twice + content[end:], SIZES[1])[0]
    found = {finding.rule: finding for finding in verdict.judgement.findings}
    assert found["duplicates"].passed is False


TEXTS = st.one_of(
    st.sampled_from(["REDACTED", "", "hunter2hunter2", "jdbc:x?password=hunter2hunter2&", "hive", "/var/lib/hive/x"]),
    st.text('ab"\\/\n\t\x01\x7fé\U0001f600 :,{}[]', max_size=12),
)
NAMES = st.sampled_from(["a", "b_password", "secret_key", "KDC_HOST", "WEB_TLS", "name"])
ODD = st.one_of(st.none(), st.booleans(), st.integers(), TEXTS, st.just([]), st.just({}), st.just([{"name": "x"}]))


def objects(required: dict[str, Any], odd: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with these fields, some left out, now and then one too many or of another kind."""
    usual = st.fixed_dictionaries({}, optional=required)
    if not odd:
        return usual
    strange = st.dictionaries(st.sampled_from([*required, "tags", "password"]), ODD, max_size=1)
    return st.one_of(usual, usual, usual, st.builds(lambda one, more: {**one, **more}, usual, strange))


ITEMS = objects({"name": NAMES, "value": TEXTS, "sensitive": st.booleans()})
FLAGGED = st.fixed_dictionaries({"name": NAMES, "value": TEXTS, "sensitive": st.booleans()})
CONFIGS = st.fixed_dictionaries(
    {"items": st.one_of(st.lists(ITEMS, max_size=4), st.lists(FLAGGED, max_size=4))}, optional={"newer": ODD}
)
ROLES = objects(
    {
        "name": TEXTS,
        "type": NAMES,
        "hostRef": objects({"hostId": TEXTS, "hostname": TEXTS}),
        "config": CONFIGS,
        "roleConfigGroupRef": objects({"roleConfigGroupName": NAMES}),
    }
)
GROUPS = objects(
    {
        "name": NAMES,
        "displayName": TEXTS,
        "roleType": NAMES,
        "base": st.booleans(),
        "serviceRef": objects({"clusterName": NAMES, "serviceName": NAMES}),
        "config": CONFIGS,
    }
)
SERVICES = objects(
    {
        "name": NAMES,
        "config": CONFIGS,
        "roles": st.lists(ROLES, max_size=4),
        "roleConfigGroups": st.lists(GROUPS, max_size=3),
    },
    odd=False,
)
HOSTS = objects({"hostId": TEXTS, "ipAddress": TEXTS, "hostname": TEXTS, "rackId": TEXTS, "config": CONFIGS})
DOCUMENTS = objects(
    {
        "clusters": st.lists(
            objects({"name": NAMES, "services": st.lists(SERVICES, max_size=2)}, odd=False), max_size=2
        ),
        "managementService": SERVICES,
        "managerSettings": CONFIGS,
        "hosts": st.lists(HOSTS, max_size=3),
        "hostTemplates": st.fixed_dictionaries({"items": st.lists(objects({"name": NAMES}), max_size=3)}),
        "odd": st.fixed_dictionaries({"roles": st.lists(ROLES, max_size=2), "items": st.lists(ODD, max_size=3)}),
        "users": st.lists(objects({"name": NAMES, "pwHash": TEXTS, "roles": st.lists(NAMES, max_size=2)}), max_size=2),
    },
    odd=False,
)


@given(DOCUMENTS, st.sampled_from([1, 30, 200, 1000]))
def test_any_document_is_the_same_in_any_style_pieces_and_window_and_its_copy_differs_in_its_secrets_alone(
    document: dict[str, Any], window: int
) -> None:
    content = dumps(document).encode()
    expected = said(content, SIZES[-1])
    assert said(content, 100) == expected
    assert said(json.dumps(document).encode(), 100) == expected
    usual, Reader.window = Reader.window, window
    try:
        assert said(content, SIZES[-1]) == expected
        assert said(content, 100) == expected
    finally:
        Reader.window = usual
    if len(expected) > 1:
        assert skeleton(json.loads(expected[2])) == skeleton(document)


def skeleton(value: Any) -> Any:
    """Return what is left of a value without its texts and numbers; what a secret is made of is one."""
    if isinstance(value, dict):
        return {key: None if key in (*SECRET_FIELDS, "value") else skeleton(one) for key, one in value.items()}
    return [skeleton(one) for one in value] if isinstance(value, list) else None


@given(DOCUMENTS, st.integers(0, 1 << 32))
def test_a_document_compares_equal_to_its_like_in_another_order(document: dict[str, Any], seed: int) -> None:
    trees = []
    for one in (document, permuted(document, random.Random(seed))):
        try:
            trees.append(normalize([dumps(one).encode()], FINGERPRINT))
        except WorkFailed:
            return
    if not twins(trees[0]):  # which of two things with one name is which, only their order tells
        assert compare(*trees).differences == []


def twins(tree: Tree) -> bool:
    return isinstance(tree, dict) and any(key.endswith(" (2)") or twins(one) for key, one in tree.items())


def permuted(value: Any, chance: random.Random) -> Any:
    """Shuffle every list and every object."""
    if isinstance(value, dict):
        return {key: permuted(value[key], chance) for key in chance.sample(list(value), len(value))}
    return [permuted(one, chance) for one in chance.sample(value, len(value))] if isinstance(value, list) else value
