"""Rendering: native values, strict names, a sandbox that cannot be made to run away."""

import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maint import render
from maint.config import paths
from maint.engine import parameters
from maint.errors import DeadlinePassed, Interrupted, Invalid, Position
from maint.model.json import Json

VALUES: dict[str, Json] = {
    "n": 3,
    "flag": False,
    "name": "base",
    "hosts": ["a", "b"],
    "deep": {"list": [1, 2.5, None], "ok": True},
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ n }}", 3),
        ("{{ n + 1 }}", 4),
        ("{{ flag }}", False),
        ("{{ hosts }}", ["a", "b"]),
        ("{{ deep }}", {"list": [1, 2.5, None], "ok": True}),
        ("{{ deep.list[1] }}", 2.5),
        ("{{ hosts | map('upper') }}", ["A", "B"]),
        ("{{ none }}", None),
        ("{{ 'x' }}", "x"),
        ("n is {{ n }}", "n is 3"),
        (" {{ n }}", " 3"),
        ("{{ n }}\n", "3\n"),
        ("{{ n }}{{ n }}", "33"),
        ("{% if flag %}yes{% else %}no {{ name }}{% endif %}", "no base"),
        ("plain", "plain"),
        ("", ""),
        ("{{ 5400 | duration }}", "1h 30m"),
        ("{{ 54300 | size }}", "54.3 kB"),
        ('{{ "it\'s" | shell_quote }}', "'it'\"'\"'s'"),
        ("{{ deep | json }}", '{"list": [1, 2.5, null], "ok": true}'),
        ("{{ name | replace('b', 'c') }}", "case"),
    ],
)
def test_a_single_expression_keeps_its_type_and_mixed_text_is_text(text: str, value: Json) -> None:
    result = render.template(text).render(VALUES)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("deep.okk", "`deep.okk`: there is no 'okk' in what has list, ok"),
        ("hosts.okk", "`hosts.okk`: there is no 'okk' in a list"),
        ("n > 'a'", "`n > 'a'`: cannot be worked out: a value is of a kind, or has a content, that does not fit here"),
        ("nn", "`nn`: 'nn' is undefined"),
        ("[] | first", "`[] | first`: the list is empty: it has none to take"),
        ("name.__class__ == 1", "`name.__class__ == 1`: '__class__' is not to be used here"),
        (
            "deep | dictsort(by='x')",
            "`deep | dictsort(by='x')`: cannot be worked out: "
            "a value is of a kind, or has a content, that does not fit here",
        ),
    ],
)
def test_what_is_not_there_is_told_with_what_is_and_what_asked_for_it(text: str, words: str) -> None:
    with pytest.raises(Invalid) as caught:
        render.holds(text, VALUES)
    assert caught.value.message == words


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ("1 = 2", "`=` has no place here", "write =="),
        ("a && b", "`&` has no place here", "write and"),
        ("a OR b", "`OR` has no place here", "write or"),
        ("1 2", "a number has no place here", "compare values: NAME == 'text', NAME > 3; join them by and, or, not"),
        ("'x", "a text that begins with ' is not closed", "write ' where it ends"),
        ("a | defualt(1)", "there is no filter 'defualt'", "did you mean 'default'?"),
        ("{{ a }}", "an expression stands here, without {{ }}", None),
    ],
)
def test_a_mistake_in_an_expression_is_told_with_what_to_write_instead(text: str, words: str, hint: str | None) -> None:
    with pytest.raises(Invalid) as caught:
        render.expression(text)
    assert caught.value.message == words
    assert hint in (None, caught.value.hint)


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ("{{ a = 1 }}", "`=` has no place here", "write =="),
        ("{% if a %}x", "{% if %} is not closed", "write {% endif %} where it ends"),
        ("{# x", "a comment that begins with {# is not closed", "write #} where it ends"),
        ("{% set a = 1 %}", "{% set %} has no place here", None),
        ("{% raw %}x", "{% raw %} has no place here", None),
    ],
)
def test_a_mistake_in_a_text_is_told_with_what_to_write_instead(text: str, words: str, hint: str | None) -> None:
    with pytest.raises(Invalid) as caught:
        render.template(text)
    assert caught.value.message == words
    assert hint in (None, caught.value.hint)


PIECES = [
    "a",
    "1",
    "'x'",
    "'",
    "=",
    "==",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "|",
    "not",
    "is",
    "if",
    ".",
    ",",
    "&",
    "{%",
    "%}",
    "{{",
    "}}",
    "{#",
    "end",
]


@given(
    st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join), st.sampled_from([render.expression, render.template])
)
def test_no_mistake_is_told_in_the_words_of_the_template_engine(text: str, read: Callable[[str], object]) -> None:
    try:
        read(text)
    except Invalid as failure:
        told = f"{failure.message} {failure.hint}"
        assert failure.hint
        for theirs in ("expected", "token", "Jinja", "template", "statement", "Encountered", "object"):
            assert theirs not in told


def test_a_limit_that_passes_while_a_text_is_filled_in_is_that_limit() -> None:
    class Slow(dict[str, Json]):
        def __getitem__(self, key: str) -> Json:
            raise DeadlinePassed("the limit of 4m has passed")

    with pytest.raises(DeadlinePassed, match="4m"):
        render.template("{{ n.slow }}").render({"n": Slow(slow=1)})


def test_the_names_that_a_text_asks_for_are_known_before_it_is_filled_in() -> None:
    assert render.template("{{ a.b }} {% if c %}{{ d | default(e) }}{% endif %}").names() == {"a", "c", "d", "e"}
    assert render.expression("x in range(y)").names() == {"x", "y"}
    assert render.template("plain").names() == frozenset()


def _told(names: Callable[[], frozenset[str]]) -> frozenset[str] | str:
    try:
        return names()
    except Invalid as wrong:
        return str(wrong)


_PIECES = [
    "{{ ",
    " }}",
    "{",
    "}",
    "{%",
    "#}",
    "-",
    ".",
    "\n",
    " ",
    "a",
    "b.c",
    "x_1",
    "A",
    "é",
    "9",
    "not ",
    "is",
    "1" * 999,
]
_RESERVED = ["not", "true", "none", "false", "True", "range", "dict", "namespace", "loop", "self", "and", "in", "if"]


@given(
    st.lists(st.sampled_from([*_PIECES, *_RESERVED])).map("".join)
    | st.sampled_from(_RESERVED).map("{{{{ {} }}}}".format)
)
def test_the_names_in_a_text_or_condition_are_the_same_where_jinja2_is_not_asked(text: str) -> None:
    assert _told(lambda: parameters.in_text(text)) == _told(lambda: render.template(text).names())
    assert _told(lambda: parameters.in_condition(text)) == _told(lambda: render.expression(text).names())


@pytest.mark.parametrize("text", ["{{ missing }}", "x {{ missing }}", "{{ deep.missing }}", "{{ [deep.missing] }}"])
def test_what_is_not_there_is_an_error(text: str) -> None:
    with pytest.raises(Invalid, match="missing"):
        render.template(text).render(VALUES)


@pytest.mark.parametrize(
    ("condition", "answer"),
    [("n == 3", True), ("not flag", True), ("deep.missing is defined", False), ("hosts", True), ("[]", False)],
)
def test_a_condition_holds_or_not(condition: str, answer: bool) -> None:
    assert render.holds(condition, VALUES) is answer


@pytest.mark.parametrize("condition", ["name", "{{ n }} == 3", "n ==", "", "n) }} and {{ (n", "missing"])
def test_a_condition_that_could_mean_anything_is_refused(condition: str) -> None:
    with pytest.raises(Invalid):
        render.holds(condition, VALUES)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a\nb {{ n", "line 2"),
        ("{{ n | nofilter }}", "nofilter"),
        ("{{ n if flag else n | nofilter }}", "nofilter"),
        ("{% for x in y %}{% endfor %}", "no place"),
        ("a\n{% set x = 1 %}", "line 2.*no place"),
        ("{% include 'x' %}", "no place"),
        ("{% macro f() %}{% endmacro %}", "no place"),
    ],
)
def test_a_broken_text_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(Invalid, match=words) as caught:
        render.template(text, at=Position("play.yaml", 7, 3))
    assert caught.value.message.startswith("play.yaml:7:3: ")


@pytest.mark.parametrize(
    "text",
    [
        "{{ range(10 ** 9) | list }}",
        "{{ 'x' * 10 ** 9 }}",
        "{{ 'x' * 2000000 }}",
        "{{ [0] * 2000000 }}",
        "{{ 9 ** (10 ** 9) }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ 'x'.ljust(10 ** 9) }}",
        "{{ 'x' | center(10 ** 9) }}",
        "{{ 'a\nb' | indent(10 ** 9) }}",
        "{{ ('a\n' * 400000) | indent(10 ** 5) }}",
        "{{ 'a' | indent('x' * 999999, true) | indent('x' * 999999, true) }}",
        "{{ 'a b' | wordwrap(1, wrapstring='x' * 999999) }}",
        "{{ '{0:>99999999}{0:>99999999}'.format(1) }}",
        "{{ 'xxxxxxxxxx'" + " | replace('x', 'xxxxxxxxxx')" * 20 + " }}",
        "{{ [1] | batch(10 ** 9, 0) | list }}",
        "{{ range(90000) | join('xxxxxxxxxxxxxxxxxxxx') }}",
        "{{ range(99999) | join('x' * 20000) }}",
        "{{ (['x' * 1000000] * 1000) | map('upper') | list | length }}",
        "{{ ('ab' * 500000).split('a') | map('replace', 'b', 'c' * 900000) | list | length }}",
        "{{ range(99999) | map('string') | map('replace', '', 'x' * 9999) | list | length }}",
        "{{ [[[[1] * 100] * 100] * 100] * 100 }}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ " + "[" * 150 + "1" + "]" * 150 + " }}",
        "{{ " + "- " * 5000 + "1 }}",
        "x" * 100_000,
    ],
)
def test_a_text_that_would_run_away_is_refused_before_it_is_made(text: str) -> None:
    begun, most = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Invalid):
        render.template(text).render(VALUES)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most < 200 << 10  # KiB
    assert time.process_time() - begun < 5  # seconds; what is not bounded takes many times as long, or never ends


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__ }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ hosts.append('c') }}",
        "{{ hosts | attr('append') }}",
        "{{ name.encode() }}",
        "{{ range.__init__ }}",
        "{{ range }}",
        "{{ [1, 2] | random }}",
    ],
)
def test_a_text_cannot_reach_beyond_its_values(text: str) -> None:
    values = dict(VALUES)
    with pytest.raises(Invalid):
        render.template(text).render(values)
    assert values == VALUES


def test_a_failure_does_not_repeat_the_value_it_failed_on() -> None:
    with pytest.raises(Invalid) as caught:
        render.template("{{ secret | duration }}").render({"secret": "hunter2"})
    assert "hunter2" not in caught.value.message
    assert caught.value.__cause__ is None


PIECES = st.lists(
    st.sampled_from(
        [
            "{{",
            "}}",
            "{%",
            "%}",
            "{#",
            "#}",
            " ",
            "n",
            "name",
            "hosts",
            "|",
            "(",
            ")",
            "[",
            "]",
            ".",
            "'",
            '"',
            "+",
            "*",
            *[
                "if",
                "endif",
                "else",
                "raw",
                "endraw",
                "list",
                "join",
                "1",
                "9999",
                "\n",
                "\\",
                "-",
                "~",
                "is",
                "not",
                ",",
            ],
        ]
    ),
    max_size=25,
).map("".join)


@given(st.one_of(st.text(), PIECES, PIECES.map(lambda text: "{{ " + text + " }}")))
def test_any_text_renders_or_is_invalid(text: str) -> None:
    try:
        render.template(text).render(VALUES)
        render.holds(text, VALUES)
    except Invalid as error:
        assert error.message


@pytest.fixture
def templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(paths, "shipped_folder", lambda name: tmp_path)
    render._files.cache_clear()
    return tmp_path


def test_a_file_is_filled_in_and_escaped_where_it_is_html(templates: Path) -> None:
    (templates / "t.j2").write_text("{% for x in xs %}\n<b>{{ x }}</b>\n{% endfor %}\n")
    assert render.from_file("t.j2", {"xs": ["<&>", "b"]}) == "<b><&></b>\n<b>b</b>\n"
    assert render.from_file("t.j2", {"xs": ["<&>"]}, html=True) == "<b>&lt;&amp;&gt;</b>\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a\n\n{{ missing }}", r"^line 3 of t\.j2: 'missing' is undefined"),
        ("a\n{{", r"^line 2 of t\.j2: "),
        ("{% include 'no.j2' %}", r"no template no\.j2"),
        ("a\n{{ 1 / 0 }}", r"^line 2 of t\.j2: cannot be worked out: it divides by zero$"),
        ("{{ 'x' + 1 }}", r"cannot be worked out: a value is of a kind, or has a content, that does not fit here$"),
        ("{{ 'x' | round }}", r"cannot be worked out: a value is of a kind, or has a content, that does not fit here$"),
    ],
)
def test_a_broken_file_is_named(templates: Path, content: str, words: str) -> None:
    (templates / "t.j2").write_text(content)
    with pytest.raises(Invalid, match=words):
        render.from_file("t.j2", {})


def test_a_file_that_is_not_there_is_named(templates: Path) -> None:
    with pytest.raises(Invalid, match=r"no template \.\./secret"):
        render.from_file("../secret", {})


def test_json_is_indented_by_eight_columns_at_most() -> None:
    assert render.template("{{ [1] | tojson(10 ** 9) }}").render({}) == "[\n        1\n]"


@pytest.mark.parametrize(
    "read",
    [
        lambda: render.template("{{ 'a text of its own' }}"),
        lambda: render.expression("name == 'another text'"),
        lambda: render.from_file("RESTORE.txt.j2", {}),
    ],
)
def test_a_signal_while_a_template_is_read_is_no_mistake_in_it(
    read: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(_lexer: object, text: str) -> str:
        if text in ("a text of its own", "another text", "license.txt.age"):
            raise Interrupted(2)
        return text

    render._files.cache_clear()
    monkeypatch.setattr("jinja2.lexer.Lexer._normalize_newlines", stopped)  # while a constant is read
    with pytest.raises(Interrupted):
        read()
