"""Sites in files of their own, beside the config."""

from pathlib import Path

import pytest

from maint.config.precedence import Flags, Settings, load_settings
from maint.errors import Invalid

SITE = "{{manager: {{host: {0}, password: prompt}}, labels: {{region: eu}}}}"


def write(folder: Path, **files: str) -> Path:
    (folder / "sites.d").mkdir()
    for name, text in files.items():
        (folder / "sites.d" / f"{name}.yaml").write_text(text)
    config = folder / "config.yaml"
    config.write_text(f"sites:\n  here: {SITE.format('cm-here')}\n")
    return config


def settings(config: Path) -> Settings:
    return load_settings(Flags(config=str(config)), {})


def test_sites_of_the_folder_stand_beside_those_of_the_config(tmp_path: Path) -> None:
    two = f"sites:\n  b: {SITE.format('cm-b')}\n  c: {SITE.format('cm-c')}\n"
    found = settings(write(tmp_path, one=f"sites:\n  a: {SITE.format('cm-a')}\n", two=two))
    assert found.names == ("here", "a", "b", "c")
    assert (found.site("c").manager.host, found.site("c").labels) == ("cm-c", {"region": "eu"})
    origin = {one.key: one.origin for one in found.origins()}
    assert origin["sites.c.manager.host"] == f"{tmp_path}/sites.d/two.yaml:3:23"


def test_the_config_may_leave_all_sites_to_the_folder(tmp_path: Path) -> None:
    config = write(tmp_path, one=f"sites:\n  a: {SITE.format('cm-a')}\n")
    config.write_text("state: /srv/maint\n")
    assert settings(config).names == ("a",)


def test_a_name_that_is_given_twice_is_told_with_both_places(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as caught:
        settings(write(tmp_path, one=f"sites:\n  here: {SITE.format('cm-a')}\n"))
    assert caught.value.message == f"{tmp_path}/sites.d/one.yaml:2:3: the site 'here' is given twice"
    assert caught.value.detail == (f"first at {tmp_path}/config.yaml:2:3",)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("sites:\n  a:\n    manager: {hots: x, password: prompt}\n", "3:15", "unknown key 'hots'"),
        ("sites: {}\nstate: /x\n", "2:1", "unknown key 'state'"),
        ("sites: [1]\n", "1:8", "must be a mapping"),
        ("- a\n", "1:1", "a mapping is expected"),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_place(tmp_path: Path, text: str, place: str, words: str) -> None:
    with pytest.raises(Invalid) as caught:
        settings(write(tmp_path, one=text))
    assert caught.value.message.startswith(f"{tmp_path}/sites.d/one.yaml:{place}: ")
    assert words in caught.value.message


def test_only_yaml_files_are_read(tmp_path: Path) -> None:
    config = write(tmp_path)
    for name in ("notes.txt", ".a.yaml", "a.yaml~"):
        (tmp_path / "sites.d" / name).write_text("- a\n")
    assert settings(config).names == ("here",)
