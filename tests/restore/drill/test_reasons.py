"""Why a drill fails: reasons that the help page names, provoked."""

from tests.steps.operator import Operator


def test_a_licence_that_does_not_count_yet_is_the_reason(loaded: Operator) -> None:
    said = loaded("backup", "drill", "--switch", "license-effective=after-restart")
    assert (said.code, "entities that need a license" in said.err) == (1, True), said.err


def test_settings_that_name_no_keystore_keep_tls_down(loaded: Operator) -> None:
    for one in loaded.lab.world.deployment["managerSettings"]["items"]:
        if one["name"] == "KEYSTORE_PATH":
            one["value"] = ""
    loaded.lab.world.changed()
    assert loaded("backup", "create", "--open-window", "--yes").code == 0
    said = loaded("backup", "drill")
    assert (said.code, "TLS did not come up" in said.err) == (1, True), said.err
