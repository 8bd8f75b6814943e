"""A command for several sites: which are meant, a process each, what holds up nothing, and the summary."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from maint.cli import options
from maint.cli.estate.for_each import by_manager, calls_of, exit_of, in_words
from maint.cli.estate.processes import ProcessEnd, Processes, SiteCall
from maint.cli.monitoring.outcomes import SUMMARY, Summary
from maint.cli.open_site import named_in
from maint.config.precedence import ConfigFlags, load_settings
from maint.config.yaml import load
from maint.files import keep_record
from maint.lab.running import Lab
from maint.model.formatting import parse_duration
from maint.model.json import Json
from tests.steps.conftest import copy
from tests.steps.operator import SITE, Said, environment, maint

# A program that stands for maint: it does what the site's name says, and says so as maint would.
PROGRAM = """
import json, os, signal, sys, time
site = sys.argv[1]
if site == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if site == "polite":
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
open(sys.argv[2] + "/" + site, "w").write(str(os.getpid()))
if site in ("deaf", "polite", "slow"):
    time.sleep(60)
if site == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
if site == "odd":
    os.kill(os.getpid(), 40)  # a real-time signal, which has no name
if site == "fails":
    print(json.dumps({"warning": "look out"}), file=sys.stderr)
    print(json.dumps({"error": {"message": "no", "detail": [], "hint": None, "exit": 4}}), file=sys.stderr)
    sys.exit(4)
print(json.dumps({"site": site}))
"""


def call(site: str, folder: Path, limit: float = 50.0) -> SiteCall:
    return SiteCall(site, (site, str(folder)), limit)


def processes(**more: Any) -> Processes:
    return Processes(more.pop("grace", 0.0), program=(sys.executable, "-c", PROGRAM), **more)


def test_what_a_site_says_and_how_it_ends_is_kept(tmp_path: Path) -> None:
    well, failed, died = (processes().carry_out(call(site, tmp_path)) for site in ("well", "fails", "dies"))
    assert (well.exit, well.error, well.result) == (0, None, {"site": "well"})
    assert (failed.exit, failed.warnings, failed.result) == (4, ("look out",), None)
    assert failed.error and failed.error["message"] == "no"
    assert died.exit == 137 and died.error and died.error["message"] == "it was ended by SIGKILL"
    assert (odd := processes().carry_out(call("odd", tmp_path))).error
    assert (odd.exit, odd.error["message"]) == (168, "it was ended by signal 40")
    listened = processes(heard=lambda *_: None).carry_out(call("fails", tmp_path))
    assert (listened.exit, listened.warnings, listened.error) == (4, ("look out",), failed.error)


def test_a_process_that_cannot_begin_is_the_failure_of_its_site_alone(tmp_path: Path) -> None:
    found = Processes(0.0, program=(str(tmp_path / "gone"),)).carry_out(call("well", tmp_path))
    assert found.exit == 1 and found.error
    assert "could not be begun: No such file" in str(found.error["message"]) and "--site well" in str(
        found.error["hint"]
    )


def test_the_summary_says_why_a_site_failed_and_not_only_that_it_did() -> None:
    detail: list[Json] = ["audit-only: 53 secrets", "x" * 900, "the disk is full"]
    said: dict[str, Json] = {"message": "done, but not all that was asked for", "detail": detail}
    words = in_words(ProcessEnd("one", 7, said))
    assert words.startswith("done, but not all that was asked for: audit-only: 53 secrets; xx") and len(words) == 240
    assert words.endswith("; the disk is full")
    assert in_words(ProcessEnd("one", 4, {"message": "no", "detail": []})) == "no"


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"checks": [{"label": "lock", "state": "ok"}, {"label": "store", "state": "FAIL"}]}, "1 fail, 1 ok: store"),
        (
            {"findings": [{"check": f"c{n // 2}", "state": "fail"} for n in range(12)]},
            "12 fail: c0, c1, c2, c3, c4 and 1 more",
        ),
        ({"snapshots": [{}], "last_verified": None}, "1 snapshot, no verified restorable backup"),
        ({"verifications": []}, "no snapshot was verified so long ago"),
        ({"verifications": [{"result": "verified"}] * 2}, "2 snapshots: 2 verified"),
        (
            {
                "actions": [
                    {"kind": "snapshot.take", "detail": "snapshot 1"},
                    {"kind": "window.close", "detail": "shut"},
                ]
            },
            "snapshot 1",
        ),
        ({"actions": [{"kind": "snapshot.prune", "detail": "2 snapshots removed"}]}, "2 snapshots removed"),
        (
            {"release": "7.6.5", "redaction_window": "open since 2026-11-27T22:47:12.266Z by run 7"},
            "7.6.5, redaction window open since 2026-11-27 22:47 UTC by run 7",
        ),
    ],
)
def test_the_summary_says_what_came_of_a_command(result: Json, words: str) -> None:
    assert in_words(ProcessEnd("one", 0, None, result)) == words


@pytest.mark.parametrize("site", ["slow", "deaf"])
def test_a_site_that_hangs_is_ended_after_its_limit_and_the_grace(tmp_path: Path, site: str) -> None:
    ended = processes(grace=0.2).carry_out(call(site, tmp_path, limit=5.0))
    assert ended.exit == 1 and ended.error
    assert ended.error["message"] == "it went on beyond its limit, and was ended"
    assert ended.seconds < 30
    pid = int((tmp_path / site).read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(("given", "limit"), [(None, "2h"), ("5m", "5m")])
def test_each_site_knows_its_limit_itself_and_may_close_a_window_before_it_is_ended(
    given: str | None, limit: str
) -> None:
    site = SimpleNamespace(name="one")
    (one,) = calls_of(
        ["backup", "create"],
        options.Flags(timeout=given),
        options.WORKS,
        options.Said(["backup", "create"], {}),
        [site],
    )
    assert one.words == ("backup", "create", f"--timeout={limit}", "--site", "one")
    assert one.limit == parse_duration(limit)
    assert options.WORKS.grace > 900  # within which a manager whose window is closed must answer again


def test_a_signal_is_passed_on_and_nothing_begins_after_it(tmp_path: Path) -> None:
    working, ended = processes(grace=30.0), list[ProcessEnd]()
    thread = threading.Thread(target=lambda: ended.append(working.carry_out(call("polite", tmp_path))))
    thread.start()
    while not (tmp_path / "polite").exists() or not (tmp_path / "polite").read_text():
        time.sleep(0.01)
    working.forward(signal.SIGINT)
    thread.join()
    after = working.carry_out(call("well", tmp_path))
    assert [ended[0].exit, after.exit] == [130, 130]
    assert not (tmp_path / "well").exists()


def test_what_a_signal_that_was_passed_on_ends_at_once_is_interrupted_and_no_riddle(tmp_path: Path) -> None:
    working, ended = processes(grace=30.0), list[ProcessEnd]()
    thread = threading.Thread(target=lambda: ended.append(working.carry_out(call("slow", tmp_path))))
    thread.start()
    while not (tmp_path / "slow").exists():
        time.sleep(0.01)
    working.forward(signal.SIGTERM)
    thread.join(30)
    assert ended[0].exit == 143 and ended[0].error
    assert (ended[0].error["message"], ended[0].error["hint"]) == ("interrupted", None)


def test_what_outlasts_a_signal_is_killed(tmp_path: Path) -> None:
    working, ended = processes(grace=0.1), list[ProcessEnd]()
    thread = threading.Thread(target=lambda: ended.append(working.carry_out(call("deaf", tmp_path))))
    thread.start()
    while not (tmp_path / "deaf").exists() or not (tmp_path / "deaf").read_text():
        time.sleep(0.01)
    working.forward(signal.SIGTERM)
    thread.join(30)
    assert ended[0].exit == 137


def test_all_the_same_exit_code_is_that_one_and_a_mixture_is_seven() -> None:
    ends = [[ProcessEnd("a", one), ProcessEnd("b", other)] for one, other in ((0, 0), (4, 4), (0, 4))]
    assert [exit_of(both) for both in ends] == [0, 4, 7]


@pytest.fixture(scope="module")
def config(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two sites that share a manager, and one whose manager is down, with its own labels."""
    folder = tmp_path_factory.mktemp("estate")
    with Lab(copy(backed_up, folder / "lab")) as lab:
        lab.world.redaction = False
        whole: Any = load((lab.folder / "config.yaml").read_text(), "config").data
        site = whole["sites"][SITE]
        site |= {"hosts": site["hosts"][:1], "virtual_clusters": []}  # more would be asked the same
        down = {**site, "manager": {**site["manager"], "plain_port": 1, "tls_port": 2}}
        own = {"one": ("eu", site), "two": ("us", site), "down": ("us", down)}
        sites = {name: {**body, "labels": {"region": region}} for name, (region, body) in own.items()}
        path = folder / "config.yaml"
        path.write_text(json.dumps({"state": str(folder / "state"), "sites": sites}))
        yield path


def said(config: Path, *words: str, **more: str) -> Said:
    return maint(*words, "--allow-plain", **{"MAINT_CONFIG": str(config), **more})


def test_each_site_answers_for_itself_and_the_summary_tells_of_all(config: Path) -> None:
    found = said(config, "site", "status", "--all", "-o", "json", "--log-format", "json")
    assert found.code == 7
    told = [one for line in found.err.splitlines() if (one := json.loads(line))["message"].startswith("[")]
    assert {one["level"] for one in told if "down" in one["message"]} == {"error"}
    assert sorted(one["level"] for one in told) == ["error", "info", "info"]
    sites = {one["site"]: one for one in found.json["sites"]}
    assert list(sites) == ["one", "two", "down"]
    assert [one["exit"] for one in sites.values()] == [0, 0, 4]
    assert sites["one"]["result"]["site"] == "one" and sites["one"]["error"] is None
    assert sites["down"]["result"] is None and sites["down"]["error"]["exit"] == 4


def test_a_label_chooses_sites_and_people_see_the_failed_one_first(config: Path) -> None:
    found = said(config, "site", "status", "--label", "region=us")
    assert [line.split()[0] for line in found.out.splitlines()[:3]] == ["SITE", "down", "two"]
    assert "1 site ended with 4" in found.out
    assert re.search(r"^NEXT FOR\ndown +is the manager up\?", found.out, re.M), found.out
    found = said(config, "doctor", "--site", "two", "--site", "down")
    after = found.out.partition("NEXT FOR\n")[2]
    assert re.search(r"^two +maint backup create --open-window --site two$", after, re.M), found.out
    assert re.search(r"^down +is the manager up\?", after, re.M), found.out


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        (
            "`maint playbook resume 7` goes on; `maint help redaction`",
            "`maint playbook resume 7 --site a` goes on; `maint help redaction`",
        ),
        ("maint site status", "maint site status --site a"),
        ("maint backup verify --level 2", "maint backup verify --level 2 --site a"),
        ("maint vc init Default-VC --renew", "maint vc init Default-VC --renew --site a"),
        (
            "maint backup verify 20261129T1-ab --store sftp://h/srv",
            "maint backup verify 20261129T1-ab --store sftp://h/srv --site a",
        ),
        ("maint config validate looks again", "maint config validate looks again"),
        ("`maint doctor --site b`", "`maint doctor --site b`"),
    ],
)
def test_of_several_sites_a_command_to_type_names_the_one_it_is_about(hint: str, told: str) -> None:
    assert named_in(hint, "a") == told


@pytest.fixture
def mistaken(config: Path, tmp_path: Path) -> Path:
    """The same sites, one of them in a file of its own, beside a file with a mistake and one that is not YAML."""
    whole = json.loads(config.read_text())
    down, pages = whole["sites"].pop("down"), tmp_path / "pages"
    mine = tmp_path / "config.yaml"
    mine.write_text(json.dumps(whole | {"state": str(tmp_path / "state"), "report": {"folder": str(pages)}}))
    (tmp_path / "sites.d").mkdir()
    files = {"down": {"sites": {"down": down}}, "odd": {"sites": {"odd": {"labels": {"region": "us"}, "mangler": {}}}}}
    for name, body in files.items():
        (tmp_path / "sites.d" / f"{name}.yaml").write_text(json.dumps(body))
    (tmp_path / "sites.d" / "torn.yaml").write_text("sites: [")
    return mine


def test_a_broken_file_is_an_outcome_of_its_own_and_the_others_are_worked_on(mistaken: Path) -> None:
    found = said(mistaken, "site", "report", "--all", "-o", "json")
    assert {one["site"]: one["exit"] for one in found.json["sites"]} == {
        "one": 0,
        "two": 0,
        "down": 0,
        "odd": 3,
        "torn": 3,
    }
    assert found.code == 7
    odd = found.json["sites"][3]["error"]
    assert odd["message"].startswith(f"{mistaken.parent}/sites.d/odd.yaml:1:") and "mangler" in odd["message"]
    assert odd["exit"] == 3 and odd["hint"]
    assert found.err.count("mangler") == 0  # it is in the summary
    assert {"one.html", "two.html", "down.html", "index.html"} <= {
        one.name for one in (mistaken.parent / "pages").iterdir()
    }
    index, page = ((mistaken.parent / "pages" / name).read_text() for name in ("index.html", "torn.html"))
    assert "torn.html" in index and "torn.yaml:1:" in page and "No way back" not in page
    shown = said(mistaken, "site", "status", "--label", "region=us")
    assert shown.code == 7 and "unknown key 'mangler'" in shown.out and "torn" not in shown.out
    assert shown.err.count("warning: cannot be used") == 1 and "torn" in shown.err  # nobody knows its labels
    mended = (mistaken.parent / "sites.d" / "down.yaml").read_text()
    (mistaken.parent / "sites.d" / "down.yaml").write_text("sites: [")
    down = mistaken.parent / "pages" / "down.html"
    assert "Not now" not in down.read_text() and said(mistaken, "site", "report", "--site", "one").code == 0
    assert "Not now" in down.read_text()  # as that of all sites says
    assert down.stat().st_mtime >= (mistaken.parent / "sites.d" / "down.yaml").stat().st_mtime
    (mistaken.parent / "sites.d" / "down.yaml").write_text(mended)
    assert said(mistaken, "site", "report", "--site", "one").code == 0
    assert "Not now" not in down.read_text()


def test_a_site_beside_a_broken_file_works_and_warns_once(mistaken: Path) -> None:
    found = said(mistaken, "backup", "list", "--site", "one")
    assert found.code == 0
    assert found.err.count("warning") == 1 and "odd, torn" in found.err
    broken = said(mistaken, "backup", "list", "--site", "odd")
    assert broken.code == 3 and "sites.d/odd.yaml:1:" in broken.err and "warning" not in broken.err
    both = said(mistaken, "backup", "list", "--site", "odd", "--site", "torn", "-o", "json")
    assert both.code == 3 and [one["site"] for one in both.json["sites"]] == ["odd", "torn"]


def test_a_broken_site_is_listed_as_such_and_all_mistakes_are_told(mistaken: Path) -> None:
    listed = {one["name"]: one for one in said(mistaken, "site", "list", "-o", "json").json["sites"]}
    assert [name for name, one in listed.items() if one["error"]] == ["odd", "torn"]
    assert listed["odd"]["labels"] == {"region": "us"}
    shown = said(mistaken, "site", "list")
    assert shown.code == 0 and sum("config is wrong" in line for line in shown.out.splitlines()) == 2
    (mistaken.parent / "sites.d" / "more.yml").write_text("sites: {}")
    told = said(mistaken, "config", "validate")
    assert "more.yml is not read" in told.err
    assert told.code == 3 and "odd.yaml:1:" in told.err and "torn.yaml:1:" in told.err
    doctor = said(mistaken, "doctor", "--site", "one")
    assert "odd.yaml:1:" in doctor.out and "torn.yaml:1:" in doctor.out
    assert said(mistaken, "generate", "alerts").code == 0


def test_what_changes_is_asked_once_and_yes_goes_to_each(config: Path) -> None:
    refused = said(config, "backup", "create", "--site", "one", "--site", "two")
    assert refused.code == 5 and refused.err.count("[y/N]") == 1
    assert "2 sites (one, two)" in refused.err
    assert not (config.parent / "state/one/runs").exists()
    taken = said(config, "backup", "create", "--site", "one", "--site", "two", "-o", "json", "--yes")
    assert [one["exit"] for one in taken.json["sites"]] == [0, 0], taken.out
    listed = said(config, "site", "list", "-o", "json").json["sites"]
    assert [one["summary"] and one["summary"]["snapshots"] for one in listed] == [1, 1, None]
    assert listed[0]["summary"]["age"] < 600 and listed[0]["labels"] == {"region": "eu"}


def test_a_dry_run_goes_to_each_and_changes_nothing(config: Path) -> None:
    before = sorted((config.parent / "state").rglob("*"))
    found = said(config, "backup", "create", "--site", "one", "--site", "two", "--dry-run", "-o", "json")
    assert [one["exit"] for one in found.json["sites"]] == [0, 0], found.out
    assert "fingerprint" in found.json["sites"][0]["result"]
    assert sorted((config.parent / "state").rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("backup", "list", "--all", "--site", "one"), "given together"),
        (("backup", "list", "--all", "--store", "/x"), "for one site"),
        (("host", "check", "--all", "--report", "/x"), "--report is for one site"),
        (("host", "check", "--all", "-o", "nagios"), "no output 'nagios'"),
        (("backup", "list", "--label", "region=asia"), "no site has region=asia"),
        (("backup", "list", "--label", "region=asia"), "labels of sites: region=eu, region=us"),
        (("backup", "list", "--label", "region=eu", "--label", "region=us"), "name fewer"),
        (("backup", "list", "--label", "region"), "KEY=VALUE is expected"),
        (("backup", "list", "--site", "one", "--site", "tow"), "there is no site 'tow'"),
        (("cluster", "list", "--site", "one", "--site", "two"), "works on one site"),
        (("backup", "list", "--all", "--confirm", "one"), "--confirm is for one site"),
    ],
)
def test_what_makes_no_sense_for_several_sites_is_refused(config: Path, words: tuple[str, ...], told: str) -> None:
    found = said(config, *words)
    assert found.code == 2 and told in found.err, found.err


def test_an_output_for_one_site_is_refused_from_a_variable_too(config: Path) -> None:
    found = said(config, "host", "check", "--all", MAINT_OUTPUT="nagios")
    assert found.code == 2 and "no output 'nagios'" in found.err, found.err


def test_a_variable_that_replaces_a_key_of_one_site_is_not_spread_over_all(config: Path) -> None:
    found = said(config, "backup", "list", "--all", MAINT_BACKUP_STORE="/elsewhere")
    assert found.code == 2 and "MAINT_BACKUP_STORE replaces a key of one site" in found.err


def test_events_of_each_site_are_lines_of_json_as_they_come(config: Path) -> None:
    words = ("host", "check", "--site", "one", "--site", "two", "--check", "os.swappiness")
    found = said(config, *words, "-o", "json", "--log-format", "json")
    lines = [json.loads(line) for line in found.err.splitlines()]
    assert {line["schema"] for line in lines} == {"maint/1"}
    per_site = {name: [line["message"] for line in lines if line.get("site") == name] for name in ("one", "two")}
    assert all(any("answered" in words for words in told) for told in per_site.values()), per_site
    assert [line["message"].partition(":")[0] for line in lines if "site" not in line][-1].startswith("[2/2]")
    assert [one["site"] for one in json.loads(found.out)["sites"]] == ["one", "two"]


def test_an_event_is_passed_on_while_its_site_still_works(tmp_path: Path) -> None:
    heard = list[tuple[str, Any]]()
    telling = "import json, sys, time; print(json.dumps({'event': 1}), file=sys.stderr, flush=True); time.sleep(60)"
    working = Processes(0.2, program=(sys.executable, "-c", telling), heard=lambda *it: heard.append(it))
    thread = threading.Thread(target=working.carry_out, args=(call("one", tmp_path),))
    thread.start()
    while not heard and thread.is_alive():
        time.sleep(0.01)
    assert heard == [("one", {"event": 1})] and thread.is_alive()
    working.forward(signal.SIGKILL)
    thread.join()


def test_sites_of_the_same_manager_go_one_after_another(config: Path) -> None:
    settings = load_settings(ConfigFlags(config=str(config)), {})
    sites = [settings.site(name) for name in settings.names]
    rows = by_manager(sites, [SiteCall(site.name, (), 1.0) for site in sites])
    assert [[one.site for one in row] for row in rows] == [["one", "two"], ["down"]]


def test_a_signal_to_the_parent_reaches_each_site_and_the_summary_is_shown(config: Path, tmp_path: Path) -> None:
    slow = tmp_path / "password"
    slow.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/begun\nexec sleep 60\n")
    slow.chmod(0o755)
    whole = json.loads(config.read_text())
    for site in whole["sites"].values():
        site["manager"]["password"] = f"command:{slow}"
    mine = tmp_path / "config.yaml"
    mine.write_text(json.dumps(whole))
    words = ["site", "status", "--site", "one", "--site", "two", "--allow-plain", "-o", "json", "--config", str(mine)]
    parent = subprocess.Popen(
        [sys.executable, "-m", "maint", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    while not (tmp_path / "begun").exists():
        time.sleep(0.02)
        assert parent.poll() is None
    parent.send_signal(signal.SIGTERM)
    out, _ = parent.communicate(timeout=60)
    assert parent.returncode == 143
    assert [one["exit"] for one in json.loads(out)["sites"]] == [143, 143]
    assert len((tmp_path / "begun").read_text().split()) == 1  # the second of one manager was not begun


def test_a_list_of_a_hundred_sites_reads_their_summaries_alone(tmp_path: Path) -> None:
    site = {"manager": {"host": "cm", "password": "prompt"}, "backup": {"store": "/nowhere", "identity": "env:X"}}
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({"state": str(tmp_path), "sites": {f"s{number:03}": site for number in range(100)}}))
    for number in range(99):
        seen = Summary(datetime(2026, 1, 2, tzinfo=UTC), 100, 98, 2, 10**9, datetime(2026, 1, 1, tzinfo=UTC), None)
        (tmp_path / f"s{number:03}").mkdir()
        keep_record(tmp_path / f"s{number:03}" / SUMMARY, seen)
    begun = time.process_time()
    found = maint("site", "list", "-o", "json", "--config", str(config))
    assert time.process_time() - begun < 1.5
    assert [one["summary"] and one["summary"]["restorable"] for one in found.json["sites"]] == [98] * 99 + [None]
    assert "98 of 100, 2 bad" in maint("site", "list", "--config", str(config)).out
