"""Strict YAML: core scalars, refused constructs with their places, and a writer that reads back the same."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maint.config import yaml
from maint.errors import Invalid, Position
from maint.model.json import Json


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("Yes", "Yes"),
        ("1:30", "1:30"),
        ("2027-06-30", "2027-06-30"),
        ("1_000", "1_000"),
        ("0o17", 15),
        ("0x1F", 31),
        ("010", 10),
        ("-5", -5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("null", None),
        ("", None),
        ("'null'", "null"),
        ('"12"', "12"),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ("!!int 12", 12),
    ],
)
def test_a_scalar_means_what_yaml_1_2_says(text: str, value: Json) -> None:
    assert yaml.load(f"a: {text}", "f.yaml").data == {"a": value}


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: 1\na: 2", "2:1", "given twice"),
        ("a:\n  b: &x 1", "2:6", "anchors"),
        ("a: *x", "1:4", "aliases"),
        ("a: 1\n<<: {b: 1}", "2:1", "merge keys"),
        ("a: !vault x", "1:4", "tags"),
        ("a: !!binary aGk=", "1:4", "tags"),
        ("a: !!int foo", "1:4", "!!int"),
        ("--- 1\n--- 2", "2:1", "second document"),
        ("a:\n\t- b", "2:1", "a tab"),
        ("a: b: c", "1:5", "mapping values"),
        ("a: [1, 2", "1:9", "expected"),
        ("a: {b: c?d}", "1:9", "expected"),
        ("[" * 1000, "1:66", "deep"),
        ("- " * 1000, "1:131", "deep"),
        ("a: .inf", "1:4", "infinite"),
        ("a: 1e999", "1:4", "too large"),
        ("a: " + "9" * 5000, "1:4", "too long"),
        ("a: 0x" + "f" * 5000, "1:4", "too long"),
        ('a: "\\ud800"', "1:4", "no file or command"),
        ('a: "\\0"', "1:4", "no file or command"),
        ('a: "\\UFFFFFFFF"', "1:7", "no meaning"),
        ("%YAML 1.1\n---\na: no", "1:1", "YAML 1.2"),
        ("12: x", "1:1", "not text"),
        ("? [a]\n: b", "1:3", "cannot be a key"),
        ("\ufeffa: 1", "1:1", "U+FEFF"),
        ("a: 1\nbc: \x85", "2:5", "U+0085"),
        ("a: \x00", "1:4", "U+0000"),
        ("a: \ud800", "1:4", "U+D800"),
    ],
)
def test_what_is_refused_is_named_with_its_place(text: str, place: str, words: str) -> None:
    with pytest.raises(Invalid) as caught:
        yaml.load(text, "f.yaml")
    assert words in caught.value.message
    assert str(caught.value.at) == f"f.yaml:{place}"
    assert caught.value.message.startswith(f"f.yaml:{place}: ")


def test_a_duplicate_key_names_the_first_one() -> None:
    with pytest.raises(Invalid) as caught:
        yaml.load("a:\n  b: 1\n  c: 2\n  b: 3\n", "f.yaml")
    assert caught.value.detail == ("first at f.yaml:2:3",)


def test_a_text_without_content_is_nothing() -> None:
    assert yaml.load("# only words\n", "f.yaml").data is None


def test_every_key_and_value_keeps_its_place() -> None:
    document = yaml.load("sites:\n  prod:\n    hosts:\n      - {name: a, port: 22}\n      - name: b\n", "f.yaml")
    assert document.where(("sites", "prod", "hosts", 0, "port"), key=True) == Position("f.yaml", 4, 19)
    assert document.where(("sites", "prod", "hosts", 0, "port")) == Position("f.yaml", 4, 25)
    assert document.where(("sites", "prod", "hosts", 1)) == Position("f.yaml", 5, 9)
    assert document.at(("sites", "prod", "hosts", 1, "name")) == "b"


def test_a_path_that_is_not_there_stands_where_its_ancestor_stands() -> None:
    document = yaml.load("a:\n  b: 1\n", "f.yaml")
    assert document.where(("a", "x", 3)) == document.where(("a",)) == Position("f.yaml", 2, 3)
    with pytest.raises(KeyError):
        document.at(("a", "b", "c"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xef\xbb\xbfa: 1", "byte order mark"),
        ("a: 1".encode("utf-16"), "byte order mark"),
        (b"a: 1\nb: \xe4", r"2:4: byte 0xe4 is not UTF-8"),
    ],
)
def test_a_file_of_another_encoding_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "f.yaml"
    file.write_bytes(content)
    with pytest.raises(Invalid, match=words):
        yaml.read(file)


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="No such file"):
        yaml.read(tmp_path / "none.yaml")


PIECES = st.lists(
    st.sampled_from(
        [
            "a",
            "b",
            ":",
            " ",
            "\n",
            "  ",
            "- ",
            "[",
            "]",
            "{",
            "}",
            ",",
            "'",
            '"',
            "|",
            ">",
            "&x ",
            "*x",
            "!",
            "!!str ",
            "#",
            "%",
            "@",
            "`",
            "~",
            "1",
            "0x",
            "\\",
            "\\U",
            "\t",
            "? ",
            "---\n",
            "...",
            "%YAML 1.2\n",
            "<<",
            "\r",
            "é",
        ]
    ),
    max_size=40,
).map("".join)


@given(st.one_of(st.text(), PIECES))
def test_any_text_loads_or_is_invalid(text: str) -> None:
    try:
        data = yaml.load(text, "f.yaml").data
    except Invalid as error:
        assert error.at is not None
    else:
        assert yaml.load(yaml.dump(data), "again").data == data


@given(PIECES)
def test_a_file_means_the_same_where_the_parser_in_c_is_not_there(text: str) -> None:
    def read() -> tuple[Json, object] | str:
        yaml.load.cache_clear()
        try:
            document = yaml.load(text, "f.yaml")
        except Invalid as error:
            return str(error)
        return document.data, document._places

    with pytest.MonkeyPatch.context() as without:
        without.setattr("yaml.__with_libyaml__", False)
        expected = read()
    assert read() == expected


TEXTS = st.one_of(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), PIECES)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_written_is_read_back(value: Json) -> None:
    assert yaml.load(yaml.dump(value), "f.yaml").data == value


@pytest.mark.parametrize(
    "text",
    ["no", "0o17", "1e3", "~", "a\u2028b", "<<", "1:30", "2027-06-30", ".inf", "007", "0x" + "f" * 5000, "9" * 5000],
)
def test_text_that_looks_like_something_else_is_written_so_that_every_reader_sees_text(text: str) -> None:
    assert yaml.load(yaml.dump({"k": text}), "f.yaml").data == {"k": text}


def test_keys_are_written_in_their_order() -> None:
    assert yaml.dump({"b": 1, "a": ("x", "ü")}) == "b: 1\na:\n- x\n- ü\n"
