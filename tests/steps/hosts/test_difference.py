"""A plan shows what a file on a host would become, and nothing that may be secret."""

import pytest

from maint.steps.hosts.files import difference, masked
from tests.steps.hosts.test_files import put

SECRETS = [
    "password=hunter2",
    "  db_password: hunter2",
    "spark.ssl.keyPassword hunter2",
    "export API_TOKEN='hunter2'",
    "url = jdbc:postgresql://etl:hunter2@db.example.internal/etl",
    "<property><name>ldap.bind.password</name><value>hunter2</value></property>",
    "AWS_SECRET_ACCESS_KEY=hunter2",
    "passphrase hunter2",
    "x_pw=hunter2",
    "0 1 * * * curl -u a:hunter2 https://h",
    "jdbc:oracle:thin:a/hunter2@h:1521:b",
    "bind: |\n  x\npassphrase: |\n  hunter2",
    'PlainLoginModule required user_a="hunter2";',
]


@pytest.mark.parametrize("line", SECRETS)
def test_a_value_that_may_be_secret_is_not_shown(line):
    shown = difference(f"a\n{line}\n".encode(), f"a\n{line}3\nb\n".encode())
    assert "hunter2" not in "\n".join(shown)
    assert any(text.startswith("-") for text in shown)
    assert "+b" in shown


def test_the_value_below_the_name_of_a_secret_is_hidden_too():
    lines = ["<name>bind.password</name>", "", "  <value>hunter2</value>", "<name>x</name>", "<value>1</value>"]
    shown = list(masked(lines))
    assert "hunter2" not in "\n".join(shown)
    assert shown[3:] == lines[3:]


@pytest.mark.parametrize(
    "content", [b"\0\1", b"\xff", b"-----BEGIN PRIVATE KEY-----\nx", b"x\n" * 3000, b"x" * 200_000]
)
def test_what_is_no_small_text_or_is_a_key_is_not_shown(content):
    assert difference(b"old\n", content) == ["not shown: too large, not text, or a private key"]


def test_lines_that_change_are_shown_with_what_stands_beside_them():
    old, new = b"a\nb\nc\nd\n", b"a\nb\nC\nd\n"
    assert list(difference(old, new)) == ["@@ line 2 @@", " b", "-c", "+C", " d"]


def planned(hosts, step):
    said = hosts.plan(step)
    assert said.code == 0, said.err
    return said.out


def test_the_plan_shows_what_changes_in_a_file_that_is_replaced_and_on_which_hosts(hosts):
    path = f"{hosts.folder}/file"
    assert hosts.play(put(hosts, b"one\ntwo\npassword=x1\n")).code == 0
    out = planned(hosts, put(hosts, b"one\n2\npassword=x2\n"))
    assert f"{path} on {hosts.names[0]}:" in out
    assert "-two" in out
    assert "+2" in out
    assert "x1" not in out
    assert "x2" not in out


def test_of_a_file_that_not_everybody_may_read_nothing_is_shown(hosts):
    assert hosts.play(put(hosts, b"one\n", mode="0600")).code == 0
    for mode in ("0600", "0644"):
        out = planned(hosts, put(hosts, b"three\n", mode=mode))
        assert "three" not in out
        assert "not everybody may read it" in out


def test_a_new_file_and_one_that_only_changes_its_mode_are_told_as_such(hosts):
    assert "a new file of 1 line" in planned(hosts, put(hosts, b"one\n"))
    assert hosts.play(put(hosts, b"one\n")).code == 0
    assert "owner, group or mode alone" in planned(hosts, put(hosts, b"one\n", mode="0640"))


def test_a_password_in_a_command_is_shown_neither_in_the_plan_nor_while_it_runs(hosts):
    step = {"do": "host.run", "with": {"hosts": list(hosts.names), "command": "echo --password hunter-two"}}
    said, ran = hosts.plan(step), hosts.play(step)
    assert (said.code, "echo --password •••" in said.out, ran.code) == (0, True, 0), said
    assert "hunter" not in said.out + said.err + ran.err
