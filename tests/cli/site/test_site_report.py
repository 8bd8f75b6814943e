"""`maint site report`: the pages of real sites, written by the command and after each run."""

import json
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from maint.cli.site import page_facts
from maint.cli.site.page_facts import KEPT
from maint.config.yaml import load
from maint.deployment.compare import compare
from maint.deployment.normalize import normalize
from maint.deployment.secrets import Fingerprint
from maint.files import keep_record, kept_record
from maint.lab.running import Lab
from maint.model.snapshot import Judgement, Part, Purpose, Redaction, Snapshot
from maint.report.site_facts import PageFacts
from maint.snapshots.catalogue import Entry
from maint.snapshots.parts import DEPLOYMENT, REDACTED_COPY
from tests.steps.conftest import copy
from tests.steps.operator import SITE, Operator, maint


@pytest.fixture(scope="module")
def operator(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    folder = tmp_path_factory.mktemp("report")
    with Lab(copy(backed_up, folder / "lab")) as lab:
        operator = Operator(lab)
        path = Path(operator.config)
        whole: Any = load(path.read_text(), "config").data
        away = {
            "manager": {"host": "cm2", "password": "prompt"},
            "backup": {"store": str(folder / "blocked"), "identity": "env:X"},
        }
        whole["sites"]["away"] = away
        (folder / "blocked").write_text("in the way")
        whole["sites"][SITE]["backup"]["copies"] = [str(folder / "copy")]
        whole["report"] = {"folder": str(folder / "pages")}
        path.write_text(json.dumps(whole))
        yield operator


def test_each_run_writes_the_pages_and_the_command_those_of_all(operator: Operator, tmp_path: Path) -> None:
    pages = Path(operator.config).parent.parent / "pages"
    said = maint("backup", "drill", "--site", SITE, "--allow-plain", "--config", operator.config)
    assert said.code == 0, said.err
    assert sorted(path.name for path in pages.iterdir()) == ["index.html", f"{SITE}.html"]
    page = (pages / f"{SITE}.html").read_text()
    newest = next(path.name for path in sorted((operator.lab.folder / "backups" / SITE).glob("2*")))
    assert f"<span>{newest}</span>" in page and "Back in about" in page
    assert "lacks 1 snapshot" in page
    assert "away" in (pages / "index.html").read_text()
    said = maint(
        "site", "report", "--to", str(tmp_path / "out"), "--site", "away", "-o", "json", "--config", operator.config
    )
    assert said.code == 0, said.err
    assert {Path(one).name for one in said.json["pages"]} == {"index.html", "away.html", f"{SITE}.html"}
    away = (tmp_path / "out/away.html").read_text()
    assert "nothing is known of its backups" in away
    assert "No way back" not in away and "No restore has been rehearsed" not in away
    assert ">away<" in (tmp_path / "out/index.html").read_text()


def test_commands_to_copy_name_a_config_that_no_command_finds_by_itself(operator: Operator, tmp_path: Path) -> None:
    words, out = ("site", "report", "--to", str(tmp_path / "out"), "--all"), tmp_path / "out"
    elsewhere = Path(operator.config).parent.parent / "pages"
    shutil.rmtree(elsewhere, ignore_errors=True)
    assert maint(*words, "--config", operator.config, "-o", "json").json["sites"]
    assert not elsewhere.exists()
    told = {path: path.read_text() for path in out.glob("*.html")}
    assert {path.name for path in told} >= {"index.html", "away.html", f"{SITE}.html"}
    pages = "".join(re.sub(r"</?span>", "", text) for text in told.values())
    assert f"maint restore plan --config {operator.config} --site {SITE} --snapshot " in pages
    assert f"maint doctor --config {operator.config} --site away" in pages
    assert not re.search(r"<code>maint [a-z ]*--site", pages)
    (tmp_path / "home/.config").mkdir(parents=True)
    (tmp_path / "home/.config/maint").symlink_to(Path(operator.config).parent)
    before = {path: path.stat().st_mtime_ns for path in told}
    assert maint(*words, "-o", "json", HOME=str(tmp_path / "home")).json["sites"]
    assert "--config" not in "".join(path.read_text() for path in told)
    assert all(path.stat().st_mtime_ns != before[path] for path in told)


def test_changes_of_days_that_were_told_earlier_are_told_as_long_as_snapshots_go_back(operator: Operator) -> None:
    words = ("site", "report", "--site", SITE, "--config", operator.config)
    assert maint(*words).code == 0
    kept = operator.state / KEPT
    facts = kept_record(kept, PageFacts)
    assert facts is not None
    oldest = facts.shots[0].taken_at
    told = [(oldest - timedelta(days=1), 7), (oldest + timedelta(days=2), 8), (oldest + timedelta(days=3), 0)]
    keep_record(kept, msgspec.structs.replace(facts, changed=told))
    assert maint(*words).code == 0
    after = kept_record(kept, PageFacts)
    assert after is not None and [(at, n) for at, n in after.changed if at > oldest] == told[1:]


def test_of_several_sites_at_once_the_pages_are_written_once_when_all_have_ended(operator: Operator) -> None:
    pages = Path(operator.config).parent.parent / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    words = ("backup", "verify", "--level", "1", "--allow-plain", "--config", operator.config)
    assert maint(*words, "--site", SITE, MAINT_ONE_OF_MANY="1").code == 0
    assert not pages.exists()
    said = maint(*words, "--all", "-o", "json")
    assert {one["site"]: one["exit"] for one in said.json["sites"]}[SITE] == 0
    assert {"index.html", f"{SITE}.html"} <= {path.name for path in pages.iterdir()}
    written = (pages / "index.html").stat().st_mtime_ns
    maint("backup", "list", *words[4:], "--all")
    assert (pages / "index.html").stat().st_mtime_ns == written


def test_a_folder_is_asked_for_where_the_config_names_none(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text('sites: {one: {manager: {host: cm, password: "prompt"}}}\n')
    said = maint("site", "report", "--config", str(config))
    assert said.code == 2 and "--to FOLDER" in said.err


def test_a_folder_in_the_home_folder_is_found_there(operator: Operator, tmp_path: Path) -> None:
    said = operator("site", "report", "--to=~/pages", "--dry-run", HOME=str(tmp_path))
    assert (said.code, f"would write pages into {tmp_path}/pages") == (0, said.out.strip())


def test_pages_of_several_sites_that_cannot_be_written_are_a_failure(operator: Operator, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    said = maint("site", "report", "--all", "--to", str(tmp_path / "file/pages"), "--config", operator.config)
    assert (said.code, "are not written" in said.err) == (1, True), said.err


@pytest.mark.parametrize(
    ("purpose", "part", "restorable", "kind"),
    [
        (Purpose.BACKUP, DEPLOYMENT, True, "restorable"),
        (Purpose.BACKUP, DEPLOYMENT, False, "audit-only"),
        (Purpose.BACKUP, REDACTED_COPY, False, "other"),
        (Purpose.SAFETY, DEPLOYMENT, True, "other"),
    ],
)
def test_only_a_backup_of_the_deployment_is_meant_as_a_way_back(
    purpose: Purpose, part: str, restorable: bool, kind: str
) -> None:
    at = datetime(2026, 1, 15, 3, tzinfo=UTC)
    parts = (Part(part, 1, "0" * 64, 1, "0" * 64),)
    seen = Judgement(Redaction.NONE, flagged=True, hash_rule=True, counts={}, findings=())
    one = Snapshot(id="20260115T030000.000Z-aaaa", site=SITE, taken_at=at, purpose=purpose,
                   restorable=restorable, versions={}, parts=parts, judgement=seen)  # fmt: skip
    found = page_facts._shot(Entry(one.id, one, None, None), {}, at)
    assert (found.kind, found.meant) == (kind, kind != "other")


def test_half_a_surrogate_pair_in_what_changed_ends_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = [
        b'{"clusters" : [ {"name" : "a", "config" : {"items" : [ {"name" : "x\\ud800", "value" : "%b"} ]}} ]}' % value
        for value in (b"1\\udfff", b"2\\udfff")
    ]
    found = compare(*(normalize([one], Fingerprint(b"k")) for one in settings))
    monkeypatch.setattr(page_facts, "of_snapshot", lambda *_, **__: None)  # which would read these from a store
    monkeypatch.setattr(page_facts, "differences", lambda *_: found)
    at = datetime(2026, 1, 15, 3, tzinfo=UTC)
    part, seen = Part(REDACTED_COPY, 1, "0" * 64, 1, "0" * 64), Judgement(Redaction.NONE, True, True, {}, ())
    one = Snapshot(id="20260115T030000.000Z-aaaa", site=SITE, taken_at=at, purpose=Purpose.BACKUP,
                   restorable=True, versions={}, parts=(part,), judgement=seen)  # fmt: skip
    day: Any = page_facts._day(SimpleNamespace(state=tmp_path), one, one)  # type: ignore[arg-type]  # as much of a site
    assert page_facts._day(SimpleNamespace(state=tmp_path), one, one) == day  # type: ignore[arg-type]  # as it was kept
    (change,) = day.changes
    assert (change.property, change.before, change.after) == ("config/x\\ud800", "1\\udfff", "2\\udfff")
