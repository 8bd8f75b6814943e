"""After a restore Kerberos credentials are missing, and are made before the platform starts."""

import re
from pathlib import Path

from maint.adapters.manager.client import ManagerClient
from maint.cli.site import doctor

IMPORT = "POST /api/v45/cm/commands/importAdminCredentials"
GENERATE = "POST /api/v45/cm/commands/generateCredentials"


def lose(operator):
    """Have the manager be as after a restore."""
    with operator.lab.world.lock:
        operator.lab.world.kdc_account, operator.lab.world.credentials = False, []
        return operator.lab.world.settings


def without_account(operator):
    """Take the KDC's account out of the config."""
    path = Path(operator.config)
    path.write_text(re.sub(r"^      kdc:\n(        .*\n)+", "", path.read_text(), flags=re.MULTILINE))


def missing(operator):
    from maint.lab.manager.commands import principals

    with operator.lab.world.lock:
        return principals(operator.lab.world, missing=True)


def calls(operator):
    return [line.split("?")[0] for line in operator.sent if "Credentials" in line]


def test_credentials_are_made_before_the_platform_starts_and_the_password_is_kept_nowhere(loaded):
    named = lose(loaded)
    said = loaded("manager", "start", "--yes")
    assert (said.code, calls(loaded), missing(loaded)) == (0, [IMPORT, GENERATE], []), said.err
    kept = b"".join(path.read_bytes() for path in loaded.state.rglob("*") if path.is_file()).decode(errors="replace")
    assert named["KDC_ADMIN_PASSWORD"] not in said.out + said.err + kept
    loaded.forget_requests()
    assert loaded("manager", "start", "--yes").code == 0
    assert calls(loaded) == []  # nothing is missing any more


def test_a_password_that_the_kdc_refuses_stops_the_run_with_its_reason(loaded):
    lose(loaded)
    (loaded.lab.folder / "kdc-password").write_text("another-Password-1")
    said = loaded("manager", "start", "--yes", "-o", "json")
    assert (said.code, "Preauthentication failed" in said.error["detail"][0]) == (1, True)


def test_an_account_that_left_the_config_since_and_a_password_that_cannot_be_read_are_told_and_nothing_was_sent(loaded):
    lose(loaded)
    password, config = loaded.lab.folder / "kdc-password", Path(loaded.config)
    right, whole = password.read_text(), config.read_text()
    password.write_text("another-Password-1")
    assert loaded("manager", "start", "--yes").code == 1
    loaded.forget_requests()
    without_account(loaded)
    said = loaded("playbook", "resume")
    assert (said.code, "names no `manager.kdc` any more" in said.err) == (5, True), said.err
    config.write_text(whole)
    password.unlink()
    said = loaded("playbook", "resume")
    assert (said.code, str(password) in said.err, calls(loaded)) == (3, True, []), said.err
    password.write_text(right)
    password.chmod(0o600)
    said = loaded("playbook", "resume")
    assert (said.code, calls(loaded), "cannot be told" in said.err) == (0, [IMPORT, GENERATE], False), said.err


def test_without_an_account_in_the_config_the_plan_says_what_is_missing(loaded, monkeypatch):
    looked = doctor.guarded  # at the manager alone, as at all else in its own tests
    monkeypatch.setattr(doctor, "guarded", lambda label, *told: looked(label, *told) if label == "manager" else ())

    def kerberos():
        return [one["state"] for one in loaded("doctor", "-o", "json").json["checks"] if one["label"] == "kerberos"]

    lose(loaded)
    assert kerberos() == []
    without_account(loaded)
    assert kerberos() == ["skip"]  # told while somebody can still look for the password
    said = loaded("manager", "start", "--dry-run")
    assert "no credentials yet for" in said.out
    assert "set `manager.kdc` in the config and begin anew" in " ".join(said.out.split())
    assert calls(loaded) == []


def test_an_answer_without_a_list_is_not_taken_for_no_missing_credentials(loaded, monkeypatch):
    monkeypatch.setattr(ManagerClient, "get", lambda *_: {"unexpected": True})
    said = loaded("manager", "start", "--dry-run")
    assert "whether Kerberos credentials are missing could not be asked: the manager's answer does not list" in said.out


def test_a_role_that_uses_kerberos_does_not_start_without_its_credentials_is_told_how_to_get_them_and_then_goes_on(
    loaded,
):
    assert loaded("service", "stop", "hdfs", "--cluster", "base", "--yes").code == 0
    lose(loaded)
    config = Path(loaded.config)
    whole = config.read_text()
    without_account(loaded)
    said = loaded("service", "start", "hdfs", "--cluster", "base", "--yes", "-o", "json")
    assert (said.code, "missing Kerberos keytab (hdfs/" in str(said.error)) == (1, True), said.err
    listed = loaded("service", "list", "--cluster", "base", "-o", "json").json["services"]
    assert next(one["state"] for one in listed if one["name"] == "hdfs") == "STOPPED"
    said = loaded("manager", "start", "--cluster", "base", "--yes", "-o", "json")
    assert (said.code, "principals without Kerberos credentials" in said.error["hint"]) == (1, True), said.err
    named = re.findall(r"`(maint [^`]+)`", said.error["hint"])
    config.write_text(whole)  # `manager.kdc` is in the config
    for words in named:
        assert loaded(*words.split()[1:], "--yes").code == 0, words
    listed = loaded("service", "list", "--cluster", "base", "-o", "json").json["services"]
    assert (len(named), {one["state"] for one in listed}, missing(loaded)) == (2, {"STARTED", "NA"}, [])


def test_what_needs_no_credentials_starts_without_them(loaded):
    lose(loaded)
    without_account(loaded)
    assert loaded("manager", "start", "--yes").code == 0
