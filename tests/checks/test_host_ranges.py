"""Folding host names into ranges loses nobody and invents nobody."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maint.model.formatting import fold


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ([], ""),
        (["cm"], "cm"),
        (["wn01", "wn02", "wn03"], "wn[01-03]"),
        (["wn01", "wn03", "wn04"], "wn[01,03-04]"),
        (["wn9", "wn10", "wn11"], "wn9 wn[10-11]"),
        (["a1.x", "a2.x", "a1.y"], "a[1-2].x a1.y"),
        (["10.0.0.1", "10.0.0.2"], "10.0.0.1 10.0.0.2"),
        (["b", "b"], "b"),
    ],
)
def test_names_fold(names: list[str], folded: str) -> None:
    assert fold(names) == folded


def unfold(text: str) -> set[str]:
    found = set()
    for word in text.split():
        match = re.fullmatch(r"(.*)\[([\d,-]+)\](.*)", word)
        if not match:
            found.add(word)
            continue
        for run in match[2].split(","):
            first, _, last = run.partition("-")
            found |= {f"{match[1]}{n:0{len(first)}}{match[3]}" for n in range(int(first), int(last or first) + 1)}
    return found


@given(st.sets(st.from_regex(r"[a-z]{1,2}[0-9]{1,3}(\.[xy])?", fullmatch=True), max_size=30))
def test_unfolding_gives_the_same_names_back(names: set[str]) -> None:
    assert unfold(fold(sorted(names))) == names
