"""A run that failed gets the remedy for what its last words tell."""

import re
import socket
from types import SimpleNamespace
from typing import Any, cast

import pytest

from maint.cli.open_site import name_cluster
from maint.errors import DeadlinePassed
from maint.model.virtual_cluster import Run
from maint.steps.virtual_clusters.runs import ended, room_hint
from tests.ports import free_port
from tests.steps.operator import Operator


def test_a_run_that_found_no_room_is_not_sent_to_look_for_kerberos_secrets() -> None:
    assert "quota" in room_hint(["cannot fit application: not enough resources in the pool"])
    assert room_hint(["KrbException: no valid keytab"]) == ""


def test_a_run_that_outlasts_the_limit_is_named_with_what_it_was_last_seen_as() -> None:
    pauses = iter([None, DeadlinePassed("the limit of 8s has passed")])

    def sleep(_: float) -> None:
        if passed := next(pauses):
            raise passed

    clock: Any = SimpleNamespace(sleep=sleep)
    cluster: Any = SimpleNamespace(run=lambda number: Run({"id": number, "job": "etl", "status": "starting"}))
    with pytest.raises(DeadlinePassed, match="8s") as failure:
        list(ended(cluster, clock, cast(Any, None), 41))
    assert failure.value.detail == ("run 41 has not ended: it is starting",)


@pytest.mark.parametrize(
    ("found", "hint"), [("nobody", "(`connect_to`): is that the way in?"), ("no token", "are `auth_url` and")]
)
def test_only_a_certificate_that_is_not_accepted_is_sent_to_be_initialised(loaded, found, hint) -> None:
    if found == "nobody":
        config = loaded.lab.folder / "config.yaml"
        config.write_text(re.sub(r'connect_to: ".+"', f'connect_to: "127.0.0.1:{free_port()}"', config.read_text()))
    else:
        loaded.lab.break_("gateway", "vc-token-nameless")
    said = loaded("vc", "status", "-o", "json")
    assert (said.code, hint in said.error["hint"], "vc init" in said.err) == (4, True, False), said.err


@pytest.mark.parametrize("words", [("job", "list"), ("job", "pause", "--name", "pi-estimate"), ("backup",)])
def test_where_a_limit_passes_it_is_told_who_had_not_answered(loaded, words) -> None:
    config = loaded.lab.folder / "config.yaml"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        there = f'connect_to: "127.0.0.1:{silent.getsockname()[1]}"'
        config.write_text(re.sub(r'connect_to: ".+"', there, config.read_text()))
        said = loaded("vc", *words, "--yes", "--timeout", "2s", "-o", "json")
    assert (said.code, said.error["message"]) == (1, "the limit of 2s has passed"), said.err
    assert re.search(r"it passed during: .+; https://service\..+ had not answered", said.error["detail"][0]), said.err


def test_a_certificate_that_is_not_accepted_is_sent_to_be_initialised(loaded) -> None:
    loaded.lab.break_("jobs-engine", "vc-unknown-ca-certificate")
    said = loaded("vc", "status", "-o", "json")
    assert (said.code, "`maint vc init " in said.error["hint"]) == (4, True), said.err


def test_a_backup_without_a_virtual_cluster_that_lets_nobody_in_says_what_to_do_about_each_of_its_troubles(
    loaded,
) -> None:
    loaded.lab.break_("gateway", "vc-token-refused")
    said = loaded("backup", "create", "-o", "json")
    assert (said.code, "--open-window" in said.error["hint"]) == (7, True), said.err  # it is redacted, too
    command = re.findall("`maint (vc status .+?)`", said.error["hint"])
    assert len(command) == 1 and "--accept-empty" not in said.error["hint"], said.err
    shown = loaded(*command[0].split(), "-o", "json")
    assert (shown.code, "still the password there" in shown.error["hint"]) == (4, True), shown.err


@pytest.mark.parametrize("words", [("smoke",), ("job", "run", "--name", "pi-estimate", "--wait")])
def test_a_run_that_could_not_be_fitted_in_is_told_to_ask_for_less(loaded, words) -> None:
    for _ in range(2):  # the run that failed may have been one of a schedule
        loaded.lab.break_("jobs-engine", "vc-run-fails")
        if (said := loaded("vc", *words, "--yes", "-o", "json")).code:
            break
    assert (said.code, "let the job ask for less" in said.error["hint"]) == (1, True), said.err
    assert "init-user" not in said.error["hint"]


def test_a_body_that_is_too_large_is_told_to_be_that(loaded, tmp_path) -> None:
    (tmp_path / "large.txt").write_bytes(b"x" * 2000)
    loaded.lab.switch("vc-upload-max-bytes", "1000")
    words = ("--name", "etl-scripts", "--local-path", str(tmp_path / "large.txt"))
    said = loaded("vc", "resource", "upload", *words, "--yes", "-o", "json")
    assert (said.code, "takes no body as large" in said.error["hint"]) == (1, True), said.err


def test_a_deployment_that_is_too_large_is_told_to_be_that(lost) -> None:
    lost.lab.switch("put-max-bytes", "1000")
    said = lost.restore("-o", "json")
    assert (said.code, "takes no body as large" in said.error["hint"]) == (1, True), said.err


@pytest.fixture
def first_of_two(loaded: Operator) -> str:
    """Configure a second virtual cluster, at an address of its own; return the name of the first."""
    config = loaded.lab.folder / "config.yaml"
    written = config.read_text()
    first = written[written.index("      - name:", written.index("    virtual_clusters:")) :]
    name = re.findall('name: "(.+)"', first)[0]
    config.write_text(written + first.replace(f'"{name}"', '"etl-2"').replace("https://", "https://x"))
    return name


@pytest.mark.parametrize(
    "words",
    [
        ("job", "run", "--name", "nosuch", "--yes"),
        ("job", "delete", "--name", "nosuch", "--yes"),
        ("run", "describe", "--id", "999"),
        ("resource", "describe", "--name", "nosuch"),
    ],
)
def test_of_several_virtual_clusters_a_command_to_type_names_the_one_it_is_about(loaded, first_of_two, words) -> None:
    said = loaded("vc", *words, "--vc", first_of_two, "-o", "json")
    assert said.code == 5, said.err
    command = said.error["hint"].split("`")[1]
    shown = loaded(*command.split()[1:])
    assert (shown.code, f" --vc {first_of_two}" in command) == (0, True), (command, shown.err)


def test_of_several_virtual_clusters_a_plan_says_with_which_one_it_is_undone(loaded, first_of_two) -> None:
    said = loaded("vc", "resource", "create", "--name", "new", "--vc", first_of_two, "--dry-run")
    assert f"undo: `maint vc resource delete --name new --vc {first_of_two}`" in said.out, said.err


def test_of_several_virtual_clusters_a_playbook_names_the_one_it_works_on(loaded, first_of_two) -> None:
    words = ("--set", f"vc={first_of_two}", "--set", "order=nosuch")
    said = loaded("playbook", "run", "resume-schedules", *words, "--yes", "-o", "json")
    assert (said.code, said.error["hint"]) == (5, f"`maint vc job list --vc {first_of_two}` shows what there is")


@pytest.mark.parametrize(
    ("command", "whole"),
    [
        ("maint vc job unpause --name etl", "maint vc job unpause --name etl --vc etl"),
        ("maint vc status --vc etl", "maint vc status --vc etl"),
        ("maint vc init etl", "maint vc init etl"),
        ("maint vc init-user etl ann", "maint vc init-user etl ann"),
    ],
)
def test_a_job_that_is_called_like_a_virtual_cluster_names_none_in_a_command_to_type(command: str, whole: str) -> None:
    named = [SimpleNamespace(name=name) for name in ("etl", "etl-2")]
    site = SimpleNamespace(settings=SimpleNamespace(virtual_clusters=named), named=str)
    name_cluster(site, SimpleNamespace(named=str), ["etl"])
    assert site.named(f"`{command}` does it") == f"`{whole}` does it"
