"""`--dry-run` shows what would be done, and does nothing: a spy on files, requests and processes over the whole tree.

One lab is prepared so that each command has something to do: a run that was killed while it waited for an answer, a
backup that no rule keeps, a recipient and a copy that no backup knows, a job that was deleted, a run that works,
settings, hosts and users that are otherwise than they were.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

import pytest

from maint.cli.app import COMMANDS
from maint.cli.command import loaded
from maint.cli.help.output_schemas import schema_of
from maint.config.paths import playbooks
from maint.lab.pki import age_key
from maint.lab.running import Lab
from tests.cli.test_outputs import fits
from tests.steps.conftest import back_up, copy
from tests.steps.operator import SITE, Operator

ROOT = Path(__file__).parents[2]
VC, ECS = "Default-VC-abc12345", "ecs-01"
ASKING = "{name: Ask, do: approve, with: {question: 'go on?', within: 12h}}"
FLUSHING = f"{{name: Flush, do: ecs.firewall, with: {{cluster: {ECS}}}}}"
ONE_STEP = "name: own\nsummary: One step.\nsteps:\n  - {}\n"

# What shows a plan, each with what it says: all that changes something, and all that a playbook does.
PLANS = {
    "cluster stop base": "stop cluster base (6 services)",
    f"cluster start {ECS}": f"start cluster {ECS} (nothing to do)",
    "cluster delete base": "delete cluster base with 7 services",
    "service stop hdfs": "stop service hdfs of base",
    "service start hdfs": "start service hdfs of base (nothing to do)",
    "service restart hdfs": "restart service hdfs of base",
    "service refresh hdfs": "refresh 3 roles of service hdfs of base",
    "setting set dfs_replication 5 --service hdfs": "'2' → '5'",
    "setting unset hadoop_security_authorization --service hdfs": "'true' → unset",
    "manager export --open-window": "switch redaction off",
    "manager license @KEPT@/license.txt": "upload the licence of x",
    "manager restore": "replace the whole configuration by snapshot @SECOND@",
    "manager tls-switch": "TLS is on already",
    "manager truststore-password --file @NEW@/password": "hand the truststore password to file @NEW@/password",
    "manager start --cluster base": "start cluster base (nothing to do)",
    "playbook plan probe": "probe the version",
    "playbook undo @SETTING@": "put back dfs_replication of service hdfs of base: '2' → unset",
    "backup create": "copy what is missing to @LAB@/second",
    "backup hold @FIRST@ --reason so": "hold @FIRST@: so",
    "backup release @SECOND@ --reason so": "release @SECOND@: so",
    "restore plan --source-gone": "bring snapshot @REDACTED@ into it",
    "restore run --manager-only --then-start": "replace the whole configuration by snapshot @SECOND@",
    "restore config --service hdfs": "dfs_replication of service hdfs of base: '2' → unset (default 3)",
    "schedule remove --folder @KEPT@/units": "delete @KEPT@/units/maint-backup-lab.timer",
    "vc job create --name another --application-file local:/opt/app.py": "create job another (spark)",
    "vc job update --name orders-ingest --every-days 3": "update job orders-ingest: schedule; sealed first",
    "vc job run --name orders-ingest": "run job orders-ingest",
    "vc job pause --name awake": "pause the schedule of job awake",
    "vc job unpause --name orders-ingest": "let the schedule go on",
    "vc job delete --name orders-ingest": "delete job orders-ingest; 1 job calls it: nightly-pipeline; sealed first",
    "vc resource create --name another": "create resource another (files)",
    "vc resource upload --name etl-scripts --local-path @KEPT@/Vacuum.py": "REPLACES Vacuum.py",
    "vc resource delete --name etl-scripts": "delete resource etl-scripts with 6 files",
    "vc resource delete-file --name etl-scripts --resource-path Vacuum.py": "delete etl-scripts/Vacuum.py",
    "vc run kill --id @ACTIVE@": "kill run @ACTIVE@",
    "vc spark submit @KEPT@/Vacuum.py": "and a resource with Vacuum.py",
    "vc backup": "copy what is missing to @LAB@/second",
    "vc restore --on-conflict skip --source-gone": "1 job (spare)",
    f"vc init {VC} --renew": "DESTROY The virtual cluster has its certificate",
    f"vc init-user {VC} other": "other",
    "vc undo @DELETION@": "bring back job spare",
    "vc smoke": "smoke-…, run it once, and read its log",
    "playbook run backup-virtual-cluster": "copy what is missing to @LAB@/second",
    "playbook run close-window": "put /etc/default/cloudera-scm-server back",
    "playbook run copy": "copy what is missing to @LAB@/second",
    "playbook run disaster-recovery --set source_gone=true": "bring snapshot @REDACTED@ into it",
    "playbook run export-unredacted": "switch redaction off",
    "playbook run export": "export the deployment",
    "playbook run hold --set snapshot=@FIRST@ --set reason=so": "hold @FIRST@: so",
    "playbook run init-user --set user=other": "other",
    "playbook run init-virtual-cluster --set renew=true": "DESTROY The virtual cluster has its certificate",
    "playbook run probe": "probe the version",
    "playbook run prune": "remove 1 of 3 snapshots: @FIRST@",
    f"playbook run recover-virtual-cluster --set vc={VC} --set source_gone=true": "bring snapshot @REDACTED@ into it",
    "playbook run recover-virtual-clusters --set source_gone=true": "bring snapshot @REDACTED@ into it",
    "playbook run recreate-job --set job=pi-estimate --set resource=etl-scripts --set files=@KEPT@/Vacuum.py":
        "delete resource etl-scripts with 6 files",
    "playbook run release --set snapshot=@SECOND@ --set reason=so": "release @SECOND@: so",
    f"playbook run restore-cluster --set clusters={ECS}": f"add cluster {ECS} from snapshot @SECOND@",
    "playbook run restore-deployment": "replace the whole configuration by snapshot @SECOND@",
    "playbook run restore-firewall": "put the kept firewall rules back on ds-01.example.internal",
    "playbook run restore-virtual-cluster --set on_conflict=skip --set source_gone=true": "1 job (spare)",
    "playbook run resume-schedules --set order=orders-ingest": "let 1 schedule go on",
    "playbook run retire-cluster --set cluster=base": "delete cluster base with 7 services",
    f"playbook run retire-ecs-cluster --set cluster={ECS}": "flush all firewall rules",
    "playbook run smoke-test": "smoke-…, run it once, and read its log",
    "playbook run start-cluster --set cluster=base": "start cluster base (nothing to do)",
    "playbook run start-platform --set clusters=base": "start cluster base (nothing to do)",
    "playbook run stop-cluster --set cluster=base": "stop cluster base (6 services)",
    "playbook run tls-switch": "TLS is on already",
    "playbook run truststore-password --set file=@NEW@/password": "hand the truststore password to file @NEW@/password",
    "playbook run upload-license --set file=@KEPT@/license.txt": "upload the licence of x",
}  # fmt: skip
# What says what it would do, or shows what it would write, without a plan.
TELLS = {
    "lab demo": "would show the main job",
    "lab up --folder @NEW@/lab": "would bring a lab up in @NEW@/lab",
    "lab down --folder @LAB@": "no lab is up",
    "lab break manager error-500 --folder @LAB@": "would set manager error-500",
    "site report --to @NEW@/pages": "would write pages into @NEW@/pages",
    "playbook test @KEPT@/test.yaml": "would try 1 test in a lab",
    "playbook schedule probe --form systemd --folder @NEW@/units": "### @NEW@/units/maint-playbook-probe-lab.timer",
    "playbook new own --folder @NEW@": "name: own",
    "playbook resume": "ask a person, for at most 12h: go on? [",
    "playbook resume @ASKING@": "ask a person, for at most 12h: go on? [",
    "playbook approve @ASKING@": "would be approved: go on?",
    "playbook dismiss @ASKING@ --reason so": "run @ASKING@ (own) would be dismissed",
    "playbook history --prune --keep 1": "there is no run to forget: the newest 1 stay, and what is younger than 90d",
    "playbook report @SETTING@": "would write the report of run @SETTING@",
    "backup list --rebuild": "would read every byte of 3 snapshots",
    "backup verify @FIRST@": "would verify @FIRST@ to level 3",
    "backup prune": "@FIRST@ remove no rule keeps it",
    "backup heal @REDACTED@ --from @FIRST@": "would fill snapshot @REDACTED@ from @FIRST@",
    "backup rekey --all --prune-old": "would encrypt @FIRST@ anew",
    "backup drill @FIRST@": "would restore snapshot @FIRST@ into a throw-away manager",
    "backup files @FIRST@ --extract /etc/default/cloudera-scm-server --to @NEW@/file": "to @NEW@/file: 377 bytes",
    "schedule install --form systemd --folder @NEW@/units": "### @NEW@/units/maint-backup-lab.timer",
    "host check --host base-01.example.internal --check os.thp --save-facts @NEW@/facts": "would keep in @NEW@/facts",
    "host trust": "no key recorded",
    "vc resource download --name etl-scripts --resource-path Vacuum.py --local-path @NEW@/Vacuum.py":
        "would write etl-scripts/Vacuum.py to @NEW@/Vacuum.py",
    "config init @NEW@/config.yaml": "would write a sample configuration to @NEW@/config.yaml",
    "notify test": "would tell a test to pager",
    "generate man --to @NEW@/man": "would be written to @NEW@/man",
    "generate bundle --to @NEW@/bundle.tar.gz": "into @NEW@/bundle.tar.gz",
}  # fmt: skip
# What only looks, with and without it, and a word of what is seen.
LOOKS = {
    "help": "A backup:", "version": "maint ", "lab status --folder @LAB@": "running", "site list": SITE,
    "site status": "answers", "cluster list": ECS, "service list": "zookeeper", "setting list --service hdfs": "'2'",
    "manager version": "API v", "playbook list": "stop-cluster", "playbook show probe": "server.probe",
    "playbook lint @KEPT@/asking.yaml": "no mistakes", "playbook history": "@ASKING@",
    "playbook diff @KEPT@/probe.json @KEPT@/stop.json": "parameter cluster null → base",
    "backup list": "@REDACTED@", "backup show @FIRST@": "restorable: yes", "backup diff @FIRST@ @SECOND@": "spare",
    "backup drift": "dfs_replication", "schedule show --folder @KEPT@/units": "OnCalendar", "host list": "base-01",
    "vc job list": "orders-ingest", "vc job describe --name orders-ingest": "spark", "vc resource list": "etl-scripts",
    "vc resource describe --name etl-scripts": "Vacuum.py", "vc run list": "orders-ingest",
    "vc run describe --id 41": "41", "vc run logs --id 41 --type driver/stdout": "", "vc drift": "spare",
    "vc status": "etl_user", "config show": "null", "config validate": "no mistakes", "config path": "config.yaml",
    "notify list": "pager", "generate systemd": "[Unit]", "generate schema": "$schema", "generate alerts": "groups:",
    "generate constraints": "typer==", "generate container": "container", "generate airflow": "DAG",
    "generate completion bash": "_maint_completion",
}  # fmt: skip
CODES = {"doctor": 1}  # what stands in the way of a restore is said: keys of hosts that nobody knows
LOOKS["doctor"] = "FAIL"
PYTHONS = re.compile(r"\b(None|True|False|[A-Z]\w*Error|Input should|Traceback)\b")  # words that mean nothing to users
PROVING = {"kinit", "klist", "kdestroy"}  # whether a keytab opens its account, in a private folder
VERSION = ["systemctl", "--version"]  # whether systemd hands over credentials: so the files are shown as they would be


class Ground(NamedTuple):
    """A lab in which each command has something to do, what to call what is there, and its files as they were last."""

    operator: Operator
    values: dict[str, str]
    files: dict[str, tuple[int, ...]]

    def spelled(self, text: str, new: Path) -> str:
        """Return a text; `@NAME@` stands for what is there, `@NEW@` for a new folder."""
        for name, value in {**self.values, "NEW": str(new)}.items():
            text = text.replace(f"@{name}@", value)
        return text


@pytest.fixture(scope="module")
def ground(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with Lab(copy(backed_up, tmp_path_factory.mktemp("dry") / "lab")) as lab:
        yield prepared(Operator(lab))


def prepared(operator: Operator) -> Ground:
    """Prepare a lab that was backed up."""
    lab, folder, config = operator.lab, operator.lab.folder, Path(operator.config)
    kept = folder / "kept"
    kept.mkdir()

    def do(line: str, code: int = 0) -> str:
        said = operator(*line.split(), "--yes", "--confirm", ECS)
        assert said.code == code, (line, said.out, said.err)
        return said.out

    def newest(what: str) -> str:
        return str(
            operator(*what.split(), "-o", "json").json["runs" if "run" in what or "play" in what else "snapshots"][-1][
                "id"
            ]
        )

    def one_step(name: str, step: str) -> str:
        (kept / name).write_text(ONE_STEP.format(step))
        return str(kept / name)

    first = newest("backup list")
    create = "vc job create --application-file local:/opt/app.py --name"
    do(f"{create} spare")
    do(f"{create} awake --every-days 3 --schedule-enabled true")
    back_up(operator)
    second = newest("backup list")
    do("backup create", code=7)
    redacted = newest("backup list")
    do(f"backup hold {second} --reason needed")
    do("setting set dfs_replication 2 --service hdfs")
    setting = newest("playbook history")
    do("vc job delete --name spare")
    deletion = newest("playbook history")
    do(f"cluster stop {ECS}")
    do(f"playbook run {one_step('flushing.yaml', FLUSHING)}")
    do(f"cluster start {ECS}")
    lab.break_("jobs-engine", "vc-run-stuck")
    do("vc job run --name pi-estimate")
    do(f"schedule install --form systemd --folder {kept}/units")
    (kept / "probe.json").write_text(do("playbook plan probe -o json"))
    (kept / "stop.json").write_text(do("playbook plan stop-cluster --set cluster=base -o json"))
    shutil.copy(ROOT / "tests/playbooks/probe.yaml", kept / "test.yaml")
    (kept / "Vacuum.py").write_text("print(1)\n")
    (kept / "license.txt").write_text('{"name": "x", "uuid": "another", "expirationDate": "2099-01-01"}')
    asking = waiting(operator, one_step("asking.yaml", ASKING))
    values = {
        "FIRST": first, "SECOND": second, "REDACTED": redacted, "SETTING": setting, "DELETION": deletion,
        "ACTIVE": newest("vc run list"), "ASKING": asking, "KEPT": str(kept), "LAB": str(folder),
    }  # fmt: skip
    config.write_text(reconfigured(config.read_text(), folder))
    (operator.state / "keys/signing.pub").unlink()  # who signs next keeps it again
    return Ground(operator, values, stamps(folder))


def reconfigured(text: str, folder: Path) -> str:
    """Return a lab's config with a new recipient, a policy, a copy, a way of telling, a host and a user more."""
    new, recipient = age_key()
    (folder / "identity").write_text(f"{(folder / 'identity').read_text().strip()}\n{new}\n")
    [old] = re.findall(r"age1\w+", text)
    [port] = re.findall(r'name: "base-01[^}]*?port: (\d+)', text, re.DOTALL)
    host = f"    hosts:\n      - {{name: spare.example.internal, address: localhost, port: {port}, groups: [spare]}}\n"
    pager = "    notify: [{name: pager, exec: {command: [/bin/true]}}]\n"
    for before, after in (
        (old, recipient),
        ("    backup:\n", f"{pager}    backup:\n      keep: {{last: 1}}\n      minimum: 1\n      copies: [second]\n"),
        ("    hosts:\n", host),
        ('          - name: "deuser1"\n', '          - name: "other"\n'),
    ):
        assert before in text, before
        text = text.replace(before, after)
    text = re.sub(r"      - name: \"?base-0[23].*\n(?:        .*\n)+", "", text)  # as base-01 is, and each takes time
    return re.sub(r"        tls:\n          cert: .*\n          key: .*\n", "", text)


def waiting(operator: Operator, book: str) -> str:
    """Leave a run whose question nobody has answered, and that was killed; return its id."""
    with operator.fork("playbook", "run", book, "--yes") as begun:
        asked = list[Path]()
        while not asked:
            assert begun.poll() is None, begun.communicate()
            texts = {one: one.read_text() for one in (operator.state / "runs").glob("*.jsonl")}
            asked = [one for one, text in texts.items() if '"until"' in text.partition('"token"')[2]]
        begun.kill()
    return asked[0].stem


@contextmanager
def without(operator: Operator, cluster: str) -> Iterator[None]:
    """Have a manager lack a cluster meanwhile."""
    deployment = operator.lab.world.deployment
    held = {key: deployment[key] for key in ("clusters", "hostTemplates")}
    deployment["clusters"] = [one for one in held["clusters"] if one["name"] != cluster]
    templates = [one for one in held["hostTemplates"]["items"] if cluster not in str(one["clusterRef"])]
    deployment["hostTemplates"] = {"items": templates}
    yield
    deployment.update(held)


def stamps(*folders: Path) -> dict[str, tuple[int, ...]]:
    """Return all files that a command could change, each with what tells whether it did."""
    logs = ("/var/log/", "commands.jsonl", "requests.jsonl", "daemon.log", "/world/")  # the lab's own
    found, todo = dict[str, tuple[int, ...]](), [str(folder) for folder in folders]
    while todo:
        for entry in os.scandir(todo.pop()):
            if entry.is_dir(follow_symlinks=False):
                todo.append(entry.path)
            elif not any(log in entry.path for log in logs):
                told = entry.stat(follow_symlinks=False)
                found[entry.path] = (told.st_ino, told.st_mode, told.st_size, told.st_ctime_ns)
    return found


def test_each_command_and_each_shipped_playbook_is_tried() -> None:
    lines = [*PLANS, *TELLS, *LOOKS]
    assert {name for name in COMMANDS for line in lines if f"{line} ".startswith(f"{name} ")} == set(COMMANDS)
    run = {line.split()[2] for line in lines if line.startswith("playbook run ")}
    assert run == set(playbooks())
    fronts = {one.split()[0] for place, *_ in COMMANDS.values() for one in loaded(place).playbooks}
    assert fronts <= set(playbooks())


def declared(line: str) -> set[str]:
    """Return the playbooks that a command says it carries out with these words."""
    (place,) = (place for name, (place, *_) in COMMANDS.items() if f"{line} ".startswith(f"{name} "))
    said = (one.split() for one in loaded(place).playbooks)
    return {name for name, *words in said if {one for one in words if one.startswith("--")} <= set(line.split())}


@pytest.mark.parametrize("line", [*PLANS, *TELLS, *LOOKS])
def test_a_dry_run_shows_what_would_be_done_and_writes_sends_and_starts_nothing(
    line: str, ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, temporary, new = tmp_path / "home", tmp_path / "temporary", tmp_path / "new"
    for folder in (home, temporary, new):
        folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("COLUMNS", "10000")
    started: list[object] = []
    real = subprocess.Popen

    def spied(words: list[str], **more: object) -> object:
        if words[0] not in PROVING and words != VERSION:
            started.append(words)
        return real(words, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", spied)
    operator = ground.operator
    with without(operator, ECS) if "restore-cluster" in line else nullcontext():
        operator.forget_requests()
        words = ground.spelled(line, new).split()
        said = operator(*words, "--dry-run", "--yes", "--confirm", SITE, HOME=str(home), XDG_STATE_HOME="")
    assert said.code == CODES.get(line, 0), said.err
    told = re.sub(r" +", " ", said.out + said.err)
    assert ground.spelled({**PLANS, **TELLS, **LOOKS}[line], new) in told
    planned = {*re.findall(r"^plan (\S+) for site", said.out, re.MULTILINE)} & {*playbooks()}
    assert line.startswith(("playbook ", "restore plan")) or planned <= declared(line)
    assert (line in PLANS) == bool(re.match(r"plan .* \(digest \w{12}\)\n +1\. (READ|CHANGE|DESTROY) ", said.out))
    assert line.startswith("generate ") or PYTHONS.search(told) is None
    assert operator.sent == []
    assert started == []
    assert stamps(home, new) == {}
    before, after = ground.files.copy(), stamps(operator.lab.folder)
    ground.files.clear()
    ground.files.update(after)
    assert after == before
    assert list(temporary.iterdir()) == []


def test_a_dry_run_prints_json_that_fits_the_published_schema(ground: Ground, tmp_path: Path) -> None:
    wrong, known = [], {*schema_of("output")["properties"]}
    for line in TELLS:
        said = ground.operator(*ground.spelled(line, tmp_path).split(), "--dry-run", "-o", "json", "--yes")
        schema = schema_of("output", next(name for name in COMMANDS if f"{line} ".startswith(f"{name} ")))
        if said.code or not fits(said.json, schema, schema["$defs"]) or not {*said.json} <= known:
            wrong.append((line, said))
    assert wrong == []
