"""A run tells those outside something on its way."""

import json
from pathlib import Path

import pytest

from maint.config.notices import NoticeSettings
from maint.errors import Invalid
from maint.model.plan import Happening
from tests.engine.conftest import Bench, bench, site, steps

__all__ = ["bench", "site", "steps"]
HEAD = "name: x\nsummary: X.\nsteps:\n  - {name: A, do: try.read, with: {target: a}, register: found}\n"
TELL = HEAD + "  - {name: Tell, do: notify, with: {message: 'A said {{ found.word }}'%s}}\n"


def telling(bench: Bench, folder: Path) -> Path:
    """Have two told: one by a program that writes it down, one by a program that fails; and a dead man's switch."""
    seen = folder / "seen"
    configured = [
        {"name": "pager", "exec": {"command": ["/bin/sh", "-c", f"cat >> {seen}"]}},
        {"name": "broken", "exec": {"command": ["/bin/false"]}},
        {"name": "switch", "ping": {"url": "http://127.0.0.1:1/x"}},
    ]
    notify = tuple(NoticeSettings.model_validate(one, strict=False) for one in configured)
    bench.site.settings = bench.site.settings.model_copy(update={"notify": notify})
    return seen


def test_it_tells_all_and_what_does_not_arrive_fails_nothing(bench: Bench, tmp_path: Path) -> None:
    seen = telling(bench, tmp_path)
    ended = [event for event in bench.run(TELL % "") if event.what is Happening.FINISHED][-1]
    said = json.loads(seen.read_text())
    assert (said["event"], said["words"], said["site"]) == ("message", "A said value of a", "prod")
    assert ended.detail == "1 notice told; broken was not told: exec: /bin/false ended with status 1"


def test_a_message_that_is_a_list_is_told_as_text(bench: Bench, tmp_path: Path) -> None:
    seen = telling(bench, tmp_path)
    bench.run(TELL.replace("'A said {{ found.word }}'", "'{{ [found.word] }}'") % "")
    assert json.loads(seen.read_text())["words"] == "['value of a']"


def test_it_tells_those_alone_who_are_named(bench: Bench, tmp_path: Path) -> None:
    telling(bench, tmp_path)
    ended = [event for event in bench.run(TELL % ", to: [pager]") if event.what is Happening.FINISHED][-1]
    assert ended.detail == "1 notice told"


@pytest.mark.parametrize("name", ["pagr", "switch"])
def test_a_name_that_takes_no_messages_is_refused_by_the_plan(bench: Bench, tmp_path: Path, name: str) -> None:
    telling(bench, tmp_path)
    with pytest.raises(Invalid, match=name):
        bench.plan(TELL % f", to: [{name}]")


def test_without_anybody_to_tell_the_plan_is_refused(bench: Bench) -> None:
    with pytest.raises(Invalid, match="nobody can be told") as refused:
        bench.plan(TELL % "")
    assert refused.value.detail == ("in step 'Tell'",)
