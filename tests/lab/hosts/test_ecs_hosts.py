"""What an ECS cluster leaves on the lab's hosts, and the commands that take it off."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from maint.lab.hosts import furnish
from maint.lab.hosts.furnish import furnish_host
from maint.lab.hosts.machine import LOG, Machine
from maint.lab.hosts.shell.executor import Ended, run
from maint.lab.manager.load import EXAMPLE
from maint.lab.manager.simulator import PlainUnit

NAME = "ds-01.example.internal"
DOCKER = f"{furnish.PARCEL}/docker/docker"
KILLALL, UNINSTALL = f"{furnish.PARCEL}/bin/rke2-killall.sh", f"{furnish.PARCEL}/bin/rke2-uninstall.sh"
TABLES = "for t in filter nat mangle raw security; do iptables -t $t -S; done"


@pytest.fixture
def host(tmp_path: Path) -> Machine:
    """One host of the example's ECS cluster, its docker running."""
    machine = Machine(NAME, tmp_path / "root", {"iscsid": PlainUnit()})
    furnish_host(machine)
    furnish.furnish_cluster({NAME: machine}, json.loads(EXAMPLE.read_bytes()))
    machine.docker = lambda: True
    return machine


@pytest.fixture
def do(host: Machine) -> Callable[[str], Ended]:
    return lambda command: run(host, command)


def test_containers_are_stopped_before_they_go_and_images_only_when_nothing_uses_them(host, do):
    shown = do(f"{DOCKER} ps -a --no-trunc --format '{{{{.ID}}}} {{{{.Image}}}} {{{{.Names}}}}'").out.split()
    assert shown[1:] == [b"registry:2", b"registry"] and len(shown[0]) == 64
    assert do(f"{DOCKER} rm registry").status == 1
    assert do(f"{DOCKER} rmi registry:2").status == 1
    assert do(f"{DOCKER} stop registry && {DOCKER} ps").out == b"registry\n"
    assert do(f"{DOCKER} rm -v {shown[0].decode()[:12]} && {DOCKER} rmi registry:2").status == 0
    assert not host.files.exists("/mnt/docker/volumes/registry")
    assert do(f"{DOCKER} rm registry").err.endswith(b"Error response from daemon: No such container: registry\n")
    assert do(f"{DOCKER} images -q registry:2").out == b""


def test_without_its_daemon_docker_answers_nothing(host, do):
    host.docker = lambda: False
    ended = do(f"{DOCKER} ps")
    assert ended.status == 1 and b"Cannot connect to the Docker daemon" in ended.err


def test_pods_hold_their_volumes_until_rke2_is_ended(do):
    claim = "/var/lib/kubelet/plugins/kubernetes.io/csi/driver.longhorn.io/1/globalmount"
    assert b"target is busy" in do(f"umount {claim}").err
    assert do(f"{KILLALL}; umount {claim}").status == 0
    assert do(f"ls {claim}").out == b"", "what was mounted is out of sight"
    assert do(f"umount {claim}").err == f"umount: {claim}: not mounted.\n".encode()
    assert do(f"{UNINSTALL}; ls -A /var/lib/rancher; test -e /etc/rancher").status == 1
    assert do(f"test -x {UNINSTALL}").status == 0, "the parcel stays"


def test_a_mount_point_is_neither_removed_nor_crossed_where_that_is_asked(do):
    assert do("rm -rf --one-file-system -- /mnt").status == 1
    assert do("cat /mnt/docker/lab.json").status == 0, "another file system"
    assert do("ls -d /mnt/ecs").status != 0, "what is on the same one is gone"
    assert do("find /mnt2 -xdev -mindepth 1 -delete && ls -A /mnt2").out == b""
    assert do("rm -rf /mnt2").err == b"rm: /mnt2: Device or resource busy\n"
    assert b"/mnt/docker/" not in do("find / -xdev").out


def test_blanks_in_mount_points_are_spelled_as_the_kernel_does(host, do):
    table = host.files.read("/proc/mounts")
    host.files.make_folders("/data/a b")
    host.files.write("/proc/mounts", table + b"/dev/sdd /data/a\\040b xfs rw 0 0\n")
    assert do("umount '/data/a b' && cat /proc/mounts").out == table


def test_rules_are_saved_flushed_and_restored(host, do):
    saved = do("iptables-save").out
    assert b"-A INPUT -j cali-INPUT" in saved
    assert do("iptables -X").status == 4, "chains that rules use stay"
    for table in ("filter", "nat"):
        assert do(f"iptables -t {table} -F && iptables -t {table} -X").status == 0
    assert do("iptables -P FORWARD ACCEPT").status == 0
    assert {line.split()[0] for line in do(TABLES).out.splitlines()} == {b"-P"}
    assert run(host, "iptables-restore", saved).status == 0
    assert do("iptables-save").out == saved
    assert do("iptables -t nope -S").status == 3


def test_a_package_goes_with_its_unit_and_stays_gone(host, do):
    assert (
        do(
            "rpm -q iscsi-initiator-utils && systemctl is-active --quiet iscsid; dnf -y remove iscsi-initiator-utils"
        ).status
        == 0
    )
    again = Machine(NAME, host.root, {})
    assert run(again, "rpm -q iscsi-initiator-utils").status == 1
    assert do("yum -y remove iscsi-initiator-utils").out.startswith(b"No match for argument")
    host.facts["lacks"] = "dnf yum"
    assert do("dnf -y remove nfs-utils").status == 127 and do("command -v yum").status != 0


def test_a_reboot_is_another_boot_and_what_cannot_be_taken_back_is_written_down(host, do):
    before = do("cat /proc/sys/kernel/random/boot_id").out
    assert (
        do("systemctl reboot; dnf -y remove nfs-utils > /dev/null; cat /proc/sys/kernel/random/boot_id").out != before
    )
    assert host.files.read(LOG) == b"reboot\ndnf remove nfs-utils\n"
