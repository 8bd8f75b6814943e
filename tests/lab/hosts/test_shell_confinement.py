"""Nothing that a lab host is told reaches beyond its own tree."""

import ast
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import maint.lab.hosts.shell
from maint.lab.hosts.furnish import furnish_host
from maint.lab.hosts.machine import Machine
from maint.lab.hosts.shell.executor import run
from maint.lab.hosts.shell.tree import Tree


class World:
    """A machine inside a folder that also holds what it must not touch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.machine = Machine("one", folder / "root", {})
        furnish_host(self.machine)
        (folder / "secret").write_text("outside")
        (folder / "outside").mkdir()
        (folder / "outside" / "kept").write_text("kept")

    def untouched(self) -> bool:
        names = sorted(p.name for p in self.folder.iterdir() if not p.name.startswith(".root."))
        kept = sorted((p.name, p.read_text()) for p in (self.folder / "outside").iterdir())
        same = (self.folder / "secret").read_text() == "outside"
        return names == ["outside", "root", "secret"] and kept == [("kept", "kept")] and same


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    assert world.untouched()


ATTEMPTS = [
    "cat /../secret",
    "cat ../../../../../../../{folder}/secret",
    "cat {folder}/secret",
    "cd ..; cd ..; cd ..; cat secret",
    "ln -s {folder} /out; cat /out/secret",
    "ln -s ../.. /up; cat /up/secret; cat /up/../secret",
    "ln -s / /self; cat /self/../secret; cat /self/self/..{folder}/secret",
    "ln -s {folder}/secret /link; cat /link; cat < /link; mv /link /moved; cat /moved",
    "ln {folder}/secret /x; cat /x; ln ../../secret /y; cat /y; ln -s {folder}/secret /s; ln /s /z; cat /z",
    'ln -s {folder}/outside /d; find /d/ -name kept; ls /d; for f in /d/*; do cat "$f"; done',
    "read -r x < {folder}/secret; echo $x",
    "sh {folder}/secret; {folder}/secret",
    "x=$(cat {folder}/secret); echo $x; echo {folder}/s*; echo /../s*; echo ../../../s*",
    "tar -C {folder} -cf - -- secret; tar -C / -cf - -- ..{folder}/secret {folder}/secret",
    "tail -n 1 {folder}/secret; head {folder}/secret; base64 -d {folder}/secret; sha256sum {folder}/secret",
    "grep . {folder}/secret; sed p {folder}/secret; sort {folder}/secret; wc -l {folder}/secret",
    'stat -c %s {folder}/secret; ls {folder}; readlink -f {folder}/secret && cat "$(readlink -f {folder}/secret)"',
    "mv {folder}/secret /moved; cat /moved",
    "keytool -list -keystore {folder}/secret",
    "python3 -c 'print(open(\"{folder}/secret\").read())'; perl -e 1; /bin/cat {folder}/secret; /usr/bin/python3",
    "cat /proc/self/root{folder}/secret /proc/1/environ /dev/fd/0",
]


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_nothing_outside_is_read(attempt: str, world: World) -> None:
    ended = run(world.machine, attempt.replace("{folder}", str(world.folder)))
    assert b"outside\n" not in ended.out + ended.err.replace(str(world.folder).encode(), b"")
    assert not any(line in (b"outside", b"kept") for line in (ended.out + ended.err).split())


DAMAGE = [
    "rm -rf {folder}/outside {folder}/secret",
    "rm -rf /*; rm -rf /.[a-z]*; rm -rf --no-preserve-root /",
    "rm -rf ../../../../{folder}",
    "ln -s {folder}/outside /d; rm -rf /d/; rm -rf /d/*; rm -rf /d",
    "ln -s {folder} /d; rm -rf /d/outside; find /d/ -delete; echo gone > /d/secret",
    "mkdir /a; ln -s {folder}/outside /a/link; rm -rf /a",
    "ln -s / /all; rm -rf /all/*",
    "echo gone > {folder}/secret; echo gone >> {folder}/secret; echo gone > /../secret; : > ../../secret",
    "ln -s {folder}/secret /s; echo gone > /s; echo gone >> /s; mv /etc/hosts /s; touch /s",
    "ln -s {folder}/secret /s; ln /s /z; echo gone > /z; ln {folder}/secret /x; echo gone > /x; chmod 777 /x",
    "ln -s {folder}/secret /s; chmod 777 /s; chown nobody /s; sed -i s/o/x/ /s",
    "mv /root {folder}/outside/new; mv /etc {folder}/outside",
    "mkdir -p {folder}/outside/new; touch {folder}/outside/new",
    "ln -s {folder}/outside /o; mktemp -p /o; mktemp -d -p /o; mkdir /o/new",
    "mkdir /x; cd /x; ln -s ../.. up; echo gone > up/secret; echo gone > up/outside/kept; rm -rf up/outside",
    "cd /; mv /root /r; cd /r; cd ../..; rm -rf outside secret",
    "sudo rm -rf {folder}/outside; sh -c 'rm -rf {folder}/outside'; sudo -n rm -rf {folder}/secret",
    "rm -rf --one-file-system -- {folder}/outside; find {folder}/outside -xdev -mindepth 1 -delete; find / -delete",
    "echo '/dev/x {folder}/outside xfs rw 0 0' >> /proc/mounts; umount {folder}/outside; umount -l /; rm -rf {folder}",
    "ln -s {folder}/outside /var/lib/kubelet; ln -s / /run/k3s; rm -rf /var/lib/kubelet/ /run/k3s/*; systemctl reboot",
    "find {folder} -delete; timeout 5 rm -rf {folder}/outside; X=1 rm -rf {folder}/outside",
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_nothing_outside_is_changed(damage: str, world: World) -> None:
    run(world.machine, damage.replace("{folder}", str(world.folder)))
    assert world.untouched()


def test_links_in_a_circle_end(world: World) -> None:
    ended = run(world.machine, "ln -s /a /b; ln -s /b /a; cat /a")
    assert ended.status == 1 and b"Too many levels of symbolic links" in ended.err


NAMES = st.sampled_from(["..", ".", "", "a", "b", "link", "up", "all", "secret", "outside", "root"])


@given(st.lists(NAMES, max_size=8), st.booleans())
def test_no_path_resolves_outside(parts: list[str], absolute: bool) -> None:
    world = _WORLD[0]
    path = "/" + "/".join(parts) if absolute else "/a/" + "/".join(parts)
    try:
        canonical = world.machine.files.canonical(path)
    except OSError:
        return
    real = (world.machine.root / canonical.lstrip("/")).resolve()
    assert real == world.machine.root or world.machine.root in real.parents


@given(
    st.lists(NAMES, min_size=1, max_size=5),
    st.sampled_from(["rm -rf", "echo gone >", "mkdir -p", "mv -f /a", "chmod 0"]),
)
def test_no_command_reaches_outside(parts: list[str], command: str) -> None:
    world = _WORLD[0]
    run(world.machine, f"cd /; {command} {shlex.quote('/'.join(parts))}")
    assert world.untouched()
    _links(world)


_WORLD: list[World] = []


@pytest.fixture(scope="module", autouse=True)
def _one_world(tmp_path_factory: pytest.TempPathFactory) -> None:
    _WORLD[:] = [World(tmp_path_factory.mktemp("world"))]
    _links(_WORLD[0])


def _links(world: World) -> None:
    run(world.machine, f"mkdir -p /a/b /root; ln -sfn / /all; ln -sfn ../.. /a/up; ln -sfn {world.folder} /a/link")


def test_the_shell_starts_no_process_and_opens_no_socket() -> None:
    allowed = {"os", "io"}
    forbidden = {"subprocess", "socket", "ctypes", "multiprocessing", "pty"}
    folder = Path(maint.lab.hosts.shell.__file__).parent
    for module in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            source = getattr(node, "module", None) or "" if isinstance(node, ast.ImportFrom) else ""
            assert not forbidden & {source.split(".")[0], *(n.split(".")[0] for n in names if not source)}, module
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in allowed:
                assert node.attr not in ("system", "popen", "fork", "execv", "spawnv", "posix_spawn"), module


def test_only_the_tree_touches_real_files() -> None:
    folder = Path(maint.lab.hosts.shell.__file__).parent
    touching = {
        module.name
        for module in folder.rglob("*.py")
        for node in ast.walk(ast.parse(module.read_text()))
        if (isinstance(node, ast.ImportFrom) and node.module in ("pathlib", "shutil", "tempfile"))
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open")
    }
    # Pipes are kept in anonymous temporary files.
    assert touching == {"tree.py", "state.py"}


def test_modes_and_owners_survive_a_restart(tmp_path: Path) -> None:
    first = Tree(tmp_path / "root")
    first.write("/etc/file", b"x", 0o640, "hdfs", "hadoop")
    first.rename("/etc", "/moved")
    entry = Tree(tmp_path / "root").entry("/moved/file")
    assert (entry.mode, entry.user, entry.group) == (0o640, "hdfs", "hadoop")


def test_modes_and_owners_survive_a_write_that_was_cut(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "root")
    tree.write("/first", b"x", 0o640, "hdfs", "hadoop")
    tree.write("/last", b"x", 0o600, "hdfs", "hadoop")
    Tree(tmp_path / "root")  # leaves out what has changed since
    side_file = tmp_path / ".root.owners.jsonl"
    whole = side_file.read_bytes()
    for cut in range(whole.rindex(b"["), len(whole)):
        side_file.write_bytes(whole[:cut])
        Tree(tmp_path / "root").write("/next", b"x", 0o600, "hive", "hive")
        again = Tree(tmp_path / "root")
        assert (again.entry("/first").mode, again.entry("/next").user) == (0o640, "hive")


def test_a_removed_file_leaves_no_owner_behind(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "root")
    tree.write("/file", b"x", 0o600, "hdfs", "hdfs")
    tree.remove("/file")
    tree.write("/file", b"y")
    assert tree.entry("/file").user == "root" and tree.entry("/file").mode == 0o644
