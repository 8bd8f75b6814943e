"""A recovery goes on to virtual clusters: it stops for what only the vendor's UI can do, and takes up from there."""

import json
import os
import random
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from maint.lab.create import SITE
from maint.lab.virtual_clusters.cluster import Cluster
from maint.model.virtual_cluster import normal_job
from tests.restore.recovery.conftest import FIRST, SECOND
from tests.steps.operator import Operator, Said

RESTORE = ("restore", "run", "--confirm", SITE)


def create(operator: Operator, name: str, **more: bool) -> str:
    """Make a virtual cluster as the vendor's UI does, and return its address."""
    assert operator.lab.service
    return operator.lab.service.addresses(operator.lab.service.create(name, **more))[0]


def cluster(operator: Operator, name: str) -> Cluster:
    assert operator.lab.service
    return operator.lab.service.cluster(name)


def resume(operator: Operator, **told: str) -> Said:
    """Take the run up; `first_base_url` stands for `vc.NAME.base_url` of the first virtual cluster."""
    names = {"first": FIRST, "second": SECOND}
    given = [(key.partition("_")[0], key.partition("_")[2], value) for key, value in told.items()]
    words = [word for name, field, value in given for word in ("--set", f"vc.{names[name]}.{field}={value}")]
    return operator("playbook", "resume", *words)


def jobs(operator: Operator, name: str) -> dict[str, Any]:
    return {str(job["name"]): normal_job(job, pauses=False) for job in cluster(operator, name).jobs.values()}


def awake(operator: Operator, name: str) -> list[str]:
    schedules = {str(job["name"]): job.get("schedule") or {} for job in cluster(operator, name).jobs.values()}
    return [job for job, schedule in schedules.items() if schedule.get("enabled") and not schedule.get("paused")]


def journal_text(operator: Operator) -> bytes:
    return sorted((operator.state / "runs").glob("*.jsonl"))[-1].read_bytes()


def report(operator: Operator, kind: str = "md") -> str:
    return max((operator.state / "reports").glob(f"*.{kind}")).read_text()


def test_it_stops_and_names_all_that_is_missing_and_each_comes_back_once_its_address_is_told_as_the_report_tells(
    waiting: Operator, stopped: Path
) -> None:
    said = (stopped.parent / "said").read_text()
    for name in (FIRST, SECOND):
        assert f"virtual cluster {name} is missing" in said
        assert f"create a virtual cluster {name}" in said
        assert f"--set vc.{name}.base_url=…" in said
    run = waiting("playbook", "history", "-o", "json").json["runs"][-1]
    assert (run["playbook"], run["state"]) == ("disaster-recovery", "unfinished")
    waiting.forget_requests()
    again = resume(waiting)
    assert (again.code, waiting.sent) == (1, [])
    assert f"maint playbook resume {run['id']} --set vc.{FIRST}.base_url=… --set vc.{SECOND}.base_url=…" in again.err
    assert "| manager | back |" in report(waiting)
    addresses, config = {name: create(waiting, name) for name in (FIRST, SECOND)}, Path(waiting.config)
    config.write_text(re.sub(r"\n +tls:\n +cert: .*\n +key: .*", "", config.read_text()))  # the utility makes its own
    first = resume(waiting, second_base_url=addresses[SECOND])
    assert first.code == 1, first.err
    assert f"virtual cluster {FIRST} is missing" in first.err and f"{SECOND} is missing" not in first.err
    assert list(jobs(waiting, SECOND)) == ["report"]
    waiting.forget_requests()
    last = resume(waiting, first_base_url=addresses[FIRST])
    assert last.code == 0, last.err
    assert len(jobs(waiting, FIRST)) == 8
    assert awake(waiting, FIRST) == []
    assert [len(cluster(waiting, name).runs.values()) for name in (FIRST, SECOND)] == [1, 1]  # the smoke test's
    assert not any(name.startswith("maint-") for name in (*jobs(waiting, FIRST), *jobs(waiting, SECOND)))
    for kind in ("md", "html"):
        told = report(waiting, kind)
        for name in ("manager", f"virtual cluster {FIRST}", f"virtual cluster {SECOND}"):
            assert name in told
        assert f"maint playbook run resume-schedules --set vc={FIRST}" in told
        assert "put it into the config" in told and f"certificates/{FIRST}.pem" in told
    assert "resume-schedules" in last.err
    assert waiting.puts == 0


def test_where_what_came_back_does_not_start_the_line_that_goes_on_with_the_rest_is_kept(lost_all: Operator) -> None:
    lost_all.lab.break_("commands", "command-fails-in-parent")
    said = lost_all(*RESTORE, "--then-start", "--yes")
    assert said.code == 1
    assert "Failed to perform ImportKdcAccountManagerCredentials" in said.err
    rest = rf"`maint playbook resume \S+ --set vc\.{FIRST}\.base_url=… --set vc\.{SECOND}\.base_url=…`"
    assert re.search(rf"hint: .*`maint playbook resume \S+`; then {rest}", said.err), said.err


def test_what_makes_no_sense_is_refused_and_what_is_left_names_the_address_where_one_is_looked_for_by_now(
    waiting: Operator,
) -> None:
    config, (was, *_) = Path(waiting.config), addresses_left(waiting("playbook", "resume", "--dry-run"))
    text = config.read_text()
    address = create(waiting, FIRST)
    for told in (["--set", f"vc.{FIRST}.base_url={address}"], []):
        if not told:
            config.write_text(config.read_text().replace(was, address))
        said = waiting("playbook", "resume", "--dry-run", *told)
        assert said.code == 0, said.err
        assert address in addresses_left(said) and was not in said.out
        shown = waiting("playbook", "resume", "--dry-run", "-o", "json", *told)
        assert f"find it at {address}" in shown.out and f"find it at {was}" not in shown.out
    config.write_text(text)
    other = create(waiting, SECOND)
    before = journal_text(waiting)
    waiting.forget_requests()
    wrong = {
        f"vc.nobody.base_url={address}": (3, "did you mean"),
        f"vc.{FIRST}.base_ur={address}": (3, "base_url"),
        f"cluster={FIRST}": (3, "vc.NAME"),
        f"vc.{FIRST}.base_url={address.removesuffix('/api/v1')}": (3, "/dex/api/v1"),
        f"vc.{FIRST}.base_url=http://elsewhere.example/dex/api/v1": (3, "https://"),
        f"vc.{FIRST}.skip=perhaps": (3, "true or false"),
        f"vc.{FIRST}.ca=/nowhere": (3, "no such file"),
        f"vc.{FIRST}.base_url={address.replace('https://', 'https://x')}": (5, "nothing answers"),
        f"vc.{FIRST}.base_url": (2, "key=value"),
    }
    for words, (code, told) in wrong.items():
        said = waiting("playbook", "resume", "--set", words)
        assert (said.code, told in said.err) == (code, True), (words, said.err)
    both = ["--set", f"vc.{FIRST}.base_url={other}", "--set", f"vc.{SECOND}.base_url={other}"]
    assert waiting("playbook", "resume", *both).code == 5
    assert journal_text(waiting) == before
    assert waiting.sent == []


def addresses_left(said: Said) -> list[str]:
    return re.findall(r"find it at (\S+/dex/api/v1)", said.out)


def test_the_address_of_another_virtual_cluster_changes_nothing_in_it_also_where_nobody_can_look_into_it_yet(
    waiting: Operator,
) -> None:
    config, service = Path(waiting.config).read_text(), waiting.lab.service
    assert service
    for more in ({"initialised": True}, {"loaded": True, "initialised": True}, {}):
        address = create(waiting, "spare", **more)
        Path(waiting.config).write_text(config)  # which does not know it
        if not more:
            cluster(waiting, "spare").put_secret("etl---user-krb5-secret", {"etl---user-krb5-secret": b"theirs"})
        secrets, held = dict(cluster(waiting, "spare").secrets), jobs(waiting, "spare")
        waiting.forget_requests()
        said = resume(waiting, first_base_url=address, second_skip="true")
        assert (said.code, "it calls itself spare" in said.err) == (5, True), (more, said.err)
        assert not more or f"--set vc.{FIRST}.confirmed=true" in said.err, said.err
        assert (jobs(waiting, "spare"), not more or waiting.sent == []) == (held, True), more
        assert dict(cluster(waiting, "spare").secrets) == secrets, more
        service.delete("spare")
        Path(waiting.config).write_text(config)


def test_where_names_are_taken_nothing_is_touched_and_one_that_holds_something_else_wants_the_operators_word(
    waiting: Operator,
) -> None:
    address = create(waiting, FIRST, loaded=True, initialised=True)
    held = jobs(waiting, FIRST)
    waiting.forget_requests()
    said = resume(waiting, first_base_url=address, second_skip="true")
    assert said.code == 5, said.err
    assert "not a fresh virtual cluster" in said.err and "maint playbook resume" in said.err
    assert (jobs(waiting, FIRST), waiting.sent) == (held, [])
    assert waiting.lab.service
    waiting.lab.service.delete(FIRST)
    address = create(waiting, FIRST, initialised=True)  # another address begins anew
    cluster(waiting, FIRST).jobs.put("theirs", {"name": "theirs", "type": "spark", "schedule": {"enabled": False}})
    waiting.forget_requests()
    said = resume(waiting, first_base_url=address)
    assert (said.code, "it holds what the snapshot does not know: theirs" in said.err) == (5, True), said.err
    assert (list(jobs(waiting, FIRST)), waiting.sent) == (["theirs"], [])
    waiting.lab.world.faults.add("jobs", "vc-html-200")  # somebody answers there, and it is not a jobs API yet
    said = resume(waiting, first_confirmed="true", first_initialised="true")
    assert (said.code, f"{FIRST} is not ready" in said.err, "playbook resume" in said.err) == (1, True, True), said.err
    assert list(jobs(waiting, FIRST)) == ["theirs"]
    said = resume(waiting)
    assert said.code == 7, said.err
    assert "Its users have their Kerberos secrets: not needed" in said.err  # the control plane saw to it, as was said
    assert f"{SECOND} is left out" in said.err
    assert len(jobs(waiting, FIRST)) == 9
    command = f"playbook run recover-virtual-clusters --set virtual_clusters={SECOND}"
    assert "left out" in report(waiting) and f"`maint {command} --site lab`" in report(waiting)
    again = waiting(*command.split(), "--yes")
    assert again.code == 1, again.err
    assert f"--set vc.{SECOND}.base_url=…" in again.err
    said = resume(waiting, second_base_url=create(waiting, SECOND))
    assert (said.code, list(jobs(waiting, SECOND))) == (0, ["report"]), said.err


def test_a_virtual_cluster_that_was_not_lost_is_left_as_it_is(standing: Operator) -> None:
    held = jobs(standing, FIRST)
    standing.forget_requests()
    said = standing(*RESTORE)
    assert said.code == 0, said.err
    assert jobs(standing, FIRST) == held
    made = [line for line in standing.sent if "/dex/" in line and "maint-" not in line and "POST" not in line]
    assert made == []
    assert "it was not lost: 8 jobs" in report(standing)


def test_a_new_address_in_the_config_needs_no_stop_but_proof_that_the_source_is_gone(standing: Operator) -> None:
    config = Path(standing.config)
    old, new = json.dumps(standing.lab.status()["virtual_clusters"]), create(standing, "spare")
    was = next(each["base_url"] for each in json.loads(old) if each["name"] == FIRST)
    config.write_text(config.read_text().replace(was, new))
    standing.forget_requests()
    said = standing(*RESTORE)
    assert (said.code, standing.sent) == (5, []), said.err
    assert "still answers" in said.err and "--source-gone" in said.err and "--manager-only" in said.err
    said = standing(*RESTORE, "--source-gone")
    assert (said.code, jobs(standing, "spare")) == (5, {}), said.err
    assert "it calls itself spare" in said.err
    said = resume(standing, first_confirmed="true")
    assert said.code == 0, said.err
    assert len(jobs(standing, "spare")) == 8
    assert awake(standing, "spare") == []


@pytest.mark.parametrize("lines", range(1, 80) if os.environ.get("MAINT_CAMPAIGN") else [24])
def test_killed_anywhere_after_the_manager_is_back_nothing_is_done_twice(waiting: Operator, lines: int) -> None:
    addresses = [create(waiting, FIRST), create(waiting, SECOND)]
    told = [word for name, url in zip((FIRST, SECOND), addresses, strict=True)
            for word in ("--set", f"vc.{name}.base_url={url}")]  # fmt: skip
    waiting.forget_requests()
    process = waiting.fork("playbook", "resume", *told)
    end = journal_text(waiting).count(b"\n") + lines
    while process.poll() is None and journal_text(waiting).count(b"\n") < end:
        time.sleep(0.001)
    time.sleep(random.Random(lines).choice((0, 0, 0.01, 0.1)))  # also between two lines
    process.kill()
    process.communicate()
    if process.returncode == -signal.SIGKILL:
        said = waiting("playbook", "resume", *told)
        assert said.code == 0, said.err
    assert (len(jobs(waiting, FIRST)), list(jobs(waiting, SECOND))) == (8, ["report"])
    assert awake(waiting, FIRST) == []
    assert [len(cluster(waiting, name).runs.values()) for name in (FIRST, SECOND)] == [1, 1]
    created = [line for line in waiting.done if line.startswith("POST") and line.endswith(("/jobs", "/resources"))]
    assert len(created) == 8 + 4 + 1 + 1 + 2 * 2  # jobs and resources of both, and those of two smoke tests
