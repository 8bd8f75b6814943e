"""What later steps of a run put back is done again when it is taken up, so that "done" is so."""

from pathlib import Path

from tests.steps.operator import Operator

HOST = "base-02.example.internal"
BOOK = """
name: patch
summary: Put a file, stop a service, and look; else put both back.
steps:
  - {{name: Put, do: host.put, with: {{hosts: [{host}], file: {file}, path: /etc/maint-motd}}}}
  - {{name: Count, do: host.run, with: {{hosts: [{host}], command: "echo once >> /tmp/count"}}}}
  - {{name: Stop, do: service.stop, with: {{service: hive, cluster: base}}}}
  - {{name: Look, do: host.run, with: {{hosts: [{host}], command: "test -e /tmp/go", reads: true}}}}
on_failure:
  - {{name: Back, do: host.put_back, with: {{hosts: [{host}], path: /etc/maint-motd}}}}
  - {{name: Tell, do: host.run, with: {{hosts: [{host}], command: "echo told >> /tmp/told"}}}}
  - {{name: Start, do: service.start, with: {{service: hive, cluster: base}}}}
"""


def state(operator: Operator) -> str:
    """Return the state of the service."""
    listed = operator("service", "list", "--cluster", "base", "-o", "json").json["services"]
    (found,) = [one["state"] for one in listed if one["name"] == "hive"]
    return str(found)


def replication(operator: Operator) -> str:
    """Return the value of the setting."""
    words = ("setting", "list", "--service", "hdfs", "--cluster", "base", "-o", "json")
    (found,) = [one["value"] for one in operator(*words).json["settings"] if one["name"] == "dfs_replication"]
    return str(found)


def failed(operator: Operator, folder: Path, text: str = BOOK) -> Path:
    """Have a run fail and put back what it did; return the root of its host, where `/tmp/go` lets it succeed."""
    root = operator.lab.folder / "hosts" / HOST / "root"
    (root / "tmp").mkdir(exist_ok=True)
    (folder / "motd").write_text("new\n")
    book = folder / "patch.yaml"
    book.write_text(text.format(host=HOST, file=folder / "motd"))
    assert operator("playbook", "run", str(book), "--yes").code == 1
    return root


def test_what_was_put_back_twice_is_done_again_and_what_cannot_be_seen_is_not(loaded: Operator, tmp_path: Path) -> None:
    root = failed(loaded, tmp_path)
    assert loaded("playbook", "resume").code == 1
    assert not (root / "etc/maint-motd").exists()
    assert state(loaded) == "STARTED"
    (root / "tmp/go").touch()
    left = loaded("playbook", "resume", "--dry-run", "-o", "json").json["left"]
    assert [one["name"] for one in left] == ["Put", "Stop", "Look"]
    said = loaded("playbook", "resume")
    assert said.code == 0, said.err
    assert (root / "etc/maint-motd").read_text() == "new\n"
    assert state(loaded) == "STOPPED"
    assert (root / "tmp/count").read_text() == "once\n"


def test_what_was_so_already_is_done_after_all_once_steps_for_a_failure_have_changed_it(
    loaded: Operator, tmp_path: Path
) -> None:
    text = BOOK
    for section, value in (("steps", 2), ("on_failure", 1)):
        setting = f"service: hdfs, cluster: base, name: dfs_replication, value: '{value}'"
        step = f"  - {{{{name: Set {value}, do: config.set, with: {{{{{setting}}}}}}}}}"
        text = text.replace(f"{section}:\n", f"{section}:\n{step}\n")
    assert loaded("setting", "set", "dfs_replication", "2", "--service", "hdfs", "--yes").code == 0
    root = failed(loaded, tmp_path, text)
    assert replication(loaded) == "1"
    (root / "tmp/go").touch()
    said = loaded("playbook", "resume")
    assert (said.code, replication(loaded)) == (0, "2"), said.err


def test_what_final_steps_undid_is_done_again_where_more_is_to_come_and_only_there(
    loaded: Operator, tmp_path: Path
) -> None:
    loaded.forget_requests()
    root = failed(loaded, tmp_path, BOOK.replace("on_failure", "finally"))
    assert (state(loaded), (root / "etc/maint-motd").exists()) == ("STARTED", False)
    (root / "tmp/go").touch()
    said = loaded("playbook", "resume")
    moves = [line.rpartition("/")[2] for line in loaded.sent]
    assert (said.code, moves) == (0, ["stop", "start"] * 2), said.err
    journal = max((loaded.state / "runs").glob("*.jsonl"))
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))  # killed when nothing but the end was still to come
    assert loaded("playbook", "resume", journal.stem).code == 0
    assert len(loaded.sent) == len(moves)


def test_a_kill_while_it_is_done_again_leaves_nothing_of_the_first_time_to_be_believed(
    loaded: Operator, tmp_path: Path
) -> None:
    root = failed(loaded, tmp_path)
    (root / "tmp/go").touch()
    assert loaded("playbook", "resume").code == 0
    journal = max((loaded.state / "runs").glob("*.jsonl"))
    lines = journal.read_bytes().splitlines(keepends=True)
    stopping = [number for number, line in enumerate(lines) if b'"intent", "index": 2' in line]
    journal.write_bytes(b"".join(lines[: stopping[1] + 1]))
    assert loaded("service", "start", "hive", "--cluster", "base", "--yes").code == 0
    said = loaded("playbook", "resume", journal.stem)
    assert (said.code, state(loaded)) == (0, "STOPPED"), said.err
