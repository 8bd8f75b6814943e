"""The pages of a site whose stores are away, whose runs ended badly, and of which nothing is kept yet."""

import re
import sys
import time
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import msgspec
import pytest

from maint.adapters.clock import SystemClock
from maint.engine.lock import site_lock, works_on
from maint.files import keep_record, locked
from maint.report.site_facts import HostChecks, HostResult
from maint.snapshots.open_windows import Window
from tests.steps.operator import SITE, Operator, maint


@pytest.fixture
def paged(loaded: Operator) -> Operator:
    """An operator whose site has a copy, and pages."""
    path = Path(loaded.config)
    copies = f"    backup:\n      copies: [{loaded.lab.folder / 'copy'}]\n"
    path.write_text(path.read_text().replace("    backup:\n", copies, 1) + f"report: {{folder: {_pages(loaded)}}}\n")
    return loaded


def _pages(operator: Operator) -> Path:
    return operator.lab.folder / "pages"


def _page(operator: Operator, to: str = "") -> str:
    """Look at the site, and return its page as it is read."""
    said = operator("site", "report", "--to", to or str(_pages(operator)), "--site", SITE)
    assert said.code == 0, said.err
    return (
        unescape((Path(to or _pages(operator)) / f"{SITE}.html").read_text())
        .replace("<span>", "")
        .replace("<wbr>", "")
        .replace("</span>", "")
    )


def _take_away(folder: Path) -> None:
    folder.rename(folder.with_name(f"{folder.name}.gone"))
    folder.write_text("in the way")


def test_with_its_first_store_away_a_page_tells_what_a_copy_holds_and_all_that_this_machine_knows(
    paged: Operator,
) -> None:
    assert paged("backup", "create", "--open-window", "--yes").code == 0
    assert paged("backup", "drill").code == 0
    (newest,) = [one["id"] for one in paged("backup", "list", "-o", "json").json["snapshots"]][-1:]
    assert "Not all can be seen" not in _page(paged)
    for manifest in (paged.lab.folder / "backups" / SITE).glob("2*/manifest.json"):
        manifest.write_bytes(b"{}")
    page = _page(paged)
    assert "No way back" not in page and f"<code>{newest}</code> in {paged.lab.folder / 'copy'}, verified" in page
    assert f"{paged.lab.folder / 'backups'} holds no verified backup" in page
    window = Window("20260101T000000.000Z-ab12", "2026-01-01T00:00:00.000Z", {})
    (paged.state / "window.json").write_bytes(msgspec.json.encode(window))
    _take_away(paged.lab.folder / "backups")
    page, copy = _page(paged), str(paged.lab.folder / "copy")
    assert f"Not all can be seen: what is told was read in {copy}." in re.sub(r"<[^>]*>|\xa0|✗", "", page)
    assert f"maint restore plan --config {paged.config} --site {SITE} --snapshot {newest} --store {copy}" in page
    assert "no drill is known" in page and "run 20260101T000000.000Z-ab12" in page
    assert "No way back" not in page
    _take_away(paged.lab.folder / "copy")
    page = _page(paged)
    assert newest in page and "run 20260101T000000.000Z-ab12" in page
    assert re.search(rf"what is told was read in {re.escape(copy)}, (now|\S+\sago)", page)
    assert "No further store is configured" not in page


def test_a_copy_that_was_seen_to_be_damaged_does_not_hold_all(paged: Operator) -> None:
    assert paged("playbook", "run", "copy", "--yes").code == 0
    assert "holds all" in _page(paged)
    (part,) = (paged.lab.folder / "copy").glob("lab/*/deployment.json.zst.age")
    content = part.read_bytes()
    part.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert paged("backup", "verify", "--store", str(paged.lab.folder / "copy")).code == 1
    page = _page(paged)
    assert "1 snapshot not proven to be sound" in page and "holds all" not in page
    assert f"of the copy {paged.lab.folder / 'copy'} 1 snapshot not proven" in page


def test_a_page_names_what_ended_badly_or_in_part_until_it_is_given_up(paged: Operator) -> None:
    (paged.lab.folder / "copy").write_text("in the way")
    assert paged("backup", "create", "--open-window", "--yes").code == 7
    page = (_pages(paged) / f"{SITE}.html").read_text()
    told = re.search(r"was partly done: ([^<]*)", page)
    assert "partly done" in page and told and f"{paged.lab.folder}/copy" in told[1], told  # what was left out
    for part in (paged.lab.folder / "backups" / SITE).glob("2*/deployment.json*"):
        part.write_bytes(b"rotten")
    code = paged("backup", "verify").code
    page = unescape((_pages(paged) / f"{SITE}.html").read_text())
    assert re.search(rf"the last backup verify, [^,]*, ended with {code}[^:]*: ", page)
    paged.lab.break_("export", "error-500")
    assert paged("backup", "create").code not in (0, 7)
    paged.lab.repair()
    run = paged("playbook", "history", "-o", "json").json["runs"][-1]["id"]
    assert f"run {run} (export) has failed" in (_pages(paged) / f"{SITE}.html").read_text()
    resumed = f"maint playbook resume {run}"
    journal = paged.state / "runs" / f"{run}.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))  # as while it is at work, or once killed
    with site_lock(paged.state, SITE, "backup verify", SystemClock()):
        page, report = _page(paged), paged("playbook", "report", run, "-o", "json").json["report"]
        assert "at work" not in page and resumed in page
        assert [one["state"] for one in report["attempts"]] == ["killed"] and report["attempts"][0]["heard"]
        works_on(paged.state, run)
        page, report = _page(paged), paged("playbook", "report", run, "-o", "json").json["report"]
        assert [one["state"] for one in report["attempts"]] == ["at work"] and report["left"] == []
        assert "at work" in page and resumed not in page
    assert resumed in _page(paged)
    journal.write_bytes(whole)
    assert paged("playbook", "dismiss", run, "--reason", "looked at").code == 0
    assert f"run {run} (export) has failed" not in (_pages(paged) / f"{SITE}.html").read_text()


def test_a_journal_of_which_nothing_can_be_read_is_told(alone: Operator, tmp_path: Path) -> None:
    (journal,) = sorted((alone.state / "runs").glob("*.jsonl"))[:1]
    journal.write_bytes(journal.read_bytes().replace(b"{", b"[", 1))
    assert f"the journal {journal} is damaged in its first line" in _page(alone, str(tmp_path))


def test_a_window_that_a_machine_has_opened_whose_key_is_not_trusted_may_be_open(
    loaded: Operator, tmp_path: Path
) -> None:
    assert loaded("backup", "create", "--open-window", "--yes").code == 0
    assert "may be open" not in _page(loaded, str(tmp_path))
    for signature in (loaded.lab.folder / "backups" / SITE / "records").glob("*-window-*.sig"):
        signature.write_text("of somebody else")
    page = _page(loaded, str(tmp_path))
    assert re.search(r"a redaction window may be open: \d records of windows", page)
    assert f"maint manager export --close-window --config {loaded.config} --site {SITE}" in page


def test_a_snapshot_that_is_dated_beyond_all_reason_and_a_library_that_cannot_be_loaded_fail_no_page(
    alone: Operator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(alone.config)
    path.write_text(path.read_text().replace("    backup:\n", "    backup:\n      keep: {last: 3}\n", 1))
    strange = alone.lab.folder / "backups" / SITE / "99991231T235959.000Z-abcd"
    strange.mkdir()
    (strange / "manifest.json").write_text("{}")
    (tmp_path / "vl_convert").mkdir()
    (tmp_path / "vl_convert/__init__.py").write_text("raise ImportError('libc.so.6 is too old')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "vl_convert", raising=False)
    said = alone("site", "report", "--to", str(tmp_path / "www"))
    assert said.code == 0, said.err
    page = unescape((tmp_path / "www" / f"{SITE}.html").read_text())
    assert strange.name in page and "pip install 'maint[page]'" in page


def test_all_sites_are_looked_at_by_one_command_though_none_has_pages_yet(alone: Operator, tmp_path: Path) -> None:
    path = Path(alone.config)
    path.write_text(
        path.read_text().replace("sites:\n", "sites:\n  away: {manager: {host: cm2, password: prompt}}\n", 1)
    )
    said = maint("site", "report", "--to", str(tmp_path), "--all", "-o", "json", "--config", alone.config)
    assert said.code == 0, said.err
    assert {one["site"]: one["exit"] for one in said.json["sites"]} == {"away": 0, SITE: 0}
    index = (tmp_path / "index.html").read_text()
    assert "No way back:" in index and "no backup is configured" in index
    assert ">away<" in index and f">{SITE}<" in index and "Not seen yet" not in index
    checks = HostChecks(datetime.now(UTC), [HostResult("os.swap", "fail", ["h1"], "1", "mend it")], {"h1": ""})
    keep_record(alone.state / "checks.json", checks)
    assert maint("site", "report", "--to", str(tmp_path), "--config", alone.config).code == 0
    assert "os.swap" in (tmp_path / f"{SITE}.html").read_text()  # though the site was not looked at since


def test_a_site_that_is_called_as_the_page_of_all_has_a_page_of_its_own(alone: Operator, tmp_path: Path) -> None:
    path = Path(alone.config)
    path.write_text(path.read_text().replace(f"  {SITE}:\n", "  index:\n", 1))
    said = maint("site", "report", "--to", str(tmp_path), "-o", "json", "--config", alone.config)
    own, all_ = tmp_path / "_index.html", tmp_path / "index.html"
    assert (said.code, said.json["pages"]) == (0, [str(all_), str(own)]), said.err
    assert 'href="_index.html"' in all_.read_text() and "looked at" in own.read_text()
    assert maint("site", "report", "--to", str(tmp_path), "--config", alone.config).code == 0
    assert 'href="index.html"' in own.read_text()


def test_pages_of_one_folder_are_written_one_after_another(alone: Operator, tmp_path: Path) -> None:
    with locked(alone.state.parent):
        process = alone.fork("site", "report", "--to", str(tmp_path), "--allow-plain")
        while process.poll() is None and not (tmp_path / f"{SITE}.html").exists():
            time.sleep(0.05)
        assert process.poll() is None and not (tmp_path / "index.html").exists()
    assert process.wait(60) == 0 and (tmp_path / "index.html").exists()
