"""What Prometheus is told, and the alerts over it."""

import re
import shutil
import signal
import stat
import time
from contextlib import suppress

import pytest

from maint import __version__ as maint_version
from maint.adapters.clock import SystemClock
from maint.cli.after_run import Ending, after_run, followed, planned
from maint.cli.monitoring import outcomes
from maint.cli.screen import Screen
from maint.config import yaml
from maint.config.notices import NoticeSettings
from maint.config.schema import BackupSettings
from maint.engine.lock import site_lock
from maint.errors import DeadlinePassed, Interrupted, Invalid, Locked, WorkFailed
from maint.lab.create import SITE
from tests.engine.conftest import site_in
from tests.steps.conftest import PASSWORD
from tests.steps.operator import maint

SAMPLE = re.compile(r'(maint_[a-z_]+)\{(site="[^"]+"(?:,[a-z]+="[^"]+")*)\} ([0-9.e+-]+)')


@pytest.fixture
def measured(loaded):
    """An operator whose site writes metrics."""
    path = loaded.lab.folder / "config.yaml"
    path.write_text(path.read_text().rstrip() + "\n    metrics: metrics/maint.prom\n")
    return loaded


def samples(operator):
    """Return all figures: (metric, labels) → value."""
    lines = (operator.lab.folder / "metrics/maint.prom").read_text().splitlines()
    found = {}
    for line in lines:
        if not line.startswith("#"):
            name, labels, value = SAMPLE.fullmatch(line).groups()
            found[name, labels.replace(f'site="{SITE}"', "").lstrip(",")] = float(value)
    return found


def test_a_backup_leaves_the_figures_behind(measured):
    assert measured("backup", "create", "--open-window", "--yes").code == 0
    found = samples(measured)
    assert found["maint_snapshots", 'kind="restorable"'] == 2
    assert found["maint_last_run_state", 'playbook="export-unredacted",state="done"'] == 1
    assert found["maint_last_run_state", 'playbook="export-unredacted",state="failed"'] == 0
    assert found["maint_redaction_window_open", ""] == 0
    assert found["maint_last_drill_timestamp_seconds", ""] == 0
    taken, written = (
        found["maint_last_verified_backup_timestamp_seconds", ""],
        "maint_metrics_written_timestamp_seconds",
    )
    assert 0 < taken <= found[written, ""]
    assert found["maint_backup_max_age_seconds", ""] == 93_600
    assert 0 < found["maint_oldest_snapshot_timestamp_seconds", ""] < taken
    assert found["maint_stored_bytes", ""] > found["maint_last_verified_backup_bytes", ""] > 0
    assert found["maint_runs", 'state="done"'] >= 1
    assert found["maint_last_backup_added_bytes", ""] == found["maint_last_verified_backup_bytes", ""]
    assert found["maint_last_verified_backup_items", 'kind="hosts"'] > 0
    ends = 'verb="backup create",result='
    counts = [found["maint_verb_ends_total", f'{ends}"{one}"'] for one in ("done", "partly", "failed")]
    assert counts[0] >= 1 and counts[1:] == [0, 0]
    assert found["maint_at_work_since_timestamp_seconds", ""] == found["maint_at_work_moved_bytes", ""] == 0
    assert [labels for name, labels in found if name == "maint_info"] == [f'version="{maint_version}"']


def test_a_drill_leaves_its_time_behind_and_no_lease(measured):
    path = measured.lab.folder / "config.yaml"
    path.write_text(path.read_text() + f"    shared_state: {measured.lab.folder}/shared\n")
    assert measured("backup", "drill").code == 0
    assert samples(measured)["maint_last_drill_timestamp_seconds", ""] > 0
    assert 0 < samples(measured)["maint_last_drill_recovery_seconds", ""] < 600
    assert samples(measured)["maint_lease_held", ""] == 0
    assert measured("doctor").code == 0


def test_what_is_at_work_is_told_while_it_works_and_no_longer(tmp_path):
    site = site_in(tmp_path)
    path = tmp_path / "maint.prom"
    site.settings = site.settings.model_copy(update={"metrics": path})
    others = '# HELP maint_snapshots S.\nmaint_snapshots{site="s"} 3\n'
    path.write_text(others)
    with pytest.raises(WorkFailed), followed(site, Screen(), "backup drill") as begin:
        begin()
        assert re.search(r"^maint_at_work_since_timestamp_seconds\{.*\} [1-9]", path.read_text(), re.MULTILINE)
        assert path.read_text().startswith(others)
        raise WorkFailed("no")
    assert re.search(r"^maint_at_work_since_timestamp_seconds\{.*\} 0$", path.read_text(), re.MULTILINE)


class Hasty(SystemClock):
    """A clock on which half a minute goes by between two looks."""

    def __init__(self):
        self.time = 0.0

    def monotonic(self):
        self.time += 30
        return self.time


def test_the_bytes_so_far_are_told_each_minute_while_something_works(tmp_path):
    site, heard = site_in(tmp_path), []
    path, site.clock = tmp_path / "maint.prom", Hasty()
    site.settings = site.settings.model_copy(update={"metrics": path})
    site.watched = watch = lambda what, count, of: heard.append(count)

    def told():
        (value,) = re.findall(r"^maint_at_work_moved_bytes\{.*\} (.*)$", path.read_text(), re.M)
        return int(value)

    with pytest.raises(WorkFailed), followed(site, Screen(), "backup drill") as begin:
        begin()
        found = [told()]
        for _ in range(5):
            site.moved("reading deployment", 10)
            found.append(told())
        raise WorkFailed("no")
    assert found == [0, 0, 20, 20, 40, 40] and heard == [10] * 5
    assert told() == 0 and site.watched is watch
    assert f'maint_verb_moved_bytes{{site="{site.settings.name}",verb="backup drill"}} 50' in path.read_text()


@pytest.fixture
def hanging(tmp_path):
    """A site of which something is at work since second 77, under its lock."""
    site, path = site_in(tmp_path), tmp_path / "maint.prom"
    site.settings = site.settings.model_copy(update={"metrics": path})
    name = "maint_at_work_since_timestamp_seconds"
    path.write_text(f'# HELP {name} S.\n{name}{{site="s"}} 77\n')
    with site_lock(site.state, "s", "backup create", site.clock):
        yield site


def since_in(site):
    """Since when something is at work, as the metrics say."""
    (line,) = re.findall(r"^maint_at_work_since_timestamp_seconds\{.*\} (.*)$", site.settings.metrics.read_text(), re.M)
    return float(line)


@pytest.mark.parametrize("failure", [Locked("another run works"), WorkFailed("no"), None])
def test_what_hangs_stays_told_whatever_else_begins_and_ends_meanwhile(hanging, failure):
    with suppress(Locked, WorkFailed), followed(hanging, Screen(), "backup verify"):
        assert since_in(hanging) == 77
        if failure:
            raise failure
    for wrong in (WorkFailed("the manager is down"), Invalid("a file is wrong")):  # the first is told as Locked
        with suppress(Locked, Invalid), planned(hanging, Screen(), "backup", dry_run=False):
            raise wrong
        assert since_in(hanging) == 77


def test_what_another_machine_keeps_from_beginning_is_at_work_no_more(tmp_path):
    site = site_in(tmp_path)
    site.settings = site.settings.model_copy(update={"metrics": tmp_path / "maint.prom"})
    with suppress(Locked), followed(site, Screen(), "backup drill") as begin:
        begin()
        assert since_in(site) > 0
        raise Locked("another machine works")
    assert since_in(site) == 0


def test_of_a_machine_killed_in_its_window_the_figures_say_that_it_is_open_and_the_lease_held(measured):
    path, figures = measured.lab.folder / "config.yaml", measured.lab.folder / "metrics/maint.prom"
    path.write_text(path.read_text() + f"    shared_state: {measured.lab.folder}/shared\n")
    assert measured("backup", "verify", "--level", "1").code == 0
    assert samples(measured)["maint_redaction_window_open", ""] == 0
    process = measured.fork("backup", "create", "--open-window", "--yes")
    while process.poll() is None and not re.search(r"^maint_redaction_window_open\S+ 1$", figures.read_text(), re.M):
        time.sleep(0.01)
    process.kill()
    process.communicate()
    found = samples(measured)
    assert found["maint_redaction_window_open", ""] == found["maint_lease_held", ""] == 1
    assert found["maint_at_work_since_timestamp_seconds", ""] > 0
    assert measured("playbook", "resume").code == 0
    found = samples(measured)
    assert found["maint_redaction_window_open", ""] == found["maint_lease_held", ""] == 0


def test_a_run_that_fails_since_the_first_store_is_away_leaves_its_figures(measured):
    assert measured("backup", "verify", "--level", "1").code == 0
    before, store = samples(measured), measured.lab.folder / "backups"
    assert before["maint_store_reached", ""] == 1
    store.rename(store.with_name("gone"))
    store.write_text("in the way")
    for verb in ("create", "verify", "drill"):
        failed = measured("backup", verb, "--yes" if verb == "create" else "--timeout=5m")
        assert failed.code not in (0, 7)
        found = samples(measured)
        assert found["maint_verb_exit_code", f'verb="backup {verb}"'] == failed.code
        assert found["maint_store_reached", ""] == 0
        assert found["maint_verb_ends_total", f'verb="backup {verb}",result="failed"'] == 1
    for name in ("maint_last_verified_backup_timestamp_seconds", "maint_stored_bytes"):
        assert found[name, ""] == before[name, ""] > 0


@pytest.mark.parametrize("verb", ["verify --level 1", "create --open-window --yes"])
def test_what_a_signal_ends_while_its_start_is_told_is_at_work_no_more(measured, httpserver, monkeypatch, verb):
    httpserver.expect_request(re.compile("/ping.*")).respond_with_data("OK")
    path, keep = measured.lab.folder / "config.yaml", outcomes.keep
    path.write_text(
        path.read_text() + f"    notify: [{{name: ping, ping: {{url: '{httpserver.url_for('/ping')}'}}}}]\n"
    )

    def struck(*what):
        monkeypatch.setattr(outcomes, "keep", keep)
        raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(outcomes, "keep", struck)
    assert measured("backup", *verb.split()).code == 128 + signal.SIGTERM
    assert [request.path for request, _ in httpserver.log].count("/ping/start") == 1
    assert samples(measured)["maint_at_work_since_timestamp_seconds", ""] == 0


def test_a_file_that_two_sites_write_is_warned_of_and_nothing_of_the_other_stays_as_this_ones(measured):
    assert "give each site" not in measured("backup", "verify", "--level", "1").err
    path = measured.lab.folder / "metrics/maint.prom"
    path.write_text(path.read_text().replace(f'site="{SITE}"', 'site="other"'))
    assert "give each site a file of its own" in measured("backup", "verify", "--level", "1").err
    assert 'site="other"' not in path.read_text()


def test_a_sound_copy_that_is_looked_at_says_nothing_good_of_the_first_store(measured):
    path, store = measured.lab.folder / "config.yaml", measured.lab.folder / "backups"
    path.write_text(f"report: {{folder: {measured.lab.folder}/pages}}\n{path.read_text()}")
    shutil.copytree(store, copy := measured.lab.folder / "copy")
    for part in (store / SITE).glob("2*/deployment.json.zst.age"):
        part.write_bytes(b"rotten")
    assert measured("backup", "verify").code == 1
    told, listed = samples(measured), measured("site", "list", "-o", "json").json["sites"][0]["summary"]
    assert (told["maint_snapshots", 'kind="damaged"'], listed["damaged"]) == (1, 1)
    assert measured("backup", "verify", "--store", str(copy)).code == 0
    again = samples(measured)
    for figure in (("maint_snapshots", 'kind="damaged"'), ("maint_verb_exit_code", 'verb="backup verify"')):
        assert again[figure] == told[figure] == 1
    assert again["maint_last_verified_backup_timestamp_seconds", ""] == 0
    assert measured("site", "list", "-o", "json").json["sites"][0]["summary"]["damaged"] == 1
    assert "Back in about" not in (measured.lab.folder / f"pages/{SITE}.html").read_text()


def test_a_good_look_at_a_copy_ends_what_a_bad_one_there_has_raised_and_nothing_else(measured):
    store, verb = measured.lab.folder / "backups", ("maint_verb_exit_code", 'verb="backup verify"')
    shutil.copytree(store, copy := measured.lab.folder / "copy")
    (part,) = (copy / SITE).glob("2*/deployment.json.zst.age")
    there, whole = ("backup", "verify", "--store", str(copy)), part.read_bytes()

    def codes(*words):
        """What the command ended with, and what the metrics say then."""
        return measured(*words).code, samples(measured)[verb]

    part.write_bytes(b"rotten")
    assert codes(*there) == (1, 1)
    part.write_bytes(whole)
    assert codes(*there) == (0, 0)
    (part,) = (store / SITE).glob("2*/deployment.json.zst.age")
    part.write_bytes(b"rotten")
    assert codes("backup", "verify") == (1, 1)
    (part,) = (copy / SITE).glob("2*/deployment.json.zst.age")
    part.write_bytes(b"rotten")
    assert codes(*there) == (1, 1)
    part.write_bytes(whole)
    assert codes(*there) == (0, 1), "the first store is rotten still"


@pytest.mark.parametrize("rest", ["# HELP ", "# HELP maint_copy_reached Whet", "# HELP a b\n# TYPE a gauge\na{site="])
def test_a_file_that_was_cut_off_stops_nothing_and_is_whole_again(measured, rest):
    path = measured.lab.folder / "metrics/maint.prom"
    path.parent.mkdir()
    path.write_text(rest)
    said = measured("backup", "verify")
    assert (said.code, said.err) == (0, "")
    assert samples(measured)["maint_store_reached", ""] == 1


def test_every_metric_says_what_it_is_once(measured):
    measured("backup", "verify")
    text = (measured.lab.folder / "metrics/maint.prom").read_text()
    helped, typed = (re.findall(rf"^# {word} (\S+) ", text, re.MULTILINE) for word in ("HELP", "TYPE"))
    assert helped == typed
    assert len(set(helped)) == len(helped)
    assert {name for name, _ in samples(measured)} == set(helped)


def test_a_run_that_fails_is_told_too(measured):
    measured.lab.break_("export", "error-500")
    assert measured("backup", "create").code != 0
    found = samples(measured)
    assert found["maint_last_run_state", 'playbook="export",state="failed"'] == 1
    assert found["maint_snapshots", 'kind="restorable"'] == 1


def test_another_user_may_read_the_figures_and_nothing_in_them_is_secret(measured):
    assert measured("backup", "verify").code == 0
    path = measured.lab.folder / "metrics/maint.prom"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert PASSWORD not in path.read_text()
    assert [one.name for one in path.parent.iterdir()] == ["maint.prom"]


def test_figures_that_cannot_be_written_stop_nothing(measured):
    (measured.lab.folder / "metrics").write_text("in the way")
    said = measured("backup", "verify")
    assert said.code == 0
    assert "the metrics" in said.err


@pytest.mark.parametrize("failure", [WorkFailed("no"), None])
def test_a_store_too_slow_for_the_figures_is_warned_of_and_a_limit_around_it_is_not_lost(
    tmp_path, monkeypatch, capsys, failure
):
    site = site_in(tmp_path)
    path = tmp_path / "maint.prom"
    backup = BackupSettings.model_construct(store=str(tmp_path / "store"))
    site.settings = site.settings.model_copy(update={"metrics": path, "backup": backup})
    stale = "# HELP maint_stored_bytes B.\nmaint_stored_bytes 7\n# HELP maint_runs R.\nmaint_runs{old} 1\n"
    path.write_text(stale)
    monkeypatch.setattr("maint.cli.monitoring.metrics.entries", lambda site: time.sleep(60))
    monkeypatch.setattr("maint.cli.after_run.BRIEFLY", 0.05)
    ending = Ending("backup drill", site.clock.now(), failure=failure)
    if failure:
        after_run(site, Screen(), ending)
        assert f"the metrics {path} tell nothing new of the store: the limit of" in capsys.readouterr().err
        text = path.read_text()
        assert "maint_stored_bytes 7\n" in text
        assert "maint_metrics_written_timestamp_seconds{" in text
        assert "maint_runs{old}" not in text
        assert "maint_snapshots" not in text
    else:
        with pytest.raises(DeadlinePassed), site.clock.limit(0.05):
            after_run(site, Screen(), ending)


def test_where_a_command_names_another_store_a_silent_first_one_ends_nothing(tmp_path, monkeypatch, capsys):
    def silent(site):
        raise DeadlinePassed("the limit of 5s has passed")

    site = site_in(tmp_path)
    site.configured = site_in(tmp_path)
    backup = BackupSettings.model_construct(store=str(tmp_path / "store"))
    stale = NoticeSettings.model_validate({"name": "night", "on": ("stale",), "exec": {"command": ("true",)}})
    more = {"metrics": tmp_path / "maint.prom", "backup": backup, "notify": (stale,)}
    site.configured.settings = site.settings.model_copy(update=more)
    monkeypatch.setattr("maint.cli.monitoring.metrics.entries", silent)
    monkeypatch.setattr("maint.cli.after_run.entries", silent)
    after_run(site, Screen(), Ending("backup drill", site.clock.now()))
    said = capsys.readouterr().err
    assert "tell nothing new of the store: the limit of 5s has passed" in said
    assert "how old the newest backup is cannot be told: the limit of 5s has passed" in said


def test_alert_rules_speak_of_metrics_that_are_written(measured):
    path = measured.lab.folder / "config.yaml"
    text = path.read_text().replace("    backup:\n", "    backup:\n      copies: [copy]\n", 1)
    shared = f"    shared_state: {measured.lab.folder}/shared\n"
    path.write_text(text + shared + "    notify: [{name: chat, exec: {command: [/bin/true]}}]\n")
    measured("backup", "create")
    rules = maint("generate", "alerts", "--max-age", "30h").out
    document = yaml.load(rules, "alerts.yml").data
    names = {name for name, _ in samples(measured)}
    (group,) = document["groups"]
    assert {name for rule in group["rules"] for name in re.findall(r"maint_[a-z_]+", rule["expr"])} <= names
    assert any("108000" in rule["expr"] for rule in group["rules"])
    assert all("{{ $labels.site }}" in rule["annotations"]["summary"] for rule in group["rules"])


def test_an_age_that_is_no_duration_is_wrong_usage():
    assert maint("generate", "alerts", "--max-age", "soon").code == 2


def test_a_count_of_ends_that_lacks_a_result_goes_on_from_none_of_it(tmp_path):
    outcomes.keep(tmp_path, outcomes.VerbOutcome("backup create", 0, 1.0))
    (tmp_path / "ends.json").write_text('{"backup create": {"done": 4}}')
    outcomes.keep(tmp_path, outcomes.VerbOutcome("backup create", 1, 2.0))
    assert outcomes.ends(tmp_path) == {"backup create": {"done": 4, "partly": 0, "failed": 1}}


@pytest.mark.parametrize("at", [1e300, -1e18, 253_402_300_800.0])
def test_a_record_of_an_end_at_no_time_of_the_calendar_is_none(at, tmp_path):
    outcomes.keep(tmp_path, outcomes.VerbOutcome("backup create", 1, at))
    assert outcomes.last(tmp_path, "backup create") is None
