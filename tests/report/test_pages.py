"""The catalogue pages: what they tell, from records alone; and in a real browser, for everybody."""

import re
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest

from maint.model.fleet import Contact, Finding, Severity, State
from maint.model.plan import Plan
from maint.report import checks, pages
from maint.report.pages import write_estate, write_site
from maint.report.recovery import moment, state_of, troubles
from maint.report.run import ReportedAction, ReportedAttempt, RunReport, bars, write
from maint.report.site_facts import (
    BY_NAME,
    NO_BACKUP,
    Change,
    Copy,
    Day,
    HostChecks,
    HostResult,
    PageFacts,
    ReportedDrill,
    ReportedRun,
    Shot,
    VerbEnd,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
SEEN = NOW - timedelta(minutes=5)
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]

# The words of plots that reach over the edge of their figure, or into their plot.
CUT = """[...document.querySelectorAll('.plot span')].filter(one => {
  const [word, figure, plot] = [one, one.closest('figure'), one.closest('.plot').querySelector('svg')].map(
    it => it.getBoundingClientRect());
  const beside = one.closest('.ends') ? word.top >= plot.bottom : word.right <= plot.left;
  return !beside || word.left < figure.left || word.right > figure.right || word.bottom > figure.bottom;
}).map(one => one.textContent)"""

# The rows amid a long table, each like another one that stays: what listens to all words takes a second for them.
LIKE_THE_REST = (
    "document.querySelectorAll('tbody').forEach(it => [...it.rows].slice(8, -4).forEach(row => row.remove()))"
)


def shot(age: timedelta, **more: Any) -> Shot:
    at = NOW - age
    facts = {"kind": "restorable", "size": 5_000_000, "good": True, "verified": "verified, level 3", **more}
    return Shot(f"{at:%Y%m%dT%H%M%S}.000000Z-{'a' * 8}", at, **facts)


def well(name: str = "well", **more: Any) -> PageFacts:
    shots = [shot(number * DAY + timedelta(hours=3)) for number in range(9, -1, -1)]
    drills = [ReportedDrill(NOW - 4 * DAY, shots[4].id, True, 42.0, "read back as sent")]
    facts = PageFacts(name, "cm.example.internal", SEEN, {"region": "eu"}, shots=shots, drills=drills)
    return msgspec.structs.replace(facts, **more)


def ill(name: str = "ill") -> PageFacts:
    shots = [
        *(shot(number * DAY, goes=NOW + DAY if number == 40 else None) for number in range(40, 3, -1)),
        shot(2 * DAY, kind="damaged", good=False, note="its verification failed"),
        shot(DAY, kind="audit-only", good=False, note="audit-only", held="held by ops: <b>before</b> the upgrade"),
        shot(DAY / 2, kind="restorable", good=False),
        shot(DAY / 3, kind="other", good=False, meant=False),
        shot(DAY / 4, kind="damaged", good=False, meant=False),
    ]
    changes = [
        Change("base", "hdfs", "hdfs-DATANODE-BASE", "dfs_data_dir", "/data/1," * 40, "/data/2"),
        Change("base", "hdfs", "", "a_secret", None, "fp:0123456789abcdef"),
        Change("", "", "", "smtp", "old", None),
    ]
    checks = [f"os.check{number}" for number in range(11)]
    hosts = ["worker-14.dc1.example.internal", "ecs-2"]
    results = [HostResult(check, "fail" if n % 2 else "warn", hosts, "60", "sysctl vm.swappiness=1")
               for n, check in enumerate(checks)]  # fmt: skip
    return well(
        name,
        store="s3://backups/maint",
        shots=shots,
        drills=[
            ReportedDrill(NOW - 50 * DAY, shots[0].id, True, 61.0, "read back"),
            ReportedDrill(NOW - DAY, "x", False, None, "no"),
        ],
        stored=132_000_000,
        keep="7 daily; at least 3 good ones",
        copies=[Copy("sftp://backup/srv", 30, 8, NOW - 9 * DAY, bytes=98_000_000),
                Copy("s3://b/p", problem="cannot be reached")],
        runs=[ReportedRun("20260228T100000-r", "restore-deployment", "interrupted", NOW - DAY, "operator@ops-2", True)],
        days=[Day(shots[0].id, shots[1].id, NOW - DAY, changes), Day("a", "b", NOW, problem="no redacted copy")],
        windows=["since 10:00, by run 7"],
        checks=HostChecks(NOW, [*results, HostResult("os.fine", "pass", ["worker-14.dc1.example.internal"], "", "")],
                          {"worker-14.dc1.example.internal": "", "ecs-2": "", "ecs-3": "timed out"}),
    )  # fmt: skip


def of_run(**more: Any) -> RunReport:
    at = [f"2026-01-02T10:00:{second:02}+00:00" for second in (0, 10, 20, 40)]
    lines = [
        ReportedAction("Open the window", "cm", "CHANGE", "done", "opened", at=at[1], began=at[0]),
        ReportedAction(
            "Take the snapshot",
            f"store {'/srv/backups' * 3}",
            "CHANGE",
            "failed",
            f"no <room> for {'1' * 40}",
            at=at[3],
            began=at[2],
        ),
        ReportedAction("Copy it", "copy", "CHANGE", "not begun", ""),
    ]
    attempts = [
        ReportedAttempt(at[0], "ops@box", "", "killed", heard=at[1]),
        ReportedAttempt(at[2], "eva@other", at[3], "failed", "0.3.1"),
    ]
    plan = Plan("export", "prod", {}, ())
    whole = RunReport("r1", plan, at[0], at[3], "failed", "no room", lines, ["resume it"], {}, attempts=attempts)
    return msgspec.structs.replace(whole, **more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of three sites, one of them without plots."""
    folder = tmp_path_factory.mktemp("pages")
    for site in (well(), ill()):
        write_site(folder, site, pages.plots(site) if pages.available() else {}, NOW)
    broken = PageFacts("broken", "cm3", NOW, problem="cannot list in /b")
    write_site(folder, broken, {}, NOW)
    write_estate(folder, [*((one.name, one) for one in (well(), ill(), broken)), ("new", None)], NOW)
    write(of_run(), folder)["md"].unlink()
    states = zip(State, ["wn01.dc1.example.internal", "wn02.dc1.example.internal"] * 3, strict=False)
    findings = [
        Finding("os.check", Severity.FAIL, state, "60" * 40, "1", "contract", "sysctl 1", host)
        for state, host in states
    ]
    contacts = [Contact("wn01.dc1.example.internal", True), Contact("wn02.dc1.example.internal", False, "timed out")]
    (folder / "hosts.html").write_text(checks.html(findings, contacts, {"site": "ill", "taken_at": "now"}))
    (folder / "hosts.html").chmod(0o640)
    return folder


def test_what_is_wrong_comes_first_each_with_a_command() -> None:
    assert troubles(well(), NOW) == []
    found = troubles(ill(), NOW)
    assert state_of(found) == "fail" and [one.state for one in found] == sorted(one.state for one in found)
    told = "\n".join(f"{one.words}: {one.command}" for one in found)
    for words in (
        "redaction window is open", "maint playbook resume 20260228T100000-r --site ill",
        "the last verified backup is 4d old",
        "lacks 8 snapshots", "the last drill failed", "the last good drill is 50d ago", "1 host did not answer",
        "5 checks of hosts failed", "cannot be believed: its verification failed",
    ):  # fmt: skip
        assert words in told


def test_no_command_is_told_that_must_fail_before_what_mends_its_cause() -> None:
    ended = [VerbEnd("backup create", 4, NOW - timedelta(hours=7, seconds=8), "cm:7183: connection refused")]
    (found,) = troubles(well(ended=ended), NOW)
    assert found.words == "the last backup create, 7h ago, ended with 4 (not reached): cm:7183: connection refused"
    assert found.command == "maint doctor --site well"
    nothing = troubles(well(shots=[shot(DAY, kind="audit-only", good=False)], drills=[]), NOW)
    assert [one.command for one in nothing] == ["maint backup create --open-window --site well"]
    (unverified,) = troubles(well(shots=[held := shot(DAY, good=False)]), NOW)
    assert unverified.command == f"maint backup verify {held.id} --site well"
    half, behind = VerbEnd("backup create", 7, NOW - DAY, "redacted"), Copy("/copy", 0, 1)
    audit = troubles(well(shots=newest(kind="audit-only", good=False), ended=[half], copies=[behind]), NOW)
    assert {one.command for one in audit} == {"maint backup create --open-window --site well"}
    late = troubles(well(shots=[shot(9 * DAY)], ended=[half], copies=[behind]), NOW)
    assert {one.command for one in late} == {"maint backup create --site well"}
    run = ReportedRun("7-r", "export", "interrupted", NOW - DAY, "root@ops", True)
    close, resume = troubles(well(runs=[run], windows=["since 10:00, by run 7-r"]), NOW)
    assert "--close-window" in close.command and "sees passwords" in close.words
    assert resume.words.endswith("is interrupted; close its window first")


def test_a_run_that_failed_is_told_with_its_reason_and_nothing_to_verify_with_what_takes_a_backup() -> None:
    run = ReportedRun("7-r", "export", "failed", NOW - DAY, "root@ops", True)
    ended = [
        VerbEnd("backup create", 4, NOW - DAY, "cm: lets in none of the configured accounts", "7-r"),
        VerbEnd("backup verify", 5, NOW, "there is no snapshot of new yet"),
    ]
    found = troubles(PageFacts("new", "cm", SEEN, read=SEEN, runs=[run], ended=ended), NOW)
    assert found[0].words == "run 7-r (export) has failed: cm: lets in none of the configured accounts"
    assert {one.command for one in found[1:]} == {"maint backup create --open-window --site new"}


def test_of_a_damaged_journal_no_command_is_told_that_takes_it_up(tmp_path: Path) -> None:
    run = ReportedRun("7-r", "restore-deployment", "damaged", NOW - DAY, "root@ops", True)
    (found,) = troubles(well(runs=[run]), NOW)
    assert (
        found.command == "maint playbook dismiss 7-r --reason WORDS --site well" and "look at the server" in found.words
    )
    page = write_site(tmp_path, well(runs=[run]), {}, NOW)
    assert "A restore is unfinished: its journal is damaged" in first_words(page)
    index = write_estate(tmp_path, [("well", well(runs=[run]))], NOW).read_text()
    assert "playbook resume" not in page.read_text() + index and "Resume first" not in index
    (lost,) = troubles(well(lost=["/state/runs/8-r.jsonl"]), NOW)
    assert lost.state == "fail" and "/state/runs/8-r.jsonl is damaged" in lost.words


def test_checks_that_could_not_tell_are_not_well() -> None:
    results = [
        HostResult("os.clock", "error", ["w-1", "w-2"], "no answer", ""),
        HostResult("os.fine", "pass", [], "", ""),
    ]
    (found,) = troubles(well(checks=HostChecks(NOW, results, {"w-1": "timed out", "w-2": ""})), NOW)[1:]
    assert (found.state, found.words) == ("warn", "1 check of hosts could not tell")
    silent = HostChecks(NOW, results[:1], {"w-1": "timed out", "w-2": "timed out"})
    assert [one.words for one in troubles(well(checks=silent), NOW)] == ["2 hosts did not answer"]


@pytest.mark.parametrize(("age", "state"), [(timedelta(hours=26), "pass"), (timedelta(hours=26, seconds=1), "fail")])
def test_a_backup_is_held_against_its_limit(age: timedelta, state: str) -> None:
    assert state_of(troubles(well(shots=[shot(age)]), NOW)) == state


@pytest.mark.parametrize("hours", [2.9, 30.5, 4 * 24 + 1, 6 * 24 + 23])
def test_a_time_ahead_is_told_in_the_words_of_one_as_long_ago(hours: float) -> None:
    away = timedelta(hours=hours)
    assert moment(NOW + away, NOW).words == f"in {moment(NOW - away, NOW).words.removesuffix(' ago')}"


def test_a_page_says_where_the_snapshot_of_the_last_good_drill_has_gone_since(tmp_path: Path) -> None:
    words = "of snapshot gone, which the store does not hold: read back"
    drills = [ReportedDrill(NOW - 4 * DAY, "gone", True, 42.0, "read back")]
    assert words in write_site(tmp_path, well(drills=drills), {}, NOW).read_text().replace("\xa0", " ")
    for more in (
        {},
        {"drills": drills, "first": "/a", "store": "/b", "problem": "away"},
        {"drills": drills, "shots": []},
    ):
        assert "does not hold" not in write_site(tmp_path, well(**more), {}, NOW).read_text()


def test_a_page_names_the_way_back_and_what_stands_against_it(folder: Path) -> None:
    page = (folder / "ill.html").read_text().replace("\xa0", " ").replace("<wbr>", "")
    assert "in s3://backups/<wbr>maint, verified" in (folder / "ill.html").read_text()
    typed = page.replace("<span>", "").replace("</span>", "")
    assert f"maint restore plan --site ill --snapshot {ill().newest.id}" in typed  # type: ignore[union-attr]
    assert page.count("too old") == 2 and "Limit: a drill every 35d." in page
    assert "Limit: a verified backup every 1d 2h" in page
    assert "5.0 MB; verified, level 3<" in page
    assert f"of an earlier snapshot <code>{ill().shots[0].id}</code>; real" in page
    assert "too old" not in (folder / "well.html").read_text()
    assert page.index('class="answer"') < page.index('id="todo"') < page.index('id="back"') < page.index('id="shots"')
    assert "&lt;b&gt;before&lt;/b&gt;" in page and "<b>before" not in page
    assert '<time datetime="2026-02-26T12:00:00+00:00">3d ago</time>' not in page or "2026-02-26 12:00 UTC" in page
    assert "42 in all, 132.0 MB; the oldest" in page and "What stays: 7 daily; at least 3 good ones." in page
    checked = re.sub("<[^>]*>", "", page[page.index("<p>Checked ") :].partition("</p>")[0])
    assert checked.replace("&nbsp;", " ").endswith(": ✗ 5 fail, ! 6 warn, ✓ 1 pass")
    assert "98.0 MB in 30<" in page and "was due <time" in page
    assert "next due: <time" in (folder / "well.html").read_text()
    assert "Newer, not yet verified: 1." in typed
    resumed = "maint playbook resume 20260228T100000-r --site ill"
    told = ["A restore is unfinished:", resumed, "As of 2026-03-01 12:00 UTC", "<h2", "is open: since 10:00, by run 7"]
    assert [typed.index(one) for one in told] == sorted(typed.index(one) for one in told)
    assert typed.count(f"<code>{resumed}<") == 2
    assert typed.count("<pre><code>maint host check --site ill</code>") == 1  # for two things that are wrong
    assert "in s3://backups/maint, verified." in page  # whoever has lost a machine must know where to look
    estate = (folder / "index.html").read_text().replace("\xa0", " ").replace("<span>", "").replace("</span>", "")
    assert estate.index(">broken<") < estate.index(">ill<") < estate.index(">well<")
    short = "✗ broken ✗ Not known no store was ever read ✗ ill ✗ Resume"
    assert short in first_words(folder / "index.html")
    assert estate.index("The redaction window is open") < estate.index("What to do next")
    assert all(one in estate for one in (ill().newest.id, "<b>1m 1s</b>", well().newest.id, "in about 42s"))  # type: ignore[union-attr]
    assert "maint site report --to FOLDER --site new" in estate
    assert "not all can be seen: cannot list in /b; nothing is known of its backups" in estate


def first_words(page: Path) -> str:
    """Return what is read in ten seconds, at 250 words a minute: the first forty from the heading on."""
    text = page.read_text().replace("<wbr>", "")
    read = unescape(re.sub(r"<[^>]*>", " ", text[text.index("<h1") :])).split()
    words = [number for number, word in enumerate(read) if re.search(r"\w", word)]
    return re.sub(r" (?=[,.:;)])", "", " ".join(read[: words[40]]))


def newest(**more: Any) -> list[Shot]:
    return [*well().shots[:-2], shot(DAY + timedelta(hours=1)), shot(timedelta(hours=3), **more)]


BACK = ["ack in about 42s", "to the state of 3h ago", f"from snapshot {newest()[-1].id}"]
MEASURED = (
    "Measured in a good drill 4d ago 2026-02-25 12:00 UTC of an earlier snapshot"
    f" {well().shots[4].id}; real hosts' time"
)
BAD = ReportedDrill(NOW - DAY, "x", False, None, "what came back differs in 3 places")
UNKNOWN = {"shots": [], "drills": [], "problem": "cannot list in /b: permission denied for uid 1000"}
SAFETY = shot(DAY, kind="other", good=False, meant=False, note=BY_NAME)
HELD = [shot(DAY, kind="damaged", good=False)]
FIRST: dict[str, tuple[dict[str, Any], list[str]]] = {
    "well": ({}, [*BACK, "verified", MEASURED]),
    "a failed backup": ({"ended": [VerbEnd("backup create", 4, NOW - DAY, "cm:7183: connection refused")]}, BACK),
    "a late backup": ({"shots": [shot(9 * DAY)]}, [BACK[0], "9d ago", "too old", shot(9 * DAY).id]),
    "an unfinished restore": (
        {"runs": ill().runs},
        [
            "A restore is unfinished: resume it first; begun 1d ago. maint playbook resume 20260228T100000-r",
            "For another restore after it: back in about 42s",
            *BACK,
        ],
    ),
    "an open window": ({"windows": ill().windows}, ["✓ Back in about 42s", *BACK]),
    "a stale drill": (
        {"drills": [ReportedDrill(NOW - 50 * DAY, "x", True, 61.0, "")]},
        ["! Back in about 1m 1s", *BACK[1:], "good drill 50d ago 2026-01-10 12:00 UTC, ! too old"],
    ),
    "a failed drill": (
        {"drills": [*well().drills, BAD]},
        ["Not proven: the last drill failed 1d ago. Back in", *BACK, "Measured in a good drill 4d ago"],
    ),
    "failed drills alone": ({"drills": [BAD]}, ["Not proven: the last drill failed", "Time not known", *BACK[1:]]),
    "a drill of this snapshot, too long ago to tell its time": (
        {"drills": [ReportedDrill(NOW - 50 * DAY, newest()[-1].id, True, None, "")]},
        ["! Time not known", *BACK[1:], "Last good drill 50d ago", "! too old, of this snapshot", "~Measured"],
    ),
    "a drill from the future": (
        {"drills": [ReportedDrill(NOW + DAY, "x", True, 1.0, "")]},
        ["Not certain: a backup or drill is dated in the future", "Time not known, to the state", "~drill in"],
    ),
    "a backup from the future": (
        {"shots": [*newest(), shot(-365 * DAY)]},
        ["Not certain: a backup or drill is dated in the future", *BACK],
    ),
    "no drill": ({"drills": []}, ["Not proven: no drill is known", "Time not known", *BACK[1:]]),
    "a damaged newest snapshot": (
        {"shots": newest(kind="damaged", good=False)},
        [BACK[0], "1d 1h ago", newest()[-2].id],
    ),
    "a newest snapshot for audits": (
        {"shots": newest(kind="audit-only", good=False)},
        [BACK[0], newest()[-2].id],
    ),
    "a newest snapshot that is not verified": (
        {"shots": newest(good=False)},
        [BACK[0], newest()[-2].id],
    ),
    "a copy that holds a newer one": (
        {"copies": [Copy("/copy", 5, 0, NOW - DAY / 12)]},
        BACK,
    ),
    "no sound one here, and a copy": (
        {"shots": HELD, "copies": [Copy("/copy", 5)]},
        ["Not certain: 1 snapshot, none restorable: 1 damaged; look into /copy", "~No way back"],
    ),
    "no sound one anywhere": (
        {"shots": HELD, "copies": [Copy("/copy", 5, barren=True)]},
        ["No way back: 1 snapshot, none restorable: 1 damaged", "~look into"],
    ),
    "a first store that is empty, and a copy that is away": (
        {"shots": [], "drills": [], "store": "/b", "problem": "s3://c: timed out", "read": SEEN},
        ["Not certain: there is no snapshot in /b, and not all could be read", "~No way back"],
    ),
    "a clock that went back": (
        {"problem": "s3://b: timed out", "store": "s3://b", "read": NOW + timedelta(hours=2)},
        ["Not now: no store could be read; last read in 2h. Once one answers: back in", *BACK],
    ),
    "no backup in the config": ({"shots": [], "problem": NO_BACKUP}, ["No way back: no backup is configured"]),
    "no backup in the config any more": (
        {"problem": NO_BACKUP, "read": NOW - DAY, "store": "/b"},
        ["Not now: no backup is configured. Once that is mended: back in", *BACK, "~Not all"],
    ),
    "a safety copy alone": (
        {"shots": [SAFETY]},
        ["Not certain: no backup, but a safety copy", "to the state of 1d ago", SAFETY.id, "~No way back"],
    ),
    "virtual clusters alone": (
        {"shots": [msgspec.structs.replace(SAFETY, note="virtual clusters alone")]},
        ["No way back: 1 snapshot, none restorable: 1 virtual clusters alone", "~Back in"],
    ),
    "stores that do not answer": (
        {"problem": "s3://b: timed out", "store": "s3://b", "read": NOW - timedelta(hours=26)},
        ["Not now: no store could be read; last read 1d 2h ago. Once one answers: back in", *BACK],
    ),
    "a first store that does not answer": (
        {"problem": "s3://b: timed out", "store": "/copy", "read": SEEN},
        ["✓ Back in about 42s", *BACK, "in /copy, verified"],
    ),
    "stores that never answered": (UNKNOWN, ["Not known: no store was ever read"]),
    "a config that is no use": ({"unusable": "`store` is missing", "read": SEEN}, ["Not now: its", *BACK]),
    "no snapshot": ({"shots": [], "drills": []}, ["No way back: there is no snapshot", "~Back in", "~Time"]),
    "nothing restorable": (
        {"shots": [shot(DAY, kind="damaged", good=False), shot(DAY / 2, kind="audit-only", good=False)]},
        ["No way back: 2 snapshots, none restorable: 1 audit-only, 1 damaged"],
    ),
    "nothing verified": (
        {"shots": [shot(timedelta(hours=3), good=False)]},
        ["Not verified: no backup is, yet", *BACK, "not verified"],
    ),
    "all at once": (
        {name: getattr(ill(), name) for name in ("shots", "drills", "store", "runs", "windows", "copies")},
        ["A restore is unfinished: resume it first", "Not proven: the last drill failed 1d ago", "back in about 1m 1s"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("trouble", FIRST)
def test_the_first_forty_words_of_a_page_say_when_one_can_be_back_and_from_what(tmp_path: Path, trouble: str) -> None:
    facts, told = FIRST[trouble]
    page = write_site(tmp_path, well(**facts), {}, NOW)
    first = first_words(page)
    assert [one for one in told if (one.lstrip("~") in first) == one.startswith("~")] == [], first


def test_the_estate_puts_the_worst_first_and_says_of_no_site_less_than_its_sentence(tmp_path: Path) -> None:
    silent = HostChecks(NOW, [], {"worker-1": "timed out"})
    sites = {
        "never-drilled": {"drills": [], "checks": silent},
        "late": {"shots": [shot(30 * DAY)]},
        "window": {"runs": ill().runs, "windows": ill().windows},
        "unverified": {"shots": [shot(DAY / 8, good=False)]},
        "audit": {"shots": newest(kind="audit-only", good=False)},
        "ahead": {"shots": [*newest(), shot(-365 * DAY)]},
        "away": {"problem": "s3://b: timed out", "store": "s3://b", "read": NOW - DAY},
        "well": {},
    }
    facts = [(name, well(name, **more)) for name, more in sites.items()]
    page = write_estate(tmp_path, facts, NOW).read_text()
    order = ["away", "unverified", "window", "late", "never-drilled", "ahead", "audit", "well"]
    assert re.findall(r"<h3>([a-z-]+) <", page) == order
    assert "<span>once one answers: in about 42s</span>" in page
    assert page.index('id="well"') > page.index("<h3>audit")
    assert [state_of(troubles(dict(facts)[one], NOW)) for one in order] == ["fail"] * 5 + ["warn"] * 2 + ["pass"]


def test_no_command_is_told_that_a_config_which_cannot_be_used_would_refuse(tmp_path: Path) -> None:
    away = write_site(tmp_path, well(problem="s3://b: timed out", read=NOW - DAY, store="s3://b"), {}, NOW).read_text()
    assert away.index(">doctor<") < away.index("Once one answers, what to read first:") < away.index(">plan<")
    never = write_site(tmp_path, well(**UNKNOWN), {}, NOW).read_text()
    bare = write_site(tmp_path, well(shots=[], drills=[]), {}, NOW).read_text()
    assert "There is none yet." in bare and "There is none yet." not in never
    assert "Over time" not in never and "All 0" not in never and "When retention" not in never
    page = write_site(tmp_path, well(unusable="`store` is missing", read=NOW), {}, NOW).read_text()
    assert "restore</span> <span>plan" not in page and "config</span> <span>validate" in page


def test_a_day_shows_old_and_new_side_by_side(folder: Path) -> None:
    page = (folder / f"ill-{ill().days[0].page}").read_text()
    assert re.findall(r"<h2 id=.*?>(.*?)</h2>", page) == [
        "the manager itself",
        "base → hdfs",
        "base → hdfs → hdfs-DATANODE-BASE",
    ]
    assert '<pre>old</pre></td><td class="now"><small>nothing</small>' in page
    assert "no redacted copy" in (folder / f"ill-{ill().days[1].page}").read_text()


def test_the_page_of_a_day_is_written_again_only_where_it_would_say_something_else(tmp_path: Path) -> None:
    path = tmp_path / f"ill-{ill().days[0].page}"
    written = []
    for later in (timedelta(0), timedelta(hours=3), 3 * DAY):
        write_site(tmp_path, ill(), {}, NOW + later)
        written.append((path.stat().st_ino, re.findall(r"Taken .*?>(\w+ ago)<", path.read_text())))
    assert written[0] == written[1] and written[0][1] == ["1d ago"]
    assert written[2][0] != written[0][0] and written[2][1] == ["4d ago"]
    fewer = msgspec.structs.replace(ill(), days=[msgspec.structs.replace(ill().days[0], changes=())])
    write_site(tmp_path, fewer, {}, NOW + 3 * DAY)
    assert path.stat().st_ino != written[2][0]


def test_pages_of_days_and_sites_that_are_gone_are_removed_and_nothing_else(tmp_path: Path) -> None:
    folder, other = tmp_path / "www", msgspec.structs.replace(ill(), name="ill-too")
    for site in (ill(), other, well()):
        write_site(folder, site, {}, NOW)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750
    (folder / "ill-20200101-changes.html").write_text("somebody's own")
    days = [f"{name}-{day.page}" for name in ("ill", "ill-too") for day in ill().days]
    write_site(folder, msgspec.structs.replace(ill(), days=ill().days[1:]), {}, NOW)
    left = {path.name for path in folder.iterdir()}
    assert left == {"ill.html", "ill-too.html", "well.html", "ill-20200101-changes.html", *days} - {days[0]}
    write_estate(folder, [("ill", ill()), ("new", None)], NOW)
    left = {path.name for path in folder.iterdir()}
    assert left == {"index.html", "ill.html", "ill-20200101-changes.html", days[1]}


@pytest.mark.parametrize("name", ["index.html", "well.html"])
def test_a_page_of_somebody_else_is_not_written_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("<h1>our wiki</h1>")
    with pytest.raises(FileExistsError, match=name):
        write_site(tmp_path, well(), {}, NOW)
        write_estate(tmp_path, [("well", well())], NOW)
    assert (tmp_path / name).read_text() == "<h1>our wiki</h1>"
    (tmp_path / name).write_text("")  # as a power cut leaves one of ours
    write_site(tmp_path, well(), {}, NOW)
    write_estate(tmp_path, [("well", well())], NOW)
    assert "by maint" in (tmp_path / name).read_text()


def test_pages_are_small_private_and_reach_for_nothing(folder: Path) -> None:
    for path in folder.iterdir():
        text = path.read_text()
        assert stat.S_IMODE(path.stat().st_mode) == (0o600 if path.name == "r1.html" else 0o640)
        assert len(text) < 1_000_000
        assert not re.search(r"<script|<link|@import|url\(|src=", text)
        assert set(re.findall(r'https?://[^"\s<]*', text)) <= {
            "http://www.w3.org/2000/svg",
            "http://www.w3.org/1999/xlink",
        }


def test_a_page_without_what_draws_says_what_it_lacks(tmp_path: Path) -> None:
    page = write_site(tmp_path, well(), {}, NOW).read_text()
    assert pages.LACKING.replace("'", "&#39;") in page and "<svg" not in page


def test_plots_have_few_marks_the_colours_of_the_page_and_their_words_beside_them() -> None:
    pytest.importorskip("vl_convert")
    times = [number * timedelta(hours=1) for number in range(2000, 0, -1)]
    many = well(shots=[shot(age, kind="damaged" if age < DAY else "restorable", held="ops") for age in times])
    drawn = pages.plots(many)
    assert set(drawn) == {"timeline", "rto", "rpo", "size"}
    assert all(0 < one.svg.count("<path") <= pages.MARKS and len(one.svg) < 200_000 for one in drawn.values())
    # The library measures each word, which took most of the time.
    assert not any("<text" in one.svg for one in drawn.values())
    assert {name: one.rows for name, one in drawn.items()} == {
        "timeline": ["restorable", "damaged"], "rto": ["42s", "0"], "rpo": ["1h", "0"], "size": ["5.0 MB", "0"],
    }  # fmt: skip
    assert drawn["timeline"].ends == ["2026-02-12 20:00", "2026-03-01 11:00"]
    assert drawn["timeline"].svg.count("var(--fail)") == 23 and 'stroke="currentColor"' in drawn["timeline"].svg
    assert "var(--mark)" in drawn["size"].svg


def test_a_plot_of_one_day_without_changes_is_a_plot() -> None:
    pytest.importorskip("vl_convert")
    drawn = pages.plots(well(shots=[shot(DAY)], days=[Day("a", "b", NOW)]))
    assert drawn["changes"].rows == ["1", "0"] and "NaN" not in "".join(one.svg for one in drawn.values())
    assert "translate(165,0)" in drawn["size"].svg
    failed = pages.plots(well(drills=[*well().drills, BAD]))["rto"]
    assert failed.svg.count("var(--fail)") == 1 and "var(--fail)" not in pages.plots(well())["rto"].svg
    late = pages.plots(well(shots=[shot(9 * DAY), shot(8 * DAY)]))  # what goes on until now is the worst of it
    assert late["rpo"].rows[0] == "7d 23h" and late["timeline"].ends[1] == "2026-03-01 11:55"


def test_the_plot_of_changes_goes_back_beyond_the_days_that_have_a_page(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    changes = [Change("base", "hdfs", "g", f"p{n}", "1", "2") for n in range(3)]
    day = Day("a", "b", NOW, changes, more=40)
    changed = [(NOW - number * DAY, number) for number in range(99, 0, -1)]
    facts = well(days=[day], changed=[*changed, (NOW, day.count)], config="--config /srv/c.yaml")
    drawn = pages.plots(facts)["changes"]
    assert drawn.svg.count("L") >= 99 and drawn.rows == ["99", "0"]
    assert drawn.ends[0] == f"{NOW - 99 * DAY:%Y-%m-%d %H:%M}"
    write_site(tmp_path, facts, {}, NOW)
    page = (tmp_path / f"{facts.name}-{day.page}").read_text()
    assert "43 changes" in page
    assert f"And 40 more: <code>maint backup diff --config /srv/c.yaml --site {facts.name} a b</code>" in page


@pytest.fixture(scope="module")
def shown() -> Iterator[Any]:
    """What a real Chromium shows."""
    if not CHROMIUM.exists():
        pytest.skip("Chromium is not installed")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser.new_page()
        browser.close()


def test_on_paper_no_heading_stands_over_what_is_folded_away(shown: Any, folder: Path) -> None:
    shown.set_viewport_size({"width": 703, "height": 900})
    shown.goto((folder / "index.html").as_uri())
    seen = "document.querySelector('#well').offsetParent !== null"
    assert shown.evaluate(seen)
    shown.emulate_media(media="print")
    assert not shown.evaluate(seen)
    shown.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert shown.evaluate(seen)
    shown.emulate_media(media="screen")


@pytest.mark.parametrize("page", ["index", "ill", "well", "broken", "day", "r1", "hosts"])
def test_everybody_can_read_it(shown: Any, folder: Path, page: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    name = f"ill-{ill().days[0].page}" if page == "day" else f"{page}.html"
    asked: list[str] = []
    shown.on("request", lambda request: asked.append(request.url))
    shown.emulate_media(media="screen", color_scheme="light")
    shown.goto((folder / name).as_uri())
    shown.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    for width in (768, 1280, 1920, 420):
        shown.set_viewport_size({"width": width, "height": 900})
        assert shown.evaluate("document.documentElement.scrollWidth") <= width, f"sideways at {width}"
        assert shown.evaluate(CUT) == [], f"cut at {width}"
        if page in ("ill", "well", "broken"):
            assert shown.evaluate("document.querySelector('main section').getBoundingClientRect().bottom") < 900
    shown.evaluate(LIKE_THE_REST)
    for scheme, width in (("light", 420), ("dark", 1920)):
        shown.emulate_media(color_scheme=scheme)
        shown.set_viewport_size({"width": width, "height": 900})
        found = axe.run(shown).response["violations"]
        assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == [], scheme
        shown.emulate_media(media="print")
        assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)", scheme
        shown.emulate_media(media="screen")
    shown.keyboard.press("Tab")
    assert shown.evaluate("document.activeElement.textContent") == "To the content"
    assert asked == [(folder / name).as_uri()]


def test_the_report_of_a_run_shows_where_the_time_went_and_who_was_at_work(tmp_path: Path) -> None:
    report = of_run()
    found = [(one.name, one.seconds, one.start, one.length) for one in bars(report)]
    assert found == [
        ("Open the window", 10.0, 0.0, 33.33),
        ("Nobody was at work", 10.0, 33.33, 0.5),
        ("Take the snapshot", 20.0, 33.33, 66.67),
    ]
    actions: Any = report.to_json()["actions"]
    assert [one["seconds"] for one in actions] == [10.0, 20.0, None]
    page = write(report, tmp_path)["html"].read_text()
    assert "left: min(33.33%, 100% - 2px); width: 66.67%" in page and "no &lt;room&gt;" in page
    assert '<time datetime="2026-01-02T10:00:40+00:00">40s after it began</time> <small><span>2026-01-02</span>' in page
    assert "maint 0.3.1" in page and "at its beginning</time> <small><span>2026-01-02</span> 10:00:00 UTC" in page
    left = msgspec.structs.replace(report, left=["`maint playbook resume r1 --site prod` goes on <where> it stopped"])
    told = "<li><code>maint playbook resume r1 --site prod</code> goes on &lt;where&gt; it stopped</li>"
    assert told in write(left, tmp_path)["html"].read_text()
    assert page.index("Taken up") > page.index("Begun") and "eva@other" in page
    assert re.search("killed</span> last heard of <time[^>]*>10s after it began", page)


def test_a_snapshot_that_failed_its_drill_is_drilled_again_and_one_that_only_a_copy_shows_is_looked_at_there() -> None:
    failed, unverified = shot(DAY, kind="damaged", good=False, proof="drill"), shot(2 * DAY, good=False)
    facts = {"shots": [unverified, failed], "drills": []}
    here = {one.command for one in troubles(well(**facts), NOW)}
    assert {f"maint backup drill {failed.id} --site well", f"maint backup verify {unverified.id} --site well"} <= here
    away = well(problem="/first: away", store="/copy", first="/first", read=NOW, **facts)
    there = " --site well --store /copy"
    named = {one.command for one in troubles(away, NOW)}
    assert {f"maint backup show {failed.id}{there}", f"maint backup verify {unverified.id}{there}"} <= named
