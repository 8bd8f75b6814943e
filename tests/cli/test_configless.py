"""A machine that has no config of ours: the store, the key, and what the operator types."""

import json
import re
import shlex
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from maint.cli import restore
from maint.cli.app import COMMANDS
from maint.cli.command import loaded as loaded_command
from maint.cli.configless import connected
from maint.cli.options import Connection
from tests.steps.operator import Said, maint

SITE = "lab"
GUID = "/etc/cloudera-scm-server/uuid"


class Bare:
    """An operator on a machine without a config, in a folder of their own."""

    def __init__(self, lab: Any, home: Path) -> None:
        self.lab, self.home = lab, home
        self.folder = lab.lab.folder
        self.status = lab.lab.status()
        self.key = (lab.state / "keys/signing.pub").read_text().rsplit(" ", 1)[0]
        self.store = ["--store", str(self.folder / "backups")]
        self.trust = ["--signed-by", self.key]
        self.identity = ["--identity", f"file:{self.folder}/identity"]

    def __call__(self, *words: str, **env: str) -> Said:
        return maint(*words, XDG_STATE_HOME=str(self.home), HOME=str(self.home), **env)

    @property
    def manager(self) -> list[str]:
        """The flags that name the lab's manager and its host."""
        ssh, at = self.status["ssh"], self.status["manager"]
        plain, tls = (at[name].rpartition(":")[2] for name in ("plain", "tls"))
        return [
            *("--manager", f"127.0.0.1:{plain}:{tls}", "--username", "admin"),
            *("--password", f"file:{self.folder}/password", "--bootstrap", f"file:{self.folder}/bootstrap-password"),
            *("--ca", str(at["ca"]), "--license", str(self.folder / "license.txt")),
            *("--ssh-key", str(ssh["key"]), "--ssh-port", str(ssh["port"]), "--known-hosts", str(ssh["known_hosts"])),
        ]

    @property
    def everything(self) -> list[str]:
        return [*self.store, *self.trust, *self.identity, *self.manager]


@pytest.fixture
def bare(lost: Any, tmp_path: Path) -> Bare:
    return Bare(lost, tmp_path / "home")


def test_a_manager_comes_back_with_nothing_but_store_and_key(bare: Bare) -> None:
    said = bare("restore", "run", *bare.everything, "--confirm", SITE, "-o", "json")
    assert said.code == 0, said.err
    assert said.json["actions"][-1]["kind"] == "deployment.compare"
    assert {action["outcome"] for action in said.json["actions"]} <= {"done", "unchanged"}
    assert bare.lab.puts == 1


def test_what_starts_the_platform_after_a_restore_names_the_config_that_was_kept(
    bare: Bare, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = restore.carry_out

    def refused(flags: Any, name: str, *given: Any, **more: Any) -> int:
        if name == "start-platform":
            bare.lab.lab.break_("clusters", "unauthorised")
        return real(flags, name, *given, **more)

    monkeypatch.setattr(restore, "carry_out", refused)  # nothing fails by itself at the wanted moment
    said = bare("restore", "run", *bare.everything, "--confirm", SITE, "--then-start", "--yes")
    assert (said.code, bare.lab.puts) == (4, 1), said.err
    (command,) = re.findall("`(maint manager start [^`]*)` starts it", said.err.replace("\n", " "))
    assert command.endswith(f"--config {bare.home}/maint/bare/{SITE}.yaml")
    bare.lab.lab.repair()
    assert bare(*shlex.split(command)[1:], "--dry-run").code == 0


def test_the_guid_that_a_restore_asks_for_is_had_from_the_same_store_and_key(bare: Bare, tmp_path: Path) -> None:
    guid = bare.lab.root / GUID.lstrip("/")
    was = guid.read_bytes()
    guid.unlink()
    said = bare("restore", "plan", *bare.everything, "-o", "json")
    assert said.code == 5
    assert f"--extract {GUID}" in " ".join(said.error["detail"])
    snapshot = bare("backup", "list", *bare.store, *bare.trust, "-o", "json").json["snapshots"][0]["id"]
    taken = ["backup", "files", snapshot, "--extract", GUID, "--to", str(tmp_path / "uuid")]
    said = bare(*taken, *bare.store, *bare.trust, *bare.identity)
    assert said.code == 0, said.err
    assert (tmp_path / "uuid").read_bytes() == was


def test_a_plan_touches_nothing(bare: Bare) -> None:
    bare.lab.forget_requests()
    said = bare("restore", "plan", *bare.everything, "-o", "json")
    assert said.code == 0, said.err
    assert len(said.json["digest"]) == 64
    assert bare.lab.sent == []


@pytest.mark.parametrize("name", ["unsaid", SITE])
def test_where_the_config_that_is_made_of_the_options_has_no_place_that_is_told(bare: Bare, name: str) -> None:
    (there := bare.home / f"maint/bare/{name}.yaml").mkdir(parents=True)
    said = bare("restore", "plan", *bare.everything)
    assert (said.code, f"{there} cannot be written" in said.err) == (1, True), said.err


def test_values_are_meant_from_where_the_operator_is(bare: Bare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bare.folder)
    said = bare("backup", "verify", "--store", "backups", *bare.trust, "--identity", "file:identity", "-o", "json")
    assert said.code == 0, said.err
    verification = said.json["verification"]
    assert (verification["result"], verification["depth"], verification["on_capture"]) == ("verified", 2, False)


def test_a_store_can_be_looked_at_without_a_private_key(bare: Bare) -> None:
    for line in ("list", "show 2", "files 2", "diff 2 2", "verify"):
        said = bare("backup", *line.split(), *bare.store, *bare.trust)
        assert said.code == 0, (line, said.err)


def test_nobody_is_trusted_on_first_sight(bare: Bare) -> None:
    for words in ("backup list", "backup verify", "restore plan", "restore run"):
        flags = [*bare.store, *bare.identity, *(bare.manager if words.startswith("restore") else [])]
        said = bare(*words.split(), *flags, "-o", "json")
        assert (said.code, "--signed-by" in said.error["hint"]) == (2, True), words
    said = bare("backup", "list", *bare.store, "-o", "json")  # a store alone
    assert (said.code, "--signed-by" in said.error["hint"]) == (2, True)


def test_a_wrong_value_is_told_by_its_option_and_names_no_file_of_ours(bare: Bare) -> None:
    for option, value, words in (
        ("--store", "ftp://host/x", "must be a path, sftp://HOST/PATH or s3://BUCKET/PREFIX"),
        ("--signed-by", "ssh-ed25519 AAAA", "must be an OpenSSH public key"),
        ("--s3", "endpoint=nowhere", "must be "),
        ("--manager", "a/b", "must be a host name or an address"),
    ):
        said = bare("restore", "plan", *bare.everything, option, value, "-o", "json")
        assert (said.code, said.error["message"].startswith(f"{option}: {words}")) == (2, True), said.err
        assert "yaml" not in json.dumps(said.error)
        assert "maint help bare-host" in said.error["hint"] and "config validate" not in said.error["hint"]
    said = bare.lab("backup", "list", "--store", "ftp://host/x", "-o", "json")  # also beside a config
    assert (said.code, said.error["message"].startswith("--store: must be a path")) == (2, True)
    said = bare("backup", "list", *bare.store, "--signed-by", "signing.pub", "-o", "json")
    assert (said.code, said.error["message"]) == (2, "--signed-by 'signing.pub' is not a public key")


def test_a_snapshot_signed_by_somebody_else_is_not_restored(bare: Bare) -> None:
    stranger = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAYfuQv//shKDBwwszxMy7/rEeDeMZCLGxDmuE/4hYTg"
    bare.lab.forget_requests()
    flags = [*bare.store, "--signed-by", stranger, *bare.identity, *bare.manager]
    said = bare("restore", "run", *flags, "--confirm", SITE, "-o", "json")
    assert said.code == 5
    assert "--signed-by" in said.error["hint"]
    assert bare.lab.sent == []
    assert bare("backup", "verify", *bare.store, "--signed-by", stranger).code == 1


def test_what_a_stranger_finds_is_not_kept_in_the_store(bare: Bare) -> None:
    before = sorted((bare.folder / "backups").rglob("*"))
    bare("backup", "verify", *bare.store, *bare.trust, *bare.identity)
    assert sorted((bare.folder / "backups").rglob("*")) == before


def test_a_restore_says_which_flag_is_missing(bare: Bare) -> None:
    flags = bare.everything
    for absent in ("--manager", "--password", "--identity"):
        at = flags.index(absent)
        said = bare("restore", "run", *flags[:at], *flags[at + 2 :], "--confirm", SITE, "-o", "json")
        assert (said.code, absent in said.error["message"]) == (2, True), absent


def test_several_sites_in_a_store_must_be_told_apart(bare: Bare) -> None:
    other = bare.folder / "backups/other/20260101T000000.000Z-0000"
    other.mkdir(parents=True)
    (other / "manifest.json").write_text("{}")
    said = bare("backup", "list", *bare.store, *bare.trust, "-o", "json")
    assert (said.code, said.error["detail"]) == (2, [SITE, "other"])
    assert bare("backup", "list", *bare.store, *bare.trust, "--site", SITE).code == 0


def test_an_empty_store_is_told(bare: Bare, tmp_path: Path) -> None:
    said = bare("backup", "list", "--store", str(tmp_path / "nothing"), *bare.trust, "-o", "json")
    assert (said.code, "no snapshot" in said.error["message"]) == (3, True)


@pytest.mark.parametrize(
    ("below", "hint"),
    [("backups/lab", "above that of the site"), ("backups/lab/2*", "above that of the site"), ("", "backups in it")],
)
def test_a_folder_above_or_below_the_store_is_no_empty_store(bare: Bare, below: str, hint: str, tmp_path: Path) -> None:
    shutil.copytree(bare.folder / "backups", tmp_path / "disk/backups")
    (folder,) = (tmp_path / "disk").glob(below) if below else [tmp_path / "disk"]
    said = bare("backup", "list", "--store", str(folder), *bare.trust, "-o", "json")
    assert (said.code, hint in said.error["hint"]) == (3, True), said.err


def test_a_site_that_the_store_does_not_hold_is_no_empty_list(bare: Bare) -> None:
    said = bare("backup", "list", *bare.store, *bare.trust, "--site", "prod", "-o", "json")
    assert (said.code, said.error["hint"]) == (3, f"--site {SITE}")


@pytest.mark.parametrize(("site", "code", "words"), [("backups", 3, "backups in it"), ("../other", 2, "not a name")])
def test_what_is_named_as_a_site_and_is_none_is_refused(
    bare: Bare, tmp_path: Path, site: str, code: int, words: str
) -> None:
    shutil.copytree(bare.folder / "backups", tmp_path / "disk/backups")
    shutil.copytree(bare.folder / "backups", tmp_path / "other")
    said = bare("backup", "list", "--store", str(tmp_path / "disk"), *bare.trust, "--site", site, "-o", "json")
    assert (said.code, words in f"{said.error}") == (code, True), said.err


def test_a_manager_that_makes_no_sense_is_refused(bare: Bare) -> None:
    flags = bare.everything
    for manager in ("cm:1:2:3", "cm:x", ":7180", "[::1]:a"):
        flags[flags.index("--manager") + 1] = manager
        assert bare("restore", "plan", *flags).code in (2, 3), manager


def test_what_is_kept_of_the_flags_holds_no_secret_and_takes_a_run_up_again(bare: Bare) -> None:
    bare.lab.lab.break_("restore", "put-fails")
    said = bare("restore", "run", *bare.everything, "--confirm", SITE, "-o", "json")
    assert said.code == 1
    config = bare.home / "maint/bare" / f"{SITE}.yaml"
    assert f"--config {config}" in said.error["hint"]
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    for secret in ("password", "identity"):
        assert (bare.folder / secret).read_text().strip() not in config.read_text()
    bare.lab.lab.repair()
    assert bare("backup", "list", *bare.store, *bare.trust).code == 0  # which knows neither manager nor key
    taken_up = bare("playbook", "resume", "--config", str(config))
    assert taken_up.code == 0, taken_up.err


def test_what_is_left_to_do_after_a_restore_without_a_config_can_be_typed_also_from_its_report(bare: Bare) -> None:
    said = bare("restore", "run", *bare.everything, "--confirm", SITE)
    assert said.code == 0, said.err
    (report,) = (bare.home / "maint/bare" / SITE / "reports").glob("*.md")
    for text in (said.err, report.read_text()):
        (line,) = [line for line in text.splitlines() if "agents, monitors" in line]
        words = shlex.split(line.partition("`")[2].rstrip("`").replace("NAME", "base"))
        assert bare(*words[1:], "--dry-run").code == 0, line


def test_what_somebody_has_added_to_the_config_of_the_flags_is_kept_beside_it(bare: Bare) -> None:
    config = bare.home / "maint/bare" / f"{SITE}.yaml"
    assert bare("restore", "plan", *bare.everything).code == 0
    written = config.read_text()
    assert "said something else" not in bare("restore", "plan", *bare.everything).err
    config.write_text(added := f"# the KDC is asked by hand\n{written}")
    for _ in range(2):
        said = bare("restore", "plan", *bare.everything)
        assert (said.code, config.read_text(), config.with_name("lab.yaml.1").read_text()) == (0, written, added)
    config.write_text(again := f"# and again\n{written}")
    said = bare("restore", "plan", *bare.everything)
    assert f"{config} said something else than these flags: that is {config}.2 now" in said.err
    assert config.with_name("lab.yaml.2").read_text() == again


def test_a_configured_site_can_read_another_store(loaded: Any, tmp_path: Path) -> None:
    (loaded.lab.folder / "backups").rename(tmp_path / "moved")
    assert loaded("backup", "list", "-o", "json").json["snapshots"] == []
    said = loaded("backup", "list", "--store", str(tmp_path / "moved"), "-o", "json")
    assert len(said.json["snapshots"]) == 1
    assert loaded("backup", "verify", "--store", str(tmp_path / "moved")).code == 0


def test_what_is_to_be_typed_after_a_refusal_reads_the_store_that_was_named(lost: Any, tmp_path: Path) -> None:
    guid = lost.root / GUID.lstrip("/")
    was = guid.read_bytes()
    guid.unlink()
    (lost.lab.folder / "backups").rename(tmp_path / "moved")
    named = ["--store", str(tmp_path / "moved")]
    said = lost("restore", "plan", *named, "-o", "json")
    assert said.code == 5
    (command,) = re.findall("`maint (backup files [^`]*)`", " ".join(said.error["detail"]))
    assert lost(*shlex.split(command.replace("FILE", str(tmp_path / "uuid")))).code == 0
    assert (tmp_path / "uuid").read_bytes() == was
    said = lost("backup", "files", "2", *named, "--extract", "/etc/x", "--to", str(tmp_path / "x"), "-o", "json")
    assert said.error["hint"].endswith(f"--store {tmp_path / 'moved'} {said.error['message'].split()[1]}` lists them")


def test_the_commands_that_take_a_store_are_those_that_a_hint_tells_it() -> None:
    taking = {
        words for words, (place, *_) in COMMANDS.items() if any("store" in one for one in loaded_command(place).groups)
    }
    told = {words for words in COMMANDS if "--store" in connected(f"`maint {words} X`", Connection(store="/x"), SITE)}
    assert told == taking


def test_flags_that_stand_for_a_config_and_a_config_exclude_each_other(loaded: Any, tmp_path: Path) -> None:
    said = loaded("backup", "list", "--store", str(tmp_path), "--identity", "file:/x", "-o", "json")
    assert said.code == 2


def test_a_mistake_is_written_nowhere_and_replaces_no_config_of_an_unfinished_run(bare: Bare) -> None:
    config = bare.home / "maint/bare/lab.yaml"
    assert bare("restore", "plan", *bare.everything).code == 0
    before = config.read_bytes()
    for option, value in (
        ("--password", "Canary-Secret-0001"),
        ("--identity", "AGE-SECRET-KEY-Canary-Secret-0001"),
        ("--s3", "secret_key=Canary-Secret-0001"),
        ("--store", "sftp://maint:Canary-Secret-0001@backup.example/srv"),
    ):
        said = bare("restore", "plan", *bare.everything, option, value)
        assert (said.code, "Canary-Secret" in said.err + said.out) == (2, False), option
        assert config.read_bytes() == before, option
        assert [path.name for path in config.parent.glob("*.yaml")] == ["lab.yaml"], option


def test_a_newer_snapshot_that_is_not_believed_is_told_before_an_older_one_is_restored(bare: Bare) -> None:
    newer = bare.folder / "backups" / SITE / "20990101T000000.000Z-beef"
    newer.mkdir()
    (newer / "manifest.json").write_text("{}")
    said = bare("restore", "plan", *bare.everything)
    assert (said.code, f"a NEWER one is passed over: {newer.name}: " in said.out) == (0, True), said.out
    told = bare("restore", "plan", *bare.everything, "-o", "json").json
    assert [one["id"] for one in told["snapshot"]["newer"]] == [newer.name]


def test_snapshots_by_another_signer_are_refused_with_that_reason(bare: Bare) -> None:
    other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOD5zoT/TEHl5SvkLvh53sIn0HIiisvKSpucjOWnUwQr"
    said = bare("restore", "plan", *bare.store, *bare.identity, *bare.manager, "--signed-by", other)
    assert said.code == 5
    assert "not trusted" in said.err
