"""What is shipped is found beside the code, never in the working folder."""

from pathlib import Path

import pytest

from maint.config import paths


def test_shipped_folders_are_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks/planted.yaml").write_text("name: planted")
    monkeypatch.chdir(tmp_path)
    assert "planted" not in paths.playbooks()
    assert paths.shipped_folder("playbooks").is_dir()


def test_playbooks_are_named_without_their_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b.yaml", "a.yaml", "README.md"):
        (tmp_path / name).write_text(f"text of {name}")
    monkeypatch.setattr(paths, "shipped_folder", lambda name: tmp_path)
    assert paths.playbooks() == {"a": "text of a.yaml", "b": "text of b.yaml"}


@pytest.mark.parametrize("name", ["", "../pyproject.toml", "/etc/passwd", "a/../../x", "none.j2"])
def test_a_template_is_never_sought_outside_its_folder(name: str) -> None:
    with pytest.raises(FileNotFoundError):
        paths.template(name)


def test_a_folder_that_is_not_shipped_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match="nonsense/ is missing"):
        paths.shipped_folder("nonsense")
