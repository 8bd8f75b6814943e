"""After a restore Kerberos credentials are missing, and are made before the platform starts."""

from pathlib import Path

IMPORT = "POST /api/v45/cm/commands/importAdminCredentials"
GENERATE = "POST /api/v45/cm/commands/generateCredentials"


def lose(operator):
    """Have the manager be as after a restore."""
    with operator.lab.world.lock:
        operator.lab.world.kdc_account, operator.lab.world.credentials = False, []
        return operator.lab.world.settings


def configure(operator, realm, password, tmp_path):
    """Name the KDC's account in the config."""
    (tmp_path / "kdc").write_text(password)
    (tmp_path / "kdc").chmod(0o600)
    path = Path(operator.config)
    lines = f"      kdc:\n        username: scm/admin@{realm}\n        password: file:{tmp_path / 'kdc'}\n"
    path.write_text(path.read_text().replace("    manager:\n", "    manager:\n" + lines, 1))


def missing(operator):
    from maint.lab.manager.kerberos import principals

    with operator.lab.world.lock:
        return principals(operator.lab.world, missing=True)


def calls(operator):
    return [line.split("?")[0] for line in operator.sent if "Credentials" in line]


def test_credentials_are_made_before_the_platform_starts_and_the_password_is_kept_nowhere(loaded, tmp_path):
    named = lose(loaded)
    configure(loaded, named["SECURITY_REALM"], named["KDC_ADMIN_PASSWORD"], tmp_path)
    said = loaded("manager", "start", "--yes")
    assert (said.code, calls(loaded), missing(loaded)) == (0, [IMPORT, GENERATE], []), said.err
    kept = b"".join(path.read_bytes() for path in loaded.state.rglob("*") if path.is_file()).decode(errors="replace")
    assert named["KDC_ADMIN_PASSWORD"] not in said.out + said.err + kept
    loaded.forget_requests()
    assert loaded("manager", "start", "--yes").code == 0
    assert calls(loaded) == []  # nothing is missing any more


def test_a_password_that_the_kdc_refuses_stops_the_run_with_its_reason(loaded, tmp_path):
    named = lose(loaded)
    configure(loaded, named["SECURITY_REALM"], "another-Password-1", tmp_path)
    said = loaded("manager", "start", "--yes", "-o", "json")
    assert (said.code, "Preauthentication failed" in said.error["detail"][0]) == (1, True)


def test_without_an_account_in_the_config_the_plan_says_what_is_missing(loaded):
    lose(loaded)
    said = loaded("manager", "start", "--dry-run")
    assert "principals have no credentials" in said.out
    assert calls(loaded) == []


def test_the_restore_plan_says_what_the_snapshot_does_not_cover(loaded):
    said = loaded("restore", "plan", "--manager-only", "-o", "json")
    assert said.code == 0, said.err
    assert any("Kerberos credentials" in words for words in said.json["uncovered"])
    assert "Kerberos credentials" in loaded("restore", "plan", "--manager-only").out
