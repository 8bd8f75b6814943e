"""The demo tells the whole story, and leaves nothing but its reports."""

from pathlib import Path

from tests.steps.operator import maint


def test_the_demo_loses_manager_and_virtual_cluster_and_brings_both_back(tmp_path: Path) -> None:
    said = maint("lab", "demo", XDG_STATE_HOME=str(tmp_path))
    assert said.code == 0, said.err
    story = ["is missing", "In the vendor's UI", "maint playbook resume --set vc.", "printed its marker", "left to do",
             "nothing is left to do: the demo removes its lab"]  # fmt: skip
    places = [said.err.index(words) for words in story]
    assert places == sorted(places)
    report = next(Path(line.removeprefix("report: ")) for line in said.out.splitlines() if line.endswith(".md"))
    assert "| virtual cluster Default-VC-abc12345 | back |" in report.read_text()
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} == {".md", ".html"}
