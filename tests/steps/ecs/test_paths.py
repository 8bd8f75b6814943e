"""What may go from a host, whatever a data directory is called and wherever a link leads."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maint.errors import Refused
from maint.lab.hosts.furnish import furnish_host
from maint.lab.hosts.machine import Machine
from maint.lab.hosts.shell.executor import run
from maint.model.manager import Cluster
from maint.ports import Ran
from maint.steps.ecs.survey import (
    LISTED,
    Ecs,
    Found,
    Mount,
    Removal,
    judge_paths,
    paths_of,
    spelled,
    still_mounted,
    survey_host,
    to_unmount,
)
from maint.steps.hosts.fan_out import SHELL, script
from tests.steps.ecs.hosts import tree


class Host:
    """A lab host past SSH, in a folder beside what it must not touch; a `ports.ShellSight` as far as it is needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.machine = Machine("one", folder / "root", {})
        furnish_host(self.machine)
        (folder / "outside").mkdir()
        (folder / "outside/kept").write_text("kept")

    def ask(self, host: str, command: str, *, stdin: bytes = b"", timeout: float | None = None) -> Ran:
        ended = run(self.machine, command, stdin)
        return Ran(ended.status, ended.out, ended.err)

    def do(self, command: str) -> None:
        ended = run(self.machine, command)
        assert ended.status == 0, ended.err

    def mount(self, target: str, kind: str = "xfs") -> None:
        self.do(f"mkdir -p {shlex.quote(target)}")
        table = self.machine.files.read("/proc/mounts")
        spelled_ = target.replace("\\", "\\134").replace(" ", "\\040")
        self.machine.files.write("/proc/mounts", table + f"/dev/sdx {spelled_} {kind} rw 0 0\n".encode())

    def judged(self, *paths: str) -> tuple[list[Removal], list[str]]:
        survey = survey_host(self, "one", paths)  # type: ignore[arg-type]  # nothing but `ask` is called
        return judge_paths(survey.found, survey.mounts)

    def remove(self, removals: Sequence[Removal]) -> Ran:
        return self.ask("one", SHELL, stdin=script("ecs-remove", removals=msgspec.to_builtins(removals)))

    def tree(self) -> set[str]:
        return set(tree(self.machine.root))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def ecs(**data: str) -> Ecs:
    return Ecs(Cluster("ecs-01", "", "EXPERIENCE_CLUSTER", ""), ("one",), data, {}, {})


SYSTEM = [
    "/", "/var", "/var/lib", "/etc", "/etc/cloudera-scm-agent", "/opt", "/opt/cloudera", "/opt/cloudera/parcels",
    "/mnt", "/usr/lib/jvm", "/home", "/root", "/dev", "/proc", "/sys/class", "/var/lib/cloudera-scm-agent/cm_guid",
    "/run", "/boot", "/var/lib/pgsql/data", "/tmp",
]  # fmt: skip


def test_no_folder_of_the_system_goes_by_a_setting_nor_by_a_link(host):
    host.do("mkdir -p /data /var/lib/pgsql/data /sys/class /boot")
    for number, path in enumerate(SYSTEM):
        host.do(
            f"mkdir -p {path}; ln -s {path} /data/link{number}; rmdir /var/lib/docker; ln -sfn {path} /var/lib/docker"
        )
        for asked in (path, f"/data/link{number}", "/var/lib/docker"):
            _, problems = host.judged(asked)
            assert len(problems) == 1 and "of the system" in problems[0], (asked, path)


@pytest.mark.parametrize(
    ("path", "why"),
    [("data", "not absolute"), ("-rf", "not absolute"), ("", "not absolute"), ("/data/../etc", "`.` or `..`"),
     ("/data/.", "`.` or `..`"), ("/data\n/etc", "line break"), ("/data\0", "control character"),
     ("/data\x7f", "control character")],
)  # fmt: skip
def test_a_directory_that_is_not_spelled_plainly_is_refused_before_any_host_is_asked(path, why):
    with pytest.raises(ValueError, match=re.escape(why)):
        spelled(path)
    if path:
        with pytest.raises(Refused) as refusal:
            paths_of(ecs(data=path))
        assert repr(path) in refusal.value.detail[0]


def test_slashes_too_many_make_no_other_path():
    assert spelled("//data///docker/") == "/data/docker"
    assert paths_of(ecs(one="/var/lib/docker/")) == [*LISTED, "/var/lib/k3s"]


ODD = [
    "/data/a b", "/data/ a", "/data/a ", "/data/it's", '/data/"quoted"', "/data/$(touch x)", "/data/`id`", "/data/*",
    "/data/[ab]", "/data/-rf", "/data/--", "/data/ümläut", "/data/a;b", "/data/~", "/data/\\", "/data/a\\040b",
    "/data/$HOME",
]  # fmt: skip


@pytest.mark.parametrize("form", ["folder", "link", "volume"])
def test_a_name_is_taken_as_it_is_and_its_neighbours_stay(host, form):
    for path in ODD:
        word = shlex.quote(path)
        host.do("mkdir -p /data/a /data/b /data/ab /data/x/y /data/target; touch /data/b/kept /data/target/blob")
        if form == "link":
            host.do(f"ln -s /data/target {word}")
        elif form == "volume":
            host.mount(path)
        else:
            host.do(f"mkdir -p {word}/deep")
        host.do(f"touch {word}/blob")
        before = host.tree()
        removals, problems = host.judged(path)
        assert problems == []
        ended = host.remove(removals)
        assert ended.ok, ended.err
        gone = before - host.tree()
        inside = {found for found in before if found == path or found.startswith(f"{path}/")}
        target = {"/data/target", "/data/target/blob"}
        assert gone == {"folder": inside, "link": inside | target, "volume": inside - {path}}[form], path
        host.do(f"umount {word}; rm -rf -- {word}" if form == "volume" else "true")
    assert (host.folder / "outside/kept").read_text() == "kept"


def test_the_parent_of_a_mount_point_is_refused_whichever_way_it_is_named(host):
    host.mount("/data/docker/nested dir")
    host.do(
        "ln -s /data/docker /data/link; ln -s /data /via; rm -rf /var/lib/docker; ln -s /data/docker /var/lib/docker"
    )
    for path in ("/data", "/data/docker", "/data/link", "/via/docker", "/via", "/var/lib/docker"):
        _, problems = host.judged(path)
        assert problems and "is the parent of a mount point: /data/docker/nested dir (xfs)" in problems[0], path


def test_a_volume_of_its_own_is_emptied_and_stays_mounted_also_behind_a_link(host):
    host.mount("/mnt/docker")
    host.do("mkdir -p /mnt/docker/a/b /etc/iscsi; touch /mnt/docker/.hidden; rm -rf /var/lib/docker")
    host.do("ln -s /mnt/docker /var/lib/docker")
    removals, problems = host.judged("/mnt/docker", "/var/lib/docker", "/etc/iscsi")
    assert (problems, [one.volume for one in removals]) == ([], ["xfs", "xfs", ""])
    assert host.remove(removals).ok
    assert host.machine.files.names("/mnt/docker") == []
    assert not host.machine.files.exists("/var/lib/docker", follow=False)
    assert b"/mnt/docker" in run(host.machine, "cat /proc/mounts").out


def test_nothing_of_another_volume_goes_though_it_is_mounted_after_the_look(host):
    host.do("mkdir -p /data/docker/nested; touch /data/docker/nested/foreign /data/docker/own")
    removals, problems = host.judged("/data/docker")
    host.mount("/data/docker/nested")
    ended = host.remove(removals)
    assert (problems, ended.ok) == ([], False)
    assert host.machine.files.exists("/data/docker/nested/foreign")


@pytest.mark.parametrize(
    "meanwhile",
    ["rm -rf /data/d; ln -s /usr /data/d", "ln -sfn /usr /data/link", "mv /data /moved; ln -s /usr /data",
     "rm /data/link; mkdir /data/link; touch /data/link/file"],
)  # fmt: skip
def test_what_has_become_something_else_since_the_look_is_left_alone(host, meanwhile):
    host.do("mkdir -p /data/d/deep /data/target; ln -s /data/target /data/link; mkdir -p /usr/deep /usr/d /usr/link")
    removals, _ = host.judged("/data/link", "/data/d")
    host.do(meanwhile)
    before = {path for path in host.tree() if path.startswith(("/usr", "/data/link"))}
    assert host.remove(removals).status == 9
    assert {path for path in host.tree() if path.startswith(("/usr", "/data/link"))} >= before - {"/data/link"}
    assert host.machine.files.exists("/usr/deep")


def test_missing_paths_files_and_links_to_nowhere_count_as_they_should(host):
    host.do("ln -s /nowhere /var/lib/rancher; touch /run/longhorn-iscsi.lock; mkdir /data; touch /data/file")
    removals, problems = host.judged(*LISTED, "/data/missing", "/data/file")
    assert {one.path: one.words for one in removals} == {
        "/run/longhorn-iscsi.lock": "/run/longhorn-iscsi.lock",
        "/var/lib/rancher": "/var/lib/rancher -> nowhere",
        "/data/file": "/data/file",
    }
    assert problems == ["/data/file is a file, where a folder should be"]
    assert host.remove(removals[:2]).ok
    assert host.remove(removals[:2]).ok, "what is missing is done"


def test_links_to_the_real_machine_stay_inside_the_lab(host):
    real = shlex.quote(str(host.folder / "outside"))
    host.do(f"mkdir /data; ln -s {real} /data/link; ln -s {real} /var/lib/kubelet; ln -s / /data/all")
    removals, problems = host.judged("/data/link", "/var/lib/kubelet", "/data/all")
    assert host.remove([one for one in removals if one.path != "/data/all"]).ok
    assert len(problems) == 1
    host.remove([Removal(path, "folder", path, "") for path in (str(host.folder), "/", "/..", "/data/all")])
    assert (host.folder / "outside/kept").read_text() == "kept"


def test_what_pods_hold_is_unmounted_first_and_the_rest_must_go_with_them():
    found = [Found("/var/lib/kubelet", "link", "/data/kubelet"), Found("/run/k3s", "folder", "/run/k3s")]
    mounts = [
        Mount("/data/kubelet/pods/1", "tmpfs"),
        Mount("/data/kubelet/pods/1/x", "ext4"),
        Mount("/run/k3s/c", "overlay"),
    ]
    removals, problems = judge_paths(found, mounts)
    assert problems == []
    pods = [("/data/kubelet/pods/1/x", True), ("/data/kubelet/pods/1", True)]
    assert to_unmount(found, mounts) == [("/run/k3s/c", False), *pods]
    assert still_mounted(removals, mounts[2:]) == ["/run/k3s/c (overlay) is mounted below /run/k3s"]


PARTS = st.sampled_from(["data", "var", "lib", "etc", "mnt", "usr", "opt", "cloudera", "docker", "a b", "x"])
PATHS = st.lists(PARTS, min_size=0, max_size=4).map(lambda parts: "/" + "/".join(parts))


@given(PATHS, st.lists(PATHS, max_size=3), st.sampled_from(["folder", "link"]))
def test_whatever_is_let_through_holds_no_mount_point_and_no_folder_of_the_system(real, targets, form):
    path = real if form == "folder" else "/var/lib/docker"
    _, problems = judge_paths([Found(path, form, real)], [Mount(target, "xfs") for target in targets])
    if problems:
        return
    above = f"{real}/"
    assert not any(target.startswith(above) for target in targets)
    assert not any(f"{system}/".startswith(above) for system in SYSTEM)
    if not (form == "folder" and path in LISTED):
        assert not real.startswith(("/etc/", "/usr/", "/opt/cloudera"))
