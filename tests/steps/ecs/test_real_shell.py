"""The scripts that hosts are given, carried out by a real shell in a root of its own; the lab's shell agrees with it.

The root lies in a mount namespace: programs are there read-only, and nothing else of the machine is.
"""

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from maint.lab.hosts.furnish import furnish_host
from maint.lab.hosts.machine import Machine
from maint.lab.hosts.shell.executor import run
from maint.ports import Ran
from maint.steps.ecs.survey import Removal, judge_paths, survey_host, to_unmount
from maint.steps.hosts.fan_out import SHELL, script

ROOT = """\
set -e
mount --make-rprivate /
cd {root}
mkdir -p usr proc dev tmp
mount --bind /usr usr
mount -o remount,bind,ro usr
for name in bin lib lib64 sbin; do if [ -L /$name ]; then ln -sfn usr/$name $name; fi; done
mount -t proc proc proc
mount -t tmpfs none dev
mknod -m 666 dev/null c 1 3
{mounts}
exec chroot . /bin/sh -s
"""
LAYOUT = r"""
mkdir -p /var/lib/rancher/deep /data/k3s "/mnt/a b/deep" "/mnt/it's" /etc/docker /mnt/volume /run /data/target /opt
mkdir -p /var/lib/kubelet/pods/1
touch /data/k3s/file "/mnt/it's/$" "/mnt/it's/.hidden" /mnt/neighbour /data/target/blob /run/longhorn-iscsi.lock
ln -s /data/k3s /run/k3s
ln -s /nowhere /var/lib/calico
ln -s ../data/target "/mnt/link *"
ln -s /mnt /via
"""
LEFT = ["/data", "/mnt", "/mnt/neighbour", "/mnt/volume", "/run", "/via"]
PATHS = [
    "/etc/docker", "/run/k3s", "/var/lib/rancher", "/var/lib/calico", "/run/longhorn-iscsi.lock", "/var/lib/kubelet",
    "/mnt/a b", "/via/it's", "/mnt/volume", "/mnt/link *", "/mnt/-rf", "/mnt/*",
]  # fmt: skip
LIST = "find /data /mnt /run /via -print | sort | grep -v '^/run/mount'"

Do = Callable[[bytes], Ran]


class Asked:
    """A host that answers scripts; a `ports.ShellSight` as far as it is needed."""

    def __init__(self, do: Do) -> None:
        self._do = do

    def ask(self, host: str, command: str, *, stdin: bytes = b"", timeout: float | None = None) -> Ran:
        assert command == SHELL
        return self._do(stdin)


def real(root: Path) -> Do:
    """Return a way to have scripts carried out in a root of their own; what is mounted there is mounted each time."""
    gone: set[str] = set()

    def do(words: bytes) -> Ran:
        targets = [path for path in ("/mnt/volume", "/var/lib/kubelet/pods/1") if path not in gone]
        mounts = "\n".join(f"mkdir -p .{path}; mount --bind .{path} .{path}" for path in targets)
        if b"\numount " in words:
            gone.add("/var/lib/kubelet/pods/1")
        made = ["unshare", "--mount", "/bin/sh", "-c", ROOT.format(root=shlex.quote(str(root)), mounts=mounts)]
        ended = subprocess.run(made, input=words, capture_output=True, check=False)
        return Ran(ended.returncode, ended.stdout, ended.stderr)

    return do


def simulated(root: Path) -> Do:
    """Return the same for a lab host."""
    machine = Machine("one", root, {})
    furnish_host(machine)
    table = machine.files.read("/proc/mounts")
    rows = "".join(f"/dev/sdb {path} xfs rw 0 0\n" for path in ("/mnt/volume", "/var/lib/kubelet/pods/1"))
    machine.files.write("/proc/mounts", table + rows.encode())

    def do(words: bytes) -> Ran:
        ended = run(machine, SHELL, words)
        return Ran(ended.status, ended.out, ended.err)

    return do


@pytest.fixture(params=["real", "lab"])
def do(request: pytest.FixtureRequest, tmp_path: Path) -> Do:
    if request.param == "lab":
        return simulated(tmp_path / "root")
    (tmp_path / "root").mkdir()
    here = real(tmp_path / "root")
    if os.geteuid() != 0 or not here(b"true\n").ok:
        pytest.skip("a root of its own needs root and mount namespaces")
    return here


def test_what_is_looked_at_unmounted_and_removed_is_what_a_real_shell_makes_of_it(do: Do) -> None:
    assert do(LAYOUT.encode()).ok
    survey = survey_host(Asked(do), "one", PATHS)  # type: ignore[arg-type]  # nothing but `ask` is called
    removals, problems = judge_paths(survey.found, survey.mounts)
    assert problems == []
    assert {one.path: (one.form, one.real, bool(one.volume)) for one in removals} == {
        "/etc/docker": ("folder", "/etc/docker", False),
        "/run/k3s": ("link", "/data/k3s", False),
        "/var/lib/rancher": ("folder", "/var/lib/rancher", False),
        "/var/lib/calico": ("link", "", False),
        "/run/longhorn-iscsi.lock": ("file", "/run/longhorn-iscsi.lock", False),
        "/var/lib/kubelet": ("folder", "/var/lib/kubelet", False),
        "/mnt/a b": ("folder", "/mnt/a b", False),
        "/via/it's": ("folder", "/mnt/it's", False),
        "/mnt/volume": ("folder", "/mnt/volume", True),
        "/mnt/link *": ("link", "/data/target", False),
    }
    held = to_unmount(survey.found, survey.mounts)
    assert held == [("/var/lib/kubelet/pods/1", True)]
    assert do(script("ecs-unmount", targets=held)).ok
    for _ in ("once", "and again, when all is gone"):
        ended = do(script("ecs-remove", removals=msgspec.to_builtins(removals)))
        assert ended.ok, ended.err
    left = do(f"{LIST}\n".encode()).out.decode().splitlines()
    assert [path for path in left if path in LEFT or path.startswith(("/data/", "/mnt/", "/run/k", "/run/l"))] == LEFT
    assert not do(b"ls -d /var/lib/rancher /var/lib/calico /etc/docker\n").ok


def test_what_has_become_something_else_is_left_alone_by_a_real_shell(do: Do) -> None:
    assert do(b"mkdir -p /data/a /data/b; touch /data/b/kept; ln -s /data/b /data/link\n").ok
    for one in (Removal("/data/link", "folder", "/data/link", ""), Removal("/data/link", "link", "/data/a", "")):
        assert do(script("ecs-remove", removals=[msgspec.to_builtins(one)])).status == 9
    assert do(b"cat /data/link/kept\n").ok
