"""Furnish a lab host: the files of a healthy machine of today."""

import uuid
from collections.abc import Mapping

from maint.lab.hosts.machine import Machine

_FOLDERS = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/etc/cloudera-scm-agent",
    "/etc/cloudera-scm-server",
    "/etc/default",
    "/etc/security/limits.d",
    "/etc/sysctl.d",
    "/etc/systemd/system",
    "/home",
    "/opt/cloudera/parcels",
    "/opt/cloudera/cm",
    "/proc/sys/vm",
    "/run",
    "/root",
    "/srv",
    "/usr/bin",
    "/usr/java",
    "/usr/lib/systemd/system",
    "/usr/share/java",
    "/var/lib",
    "/var/log",
    "/var/run",
    "/var/tmp",
]
_USERS = ("cloudera-scm", "hdfs", "hive", "yarn", "impala", "hue", "zookeeper", "ozone", "ranger", "kafka", "spark")


def furnish(machine: Machine, facts: Mapping[str, str] | None = None) -> None:
    """Write the files of a healthy host; files that stand already are left as they are.

    Args:
        machine: the host.
        facts: facts to be set before, see `maint.lab.hosts.shell.facts.FACTS`.
    """
    machine.facts.update(facts or {})
    files = machine.files
    for folder in _FOLDERS:
        files.make_folders(folder)
    files.make_folders("/tmp", 0o1777)
    files.own("/tmp", 0o1777)
    files.own("/root", 0o700)
    for path, (content, mode) in _files(machine).items():
        if not files.exists(path, follow=False):
            files.write(path, content.encode(), mode)
    if not files.exists("/etc/mtab", follow=False):
        files.link("../proc/mounts", "/etc/mtab")


def _files(machine: Machine) -> dict[str, tuple[str, int]]:
    readable = _identity(machine) | _kernel(machine) | _settings(machine)
    return {path: (content, 0o644) for path, content in readable.items()} | {
        "/etc/shadow": ("root:!:19000::::::\n", 0),
        "/usr/lib/jvm/java-17-openjdk/bin/java": ("#!/bin/sh\n", 0o755),
    }


def _identity(machine: Machine) -> dict[str, str]:
    full = machine.fact("fqdn")
    short = full.partition(".")[0]
    version, kind = machine.fact("os_version"), machine.fact("os_id")
    # A host on loopback still knows itself by an address of its own; the names of 127.0.0.1 stay what they are.
    own = f"{machine.address} {full} {short}\n"
    numbered = list(enumerate(_USERS, 990 - len(_USERS)))
    people = "".join(f"{user}:x:{n}:{n}::/var/lib/{user}:/sbin/nologin\n" for n, user in numbered)
    return {
        "/etc/os-release": f'NAME="Lab Linux"\nID="{kind}"\nVERSION_ID="{version}"\nPRETTY_NAME="{kind} {version}"\n',
        "/etc/redhat-release": f"Red Hat Enterprise Linux release {version} (Lab)\n",
        "/etc/hostname": f"{full}\n",
        "/etc/hosts": f"127.0.0.1 localhost localhost.localdomain\n{own}",
        "/etc/passwd": f"root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/sbin/nologin\n{people}",
        "/etc/group": "root:x:0:\nnobody:x:65534:\n" + "".join(f"{user}:x:{n}:\n" for n, user in numbered),
        "/etc/resolv.conf": f"search {full.partition('.')[2]}\nnameserver 192.0.2.53\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    }


def _kernel(machine: Machine) -> dict[str, str]:
    memory = int(machine.fact("memory_kb"))
    mounted = "/dev/sda2 / xfs rw,noatime 0 0\ntmpfs /tmp tmpfs rw,nosuid,nodev 0 0\n"
    processors = "".join(f"processor\t: {n}\nmodel name\t: Lab CPU\n\n" for n in range(int(machine.fact("cpus"))))
    return {
        "/proc/mounts": mounted,
        "/proc/cpuinfo": processors,
        "/proc/meminfo": f"MemTotal: {memory:13} kB\nMemFree: {memory // 2:14} kB\nMemAvailable: {memory:9} kB\n",
        "/proc/loadavg": "0.10 0.10 0.10 1/200 4242\n",
        "/proc/uptime": "864000.00 13000000.00\n",
        "/proc/sys/kernel/random/boot_id": f"{uuid.uuid4()}\n",
        "/proc/cmdline": "BOOT_IMAGE=/vmlinuz root=/dev/sda2 ro quiet transparent_hugepage=never\n",
        "/proc/sys/net/core/somaxconn": "16384\n",
        "/proc/sys/kernel/random/poolsize": "256\n",
        "/proc/version": f"Linux version {machine.fact('kernel')}\n",
        "/proc/self/limits": "Max processes             65536                65536                processes\n"
        "Max open files            65536                65536                files\n",
        "/proc/sys/vm/swappiness": "1\n",
        "/proc/sys/vm/overcommit_memory": "1\n",
        "/proc/sys/kernel/random/entropy_avail": "256\n",
        "/proc/sys/net/ipv6/conf/all/disable_ipv6": "1\n",
        "/proc/sys/net/ipv6/conf/default/disable_ipv6": "1\n",
        "/sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n",
        "/sys/kernel/mm/transparent_hugepage/defrag": "always defer defer+madvise madvise [never]\n",
        "/sys/class/net/eth0/mtu": "1500\n",
        "/sys/class/net/eth0/speed": "10000\n",
    }


def _settings(machine: Machine) -> dict[str, str]:
    realm = machine.fact("fqdn").partition(".")[2].upper() or "EXAMPLE.INTERNAL"
    return {
        "/etc/krb5.conf": "[libdefaults]\n"
        f" default_realm = {realm}\n dns_lookup_kdc = false\n ticket_lifetime = 24h\n renew_lifetime = 7d\n"
        " forwardable = true\n udp_preference_limit = 1\n"
        f"[realms]\n {realm} = {{\n  kdc = kdc.{realm.lower()}\n }}\n",
        "/etc/selinux/config": f"SELINUX={machine.fact('selinux').lower()}\nSELINUXTYPE=targeted\n",
        "/etc/sysctl.conf": "vm.swappiness = 1\nvm.overcommit_memory = 1\n",
        "/etc/security/limits.d/20-nproc.conf": "* soft nproc 65536\nroot soft nproc unlimited\n",
        "/etc/cloudera-scm-agent/config.ini": "[General]\nserver_host=localhost\nserver_port=7182\n",
        "/etc/nscd.conf": "enable-cache hosts yes\nenable-cache passwd no\nenable-cache group no\n",
        "/etc/NetworkManager/conf.d/rke2-canal.conf": "[keyfile]\n"
        "unmanaged-devices=interface-name:cali*;interface-name:flannel*\n",
        "/usr/lib/jvm/java-17-openjdk/release": 'IMPLEMENTOR="Red Hat, Inc."\nJAVA_VERSION="17.0.11"\n',
        "/usr/lib/jvm/java-17-openjdk/conf/security/java.security": "crypto.policy=unlimited\n"
        "sun.security.krb5.disableReferrals=true\n",
        "/etc/chrony.conf": "pool 2.rhel.pool.ntp.org iburst\n",
    }
