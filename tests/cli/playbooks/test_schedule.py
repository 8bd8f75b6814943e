"""Any playbook runs by itself: what its runs are given is looked at when it is scheduled."""

import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.cli.schedule.test_schedule import accepted, settings
from tests.steps.operator import Operator, maint

CONFIG = """
state: {state}
sites:
  prod:
    manager: {{host: 127.0.0.1, plain_port: 1, tls_port: 2, password: "file:{state}/password"}}
    ssh: {{user: root, key: /nowhere}}
    hosts: [{{name: cm, address: 127.0.0.1}}]
"""


class Scheduler:
    """Types at a config of its own, whose files go into a folder."""

    def __init__(self, folder: Path) -> None:
        self.units = folder / "units"
        (folder / "config.yaml").write_text(CONFIG.format(state=folder))
        self.config = str(folder / "config.yaml")

    def __call__(self, *words: str, verb: str = "schedule"):
        words = ("playbook", verb, *words) if verb == "schedule" else ("schedule", verb, *words)
        return maint(*words, "--config", self.config, "--folder", str(self.units), "--yes")

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in self.units.glob("*"))


@pytest.fixture
def type_(tmp_path: Path) -> Scheduler:
    return Scheduler(tmp_path)


def test_a_timer_runs_the_playbook_with_what_it_was_given(type_: Scheduler) -> None:
    said = type_("start-cluster", "--set", "cluster=my base", "--at", "Sun 03:30", "--form", "systemd")
    assert said.code == 0, said.err
    name = "maint-playbook-start-cluster-prod"
    assert type_.files == ["maint-failure@prod.service", f"{name}.service", f"{name}.timer"]
    [command] = settings(type_.units / f"{name}.service")["ExecStart"]
    assert command.endswith('--site prod playbook run start-cluster --set "cluster=my base" --yes')
    assert settings(type_.units / f"{name}.timer")["OnCalendar"] == ["Sun *-*-* 03:30:00"]
    assert accepted(type_.units) == ""


def test_cron_gets_a_line_and_a_file_is_named_by_its_whole_path(type_: Scheduler, tmp_path: Path) -> None:
    book = tmp_path / "mine.yaml"
    book.write_text("name: mine\nsummary: X.\nsteps:\n  - {name: A, do: pause, with: {duration: 1s}}\n")
    (tmp_path / "gone").mkdir()
    said = type_(f"{tmp_path}/gone/../mine.yaml", "--every", "6h", "--form", "cron")
    assert said.code == 0, said.err
    text = (type_.units / "maint-playbook-mine-prod").read_text()
    assert "0 */6 * * * root " in text
    assert f"playbook run {book} --yes --quiet" in text


def test_a_command_that_is_too_long_for_cron_is_refused_since_the_file_would_be_passed_over(
    type_: Scheduler, tmp_path: Path
) -> None:
    def lines(cluster: str):
        words = ("start-cluster", "--set", f"cluster={cluster}", "--every", "6h", "--form", "cron", "--user")
        return maint("playbook", "schedule", *words, "--dry-run", "-o", "json", "--config", type_.config)

    def taken(text: str) -> bool:
        (table := tmp_path / "crontab").write_text(text)
        return subprocess.run(["crontab", "-n", str(table)], capture_output=True, check=False).returncode == 0

    short = lines("b%").json["files"][0]["content"]
    room = 998 - len(short.splitlines()[-1].removeprefix("0 */6 * * * "))
    longest = lines("b%" + "x" * room).json["files"][0]["content"]
    assert taken(longest)
    assert not taken(longest.replace("b\\%", "b\\%x"))
    said = lines("b%x" + "x" * room)
    assert (said.code, "998 bytes, and this one has 999" in said.err) == (5, True), said.err


def test_schedules_of_playbooks_and_of_backups_leave_each_other_alone(type_: Scheduler) -> None:
    assert type_("probe", "--every", "6h", "--form", "systemd").code == 0
    assert type_("--form", "systemd", verb="install").code == 0
    assert type_("export", "--form", "systemd").code == 0
    assert "maint-failure@prod.service" in type_(verb="show").out
    assert type_(verb="remove").code == 0
    assert [name for name in type_.files if "backup" in name] == []
    assert type_("probe", "--remove").code == 0
    left = ["maint-failure@prod.service", "maint-playbook-export-prod.service", "maint-playbook-export-prod.timer"]
    assert type_.files == left
    assert type_("export", "--remove").code == 0
    assert type_.files == []


def test_a_unit_lets_a_run_write_where_its_steps_write(type_: Scheduler, tmp_path: Path) -> None:
    book = tmp_path / "fetch.yaml"
    fetch = "{name: A, do: host.fetch, with: {host: cm, path: /etc/hosts, to: '/srv/%s'}}"
    book.write_text(
        "name: fetch\nsummary: X.\nparameters:\n  day: {type: string, help: X}\nsteps:\n"
        f"  - {fetch % 'audit/{{ day }}/hosts'}\n"
        f"  - {{name: B, each: [a, b], {(fetch % 'each/{{ item }}/hosts')[10:]}\n"
        "  - {name: C, playbook: truststore-password, with: {file: /srv/trust/password}}\n"
    )
    said = type_(str(book), "--set", "day=monday", "--every", "6h", "--form", "systemd")
    assert said.code == 0, said.err
    writable = settings(type_.units / "maint-playbook-fetch-prod.service")["ReadWritePaths"]
    assert {"-/srv/audit/monday", "-/srv/each", "-/srv/trust"} <= set(writable)
    assert accepted(type_.units) == ""


def test_a_playbook_under_tmp_is_not_hidden_by_a_private_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory(dir="/var/tmp") as folder, TemporaryDirectory(dir="/dev/shm") as home:
        book = Path(folder, "mine.yaml")
        book.write_text("name: mine\nsummary: X.\nsteps:\n  - {name: A, do: pause, with: {duration: 1s}}\n")
        (program := Path(home, "maint")).symlink_to("/bin/true")  # this one may lie under /tmp itself
        monkeypatch.setattr("sys.argv", [str(program)])
        typed = Scheduler(Path(home))
        assert typed(str(book), "--form", "systemd").code == 0
        assert typed("probe", "--form", "systemd").code == 0
        hidden = {
            name: settings(typed.units / f"maint-playbook-{name}-prod.service")["PrivateTmp"]
            for name in ("mine", "probe")
        }
    assert hidden == {"mine": ["no"], "probe": ["yes"]}


@pytest.mark.parametrize("form", ["systemd", "cron"])
def test_what_is_scheduled_is_shown(loaded: Operator, type_: Scheduler, form: str) -> None:
    type_.config = str(loaded.lab.folder / "config.yaml")
    assert type_("probe", "--every", "6h", "--form", form).code == 0
    said = type_("-o", "json", verb="show")
    [shown] = json.loads(said.out)["schedule"]["playbooks"]
    assert shown["name"] == "probe"
    assert [Path(one).name for one in shown["files"]] == [name for name in type_.files if "probe" in name]
    assert len(shown["when"]) == 1
    assert "playbook probe" in type_(verb="show").out


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ((), (), True),
        (("--at", "03:00"), (), False),
        (("--every", "15m"), ("--at", "Sun 04:30"), True),
        (("--every", "6h"), ("--at", "Sun 04:00"), False),
        (("--at", "Sat 04:00"), ("--at", "Sun 04:00"), False),
        (("--form", "systemd"), ("--form", "systemd"), False),  # which spreads them
    ],
)
def test_two_schedules_that_meet_every_time_under_cron_are_warned_of(
    type_: Scheduler, first: tuple[str, ...], second: tuple[str, ...], told: bool
) -> None:
    form = () if "systemd" in first else ("--form", "cron")
    assert type_(*first, *form, verb="install").code == 0
    said = type_("start-cluster", "--set", "cluster=a", *second, *form)
    assert ("maint-backup-prod begins at the same minute" in said.err) is told, said.err
    again = type_("start-cluster", "--set", "cluster=a", *second, *form)
    assert ("maint-playbook-start-cluster-prod begins" in again.err) is False  # itself


@pytest.mark.parametrize("form", ["systemd", "cron"])
def test_each_file_names_the_command_that_deletes_it(type_: Scheduler, form: str) -> None:
    assert type_("probe", "--every", "6h", "--form", form).code == 0
    assert type_("--form", form, verb="install").code == 0
    for path in type_.units.glob("*-prod*"):
        way = "maint playbook schedule probe --remove" if "playbook" in path.name else "maint schedule remove"
        assert f"`{way}` deletes it" in path.read_text()


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("start-cluster",), 3, "needs cluster"),
        (("start-cluster", "--set", "cluster"), 2, "is not key=value"),
        (("probee",), 2, "did you mean 'probe'"),
        (("retire-cluster", "--set", "cluster=base"), 5, "--confirm"),
        (("probe", "--at", "25:00"), 2, "not a time of day"),
        (("probe", "--airflow"), 2, "neither a timer nor a line"),
        (("probe", "--limit", "nowhere"), 2, "no host or group 'nowhere'"),
        (("smoke-test", "--set", "vc=etll"), 2, "site prod has no virtual cluster 'etll'"),
        (("start-cluster", "--set", "cluster=base\n* * * * * root reboot"), 2, "cannot be given several lines: 'clus"),
    ],
)
def test_what_would_fail_every_night_is_refused_now(
    type_: Scheduler, words: tuple[str, ...], code: int, told: str
) -> None:
    said = type_(*words, "--form", "systemd")
    assert (said.code, told in said.err) == (code, True)
    assert type_.files == []


def command_run(folder: Path, name: str) -> str:
    book = folder / "own.yaml"
    step = f"{{name: A, do: command.run, with: {{cluster: base, service: zookeeper, name: {name}}}}}"
    book.write_text(f"name: own\nsummary: X.\nsteps:\n  - {step}\n")
    return str(book)


def test_only_a_command_whose_name_sounds_harmful_wants_a_name_here(type_: Scheduler, tmp_path: Path) -> None:
    assert type_(command_run(tmp_path, "zooKeeperCleanup"), "--dry-run").code == 5
    assert type_(command_run(tmp_path, "restart"), "--dry-run").code == 0


def test_a_name_that_each_run_would_refuse_is_refused_now(loaded: Operator, type_: Scheduler, tmp_path: Path) -> None:
    type_.config = str(loaded.lab.folder / "config.yaml")
    book = command_run(tmp_path, "zooKeeperCleanup")
    said = type_(book, "--confirm", "zookeper")
    assert (said.code, "give --confirm zookeeper" in said.err, type_.files) == (5, True, []), said.err
    assert type_(book, "--confirm", "zookeeper").code == 0


def test_a_plan_that_cannot_be_made_is_told_before_the_first_night(type_: Scheduler, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(
        "name: one\nsummary: X.\nparameters:\n  host: {type: string}\nsteps:\n"
        '  - {name: A, do: host.run, with: {hosts: ["{{ host }}"], command: x}}\n'
    )
    book = tmp_path / "each.yaml"
    book.write_text(
        "name: each\nsummary: X.\nparameters:\n  hosts: {type: list}\nsteps:\n"
        '  - {name: A, each: "{{ hosts }}", playbook: one.yaml, with: {host: "{{ item }}"}}\n'
    )
    said = type_(str(book), "--set", "hosts=cm,elsewhere", "--form", "cron", "--dry-run")
    assert (said.code, "a run would fail now: there is no host 'elsewhere'" in said.err) == (0, True), said.err
    assert "would fail" not in type_(str(book), "--set", "hosts=cm", "--form", "cron", "--dry-run").err
    said = type_("start-cluster", "--set", "cluster=base", "--form", "cron", "--dry-run")
    assert (said.code, "a run would fail now: " in said.err) == (0, True)  # nobody is at the manager's address


def test_a_folder_that_a_run_writes_to_and_that_is_not_there_is_warned_of(type_: Scheduler, tmp_path: Path) -> None:
    book, to = tmp_path / "fetch.yaml", tmp_path / "audit"
    fetch = f"do: host.fetch, with: {{host: cm, path: /etc/hosts, to: '{to}/hosts'}}"
    book.write_text(f"name: fetch\nsummary: X.\nsteps:\n  - {{name: A, {fetch}}}\n")
    said = type_(str(book), "--form", "systemd", "--dry-run")
    assert (said.code, f"warning: {to}, which it writes to, is not there: every scheduled run" in said.err) == (0, True)
    to.mkdir()
    assert "warning" not in type_(str(book), "--form", "systemd", "--dry-run").err
    to.rmdir()
    to.write_text("in the way")
    assert f"{to}, which it writes to, is not a folder" in type_(str(book), "--form", "systemd", "--dry-run").err


def test_a_store_that_cannot_be_written_to_is_warned_of_before_the_first_night(
    type_: Scheduler, tmp_path: Path
) -> None:
    config = Path(type_.config)
    config.write_text(
        f"{config.read_text()}    backup: {{store: {tmp_path}/there/backups, recipients: [age1{'q' * 58}]}}\n"
    )
    assert "which it writes to" not in type_("--dry-run", verb="install").err
    (tmp_path / "there").write_text("a file")
    said = type_("--dry-run", verb="install")
    assert f"warning: {tmp_path}/there, which it writes to, is not a folder" in said.err
