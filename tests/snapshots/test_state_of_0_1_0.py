"""What version 0.1.0 wrote is read: snapshots, records, keys, marks, units; and its unfinished runs are taken up.

`tests/data/state-0.1.0/README.md` says what there is. A sample of the killed runs is taken up; all of them with
MAINT_CAMPAIGN=all in the environment.
"""

import json
import os
import re
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from maint.errors import WorkFailed
from maint.lab.running import Lab
from maint.snapshots.manifest import MANIFEST, decode, digest
from tests.ports import free_port
from tests.steps.operator import Said, maint

DATA = Path(__file__).parents[1] / "data/state-0.1.0"
VERSION = "0.1.0"
# What each snapshot is, every killed run, and what 0.1.0 itself answered. Any: they are JSON.
SNAPSHOTS: dict[str, str] = json.loads((DATA / "snapshots.json").read_text())
KILLS: dict[str, Any] = json.loads((DATA / "kills.json").read_text())
EXPECTED: list[Any] = json.loads((DATA / "expected.json").read_text())
PORTS = 8
NEVER_SPELLED = ("backups", "copies", "hosts", "world")
SITE = "lab"
OPTIONS = "hosts/base-01.example.internal/root/etc/default/cloudera-scm-server"
SOUND = ("plain", "parts", "whole", "healed", "virtual-clusters")
SAMPLE = ("recovery/server.restart-note-before-restart", "vc-restore/some-restored-midst")
CAMPAIGN = bool(os.environ.get("MAINT_CAMPAIGN"))


class Place:
    """The folder of a site with all that 0.1.0 left there, and a terminal in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state" / SITE
        ports = {f"@PORT-{number}@": str(free_port()) for number in range(PORTS)}
        self.spelled = {"@FOLDER@": str(folder), "@PROGRAM@": str(Path(sys.executable).with_name("maint")), **ports}
        folder.mkdir()
        self.unpack("base.tar.xz")

    def unpack(self, archive: str, wanted: str = "") -> None:
        """Lay the files of an archive out, this folder and free ports in the place of those that they were made with.

        Args:
            archive: its name.
            wanted: what their names begin with, as an expression; it is taken away.
        """
        with tarfile.open(DATA / archive) as tar:
            for member in tar:
                beginning = re.match(wanted, member.name)
                if not beginning:
                    continue
                member.name = member.name[beginning.end() :]
                tar.extraction_filter = getattr(tarfile, "tar_filter", None)  # which 3.11.2 lacks
                tar.extract(member, self.folder)
                if member.isfile() and not member.name.startswith(NEVER_SPELLED):
                    self._spell(self.folder / member.name)

    def _spell(self, path: Path) -> None:
        content = path.read_bytes()
        if b"@" in content:
            for placeholder, value in self.spelled.items():
                content = content.replace(placeholder.encode(), value.encode())
            path.write_bytes(content)

    def kill(self, name: str) -> None:
        """Let everything be as a run left it that was killed."""
        for path in (self.folder / gone for gone in KILLS[name]["gone"]):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        self.unpack(f"kills/{name.partition('/')[0]}.tar.xz", f"{re.escape(name)}/")

    def __call__(self, *words: str) -> Said:
        """Run a command in this process."""
        env = {"MAINT_CONFIG": str(self.folder / "site.yaml"), "MAINT_LAB": str(self.folder)}
        said = maint(*map(self.here, words), **env)
        assert said.code != 70, said.err
        return said

    def here(self, text: str) -> str:
        """Return a text with this place for the placeholders."""
        for placeholder, value in self.spelled.items():
            text = text.replace(placeholder, value)
        return text


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A site as 0.1.0 left it, its manager down."""
    return Place(tmp_path / "site")


@pytest.fixture
def up(place: Place) -> Iterator[Callable[[], Lab]]:
    """Bring the simulated manager and its hosts up."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Lab(place.folder))


def lacking(recorded: Any, now: Any, at: str = "") -> list[str]:
    """Return where an answer of today lacks something of a recorded one, or differs; it may have further keys."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        if (now.get("verified") or {}).get("result") == "failed":
            recorded = {**recorded, "restorable": False}  # what a verification failed is not called restorable any more
        return [
            found
            for key, value in recorded.items()
            for found in (lacking(value, now[key], f"{at}.{key}") if key in now else [f"{at}.{key}: missing"])
        ]
    if isinstance(recorded, list) and isinstance(now, list) and len(recorded) == len(now):
        pairs = enumerate(zip(recorded, now, strict=True))
        return [found for number, (old, new) in pairs for found in lacking(old, new, f"{at}[{number}]")]
    if (recorded, now) == ("done", "partly"):  # a run that left something out has a state of its own now
        return []
    return [] if recorded == now else [f"{at}: {recorded!r} is now {now!r}"]


@pytest.fixture(scope="session")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A site as 0.1.0 left it, for commands that only read."""
    return Place(tmp_path_factory.mktemp("reading") / "site")


@pytest.fixture(scope="session")
def used(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A site as 0.1.0 left it, for commands that add to it and do not stand in each other's way."""
    return Place(tmp_path_factory.mktemp("used") / "site")


@pytest.mark.parametrize("asked", EXPECTED, ids=[" ".join(one["words"]) for one in EXPECTED])
def test_it_is_told_as_0_1_0_told_it(reading: Place, asked: Any) -> None:
    said = reading(*asked["words"], "-o", "json")
    assert said.code == asked["code"], said.err
    recorded = json.loads(reading.here(json.dumps(asked["answer"])))
    if "findings" in recorded:  # the rules are better now: what failed still does, the rest may differ
        failed = {one["check"] for one in recorded.pop("findings") if one["state"] == "fail"}
        assert failed <= {one["check"] for one in said.json["findings"] if one["state"] != "pass"}
    assert lacking(recorded, said.json) == []


def test_a_manifest_has_the_digest_that_it_had_so_that_what_names_it_still_fits(reading: Place) -> None:
    found = [path.read_bytes() for path in (reading.folder / "backups").rglob(MANIFEST)]
    read = []
    for content in found:
        with suppress(WorkFailed):  # one was damaged on purpose
            read.append((digest(decode(content)), sha256(content).hexdigest()))
    assert len(read) >= len(SOUND)
    assert [now for now, then in read if now != then] == []


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_snapshot_passes_level_3(used: Place, name: str) -> None:
    said = used("backup", "verify", SNAPSHOTS[name], "--level", "3", "-o", "json")
    assert (said.code, said.json["verification"]["result"]) == (0, "verified"), said.err


def test_a_snapshot_is_opened_with_the_old_identity(used: Place) -> None:
    said = used(
        "backup", "files", SNAPSHOTS["whole"], "--extract", "/etc/cloudera-scm-server/uuid", "--to", "@FOLDER@/uuid"
    )
    assert said.code == 0, said.err
    assert (used.folder / "uuid").read_bytes()


def test_a_hold_is_heeded_and_a_damaged_copy_remembered(used: Place) -> None:
    said = used("backup", "release", SNAPSHOTS["plain"], "--reason", "it is over")
    assert said.code == 0, said.err
    listed = used("backup", "list", "-o", "json").json["snapshots"]
    assert [one["holds"] for one in listed if one["id"] == SNAPSHOTS["plain"]] == [[]]
    said = used("backup", "list", "--rebuild", "--store", "@FOLDER@/copies")
    assert said.code == 1
    assert SNAPSHOTS["whole"] in said.out + said.err


def test_every_killed_run_is_listed_as_unfinished(place: Place) -> None:
    for path in sorted((DATA / "kills").iterdir()):
        place.unpack(f"kills/{path.name}", "[^/]+/[^/]+/(?=state/lab/runs/)")
    runs = {kill["run"]: kill["playbook"] for kill in KILLS.values()}
    listed = {run["id"]: run for run in place("playbook", "history", "-o", "json").json["runs"]}
    assert {run: listed[run]["playbook"] for run in runs} == runs
    assert {listed[run]["state"] for run in runs} == {"unfinished"}
    assert place("playbook", "history").out.count("by version 0.1.0") == len(listed)


def test_a_report_is_made_of_an_old_journal(used: Place) -> None:
    failed = next(run for run in used("playbook", "history", "-o", "json").json["runs"] if run["state"] == "failed")
    report = used.state / f"reports/{failed['id']}.md"
    report.unlink()
    assert used("playbook", "report", failed["id"]).code == 0
    assert report.read_text()


@pytest.mark.parametrize("name", [*KILLS] if CAMPAIGN else SAMPLE)
def test_a_killed_run_is_taken_up_or_refused_by_name_of_its_version(
    place: Place, up: Callable[[], Lab], name: str
) -> None:
    place.kill(name)
    up()
    said = place("playbook", "resume", KILLS[name]["run"])
    if said.code == 5:
        assert VERSION in said.err
        return
    assert said.code == KILLS[name]["resumed"], said.err  # 1: it waits for a virtual cluster that a person must make
    if said.code == 0:
        assert not (place.state / "window.json").exists()
        assert not list(place.state.glob("begun/*"))
        assert not list((place.folder / "backups/lab").glob("under-way/*"))


def test_a_window_that_was_left_open_is_told_and_closed(place: Place, up: Callable[[], Lab]) -> None:
    before = (place.folder / OPTIONS).read_bytes()
    place.kill("export/exporting-from-midst")
    assert (place.folder / OPTIONS).read_bytes() != before
    looked = place("backup", "list")
    assert (looked.code, "window" in looked.err) == (0, True)
    up()
    said = place("manager", "export", "--close-window", "--yes")
    assert said.code == 0, said.err
    assert not (place.state / "window.json").exists()
    assert (place.folder / OPTIONS).read_bytes() == before


def test_a_backup_goes_on_where_0_1_0_left_off_and_its_saved_plan_is_stale(place: Place, up: Callable[[], Lab]) -> None:
    objects = sorted(path.name for path in (place.folder / "backups/lab/objects").iterdir())
    up()
    said = place("restore", "run", "--plan", "@FOLDER@/files/restore-plan.json", "--manager-only", "--confirm", SITE)
    assert (said.code, "stale" in said.err) == (5, True), said.err
    said = place("backup", "create", "--open-window", "--yes")
    assert said.code == 0, said.err
    assert sorted(path.name for path in (place.folder / "backups/lab/objects").iterdir()) == objects
    newest = place("backup", "list", "-o", "json").json["snapshots"][-1]["id"]
    compared = place("backup", "diff", SNAPSHOTS["plain"], newest, "--redacted", "-o", "json").json
    assert (compared["same"], compared["not_comparable"]) == (True, [])  # fingerprints among them


@pytest.mark.parametrize("form", ["systemd", "cron"])
def test_installed_units_are_known_as_ours(used: Place, form: str) -> None:
    units = used.folder / "units" / form
    assert len(used("schedule", "show", "--folder", str(units), "-o", "json").json["schedule"]["files"]) == len(
        list(units.iterdir())
    )
    said = used("schedule", "remove", "--folder", str(units), "--yes")
    assert said.code == 0, said.err
    assert list(units.iterdir()) == []
