"""From an empty manager back to the snapshot, whatever goes wrong on the way."""

import json
import shutil
from datetime import timedelta
from pathlib import Path

from maint.adapters.clock import SystemClock
from maint.config import yaml
from maint.errors import TimedOut
from maint.lab.create import SITE
from maint.lab.manager import put_deployment
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from maint.steps.manager import server, tls
from maint.steps.restore import deployment as send_deployment
from tests.steps.conftest import FAST, back_up
from tests.steps.operator import Operator, maint

STEPS = [
    "restore.ready",
    "server.probe",
    "license.upload",
    "deployment.put",
    "hostfiles.restore",
    "server.restart",
    "tls.verify",
    "server.login",
    "truststore.check",
    "deployment.compare",
]


def outcomes(operator):
    """How the steps of the newest run ended, by kind; the last life counts."""
    journal = operator.journal()
    kinds = [action["kind"] for action in journal[0]["plan"]["actions"]]
    return {kinds[line["index"]]: line["outcome"] for line in journal if line["what"] == "outcome"}


def test_an_empty_manager_comes_back_by_a_saved_plan_a_trial_gives_way_to_the_licence_and_what_is_left_to_do_is_told(
    lost, tmp_path
):
    (lost.lab.folder / "license.txt").unlink()  # the snapshot has it
    with lost.lab.world.lock:
        lost.lab.world.trial = "running"
    lost.lab.break_("restore", "put-slow")
    saved = tmp_path / "plan.json"
    planned = lost("restore", "plan", "--manager-only", "-o", "json")
    saved.write_text(planned.out)
    lost.forget_requests()
    said = lost("restore", "run", "--confirm", SITE, "--plan", str(saved), "-o", "json")
    assert said.code == 0, said.err
    (upload,) = [one for one in planned.json["plan"]["actions"] if one["kind"] == "license.upload"]
    assert "snapshot" in upload["summary"], upload["summary"]
    assert lost.lab.world.license is not None and lost.lab.world.trial == "used"
    assert [action["kind"] for action in said.json["actions"] if action["kind"] in STEPS] == STEPS
    purposes = [item["purpose"] for item in lost("backup", "list", "-o", "json").json["snapshots"]]
    assert purposes == ["backup", "safety"]
    assert {action["outcome"] for action in said.json["actions"] if action["kind"] != "hostfiles.restore"} == {"done"}
    assert lost.sent == ["POST /api/v49/cm/license", "PUT /api/v49/cm/deployment?deleteCurrentDeployment=true"]
    assert lost("cluster", "list", "-o", "json").json["clusters"][0]["name"] == "base"
    for kind in ("md", "html"):
        assert "maint manager start" in Path(said.json["report"][kind]).read_text()
    compared = said.json["actions"][-1]  # what the restored server hides is counted and never called equal
    assert "not comparable" in compared["detail"]
    assert compared["value"]["not_comparable"]
    lost.forget_requests()
    stale = lost.restore("--plan", planned.json["digest"])
    assert (stale.code, "stale" in stale.err, lost.sent) == (5, True, []), stale.err


def test_a_licence_that_counts_after_a_restart_only_gets_one_and_where_another_was_needed_a_resume_restarts_for_it_too(
    make, monkeypatch
):
    operator = make(lost=True, license_effective="after-restart")
    started = operator.lab.world.start_up

    def without_it(**told):
        started(**told)
        operator.lab.world.license_counts = False

    operator.forget_requests()
    with monkeypatch.context() as patched:
        patched.setattr(operator.lab.world, "start_up", without_it)
        assert "need a license" in operator.restore().err
    assert operator.puts == 2
    said = operator("playbook", "resume")
    assert said.code == 0, said.err
    assert "may count only after a restart" in said.err
    assert operator.puts == 4
    assert operator("cluster", "list", "-o", "json").json["clusters"][0]["name"] == "base"


def test_where_the_snapshot_is_in_force_already_nothing_is_sent(loaded):
    loaded.forget_requests()
    off = 'export CMF_JAVA_OPTS="-Dcom.cloudera.api.redaction=false"\n'
    loaded.options.write_text(loaded.options.read_text() + off)
    loaded.lab.server.restart()
    loaded.lab.server.wait()
    said = loaded.restore("-o", "json")
    assert said.code == 0, said.err
    found = outcomes(loaded)
    assert (found["deployment.put"], found["license.upload"], found["tls.verify"]) == (("unchanged",) * 3)
    assert loaded.puts == 0


def test_a_lost_answer_is_replaced_by_a_look_at_a_factory_password_too_and_values_that_are_shown_are_all_compared(
    tmp_path, make
):
    with Lab(tmp_path / "factory", Options(switches=FAST)) as lab:
        back_up(Operator(lab))
    lost = make(lost=True, template=tmp_path / "factory", redaction_default="off")
    lost.lab.break_("restore", "put-answer-lost")
    said = lost.restore()
    assert said.code == 0, said.err
    assert "its answer was lost" in said.err or "the answer was lost" in said.err
    assert lost.puts == 1
    compared = [line for line in lost.journal() if line["what"] == "outcome"][-1]["detail"]
    assert "nothing differs" in compared and "not comparable" not in compared, compared


def test_a_cut_export_a_store_that_is_gone_and_a_manager_that_stays_unready_end_a_restore_before_anything_is_sent(
    lost, monkeypatch
):
    plan = lost("restore", "plan", "--manager-only", "-o", "json").json
    lost.forget_requests()
    for fault in ("cut-body", "cut-body-cleanly"):
        for _ in range(3):  # as often as it is asked for
            lost.lab.break_("export", fault)
        said = lost.restore("--plan", plan["digest"])
        assert said.code in (1, 4), (fault, said.err)
        assert lost.puts == 0, fault
        lost.lab.repair()
    upload, store, away = server.UploadLicense.apply, lost.lab.folder / "backups", lost.lab.folder / "away"

    def then_unmounted(*told):
        ended = yield from upload(*told)
        store.rename(away)
        return ended

    with monkeypatch.context() as patched:
        patched.setattr(server.UploadLicense, "apply", then_unmounted)
        gone = lost.restore()
    resume = ("playbook", "resume", lost.run_of(gone)["id"])
    for said in (gone, lost(*resume)):
        assert (said.code, lost.puts, "is its disk mounted?" in said.err) == (1, 0, True), said.err
    away.rename(store)
    kept = send_deployment.keep

    def breaking(*faults):
        def then_break(*told):
            said = yield from kept(*told)
            for target, fault in faults:
                lost.lab.break_(target, fault)  # right before the PUT
            return said

        return then_break

    monkeypatch.setattr(send_deployment, "keep", breaking(("export", "unavailable")))
    said = lost(*resume)
    assert (said.code, "the manager answered 503" in said.err, lost.puts) == (1, True, 0), said.err
    lost.lab.repair()
    once = breaking(*((target, "unavailable-once") for target in ("version", "export") * 2))
    monkeypatch.setattr(send_deployment, "keep", once)
    said = lost(*resume)  # one answer of a manager that is not ready ends nothing
    assert (said.code, lost.puts, lost.lab.status()["faults"]) == (0, 1, []), said.err


def test_a_deployment_slower_than_the_limit_is_found_applied_by_the_next_life(lost, monkeypatch):
    monkeypatch.setattr(send_deployment, "PATIENCE", 100.0)  # it is looked for no longer than until it is there
    lost.lab.switch("slow-seconds", "8")
    lost.lab.break_("restore", "put-slow")
    lost.forget_requests()
    first = lost.restore("--timeout", "4s")  # within which a busy machine, too, has a plan
    assert first.code == 1, first.err
    assert "maint playbook resume" in first.err
    said = lost("playbook", "resume")
    assert said.code == 0, said.err
    assert lost.puts == 1


def test_an_answer_that_never_came_gets_a_further_deployment_only_from_resume_after_a_restart_of_its_own(
    lost, monkeypatch
):
    monkeypatch.setattr(send_deployment, "PATIENCE", 0.1)
    lost.lab.break_("restore", "proxy-502")
    lost.forget_requests()
    said = lost.restore()
    assert said.code == 1, said.err
    assert "maint playbook resume" in said.err
    assert lost.puts == 1
    assert lost("cluster", "list", "-o", "json").json["clusters"] == []
    lost.lab.server.restart()  # by hand: what has not arrived by now never will
    lost.lab.server.wait()
    for puts, code in ((2, 1), (3, 1), (4, 0)):
        if code:
            lost.lab.break_("restore", "connection-dropped")
        resumed = lost("playbook", "resume")
        assert (resumed.code, lost.puts) == (code, puts), resumed.err
        before, found, _ = resumed.err.partition("it was not applied and can no longer arrive; sending it again")
        assert found and ("restarting cloudera-scm-server" in before) == (puts > 2), resumed.err
    assert sum(line.startswith("POST") for line in lost.sent) == 1


def test_whatever_keeps_us_from_restarting_the_server_a_person_may_answer_and_does_for_each_deployment_anew(
    lost, monkeypatch
):
    monkeypatch.setattr(send_deployment, "PATIENCE", 0.1)
    lost.forget_requests()
    lost.lab.break_("restore", "connection-dropped")
    assert lost.restore().code == 1
    real = SystemClock.now
    monkeypatch.setattr(SystemClock, "now", lambda clock: real(clock) + timedelta(hours=3))  # which proves nothing
    early = lost("playbook", "resume", "--set", "applied=false")
    assert early.code == 5, early.err  # it has not asked yet
    config = Path(lost.config)
    text = config.read_text()
    for hindrance, code in (("no section", 5), ("no key", 3), ("hangs", 1), ("unreachable", 1)):
        document = json.loads(json.dumps(yaml.load(text, "config").data))
        section = document["sites"][SITE]
        if hindrance == "no section":
            del section["ssh"]
        elif hindrance == "no key":
            section["ssh"]["key"] = "nowhere/id"
        elif hindrance == "unreachable":
            lost.lab.break_(lost.lab.manager_host, hindrance)
        config.write_text(json.dumps(document))
        with monkeypatch.context() as hindered:
            if hindrance == "hangs":
                hindered.setattr(server, "restart_unit", hanging)
            asked = lost("playbook", "resume")
        assert (asked.code, "--set applied=" in asked.err, lost.puts) == (code, True, 1), (hindrance, asked.err)
    config.write_text(text)
    lost.lab.server.restart()  # by hand
    lost.lab.server.wait()
    lost.lab.repair()
    lost.lab.break_("restore", "connection-dropped")
    answered = lost("playbook", "resume", "--set", "applied=no")
    assert answered.code == 1 and lost.puts == 2, answered.err
    before, found, _ = answered.err.partition("sending it again")
    assert found and "restarting" not in before, answered.err
    lost.lab.break_(lost.lab.manager_host, "unreachable")
    anew = lost("playbook", "resume")
    assert anew.code == 1 and lost.puts == 2, anew.err  # that answer was about the first one
    assert lost("playbook", "resume").code == 1 and lost.puts == 2
    lost.lab.repair()
    last = lost("playbook", "resume")
    assert (last.code, lost.puts) == (0, 3), last.err
    assert last.err.index("restarting cloudera-scm-server") < last.err.index("sending it again")


def hanging(site, host, hint):
    """Wait for a host that answers no more."""
    yield "restarting"
    raise TimedOut(f"{host}: systemctl did not end within 5 minutes")


def test_after_the_restart_a_server_that_is_not_wholly_up_or_not_to_be_trusted_stops_the_run_until_a_resume(
    lost, monkeypatch
):
    lost.forget_requests()
    with monkeypatch.context() as patched:
        patched.setattr(tls, "START_LIMIT", 1.0)
        patched.setattr(server, "START_LIMIT", 1.0)
        lost.lab.break_("server", "never-comes-up")
        said = lost.restore()
        assert (said.code, lost.puts) == (1, 1), said.err
        lost.lab.repair()
        lost.lab.break_("server", "tls-never-comes-up")
        said = lost("playbook", "resume")
        assert (said.code, lost.puts) == (1, 1), said.err
        assert "its TLS port does not answer" in said.err and "plain port answers" in said.err
    lost.lab.repair()  # what the log named is mended, and nobody restarts the server by hand: the run does
    for number, fault in enumerate(("expired-certificate", "wrong-host-certificate", "unknown-ca-certificate")):
        lost.lab.break_("server", fault)
        if number:
            restart(lost)
        said = lost("playbook", "resume")
        assert (said.code, lost.puts) == (1, 1), (fault, said.err)
        assert "certificate" in said.err and "ca" in said.err, fault
        assert ("restarting" in said.err) == (not number), said.err
        lost.lab.repair()
    restart(lost)
    lost.lab.break_("truststore", "wrong-truststore-password")
    said = lost("playbook", "resume")
    assert (said.code, "does not open" in said.err, outcomes(lost)["truststore.check"]) == (1, True, "failed"), said.err
    lost.lab.repair()
    resumed = lost("playbook", "resume")
    assert resumed.code == 0, resumed.err
    assert lost.puts == 1


def restart(operator):
    """Restart the server by hand."""
    operator.lab.server.restart()
    operator.lab.server.wait()


def test_an_empty_manager_without_tls_gets_a_password_in_clear_only_from_the_run_that_gives_it_tls(lost):
    refused = maint("cluster", "list", "--config", lost.config)
    assert refused.code == 5, refused.err
    assert "--allow-plain" in refused.err
    planned = lost("restore", "plan", "--manager-only")
    assert planned.code == 0, planned.err
    assert f"the password of admin goes in clear to 127.0.0.1:{lost.lab.server.plain_port}" in planned.err
    assert "in clear to " in planned.out
    said = lost("restore", "run", "--manager-only", "--dry-run", "-o", "json")
    assert said.code == 0, said.err
    assert said.json["in_clear"].startswith("in clear to ") and "deployment.put" in said.json["in_clear"]


def test_a_run_whose_limit_passes_while_it_waits_for_the_manager_tells_what_it_saw(loaded, tmp_path):
    loaded.lab.server.stop()
    path = tmp_path / "wait.yaml"
    path.write_text("name: wait\nsummary: Wait.\nsteps:\n  - {name: Wait, do: server.wait}\n")
    said = loaded("playbook", "run", str(path), "--yes", "--timeout", "1s")
    assert said.code == 1, said.err
    assert "the manager was waited for: plain port refused, TLS port refused" in said.err


def test_a_licence_or_certificates_that_neither_are_at_hand_nor_kept_are_told_before_anything_is_sent(loaded):
    config, licence = Path(loaded.config), loaded.lab.folder / "license.txt"
    never = "    backup:\n      parts:\n        license: false\n        manager_files: false\n"
    config.write_text(config.read_text().replace("    backup:\n", never))
    back_up(loaded)
    loaded.lab.lose_database()
    loaded.forget_requests()
    content = licence.read_bytes()
    licence.unlink()
    said = loaded.restore()
    assert (said.code, "licence" in said.err, loaded.sent) == (5, True, []), said.err
    licence.write_bytes(content)
    shutil.rmtree(loaded.root / "var/lib/cloudera-scm-server/certmanager")
    said = loaded.restore()
    assert (said.code, "certmanager" in said.err, loaded.sent) == (5, True, []), said.err


def test_without_web_tls_the_steps_for_it_are_visibly_skipped(tmp_path):
    from maint.lab.manager.load import EXAMPLE, Options
    from maint.lab.running import Lab
    from tests.steps.conftest import FAST, PASSWORD

    document = json.loads(EXAMPLE.read_text())
    items = document["managerSettings"]["items"]
    document["managerSettings"]["items"] = [item for item in items if item["name"] not in ("WEB_TLS", "AUTO_TLS_TYPE")]
    plain = tmp_path / "plain.json"
    plain.write_text(json.dumps(document))
    with Lab(tmp_path / "lab", Options(deployment=plain, new_password=PASSWORD, switches=FAST)) as lab:
        operator = Operator(lab)
        back_up(operator)
        lab.lose_database()
        said = operator.restore()
        assert said.code == 0, said.err
        found = outcomes(operator)
    assert (found["tls.verify"], found["truststore.check"]) == ("skipped", "skipped")


def test_a_restore_that_was_refused_shows_no_secret_leaves_all_as_it_was_and_holds_its_snapshot_until_done_or_given_up(
    lost, monkeypatch
):
    quoted = []

    def quoting(world, body, joined, delete_current):
        values = {one["name"]: one["value"] for one in body["managerSettings"]["items"]}
        quoted[:] = [values["TRUSTSTORE_PASSWORD"], body["users"][0]["pwHash"]]
        raise put_deployment.NotAccepted(f"Value '{quoted[0]}' of TRUSTSTORE_PASSWORD is invalid, {quoted[1]} too.")

    def needed_by():
        (one,) = [one for one in lost("backup", "list", "-o", "json").json["snapshots"] if one["restorable"]]
        return [hold["by"] for hold in one["holds"]]

    lost.forget_requests()
    with monkeypatch.context() as patched:
        patched.setattr(put_deployment, "_check_whole", quoting)
        said = lost.restore()
    assert (said.code, "maint playbook resume" in said.err, lost.puts) == (1, True, 1), said.err
    assert "of TRUSTSTORE_PASSWORD is invalid" in said.err, said.err
    kept = b"".join(path.read_bytes() for path in lost.state.rglob("*") if path.is_file() and path.suffix != ".pub")
    assert quoted and not [one for one in quoted if one in said.out + said.err or one.encode() in kept]
    assert lost("cluster", "list", "-o", "json").json["clusters"] == []
    lost.lab.break_("restore", "put-fails")
    said = lost("playbook", "resume")
    assert (said.code, lost.puts) == (1, 2), said.err
    before, found, _ = said.err.partition("it was not applied and can no longer arrive; sending it again")
    assert found and "restarting" not in before, said.err  # what the server refused cannot arrive any more
    assert len(needed_by()) == 1 and "@" in needed_by()[0]
    run = lost.run_of(None)["id"]
    assert lost("playbook", "dismiss", run, "--reason", "another way").code == 0
    assert needed_by() == []
    lost.lab.repair()
    said = lost.restore()
    assert said.code == 0, said.err
    assert needed_by() == []
    kinds = [path.name.split("-")[1] for path in (lost.lab.folder / "backups").glob("*/records/*.json")]
    assert kinds.count("restore") == 4
