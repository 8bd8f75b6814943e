"""A run that failed gets the remedy for what its last words tell."""

from maint.steps.virtual_clusters.runs import room_hint


def test_a_run_that_found_no_room_is_not_sent_to_look_for_kerberos_secrets() -> None:
    assert "quota" in room_hint(["cannot fit application: not enough resources in the pool"])
    assert room_hint(["KrbException: no valid keytab"]) == ""
