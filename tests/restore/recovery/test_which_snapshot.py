"""What a virtual cluster is recovered from: the newest, unless an older one was chosen for the manager."""

from pathlib import Path

from maint.lab.create import SITE
from tests.restore.recovery.conftest import FIRST, SECOND, MakeSite
from tests.steps.operator import Operator


def planned(operator: Operator, *words: str, standing: tuple[str, ...] = (FIRST, SECOND)) -> dict[str, str]:
    """Return which snapshot each virtual cluster would come back from; all that are told answer."""
    said = operator("restore", "plan", *words, "-o", "json")
    assert said.code == 0, said.err
    assert [(one["name"], one["answers"]) for one in said.json["virtual_clusters"]] == [(one, True) for one in standing]
    actions = [one for one in said.json["plan"]["actions"] if one["kind"] == "vc.recover"]
    return {one["arguments"]["vc"]: one["arguments"]["snapshot"] for one in actions}


def test_a_newer_snapshot_of_a_virtual_cluster_alone_counts_unless_an_older_one_is_chosen(
    make: MakeSite, kept: Path
) -> None:
    operator = make(kept)
    (whole,) = [one["id"] for one in operator("backup", "list", "-o", "json").json["snapshots"]]
    assert operator("vc", "backup", "--vc", SECOND).code == 0
    alone = operator("backup", "list", "-o", "json").json["snapshots"][-1]["id"]
    assert planned(operator) == {FIRST: whole, SECOND: alone}
    operator.lab.world.redaction = False
    assert operator("backup", "create").code == 0
    assert planned(operator, "--snapshot", whole) == {FIRST: whole, SECOND: whole}
    assert planned(operator, "--manager-only", standing=()) == {}


def test_a_site_without_virtual_clusters_recovers_as_ever(make: MakeSite, kept: Path) -> None:
    operator = make(kept)
    config = Path(operator.config)
    text = config.read_text()
    config.write_text(text[: text.index("    virtual_clusters:")])
    operator.lab.lose_database()
    said = operator("restore", "run", "--confirm", SITE, "-o", "json")
    assert said.code == 0, said.err
    assert [one["kind"] for one in said.json["actions"] if one["kind"].startswith("vc.")] == []
    assert f"not brought back: {FIRST}, {SECOND}" in said.json["actions"][0]["detail"]
