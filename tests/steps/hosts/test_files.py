"""Files are put on hosts and fetched from them whole or not at all; real OpenSSH and the lab agree."""

import json
import os
import subprocess

import pytest

from maint.errors import WorkFailed
from maint.steps.hosts import undo
from tests.steps.hosts.conftest import run


def put(hosts, content, name="file", **more):
    source = hosts.local / "source"
    source.write_bytes(content)
    given = {"hosts": [hosts.names[0]], "file": str(source), "path": f"{hosts.folder}/{name}", **more}
    return {"do": "host.put", "with": given}


def fetch(hosts, name="file", **more):
    given = {"host": hosts.names[0], "path": f"{hosts.folder}/{name}", "to": str(hosts.local / "fetched"), **more}
    return {"do": "host.fetch", "with": given}


def outcomes(said):
    return [action["outcome"] for action in said.json["actions"]]


def test_a_file_goes_there_and_comes_back_byte_for_byte_whatever_its_name(hosts):
    content, names = os.urandom(300_000), ["plain", "with blank", 'it\'s "$HOME"', "-rf", "ümläut"]
    steps = [put(hosts, content, name, mode="0640") for name in names]
    steps += [fetch(hosts, name, to=f"{hosts.local}/{name}.fetched") for name in names]
    said = hosts.play(*steps)
    assert said.code == 0, said.err
    assert hosts.listed(hosts.folder) == sorted(names)
    for name in names:
        assert hosts.file(f"{hosts.folder}/{name}").read_bytes() == content
        fetched = hosts.local / f"{name}.fetched"
        assert (fetched.read_bytes() == content, fetched.stat().st_mode & 0o777) == (True, 0o600)
    assert len(list(hosts.local.iterdir())) == len(names) + 2


def test_owner_and_mode_are_what_was_asked_for_else_what_they_were(hosts):
    path = f"{hosts.folder}/file"
    assert hosts.play(put(hosts, b"1")).code == 0
    assert hosts.owned(path) == ("root", "root", "644")
    assert hosts.play(put(hosts, b"2", owner="nobody", mode="0600")).code == 0
    assert hosts.owned(path) == ("nobody", "root", "600")
    assert hosts.play(put(hosts, b"3")).code == 0
    assert hosts.owned(path) == ("nobody", "root", "600")
    said = hosts.play(put(hosts, b"3", mode="4750"))
    assert (outcomes(said), hosts.owned(path)) == (["done"], ("nobody", "root", "4750"))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
def test_a_file_of_an_owner_without_a_name_keeps_it_and_comes_back_to_it(hosts):
    path, step = f"{hosts.folder}/file", put(hosts, b"new")
    hosts.file(path).write_bytes(b"old")
    if hosts.lab is None:
        os.chown(hosts.file(path), 4242, 4343)
    before = hosts.owned(path)
    back = {"do": "host.put_back", "with": {"hosts": [hosts.names[0]], "path": path}}
    said = hosts.play(step, back)
    assert (said.code, outcomes(said)) == (0, ["done", "done"]), said.err
    assert (hosts.file(path).read_bytes(), hosts.owned(path)) == (b"old", before)
    assert hosts.play(step).code == 0
    assert (hosts.file(path).read_bytes(), hosts.owned(path)) == (b"new", before)


def test_what_is_there_already_is_left_alone(hosts):
    assert hosts.play(put(hosts, b"same")).code == 0
    before = hosts.file(f"{hosts.folder}/file").stat().st_ino
    said = hosts.play(put(hosts, b"same"))
    assert outcomes(said) == ["unchanged"]
    assert hosts.file(f"{hosts.folder}/file").stat().st_ino == before


def test_a_link_stays_one_and_what_it_leads_to_is_replaced(hosts):
    hosts.file(f"{hosts.folder}/real").mkdir()
    hosts.file(f"{hosts.folder}/real/file").write_bytes(b"old")
    hosts.file(f"{hosts.folder}/link").symlink_to("real/file")
    assert hosts.play(put(hosts, b"new", "link")).code == 0
    assert hosts.file(f"{hosts.folder}/link").is_symlink()
    assert hosts.file(f"{hosts.folder}/real/file").read_bytes() == b"new"


def test_the_old_file_comes_back_when_a_later_step_fails_and_it_is_nowhere_in_clear(hosts):
    hosts.file(f"{hosts.folder}/file").write_bytes(b"the old password")
    back = [{"do": "host.put_back", "with": {"hosts": [hosts.names[0]], "path": f"{hosts.folder}/{name}"}} for name in
            ("file", "fresh")]  # fmt: skip
    said = hosts.play(
        put(hosts, b"the new password"), put(hosts, b"the new password", "fresh"), run(hosts.names[0], "exit 3"),
        failing=back,
    )  # fmt: skip
    assert said.code == 1, said.err
    assert hosts.file(f"{hosts.folder}/file").read_bytes() == b"the old password"
    assert not hosts.file(f"{hosts.folder}/fresh").exists()
    kept = b"".join(path.read_bytes() for path in hosts.state.rglob("*") if path.is_file())
    assert b"password" not in kept


def test_only_what_a_run_replaced_is_put_back_by_the_step_that_who_wants_it_undone_is_told(hosts):
    assert hosts.play(put(hosts, b"1")).code == 0
    assert hosts.play(put(hosts, b"2")).code == 0
    replaced = hosts("playbook", "history", "-o", "json").json["runs"][-1]["id"]
    back = {"hosts": [hosts.names[0]], "path": f"{hosts.folder}/file"}
    said = hosts("playbook", "undo", replaced, "--yes", "-o", "json")
    assert (said.code, f"`host.put_back` and `run: {replaced}`" in said.error["hint"]) == (5, True), said.err
    assert outcomes(hosts.play({"do": "host.put_back", "with": back})) == ["skipped"]
    assert hosts.file(f"{hosts.folder}/file").read_bytes() == b"2"
    assert hosts.play({"do": "host.put_back", "with": {**back, "run": replaced}}).code == 0
    assert hosts.file(f"{hosts.folder}/file").read_bytes() == b"1"


WRONG = (
    {"path": "relative"}, {"path": "/a/../b"}, {"path": "/a\nb"}, {"path": "/a/"}, {"mode": "rw-r--r--"},
    {"mode": "0999"}, {"owner": "root; reboot"}, {"group": "-R"}, {"file": "relative"}, {"file": "/nowhere/at/all"},
    {"hosts": ["nobody"]},
)  # fmt: skip


def test_what_makes_no_sense_is_refused_before_a_host_is_asked(hosts):
    for wrong in WRONG:
        step = put(hosts, b"x")
        step["with"] |= wrong
        said = hosts.play(step)
        assert said.code == 3, (wrong, said.err)
        assert hosts.listed(hosts.folder) == [], wrong


def test_a_folder_a_missing_folder_and_a_missing_file_are_named(hosts):
    hosts.file(f"{hosts.folder}/folder").mkdir()
    assert "is a folder" in hosts.play(put(hosts, b"x", "folder")).err
    said = hosts.play(put(hosts, b"x", "missing/file"))
    assert said.code == 1 and f"there is no folder {hosts.folder}/missing" in said.err
    assert "is not there" in hosts.play(fetch(hosts, "missing")).err
    assert hosts.listed(hosts.folder) == ["folder"]


def test_a_full_disk_where_a_file_is_to_be_fetched_is_answered_with_room_and_a_missing_folder_with_it(hosts):
    hosts.file(f"{hosts.folder}/big").write_bytes(bytes(100_000))
    disk = hosts.local / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", disk], check=False).returncode:
        pytest.skip("this account may not mount a file system")
    try:
        full = hosts.play(fetch(hosts, "big", to=f"{disk}/big"))
    finally:
        subprocess.run(["umount", disk], check=True)
    assert (full.code, full.error["hint"].startswith("make room there")) == (1, True), full.err
    missing = hosts.play(fetch(hosts, "big", to=f"{hosts.local}/deep/big"))
    assert (missing.code, missing.error["hint"].startswith("make its folder")) == (1, True), missing.err
    (hosts.local / "deep").mkdir()
    assert hosts("playbook", "resume", json.loads(missing.out)["run"]).code == 0
    assert (hosts.local / "deep/big").read_bytes() == bytes(100_000)


def test_another_local_file_is_only_replaced_where_that_is_said_and_a_folder_in_its_place_is_named(hosts):
    (hosts.local / "fetched").write_bytes(b"mine")
    hosts.file(f"{hosts.folder}/file").write_bytes(b"theirs")
    said = hosts.play(fetch(hosts))
    assert said.code == 5 and (hosts.local / "fetched").read_bytes() == b"mine"
    assert hosts.play(fetch(hosts, replace=True, mode="0640")).code == 0
    assert (hosts.local / "fetched").read_bytes() == b"theirs"
    assert (hosts.local / "fetched").stat().st_mode & 0o777 == 0o640
    assert outcomes(hosts.play(fetch(hosts))) == ["unchanged"]
    (hosts.local / "fetched").unlink()
    assert hosts.play(fetch(hosts, mode="")).code == 0  # as where none is given
    assert (hosts.local / "fetched").stat().st_mode & 0o777 == 0o600
    (hosts.local / "fetched").unlink()
    (hosts.local / "fetched").mkdir()
    said = hosts.play(fetch(hosts, replace=True))
    assert (said.code, "fetched cannot be looked at: Is a directory" in said.err) == (1, True), said.err


def test_one_host_that_fails_hides_no_other(hosts):
    source = hosts.local / "source"
    source.write_bytes(b"x")
    hosts.file(f"{hosts.folder}/only-here").mkdir()
    path = f"{hosts.folder}/only-here/file"
    said = hosts.play({"do": "host.put", "with": {"hosts": list(hosts.names), "file": str(source), "path": path}})
    if hosts.lab is None:  # both are this machine
        assert said.code == 0, said.err
    else:
        assert said.code == 1 and hosts.names[1] in said.err
    assert hosts.file(path).read_bytes() == b"x"


def test_a_full_disk_leaves_the_old_file(lab_hosts, tmp_path):
    lab_hosts.local, lab_hosts.folder = tmp_path, "/srv"
    lab_hosts.file("/srv/file").write_bytes(b"old")
    machine = lab_hosts.lab.machines[lab_hosts.names[0]]
    machine.fault = "disk-full"
    said = lab_hosts.play(put(lab_hosts, b"new"))
    machine.fault = None
    assert said.code == 1 and "No space left" in said.err
    assert lab_hosts.file("/srv/file").read_bytes() == b"old"
    assert lab_hosts.listed("/srv") == ["file"]


def test_a_damaged_record_of_what_is_kept_is_told_with_a_way_out(tmp_path):
    (tmp_path / "host-files.json").write_text('[{"host": "a", "na')
    with pytest.raises(WorkFailed, match="is damaged") as failure:
        undo.records(tmp_path)
    assert "move it away" in str(failure.value.hint)


def test_a_file_that_somebody_has_changed_since_stays_as_it_is(hosts):
    path, back = f"{hosts.folder}/file", {"do": "host.put_back", "with": {"hosts": [hosts.names[0]], "path": ""}}
    back["with"]["path"] = path
    hosts.file(path).write_bytes(b"old")
    assert hosts.play(put(hosts, b"1")).code == 0
    replaced = hosts("playbook", "history", "-o", "json").json["runs"][-1]["id"]
    back["with"]["run"] = replaced
    hosts.file(path).write_bytes(b"theirs")
    said = hosts.play(back)
    assert said.code == 1 and "somebody has changed" in said.err
    assert hosts.file(path).read_bytes() == b"theirs"
    hosts.file(path).write_bytes(b"1")
    assert outcomes(hosts.play(back)) == ["done"]
    assert hosts.file(path).read_bytes() == b"old"
    assert outcomes(hosts.play(back)) == ["unchanged"]


def test_what_a_run_put_there_twice_is_its_own(hosts):
    path = f"{hosts.folder}/file"
    hosts.file(path).write_bytes(b"old")
    other = {**put(hosts, b"1")}
    (hosts.local / "second").write_bytes(b"2")
    second = {"do": "host.put", "with": {**other["with"], "file": str(hosts.local / "second")}}
    back = [{"do": "host.put_back", "with": {"hosts": [hosts.names[0]], "path": path}}]
    assert hosts.play(other, second, run(hosts.names[0], "exit 3"), failing=back).code == 1
    assert hosts.file(path).read_bytes() == b"old"


def test_what_has_no_end_or_is_too_large_is_not_put(hosts, tmp_path):
    said = hosts.play(put(hosts, b"", file="/dev/zero"))
    assert (said.code, hosts.listed(hosts.folder)) == (3, [])
    assert "/dev/zero cannot be read: it is a device" in said.error["message"]
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(1 << 30)
    said = hosts.play(put(hosts, b"", file=str(large)))
    assert (said.code, hosts.listed(hosts.folder)) == (5, [])
    assert f"{large} is larger than" in said.error["message"]
