"""Decoding lists whole says exactly what following their events says, whatever is in the document."""

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maint.deployment import fast_lists
from maint.deployment.compare import compare
from maint.deployment.fast_lists import Condenser
from maint.deployment.fingerprint import Fingerprint
from maint.deployment.json_events import blocks
from maint.deployment.judge import Judge
from maint.deployment.normalize import flatten
from maint.deployment.raw_equality import alike
from maint.deployment.redacted_copy import RedactedCopy
from maint.deployment.secret_index import Known
from maint.deployment.tree import Pool
from maint.deployment.unread_secrets import unread_secrets
from maint.errors import WorkFailed
from maint.lab.manager import document as jackson
from maint.model.secret import Secret
from tests.campaigns.size import size as of_campaign

FINGERPRINT = Fingerprint(b"k" * 32)
SIZES = (64, 1000, 1 << 18)  # bytes of a block: lists that are cut anywhere, and lists that are whole


@contextmanager
def events_only() -> Iterator[None]:
    """Let no list be decoded whole."""
    whole = fast_lists.decode
    fast_lists.decode = lambda kind, content: None
    try:
        yield
    finally:
        fast_lists.decode = whole


def cut(content: bytes, size: int) -> Iterator[bytes]:
    return (content[at : at + size] for at in range(0, len(content), size))


def told(content: bytes, size: int, exact: bool) -> tuple[Any, ...]:
    """Return all that can be said about a document: judgement, outline, secrets, redacted copy, tree.

    The copy of a document in an odd style may differ in blanks; `exact` says that this one's may not.
    """
    known = Known()
    judge = Judge("admin", Secret("alder-Admin1"), known)
    try:
        for block in cut(content, size):
            judge.feed(block)
        verdict = judge.close()
    except WorkFailed as failure:
        return (failure.message.partition(" between ")[0].partition(" near ")[0].partition(" at byte ")[0],)
    copy = b"".join(blocks(RedactedCopy(cut(content, size), known, FINGERPRINT).read, 1000))
    parsed = json.loads(copy, parse_int=str, parse_float=str, object_pairs_hook=lambda pairs: sorted(pairs, key=repr))
    return verdict, known._index, parsed, flatten(cut(content, size), FINGERPRINT), copy if exact else b""


def agree(content: bytes, sizes: tuple[int, ...] = SIZES, *, exact: bool = False) -> None:
    with events_only():
        expected = told(content, sizes[-1], exact)
    for size in sizes:
        assert told(content, size, exact) == expected


def test_every_recording_is_told_alike(deployment: Path) -> None:
    agree(deployment.read_bytes(), exact=True)


def test_most_of_a_recording_is_decoded_whole(recording: Callable[[str], Path]) -> None:
    content = recording("17").read_bytes()
    short = len(Condenser().feed(content))
    assert short < len(content) / 4


@pytest.mark.parametrize("which", ["03", "06", "17", "example"])
def test_damaged_bytes_are_told_alike(which: str, recording: Callable[[str], Path]) -> None:
    content = recording(which).read_bytes()
    for at in range(7, len(content), len(content) // of_campaign(10, 40)):
        for byte in (b'"', b"}", b"\\", b"\n", b"\xff"):
            agree(content[:at] + byte + content[at + 1 :], SIZES[1:])


@pytest.mark.parametrize("which", ["05", "17", "example"])
def test_cut_documents_are_told_alike(which: str, recording: Callable[[str], Path]) -> None:
    content = recording(which).read_bytes()
    for end in range(0, len(content), len(content) // of_campaign(20, 60)):
        agree(content[:end], SIZES[1:])


@pytest.mark.parametrize("line", [b'"name" : "', b'"value" : "', b'"hostId" : "', b'"items" : ['])
def test_a_key_that_stands_twice_is_told(line: bytes, recording: Callable[[str], Path]) -> None:
    content = recording("17").read_bytes()
    at = content.index(line, len(content) // 3)
    begin, end = content.rindex(b"\n", 0, at), content.index(b"\n", at)
    twice = content[:begin] + content[begin:at] + b'"hostname" : "x",\n"name" : "x", "name" : "x",' + content[begin:end]
    agree(twice + content[end:], SIZES[1:])
    judge = Judge()
    judge.feed(twice + content[end:])
    found = {finding.rule: finding for finding in judge.close().judgement.findings}
    assert found["duplicates"].passed is False


TEXTS = st.one_of(
    st.sampled_from(["REDACTED", "", "hunter2hunter2", "jdbc:x?password=hunter2hunter2&", "hive", "/var/lib/hive/x"]),
    st.text('ab"\\/\n\t\x7fé\U0001f600 :,{}[]', max_size=12),
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
CONFIGS = st.fixed_dictionaries({"items": st.one_of(st.lists(ITEMS, max_size=4), st.lists(FLAGGED, max_size=4))})
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


@given(DOCUMENTS)
def test_any_document_is_told_alike(document: dict[str, Any]) -> None:
    agree(jackson.dumps(document).encode(), (100, 1 << 18))


def compared(before: dict[str, Any], after: dict[str, Any], pool: Pool | None = None) -> Any:
    try:
        trees = [flatten(iter([jackson.dumps(one).encode()]), FINGERPRINT, pool) for one in (before, after)]
        found = compare(*trees)
    except WorkFailed as failure:
        return failure.message.partition(" near ")[0]
    return sorted(map(repr, found.differences)), sorted(found.not_comparable), sorted(found.added_keys), found.volatile


def compare_alike(before: dict[str, Any], after: dict[str, Any]) -> None:
    with events_only():
        expected = compared(before, after)
    assert compared(before, after) == expected
    assert compared(before, after, Pool()) == expected


@given(DOCUMENTS, DOCUMENTS)
def test_any_two_documents_compare_alike(before: dict[str, Any], after: dict[str, Any]) -> None:
    compare_alike(before, after)


@given(DOCUMENTS, st.randoms(use_true_random=False), st.booleans())
def test_a_document_and_its_like_in_another_order_compare_alike(
    before: dict[str, Any], chance: random.Random, changed: bool
) -> None:
    after = permuted(before, chance)
    found = [one for one in every(after) if "value" in one]
    if changed and found:
        chance.choice(found)["value"] = "another"
    compare_alike(before, after)


def permuted(value: Any, chance: random.Random) -> Any:
    """Shuffle every list; the fields of an object stay in their order, as a server writes them."""
    if isinstance(value, dict):
        return {key: permuted(one, chance) for key, one in value.items()}
    return [permuted(one, chance) for one in chance.sample(value, len(value))] if isinstance(value, list) else value


def every(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object."""
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from every(one)


def test_a_document_in_another_style_is_left_to_the_events(recording: Callable[[str], Path]) -> None:
    document = json.loads(recording("example").read_bytes())
    for content in (json.dumps(document).encode(), json.dumps(document, indent=2).encode()):
        agree(content)
        condenser = Condenser()
        assert condenser.feed(content) + condenser.end() == content


def test_an_element_too_long_to_wait_for_is_left_to_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_lists, "LONGEST", 200)
    items = [{"name": f"item {place}", "value": "x" * 50 * place} for place in range(20)]
    agree(jackson.dumps({"managerSettings": {"items": items}}).encode())


def test_elements_that_both_sides_have_are_left_unread_and_their_secrets_still_known(
    recording: Callable[[str], Path],
) -> None:
    content, pool, known, later = recording("17").read_bytes(), Pool(), Known(), Known()
    judge = Judge(known=known)
    judge.feed(content)
    judge.close()
    changed = content.replace(b'"KDC_HOST",\n      "value" : "', b'"KDC_HOST",\n      "value" : "x')

    def noted(value: str) -> str:
        later.add(value)
        return FINGERPRINT(value)

    before, after = (flatten(iter([one]), noted, pool) for one in (content, changed))
    assert [one.path for one in compare(before, after).differences] == ["managerSettings/KDC_HOST"]
    roles = before["clusters"]["cluster"]["services"]["hdfs"]["roles"]  # type: ignore[index]  # a recording has them
    assert roles.closed  # type: ignore[union-attr]
    for secret in unread_secrets(before, after):
        later.add(secret)
    assert set(known._index) <= set(later._index)


@pytest.mark.parametrize(
    ("items", "same"),
    [
        ([{"name": "a", "value": "1"}, {"name": "b", "value": "2"}], True),
        ([{"name": "a", "value": "1"}, {"name": "b", "value": "}, {\n"}], True),
        ([{"name": "a", "value": "1"}, {"name": "a", "value": "2"}], False),  # which one counts depends on the order
        ([{"name": "a"}, {"name": "a", "value": "2"}], False),
        ([{"value": "a", "name": "b"}, {"value": "c", "name": "d"}], True),
        ([{"value": "a", "name": "b"}, {"value": "c", "name": "b"}], False),
        ([{"value": "a", "name": "b"}, {"value": "c"}], False),
        ([{"name": "a", "value": "[1]"}, {"name": "b", "value": "2"}], False),  # another list, as it may seem
    ],
)
def test_settings_in_another_order_are_plainly_the_same_only_where_each_name_is_there_once(
    items: list[dict[str, str]], same: bool
) -> None:
    one, other = (
        jackson.dumps({"name": "role", "config": {"items": found}}).encode() for found in (items, items[::-1])
    )
    assert alike(one, one.replace(b'"b"', b'"B"')) is False
    assert alike(one, other) is same


def test_a_setting_that_is_named_twice_goes_by_its_last_name() -> None:
    one, other = (
        jackson.dumps({"config": {"items": found}}).encode().replace(b"also", b"name")
        for found in ([{"name": "a", "also": "b"}, {"name": "b"}], [{"name": "b"}, {"name": "a", "also": "b"}])
    )
    assert alike(one, other) is False


def test_secrets_that_two_lists_share_are_known_whichever_leans_on_the_other() -> None:
    def service(name: str, *roles: str) -> dict[str, Any]:
        found = [{"name": role, "config": {"items": [item(f"{role}-secret-of-it")]}} for role in roles]
        return {"name": name, "roles": found}

    def item(value: str) -> dict[str, Any]:
        return {"name": "a_password", "value": value, "sensitive": True}

    one, other = service("x", "both", "mine"), service("y", "both", "other")
    documents = [{"clusters": [{"name": "c", "services": services}]} for services in ([one, other], [other, one])]
    documents[1]["clusters"][0]["services"][0] = {**other, "name": "x"}  # the lists have changed places
    documents[1]["clusters"][0]["services"][1] = {**one, "name": "y"}
    pool = Pool()
    before, after = (flatten(iter([jackson.dumps(one).encode()]), FINGERPRINT, pool) for one in documents)
    assert len(compare(before, after).differences) == 4
    shared = set(unread_secrets(before, after))
    assert shared >= {"both-secret-of-it"}
