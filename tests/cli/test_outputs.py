"""What each command prints as JSON: held against its published schema, which only ever gains keys."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from maint.cli.app import COMMANDS
from maint.cli.help.output_schemas import OUTPUTS, WITHOUT, schema_of
from maint.lab.running import Lab
from tests.cli.conftest import few_hosts
from tests.steps.conftest import copy
from tests.steps.operator import SITE, Operator, maint

PUBLISHED = Path(__file__).parents[1] / "data/outputs.json"
SNAPSHOT, JOB, RESOURCE = "@SNAPSHOT@", ("--name", "orders-ingest"), ("--name", "etl-scripts")
# What each command takes beside its name; what is missing takes nothing.
WORDS: dict[str, tuple[str, ...]] = {
    "lab up": ("--folder", "@NEW@/lab"),
    "lab down": ("--folder", "@LAB@"),
    "lab status": ("--folder", "@LAB@"),
    "lab break": ("manager", "error-500", "--folder", "@LAB@"),
    "cluster stop": ("base",),
    "cluster start": ("base",),
    "cluster delete": ("base",),
    "service stop": ("hdfs",),
    "service start": ("hdfs",),
    "service restart": ("hdfs",),
    "service refresh": ("hdfs",),
    "setting list": ("--service", "hdfs"),
    "setting set": ("dfs_replication", "2", "--service", "hdfs"),
    "setting unset": ("hadoop_security_authorization", "--service", "hdfs"),
    "restore config": ("--service", "hdfs"),
    "playbook undo": ("@RUN@",),
    "manager truststore-password": ("--file", "@NEW@/password"),
    "restore run": ("--manager-only",),
    "playbook show": ("probe",),
    "playbook plan": ("probe",),
    "playbook run": ("probe",),
    "playbook dismiss": ("@RUN@", "--reason", "so"),
    "backup list": ("--rebuild",),
    "backup show": (SNAPSHOT,),
    "backup hold": (SNAPSHOT, "--reason", "so"),
    "backup release": (SNAPSHOT, "--reason", "so"),
    "backup diff": (SNAPSHOT, SNAPSHOT),
    "backup heal": (SNAPSHOT, "--from", SNAPSHOT),
    "backup rekey": ("--all", "--prune-old"),
    "backup files": (SNAPSHOT, "--extract", "/etc/default/cloudera-scm-server", "--to", "@NEW@/file"),
    "schedule install": ("--form", "systemd", "--folder", "@NEW@/units"),
    "schedule remove": ("--folder", "@NEW@/units"),
    "schedule show": ("--folder", "@NEW@/units"),
    "host check": ("--check", "os.thp", "--save-facts", "@NEW@/facts", "--report", "@NEW@/report.html"),
    "site report": ("--to", "@NEW@/pages"),
    "vc init": ("@VC@",),
    "vc init-user": ("@VC@", "etl_user"),
    "vc job describe": JOB,
    "vc job create": ("--name", "another", "--application-file", "local:/opt/app.py"),
    "vc job update": (*JOB, "--cron-expression", "0 3 * * *"),
    "vc job run": JOB,
    "vc job pause": JOB,
    "vc job unpause": JOB,
    "vc job delete": JOB,
    "vc resource describe": RESOURCE,
    "vc resource create": ("--name", "another"),
    "vc resource upload": (*RESOURCE, "--local-path", "@LAB@/config.yaml"),
    "vc resource download": (*RESOURCE, "--resource-path", "Vacuum.py", "--local-path", "@NEW@/Vacuum.py"),
    "vc resource delete": RESOURCE,
    "vc resource delete-file": (*RESOURCE, "--resource-path", "Vacuum.py"),
    "vc run describe": ("--id", "1"),
    "vc run logs": ("--id", "1", "--type", "driver/stdout"),
    "vc run kill": ("--id", "1"),
    "vc spark submit": ("@LAB@/config.yaml",),
    "generate bundle": ("--to", "@NEW@/bundle.tar.gz"),
    "config init": ("@NEW@/config.yaml",),
}
# Words for a real run, where those for a dry one do not do; and what must come last, as it takes away what others need.
REAL = {
    "lab break": ("--list",), "generate schema": ("output",), "playbook diff": ("@PLAN@", "@PLAN@"),
    "playbook schedule": ("probe", "--form", "systemd", "--folder", "@NEW@/own"),
    "playbook new": ("tried", "--folder", "@LAB@"),
}  # fmt: skip
LAST = ("cluster start", "manager restore", "restore run", "cluster stop", "cluster delete")
# A lab within a lab; and a bundle, which takes long: the one of `test_packaging` is held against its schema there.
NOT_HERE = {"lab demo", "lab up", "lab down", "generate bundle"}
# What is tried dry, too: plans of all kinds. `test_dry_run` tries what prints another thing than a plan then.
DRY = ("schedule remove", "restore run", "backup create", "cluster stop", "vc job run", "vc resource delete-file")
_NO_RUN, _NO_VC_RUN = "there is no such run in this lab", "no job has run in this lab"
# Commands that answer with an error only in this lab, and why.
SILENT = {
    "backup heal": "no snapshot of this lab is redacted",
    "notify test": "the lab's config has no notice",
    "playbook approve": _NO_RUN, "playbook dismiss": _NO_RUN, "playbook resume": _NO_RUN, "playbook undo": _NO_RUN,
    "playbook test": "it brings up a lab of its own; tests/cli/playbooks tries it",
    "vc restore": "nothing of the virtual cluster is lost", "vc undo": "nothing in it was deleted or replaced",
    "vc run describe": _NO_VC_RUN, "vc run logs": _NO_VC_RUN, "vc run kill": _NO_VC_RUN,
}  # fmt: skip


def fits(value, schema, definitions):
    """Whether a value fits a schema, as far as our schemas of output go."""
    if "$ref" in schema:
        return fits(value, definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        return any(fits(value, one, definitions) for one in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return value in schema.get("enum", [schema.get("const")])
    kinds = {"string": str, "boolean": bool, "number": (int, float), "integer": int, "null": type(None)}
    kinds |= {"object": dict, "array": list}
    types = schema.get("type", list(kinds))
    if not isinstance(value, tuple(kinds[one] for one in ([types] if isinstance(types, str) else types))):
        return False
    if isinstance(value, list):
        return all(fits(one, schema.get("items", {}), definitions) for one in value)
    if isinstance(value, dict):
        inner = schema.get("properties", {})
        lacking = set(schema.get("required", ())) - set(value)
        return not lacking and all(fits(one, inner.get(key, {}), definitions) for key, one in value.items())
    return True


@pytest.fixture(scope="module")
def printed(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, list[Any]]]:
    """Every command's JSON, with its words: of a real run, and of a dry one where that differs."""
    folder = tmp_path_factory.mktemp("outputs")
    with Lab(copy(backed_up, folder / "lab")) as lab, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        operator, found = Operator(lab), dict[str, list[Any]]()
        config = few_hosts(Path(operator.config))
        config["sites"][SITE]["backup"]["keep"] = {"last": 9}
        Path(operator.config).write_text(json.dumps(config))
        operator("playbook", "run", "probe", "--yes")
        (folder / "plan.json").write_text(operator("playbook", "plan", "probe", "-o", "json").out)
        first = [name for name in COMMANDS if name not in LAST and name not in NOT_HERE]
        for name in [*DRY, *first, *LAST]:
            dry = ("--dry-run",) if name not in found and name in DRY else ()
            words = [*words_of(name, operator, folder), *dry, "-o", "json", "--timeout", "60s", "--yes", "--confirm"]
            said = operator(*name.split(), *words, "base" if name.startswith("cluster") else SITE)
            found.setdefault(name, [])
            if said.out:
                found[name].append(json.loads(said.out))
            elif said.err.startswith("{"):
                assert fits(said.error, schema_of("output")["$defs"]["error"], schema_of("output")["$defs"]), name
        yield found


def words_of(name: str, operator: Operator, folder: Path) -> list[str]:
    """Return the words that a command needs."""
    values = {
        SNAPSHOT: min(path.name for path in (operator.lab.folder / "backups" / SITE).glob("2*")),
        "@NEW@": str(folder / "new"), "@PLAN@": str(folder / "plan.json"),
        "@LAB@": str(operator.lab.folder), "@VC@": "Default-VC-abc12345",
        "@RUN@": next(path.stem for path in (operator.state / "runs").glob("*.jsonl")),
    }  # fmt: skip
    words = list(REAL.get(name, WORDS.get(name, ())))
    for mark, value in values.items():
        words = [word.replace(mark, value) for word in words]
    return words


def test_every_schema_is_of_a_command() -> None:
    assert {name for name in COMMANDS if name not in OUTPUTS} == WITHOUT
    assert maint("generate", "schema", "-o", "json").json["schema"] == "maint/1"
    assert "schema" not in json.loads(maint("generate", "schema").out), "by itself it is what an editor reads"
    assert [name for name in OUTPUTS if name not in COMMANDS] == []


def test_what_each_command_prints_fits_its_schema(printed: Mapping[str, list[Any]]) -> None:
    wrong, whole = [], schema_of("output")
    for name, values in printed.items():
        schema = schema_of("output", name) if name in OUTPUTS else {}
        wrong += [(name, value) for value in values if not fits(value, schema, schema.get("$defs", {}))]
        if name not in WITHOUT:
            wrong += [(name, value) for value in values if not {*value} <= {*whole["properties"]}]
            wrong += [(name, value) for value in values if not fits(value, whole, whole["$defs"])]
    assert wrong == []
    assert {name for name, values in printed.items() if not values} <= set(SILENT)


def test_a_schema_can_fail() -> None:
    schema = schema_of("output", "backup list")
    assert not fits({"schema": "maint/1", "snapshots": [{"id": 1}]}, schema, schema["$defs"])
    assert not fits({"schema": "maint/1"}, schema, schema["$defs"])


def test_schemas_are_published_by_command_with_a_version() -> None:
    for words in ("vc run list", "vc drift", "backup verify"):
        schema = json.loads(maint("generate", "schema", "output", *words.split()).out)
        assert schema["$id"] == f"urn:maint:output:{words.replace(' ', '-')}:1"
    said = maint("generate", "schema", "output", "vc", "run", "lisst")
    assert (said.code, "vc run list" in said.err) == (2, True)
    assert maint("generate", "schema", "config", "backup").code == 2


def keys_of(schema: Any, where: str = "") -> set[str]:
    """Return every key that a schema names, with its type."""
    found = set()
    for one in schema.get("anyOf", ()):
        found |= keys_of(one, where)
    for key, inner in schema.get("properties", {}).items():
        found |= {f"{where}.{key} {inner.get('type', inner.get('$ref', ''))}"} | keys_of(inner, f"{where}.{key}")
    if "items" in schema:
        found |= keys_of(schema["items"], f"{where}[]")
    return found


def published() -> dict[str, Any]:
    """Return what is published: the version of each command's output, and its keys."""
    told = {name: {"version": one.version, "keys": keys_of(schema_of("output", name))} for name, one in OUTPUTS.items()}
    shared = {"version": 1, "keys": keys_of({"properties": schema_of("output")["$defs"]})}
    return {name: {**one, "keys": sorted(one["keys"])} for name, one in {**told, "$defs": shared}.items()}


def test_nothing_published_goes_within_a_version() -> None:
    """New keys are added to the file by `python -m tests.cli.test_outputs`; none may leave it without a new version."""
    kept, now = json.loads(PUBLISHED.read_text()), published()
    gone = {
        name: sorted(set(one["keys"]) - set(now.get(name, {"keys": ()})["keys"]))
        for name, one in kept.items()
        if now.get(name, {}).get("version") == one["version"] or name not in now
    }
    assert {name: keys for name, keys in gone.items() if keys} == {}
    assert sorted(set(now) - set(kept)) == [], "publish them: python -m tests.cli.test_outputs"


if __name__ == "__main__":
    PUBLISHED.write_text(json.dumps(published(), indent=1, sort_keys=True) + "\n")
