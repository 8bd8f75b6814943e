"""What each verdict says is to be done mends just that: the answers as they are afterwards pass."""

# ruff: noqa: E501 - a table of cases is read by its columns

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from maint.checks.check import BEFORE_BACKUP, INFORM, judge
from maint.checks.facts import ManagerFacts
from maint.checks.registry import CHECKS, OWN
from maint.checks.tls import FILES
from maint.model.fleet import State
from tests.checks.facts import host, site
from tests.checks.test_rules import (
    AGENT_FILES,
    CASES,
    CLOCKS,
    END,
    HOST_NAMES,
    HUGE_PAGES,
    NAMES,
    ONE_VOLUME,
    OWN_REALM,
    PYTHONS,
    RHEL9,
    TICKET,
    TRACKING,
    thp,
    tls_files,
    unit,
    units,
)
from tests.cli.hosts.test_remedies_of_several import ACTED

REALM = {"krb5_conf": "default_realm = A"}
FALSE = "-Dcom.cloudera.api.redaction=false"
CHAIN = END.format("Dec 31 00:00:00 2027 GMT")
RENEWED = {"certificate": CHAIN, "names": NAMES}
OWN_ADDRESS = "2: eth0 inet 192.0.2.9/24 scope"
JDK8 = "home=/usr/lib/jvm/8\nJAVA_VERSION=1.8.0_402\n"
AGENT = {"profiles": "B"}
CDE = {"profiles": "C", "site": {"endpoints": ["vc.x.org:443"]}}
MATRIX = {
    "site": {
        "matrix": {
            "os": ["rhel 9.4"],
            "python": ["3.11"],
            "postgresql": ["14"],
            "mysql": ["8.0"],
            "bad_kernels": ["4.18"],
        }
    }
}


def limits(*values: int) -> str:
    return "".join(f"Max processes {n} {n} processes\nMax open files {n} {n} files\n" for n in values)


def chrony(offset: str, leap: str = "Normal") -> dict[str, str]:
    return {"units": units("chronyd"), "sync": "tool=chronyc\n" + TRACKING.format(offset, leap)}


def listening(*ports: int) -> str:
    return "".join(f"LISTEN 0 50 *:{port} *:*\n" for port in ports)


def endpoint(
    status: int = 0, configured: int = 0, end: str = "Jan  1 00:00:00 2099 GMT", name: str = "vc.x.org"
) -> dict[str, str]:
    return {
        "endpoints": f"endpoint=vc.x.org:443\nstatus={status}\nconfigured={configured}\nnotAfter={end}\nDNS:{name}\n"
    }


# Check, answers that break it, how what it says begins (the whole of it where that ends in `$`), answers once that was done, of what host.
MENDED: list[tuple[str, dict[str, str], str, dict[str, str], dict[str, Any]]] = [
    ("os.release", {"os_release": 'ID="rhel"\nVERSION_ID="7.9"'}, "bring the host to a release that it lists$", {"os_release": RHEL9}, MATRIX),
    ("os.selinux", {"selinux": "now=Enforcing\nfile=enforcing"}, "setenforce 0; sed -i 's/^SELINUX=.*/SELINUX=permissive/'", {"selinux": "now=Permissive\nfile=permissive"}, {}),
    ("os.selinux", {"selinux": "now=Disabled\nfile=enforcing"}, "sed -i 's/^SELINUX=.*/SELINUX=disabled/' /etc/selinux/config$", {"selinux": "now=Disabled\nfile=disabled"}, {}),
    ("os.firewalld", {"units": unit("firewalld", "active", "enabled")}, "systemctl disable --now firewalld$", {"units": unit("firewalld", "inactive")}, {}),
    ("os.fapolicyd", {"units": unit("fapolicyd", "active", "enabled")}, "systemctl disable --now fapolicyd$", {"units": unit("fapolicyd", "inactive")}, {}),
    ("os.nproc", {"limits": limits(4096)}, "printf '* - nproc 65536\\nroot - nproc unlimited\\n' > /etc/security/limits.d/95-nproc.conf", {"limits": limits(65536)}, {}),
    ("os.nproc", {"limits": limits(65536, 4096)}, "d=/etc/systemd/system/cloudera-scm-agent.service.d; mkdir -p $d; printf '[Service]\\nLimitNPROC=65536\\n'", {"limits": limits(65536, 65536)}, {}),
    ("os.nofile", {"limits": limits(1024)}, "printf '* - nofile 65536\\nroot - nofile 65536\\n'", {"limits": limits(65536)}, {}),
    ("os.nofile", {"limits": limits(1024, 1024)}, "d=/etc/systemd/system/cloudera-scm-agent.service.d", {"limits": limits(1024, 65536)}, {}),
    ("os.python", {"python": "python2=Python 2.7.18"}, "dnf install -y python3$", {"python": "python3=Python 3.11.7"}, MATRIX),
    ("os.python", {"python": "python3=Python 3.9.18"}, "dnf install -y python3.11 #", {"python": "python3=Python 3.9.18\npython3.11=Python 3.11.7"}, MATRIX),
    ("os.python", {"python": "python3=Python 3.11.7\npsycopg2=no"}, "python3 -m pip install psycopg2-binary$", {"python": "python3=Python 3.11.7\npsycopg2=yes"}, MATRIX),
    ("os.kernel", {"uname": "5.14.0\naarch64"}, "use a host with an x86_64", {"uname": "5.14.0\nx86_64"}, MATRIX),
    ("os.kernel", {"uname": "4.18.0\nx86_64"}, "boot another kernel: `grubby --info=ALL`", {"uname": "5.14.0\nx86_64"}, MATRIX),
    ("os.swappiness", {"swappiness": "60"}, "sysctl -w vm.swappiness=1$", {"swappiness": "1"}, {}),
    ("os.swappiness", {"swappiness": "10"}, "sysctl -w vm.swappiness=1$", {"swappiness": "1"}, {}),
    ("os.swappiness.persist", {"swappiness": "60", "swappiness_files": "vm.swappiness = 1", "tuned": ""}, "sysctl -w vm.swappiness=1$",
     {"swappiness": "1", "swappiness_files": "vm.swappiness = 1", "tuned": ""}, {}),
    ("os.swappiness.persist", {"swappiness": "10", "swappiness_files": "", "tuned": ""}, "echo vm.swappiness=1 >> /etc/sysctl.d/zz-maint.conf; sysctl -w vm.swappiness=1$",
     {"swappiness": "1", "swappiness_files": "vm.swappiness=1", "tuned": ""}, {}),
    ("os.swappiness.persist", {"swappiness": "1", "swappiness_files": "vm.swappiness=60", "tuned": ""}, "echo vm.swappiness=1 >> /etc/sysctl.d/zz-maint.conf; ",
     {"swappiness": "1", "swappiness_files": "vm.swappiness=60\nvm.swappiness=1", "tuned": ""}, {}),
    ("os.overcommit", {"overcommit": "0"}, "echo vm.overcommit_memory=1 >> /etc/sysctl.d/zz-maint.conf; sysctl -w vm.overcommit_memory=1$", {"overcommit": "1"}, {}),
    ("os.thp", {"thp": thp("[always] never"), "db_properties": ""}, "for f in /sys/kernel/mm/*transparent_hugepage/enabled", {"thp": thp("always [never]"), "db_properties": ""}, {}),
    ("os.thp", {"thp": thp("[always] never"), "db_properties": ""}, "for f in /sys/kernel/mm/*transparent_hugepage/enabled /sys/kernel/mm/*transparent_hugepage/defrag;"
     " do echo never > $f; done; grubby --update-kernel=ALL --args=transparent_hugepage=never$", {"thp": thp("always [never]"), "db_properties": ""}, {"profiles": "M"}),
    ("os.thp.persist", {"cmdline": "ro quiet", "rc_local": "", "tuned": ""}, "grubby --update-kernel=ALL --args=transparent_hugepage=never$",
     {"cmdline": "ro quiet\nnext ro quiet transparent_hugepage=never"}, {}),
    ("os.thp.persist", {"cmdline": "ro transparent_hugepage=never\nnext ro", "rc_local": "", "tuned": ""}, "grubby --update-kernel=ALL",
     {"cmdline": "ro\nnext ro transparent_hugepage=never"}, {}),
    ("os.tuned", {"units": unit("tuned", "active"), "tuned": "profile=balanced"}, "systemctl disable --now tuned #", {"units": unit("tuned", "inactive"), "tuned": "profile=balanced"}, {}),
    ("os.somaxconn", {"somaxconn": "128"}, "echo net.core.somaxconn=16000 >> /etc/sysctl.d/zz-maint.conf; sysctl -w net.core.somaxconn=16000$", {"somaxconn": "16000"}, {}),
    ("os.entropy", {"entropy": "4096\n180"}, "dnf install -y rng-tools && systemctl enable --now rngd$", {"entropy": "4096\n3000"}, {}),
    ("os.tmp", {"tmp": "options=rw\nmode=755"}, "chmod 1777 /tmp$", {"tmp": "options=rw\nmode=1777"}, {}),
    ("os.tmp", {"tmp": "options=rw,noexec\nmode=1777"}, "mount -o remount,exec /tmp; chmod 1777 /tmp # take noexec out", {"tmp": "options=rw\nmode=1777"}, {}),
    ("jdk.present", {"java": "home=/x\nJAVA_VERSION=1.8.0_20\n"}, "dnf install -y java-17-openjdk-devel$", {"java": "home=/x\nJAVA_VERSION=17.0.11\n"}, {}),
    ("jdk.jce", {"java": f"{JDK8}crypto.policy=limited"}, "find -L /usr/lib/jvm/8 -name java.security |", {"java": f"{JDK8}crypto.policy=limited\ncrypto.policy=unlimited"}, {}),
    ("jdk.krb_referrals", {"java": JDK8, **REALM}, "find -L /usr/lib/jvm/8 -name java.security |", {"java": f"{JDK8}sun.security.krb5.disableReferrals=true", **REALM}, {}),
    ("jdbc.driver", {"db_properties": "com.cloudera.cmf.db.type=oracle", "jdbc": "orai18n", "jdbc_roles": ""}, "put the vendor's JAR there as /usr/share/java/oracle-connector-java.jar$",
     {"db_properties": "com.cloudera.cmf.db.type=oracle", "jdbc": "oracle-connector-java\norai18n", "jdbc_roles": ""}, {}),
    ("jdbc.driver", {"db_properties": "com.cloudera.cmf.db.type=oracle", "jdbc": "oracle-connector-java", "jdbc_roles": ""}, "put orai18n.jar into /usr/share/java",
     {"db_properties": "com.cloudera.cmf.db.type=oracle", "jdbc": "oracle-connector-java\norai18n", "jdbc_roles": ""}, {}),
    ("net.hostname", {"names": "full=wn01.example.internal\nplain=wn01", "krb5_conf": ""}, "hostnamectl set-hostname wn01.example.internal$", {"names": NAMES, "krb5_conf": ""}, {}),
    ("net.hostname", {"names": "full=WN01\nplain=WN01", "krb5_conf": ""}, "let `hostnamectl set-hostname NAME` and the first name at its address", {"names": NAMES, "krb5_conf": ""}, {}),
    ("net.hostname", {"names": NAMES.replace("wn01", "a-worker-node-001"), **REALM}, "give the host a shorter name", {"names": NAMES, **REALM}, {}),
    ("net.hosts", {"hosts_file": "127.0.0.1 wn01.example.internal localhost\n192.0.2.1 x X.Org\n192.0.2.1 *.y", "names": NAMES},
     "in /etc/hosts: begin its line with `127.0.0.1 localhost`; move wn01.example.internal to a line with an address of the host's interfaces; write the names of 192.0.2.1 in lower case;"
     " turn the names of 192.0.2.1 round; take it out, and give DNS a wildcard record; join the lines of 192.0.2.1 into one$",
     {"hosts_file": "127.0.0.1 localhost\n192.0.2.9 wn01.example.internal\n192.0.2.1 x.org x", "names": NAMES}, {}),
    ("net.localhost", {"localhost": "127.0.0.1 STREAM localhost\n192.0.2.9 STREAM"}, "let localhost stand in /etc/hosts in the line of 127.0.0.1, and at no other", {"localhost": "127.0.0.1 STREAM localhost"}, {}),
    ("net.dns.fwd", {"forward": "name=a.b\nnss 192.0.2.7", "own_addresses": OWN_ADDRESS}, "let a.b lead to 192.0.2.9 alone: its A record", {"forward": "name=a.b\nnss 192.0.2.9", "own_addresses": OWN_ADDRESS}, {}),
    ("net.dns.fwd", {"forward": "name=a.b\n", "own_addresses": OWN_ADDRESS}, "let a.b lead to 192.0.2.9 alone: its A record", {"forward": "name=a.b\nnss 192.0.2.9", "own_addresses": OWN_ADDRESS}, {}),
    ("net.dns.rev", {"reverse": "192.0.2.9 x.org", "names": NAMES}, "let the PTR record of 192.0.2.9 name wn01.example.internal", {"reverse": "192.0.2.9 wn01.example.internal", "names": NAMES}, {}),
    ("net.dns.rev", {"reverse": "", "names": NAMES}, "give it one: net.dns.fwd", {"reverse": "192.0.2.9 wn01.example.internal", "names": NAMES}, {}),
    ("net.dns.peers", {"peers": "asked a.b\nasked c.d\n192.0.2.1 STREAM c.d", "own_addresses": OWN_ADDRESS}, "let each of these names lead to an address of its host", {"peers": "asked a.b\n192.0.2.1 STREAM a.b", "own_addresses": OWN_ADDRESS}, {}),
    ("net.dns.peers", {"peers": "asked a.b\n192.0.2.1 STREAM a.b\ntook 5000", "own_addresses": OWN_ADDRESS}, "take name servers that answer late out of", {"peers": "asked a.b\n192.0.2.1 STREAM a.b\ntook 5", "own_addresses": OWN_ADDRESS}, {}),
    ("net.ipv6", {"ipv6": "all=0\ndefault=0"}, "echo net.ipv6.conf.all.disable_ipv6=1 >> /etc/sysctl.d/zz-maint.conf; echo net.ipv6.conf.default.disable_ipv6=1 >> /etc/sysctl.d/zz-maint.conf;"
     " sysctl -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1$", {"ipv6": "all=1\ndefault=1"}, {}),
    ("net.multihome", {"global_addresses": "2: eth0 inet 192.0.2.9/24\n3: eth1 inet 192.0.2.8/24"}, "keep one address; or", {"global_addresses": "2: eth0 inet 192.0.2.9/24"}, {}),
    ("net.nscd", {"units": units(), "nscd_conf": "", "os_release": RHEL9}, "dnf install -y nscd && systemctl enable --now nscd$", {"units": units("nscd"), "nscd_conf": "", "os_release": RHEL9}, {}),
    ("net.nscd", {"units": units("nscd", "sssd"), "nscd_conf": "enable-cache passwd yes", "os_release": RHEL9}, "sed -i -E 's/^(\\s*enable-cache",
     {"units": units("nscd", "sssd"), "nscd_conf": "enable-cache passwd no", "os_release": RHEL9}, {}),
    ("net.ports.free", {"listening": listening(9000)}, "stop and disable what listens there", {"listening": ""}, {}),
    ("time.sync", {"units": units(), "sync": "tool=chronyc\n506"}, "systemctl enable --now chronyd$", chrony("0.0"), {}),
    ("time.sync", {"units": units("chronyd", "ntpd"), "sync": ""}, "systemctl disable --now ntpd$", chrony("0.0"), {}),
    ("time.sync", chrony("0.250"), "chronyc makestep$", chrony("0.001"), {}),
    ("time.sync", chrony("0.0", "Not synchronised"), "name servers that answer in its configuration: `chronyc sources -v`", chrony("0.0"), {}),
    ("time.sync", {"units": units("chronyd"), "sync": "tool=chronyc"}, "systemctl restart chronyd$", chrony("0.0"), {}),
    ("time.sync", {"units": units("ntpd"), "sync": "tool=ntpq\n*10.0.0.1 .GPS. 1 u 3 64 377 0.1 400.2 0.1"}, "systemctl stop ntpd; ntpd -gq; systemctl start ntpd$",
     {"units": units("ntpd"), "sync": "tool=ntpq\n*10.0.0.1 .GPS. 1 u 3 64 377 0.1 1.2 0.1"}, {}),
    ("time.sync", {"units": units(), "sync": "tool=timedatectl\nNTPSynchronized=no"}, "dnf install -y chrony && systemctl enable --now chronyd$", chrony("0.0"), {}),
    ("time.skew", {"clock_begin": "1107.0", "clock_end": "1107.1"}, "chronyc makestep #", {"clock_begin": "1000.0", "clock_end": "1000.1"}, {"sent": 1000.0, "received": 1000.1}),
    ("time.skew", {"clock_begin": "1000.0", "clock_end": "1007.1"}, "look again", {"clock_begin": "1000.0", "clock_end": "1000.1"}, {"sent": 1000.0, "received": 1000.1}),
    ("disk.space", {"space": "/opt /dev/sda 100 97 3000000 97% /\n/a'b /dev/sda 100 97 3000000 97% /\n/var /dev/sda 100 20 83886080 20% /"},
     "make room there: `du -xk /opt '/a'\"'\"'b' | sort -n | tail` shows what takes it$", {"space": "/ /dev/sda 100 20 83886080 20% /"}, {}),
    ("disk.inodes", {"inodes": "/dev/sda 100 95 5 95% /var"}, "remove files there: `find /var -xdev -type d -size +1M`", {"inodes": "/dev/sda 100 5 95 5% /var"}, {}),
    ("disk.data.mount", {"mounts": "/dev/sdb1 /data/1 xfs rw 0 0", "layers": ""}, "for d in /data/1; do mount -o remount,noatime $d; done # and in /etc/fstab$", {"mounts": "/dev/sdb1 /data/1 xfs rw,noatime 0 0", "layers": ""}, {}),
    ("disk.data.mount", {"mounts": "/dev/md0 /data/1 xfs rw 0 0", "layers": ""}, "have the manager take /data/1 out of use, then make xfs on a bare disk; noatime in /etc/fstab for /data/1$",
     {"mounts": "/dev/sdb1 /data/1 xfs rw,noatime 0 0", "layers": ""}, {}),
    ("disk.ro", {"mounts": "/dev/sdb1 /data/1 xfs ro 0 0"}, "`dmesg` shows why; unmount /dev/sdb1", {"mounts": "/dev/sdb1 /data/1 xfs rw 0 0"}, {}),
    ("disk.ecs", {"ecs_folders": "/docker / /dev/sda1"}, "mount a volume on each", {"ecs_folders": "/docker /docker /dev/sdb1\n/longhorn /longhorn /dev/sdc1\n/local-path /local-path /dev/sdd1"}, {}),
    ("disk.ecs", {"ecs_folders": "/docker /docker /dev/sdb1"}, "where they lie elsewhere, `--plan`", {"ecs_folders": "/docker /docker /dev/sdb1\n/longhorn /longhorn /dev/sdc1\n/local-path /local-path /dev/sdd1"}, {}),
    ("cm.server", {"units": unit("cloudera-scm-server", "inactive")}, "systemctl enable --now cloudera-scm-server #", {"units": unit("cloudera-scm-server", "active")}, {}),
    ("cm.server", {"units": unit("cloudera-scm-server", "active") + "NRestarts=3"}, "systemctl restart cloudera-scm-server #", {"units": unit("cloudera-scm-server", "active") + "NRestarts=0"}, {}),
    ("cm.server", {"units": "Id=cloudera-scm-server.service\nLoadState=not-found\nActiveState=inactive"}, "dnf install -y cloudera-manager-server #", {"units": unit("cloudera-scm-server", "active")}, {}),
    ("cm.agent", {"units": f"{unit('cloudera-scm-agent', 'active')}\n{unit('cloudera-scm-supervisord', 'failed')}"}, "systemctl enable --now cloudera-scm-supervisord cloudera-scm-agent$",
     {"units": f"{unit('cloudera-scm-agent', 'active')}\n{unit('cloudera-scm-supervisord', 'active')}"}, {}),
    ("cm.ports", {"listening": listening(), "agents_tls": "", "agent_reach": ""}, "systemctl enable --now cloudera-scm-server #", {"listening": listening(7182, 7183), "agents_tls": "1", "agent_reach": ""}, {"profiles": "M"}),
    ("cm.ports", {"listening": listening(7180, 7182), "agents_tls": "", "agent_reach": ""}, "after a restore `maint manager tls-switch`", {"listening": listening(7182, 7183), "agents_tls": "1", "agent_reach": ""}, {"profiles": "M"}),
    ("cm.ports", {"listening": listening(7182, 7183), "agents_tls": "0", "agent_reach": ""}, "switch TLS for agents on", {"listening": listening(7182, 7183), "agents_tls": "1", "agent_reach": ""}, {"profiles": "M"}),
    ("cm.ports", {"agent_reach": "to=cm:7182\nstatus=1"}, "open the way from here to cm:7182, or mend server_host in config.ini$", {"agent_reach": "to=cm:7182\nstatus=0"}, AGENT),
    ("cm.redaction", {"java_options": f"file-there\n{FALSE}\n{FALSE}", "java_running": "running"}, "sed -i 's/ *-Dcom.cloudera.api.redaction=[A-Za-z]*//g' /etc/default/cloudera-scm-server$",
     {"java_options": "file-there", "java_running": "running"}, {}),
    ("cm.redaction", {"java_options": f"file-there\n{FALSE}", "java_running": "running"}, "sed -i 's/ *-Dcom.cloudera.api.redaction=[A-Za-z]*//g' /etc/default/cloudera-scm-server$",
     {"java_options": "file-there", "java_running": "running"}, {}),
    ("cm.redaction", {"java_options": "file-there", "java_running": f"running\n{FALSE}"}, "sed -i 's/ *-Dcom.cloudera.api.redaction=[A-Za-z]*//g' /etc/default/cloudera-scm-server; systemctl restart cloudera-scm-server #",
     {"java_options": "file-there", "java_running": "running"}, {}),
    ("cm.redaction", {"java_options": f"file-there\n{FALSE}", "java_running": f"running\n{FALSE}"}, "sed -i 's/ *-Dcom.cloudera.api.redaction=[A-Za-z]*//g' /etc/default/cloudera-scm-server; systemctl restart cloudera-scm-server #",
     {"java_options": "file-there", "java_running": "running"}, {}),
    ("cm.redaction", {"java_options": "file-there", "java_running": "running"}, "`maint manager export --open-window`", {"java_options": f"file-there\n{FALSE}", "java_running": f"running\n{FALSE}"}, {"site": {"phase": BEFORE_BACKUP}}),
    ("cm.redaction", {"java_options": f"file-there\n{FALSE}", "java_running": "running"}, "systemctl restart cloudera-scm-server$",
     {"java_options": f"file-there\n{FALSE}", "java_running": f"running\n{FALSE}"}, {"site": {"phase": BEFORE_BACKUP}}),
    ("cm.uuid", {"cm_uuid": "file=1-2\ndatabase=3;4"}, "cp -p /etc/cloudera-scm-server/uuid /etc/cloudera-scm-server/uuid.$(date +%s); echo '3;4' > /etc/cloudera-scm-server/uuid; chown", {"cm_uuid": "file=3;4\ndatabase=3;4"}, {}),
    ("cm.uuid", {"cm_uuid": "database=3-4"}, "echo 3-4 > /etc/cloudera-scm-server/uuid; chown", {"cm_uuid": "file=3-4\ndatabase=3-4"}, {}),
    ("cm.heap", {"java_options": "-Xmx1G", "java_running": "running\n-Xmx1G"}, "sed -i 's/-Xmx[0-9]*[kKmMgG]*/-Xmx2G/g' /etc/default/cloudera-scm-server; systemctl restart cloudera-scm-server$", {"java_options": "-Xmx2G", "java_running": "running\n-Xmx2G"}, {}),
    ("cm.procdir", {"procdir": "3", "units": units() + "\n" + unit("cloudera-scm-agent", "active") + "\n" + unit("cloudera-scm-supervisord", "active")},
     "systemctl stop cloudera-scm-agent cloudera-scm-supervisord; mv /var/run/cloudera-scm-agent/process /var/run/cloudera-scm-agent/process.$(date +%s)$".replace("$(", "$("),
     {"procdir": "0", "units": unit("cloudera-scm-agent", "inactive") + "\n" + unit("cloudera-scm-supervisord", "inactive")}, {}),
    ("cm.certmanager", {"tls_files": "cm-auto-x cloudera-scm 440", "certmanager": ""}, "put /var/lib/cloudera-scm-server/certmanager back", {"tls_files": "cm-auto-x cloudera-scm 440", "certmanager": "cm.ini"}, {}),
    ("tls.files", {"tls_files": tls_files("root", 400)}, f"cd /var/lib/cloudera-scm-agent/agent-cert && chown cloudera-scm {' '.join(FILES)}$", {"tls_files": tls_files("cloudera-scm", 400)}, {}),
    ("tls.files", {"tls_files": tls_files("cloudera-scm", 644)}, "cd /var/lib/cloudera-scm-agent/agent-cert && chmod 0440 cm-auto-host_key.pem$", {"tls_files": tls_files("cloudera-scm", 440)}, {}),
    ("tls.files", {"tls_files": "cm-auto-host_key.pem cloudera-scm 440"}, "let the manager make the host's certificate anew", {"tls_files": tls_files("cloudera-scm", 440)}, {}),
    ("tls.expiry", {"certificate": END.format("Nov 20 00:00:00 2026 GMT"), "names": NAMES}, "let the manager make the certificate anew", RENEWED, AGENT),
    ("tls.expiry", {"certificate": f"{CHAIN}error 10 at 1 depth lookup: certificate has expired", "names": NAMES}, "a new authority is needed", RENEWED, AGENT),
    ("tls.match", {"tls_files": "cm-auto-x", "tls_match": "certificate=a\nkey=b"}, "let the manager make the certificate anew", {"tls_files": "cm-auto-x", "tls_match": "certificate=a\nkey=a"}, {}),
    ("db.reach", {"db_reach": "to=db:5432\nstatus=1"}, "start the database of db:5432, and open the way there", {"db_reach": "to=db:5432\nstatus=0"}, {}),
    ("db.pg", {"db_pg": "max_connections=100\nssl=off\nserver_encoding=LATIN1\nserver_version=9.6\ndatabases=5"},
     "max_connections = 250 in postgresql.conf, ssl = on there, with server.crt and server.key, a cluster made anew with initdb -E UTF8, an upgrade to a version that the matrix lists; then restart PostgreSQL$",
     {"db_pg": "max_connections=250\nssl=on\nserver_encoding=UTF8\nserver_version=14.2\ndatabases=5"}, MATRIX),
    ("db.oracle", {"db_oracle": "processes=150\nsessions=300"}, "alter system set processes=1000 scope=spfile; alter system set sessions=1500 scope=spfile;", {"db_oracle": "processes=1000\nsessions=1500"}, {}),
    ("db.oracle", {"db_oracle": "processes=1000\nsessions=1200"}, "alter system set sessions=1501 scope=spfile;", {"db_oracle": "processes=1000\nsessions=1501"}, {}),
    ("db.mysql", {"db_mysql": "version=5.5.1\nflush=O_DIRECT\nconnections=500"}, "upgrade MySQL", {"db_mysql": "version=8.0.1\nflush=O_DIRECT\nconnections=500"}, MATRIX),
    ("db.mysql", {"db_mysql": "version=8.0.1\nflush=fsync\nconnections=100"}, "innodb_flush_method = O_DIRECT and max_connections = 250", {"db_mysql": "version=8.0.1\nflush=O_DIRECT\nconnections=250"}, MATRIX),
    ("krb.conf", {"krb5_conf": "default_realm = A\ndefault_ccache_name = KCM:"}, "in [libdefaults] of /etc/krb5.conf: renew_lifetime = 7d; no default_ccache_name, there or in a file that it includes; udp_preference_limit = 1;",
     {"krb5_conf": "default_realm = A\nrenew_lifetime = 7d\nudp_preference_limit = 1"}, {}),
    ("krb.keytab", {**REALM, "keytab": "keytab=/k;x\nmode=644\nKeytab name: x\n1 h@A (aes)"}, "chmod go= '/k;x' # new credentials, too", {**REALM, "keytab": "keytab=/k\nmode=600\nKeytab name: x\n1 h@A (aes)"}, {}),
    ("krb.kinit", {**REALM, "kinit": "keytab=/k\nkinit: Clock skew too great while x\nstatus=1"}, "chronyc makestep #", {**REALM, "kinit": TICKET.format("11/30/26 09:14:41")}, {}),
    ("krb.kinit", {**REALM, "kinit": "keytab=/k\nstatus=124"}, "look at the KDC, and at the way", {**REALM, "kinit": TICKET.format("11/30/26 09:14:41")}, {}),
    ("krb.kinit", {**REALM, "kinit": TICKET.format("11/23/26 09:14:41")}, "raise max_renewable_life", {**REALM, "kinit": TICKET.format("11/30/26 09:14:41")}, {}),
    ("krb.kdc", {"krb5_conf": "default_realm = A", "kdc": "srv ad1:88\nad1:88=1"}, "start the KDC on ad1:88, and open the way there from this host$", {"krb5_conf": "default_realm = A", "kdc": "srv ad1:88\nad1:88=0"}, {}),
    ("ldap.ad_rights", {"ad_rights": "add=1\ndelete=1"}, "delegate the rights on the OU", {"ad_rights": "add=0\ndelete=0"}, {}),
    ("ldap.ad_rights", {"ad_rights": "name=CN=x\nadd=0\ndelete=1"}, "let the account delete in the OU, too; this check, again, removes CN=x$", {"ad_rights": "add=0\ndelete=0"}, {}),
    ("ecs.packages", {"ecs_packages": "package nfs-utils is not installed", "units": unit("iscsid", "inactive")}, "dnf install -y nfs-utils iscsi-initiator-utils e2fsprogs iptables; systemctl enable --now iscsid$",
     {"ecs_packages": "nfs-utils-1", "units": unit("iscsid", "active", "enabled")}, {}),
    ("ecs.iptables.rules", {"iptables_rules": "-P FORWARD DROP"}, "for i in iptables iptables-legacy iptables-nft; do", {"iptables_rules": "-P FORWARD ACCEPT"}, {}),
    ("ecs.iptables.backend", {"iptables_version": "iptables v1.8.10 (nf_tables)", "os_release": RHEL9}, "dnf install -y iptables-legacy && update-alternatives", {"iptables_version": "iptables v1.8.10 (legacy)", "os_release": RHEL9}, {}),
    ("ecs.nm", {"units": units("NetworkManager"), "nm_config": "unmanaged-devices=interface-name:x"}, "printf '[keyfile]\\nunmanaged-devices+=interface-name:cali*;interface-name:flannel*\\n' > /etc/NetworkManager/conf.d/rke2-canal.conf; systemctl reload",
     {"units": units("NetworkManager"), "nm_config": "unmanaged-devices=interface-name:x;interface-name:cali*;interface-name:flannel*"}, {}),
    ("ecs.nm_cloud_setup", {"units": unit("nm-cloud-setup", "active", "enabled") + "\nId=nm-cloud-setup.timer\nUnitFileState="}, "systemctl disable --now nm-cloud-setup.service$",
     {"units": unit("nm-cloud-setup", "inactive") + "\nId=nm-cloud-setup.timer\nUnitFileState="}, {}),
    ("ecs.dns.wildcard", {"wildcard": "asked=apps.x", "own_addresses": OWN_ADDRESS}, "let the DNS that this host asks (/etc/resolv.conf) have a record *.apps.x that leads to the ECS server",
     {"wildcard": "asked=apps.x\n192.0.2.9", "own_addresses": OWN_ADDRESS}, {"site": {"app_domain": "apps.x"}}),
    ("ecs.dns.wildcard", {"wildcard": "asked=apps.x\n192.0.2.1", "own_addresses": OWN_ADDRESS}, "let the record lead to the ECS server; where a load",
     {"wildcard": "asked=apps.x\n192.0.2.9", "own_addresses": OWN_ADDRESS}, {"site": {"app_domain": "apps.x"}}),
    ("ecs.port53", {"port_53": "UNCONN 0 0 0.0.0.0:53 0.0.0.0:*"}, "stop and disable the name server there: `ss -lnup", {"port_53": ""}, {}),
    ("ecs.leftovers", {"leftovers": "/var/lib/rancher\n/run/k3s\n2"}, "for m in $(mount | grep kubelet | sed 's/.* on //;s/ type .*//' | sort -r); do umount $m; done; rm -r --one-file-system /var/lib/rancher /run/k3s$", {"leftovers": "0"}, {}),
    ("ecs.resolv", {"resolv": "nameserver 127.0.0.1"}, "name 1 to 3 servers in /etc/resolv.conf", {"resolv": "nameserver 192.0.2.1"}, {}),
    ("ecs.resolv", {"resolv": "nameserver 127.0.0.53"}, "ln -sf /run/systemd/resolve/resolv.conf /etc/resolv.conf$", {"resolv": "nameserver 192.0.2.1"}, {}),
    ("ecs.kubelet.nodes", {"nodes": '{"items": [{"metadata": {"name": "a b"}}]}'}, "on an ECS server, `KUBECONFIG=/etc/rancher/rke2/rke2.yaml /var/lib/rancher/rke2/bin/kubectl describe node 'a b'` shows why", {"nodes": '{"items": [{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}]}'}, {}),
    ("ecs.vault", {"vault": '{"sealed": true}'}, "unseal the vault in the manager", {"vault": '{"sealed": false}'}, {}),
    ("cde.endpoint", endpoint(end="Nov 23 00:00:00 2026 GMT"), "put a new certificate in place", endpoint(), CDE),
    ("cde.endpoint", endpoint(name="other.org"), "put a new certificate in place", endpoint(), CDE),
    ("cde.endpoint", endpoint(status=1), "put the authority of the certificate (the virtual cluster's `ca`) into /etc/pki/ca-trust", endpoint(), CDE),
    ("cde.endpoint", endpoint(status=1, configured=1), "where the authority that signed it is the right one: put that into", endpoint(), CDE),
    ("krb.conf", {"krb5_conf": "[libdefaults]", "keytab": "mode=600\nKeytab name: FILE:/k"}, "put the /etc/krb5.conf of another host here",
     {"krb5_conf": "default_realm = A\nrenew_lifetime = 7d\nudp_preference_limit = 1", "keytab": "mode=600\nKeytab name: FILE:/k"}, {}),
    ("cde.keytab", {**REALM, "service_keytabs": "keytab=/k\n 2 now u@B\nkinit=0"}, "export the keytab again", {**REALM, "service_keytabs": "keytab=/k\n 2 now u@A\nkinit=0"}, {}),
]  # fmt: skip


def found(check: str, answers: dict[str, str], more: dict[str, Any]) -> Any:
    manager = ManagerFacts("", ends="2099-01-01T00:00:00+00:00")
    given = {"profiles": "BEMDKC", **more, "site": site(manager, **more.get("site", {}))}
    (finding,) = judge([CHECKS[check]], host({"units": units(), **answers}, **given).site)
    return finding


@pytest.mark.parametrize(("check", "broken", "words", "mended", "more"), MENDED)
def test_what_a_verdict_says_mends_it(
    check: str, broken: dict[str, str], words: str, mended: dict[str, str], more: dict[str, Any]
) -> None:
    before, after = found(check, broken, more), found(check, mended, more)
    assert before.state in (State.FAIL, State.WARN), before
    assert before.remedy == words[:-1] if words.endswith("$") else before.remedy.startswith(words), before.remedy
    assert after.state is State.PASS, after


def test_every_check_that_can_fail_is_seen_to_be_mended() -> None:
    """Those that judge several hosts, the manager or a plan are mended in the lab."""
    assert {name for name, one in OWN.items() if one.severity is not INFORM} == {row[0] for row in MENDED} | {*ACTED}


# What a command of a shell begins with; everything else is for people.
COMMAND = re.compile(r"(sysctl|echo|sed|for|d=|chmod|chown|cd|cp|rm|ln|mount|find|printf|systemctl|dnf|grubby|chronyc|setenforce|hostnamectl"
                     r"|python3|groupadd|useradd)\b")  # fmt: skip


def test_whatever_is_a_command_can_be_pasted() -> None:
    rows = [*CASES, *PYTHONS, *HOST_NAMES, *HUGE_PAGES, *AGENT_FILES, *CLOCKS, *ONE_VOLUME, *OWN_REALM]
    cases = [(check, answers) for check, answers, _ in rows]
    seen = {found(check, answers, {}).remedy for check, answers in cases}
    seen |= {found(check, answers, more).remedy for check, answers, _, _, more in MENDED} | {
        c.remedy for c in OWN.values()
    }
    lines = [line for line in sorted(seen) if COMMAND.match(line) and "`" not in line.partition(" #")[0]]
    assert len(lines) > 50
    parsed = subprocess.run(["bash", "-n"], input="\n".join(lines).encode(), capture_output=True, check=False)
    assert parsed.stderr.decode() == ""
    blanks = {word for line in lines for word in re.findall(r"\b[A-Z]{4,}\b", line.partition(" #")[0])}
    assert blanks <= {"SELINUX", "INPUT", "FORWARD", "OUTPUT", "ACCEPT"}, "somebody would have to fill these in"


def test_what_is_to_be_written_for_java_counts_and_nothing_else_of_its_file_is_lost(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/java.security").write_text("crypto.policy=limited\nkept=1")
    for home in ("a jdk", "other"):
        (tmp_path / home / "jre/lib").mkdir(parents=True)
        (tmp_path / home / "jre/lib/security").symlink_to("../../../etc")  # as packages lay it out
    said = "".join(
        f"home={tmp_path}/{home}\nJAVA_VERSION=1.8.0_402\ncrypto.policy=limited\n" for home in ("a jdk", "other")
    )
    subprocess.run(["sh", "-c", found("jdk.jce", {"java": said}, {}).remedy], check=True)
    lines = (tmp_path / "etc/java.security").read_text().split()
    assert (lines[:2], lines[-1]) == (["crypto.policy=limited", "kept=1"], "crypto.policy=unlimited")


def test_nscd_keeps_what_sssd_does_not_and_no_other_cache(tmp_path: Path) -> None:
    (tmp_path / "nscd.conf").write_text(
        "\tenable-cache\t\tpasswd\t\tyes\n enable-cache hosts yes\nenable-cache group  yes\n"
    )
    answers = {"units": units("nscd", "sssd"), "nscd_conf": "enable-cache passwd yes", "os_release": RHEL9}
    line = (
        found("net.nscd", answers, {}).remedy.replace("/etc/nscd.conf", str(tmp_path / "nscd.conf")).partition(";")[0]
    )
    subprocess.run(["sh", "-c", line], check=True)
    assert (
        tmp_path / "nscd.conf"
    ).read_text() == "\tenable-cache\t\tpasswd\t\tno\n enable-cache hosts yes\nenable-cache group  no\n"


def test_what_could_not_be_told_is_not_mended_as_if_it_were_broken() -> None:
    seen = found("krb.keytab", {**REALM, "keytab": "denied"}, {})
    assert (seen.state, seen.remedy) == (State.ERROR, "see to it that this can be told, then check again")


def together(check: str, question: str, *answers: str, manager: ManagerFacts | None = None, **more: Any) -> Any:
    """Return the findings on hosts a, b, …, which answered a question so."""
    known = site(manager, **more)
    for name, said in zip("abcdef", answers, strict=False):
        host({question: said}, name=name, profiles="B", site=known)
    return judge([CHECKS[check]], known)


def accounts(**numbers: int) -> str:
    every = {
        name: 990 + place for place, name in enumerate(("cloudera-scm", "hdfs", "hive", "yarn", "zookeeper"))
    } | numbers
    return "".join(f"{name}:x:{n}:{n}::/:/x\ngroup {name}:x:{n}:\n" for name, n in every.items() if n)


def test_users_are_made_with_the_numbers_of_the_other_hosts_and_other_numbers_are_told() -> None:
    *_, found = together("os.users", "accounts", accounts(), accounts(), accounts(hdfs=0, hive=5))
    assert found.remedy.startswith(
        "groupadd -r -g 991 hdfs; useradd -g hdfs -r -u 991 hdfs # once nothing of hive runs: "
    )
    assert "-gid 5 -exec chown -h :992 {} +; groupmod -g 992 hive`; once nothing of hive runs: `find" in found.remedy
    assert found.remedy.endswith("-uid 5 -exec chown -h 992 {} +; usermod -u 992 hive`")
    (found,) = together("os.users", "accounts", accounts(hdfs=0))
    assert found.remedy == "groupadd -r hdfs; useradd -g hdfs -r hdfs"


def test_packages_follow_the_server_however_few_have_its_version() -> None:
    agents = "cloudera-manager-agent-7.11.3-1\ncloudera-manager-daemons-7.11.3-1\n"
    first, second, third = together(
        "cm.version", "cm_packages", agents, agents, agents.replace("11.3", "13.1") + "cloudera-manager-server-7.13.1-1"
    )
    assert (first.state, second.state, third.state) == (State.FAIL, State.FAIL, State.PASS)
    assert first.remedy == "dnf install -y cloudera-manager-agent-7.13.1 cloudera-manager-daemons-7.13.1"


def test_a_zone_a_jdk_and_parcels_are_made_those_of_the_other_hosts() -> None:
    *_, found = together("os.tz", "zone", "UTC+0000", "UTC+0000", "CET+0100")
    assert found.remedy == "`timedatectl set-timezone` with the time zone that `timedatectl` prints on a"
    *_, found = together(
        "jdk.present", "java", *2 * ["home=/x\nJAVA_VERSION=1.8.0_402"], "home=/x\nJAVA_VERSION=17.0.1"
    )
    assert found.remedy == "dnf install -y java-1.8.0-openjdk-devel"
    *_, found = together("cm.parcels", "parcels", "A\nB", "A\nB", "A\nC\nflood C")
    assert found.remedy == (
        "have the manager (Hosts, Parcels) distribute B to this host; have it deactivate and remove C; of what it does not"
        " know any more: `rm -r /opt/cloudera/parcels/C`;"
        " once nothing is being distributed: `rm -r /opt/cloudera/parcels/.flood/C`"
    )
    *_, found = together("cm.parcels", "parcels", *2 * ["A-1\nA-2\nA=A-2"], "A-1\nA-2\nA=A-1")
    assert found.remedy.startswith(
        "`systemctl restart cloudera-scm-agent`: the agent makes the links to what the manager"
    )


def test_no_way_is_to_be_opened_to_a_server_that_does_not_run() -> None:
    known = site(ManagerFacts())
    reach = "to=cm:7182\nstatus=1"
    host({"listening": listening(22), "agents_tls": "", "agent_reach": reach}, name="cm", profiles="M", site=known)
    host({"listening": "", "agents_tls": "", "agent_reach": reach}, name="a", profiles="B", site=known)
    *_, found = judge([CHECKS["cm.ports"]], known)
    assert (found.host, found.remedy.partition(",")[0]) == ("a", "start the server on cm")
