"""A run that failed gets the remedy for what its last words tell."""

import pytest

from maint.steps.virtual_clusters.runs import room_hint


def test_a_run_that_found_no_room_is_not_sent_to_look_for_kerberos_secrets() -> None:
    assert "quota" in room_hint(["cannot fit application: not enough resources in the pool"])
    assert room_hint(["KrbException: no valid keytab"]) == ""


@pytest.mark.parametrize("words", [("smoke",), ("job", "run", "--name", "pi-estimate", "--wait")])
def test_a_run_that_could_not_be_fitted_in_is_told_to_ask_for_less(loaded, words) -> None:
    loaded.lab.break_("jobs-engine", "vc-run-fails")
    said = loaded("vc", *words, "--yes", "-o", "json")
    assert (said.code, "let the job ask for less" in said.error["hint"]) == (1, True), said.err
    assert "init-user" not in said.error["hint"]


def test_a_body_that_is_too_large_is_told_to_be_that(loaded, tmp_path) -> None:
    (tmp_path / "large.txt").write_bytes(b"x" * 2000)
    loaded.lab.switch("vc-upload-max-bytes", "1000")
    words = ("--name", "etl-scripts", "--local-path", str(tmp_path / "large.txt"))
    said = loaded("vc", "resource", "upload", *words, "--yes", "-o", "json")
    assert (said.code, "takes no body as large" in said.error["hint"]) == (1, True), said.err


def test_a_deployment_that_is_too_large_is_told_to_be_that(lost) -> None:
    lost.lab.switch("put-max-bytes", "1000")
    said = lost.restore("-o", "json")
    assert (said.code, "takes no body as large" in said.error["hint"]) == (1, True), said.err
