"""Sites in files of their own, beside the config."""

from pathlib import Path

import pytest

from maint.config.precedence import ConfigFlags, Settings, load_settings
from maint.errors import Invalid, UsageError

SITE = "{{manager: {{host: {0}, password: prompt}}, labels: {{region: eu}}}}"


def write(folder: Path, **files: str) -> Path:
    (folder / "sites.d").mkdir()
    for name, text in files.items():
        (folder / "sites.d" / f"{name}.yaml").write_text(text)
    config = folder / "config.yaml"
    config.write_text(f"sites:\n  here: {SITE.format('cm-here')}\n")
    return config


def settings(config: Path) -> Settings:
    return load_settings(ConfigFlags(config=str(config)), {})


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


def test_a_name_that_is_given_twice_is_broken_with_both_places_and_no_other_is(tmp_path: Path) -> None:
    found = settings(write(tmp_path, one=f"sites:\n  here: {SITE.format('cm-a')}\n  a: {SITE.format('cm-a')}\n"))
    assert [found.names, *found.broken] == [("here", "a"), "here"]
    assert found.site("a").manager.host == "cm-a"
    with pytest.raises(Invalid) as caught:
        found.site("here")
    assert caught.value.message == f"{tmp_path}/sites.d/one.yaml:2:3: the site 'here' is given twice"
    assert caught.value.detail == (f"first at {tmp_path}/config.yaml:2:3",)


@pytest.mark.parametrize(
    ("name", "text", "place", "words"),
    [
        ("a", "sites:\n  a:\n    manager: {hots: x, password: prompt}\n", "3:15", "unknown key 'hots'"),
        ("one", "sites: {}\nstate: /x\n", "2:1", "unknown key 'state'"),
        ("one", "sites: [1]\n", "1:8", "must be a mapping"),
        ("one", "- a\n", "1:1", "must be a mapping"),
        ("one", "sites:\n  a: [\n", "3:1", "this is not YAML"),
        (
            "a",
            "sites:\n  a:\n    manager: {host: x, password: prompt, plain_port: 1, tls_port: 1}\n",
            "3:",
            "must differ",
        ),
        ("a b", "sites:\n  'a b':\n    manager: {host: x, password: prompt}\n", "2:3", "must be a name"),
    ],
)
def test_a_mistake_in_a_file_breaks_what_is_in_it_alone(
    tmp_path: Path, name: str, text: str, place: str, words: str
) -> None:
    found = settings(write(tmp_path, one=text, two=f"sites:\n  b: {SITE.format('cm-b')}\n"))
    assert [one.name for one in found.sites] == ["here", "b"]
    assert [*found.broken] == [name]
    with pytest.raises(Invalid) as caught:
        found.site(name)
    assert caught.value.message.startswith(f"{tmp_path}/sites.d/one.yaml:{place}")
    assert words in caught.value.message


def test_a_file_that_nobody_can_read_is_an_entry_of_its_own_name(tmp_path: Path) -> None:
    config = write(tmp_path, here="sites: [", b=f"sites:\n  b: {SITE.format('cm-b')}\n")
    (tmp_path / "sites.d" / "folder.yaml").mkdir()
    (tmp_path / "sites.d" / "gone.yaml").symlink_to("/nowhere")
    found = settings(config)
    assert found.names == ("here", "b", "folder", "gone", "here.yaml")  # `here` is in the config itself
    assert [one.name for one in found.sites] == ["here", "b"] and len(found.mistakes) == 3
    with pytest.raises(UsageError) as caught:
        found.site("elsewhere")
    assert sum(line.startswith("broken: ") for line in caught.value.detail) == 3


def test_all_sites_of_a_wrong_file_are_broken_by_one_mistake(tmp_path: Path) -> None:
    two = f"sites:\n  b: {SITE.format('cm-b')}\n  c: {{labels: {{region: eu, n: 1}}}}\n"
    found = settings(write(tmp_path, two=two))
    assert list(found.broken) == ["b", "c"]
    assert len(found.mistakes) == 1 and len(found.mistakes[0].detail) == 1  # both mistakes of the file
    assert found.labels("b") == {"region": "eu"} and found.labels("here") == {"region": "eu"}


def test_with_a_broken_site_beside_it_the_only_other_one_is_not_taken_for_the_only_one(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="several sites"):
        settings(write(tmp_path, one="sites: [")).site()


def test_a_mistake_in_the_config_itself_stops_all_and_those_of_the_files_are_told_with_it(tmp_path: Path) -> None:
    config = write(tmp_path, one="sites: [", two="sites: {c: {}}\n")
    config.write_text("states: /x\n")
    with pytest.raises(Invalid) as caught:
        settings(config)
    assert caught.value.message.startswith(f"{config}:1:1: unknown key 'states'")
    assert [f"{name}.yaml" in line for name, line in zip(("one", "two"), caught.value.detail[-2:], strict=True)] == [
        True, True,
    ]  # fmt: skip


def test_a_program_inherits_no_variable_that_a_broken_site_names(tmp_path: Path) -> None:
    config = write(tmp_path, one="sites: {c: {manager: {hots: x, password: 'env:MINE'}}}\n")
    config.write_text("state: /srv/maint\n")
    found = settings(config)
    assert found.broken and found.secret_variables() == {"MINE"}
    assert [one.key for one in found.origins()] == ["state", "report"]


def test_only_yaml_files_are_read(tmp_path: Path) -> None:
    config = write(tmp_path)
    for name in ("notes.txt", ".a.yaml", "a.yaml~"):
        (tmp_path / "sites.d" / name).write_text("- a\n")
    assert settings(config).names == ("here",)


def test_without_any_site_the_config_is_wrong_and_says_where(tmp_path: Path) -> None:
    config = write(tmp_path, one="sites: {}\n", two="{}\n")
    config.write_text("state: /x\nsites: {}\n")
    with pytest.raises(Invalid, match=r"config\.yaml:2:8: sites: there is none, here or in a file beside it"):
        settings(config)


def test_a_name_that_leads_elsewhere_is_not_the_name_of_a_broken_site(tmp_path: Path) -> None:
    one, two = (f"sites:\n  {name}: {SITE.format('x')}\n" for name in ("../here", "b"))
    found = settings(write(tmp_path, one=one, two=two))
    assert (found.names, [*found.broken]) == (("here", "one", "b"), ["one"])
    assert "must be a name" in found.broken["one"].message
