"""What people read fits their terminal: pages of the help, tables, plans."""

import re

import pytest

from maint.cli.help.topics import names
from maint.cli.width import STAYS, columns, fitted, folded, page
from maint.model.formatting import show_count, show_ends, tell_times
from tests.steps.operator import Operator, maint

ROWS = [["ID", "STATE", "NOTE"], ["20261123T055524.233Z-9907", "done", "taken up 2 times, then ended well by itself"]]


def too_long(text: str, width: int = 80) -> list[str]:
    return [line for line in text.splitlines() if len(line) > width]


@pytest.mark.parametrize("name", names())
def test_a_page_of_the_help_fits_80_columns(name: str) -> None:
    assert too_long(maint("help", name, COLUMNS="80").out) == []
    assert too_long(maint("help", name).out) == []  # as `less` and a file get it


def test_pages_are_as_wide_as_a_wider_terminal_and_whole_for_programs() -> None:
    assert too_long(maint("help", "restore", COLUMNS="100").out) != []
    assert too_long(maint("help", "restore", COLUMNS="100").out, 100) == []
    assert too_long(maint("help", "restore", "-o", "json").json["text"], 100) != []


# What lists something, each with columns of its own.
LISTS = [
    "backup list", "backup show latest", "playbook list", "playbook history", "restore plan", "host check --list",
    "doctor", "site list", "site status", "config show", "help", "vc job list -o table", "vc run list -o table",
    "vc resource list -o table", "vc status", "service list --cluster base",
    "schedule show", "host list", "notify list", "playbook plan disaster-recovery",
]  # fmt: skip


def test_what_a_command_lists_fits_80_columns(loaded: Operator) -> None:
    for words in LISTS:
        out = loaded(*words.split(), COLUMNS="80").out
        long = [line for line in too_long(out) if max(map(len, line.split())) < 50]  # a path or address stays whole
        assert out != "" and long == [], words


def test_a_program_that_reads_a_table_gets_each_row_on_a_line(loaded: Operator) -> None:
    said = loaded("playbook", "list")
    assert len(said.out.splitlines()) == len(loaded("playbook", "list", "-o", "json").json["playbooks"]) + 1


def test_a_table_without_room_keeps_what_names_a_row_and_breaks_the_rest_between_words() -> None:
    assert fitted(ROWS, None).splitlines()[1].endswith("by itself")
    assert fitted(ROWS, 60).splitlines() == [
        "ID                         STATE  NOTE",
        "20261123T055524.233Z-9907  done   taken up 2 times, then",
        "                                    ended well by itself",
    ]


def test_a_word_that_is_too_long_for_its_column_is_parted_where_it_has_a_joint() -> None:
    path = "/var/lib/maint/backups/of/all/sites/and/of/all/clusters/together"
    rows = [["KEY", "VALUE"], ["store", path]]
    first, _, then = path.rpartition("clusters/")
    assert fitted(rows, 60).splitlines()[1:] == [f"store  {first}", f"         clusters/{then}"]


def test_what_stays_whole_without_room_has_the_rest_of_its_line_to_itself() -> None:
    address = "https://repo.example.com/jars/an-estimator-of-pi.jar"
    rows = [["NAME", "FILE", "SCHEDULE", "MOUNTS"], ["remote-pi", address, f"30{STAYS}3{STAYS}* (paused)", "data"]]
    assert fitted(rows, 60).splitlines()[1:] == [
        f"remote-pi  {address}",
        f"{'30 3 *    data':>58}",
        f"{'(paused)':>52}",
    ]


def test_a_table_whose_words_have_no_room_on_a_narrow_terminal_is_told_in_blocks() -> None:
    assert fitted([*ROWS, ["20261123T055525.001Z-0b11", "running", ""]], 40).splitlines() == [
        "20261123T055524.233Z-9907",
        "  STATE: done",
        "  NOTE: taken up 2 times, then ended",
        "    well by itself",
        "20261123T055525.001Z-0b11",
        "  STATE: running",
    ]
    assert fitted([["KEY", "VALUE"], ["store", "/var/lib/maint/backups/of/all"]], 32).splitlines() == [
        "store",
        "  /var/lib/maint/backups/of/all",
    ]


@pytest.mark.parametrize("width", ["1", "2"])
def test_a_terminal_without_any_width_still_gets_its_table(monkeypatch: pytest.MonkeyPatch, width: str) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert columns() == 8
    assert fitted(ROWS, columns()).splitlines()[-1].strip() == "itself"


def test_times_are_told_to_people_in_one_way_and_stay_what_they_are_for_programs(loaded: Operator) -> None:
    assert re.search(r"Laboratory, until \d{4}-\d\d-\d\d 00:00 UTC", loaded("site", "status").out)
    assert re.fullmatch(r"Laboratory, until .*T00:00:00.000Z", loaded("site", "status", "-o", "json").json["licence"])
    loaded.lab.world.license, loaded.lab.world.trial = None, "running"  # which names no day
    assert loaded("site", "status", "-o", "json").json["licence"] == "Trial"
    assert tell_times("begun 2026-11-23T10:58:01.5+02:00, run 20261123T105801.500Z-1") == (
        "begun 2026-11-23 08:58 UTC, run 20261123T105801.500Z-1"
    )
    assert tell_times("0001-01-01T00:00:00.123456789Z") == "0001-01-01 00:00 UTC"


@pytest.mark.parametrize(
    "text", ["2026-02-30T00:00:00Z", "0000-00-00T00:00:00Z", "0001-01-01T00:00:00+05:00", "2026-01-01T00:00:60Z"]
)
def test_what_looks_like_a_time_and_is_none_stays_as_it_is(text: str) -> None:
    assert tell_times(f"since {text}") == f"since {text}"


@pytest.mark.parametrize(
    ("count", "noun", "told"), [(1, "host", "1 host"), (0, "day", "0 days"), ("2", "entry", "2 entries")]
)
def test_one_of_a_kind_is_told_as_one(count: int | str, noun: str, told: str) -> None:
    assert show_count(count, noun) == told


@pytest.mark.parametrize("effect", ["READ   ", "DESTROY"])
def test_a_plan_goes_on_below_its_words(effect: str) -> None:
    line = f"   2. {effect} The manager answers: probe the version, and see who is let in"
    assert folded(line, 50).splitlines() == [
        f"   2. {effect} The manager answers: probe the",
        "              version, and see who is let in",
    ]
    assert folded(line, None) == line


def test_code_keeps_its_lines_and_a_remark_without_room_stands_above() -> None:
    text = "    maint backup create --yes    # a snapshot of what is there now\n    key: value"
    assert page(text, 50).splitlines() == [
        "    # a snapshot of what is there now",
        "    maint backup create --yes",
        "    key: value",
    ]


def test_a_call_without_room_goes_on_behind_a_backslash_and_is_still_one_call() -> None:
    text = '    maint backup hold ID --reason "before the upgrade of June" --until 2027-06-30'
    shown = page(text, 60)
    assert shown.splitlines() == [
        "    maint backup hold ID \\",
        '        --reason "before the upgrade of June" \\',
        "        --until 2027-06-30",
    ]


def test_what_is_quoted_in_a_call_is_never_parted() -> None:
    reason = "agreed with security on the third of June, until the upgrade is done"
    assert page(f'    maint backup hold ID --reason "{reason}"', 50).splitlines() == [
        "    maint backup hold ID \\",
        f'        --reason "{reason}"',
    ]


def test_a_filter_may_be_copied_as_it_is_folded_and_a_usage_line_is_none_to_copy() -> None:
    text = "    maint vc job list --filter 'type[eq]spark'\n    maint vc drift [--vc NAME] [--snapshot ID]"
    assert page(text, 40).splitlines() == [
        "    maint vc job list \\",
        "        --filter 'type[eq]spark'",
        "    maint vc drift [--vc NAME]",
        "        [--snapshot ID]",
    ]


def test_paragraphs_and_lists_are_filled_and_what_is_quoted_as_code_stays_together() -> None:
    text = "One line\nand another one.\n\n- an item that says `maint backup list` and\n  goes on"
    assert page(text, 34).splitlines() == [
        "One line and another one.",
        "",
        "- an item that says",
        "  `maint backup list` and goes on",
    ]


def test_a_table_of_a_page_has_its_columns_and_a_line_below_its_head() -> None:
    text = "| code | meaning |\n|---|---|\n| `a\\|b` | what it says, at some length |"
    assert page(text, 30).splitlines() == [
        "code   meaning",
        "-----  -----------------------",
        "`a|b`  what it says, at some",
        "         length",
    ]


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("short", 10, "short"),
        ("the manager at cm1.example.internal does not answer: no route to host", 40, "the manager at … to host"),
        ("x" * 60, 30, "x" * 17 + " … " + "x" * 10),
    ],
)
def test_a_reason_too_long_for_a_summary_is_cut_between_words(text: str, most: int, shown: str) -> None:
    assert show_ends(text, most) == shown
