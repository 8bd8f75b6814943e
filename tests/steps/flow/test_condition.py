"""A run stops where something does not hold that its author counts on."""

from tests.engine.conftest import Bench, bench, site, steps

__all__ = ["bench", "site", "steps"]
HEAD = "name: x\nsummary: X.\nparameters:\n  most: {type: integer, default: 3}\nsteps:\n"
READ = "  - {name: A, do: try.read, with: {target: a}, register: found}\n"
BEHIND = "  - {name: B, do: try.read, with: {target: b}}\n"


def asserting(that: str, more: str = "") -> str:
    return f"{HEAD}{READ}  - name: Sure\n    do: assert\n    with: {{that: {that!r}{more}}}\n{BEHIND}"


def test_a_run_goes_on_where_it_holds(bench: Bench) -> None:
    bench.run(asserting("found.word == 'value of a' and most < 4"))
    assert bench.did == ["a", "b"]


def test_it_stops_with_the_message_where_it_does_not(bench: Bench) -> None:
    error = bench.fails(asserting("found.word == 'other'", ", message: 'A said {{ found.word }}', hint: 'look at A'"))
    assert (error.message, error.hint, error.exit_code) == ("A said value of a", "look at A", 1)
    assert bench.did == ["a"]


def test_without_a_message_it_says_what_does_not_hold(bench: Bench) -> None:
    assert bench.fails(asserting("most > 3")).message == "this does not hold: `most > 3`"


def test_the_plan_shows_what_must_hold(bench: Bench) -> None:
    assert bench.plan(asserting("most > 3")).actions[1].summary == "make sure that `most > 3`"
