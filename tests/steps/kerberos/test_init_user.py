"""A user gets its Kerberos secrets: the old ones or the new ones, whatever happens on the way, and no copy is left."""

import base64
import json
import os
import re
import sys

import pytest

from maint.lab.create import SITE
from maint.lab.hosts.shell.executor import run
from maint.lab.virtual_clusters import cluster as kerberos
from tests.steps.kerberos.conftest import FIRST, MASTER, PRINCIPAL, SECOND, USER, secrets_of
from tests.steps.kerberos.kdc import AHEAD

INIT = ("vc", "init-user", FIRST, USER, "--yes")
UNDONE = r"`maint vc undo (\S+)(?: --vc \S+)?` brings"


def wanted(owner):
    path = owner.folder / "user.keytab"
    return [f"{PRINCIPAL}\n".encode(), path.read_bytes()]


def whole(owner):
    """The user has what the config says; nothing is left of how it came there."""
    assert list(secrets_of(owner).values()) == wanted(owner)
    assert owner.private == []
    assert not list((owner.state / "user-secrets").glob("*"))
    assert len(list((owner.state / "undo").glob("*"))) == len(list((owner.state / "vc-undo").glob("*.json")))


def clean(owner):
    assert owner.private == []
    assert not list((owner.state / "undo").glob("*"))
    assert not list((owner.state / "user-secrets").glob("*"))


@pytest.fixture(params=["yes", "no"], ids=["server-side-apply", "script"])
def way(request, owner):
    owner.lab.switch("vc-server-side-apply", request.param)
    return request.param


def test_the_secrets_are_written_once_shown_nowhere_and_what_was_replaced_comes_back_and_what_replaced_it(owner, way):
    before = secrets_of(owner)
    said = owner(*INIT, "--dry-run")
    assert said.code == 0
    assert ("server-side apply" if way == "yes" else "which deletes before it creates") in said.out
    assert secrets_of(owner) == before
    clean(owner)
    said = owner(*INIT)
    assert said.code == 0, said.err
    assert "kinit with it works" in said.err
    whole(owner)
    assert owner.cluster().kerberos == {USER: PRINCIPAL}
    assert any("cde-utils" in line and "init-user" in line for line in owner.heard) == (way == "no")
    assert not any("delete" in line for line in owner.heard)
    heard = len(owner.heard)
    assert owner(*INIT).code == 0
    assert not any("apply" in line or "init-user" in line for line in owner.heard[heard:])
    shows_no_keytab(owner)
    run_id = re.search(UNDONE, said.err)[1]
    shown = owner("vc", "undo", run_id, "--dry-run")
    assert f"bring back keytab {USER}; what is there under its name is sealed and REPLACED" in shown.out
    back = owner("vc", "undo", run_id, "--yes")
    assert (back.code, secrets_of(owner)) == (0, before), back.err
    again = owner("vc", "undo", re.search(UNDONE, back.err)[1], "--yes")
    assert again.code == 0, again.err
    assert list(secrets_of(owner).values()) == wanted(owner)
    shows_no_keytab(owner)


def shows_no_keytab(owner):
    """No command line, journal or report holds it."""
    content = (owner.folder / "user.keytab").read_bytes()
    spellings = [content, base64.b64encode(content)[:40], content.hex().encode()[:40]]
    said = "\n".join(owner.heard).encode()
    files = [path.read_bytes() for path in owner.state.rglob("*") if path.is_file()]
    assert files
    assert not [spelling for spelling in spellings for text in (said, *files) if spelling in text]


def test_a_run_that_was_killed_once_all_was_written_keeps_the_old_ones_when_it_is_taken_up(owner):
    before = secrets_of(owner)
    stopped_once_written(owner)
    said = owner("playbook", "resume", "--yes")
    assert said.code == 0, said.err
    run_id = re.search(UNDONE, said.err)[1]
    assert owner("vc", "undo", run_id, "--yes").code == 0
    assert secrets_of(owner) == before


@pytest.mark.parametrize("at", ["delete", "create", "create-keytab"])
def test_where_the_script_fails_the_old_secrets_come_back(owner, at):
    owner.lab.switch("vc-server-side-apply", "no")
    before = secrets_of(owner)
    owner.lab.break_(f"kubectl-{at}", "vc-kubectl-fails")
    said = owner(*INIT)
    assert said.code == 1
    assert "InternalError" in said.err
    assert secrets_of(owner) == before
    clean(owner)


def test_where_apply_fails_half_way_the_old_secrets_come_back_and_what_is_to_be_looked_at_can_be_typed(owner):
    before = secrets_of(owner)
    owner.lab.break_("kubectl-apply-keytab", "vc-kubectl-fails")
    said = owner(*INIT, "-o", "json")
    assert said.code == 1
    assert secrets_of(owner) == before
    clean(owner)
    typed = run(owner.lab.machines[MASTER], re.match(f"on {MASTER}: `([^`]*)`", said.error["hint"])[1])
    assert (typed.status, typed.err) == (0, b"") and b"etl---user-krb5-secret" in typed.out


def test_a_user_who_had_none_has_none_again_when_it_fails(owner, way):
    cluster = owner.cluster()
    with cluster.lock:
        cluster.set_kerberos(USER, None)
    owner.lab.break_("kubectl-apply-keytab" if way == "yes" else "kubectl-create-keytab", "vc-kubectl-fails")
    assert owner(*INIT).code == 1
    assert secrets_of(owner) == {}
    clean(owner)


@pytest.mark.parametrize(
    ("apply", "at"),
    [
        ("yes", "get"),
        ("yes", "apply"),
        ("yes", "apply-keytab"),
        ("no", "delete"),
        ("no", "create"),
        ("no", "create-keytab"),
    ],
)
def test_killed_at_any_step_the_user_has_the_old_or_the_new_ones(owner, apply, at):
    owner.lab.switch("vc-server-side-apply", apply)
    before = list(secrets_of(owner).values())
    killed_at(owner, f"kubectl-{at}", "vc-kubectl-slow")
    owner.quiet()
    if apply == "no":  # what the host has begun it ends by itself
        whole_there = list(secrets_of(owner).values())
        assert whole_there in (before, wanted(owner))
        assert owner.private == []
    present = list(secrets_of(owner).values())
    assert all(now in pair for now, *pair in zip(present, before, wanted(owner), strict=True))
    finish(owner, begun=at != "get")


@pytest.mark.parametrize(("apply", "at"), [("yes", "apply-keytab"), ("no", "delete"), ("no", "create")])
def test_stopped_by_a_signal_it_leaves_the_old_or_the_new_ones(owner, apply, at):
    owner.lab.switch("vc-server-side-apply", apply)
    before = secrets_of(owner)
    owner.lab.break_(f"kubectl-{at}", "vc-kubectl-slow")
    process = owner.fork(*INIT)
    owner.struck()
    process.terminate()
    process.communicate()
    assert process.returncode == 143
    if list(secrets_of(owner).values()) == list(before.values()):
        clean(owner)
    else:
        whole(owner)
        run_id = owner("playbook", "history", "-o", "json").json["runs"][-1]["id"]
        said = owner("vc", "undo", run_id, "--yes")
        assert (said.code, secrets_of(owner)) == (0, before), said.err


def finish(owner, *, begun=True):
    """Take the run up, which is refused where it had not begun, and begin; the user has the new ones then."""
    assert owner("playbook", "resume").code == (0 if begun else 5)
    assert owner(*INIT).code == 0
    whole(owner)


@pytest.mark.parametrize("at", ["delete", "create", "create-keytab"])
def test_where_the_host_dies_in_the_middle_of_the_script_resume_ends_with_the_new_ones(owner, at):
    owner.lab.switch("vc-server-side-apply", "no")
    killed_at(owner, f"kubectl-{at}", "vc-kubectl-hangs")
    finish(owner)


def test_a_run_that_nobody_took_up_does_not_make_its_leftovers_the_old_secrets(owner):
    """The first run dies between delete and create; the next one fails: what comes back is what was there at first."""
    owner.lab.switch("vc-server-side-apply", "no")
    before = secrets_of(owner)
    killed_at(owner, "kubectl-create", "vc-kubectl-hangs")
    assert secrets_of(owner) == {}
    owner.lab.break_("kubectl-create-keytab", "vc-kubectl-fails")
    assert owner(*INIT).code == 1
    assert secrets_of(owner) == before
    clean(owner)


def killed_amid_a_secret(owner):
    """Begin, and kill it while kubectl makes a secret of what lies in its private folder."""
    owner.lab.switch("vc-server-side-apply", "no")
    killed_at(owner, "kubectl-create", "vc-kubectl-hangs")


def test_copies_that_a_killed_run_left_are_wiped_by_the_next_one(owner):
    killed_amid_a_secret(owner)
    assert owner.private
    assert all(path.stat().st_mode & 0o077 == 0 for path in owner.private)
    owner.lab.switch("vc-server-side-apply", "yes")
    assert owner(*INIT).code == 0
    whole(owner)


def test_the_script_is_called_with_absolute_paths_in_a_folder_of_its_own_and_without_kinit_it_is_said_and_skipped(
    owner, tmp_path
):
    """A name with blanks or quotes in the script's path does no harm, nor another address that tells no ids."""
    machine, bare = owner.lab.machines[MASTER], tmp_path / "bin"
    place = "/opt/it's mine/cde-utils.sh"
    machine.files.write(place, machine.files.read("/opt/cloudera/cde-utils.sh"), 0o755)
    owner.vc()["utility"] = place
    clusters = owner.settings["sites"][SITE]["virtual_clusters"]
    clusters.insert(0, {**owner.vc(), "name": "elsewhere", "base_url": "https://10.1.2.3/dex/api/v1"})
    owner.lab.switch("vc-server-side-apply", "no")
    bare.mkdir()
    said = owner(*INIT, PATH=str(bare))
    assert said.code == 0, said.err
    assert "not tried with kinit: it is not installed here" in said.err
    whole(owner)
    assert run(machine, "ls -A /run | grep maint").out == b""


def test_where_this_machines_clock_is_off_it_is_said_why_kinit_told_nothing_and_what_next(owner, tmp_path):
    bare, strict = tmp_path / "bin", tmp_path / "strict.conf"
    bare.mkdir()
    strict.write_text(
        (owner.kdc.folder / "krb5.conf").read_text().replace("[libdefaults]", "[libdefaults]\n kdc_timesync = 0")
    )
    (bare / "kinit").write_text(f'#!/bin/sh\nexec {sys.executable} -c \'{AHEAD}\' "$4" "$3" -420\n')
    (bare / "kinit").chmod(0o755)
    there = {"PATH": f"{bare}:{os.environ['PATH']}", "KRB5_CONFIG": str(strict)}
    shown = owner(*INIT, "--dry-run", **there)
    words = "not tried with kinit: Clock skew too great while getting initial credentials; to have it tried: chronyc"
    assert words in " ".join(shown.out.split()), shown.out
    said = owner(*INIT, **there)
    assert (said.code, words in " ".join(said.err.split())) == (0, True), said.err
    whole(owner)


BOTH = f"""\
name: both-users
summary: Give the user of each virtual cluster its keys.
steps:
  - name: Give the user its keys
    do: vc.init_user
    each: [{FIRST}, {SECOND}]
    with: {{vc: "{{{{ item }}}}", user: {USER}}}
"""


def test_what_a_run_replaced_in_several_virtual_clusters_comes_back_in_its_own(owner):
    owner.vc(SECOND)["users"] = owner.vc()["users"]
    second = owner.cluster(SECOND)
    with second.lock:
        second.set_kerberos(USER, PRINCIPAL)
    before = [dict(owner.cluster(name).secrets) for name in (FIRST, SECOND)]
    assert before[0] != before[1]
    playbook = owner.folder / "both-users.yaml"
    playbook.write_text(BOTH)
    said = owner("playbook", "run", str(playbook), "--yes")
    assert said.code == 0, said.err
    run_id = re.search(UNDONE, said.err)[1]
    assert [dict(owner.cluster(name).secrets) for name in (FIRST, SECOND)] != before
    back = owner("vc", "undo", run_id, "--vc", FIRST, "--yes")
    assert back.code == 0, back.err
    assert dict(owner.cluster().secrets) == before[0]
    assert dict(second.secrets) != before[1], "the other one was not meant"
    assert owner("vc", "undo", run_id, "--yes").code == 0
    assert [dict(owner.cluster(name).secrets) for name in (FIRST, SECOND)] == before


def test_what_an_earlier_version_kept_of_a_virtual_cluster_comes_back(owner):
    before = secrets_of(owner)
    said = owner(*INIT)
    run_id = re.search(UNDONE, said.err)[1]
    record = owner.state / "vc-undo" / f"{run_id}.json"
    written = json.loads(record.read_text())
    del written["objects"][0]["vc"]
    record.write_text(json.dumps(written))
    assert owner("vc", "undo", run_id, "--vc", SECOND, "--yes").code == 5
    assert owner("vc", "undo", run_id, "--yes").code == 0
    assert secrets_of(owner) == before


def stopped_once_written(owner):
    """Give the user its keys, but be killed before that is seen; return the run."""
    owner.lab.switch("vc-server-side-apply", "yes")
    killed_at(owner, "kubectl-apply-keytab", "vc-kubectl-slow")
    owner.quiet()
    assert list(secrets_of(owner).values()) == wanted(owner)
    return max(path.stem for path in (owner.state / "runs").glob("*.jsonl"))


def killed_at(owner, at, fault):
    owner.lab.break_(at, fault)
    process = owner.fork(*INIT)
    owner.struck()
    process.kill()
    process.communicate()


@pytest.mark.parametrize("fault", ["vc-kubectl-slow", "vc-kubectl-hangs"])
@pytest.mark.parametrize("apply", ["yes", "no"])
def test_a_killed_run_that_nobody_takes_up_can_be_undone(owner, apply, fault):
    owner.lab.switch("vc-server-side-apply", apply)
    before = secrets_of(owner)
    killed_at(owner, "kubectl-apply-keytab" if apply == "yes" else "kubectl-create-keytab", fault)
    run_id = max(path.stem for path in (owner.state / "runs").glob("*.jsonl"))
    said = owner("vc", "undo", run_id, "--yes")  # which waits for what the host has begun
    assert (said.code, secrets_of(owner)) == (0, before), said.err
    assert owner(*INIT).code == 0
    whole(owner)


def test_the_run_that_goes_on_from_a_half_change_is_the_one_that_can_be_undone(owner):
    before = half_changed(owner)
    first = max(path.stem for path in (owner.state / "runs").glob("*.jsonl"))
    said = owner(*INIT)
    assert said.code == 0, said.err
    whole(owner)
    assert owner("vc", "undo", first, "--yes").code == 5
    run_id = re.search(UNDONE, said.err)[1]
    assert owner("vc", "undo", run_id, "--yes").code == 0
    assert secrets_of(owner) == before


def test_each_run_brings_back_what_was_there_before_it_although_nobody_took_up_the_one_before(owner):
    before = secrets_of(owner)
    first = stopped_once_written(owner)
    between = secrets_of(owner)
    owner.give(owner.kdc.keytab(PRINCIPAL))
    said = owner(*INIT)
    assert said.code == 0, said.err
    whole(owner)
    earlier, second = re.findall(UNDONE, said.err)
    assert earlier == first
    assert owner("vc", "undo", second, "--yes").code == 0
    assert secrets_of(owner) == between
    assert owner("vc", "undo", first, "--yes").code == 0
    assert secrets_of(owner) == before


def test_a_record_of_an_earlier_version_does_not_say_whose_it_is_and_counts_for_the_present_run(owner):
    before = secrets_of(owner)
    stopped_once_written(owner)
    (record,) = (owner.state / "user-secrets").glob("*")
    written = json.loads(record.read_text())
    written.pop("run", None)
    record.write_text(json.dumps(written))
    said = owner(*INIT)
    assert said.code == 0, said.err
    second = re.search(UNDONE, said.err)[1]
    assert owner("vc", "undo", second, "--yes").code == 0
    assert secrets_of(owner) == before


def test_what_a_run_wrote_that_went_on_from_a_half_change_is_not_taken_for_half_itself(owner):
    killed_amid_a_secret(owner)
    owner.give(owner.kdc.keytab(PRINCIPAL))
    stopped_once_written(owner)
    between = secrets_of(owner)
    owner.give(owner.kdc.keytab(PRINCIPAL))
    said = owner(*INIT)
    assert said.code == 0, said.err
    assert owner("vc", "undo", re.findall(UNDONE, said.err)[-1], "--yes").code == 0
    assert secrets_of(owner) == between


def half_changed(owner):
    """Begin, and die with one of the two secrets written; return what there was before."""
    owner.lab.switch("vc-server-side-apply", "no")
    before = secrets_of(owner)
    killed_amid_a_secret(owner)
    owner.lab.repair()
    return before


@pytest.mark.parametrize("fails", [False, True])
def test_secrets_that_somebody_wrote_over_a_half_change_are_kept_and_not_replaced_by_the_ones_before(owner, fails):
    half_changed(owner)
    theirs, space = owner.kdc.keytab(PRINCIPAL), f"dex-app-{owner.cluster().identity.id}"
    for name, content in zip(kerberos.secret_names(USER), (f"{PRINCIPAL}\n".encode(), theirs), strict=True):
        owner.lab.kubernetes.put(space, name, {name: content})
    between = secrets_of(owner)
    owner.give(owner.kdc.keytab(PRINCIPAL))
    if fails:
        owner.lab.break_("kubectl-delete", "vc-kubectl-fails")
    said = owner(*INIT)
    assert said.code == int(fails), said.err
    if not fails:
        assert owner("vc", "undo", re.findall(UNDONE, said.err)[-1], "--yes").code == 0
    assert secrets_of(owner) == between
