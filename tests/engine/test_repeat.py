"""A step that only reads looks again until something holds; its limit names what was waited for."""

import pytest

from maint.errors import DeadlinePassed, Invalid
from maint.model.plan import Retry
from maint.steps.registry import STEPS
from maint.steps.step import done
from tests.engine.conftest import Bench, Reading

HEAD = "name: x\nsummary: X.\nsteps:\n"
UNTIL = HEAD + (
    "  - name: A\n    do: try.count\n    with: {target: a}\n    timeout: %s\n"
    "    until: result.tries >= 3\n    retry: {attempts: %s, pause: 10ms, backoff: 2}\n"
)


class Counting(Reading):
    """Tells how often it was tried."""

    kind = "try.count"

    def apply(self, action, site, work):
        """Count, and fail as `fail` says."""
        yield from super().apply(action, site, work)
        return done("counted", {"tries": len((site.state.parent / "did").read_text().splitlines())})


@pytest.fixture(autouse=True)
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STEPS, "try.count", Counting())


def test_it_looks_again_until_it_holds(bench: Bench) -> None:
    bench.run(UNTIL % ("5s", 1))
    assert bench.did == ["a", "a", "a"]
    said = [event.detail for event in bench.events if "not yet" in event.detail]
    assert said[0].startswith("not yet `result.tries >= 3`, looking again in")


def test_a_limit_that_passes_names_what_was_waited_for_and_what_was_seen_last(bench: Bench) -> None:
    text = (UNTIL % ("100ms", 1)).replace(">= 3", ">= 300")
    error = bench.fails(text)
    assert isinstance(error, DeadlinePassed)
    assert "until `result.tries >= 300`: work on a" in error.detail[0]
    assert error.detail[1].startswith("last seen: {'tries': ")


def test_pauses_grow_by_the_back_off_up_to_the_longest(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(bench.site.clock, "sleep", slept.append)
    bench.fails(
        HEAD + "  - {name: A, do: try.read, with: {fail: always},"
        " retry: {attempts: 5, pause: 1s, backoff: 3, longest: 10s}}\n"
    )
    assert slept == [1, 3, 9, 10]


def test_until_is_for_steps_that_read_and_has_a_limit(bench: Bench) -> None:
    with pytest.raises(Invalid, match="`until` is for steps that only read"):
        bench.plan(HEAD + "  - {name: A, do: try.change, until: result, timeout: 1s}\n")
    with pytest.raises(Invalid, match="needs a `timeout`"):
        bench.plan(HEAD + "  - {name: A, do: try.read, until: result}\n")
    with pytest.raises(Invalid, match="'reslut' is not defined"):
        bench.plan(HEAD + "  - {name: A, do: try.read, until: reslut, timeout: 1s}\n")


def test_a_plan_without_them_reads_as_older_versions_wrote_it(bench: Bench) -> None:
    action = bench.plan(HEAD + "  - {name: A, do: try.read}\n").actions[0]
    assert not {"until", "max_fail"} & action.to_json().keys()
    assert action.to_json()["retry"] == {"attempts": 1, "pause": 5.0}
    assert bench.plan(HEAD + "  - {name: A, do: try.read, retry: {backoff: 2}}\n").actions[0].retry == Retry(backoff=2)
