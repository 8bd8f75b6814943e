"""Why a drill fails: reasons that the help page names, provoked."""

from tests.steps.conftest import back_up
from tests.steps.operator import Operator


def test_a_licence_that_does_not_count_yet_is_the_reason(loaded: Operator) -> None:
    said = loaded("backup", "drill", "--switch", "license-effective=after-restart")
    assert (said.code, "entities that need a license" in said.err) == (1, True), said.err


def test_a_drill_without_a_licence_asks_for_one_and_says_nothing_of_the_snapshot(loaded: Operator) -> None:
    (loaded.lab.folder / "license.txt").unlink()
    loaded.lab.world.redaction = False  # the window is not the matter
    assert loaded("backup", "create").code == 0
    said = loaded("backup", "drill", "-o", "json")
    assert (said.code, "license.txt cannot be read" in said.err) == (5, True), said.err
    assert ("manager.license" in said.error["hint"], "backup create" in said.error["hint"]) == (True, False)
    (newest, _) = loaded("backup", "list", "-o", "json").json["snapshots"][::-1]
    assert (newest["restorable"], newest["drilled"]) == (True, None)


def test_settings_that_name_no_keystore_keep_tls_down(loaded: Operator) -> None:
    for one in loaded.lab.world.deployment["managerSettings"]["items"]:
        if one["name"] == "KEYSTORE_PATH":
            one["value"] = ""
    loaded.lab.world.changed()
    back_up(loaded)
    said = loaded("backup", "drill")
    assert (said.code, "TLS did not come up" in said.err) == (1, True), said.err
