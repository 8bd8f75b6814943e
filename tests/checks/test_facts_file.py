"""Facts in a file: they come back as they were, and whatever is damaged is refused or told, never passed."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from maint.checks.check import judge
from maint.checks.facts import ManagerFacts, names_of
from maint.checks.facts_file import from_json, to_json
from maint.checks.registry import CHECKS, select
from maint.errors import Invalid
from maint.model.fleet import Contact, State
from maint.ports.manager_host import Proof
from maint.report import checks as reports
from tests.checks.facts import healthy, host, site

Place = tuple[str | int, ...]
PLAN = {"type": "ecs", "name": "ecs-02", "hosts": ["a", "b"], "agents": ["b"], "app_domain": "apps.example.internal"}
# What no field of the file may be; a text is only wrong where a text does not belong.
WRONG: list[object] = [None, True, 1.5, -1, 10**30, 10**400, float("nan"), float("inf"), [], [[None]], {"x": [1]}]
TEXTS = ["", "\0\x1b[2J", "٣" * 9, "9" * 9000, "[" * 50000, "a=b\nc=d\n" * 999, "notAfter=x", "1 2 3 4 5 6 7", "nan"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what is kept of two healthy hosts, a manager and a plan."""
    services = [{"type": "OZONE", "state": "STARTED", "health": "GOOD", "name": "ozone"}]
    seen = {"hostname": "a", "lastHeartbeat": "2026-11-21T11:59:59Z", "cluster": None, "names": ["a"]}
    clusters = [{"name": "base", "type": "BASE_CLUSTER", "services": services, "display": "Base 1"}]
    machines = [Proof("a", "", ""), Proof("b", "why", "")]
    manager = ManagerFacts("", "7.13.1", "", [seen], clusters, machines=machines)
    matrix = {"os": ["rhel 9"]}
    known = site(manager, app_domain="apps.example.internal", endpoints=("x:443",), plan=PLAN, matrix=matrix)
    for name in ("a", "b"):
        host(healthy(tmp_path_factory.mktemp(name)), name=name, profiles="BCEKM", site=known, sent=1.0, received=2.0)
    return to_json(known, {"site": "lab", "checks": [check.id for check in select()], "accepted": []})


def test_kept_facts_come_back_as_they_were(whole: dict[str, Any]) -> None:
    again, told = from_json(json.dumps(whole), "facts.json")
    assert to_json(again, {key: told[key] for key in ("site", "checks", "accepted")}) == whole


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a": 1,\n', "line 2, column 1 is not JSON"),
        ('{"a": ' + "9" * 5000 + "}", "a text, time or number in it is not one"),
    ],
)
def test_what_is_no_file_of_facts_is_told_in_our_own_words(text: str, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        from_json(text, "facts.json")


def test_a_time_that_is_none_is_told_in_our_own_words(whole: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="a text, time or number in it is not one"):
        from_json(json.dumps({**whole, "taken_at": "yesterday"}), "facts.json")


def test_an_answer_of_a_form_that_nobody_foresaw_is_told_in_our_own_words(whole: dict[str, Any]) -> None:
    def stumbles(_: Any) -> Any:
        raise AttributeError("'list' object has no attribute 'items'")

    known, _ = from_json(json.dumps(whole), "facts.json")
    check = next(iter(CHECKS.values()))
    for found in (
        replace(check, rule=stumbles).judge(known.hosts[0]),
        replace(check, site_rule=stumbles).judge_all(known)[""],
    ):
        assert (found.state, found.observed.endswith("not of the form that this check can read")) == (State.ERROR, True)


def places(value: Any, path: Place = ()) -> Iterator[Place]:
    """Yield the place of everything, but for the plan, which its own check judges, and a second host as the first."""
    if path == ("hosts", 1):
        return
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        if key not in ("plan", "site", "checks", "accepted"):
            yield from places(item, (*path, key))


def changed(whole: dict[str, Any], place: Place, value: object) -> str:
    """Return the file with something else at a place; a value of KeyError takes it away."""
    copy = json.loads(json.dumps(whole))
    *way, last = place
    inner = copy
    for key in way:
        inner = inner[key]
    if value is KeyError:
        del inner[last]
    else:
        inner[last] = value
    return json.dumps(copy)


def may_be(place: Place, was: object, value: object) -> bool:
    """Return whether a value is not a damage where it stands: of the same kind, or left out by the manager."""
    if place[-1] == "opens":
        return value is None or isinstance(value, bool)
    if was is None or place[-1] in ("matrix", "type", "state", "health", "hostname", "lastHeartbeat"):
        return value is None or isinstance(value, str)
    if isinstance(was, list) and not any(isinstance(item, int) for item in was):
        return value == [] and place != ("hosts",)
    if place[-1] in ("sent", "received"):
        return value == 1.5
    return isinstance(value, bool) and isinstance(was, bool)


def test_a_wrong_kind_at_any_depth_is_refused(whole: dict[str, Any]) -> None:
    chance = random.Random(7)
    for place in [place for place in places(whole) if place]:
        was: Any = whole
        for key in place:
            was = was[key]
        for value in chance.sample(WRONG, 2):
            if may_be(place, was, value):
                continue
            with pytest.raises(Invalid, match=r"facts\.json"):
                from_json(changed(whole, place, value), "facts.json")


def test_what_is_missing_is_refused_and_a_missing_answer_is_an_error(whole: dict[str, Any]) -> None:
    for place in [place for place in places(whole) if place and isinstance(place[-1], str)]:
        text = changed(whole, place, KeyError)
        if place in [
            ("manager", one) for one in ("ends", "truststore", "opens", "clock", "machines")
        ]:  # older files do not have it
            assert not getattr(from_json(text, "facts.json")[0].manager, str(place[-1]))
            continue
        if place[-1] == "display":
            assert from_json(text, "facts.json")[0].manager.clusters[0]["display"] == ""
            continue
        if place[-1] == "names":
            assert names_of(from_json(text, "facts.json")[0].manager.hosts[0]) == ["a"]
            continue
        if place[-1] == "name" and "services" in place:
            assert from_json(text, "facts.json")[0].manager.clusters[0]["services"][0]["name"] == ""
            continue
        if "answers" not in place[:-1]:
            with pytest.raises(Invalid):
                from_json(text, "facts.json")
            continue
        known, _ = from_json(text, "facts.json")
        without = [check for check in CHECKS.values() if check.asks == (place[-1],) and check.id != "ecs.plan"]
        states = {f.state for f in judge(without, known) if f.host == known.hosts[int(place[1])].name}
        assert states <= {State.ERROR}, place


def test_strange_texts_anywhere_break_nothing(whole: dict[str, Any]) -> None:
    chance = random.Random(7)
    texts = [place for place in places(whole) if place and place[-2:-1] != ("answers",) and len(place) > 1]
    for place in chance.sample(texts, 40):
        for value in chance.sample(TEXTS, 2):
            shown(changed(whole, place, value))


def shown(text: str) -> None:
    """Judge a file and show what was found in every form, or see it refused."""
    try:
        known, _ = from_json(text, "facts.json")
    except Invalid:
        return
    findings = judge(list(CHECKS.values()), known)
    contacts = [Contact(one.name, one.reached, one.reason) for one in known.hosts]
    assert json.dumps(reports.to_json(findings, contacts)).encode("utf-8")
    assert reports.to_junit(findings, contacts).encode("utf-8")
    assert reports.nagios(findings, contacts)[0].encode("utf-8")


@pytest.mark.parametrize(
    "plan", [{"hosts": 5}, {"hosts": {"a": 1}}, {"app_domain": [1]}, {"install": {"x": 2}}, {"database": 1.5}, {"": ""}]
)
def test_a_strange_plan_fails_its_check_and_no_other(whole: dict[str, Any], plan: dict[str, object]) -> None:
    known, _ = from_json(changed(whole, ("setting", "plan"), {**PLAN, **plan}), "facts.json")
    assert {f.state for f in judge([CHECKS["ecs.plan"]], known) if not f.host} & {State.FAIL, State.ERROR}


@pytest.mark.parametrize(
    "text",
    [
        "", "[" * 100000, '{"format":', '{"format": "maint-facts/2"}', '{"format": ["maint-facts/1"]}', "5", "null",
        '{"format": "maint-facts/1", "format": "maint-facts/1"}', '{"format": "maint-facts/1", "x": "\\ud800"}',
    ],
)  # fmt: skip
def test_a_text_that_holds_no_facts_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match=r"facts\.json"):
        from_json(text, "facts.json")


def test_a_file_cut_off_anywhere_is_refused(whole: dict[str, Any]) -> None:
    text = json.dumps(whole)
    for end in range(0, len(text), 997):
        with pytest.raises(Invalid):
            from_json(text[:end], "facts.json")
