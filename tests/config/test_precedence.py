"""Where configuration comes from, which layer wins, and that every value knows its origin."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maint.config.paths import config_file, state_folder
from maint.config.precedence import OVERRIDES, ConfigFlags, load_settings
from maint.config.sample import reference
from maint.errors import Invalid, UsageError

ONE = """\
sites:
  prod:
    manager:
      host: cm
      password: env:MANAGER_PASSWORD
"""
TWO = ONE + "  test:\n    manager: {host: cm2, password: prompt}\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_named_file_is_the_only_one_looked_at(tmp_path: Path) -> None:
    write(tmp_path / ".config/maint/config.yaml", ONE)
    named = write(tmp_path / "named.yaml", TWO)
    environ = {"HOME": str(tmp_path)}
    assert load_settings(ConfigFlags(config=str(named)), environ).names == ("prod", "test")
    assert load_settings(ConfigFlags(), {**environ, "MAINT_CONFIG": str(named)}).names == ("prod", "test")
    assert load_settings(ConfigFlags(), environ).names == ("prod",)


def test_a_flag_beats_the_environment(tmp_path: Path) -> None:
    one, two = write(tmp_path / "1.yaml", ONE), write(tmp_path / "2.yaml", TWO)
    assert load_settings(ConfigFlags(config=str(two)), {"MAINT_CONFIG": str(one)}).names == ("prod", "test")


def test_ones_own_file_beats_that_of_the_machine(tmp_path: Path) -> None:
    system = write(tmp_path / "etc/config.yaml", ONE)
    environ = {"HOME": str(tmp_path)}
    assert config_file(None, environ, system=system)[0] == system
    own = write(tmp_path / ".config/maint/config.yaml", ONE)
    assert config_file(None, environ, system=system)[0] == own


def test_a_place_that_cannot_be_seen_holds_no_file(tmp_path: Path) -> None:
    system = write(tmp_path / "etc/config.yaml", ONE)
    # A file where a folder should be fails as a closed folder does, and does so for root too.
    write(tmp_path / ".config", "")
    assert config_file(None, {"HOME": str(tmp_path)}, system=system)[0] == system


def test_the_working_folder_is_never_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("config.yaml", "maint.yaml", "maint/config.yaml", ".maint/config.yaml"):
        write(tmp_path / name, ONE)
    monkeypatch.chdir(tmp_path)
    assert config_file(None, {"HOME": str(tmp_path / "home")}, system=tmp_path / "none")[0] is None


def test_a_pipe_is_no_config_since_what_is_told_to_do_next_names_it_again(tmp_path):
    pipe = tmp_path / "config.yaml"
    os.mkfifo(pipe)
    with pytest.raises(Invalid, match="is a pipe, which only one command could read") as refused:
        config_file(str(pipe), {})
    assert "into a file" in refused.value.hint


def test_a_named_file_that_is_not_there_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"no configuration file .*none\.yaml"):
        load_settings(ConfigFlags(config=str(tmp_path / "none.yaml")), {})


def test_a_configuration_that_nobody_may_look_at_is_not_said_to_be_none(tmp_path: Path) -> None:
    closed = tmp_path / "config.yaml"
    closed.symlink_to(closed)  # which cannot be looked at, by root neither
    with pytest.raises(Invalid, match=r"the configuration .*config\.yaml cannot be looked at: Too many") as named:
        load_settings(ConfigFlags(config=str(closed)), {})
    own = tmp_path / ".config/maint"
    own.mkdir(parents=True)
    (own / "config.yaml").symlink_to("config.yaml")
    with pytest.raises(Invalid, match="no configuration can be seen") as usual:
        load_settings(ConfigFlags(), {"HOME": str(tmp_path)}).site()
    assert any("config.yaml cannot be looked at: Too many" in line for line in usual.value.detail)
    for caught in (named, usual):
        assert "an account that may look there" in str(caught.value.hint)


def test_what_an_option_or_a_variable_says_is_not_sent_to_the_file(tmp_path: Path) -> None:
    file = str(write(tmp_path / "c.yaml", ONE))
    for values, environ in (({"manager.host": ("a b", "--manager")}, {}), ({}, {"MAINT_MANAGER_HOST": "a b"})):
        with pytest.raises(Invalid) as caught:
            load_settings(ConfigFlags(config=file, values=values), environ)
        assert caught.value.way_on == f"correct {next(iter(environ), '--manager')}, then run it again"
    broken = write(tmp_path / "d.yaml", ONE.replace("cm", "a b"))
    with pytest.raises(Invalid) as caught:
        load_settings(ConfigFlags(config=str(broken)), {})
    assert "`maint config validate` looks at the file again" in str(caught.value.way_on)


def test_without_a_configuration_the_way_to_one_is_named(tmp_path: Path) -> None:
    found = load_settings(ConfigFlags(), {"HOME": str(tmp_path)})
    assert (found.path, found.names) == (None, ())
    with pytest.raises(Invalid) as caught:
        found.site()
    assert caught.value.exit_code == 3
    assert "maint config init" in str(caught.value.hint)
    assert "maint lab up" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("MAINT_CONFGI", "MAINT_CONFIG"),
        ("MAINT_SIET", "MAINT_SITE"),
        ("MAINT_MANGER_HOST", "MAINT_MANAGER_HOST"),
        ("MAINT_BACKUP_STOER", "MAINT_BACKUP_STORE"),
    ],
)
def test_a_misspelt_variable_is_told(given: str, meant: str, tmp_path: Path) -> None:
    found = load_settings(ConfigFlags(config=str(write(tmp_path / "c.yaml", ONE))), {given: "x"})
    assert found.misspelt() == {given: meant}
    with pytest.raises(Invalid) as caught:
        load_settings(ConfigFlags(), {"HOME": str(tmp_path), given: "x"}).site()
    assert f"{given} says nothing; {meant} would" in caught.value.detail


def test_variables_of_others_are_none_of_ours(tmp_path: Path) -> None:
    text = ONE.replace("MANAGER_PASSWORD", "MAINT_MANAGER_PASSWOR")
    environ = dict.fromkeys((*OVERRIDES, "MAINT_MANAGER_PASSWOR", "MAINT_LAB", "MAINT_CM_PW", "MAINT_TESTS"), "")
    found = load_settings(ConfigFlags(config=str(write(tmp_path / "c.yaml", text))), environ | {"MAINT_CM_PW": "x"})
    assert found.misspelt() == {}
    environ |= {"MAINT_MANAGER_PASSWOR": "x", "MAINT_LAB": "/tmp/lab", "MAINT_TESTS": "1", "MAINT_ONE_OF_MANY": "1"}
    assert load_settings(ConfigFlags(config=str(tmp_path / "c.yaml")), environ).misspelt() == {}


def test_the_only_site_needs_no_name(tmp_path: Path) -> None:
    assert load_settings(ConfigFlags(config=str(write(tmp_path / "c.yaml", ONE))), {}).site().name == "prod"


def test_several_sites_need_a_choice(tmp_path: Path) -> None:
    config = str(write(tmp_path / "c.yaml", TWO))
    with pytest.raises(Invalid, match="several sites"):
        load_settings(ConfigFlags(config=config), {}).site()
    assert load_settings(ConfigFlags(config=config), {"MAINT_SITE": "test"}).site().name == "test"
    assert load_settings(ConfigFlags(config=config, site="prod"), {"MAINT_SITE": "test"}).site().name == "prod"
    with pytest.raises(UsageError, match="no site 'tset'") as caught:
        load_settings(ConfigFlags(config=config, site="tset"), {}).site()
    assert caught.value.hint == "did you mean 'test'?"
    assert caught.value.detail == ("configured: prod, test",)


def test_a_variable_replaces_a_key_and_a_flag_replaces_the_variable(tmp_path: Path) -> None:
    config = str(write(tmp_path / "c.yaml", ONE))
    environ = {"MAINT_MANAGER_HOST": "other", "MAINT_MANAGER_PLAIN_PORT": "17180", "MAINT_SSH_CONNECT_TIMEOUT": "3s"}
    site = load_settings(ConfigFlags(config=config), environ).site()
    assert site.ssh is not None
    assert (site.manager.host, site.manager.plain_port, site.ssh.connect_timeout) == ("other", 17180, 3.0)
    flags = ConfigFlags(config=config, values={"manager.host": ("third", "--host")})
    assert load_settings(flags, environ).site().manager.host == "third"


def test_a_variable_speaks_of_the_site_at_hand_only(tmp_path: Path) -> None:
    config = str(write(tmp_path / "c.yaml", TWO))
    found = load_settings(ConfigFlags(config=config, site="test"), {"MAINT_MANAGER_HOST": "other"})
    assert (found.site("test").manager.host, found.site("prod").manager.host) == ("other", "cm")


def test_a_variable_may_give_what_the_file_lacks(tmp_path: Path) -> None:
    config = str(write(tmp_path / "c.yaml", "sites:\n  prod:\n    manager: {host: cm}\n"))
    site = load_settings(ConfigFlags(config=config), {"MAINT_MANAGER_PASSWORD": "env:X"}).site()
    assert site.manager.login.password == "env:X"


def test_a_wrong_variable_is_named_and_a_secret_in_it_is_not_repeated(tmp_path: Path) -> None:
    config = str(write(tmp_path / "c.yaml", ONE))
    with pytest.raises(Invalid, match=r"MAINT_MANAGER_PLAIN_PORT.*must be a whole number"):
        load_settings(ConfigFlags(config=config), {"MAINT_MANAGER_PLAIN_PORT": "http"})
    with pytest.raises(Invalid, match=r"MAINT_MANAGER_PASSWORD.*must be a reference") as caught:
        load_settings(ConfigFlags(config=config), {"MAINT_MANAGER_PASSWORD": "hunter2"})
    assert "hunter2" not in caught.value.message + "".join(caught.value.detail)


@pytest.mark.parametrize("given", ["-1", "0", "99999999999"])
def test_a_number_in_a_variable_is_a_number_as_it_is_in_the_file(tmp_path: Path, given: str) -> None:
    config = str(write(tmp_path / "c.yaml", ONE))
    with pytest.raises(Invalid, match=r"MAINT_MANAGER_PLAIN_PORT.*must be (1 or more|65535 or less)"):
        load_settings(ConfigFlags(config=config), {"MAINT_MANAGER_PLAIN_PORT": given})


def test_a_config_or_state_in_a_folder_whose_name_is_no_text_is_refused(tmp_path: Path) -> None:
    strange = tmp_path / "\udcff"
    config = write(strange / "c.yaml", ONE)
    (tmp_path / "link.yaml").symlink_to(config)
    for named in (config, tmp_path / "link.yaml"):
        with pytest.raises(Invalid, match=r"the configuration '.*\\udcff/c.yaml' lies where the name"):
            load_settings(ConfigFlags(config=str(named)), {})
    found = load_settings(ConfigFlags(config=str(write(tmp_path / "c.yaml", ONE))), {"MAINT_STATE": str(strange)})
    with pytest.raises(Invalid, match=r"the state folder .* is no UTF-8 text"):
        assert found.site()


@pytest.mark.parametrize("key", ["MAINT_MANAGER_CA", "MAINT_MANAGER_HOST", "--store"])
def test_what_is_no_text_is_named_by_the_variable_or_flag_that_gives_it(tmp_path: Path, key: str) -> None:
    config = str(write(tmp_path / "c.yaml", ONE))
    values = {"backup.store": ("/srv/\udcff", key)} if key == "--store" else {}
    with pytest.raises(Invalid, match=f"^{key}: must be UTF-8 text"):
        load_settings(ConfigFlags(config=config, values=values), {} if values else {key: "/srv/\udcff"})


def test_every_variable_replaces_a_key_that_exists() -> None:
    known = {key.name for key in reference()}
    assert {f"sites.NAME.{key}" for key in OVERRIDES.values()} <= known


def test_of_several_sites_a_chosen_one_alone_is_shown(tmp_path: Path) -> None:
    found = load_settings(ConfigFlags(config=str(write(tmp_path / "c.yaml", TWO)), site="test"), {})
    shown = [item.key for item in found.origins()]
    assert {key.split(".")[1] for key in shown if key.startswith("sites.")} == {"test"}
    assert shown[0] == "state"


def test_every_value_knows_where_it_came_from(tmp_path: Path) -> None:
    config = write(tmp_path / "c.yaml", ONE)
    found = load_settings(ConfigFlags(config=str(config), state="/srv/s"), {"MAINT_MANAGER_HOST": "other"})
    origins = {item.key: (item.value, item.origin) for item in found.origins()}
    assert origins["state"] == ("/srv/s", "the command")
    assert origins["sites.prod.manager.host"] == ("other", "MAINT_MANAGER_HOST")
    assert origins["sites.prod.manager.password"] == ("env:MANAGER_PASSWORD", f"{config}:5:17")
    assert origins["sites.prod.manager.tls_port"] == (7183, "default")
    write(config, "report: {folder: /srv/pages}\n" + ONE)
    shown = load_settings(ConfigFlags(config=str(config)), {}).origins()
    of_pages = next(item for item in shown if item.key != "state")
    assert (of_pages.key, of_pages.value, of_pages.origin) == ("report.folder", "/srv/pages", f"{config}:1:18")


@pytest.mark.parametrize("said", ["", "    ssh: {sudo: true}\n", '    ssh: {sudo: {password: "env:OTHER"}}\n'])
def test_the_variable_for_the_password_of_sudo_counts_however_the_file_says_sudo(tmp_path: Path, said: str) -> None:
    config = write(tmp_path / "c.yaml", ONE + said)
    found = load_settings(ConfigFlags(config=str(config)), {"MAINT_SSH_SUDO_PASSWORD": "env:TYPED"})
    ssh = found.site().ssh
    assert ssh and ssh.sudo_password == "env:TYPED"
    assert "MAINT_SSH_SUDO_PASSWORD" in {item.origin for item in found.origins()}


def test_variables_that_hold_secrets_are_known(tmp_path: Path) -> None:
    found = load_settings(ConfigFlags(config=str(write(tmp_path / "c.yaml", ONE))), {})
    assert found.secret_variables() == {"MANAGER_PASSWORD"}


@pytest.mark.parametrize("places", ["store: s3://maint/x", "store: /srv/x\n      copies: [s3://maint/x]"])
def test_variables_that_hold_the_keys_of_a_store_are_known_where_the_config_leaves_them_out(
    tmp_path: Path, places: str
) -> None:
    config = write(tmp_path / "c.yaml", f"{ONE}    backup:\n      identity: prompt\n      {places}\n")
    keys = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    assert load_settings(ConfigFlags(config=str(config)), {}).secret_variables() == {"MANAGER_PASSWORD", *keys}
    local = write(tmp_path / "local.yaml", f"{ONE}    backup: {{identity: prompt, store: /srv/x}}\n")
    assert load_settings(ConfigFlags(config=str(local)), {}).secret_variables() == {"MANAGER_PASSWORD"}


def test_the_state_is_named_by_a_flag_else_the_environment_else_the_file(tmp_path: Path) -> None:
    config = str(write(tmp_path / "c.yaml", "state: s\n" + ONE))
    environ = {"MAINT_STATE": "/from/environment"}
    assert load_settings(ConfigFlags(config=config, state="/from/flag"), environ).state == Path("/from/flag")
    assert load_settings(ConfigFlags(config=config), environ).state == Path("/from/environment")
    assert load_settings(ConfigFlags(config=config), {}).site().state == tmp_path / "s/prod"


def homes(folder: Path) -> Path | None:
    return Path("/home/alice") if folder == Path("/home/alice") else None


@pytest.mark.parametrize(
    ("config", "environ", "state"),
    [
        ("/etc/maint/config.yaml", {"HOME": "/home/alice"}, "/var/lib/maint"),
        ("/home/alice/.config/maint/config.yaml", {"HOME": "/home/alice"}, "/home/alice/.local/state/maint"),
        ("/home/alice/c.yaml", {"HOME": "/home/alice", "XDG_STATE_HOME": "/x"}, "/x/maint"),
        ("/home/alice/c.yaml", {"HOME": "/home/alice", "XDG_STATE_HOME": "x"}, "/home/alice/.local/state/maint"),
        ("/home/alice/c.yaml", {"HOME": "/root", "XDG_STATE_HOME": "/x"}, "/home/alice/.local/state/maint"),
        ("/srv/platform/c.yaml", {"HOME": "/home/alice"}, "/srv/platform/.maint"),
        ("/srv/platform/c.yaml", {"HOME": "/"}, "/srv/platform/.maint"),
        ("/srv/platform/c.yaml", {}, "/srv/platform/.maint"),
    ],
)
def test_the_state_lives_where_everybody_who_uses_the_file_finds_it(
    config: str, environ: dict[str, str], state: str
) -> None:
    assert state_folder(Path(config), environ, home_of_owner=homes) == Path(state)


def test_a_link_to_the_file_leads_to_the_same_state(tmp_path: Path) -> None:
    real = write(tmp_path / "real/c.yaml", ONE)
    link = tmp_path / "link.yaml"
    link.symlink_to(real)
    found = [load_settings(ConfigFlags(config=str(path)), {}).state for path in (real, link)]
    assert found == [tmp_path / "real/.maint"] * 2


LINES = st.lists(
    st.sampled_from(
        [
            "sites:",
            "sites: 1",
            "state:",
            "null",
            "- x",
            "  ",
            "  a:",
            "    manager:",
            "    manager: [1]",
            "      host: h",
            "      password: env:X",
            "    backup:",
            "    backup: 3",
            "      store: s",
            "    hosts: [{name: a}]",
            "    ssh: {sudo: 3}",
            "    accepted: [{check: 1}]",
            "  b: {manager: {host: h, password: prompt}}",
        ]
    ),
    max_size=9,
).map("\n".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=LINES, host=st.sampled_from(["", "h", "a b"]))
def test_any_file_loads_or_is_invalid(tmp_path: Path, text: str, host: str) -> None:
    config = write(tmp_path / "c.yaml", text)
    try:
        found = load_settings(ConfigFlags(config=str(config)), {"MAINT_MANAGER_HOST": host, "MAINT_BACKUP_STORE": host})
        assert found.origins()
        assert found.site(found.names[0]).manager.host
    except Invalid as error:
        assert error.message
