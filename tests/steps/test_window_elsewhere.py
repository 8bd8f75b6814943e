"""A redaction window is seen and closed from other machines and state folders, as far as signed records tell."""

import json
import re
import shutil

import pytest

from maint.cli.site import doctor
from maint.model import java_options
from tests.steps.operator import SITE, Operator, environment
from tests.steps.test_window import export, left, open_window, redacts, stopped_in_the_window, through

__all__ = ["left", "open_window"]


@pytest.fixture(autouse=True)
def looks(monkeypatch):
    """Doctor looks at windows alone, as at all else in its own tests; this holds what it looks at then."""
    looked, whole = ["redaction window"], doctor.guarded

    def guarded(label, *told):
        return whole(label, *told) if not looked or label in looked else iter(())

    monkeypatch.setattr(doctor, "guarded", guarded)
    return looked


@pytest.fixture
def left_open(left):
    """An operator whose window was left open by a kill, and the options file as it was before."""
    return left, left.before


class Elsewhere:
    """The same operator at another state folder, as on another machine that shares the store."""

    def __init__(self, operator: Operator, *, trusted: bool = True) -> None:
        self._operator, self._state = operator, operator.lab.folder / "another-state"
        self.lab, self.state = operator.lab, self._state / operator.state.name
        if trusted:
            shutil.copytree(operator.state / "keys", self.state / "keys", dirs_exist_ok=True)

    def __call__(self, *words: str):
        return self._operator(*words, MAINT_STATE=str(self._state))

    def fork(self, *words: str):
        """Begin a command in a process of its own."""
        return self._operator.fork(*words, env=environment(MAINT_STATE=str(self._state)))

    def window(self):
        """What doctor says of windows here."""
        lines = self("doctor", "-o", "json").json["checks"]
        return [(one["state"], one["words"]) for one in lines if one["label"] == "redaction window"]


def records(operator):
    """The records of windows in the store."""
    return sorted((operator.lab.folder / "backups").glob("*/records/*-window-*.json"))


def test_another_machine_sees_the_window_and_closes_it_byte_for_byte(left_open, looks):
    looks.clear()  # at everything
    here, before = left_open
    there = Elsewhere(here)
    config, figures = here.lab.folder / "config.yaml", here.lab.folder / "maint.prom"
    config.write_text(config.read_text().rstrip() + "\n    metrics: maint.prom\n")
    open_here = re.compile(r"^maint_redaction_window_open\S+ 1$", re.M)
    assert here("backup", "verify", "--level", "1").code == 0
    assert open_here.search(figures.read_text())
    ((state, words),) = there.window()
    assert (state, "opened at" in words) == ("FAIL", True)
    assert "opened at" in there("site", "status", "-o", "json").json["redaction_window"]
    said = there("manager", "export", "--close-window", "--dry-run")
    assert (said.code, "a window is open, opened at" in said.out) == (0, True)
    said = there("manager", "export", "--close-window", "--yes")
    assert said.code == 0, said.err
    assert (here.options.read_bytes(), redacts(here)) == (before, True)
    assert there.window() == [("ok", "closed")]
    assert here("backup", "verify", "--level", "1").code == 0
    assert (here.window, open_here.search(figures.read_text())) == (True, None)
    assert here("manager", "export", "--close-window", "--yes").code == 0
    assert (here.window, here.kept) == (False, [])


@pytest.mark.parametrize("whole", [True, False], ids=["wholly", "though its line is there again"])
def test_a_window_that_another_machine_has_closed_costs_no_restart_here_but_where_it_is_still_open(left_open, whole):
    here, before = left_open
    assert Elsewhere(here)("manager", "export", "--close-window", "--yes").code == 0
    if not whole:
        here.options.write_bytes(java_options.opened(before))
    said = here("backup", "create")
    assert (said.code, "restarting" not in said.err, here.window) == (7, whole, False), said.err
    assert (here.options.read_bytes(), redacts(here), here.kept) == (before, True, [])


def test_a_window_that_a_run_opens_anew_after_another_machine_closed_it_is_announced_anew(left_open):
    here, before = left_open
    run = json.loads((here.state / "window.json").read_text())["run"]
    assert Elsewhere(here)("manager", "export", "--close-window", "--yes").code == 0
    said = here("playbook", "resume")
    assert (said.code, here.options.read_bytes(), redacts(here)) == (0, before, True), said.err
    told = [json.loads(path.read_text()) for path in records(here)]
    assert [one["facts"]["state"] for one in told if one["snapshot"] == run] == ["opened", "closed"] * 2


def test_a_window_of_a_site_that_was_renamed_since_is_named_by_what_closes_it(left_open):
    here, before = left_open
    config = here.lab.folder / "config.yaml"
    renamed = config.with_name("renamed.yaml")
    renamed.write_text(config.read_text().replace(f"\n  {SITE}:\n", "\n  other:\n"))
    here.config = str(renamed)
    lines = here("doctor", "-o", "json").json["checks"]
    (line,) = [one for one in lines if one["label"] == "redaction window"]
    assert (line["state"], line["hint"]) == ("warn", "maint manager export --close-window")
    words = ("manager", "export", "--close-window")
    assert line["words"] in here(*words, "--dry-run").out
    said = here(*words, "--yes")
    assert (said.code, "no window is open" in said.err) == (0, False), said.err
    assert (here.options.read_bytes(), redacts(here)) == (before, True)


def test_a_file_that_was_not_there_is_removed_from_elsewhere(loaded):
    loaded.options.unlink()
    process = stopped_in_the_window(loaded)
    process.kill()
    process.communicate()
    said = Elsewhere(loaded)("manager", "export", "--close-window", "--yes")
    assert said.code == 0, said.err
    assert (loaded.options.exists(), redacts(loaded)) == (False, True)


def test_a_window_that_was_closed_is_told_as_closed(loaded):
    assert through(loaded).code == 0
    assert len(records(loaded)) == 4
    assert Elsewhere(loaded).window() == [("ok", "closed")]


def test_a_record_that_cannot_be_verified_is_told_and_no_doubt_any_more_once_the_hosts_were_looked_at(left_open):
    here, before = left_open
    there = Elsewhere(here, trusted=False)  # as where the key that signed went with its machine
    ((state, words),) = there.window()
    assert (state, "cannot be verified" in words) == ("warn", True)
    said = there("manager", "export", "--close-window", "--yes")
    assert said.code == 0, said.err
    assert "cannot be verified" in said.err and "no window is open" not in said.err
    assert (here.options.read_bytes(), redacts(here)) == (before, True)
    assert there.window() == [("ok", "closed")]
    said = through(there)
    assert (said.code, "cannot be verified" in said.err) == (0, False), said.err
    *_, opened = records(here)
    for end in ("", ".sig"):
        shutil.copy(f"{opened}{end}", f"{opened.with_name('2999' + opened.name[4:])}{end}")
    ((state, words),) = there.window()  # what is new is one
    assert (state, "1 record of windows" in words) == ("warn", True)


def test_a_look_at_the_hosts_that_finds_a_line_of_somebody_else_settles_nothing(left_open):
    here, before = left_open
    there = Elsewhere(here, trusted=False)
    here.options.write_bytes(before + b"\nexport CMF_JAVA_OPTS='-Dcom.cloudera.api.redaction=false'\n")
    said = there("manager", "export", "--close-window", "--yes")
    assert (said.code, "a line of somebody else's" in said.err) == (0, True), said.err
    assert "cannot be verified" in there.window()[0][1]


def test_the_metrics_of_a_machine_that_cannot_tell_of_a_window_say_so_until_it_can(left_open):
    here, _ = left_open
    config, figures = here.lab.folder / "config.yaml", here.lab.folder / "maint.prom"
    config.write_text(config.read_text().rstrip() + "\n    metrics: maint.prom\n")

    def told(there):
        there("backup", "verify", "--level", "1")
        return re.findall(r"^maint_redaction_window_(\w+)\S+ ([01])$", figures.read_text(), re.M)

    assert ("known", "0") in told(Elsewhere(here, trusted=False))
    assert {*told(Elsewhere(here))} == {("known", "1"), ("open", "1")}
    folder = here.lab.folder / "backups"
    folder.rename(folder.with_name("away"))
    folder.write_text("no folder")
    assert {*told(Elsewhere(here))} == {("known", "0"), ("open", "1")}


def test_a_forged_record_closes_nothing(left_open):
    here, _ = left_open
    *_, opened = records(here)
    later = opened.with_name("2999" + opened.name[4:])
    later.write_bytes(opened.read_bytes().replace(b'"opened"', b'"closed"'))
    shutil.copy(f"{opened}.sig", f"{later}.sig")
    there = Elsewhere(here)
    assert sorted(state for state, _ in there.window()) == ["FAIL", "warn"]


def test_no_window_is_opened_where_no_store_takes_its_record(loaded):
    before = loaded.options.read_bytes()
    folder = loaded.lab.folder / "backups" / loaded.state.name / "records"
    shutil.rmtree(folder)
    folder.write_text("no folder")
    said = export(loaded, "-o", "json")
    assert (said.code, "no store takes the record" in said.error["message"]) == (5, True)
    assert (loaded.options.read_bytes(), loaded.window, loaded.kept) == (before, False, [])


def test_a_window_closes_where_the_store_is_away_and_the_next_one_says_so_in_it(left_open):
    here, before = left_open
    folder = here.lab.folder / "backups"
    folder.rename(here.lab.folder / "away")
    folder.write_text("no folder")
    said = here("manager", "export", "--close-window", "--yes")
    assert said.code == 0, said.err
    assert "could not be told that the window" in said.err
    assert (here.options.read_bytes(), here.window, redacts(here)) == (before, False, True)
    folder.unlink()
    (here.lab.folder / "away").rename(folder)
    assert [state for state, _ in Elsewhere(here).window()] == ["FAIL"]
    assert through(here).code == 0
    assert Elsewhere(here).window() == [("ok", "closed")]


def test_a_backup_that_finds_another_machines_window_says_whose_since_when_and_what_to_do_and_leaves_it_open(left_open):
    here, _ = left_open
    there, opened = Elsewhere(here), json.loads(records(here)[-1].read_text())["facts"]
    for words in ((), ("--open-window",)):
        said = there("backup", "create", *words, "--yes")
        assert said.code == 0, said.err
        told = f"WARNING: a redaction window is open, opened at {opened['opened_at']} by {opened['by']}, run "
        assert told in said.err, words
        assert "`maint manager export --close-window` closes it" in said.err, words
    assert java_options.LINE.encode() in here.options.read_bytes()
    assert [state for state, _ in there.window()] == ["FAIL"]


def test_a_damaged_record_of_a_window_keeps_nobody_from_closing_it_or_from_looking(left_open):
    here, before = left_open
    record = here.state / "window.json"
    record.write_bytes(record.read_bytes()[:20])
    for look in (("cluster", "list"), ("site", "status"), ("backup", "list")):
        said = here(*look)
        assert (said.code, "window.json, cannot be read" in said.err) == (0, True), look
    refused = here("backup", "create", "--yes")
    assert (refused.code, "`maint manager export --close-window` closes it" in refused.err) == (5, True)
    said = here("manager", "export", "--close-window", "--yes")
    assert (said.code, here.window, here.kept) == (0, False, []), said.err
    assert (here.options.read_bytes(), redacts(here)) == (before, True)


def test_a_folder_in_the_place_of_the_record_is_named_once_the_window_is_closed(left_open):
    here, before = left_open
    record = here.state / "window.json"
    record.unlink()
    record.mkdir()
    said = here("manager", "export", "--close-window", "--yes")
    assert (said.code, "a folder lies in the place of that file: move it away" in said.err) == (1, True), said.err
    assert (here.options.read_bytes(), redacts(here)) == (before, True)
    record.rmdir()
    assert here("manager", "export", "--close-window", "--yes").code == 0


def test_a_backup_without_a_window_names_an_option_that_waits_for_a_restart(loaded):
    loaded.options.write_bytes(b'export CMF_JAVA_OPTS="-Dcom.cloudera.api.redaction=false"\n')
    said = loaded("backup", "create", "--yes", "-o", "json")
    assert said.code == 7
    assert "was not restarted since" in said.json["actions"][0]["detail"]
    assert "--open-window` restarts it" in said.err


def test_an_option_set_by_hand_without_a_restart_is_named_and_counts_after_one(loaded):
    content = b'export CMF_JAVA_OPTS="-Dcom.cloudera.api.redaction=false"\n'
    loaded.options.write_bytes(content)
    said = export(loaded, "-o", "json")
    assert said.code == 0, said.err
    assert "since the restart" in said.json["actions"][0]["detail"]
    assert said.json["actions"][1]["value"]["restorable"] is True
    assert loaded.options.read_bytes() == content
    said = loaded("manager", "export", "--close-window", "--yes", "-o", "json")
    assert "somebody else" in said.json["actions"][0]["detail"]
    loaded.options.write_bytes(b"")
    assert not redacts(loaded)
    said = loaded("manager", "export", "--close-window", "--yes", "-o", "json")
    assert (said.code, redacts(loaded)) == (0, True), said.err


def test_a_window_that_another_site_of_the_manager_left_open_is_told_and_closed_from_this_one(left_open):
    here, before = left_open
    config = here.lab.folder / "config.yaml"
    head, site = config.read_text().split(f"\n  {SITE}:\n")
    both = config.with_name("both.yaml")
    both.write_text(f"{head}\n  {SITE}:\n{site.rstrip()}\n  other:\n{site}")
    here.config = str(both)
    words = ("--site", "other")
    seen = here("site", "status", *words, "-o", "json")
    assert f"by site {SITE}" in seen.json["redaction_window"]
    assert f"`maint manager export --close-window --site {SITE}` closes it" in seen.err
    lines = here("doctor", *words, "-o", "json").json["checks"]
    (line,) = [one for one in lines if one["label"] == "redaction window"]
    assert (line["state"], f"by site {SITE}" in line["words"]) == ("FAIL", True)
    assert f"by site {SITE}" in here("backup", "create", *words).err
    record = here.state / "window.json"
    whole = record.read_bytes()
    record.write_bytes(whole[:-9])
    lines = here("doctor", *words, "-o", "json").json["checks"]
    (line,) = [one for one in lines if one["label"] == "redaction window"]
    assert line["state"] != "ok" and f"a redaction window of site {SITE} may be open: {record} cannot" in line["words"]
    record.write_bytes(whole)
    close = ("manager", "export", "--close-window", *words)
    assert f"by site {SITE}" in here(*close, "--dry-run").out
    said = here(*close, "--yes")
    assert said.code == 0, said.err
    assert here("site", "status", *words, "-o", "json").json["redaction_window"] == "closed"
    here.config = str(config)
    assert (here.options.read_bytes(), redacts(here), here.window) == (before, True, False)


@pytest.mark.parametrize("words", [("playbook", "resume"), ("backup", "create", "--open-window", "--yes")])
def test_a_window_of_this_machine_whose_record_is_lost_closes_as_the_store_tells_of_it(left_open, words):
    here, before = left_open
    (here.state / "window.json").unlink()
    said = here(*words)
    assert (said.code, "somebody else" in said.err) == (0, False), said.err
    assert (here.options.read_bytes(), redacts(here), here.window) == (before, True, False)
    assert Elsewhere(here).window() == [("ok", "closed")]


def test_a_run_that_only_has_to_close_its_window_closes_it_though_its_record_is_lost(left_open):
    here, before = left_open
    here.lab.switch("get-seconds", "600")
    (here.state / "window.json").unlink()
    said = here("playbook", "resume", "--timeout", "3s")
    assert (said.code, here.options.read_bytes(), redacts(here)) == (1, before, True), said.err
