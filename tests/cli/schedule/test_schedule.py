"""Units and cron lines: accepted by systemd, enough for a run, and only our own files are touched."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from maint.cli.schedule.units import calendar
from maint.config.paths import account
from maint.errors import UsageError
from maint.lab.create import SITE
from maint.steps.manager import window
from tests.steps.operator import environment, maint

CONFIG = """\
sites:
  {name}:
    metrics: metrics/maint.prom
    manager: {{host: cm, password: "file:{secret}"}}
    backup: {{store: {store}, recipients: [age1{q}], identity: "file:identity", keep: {{last: 3}}}}
    shared_state: /srv/shared
    shared_state_key: file:shared-key
report: {{folder: /srv/pages}}
"""


@pytest.fixture
def config(tmp_path):
    """Write a config, and return its path."""

    def write(name="prod", folder="etc", secret="password", store="/srv/backups"):
        path = tmp_path / folder / "config.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CONFIG.format(name=name, secret=secret, store=store, q="q" * 58))
        return path

    return write


@pytest.fixture
def units(tmp_path):
    return tmp_path / "units"


def install(config, units, *words):
    return maint("schedule", "install", "--config", str(config), "--folder", str(units), "--yes", *words)


def settings(unit: Path) -> dict[str, list[str]]:
    """Return the settings of a unit, each with all its values."""
    found: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def accepted(folder: Path) -> str:
    """Return what systemd finds wrong with the units in a folder."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    names = [str(path) for path in sorted(folder.iterdir())]
    ran = subprocess.run([program, "verify", *names], capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr + (f"exit {ran.returncode}" if ran.returncode else "")


def test_the_schedule_of_another_site_is_never_overwritten(config, units, tmp_path):
    assert install(config("a.b"), units, "--form", "cron").code == 0
    before = (units / "maint-backup-a_b").read_text()
    said = install(config("a_b"), units, "--form", "cron")
    assert said.code == 5 and "is the schedule of site a.b, which would run no more" in said.err
    assert (units / "maint-backup-a_b").read_text() == before
    assert install(config("a_b"), units, "--form", "systemd").code == 0


@pytest.mark.parametrize("form", ["systemd", "cron"])
def test_a_schedule_that_another_config_has_is_not_replaced_without_a_word(config, units, form):
    first, second = config(), config(folder="o ther")
    assert install(first, units, "--form", form).code == 0
    again = install(first, units, "--form", form, "--at", "04:00")
    assert again.code == 0 and "would run no more" not in again.err
    said = install(second, units, "--form", form)
    assert said.code == 0 and f"is of the config {first}, for which it would run no more" in said.err, said.err


def test_a_playbook_and_a_site_whose_names_meet_do_not_take_the_place_of_others(config, units, tmp_path):
    playbooks = {name: tmp_path / f"{name}.yaml" for name in ("a", "a-b")}
    for name, path in playbooks.items():
        path.write_text(f"name: {name}\nsummary: Look\nsteps:\n  - name: Look\n    do: server.probe\n")
    where = ("--form", "systemd", "--folder", str(units), "--at", "02:00", "--yes")
    codes = [
        maint("playbook", "schedule", str(playbooks[name]), "--config", str(config(site)), *where).code
        for name, site in (("a", "b-c"), ("a-b", "c"))
    ]
    assert codes == [0, 5]
    assert "--site b-c" in (units / "maint-playbook-a-b-c.service").read_text()


@pytest.mark.parametrize("words", [(), ("--at", "Sun 03:00", "--prune"), ("--every", "15m", "--jitter", "1m")])
def test_systemd_accepts_the_units(config, units, words):
    assert install(config(), units, "--form", "systemd", *words).code == 0
    assert accepted(units) == ""


@pytest.mark.parametrize("odd", [{"folder": "a\nb"}, {"store": "/srv/a\\nb"}, {"secret": "a\\rb"}])
@pytest.mark.parametrize("form", ["systemd", "cron"])
def test_no_path_writes_a_line_of_its_own(config, units, odd, form):
    path = config(**odd)
    path.write_text(path.read_text().replace("store: /srv/a\\nb", 'store: "/srv/a\\nb"'))
    said = install(path, units, "--form", form)
    assert said.code == 5 and "it holds a line break" in said.err, said.err
    assert not units.exists()


def test_systemd_accepts_units_with_odd_paths(config, units):
    path = config(folder="a b%c$d'e\"f", secret="pass%word", store="/srv/back ups%n")
    assert install(path, units, "--form", "systemd").code == 0
    assert accepted(units) == ""


def test_systemd_accepts_the_units_of_a_user(config, units):
    assert install(config(), units, "--form", "systemd", "--user").code == 0
    assert accepted(units) == ""
    assert "ProtectSystem" not in settings(units / "maint-backup-prod.service")


def test_systemd_would_have_said_what_is_wrong(config, units):
    install(config(), units, "--form", "systemd")
    service = units / "maint-backup-prod.service"
    service.write_text(service.read_text().replace("ExecStart=/", "ExecStart=relative/"))
    assert accepted(units) != ""


def test_the_service_is_confined_and_a_held_lock_is_no_failure(config, units):
    install(config(), units, "--form", "systemd")
    service, timer = settings(units / "maint-backup-prod.service"), settings(units / "maint-backup-prod.timer")
    wanted = {
        "Type": "oneshot",
        "SuccessExitStatus": "6",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "StateDirectory": "maint",
        "OnFailure": "maint-failure@prod.service",
    }
    assert {key: service[key] for key in wanted} == {key: [value] for key, value in wanted.items()}
    assert {"-/srv/backups", "-/srv/shared", "-/srv/pages"} <= set(service["ReadWritePaths"])
    looks = settings(units / "maint-failure@prod.service")  # doctor tries to write to the store
    assert "-/srv/backups" in looks["ReadWritePaths"]
    assert timer["Persistent"] == ["true"]
    assert timer["RandomizedDelaySec"] == ["900s"]


def test_a_run_that_is_stopped_has_the_time_to_close_its_window_before_it_is_killed(config, units):
    install(config(), units, "--form", "systemd", "--drill", "Sun 04:00")
    for name in ("backup", "drill"):
        (given,) = settings(units / f"maint-{name}-prod.service")["TimeoutStopSec"]
        assert int(given.removesuffix("min")) * 60 >= window._LIMIT + 60, "a server has so long to answer again"


def test_every_secret_in_a_file_is_handed_over_as_a_credential(config, units):
    path = config()
    install(path, units, "--form", "systemd")
    service = settings(units / "maint-backup-prod.service")
    assert service["LoadCredential"] == [
        f"manager-password:{path.parent / 'password'}",
        f"backup-identity:{path.parent / 'identity'}",
    ]
    assert "MAINT_MANAGER_PASSWORD=credential:manager-password" in service["Environment"]
    assert "MAINT_BACKUP_IDENTITY=credential:backup-identity" in service["Environment"]


def test_what_the_unit_says_is_enough_for_a_run(loaded, units, tmp_path):
    """Do what systemd would: credentials in a folder, the unit's environment and nothing else, no terminal."""
    assert install(loaded.config, units, "--form", "systemd").code == 0
    service = settings(units / f"maint-backup-{SITE}.service")
    credentials = tmp_path / "credentials"
    credentials.mkdir(mode=0o700)
    for line in service["LoadCredential"]:
        name, _, source = line.partition(":")
        shutil.move(source, credentials / name)  # so that it can come from nowhere else
        (credentials / name).chmod(0o400)
    given = dict(word.partition("=")[::2] for line in service["Environment"] for word in shlex.split(line))
    env = {"PATH": os.environ["PATH"], "CREDENTIALS_DIRECTORY": str(credentials), **given}
    (command,) = service["ExecStart"]
    words = shlex.split(command)
    ran = subprocess.run(words, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert ran.returncode == 7, ran.stderr  # redacted, as this manager gives it
    assert "audit-only" in ran.stderr


def test_installing_twice_changes_nothing_and_asks_nothing(config, units):
    path = config()
    install(path, units, "--form", "systemd")
    before = {one: one.stat().st_mtime_ns for one in units.iterdir()}
    again = maint("schedule", "install", "--config", str(path), "--folder", str(units), "--form", "systemd", given="")
    assert again.code == 0
    assert {one: one.stat().st_mtime_ns for one in units.iterdir()} == before


def test_another_time_changes_the_timer_alone(config, units):
    path = config()
    install(path, units, "--form", "systemd")
    said = install(path, units, "--form", "systemd", "--at", "04:30", "-o", "json")
    assert said.json["written"] == [str(units / "maint-backup-prod.timer")]


@pytest.mark.parametrize("verb", ["install", "remove"])
def test_without_an_answer_nothing_is_changed(config, units, verb):
    path = config()
    form = ("--form", "systemd") if verb == "install" else ()
    if verb == "remove":
        install(path, units, "--form", "systemd")
    before = sorted(units.iterdir()) if units.exists() else None
    said = maint("schedule", verb, "--config", str(path), "--folder", str(units), *form, given="")
    assert (said.code, "--yes" in said.err) == (5, True)
    assert (sorted(units.iterdir()) if units.exists() else None) == before


def test_a_dry_run_shows_the_files_and_writes_none(config, units):
    said = install(config(), units, "--form", "systemd", "--dry-run")
    assert said.code == 0
    assert "[Timer]" in said.out
    assert not units.exists()


def test_a_file_of_somebody_else_is_never_replaced_and_never_removed(config, units):
    path = config()
    for words in ((), ("--dry-run",)):
        assert maint("schedule", "remove", "--config", str(path), *words).out == "no schedule is installed\n"
    units.mkdir()
    theirs = units / "maint-backup-prod.service"
    theirs.write_text("[Service]\nExecStart=/bin/true\n")
    assert install(path, units, "--form", "systemd").code == 5
    assert maint("schedule", "remove", "--config", str(path), "--folder", str(units), "--yes").code == 0
    assert [one.name for one in units.iterdir()] == [theirs.name]


def test_a_file_of_ours_that_somebody_edited_in_another_encoding_is_written_anew_and_removed(config, units):
    path = config()
    assert install(path, units, "--form", "systemd").code == 0
    timer = units / "maint-backup-prod.timer"
    timer.write_bytes(timer.read_bytes().replace(b"[Timer]", b"# von J\xe9r\xf4me\n[Timer]"))
    edited = timer.read_bytes()
    said = install(path, units, "--form", "systemd")
    assert (said.code, said.out.splitlines()) == (0, [f"written: {timer}"]), said.err
    assert timer.read_bytes() != edited
    timer.write_bytes(edited)
    assert "OnCalendar" in maint("schedule", "show", "--config", str(path), "--folder", str(units)).out
    assert maint("schedule", "remove", "--config", str(path), "--folder", str(units), "--yes").code == 0
    assert list(units.iterdir()) == []


def test_removing_takes_all_that_was_installed_and_leaves_other_sites_alone(config, units):
    one, other = config(), config(name="test", folder="other")
    for path in (one, other):
        install(path, units, "--form", "systemd")
    assert maint("schedule", "remove", "--config", str(one), "--folder", str(units), "--yes").code == 0
    left = {"maint-backup-test.service", "maint-backup-test.timer", "maint-failure@test.service"}
    assert {path.name for path in units.iterdir()} == left
    assert maint("schedule", "remove", "--config", str(other), "--folder", str(units), "--yes").code == 0
    assert list(units.iterdir()) == []


def test_what_fails_is_looked_at_with_the_config_that_it_ran_with(config, units):
    one, other = config(), config(name="te-st", folder="other")
    for path, name in ((one, "prod"), (other, "te-st")):
        said = install(path, units, "--form", "systemd")
        assert (said.code, "would run no more" in said.err) == (0, False)
        [looks] = settings(units / f"maint-failure@{name}.service")["ExecStart"]
        assert looks.endswith(f"--config {path} --site {name} doctor")
    assert accepted(units) == ""


def test_the_unit_for_failures_of_earlier_versions_goes_with_the_last_that_needs_it(config, units):
    one, other = config(), config(name="te-st", folder="other")
    for path in (one, other):
        install(path, units, "--form", "systemd")
    earlier = units / "maint-failure@.service"
    for name in ("prod", "te-st"):
        shutil.move(units / f"maint-failure@{name}.service", earlier)
    earlier.write_text("# maint-schedule\n" + earlier.read_text().partition("\n")[2])
    assert str(earlier) in maint("schedule", "show", "--config", str(one), "--folder", str(units)).out
    install(one, units, "--form", "systemd")
    assert earlier.exists()  # the other site has no other yet
    said = maint("schedule", "remove", "--config", str(one), "--folder", str(units), "--yes")
    assert (said.code, earlier.exists()) == (0, True)
    said = install(other, units, "--form", "systemd")
    assert f"removed: {earlier}" in said.out
    assert maint("schedule", "remove", "--config", str(other), "--folder", str(units), "--yes").code == 0
    assert list(units.iterdir()) == []


def test_show_tells_what_is_installed(loaded, units):
    assert "no schedule" in loaded("schedule", "show", "--folder", str(units)).out
    install(loaded.config, units, "--form", "systemd", "--at", "04:30")
    told = loaded("schedule", "show", "--folder", str(units), "-o", "json").json
    assert told["schedule"]["when"] == ["OnCalendar=*-*-* 04:30:00"]
    assert told["last_verified"]["id"]


def test_a_secret_that_is_typed_cannot_be_scheduled(config, units):
    path = config()
    path.write_text(path.read_text().replace('"file:password"', "prompt"))
    said = install(path, units, "--form", "systemd", "-o", "json")
    assert said.code == 5
    assert "manager.password" in said.error["message"]


def test_without_systemd_a_line_for_cron_is_written(config, units):
    path = config(name="prod.east")
    said = install(path, units, "--form", "cron", "--every", "30m", "--prune", "-o", "json")
    (written,) = said.json["written"]
    assert Path(written).name == "maint-backup-prod_east"  # cron passes over names with a dot
    line = Path(written).read_text().splitlines()[-1]
    assert re.match(r"\*/30 \* \* \* \* root /.*backup create --yes --quiet && .*backup prune --yes --quiet", line)
    assert line.endswith("|| test $? -eq 6")


def test_the_form_follows_what_runs_the_machine(config, units, tmp_path, monkeypatch):
    for there, name in ((tmp_path, "maint-backup-prod.timer"), (tmp_path / "none", "maint-backup-prod")):
        monkeypatch.setattr("maint.cli.schedule.units.MANAGED", there)
        said = install(config(), units, "--dry-run", "-o", "json")
        assert name in [Path(file["path"]).name for file in said.json["files"]]


def test_generated_units_are_those_that_are_installed(config, units):
    path = config()
    install(path, units, "--form", "systemd", "--at", "05:00")
    told = maint("generate", "systemd", "--at", "05:00", "--config", str(path), "-o", "json").json["files"]
    found = {Path(file["path"]).name: file["content"] for file in told}
    assert found == {one.name: one.read_text() for one in units.iterdir()}


@pytest.mark.parametrize(
    ("at", "every", "systemd", "cron"),
    [
        ("", "", "*-*-* 02:15:00", "15 2 * * *"),
        ("23:05", "", "*-*-* 23:05:00", "5 23 * * *"),
        ("Sun 02:15", "", "Sun *-*-* 02:15:00", "15 2 * * Sun"),
        ("", "15m", "*-*-* *:00/15:00", "*/15 * * * *"),
        ("", "60m", "*-*-* 00/1:00:00", "0 */1 * * *"),
        ("", "6h", "*-*-* 00/6:00:00", "0 */6 * * *"),
        ("", "24h", "*-*-* 02:15:00", "15 2 * * *"),
    ],
)
def test_a_rhythm_is_spelled_for_both(at, every, systemd, cron):
    found = calendar(at, every)
    assert (found.systemd, found.cron) == (systemd, cron)
    assert 0 < found.jitter <= 900


@pytest.mark.parametrize(
    ("at", "every"),
    [("24:00", ""), ("2:15", ""), ("0\N{ARABIC-INDIC DIGIT TWO}:15", ""),
     ("Sunday 02:15", ""), ("", "7m"), ("", "5h"), ("", "90m"), ("", "0s"), ("", "x"),
     ("02:15", "6h"), ("", "20s"), ("", "\N{ARABIC-INDIC DIGIT THREE}0m")],
)  # fmt: skip
def test_a_rhythm_that_cannot_be_kept_is_refused(at, every):
    with pytest.raises(UsageError):
        calendar(at, every)


def test_a_jitter_by_which_runs_would_fall_out_is_refused():
    assert calendar("", "1h", "59m").jitter == 3540
    for every, jitter in (("1h", "1h"), ("", "99d")):
        with pytest.raises(UsageError, match="would let runs of the schedule fall out"):
            calendar("", every, jitter)


@pytest.mark.parametrize("flag", ["--at", "--drill", "--verify"])
def test_a_time_that_is_none_is_told_with_the_option_that_gave_it(config, units, flag):
    said = install(config(), units, flag, "late", "-o", "json")
    assert (said.code, said.error["message"]) == (2, f"{flag} 'late' is not a time of day")
    assert f"{flag} 02:15" in said.error["hint"]


def test_a_place_that_is_only_looked_at_is_not_said_to_be_changed(config, tmp_path):
    (tmp_path / "file").write_text("")
    for words in (("show",), ("install", "--yes")):
        said = maint("schedule", *words, "--config", str(config()), "--folder", str(tmp_path / "file"), "-o", "json")
        assert (said.code, "cannot be read: Not a directory" in said.error["message"]) == (1, True), said.err
        assert "--folder DIR for another place" in said.error["hint"]


def test_systemd_reads_the_rhythms_as_they_are_meant():
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    for every, count in (("15m", 96), ("1h", 24), ("6h", 4), ("24h", 1)):
        words = [program, "calendar", "--base-time=2026-11-21 00:00:01", f"--iterations={count + 1}"]
        told = subprocess.run(
            [*words, calendar("", every).systemd], env=environment(TZ="UTC"), capture_output=True, text=True, check=True
        ).stdout
        times = re.findall(r"2026-11-2\d \d\d:\d\d:\d\d", told)
        assert times[-1].split()[1] == times[0].split()[1], every


def test_drills_have_a_timer_of_their_own_and_leave_with_it(config, units):
    path = config()
    assert install(path, units, "--form", "systemd", "--drill", "Sun 04:00").code == 0
    assert accepted(units) == ""
    service, timer = settings(units / "maint-drill-prod.service"), settings(units / "maint-drill-prod.timer")
    assert service["ExecStart"][0].endswith("--site prod backup drill")
    assert timer["OnCalendar"] == ["Sun *-*-* 04:00:00"]
    said = install(path, units, "--form", "systemd", "-o", "json")
    gone = ["maint-drill-prod.service", "maint-drill-prod.timer"]
    assert [Path(one).name for one in said.json["removed"]] == gone
    assert not any(one.name in gone for one in units.iterdir())


@pytest.mark.parametrize(
    ("missing", "words", "told"),
    [
        (', identity: "file:identity"', ("--drill", "Sun 04:00"), "this machine cannot drill"),
        (", keep: {last: 3}", ("--prune",), "there is no retention policy"),
    ],
)
def test_what_could_never_work_is_not_scheduled(config, units, missing, words, told):
    path = config()
    path.write_text(path.read_text().replace(missing, ""))
    for verb in (("schedule", "install", "--dry-run"), ("generate", "systemd")):
        said = maint(*verb, "--config", str(path), *words)
        assert (said.code, told in said.err) == (5, True)


def test_cron_gets_a_line_for_drills(config, units):
    install(config(), units, "--form", "cron", "--drill", "Sun 04:00")
    lines = (units / "maint-backup-prod").read_text().splitlines()
    assert [line.split(" root ")[0] for line in lines[-2:]] == ["15 2 * * *", "0 4 * * Sun"]


def test_changing_the_form_takes_the_other_one_away(config, units):
    path = config()
    install(path, units, "--form", "systemd")
    install(path, units, "--form", "cron")
    assert {one.name for one in units.iterdir()} == {"maint-backup-prod"}
    maint("schedule", "remove", "--config", str(path), "--folder", str(units), "--yes")
    assert list(units.iterdir()) == []


@pytest.fixture
def manager(tmp_path, monkeypatch):
    """A service manager of a user that writes down what it is told."""
    program = tmp_path / "bin/systemctl"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\n[ "$1" != --version ] || exec cat {tmp_path}/version\n'
        f'case " $* " in *" -P "*) echo "invalid option -- P" >&2; exit 1; esac\n'  # up to systemd 245
        f'echo "$*" >> {tmp_path}/told\ncat {tmp_path}/broken >&2 2>/dev/null || exit 0\nexit 1\n'
    )
    (tmp_path / "version").write_text("systemd 252 (252.39-1)\n+PAM +AUDIT\n")
    program.chmod(0o755)
    monkeypatch.setattr("maint.cli.schedule.units.MANAGED", tmp_path)
    env = {"PATH": f"{program.parent}:{os.environ['PATH']}", "XDG_CONFIG_HOME": str(tmp_path / "xdg")}

    def call(verb, path):
        words = ("schedule", verb, "--config", str(path), "--user", *(["--yes"] if verb != "show" else []))
        said = maint(*words, **env)
        file = tmp_path / "told"
        told = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return said, told

    return call


def test_the_timer_is_started_once_the_files_stand_and_stopped_before_they_go(config, manager, tmp_path):
    path = config(store=str(tmp_path / "store"))
    said, told = manager("install", path)
    assert said.code == 0, said.err
    timer = "maint-backup-prod.timer"
    assert told == ["--user daemon-reload", f"--user enable {timer}", f"--user restart {timer}"]
    assert (tmp_path / "xdg/systemd/user" / timer).is_file()
    said, told = manager("remove", path)
    assert told == [f"--user stop {timer}", f"--user disable {timer}", "--user daemon-reload"]
    assert list((tmp_path / "xdg/systemd/user").iterdir()) == []


def test_a_service_manager_without_credentials_gets_units_that_need_none(config, manager, tmp_path):
    (tmp_path / "version").write_text("systemd 239 (239-82.el8)\n")
    said, _ = manager("install", config(store=str(tmp_path / "store")))
    assert said.code == 0, said.err
    service = settings(tmp_path / "xdg/systemd/user/maint-backup-prod.service")
    assert "LoadCredential" not in service
    assert [one.partition("=")[0] for one in service["Environment"]] == ["MAINT_STATE"], (
        "secrets are read in their files"
    )


def test_what_is_installed_is_shown_although_the_service_manager_does_not_tell_when_it_runs(config, manager, tmp_path):
    path = config(store=str(tmp_path / "store"))
    manager("install", path)
    said, told = manager("show", path)
    assert (said.code, said.err) == (0, "")
    assert told == ["--user show -p NextElapseUSecRealtime maint-backup-prod.timer"]
    (tmp_path / "broken").write_text("Failed to connect to bus: No medium found\n")
    said, _ = manager("show", path)
    assert (said.code, "OnCalendar=" in said.out, "No medium found" in said.err) == (0, True, True)


def test_whether_a_private_tmp_would_hide_a_secret_is_asked_of_each_that_is_read_in_its_file(config, monkeypatch):
    path, asked = config(), list[list[Path]]()
    path.write_text(path.read_text().replace("    shared_state: ", """\
    virtual_clusters:
      - {name: default-vc, base_url: "https://a.example/dex/api/v1", auth_url: "https://a.example",
         username: etl, password: "file:/tmp/etl"}
    shared_state: """))  # fmt: skip
    monkeypatch.setattr("maint.cli.schedule.units._in_tmp", lambda needed: asked.append([*needed]))
    maint("generate", "systemd", "--config", str(path))
    backup, failure = asked
    handed = path.parent / "password"
    assert [one in backup for one in (Path("/tmp/etl"), handed)] == [True, False]
    assert [one in failure for one in (Path("/tmp/etl"), handed)] == [True, True]


@pytest.mark.parametrize("words", [("--jitter", "5m"), ()])
@pytest.mark.parametrize("form", ["cron", "systemd"])
def test_who_spreads_the_starts_of_cron_is_told_that_it_cannot(config, units, form, words):
    said = install(config(), units, "--form", form, *words)
    assert (said.code, "cron spreads nothing" in said.err) == (0, form == "cron" and bool(words))


def test_who_schedules_units_of_his_own_is_told_that_they_want_a_login_or_lingering(
    config, manager, tmp_path, monkeypatch
):
    monkeypatch.setattr("maint.cli.schedule.units.LINGERING", tmp_path)
    path = config(store=str(tmp_path / "store"))
    said, _ = manager("install", path)
    assert (said.code, "loginctl enable-linger" in said.err) == (0, True), said.err
    (tmp_path / account()).touch()
    said, _ = manager("install", path)
    assert (said.code, "loginctl enable-linger" in said.err) == (0, False), said.err


def test_a_folder_that_others_read_is_made_for_them_whatever_the_umask_says(config, manager, tmp_path):
    path = config(store=str(tmp_path / "store"))
    path.write_text(path.read_text().replace("/srv/", f"{tmp_path}/srv/"))
    before = os.umask(0o077)
    try:
        said, _ = manager("install", path)
    finally:
        os.umask(before)
    assert said.code == 0, said.err
    modes = {
        one: (tmp_path / one).stat().st_mode & 0o777 for one in ("store", "srv/shared", "srv/pages", "etc/metrics")
    }
    assert modes == {"store": 0o700, "srv/shared": 0o700, "srv/pages": 0o750, "etc/metrics": 0o755}


def test_what_the_service_manager_refuses_is_told(config, manager, tmp_path):
    (tmp_path / "broken").write_text("Verbindung unmöglich", "latin-1")  # the locale need not be ours
    said, _ = manager("install", config(store=str(tmp_path / "store")))
    assert (said.code, "daemon-reload" in said.err, "Verbindung unm" in said.err) == (1, True, True)
    assert "the files are written" in said.err
    said, _ = manager("remove", config(store=str(tmp_path / "store")))
    assert (said.code, "stop" in said.err, "the files are written" in said.err) == (1, True, False), said.err
    assert (tmp_path / "xdg/systemd/user/maint-backup-prod.timer").exists()


def test_what_a_scheduled_run_will_not_have_is_warned_of(config, units):
    path = config()
    path.write_text(path.read_text().replace('"file:password"', "env:CM_PASSWORD"))
    words = ("schedule", "install", "--config", str(path), "--folder", str(units), "--form", "systemd", "--yes")
    said = maint(*words, MAINT_MANAGER_HOST="other")
    assert "manager.password is env:" in said.err
    assert "MAINT_MANAGER_HOST is set here" in said.err


@pytest.mark.parametrize(("form", "told"), [("cron", "nothing here hands over"), ("systemd", "LoadCredential=cm:PATH")])
def test_a_credential_that_the_schedule_does_not_hand_over_is_warned_of(config, units, form, told):
    path = config()
    path.write_text(path.read_text().replace('"file:password"', "credential:cm"))
    said = install(path, units, "--form", form)
    assert (said.code, f"manager.password is credential:cm{', ' if form == 'cron' else ': '}" in said.err) == (0, True)
    assert told in said.err


def test_lines_for_the_own_crontab_name_no_user(config, tmp_path):
    """As cron itself reads them: a user column would be run as a program."""
    said = maint("schedule", "install", "--config", str(config()), "--form", "cron", "--user", "--drill", "Sun 04:00",
                 "--dry-run", "-o", "json")  # fmt: skip
    (file,) = said.json["files"]
    assert " root " not in file["content"]
    table = tmp_path / "crontab"
    table.write_text(file["content"])
    lines = [line for line in file["content"].splitlines() if re.match(r"\d", line)]
    assert [line.split()[5].rpartition("/")[2] for line in lines] == ["maint", "maint"]
    if program := shutil.which("crontab"):
        ran = subprocess.run([program, "-n", str(table)], capture_output=True, text=True, check=False)
        assert (ran.returncode, "successful" in ran.stdout + ran.stderr) == (0, True), ran.stderr
        table.write_text(file["content"].replace("15 2 * * *", "15 2 * * nonsense"))
        assert subprocess.run([program, "-n", str(table)], capture_output=True, check=False).returncode != 0


def test_the_own_crontab_is_not_written(config):
    said = maint("schedule", "install", "--config", str(config()), "--form", "cron", "--user", "--yes")
    assert (said.code, "crontab -e" in said.err) == (2, True)


@pytest.mark.parametrize("words", [("--dry-run",), ("--yes",)])
def test_that_every_backup_would_end_with_7_is_said_beforehand(loaded, units, words):
    asked = ("schedule", "install", "--form", "systemd", "--folder", str(units), "--config", str(loaded.config), *words)
    said = maint(*asked)
    assert (said.code, "redacts" in said.err, "end with 7" in said.err) == (0, True, True)
    assert all(way in said.err for way in ("on_redacted: window", "on_redacted: accept"))
    assert "redacts" not in maint(*asked, MAINT_BACKUP_ON_REDACTED="window").err


def test_a_manager_that_is_down_or_lets_nobody_in_is_told_before_the_first_night(loaded, units):
    asked = ("schedule", "install", "--form", "systemd", "--folder", str(units), "--dry-run", "--config")
    asked = (*asked, str(loaded.config))
    for wrong in ({"TLS_PORT": "1", "PLAIN_PORT": "2"}, {"PASSWORD": "env:WRONG", "BOOTSTRAP_PASSWORD": "env:WRONG"}):
        more = {f"MAINT_MANAGER_{key}": value for key, value in wrong.items()}
        said = maint(*asked, WRONG="wrong", MAINT_BACKUP_ON_REDACTED="window", **more)
        told = re.search("would fail now: (no port of|.* lets in none of)", said.err)
        assert (said.code, bool(told)) == (0, True), said.err
    assert "would fail now" not in maint(*asked).err


def test_older_snapshots_are_verified_by_a_timer_of_their_own(config, units):
    path = config()
    assert install(path, units, "--form", "systemd", "--verify", "Sat 05:00").code == 0
    assert accepted(units) == ""
    service, timer = settings(units / "maint-verify-prod.service"), settings(units / "maint-verify-prod.timer")
    assert service["ExecStart"][0].endswith("--site prod backup verify --stale 30d")
    assert timer["OnCalendar"] == ["Sat *-*-* 05:00:00"]
    path.write_text(path.read_text().replace(', identity: "file:identity"', ""))
    install(path, units, "--form", "systemd", "--verify", "Sat 05:00")
    words = settings(units / "maint-verify-prod.service")["ExecStart"][0]
    assert words.endswith("--stale 30d --level 1")  # what can be told without the private key


def test_what_one_file_for_cron_begins_at_the_same_minute_is_warned_of_and_each_line_is_shown(loaded, units):
    said = install(
        loaded.config, units, "--form", "cron", "--at", "02:15", "--drill", "Sun 02:15", "--verify", "Sat 05:00"
    )
    assert "`maint backup drill` begins at the same minute" in said.err
    assert "`maint backup verify`" not in said.err
    shown = loaded("schedule", "show", "--folder", str(units), "-o", "json").json["schedule"]["when"]
    assert [line.partition(" root ")[0] for line in shown] == ["15 2 * * *", "15 2 * * Sun", "0 5 * * Sat"]
