"""Files put back on a host: real OpenSSH, and the lab's hosts; nothing that is there is ever touched."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from maint.adapters.ssh.shell import FabricShell
from maint.snapshots.archive import Member, MemberKind
from maint.steps.restore.manager_files import THERE, lacking, putting_back
from tests.adapters.ssh.test_shell_contract import folder, lab, openssh, shell

__all__ = ["folder", "lab", "openssh", "shell"]


@pytest.fixture
def put(shell: FabricShell) -> Iterator[Any]:
    def put_back(
        path: str, content: bytes = b"", kind: MemberKind = MemberKind.FILE, mode: int = 0o640, target: str = ""
    ) -> Any:
        member = Member(path, kind, mode, "nobody-of-that-name", "", os.getuid(), os.getgid(), target)
        return shell.run("one", putting_back(member, content), stdin=content)

    yield put_back


def test_a_file_comes_back_whole_with_its_mode_and_nothing_else(shell: FabricShell, folder: str, put: Any) -> None:
    content = os.urandom(100_000)
    ran = put(f"{folder}/deep/er/it's", content)
    assert ran.ok, ran.err
    assert shell.read_file("one", f"{folder}/deep/er/it's") == content
    assert shell.ask("one", f"stat -c %a {folder}/deep/er/*").out.strip() == b"640"
    assert shell.ask("one", f"ls -A {folder}/deep/er").out.splitlines() == [b"it's"]


def test_what_is_there_is_not_touched(shell: FabricShell, folder: str, put: Any) -> None:
    shell.run("one", f"printf old > {folder}/x; ln -s nowhere {folder}/y")
    for name in ("x", "y"):
        assert put(f"{folder}/{name}", b"new").status == THERE
    assert shell.read_file("one", f"{folder}/x") == b"old"
    assert shell.ask("one", f"readlink {folder}/y").out.strip() == b"nowhere"
    assert shell.ask("one", f"ls -A {folder}").out.split() == [b"x", b"y"]


def test_folders_and_links_come_back(shell: FabricShell, folder: str, put: Any) -> None:
    assert put(f"{folder}/a", kind=MemberKind.FOLDER, mode=0o750).ok
    assert put(f"{folder}/a/l", kind=MemberKind.LINK, target="../else where").ok
    assert shell.ask("one", f"stat -c %a {folder}/a").out.strip() == b"750"
    assert shell.ask("one", f"readlink {folder}/a/l").out.strip() == b"../else where"


def test_a_folder_that_cannot_be_given_its_mode_does_not_come_back_and_the_next_try_does(
    shell: FabricShell, folder: str, put: Any
) -> None:
    assert put(f"{folder}/a", kind=MemberKind.FOLDER, mode=0o777777).status not in (0, THERE)
    assert shell.ask("one", f"ls -A {folder}").out == b""
    assert put(f"{folder}/a", kind=MemberKind.FOLDER, mode=0o751).ok
    assert shell.ask("one", f"ls -A {folder}; stat -c %a {folder}/a").out.split() == [b"a", b"751"]


def test_what_a_host_lacks_is_told(shell: FabricShell, folder: str) -> None:
    shell.run("one", f"touch {folder}/here; ln -s nowhere {folder}/link")
    paths = [f"{folder}/here", f"{folder}/link", f"{folder}/not here", f"{folder}/no/way"]
    assert lacking(shell, "one", paths) == paths[2:]
