"""Decoding a document into a model: one error, at its place, in the words of whoever wrote the file."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Literal

import pytest
from pydantic import Field

from maint.config import yaml
from maint.config.error_messages import decode
from maint.config.fields import Duration, Strict
from maint.errors import Invalid
from maint.model.formatting import did_you_mean, dotted


class Inner(Strict):
    """A part."""

    name: str
    port: int = Field(default=22, ge=1, le=65535)


class Outer(Strict):
    """A whole."""

    host: str
    parts: Sequence[Inner] = ()
    by_name: dict[str, Inner] = Field(default={})
    wait: Duration = 1.0
    mode: Literal["problem", "accept"] = "problem"
    file: Path | None = None
    until: date | None = None
    either: bool | Inner = False
    with_: dict[str, str] = Field(default={}, alias="with")


def read(text: str) -> Outer:
    return decode(Outer, yaml.load(text, "f.yaml"))


def complaint(text: str) -> Invalid:
    with pytest.raises(Invalid) as caught:
        read(text)
    return caught.value


def test_a_right_document_becomes_a_model() -> None:
    model = read("{host: h, parts: [{name: a}], wait: 1h30m, file: /x, until: 2027-06-30, with: {a: b}, either: true}")
    assert (model.wait, model.file, model.until) == (5400.0, Path("/x"), date(2027, 6, 30))
    assert (model.parts[0].port, model.with_, model.either) == (22, {"a": "b"}, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("host: h\nmodee: x", "f.yaml:2:1: unknown key 'modee'"),
        ("host: h\nparts:\n  - name: a\n    prt: 1", "f.yaml:4:5: parts[0]: unknown key 'prt'"),
        ("mode: accept", "f.yaml:1:1: the key 'host' is missing"),
        ("host: h\nparts:\n  - port: 1", "f.yaml:3:5: parts[0]: the key 'name' is missing"),
        ("host: 12", "f.yaml:1:7: host: must be text, not a number"),
        ("host: [a]", "f.yaml:1:7: host: must be text, not a list"),
        ("host:", "f.yaml:1:6: host: must be text, not empty"),
        ("host: h\nparts: {name: a}", "f.yaml:2:8: parts: must be a list, not a mapping"),
        ("host: h\nparts: [a]", "f.yaml:2:9: parts[0]: must be a mapping, not text"),
        ("host: h\nparts: [{name: a, port: '22'}]", "f.yaml:2:25: parts[0].port: must be a whole number, not text"),
        ("host: h\nparts: [{name: a, port: 70000}]", "f.yaml:2:25: parts[0].port: must be 65535 or less"),
        ("host: h\nwait: soon", "f.yaml:2:7: wait: 'soon' is not a duration; write 90s, 30m, 24h or 7d"),
        ("host: h\nwait: -1", "f.yaml:2:7: wait: must be a duration of zero or more"),
        ("host: h\nwait: [1]", "f.yaml:2:7: wait: must be a duration such as"),
        ("host: h\nmode: accept_it", "f.yaml:2:7: mode: must be 'problem' or 'accept'"),
        ("host: h\nuntil: soon", "f.yaml:2:8: until: must be a date such as 2027-06-30, not text"),
        ("host: h\nby_name: {a: {name: 1}}", "f.yaml:2:21: by_name.a.name: must be text, not a number"),
        ("host: h\neither: 3", "f.yaml:2:9: either: must be true or false or a mapping, not a number"),
        ("host: h\neither: {nam: a}", "f.yaml:2:10: either: unknown key 'nam'"),
        ("host: h\neither: {name: 1}", "f.yaml:2:16: either.name: must be text, not a number"),
        ("host: h\nwith: {a: 1}", "f.yaml:2:11: with.a: must be text, not a number"),
        ("[a]", "f.yaml:1:1: must be a mapping, not a list"),
        ("", "f.yaml:1:1: must be a mapping, not empty"),
    ],
)
def test_an_error_says_where_and_what(text: str, message: str) -> None:
    assert complaint(text).message.startswith(message)


def test_an_unknown_key_gets_a_suggestion_or_the_known_keys() -> None:
    assert complaint("host: h\nmodee: x").hint == "did you mean mode?"
    assert complaint("host: h\nwhit: x").hint == "did you mean with?"
    hint = complaint("host: h\nparts: [{name: a, zzzzz: 1}]").hint
    assert hint == "known keys: name, port"


def test_further_errors_are_detail_lines_with_their_own_places_in_the_order_of_the_file() -> None:
    error = complaint("parts:\n  - prt: 1\nhost: 3\n")
    assert (error.message, error.hint) == (
        "f.yaml:2:5: parts[0]: unknown key 'prt' (did you mean port?)",
        "correct each at its place",
    )
    assert error.detail == (
        "f.yaml:2:5: parts[0]: the key 'name' is missing",
        "f.yaml:3:7: host: must be text, not a number",
    )


def test_a_wrong_value_is_never_repeated() -> None:
    error = complaint("host: {hunter2: x}\nparts: hunter2\nmode: hunter2\n")
    assert "hunter2" not in error.message + "".join(error.detail) + str(error.hint)


def test_a_part_is_read_at_its_own_place() -> None:
    document = yaml.load("a:\n  b:\n    - {name: x, port: y}\n", "f.yaml")
    with pytest.raises(Invalid, match=r"f.yaml:3:23: a\.b\[0\]\.port: must be a whole number"):
        decode(Inner, document, ("a", "b", 0))


@pytest.mark.parametrize(
    ("word", "guess"), [("pasword", "password"), ("HOST", "host"), ("store ", "store"), ("qqq", None), ("", None)]
)
def test_a_word_is_matched_with_the_likeliest_known_one(word: str, guess: str | None) -> None:
    assert did_you_mean(word, ["host", "password", "store"]) == guess


@pytest.mark.parametrize(("word", "guess"), [("base-03", "base-03.example"), ("bse", "base"), ("Base-04", "base-04.a")])
def test_a_short_name_means_its_host(word: str, guess: str) -> None:
    assert did_you_mean(word, ["base", "base-03.example", "base-04.a"]) == guess


def test_a_path_is_shown_as_people_write_it() -> None:
    assert dotted(("sites", "prod", "hosts", 0, "name")) == "sites.prod.hosts[0].name"
