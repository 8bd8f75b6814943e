"""Each rule as a pure function: answers in, verdict out."""

# ruff: noqa: E501 - a table of cases is read by its columns

import subprocess
from pathlib import Path
from typing import Any

import pytest

from maint.checks.check import Verdict, judge
from maint.checks.facts import NOT_ASKED, Answered, ManagerFacts
from maint.checks.registry import CHECKS
from maint.checks.tls import FILES
from maint.model.fleet import State
from tests.checks.facts import host, site

PASS, WARN, FAIL, SKIP, ERROR = State.PASS, State.WARN, State.FAIL, State.SKIP, State.ERROR
RHEL9, RHEL8, RHEL10 = (
    'ID="rhel"\nVERSION_ID="9.4"\n',
    'ID="rhel"\nVERSION_ID="8.10"\n',
    'ID="rhel"\nVERSION_ID="10.0"\n',
)
TRACKING = "Stratum         : 3\nSystem time     : {} seconds fast of NTP time\nLeap status     : {}\n"
TWO_REALMS = (
    "[libdefaults]\n\tdefault_realm = A\n[realms]\n\tB = {\n\t\tkdc = other\n\t}\n"
    "\tA = {\n\t\tnames = {\n\t\t x = y\n\t\t}\n\t\tkdc = own\n\t}\n"
)
TICKET = (
    "keytab=/k\nstatus=0\nasked=again\nTicket cache: KEYRING:session:maint-1\nDefault principal: h@A\n\n"
    "Valid starting     Expires            Service principal\n"
    "11/23/26 09:14:41  11/24/26 09:14:41  krbtgt/A@A\n\trenew until {}, Flags: RI\n"
)
END = "notAfter={}\nDNS:wn01.example.internal, DNS:localhost\n"
NAMES = "full=wn01.example.internal\nplain=wn01.example.internal\n"


def unit(name: str, state: str, enabled: str = "disabled") -> str:
    return f"Id={name}.service\nLoadState=loaded\nActiveState={state}\nSubState=running\nUnitFileState={enabled}\n"


def units(*active: str) -> str:
    every = ("chronyd", "ntpd", "firewalld", "nscd", "sssd", "tuned", "NetworkManager")
    return "\n".join(unit(name, "active" if name in active else "inactive") for name in every)


def thp(enabled: str, defrag: str = "always [never]") -> str:
    return f"enabled={enabled}\ndefrag={defrag}\n"


def tls_files(owner: str, mode: int) -> str:
    return "\n".join(f"{name} {owner} {mode if name.endswith('key.pem') else 444}" for name in FILES)


PACKAGES = "nfs-utils-1\niscsi-initiator-utils-6\ne2fsprogs-1\niptables-1\n"
SERVER = unit("cloudera-scm-server", "active") + "NRestarts=0\n"
CASES = [
    ("os.swappiness", {"swappiness": "1"}, PASS),
    ("os.swappiness", {"swappiness": "10"}, WARN),
    ("os.swappiness", {"swappiness": "11"}, FAIL),
    ("os.swappiness", {"swappiness": "60"}, FAIL),
    ("os.swappiness", {"swappiness": ""}, ERROR),
    ("os.swappiness", {"swappiness": "many"}, ERROR),
    ("os.swappiness", {}, ERROR),
    ("os.swappiness.persist", {"swappiness": "1", "swappiness_files": "vm.swappiness = 10\nvm.swappiness=1", "tuned": ""}, PASS),
    ("os.swappiness.persist", {"swappiness": "1", "swappiness_files": "", "tuned": ""}, WARN),
    ("os.swappiness.persist", {"swappiness": "1", "swappiness_files": "", "tuned": "vm.swappiness = 1", "units": units("tuned")}, PASS),
    ("os.swappiness.persist", {"swappiness": "1", "swappiness_files": "", "tuned": "vm.swappiness = 1", "units": units()}, WARN),
    ("os.swappiness.persist", {"swappiness": "1", "swappiness_files": "vm/swappiness = 60\n-vm.swappiness=1", "tuned": ""}, PASS),
    ("os.thp", {"thp": thp("always madvise [never]"), "db_properties": ""}, PASS),
    ("os.thp", {"thp": thp("[always] madvise never"), "db_properties": ""}, FAIL),
    ("os.thp", {"thp": thp("always madvise [never]", "[madvise] never"), "db_properties": ""}, FAIL),
    ("os.thp", {"thp": "", "db_properties": ""}, ERROR),
    ("os.entropy", {"entropy": "256\n256"}, PASS),  # kernels since 5.18 have no more, ever
    ("os.entropy", {"entropy": "4096\n180"}, WARN),
    ("os.entropy", {"entropy": "4096\n3000"}, PASS),
    ("os.selinux", {"selinux": "now=Permissive\nfile=permissive"}, PASS),
    ("os.selinux", {"selinux": "now=Disabled\nfile="}, PASS),
    ("os.selinux", {"selinux": "now=Disabled\nfile=permissive"}, WARN),  # they do not agree
    ("os.selinux", {"selinux": "now=Permissive\nfile=enforcing"}, WARN),
    ("os.selinux", {"selinux": "now=Enforcing\nfile=disabled"}, WARN),
    ("os.selinux", {"selinux": "now=\nfile="}, SKIP),
    ("os.firewalld", {"units": units("firewalld")}, FAIL),  # on an ECS host
    ("os.firewalld", {"units": units()}, PASS),
    ("os.firewalld", {"units": ""}, ERROR),  # no systemd: nobody knows
    ("cm.server", {"units": SERVER}, PASS),
    ("cm.server", {"units": SERVER.replace("NRestarts=0", "NRestarts=3")}, WARN),
    ("cm.server", {"units": SERVER.replace("running", "start-post")}, FAIL),
    ("os.32bit", {"packages_32bit": Answered(127, "")}, ERROR),
    ("os.uptime_reboot", {"reboot": Answered(127, "")}, SKIP),
    ("os.uptime_reboot", {"reboot": Answered(124, "")}, ERROR),
    ("os.uptime_reboot", {"reboot": Answered(2, "", "no such option")}, ERROR),
    ("ecs.packages", {"ecs_packages": PACKAGES, "units": unit("iscsid", "active")}, FAIL),
    ("ecs.packages", {"ecs_packages": PACKAGES, "units": unit("iscsid", "active", "enabled")}, PASS),
    ("net.ports.free", {"listening": Answered(0, "")}, PASS),
    ("net.ports.free", {"listening": Answered(0, "LISTEN 0 128 0.0.0.0:9000 0.0.0.0:*")}, FAIL),
    ("net.ports.free", {"listening": Answered(255, "")}, ERROR),  # an ss that does not know -H
    ("net.ports.free", {"listening": "junk"}, ERROR),
    ("ecs.port53", {"port_53": Answered(1, "")}, ERROR),
    ("net.ipv6", {"ipv6": "all=\ndefault="}, PASS),  # a kernel without IPv6
    ("net.ipv6", {"ipv6": ""}, ERROR),
    ("net.multihome", {"global_addresses": ""}, ERROR),
    ("disk.inodes", {"inodes": "junk"}, ERROR),
    ("disk.data.mount", {"mounts": "/dev/mapper/vg-db /database xfs rw 0 0\n", "layers": ""}, SKIP),
    ("disk.data.mount", {"mounts": "/dev/mapper/vg-db /data01 xfs rw,noatime 0 0\n", "layers": "/dev/mapper/vg-db lvm disk"}, WARN),
    ("disk.data.mount", {"mounts": "/dev/mapper/x /data01 xfs rw,noatime 0 0\n", "layers": "/dev/mapper/x"}, WARN),  # no lsblk
    ("disk.data.mount", {"mounts": "/dev/mapper/x /data01 xfs rw,noatime 0 0\n", "layers": NOT_ASKED}, WARN),
    ("disk.data.mount", {"mounts": "/dev/mapper/luks /data01 xfs rw,noatime 0 0\n", "layers": "/dev/mapper/luks crypt part disk"}, PASS),
    ("disk.data.mount", {"mounts": "/dev/dm-3 /data01 xfs rw,noatime 0 0\n", "layers": "/dev/dm-3 mpath disk disk"}, PASS),
    ("disk.data.mount", {"mounts": "/dev/dm-3 /data01 xfs rw,noatime 0 0\n", "layers": "/dev/dm-3 crypt lvm part disk"}, WARN),
    ("disk.data.mount", {"mounts": "/dev/md0 /data01 xfs rw,noatime 0 0\n", "layers": "/dev/md0 raid1 disk disk"}, WARN),
    ("disk.ro", {"mounts": "junk"}, ERROR),
    ("ecs.iptables.backend", {"iptables_version": "junk", "os_release": RHEL9}, ERROR),
    ("time.skew", {"clock_begin": "nan", "clock_end": "nan"}, ERROR),
    ("net.nscd", {"units": units(), "nscd_conf": "", "os_release": RHEL10}, SKIP),
    ("net.nscd", {"units": units(), "nscd_conf": "", "os_release": RHEL9}, WARN),
    ("net.nscd", {"units": units("nscd", "sssd"), "nscd_conf": "enable-cache passwd yes", "os_release": RHEL9}, WARN),
    ("ecs.iptables.backend", {"iptables_version": "iptables v1.8.10 (nf_tables)", "os_release": RHEL9}, WARN),
    ("ecs.iptables.backend", {"iptables_version": "iptables v1.8.4 (nf_tables)", "os_release": RHEL8}, PASS),
    ("ecs.port53", {"port_53": "UNCONN 0 0 0.0.0.0:53 0.0.0.0:*"}, WARN),
    ("ecs.port53", {"port_53": "UNCONN 0 0 127.0.0.53%lo:53 0.0.0.0:*"}, PASS),
    ("ecs.port53", {"port_53": ""}, PASS),
    ("ecs.nm", {"units": units("NetworkManager"), "nm_config": "[main]\n"}, FAIL),  # a file that is not *.conf is never read
    ("ecs.nm", {"units": units("NetworkManager"),
                "nm_config": "unmanaged-devices=interface-name:cali*;interface-name:flannel*"}, PASS),
    ("ecs.nm", {"units": units(), "nm_config": ""}, SKIP),
    ("ecs.resolv", {"resolv": "nameserver 127.0.0.1\n"}, WARN),
    ("ecs.resolv", {"resolv": "nameserver 10.0.0.1\nnameserver ::1\n"}, WARN),
    ("os.tmp", {"tmp": "options=rw,nosuid\nmode=1777"}, PASS),
    ("os.tmp", {"tmp": "options=\nmode=1777"}, ERROR),  # without findmnt
    ("ecs.resolv", {"resolv": "nameserver 10.0.0.1\nsearch a b c d e f g\n"}, WARN),
    ("ecs.resolv", {"resolv": "nameserver 10.0.0.1\nsearch a\n"}, PASS),
    ("net.hosts", {"hosts_file": "127.0.0.1 localhost\n192.0.2.1 *.apps.example.internal\n", "names": NAMES}, FAIL),
    ("net.hosts", {"hosts_file": "127.0.0.1 localhost wn01.example.internal\n", "names": NAMES}, FAIL),
    ("net.hosts", {"hosts_file": "127.0.0.1 localhost\n192.0.2.9 wn01 wn01.example.internal\n", "names": NAMES}, FAIL),
    ("net.hosts", {"hosts_file": "127.0.0.1 localhost\n192.0.2.9 wn01.example.internal wn01 # x\n", "names": NAMES}, PASS),
    ("net.dns.fwd", {"forward": "name=a.b\nnss 192.0.2.7\n", "own_addresses": "2: eth0 inet 192.0.2.9/24 scope"}, FAIL),
    ("net.dns.fwd", {"forward": "name=a.b\nnss 192.0.2.9\ndns 192.0.2.7\n", "own_addresses": "inet 192.0.2.9/24"}, FAIL),
    ("net.dns.fwd", {"forward": "name=a.b\nnss 192.0.2.9\n", "own_addresses": "2: eth0 inet 192.0.2.9/24 scope"}, PASS),
    ("net.dns.fwd", {"forward": "name=a.b\n", "own_addresses": "2: eth0 inet 192.0.2.9/24 scope"}, FAIL),
    ("disk.space", {"space": "/ /dev/sda 100 97 3000000 97% /"}, FAIL),
    ("disk.space", {"space": "/var/lib/cloudera-host-monitor /dev/sda 100 20 4194304 20% /var"}, WARN),
    ("disk.space", {"space": "/ /dev/sda 100 92 3000000 92% /"}, WARN),
    ("disk.space", {"space": "/opt/cloudera/parcels /dev/sda 100 20 8388608 20% /opt"}, WARN),  # 8 GiB: KiB, not bytes
    ("disk.space", {"space": "/opt/cloudera/parcels /dev/sda 100 20 4194304 20% /opt"}, FAIL),
    ("disk.space", {"space": "/ /dev/sda 100 20 83886080 20% /"}, PASS),
    ("disk.ro", {"mounts": "/dev/sda1 /data ext4 ro,noatime 0 0\n"}, FAIL),
    ("disk.ro", {"mounts": "/dev/loop0 /snap squashfs ro 0 0\n"}, PASS),
    ("disk.ro", {"mounts": "/dev/sdb /globalmount ext4 rw 0 0\n/dev/sdb /pods/1/mount ext4 ro 0 0\n"}, PASS),
    ("disk.ro", {"mounts": "/dev/sdb /globalmount ext4 ro 0 0\n/dev/sdb /pods/1/mount ext4 ro 0 0\n"}, FAIL),
    ("disk.ro", {"mounts": "/dev/sdb /data/1 ext4 rw,errors=remount-ro 0 0\n"}, PASS),
    ("disk.ro", {"mounts": "/dev/sdb /data/1 ext4 rw,noatime,errors=remount-ro,emergency_ro 0 0\n"}, FAIL),
    ("disk.ro", {"mounts": "/dev/sdb /data/1 ext4 rw,noatime,shutdown 0 0\n"}, FAIL),
    ("tls.expiry", {"certificate": END.format("Dec 31 00:00:00 2027 GMT"), "names": NAMES}, ERROR),  # of the manager's port nothing was seen
    ("tls.expiry", {"certificate": END.format("Dec  1 00:00:00 2026 GMT"), "names": NAMES}, WARN),
    ("tls.expiry", {"certificate": END.format("Nov 23 00:00:00 2026 GMT"), "names": NAMES}, FAIL),
    ("tls.expiry", {"certificate": END.format("Nov 20 00:00:00 2026 GMT"), "names": NAMES}, FAIL),
    ("tls.expiry", {"certificate": END.format("Dec 31 00:00:00 2027 GMT").partition("\n")[0], "names": NAMES}, FAIL),  # it names nobody
    ("tls.expiry", {"certificate": "", "names": NAMES}, SKIP),
    ("tls.expiry", {"certificate": END.format("Dec 31 00:00:00 2027 GMT") + "error 18 at 0 depth lookup: self-signed certificate", "names": NAMES}, FAIL),
    ("tls.expiry", {"certificate": END.format("Dec 31 00:00:00 2027 GMT") + "error 10 at 1 depth lookup: certificate has expired", "names": NAMES}, FAIL),
    ("tls.match", {"tls_files": "", "tls_match": ""}, SKIP),
    ("cm.heap", {"java_options": "-Xmx4G", "java_running": "running\n-Xmx4G\n-Xmx512m"}, WARN),
    ("cm.heap", {"java_options": "-Xmx512m\n-Xmx4G", "java_running": ""}, PASS),
    ("cm.certmanager", {"tls_files": "cm-auto-host_key.pem cloudera-scm 440", "certmanager": ""}, WARN),
    ("jdbc.driver", {"db_properties": "denied", "jdbc": "", "jdbc_roles": ""}, ERROR),
    ("jdbc.driver", {"db_properties": "", "jdbc": "", "jdbc_roles": "denied"}, ERROR),
    ("jdbc.driver", {"db_properties": "", "jdbc": "", "jdbc_roles": ""}, SKIP),
    ("jdbc.driver", {"db_properties": "", "jdbc": "", "jdbc_roles": "101-hive-HIVEMETASTORE=jdbc:postgresql:"}, PASS),
    ("jdbc.driver", {"db_properties": "", "jdbc": "mysql-connector-java", "jdbc_roles": "9-oozie-OOZIE_SERVER=jdbc:mysql:"}, PASS),
    ("jdbc.driver", {"db_properties": "", "jdbc": "", "jdbc_roles": "9-oozie-OOZIE_SERVER=jdbc:mysql:\ndenied"}, FAIL),
    ("jdbc.driver", {"db_properties": "com.cloudera.cmf.db.type=postgresql", "jdbc": "oracle-connector-java",
                     "jdbc_roles": "9-ranger-RANGER_ADMIN=jdbc:postgresql:\n9-ranger-RANGER_ADMIN=jdbc:oracle:"}, WARN),
    ("cm.redaction", {"java_options": "file-there\n", "java_running": "running\n-Xmx2G"}, PASS),
    ("cm.redaction", {"java_options": "file-there\n-Dcom.cloudera.api.redaction=false",
                      "java_running": "running\n-Dcom.cloudera.api.redaction=false"}, FAIL),
    ("cm.redaction", {"java_options": "file-there\n-Dcom.cloudera.api.redaction=true\n-Dcom.cloudera.api.redaction=true",
                      "java_running": "running"}, FAIL),
    ("cm.redaction", {"java_options": "file-there\n-Dcom.cloudera.api.redaction=false", "java_running": "running"}, FAIL),
    ("cm.redaction", {"java_options": "file-there", "java_running": ""}, ERROR),
    ("db.reach", {"db_reach": "to=db:5432\nstatus=0"}, PASS),
    ("db.reach", {"db_reach": "to=db:5432\nstatus=1"}, FAIL),
    ("db.reach", {"db_reach": "to=db:5432\ntool=none\nstatus=0"}, ERROR),
    ("db.oracle", {"db_oracle": "processes=150\nsessions=300"}, FAIL),
    ("db.oracle", {"db_oracle": "processes=1000\nsessions=1200"}, WARN),
    ("db.oracle", {"db_oracle": "processes=1000\nsessions=1500"}, PASS),
    ("db.oracle", {"db_oracle": "none"}, SKIP),
    ("krb.conf", {"krb5_conf": ""}, SKIP),
    ("krb.conf", {"krb5_conf": "default_realm = A\nrenew_lifetime = 7d\nudp_preference_limit = 1"}, PASS),
    ("krb.conf", {"krb5_conf": "default_realm = A\nrenew_lifetime = 7d\nudp_preference_limit = 1\n"
                               "default_ccache_name = KEYRING:persistent:%{uid}"}, WARN),
    ("krb.kinit", {"krb5_conf": "default_realm = A", "kinit": TICKET.format("11/30/26 09:14:41")}, PASS),
    ("krb.kinit", {"krb5_conf": "default_realm = A", "kinit": TICKET.format("11/23/26 09:14:41")}, FAIL),
    ("krb.kinit", {"krb5_conf": "default_realm = A", "kinit": TICKET.partition("renew")[0]}, FAIL),
    ("krb.kinit", {"krb5_conf": "default_realm = A", "kinit": "keytab=/k\nstatus=0\nasked=again"}, ERROR),
    ("krb.kinit", {"krb5_conf": "default_realm = A", "kinit": "keytab=/k\nstatus=0"}, PASS),  # of an older version
    ("cde.keytab", {"krb5_conf": "default_realm = A", "service_keytabs": "keytab=/k\n 2 now u@A\nkinit=0"}, PASS),
    ("cde.keytab", {"krb5_conf": "default_realm = A", "service_keytabs": "keytab=/k\n 2 now u@A\nkinit=1"}, FAIL),
    ("cde.keytab", {"krb5_conf": "default_realm = A", "service_keytabs": "keytab=/k\n 2 now u@B\nkinit=0"}, FAIL),
    ("cde.keytab", {"krb5_conf": "default_realm = A", "service_keytabs": "keytab=/k\n 2 now u@A\nkinit=127"}, ERROR),
    ("cde.keytab", {"krb5_conf": "default_realm = A", "service_keytabs": "keytab=/k\ndenied"}, ERROR),
    ("cde.keytab", {"krb5_conf": "default_realm = A", "service_keytabs": ""}, SKIP),
    ("ecs.vault", {"vault": '{"sealed": true}'}, FAIL),
    ("ecs.vault", {"vault": '{"sealed": false}'}, PASS),
    ("ecs.vault", {"vault": "agent-only"}, SKIP),
    ("ecs.vault", {"vault": "none"}, SKIP),
]  # fmt: skip
OWN_REALM = [
    ("krb.kdc", {"krb5_conf": TWO_REALMS, "kdc": "own:88=0\nother:88=1"}, PASS),
    ("krb.kdc", {"krb5_conf": TWO_REALMS, "kdc": "own:88=1\nother:88=0"}, FAIL),
    ("krb.kdc", {"krb5_conf": "default_realm = A", "kdc": "srv ad1:88\nad1:88=0\nother:88=1"}, PASS),
]  # fmt: skip
UNTOLD = [
    ("tls.expiry", {"certificate": "error 20 at 0 depth", "names": NAMES}, ERROR),  # and no date
    ("tls.expiry", {"certificate": "denied", "names": NAMES}, ERROR),
    ("tls.files", {"tls_files": "denied"}, ERROR),
    ("ecs.iptables.rules", {"iptables_rules": "refused\n-P INPUT ACCEPT"}, ERROR),
    ("cm.procdir", {"procdir": "denied", "units": units()}, ERROR),
    ("tls.match", {"tls_files": "denied", "tls_match": ""}, ERROR),
    ("cm.certmanager", {"tls_files": "denied", "certmanager": ""}, ERROR),
    ("cm.certmanager", {"tls_files": "cm-auto-host_key.pem cloudera-scm 440", "certmanager": "denied"}, ERROR),
    ("cm.uuid", {"cm_uuid": "file=1-2"}, ERROR),
    ("krb.kdc", {"krb5_conf": "default_realm = A", "kdc": ""}, ERROR),
    ("krb.kdc", {"krb5_conf": "denied /etc/krb5.conf.d", "kdc": ""}, ERROR),
    ("krb.conf", {"krb5_conf": "denied /etc/krb5.conf.d"}, ERROR),
    ("krb.conf", {"krb5_conf": Answered(0, "", "cat: Permission denied")}, ERROR),
    ("ecs.vault", {"vault": Answered(0, "refused", "The connection to the server was refused")}, ERROR),
    ("ecs.vault", {"vault": "closed /etc/rancher"}, ERROR),
    ("ecs.vault", {"vault": "oops"}, ERROR),
]  # fmt: skip
ONE_VOLUME = [
    ("disk.ecs", {"ecs_folders": "/docker /docker /dev/sdb1\n/longhorn /longhorn /dev/sdc1\n"
                                 "/local-path /local-path /dev/sdd1"}, PASS),
    ("disk.ecs", {"ecs_folders": "/docker /docker /dev/sdb1\n/longhorn /longhorn /dev/sdc1"}, WARN),
    ("disk.ecs", {"ecs_folders": "/var/lib/docker /var /dev/sda3\n/var/lib/longhorn /var /dev/sda3"}, FAIL),
    ("disk.ecs", {"ecs_folders": "/docker /data /dev/sdb1\n/longhorn /data /dev/sdb1"}, FAIL),
    ("disk.ecs", {"ecs_folders": "/docker /docker /dev/sdb1\n/longhorn /longhorn /dev/sdb1"}, FAIL),  # bound twice
    ("disk.ecs", {"ecs_folders": "/docker /docker /dev/sdb1\n/var/lib/docker / /dev/sda1\n/longhorn /longhorn /dev/sdc1\n"
                                 "/local-path /local-path /dev/sdd1"}, PASS),  # left over, unused
    ("disk.ecs", {"ecs_folders": "/docker / /dev/sda1"}, FAIL),
    ("disk.ecs", {"ecs_folders": "/docker"}, ERROR),
]  # fmt: skip
CLOCKS = [
    ("time.sync", {"units": units("chronyd"), "sync": "tool=chronyc\n" + TRACKING.format("0.001", "Normal")}, PASS),
    ("time.sync", {"units": units("chronyd"), "sync": "tool=chronyc\n" + TRACKING.format("0.250", "Normal")}, FAIL),
    ("time.sync", {"units": units("chronyd"), "sync": "tool=chronyc\n" + TRACKING.format("0.0", "Not synchronised")}, FAIL),
    ("time.sync", {"units": units("chronyd", "ntpd"), "sync": "tool=chronyc\n" + TRACKING.format("0.0", "Normal")}, FAIL),
    ("time.sync", {"units": units(), "sync": "tool=timedatectl\nNTPSynchronized=yes"}, PASS),
    ("time.sync", {"units": units(), "sync": ""}, ERROR),
    ("time.sync", {"units": units(), "sync": "tool=timedatectl"}, ERROR),
    ("time.sync", {"units": units("ntpd"), "sync": "tool=chronyc\ntool=ntpq\n*10.0.0.1 .GPS. 1 u 3 64 377 0.1 1.2 0.1"}, PASS),
    ("time.sync", {"units": units("ntpd"), "sync": "tool=chronyc\ntool=ntpq\n 10.0.0.1 .INIT. 16 u 3 64 0 0.1 1.2 0.1"}, FAIL),
    ("time.sync", {"units": units("ntpd"), "sync": "tool=ntpq\no127.127.22.0 .PPS. 0 l 9 16 377 0.0 0.004 0.1"}, PASS),
    ("time.sync", {"units": units("ntpd"), "sync": "tool=ntpq\n*127.127.1.0 .LOCL. 10 l 9 64 377 0.0 0.0 0.0"}, WARN),
    ("time.sync", {"units": units("chronyd"), "sync": "tool=chronyc\nReference ID    : 7F7F0101 ()\n" + TRACKING.format("0.0", "Normal")}, WARN),
    ("time.sync", {"units": units("chronyd"), "sync": "tool=chronyc\nReference ID    : C0000235 (192.0.2.53)\n" + TRACKING.format("0.0", "Normal")}, PASS),
    ("time.sync", {"units": units("ntpd"), "sync": "tool=chronyc\n506 Cannot talk to daemon"}, ERROR),
]  # fmt: skip
PYTHONS = [
    ("os.python", {"python": "python3=Python 3.9.18\npsycopg2=no"}, WARN),
    ("os.python", {"python": "python3=Python 3.9.18\npsycopg2=yes"}, SKIP),  # no matrix
]  # fmt: skip
HOST_NAMES = [
    ("net.hostname", {"names": "full=WN01.example.internal\nplain=WN01.example.internal\n", "krb5_conf": ""}, FAIL),
    ("net.hostname", {"names": "full=wn01\nplain=wn01\n", "krb5_conf": ""}, FAIL),
    ("net.hostname", {"names": NAMES, "krb5_conf": ""}, PASS),
    ("net.hostname", {"names": NAMES.replace("wn01", "a-worker-node-001"), "krb5_conf": ""}, PASS),
    ("net.hostname", {"names": NAMES.replace("wn01", "a-worker-node-001"), "krb5_conf": "default_realm = A"}, WARN),
]  # fmt: skip
HUGE_PAGES = [
    ("os.thp.persist", {"cmdline": "ro quiet", "rc_local": "", "tuned": ""}, WARN),
    ("os.thp.persist", {"cmdline": "ro", "rc_local": "", "tuned": "transparent_hugepages=never", "units": units()}, WARN),
    ("os.thp.persist", {"cmdline": "ro", "rc_local": "", "tuned": "transparent_hugepages=never", "units": units("tuned")}, PASS),
    ("os.thp.persist", {"cmdline": "ro", "rc_local": "echo never > /sys/kernel/mm/transparent_hugepage/enabled", "tuned": ""}, PASS),
    ("os.thp.persist", {"cmdline": "ro", "rc_local": "echo always > /sys/kernel/mm/transparent_hugepage/enabled", "tuned": ""}, WARN),
]  # fmt: skip
AGENT_FILES = [
    ("tls.files", {"tls_files": tls_files("cloudera-scm", 440)}, PASS),
    ("tls.files", {"tls_files": tls_files("cloudera-scm", 640)}, FAIL),
    ("tls.files", {"tls_files": tls_files("root", 400)}, FAIL),
    ("tls.files", {"tls_files": tls_files("cloudera-scm", 440).partition("\n")[2]}, FAIL),  # one is missing
    ("tls.files", {"tls_files": ""}, SKIP),
]  # fmt: skip


def each(cases: list[Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("check", "answers", "state"), cases, ids=lambda value: value if isinstance(value, str) else ""
    )


def judged(check: str, answers: dict[str, str]) -> State:
    return CHECKS[check].judge(host(answers)).state


@each(CASES)
def test_a_rule_says_what_it_must(check: str, answers: dict[str, str], state: State) -> None:
    assert judged(check, answers) is state


@each(OWN_REALM)
def test_the_kdc_of_the_own_realm_alone_counts_however_the_file_is_indented(
    check: str, answers: dict[str, str], state: State
) -> None:
    assert judged(check, answers) is state


@each(UNTOLD)
def test_what_could_not_be_told_is_an_error_and_neither_a_skip_nor_a_pass(
    check: str, answers: dict[str, str], state: State
) -> None:
    assert judged(check, answers) is state is ERROR


@each(ONE_VOLUME)
def test_docker_and_longhorn_on_one_volume_fail(check: str, answers: dict[str, str], state: State) -> None:
    assert judged(check, answers) is state


@pytest.mark.parametrize(("docker", "data"), [("/var", "/var"), ("/mnt", "/mnt"), ("/docker", "/longhorn")])
def test_a_plan_that_lays_docker_and_longhorn_on_one_volume_does_not_pass(docker: str, data: str) -> None:
    plan = {"hosts": ["wn01"], "docker_dir": f"{docker}/a", "data_dir": f"{data}/b"}
    rows = f"{docker}/a {docker} /dev/sd{docker[1]}1 1 1\n{data}/b {data} /dev/sd{data[1]}1 1 1"
    known = host({"plan_folders": rows}, site=site(ManagerFacts("not asked"), plan=plan)).site
    (found,) = judge([CHECKS["ecs.plan"]], known)
    alone = not any(words in found.observed for words in ("shares a volume", "with the system"))
    assert (found.state, alone) == (FAIL, docker != data), found.observed


@pytest.mark.parametrize(("domain", "fits"), [("d" * 29, True), ("d" * 30, False)])
@pytest.mark.parametrize("before", ["", "apps."])
def test_a_plan_and_the_check_of_its_domain_count_the_same_characters(domain: str, fits: bool, before: str) -> None:
    plan = {"app_domain": f"{before}{domain}"}
    known = host({}, profiles="E", site=site(ManagerFacts("not asked"), app_domain=f"apps.{domain}", plan=plan)).site
    (found,) = judge([CHECKS["ecs.plan"]], known)
    (length,) = judge([CHECKS["ecs.domain.length"]], known)
    assert ("more than 29" in found.observed, length.state is WARN) == (not fits, not fits), found.observed


@pytest.mark.parametrize("name", ["wn01", "wn01.example.internal"])
def test_a_plan_may_name_a_host_as_the_config_does_or_as_the_manager_does(name: str) -> None:
    listed = [{"hostname": "wn01.example.internal", "lastHeartbeat": None, "cluster": None, "names": ["wn01"]}]
    known = host({"plan_folders": ""}, site=site(ManagerFacts("", hosts=listed), plan={"hosts": [name]})).site
    (found,) = judge([CHECKS["ecs.plan"]], known)
    assert "does not know the host" not in found.observed
    assert "is not in the inventory" not in found.observed


@each(CLOCKS)
def test_a_clock_that_ntpd_keeps_is_in_step_though_chrony_is_installed(
    check: str, answers: dict[str, str], state: State
) -> None:
    assert judged(check, answers) is state


@each(PYTHONS)
def test_a_python_without_psycopg2_is_a_warning(check: str, answers: dict[str, str], state: State) -> None:
    assert judged(check, answers) is state


@each(HOST_NAMES)
def test_a_host_name_in_capitals_without_a_domain_or_too_long_for_a_directory_does_not_pass(
    check: str, answers: dict[str, str], state: State
) -> None:
    assert judged(check, answers) is state


@each(HUGE_PAGES)
def test_huge_pages_that_come_back_with_the_next_boot_are_a_warning(
    check: str, answers: dict[str, str], state: State
) -> None:
    assert judged(check, answers) is state


@each(AGENT_FILES)
def test_keys_and_certificates_with_another_owner_or_a_wider_mode_fail(
    check: str, answers: dict[str, str], state: State
) -> None:
    assert judged(check, answers) is state


@pytest.mark.parametrize(("configured", "state"), [(0, WARN), (1, FAIL)])
def test_a_chain_of_the_configured_authority_bends_the_rule_and_needs_no_new_certificate(
    configured: int, state: State
) -> None:
    said = (
        f"endpoint=vc.x.org:443\nstatus=1\nconfigured={configured}\nnotAfter=Jan  1 00:00:00 2099 GMT\nDNS:vc.x.org\n"
    )
    known = site(endpoints=["vc.x.org:443"])
    (finding,) = judge([CHECKS["cde.endpoint"]], host({"endpoints": said}, profiles="C", site=known).site)
    assert finding.state is state
    assert "update-ca-trust" in finding.remedy and "new certificate" not in finding.remedy


@pytest.mark.parametrize(
    ("ends", "state"),
    [("2026-11-26", FAIL), ("2026-12-10", WARN), ("2027-12-01", PASS), ("", ERROR)],
)
def test_the_managers_own_certificate_is_judged_beside_the_agents(ends: str, state: State) -> None:
    known = site(ManagerFacts("", ends=f"{ends}T00:00:00+00:00" if ends else ""))
    fine = {"certificate": END.format("Dec 31 00:00:00 2027 GMT"), "names": NAMES}
    found = CHECKS["tls.expiry"].judge(host(fine, profiles="M", site=known))
    assert found.state is state
    assert "the manager's port" in found.observed
    alone = CHECKS["tls.expiry"].judge(host({"certificate": "", "names": NAMES}, profiles="M", site=known))
    assert alone.state is (state if ends else SKIP)


@pytest.mark.parametrize(
    ("check", "answers", "words"),
    [
        ("krb.kinit", {"krb5_conf": "default_realm = A", "kinit": "kinit: Cannot contact any KDC for realm 'A'\nstatus=1"},
         "look at the KDC"),
        ("krb.kinit", {"krb5_conf": "default_realm = A", "kinit": "kinit: Client's credentials have been revoked\nstatus=1"},
         "unlock and enable the principal in the KDC"),
        ("cde.keytab", {"krb5_conf": "default_realm = A", "service_keytabs":
                        "keytab=/k\n 2 now u@A\nkinit: Client 'u@A' not found in Kerberos database\nkinit=1"},
         "have the principal made in the KDC"),
        ("krb.kinit", {"krb5_conf": "default_realm = A", "kinit": "kinit: Preauthentication failed\nstatus=1"},
         "generate the credentials anew"),
        ("krb.keytab", {"krb5_conf": "default_realm = A", "keytab": "keytab=/x/h.keytab\nmode=644\nKeytab name: x\n1 h@A (aes)"},
         "chmod go= /x/h.keytab"),
        ("cde.keytab", {"krb5_conf": "default_realm = A",
                        "service_keytabs": "keytab=/k\n 2 now u@A\nkinit: Cannot contact any KDC\nkinit=1"}, "look at the KDC"),
        ("os.selinux", {"selinux": "now=Disabled\nfile=permissive"}, "/SELINUX=disabled/"),
        ("os.selinux", {"selinux": "now=Enforcing\nfile=enforcing"}, "setenforce 0"),
        ("time.sync", {"units": units("chronyd", "ntpd"), "sync": ""}, "disable --now ntpd"),
        ("time.sync", {"units": units(), "sync": "tool=chronyc\n506 Cannot talk"}, "enable --now chronyd"),
        ("time.sync", {"units": units("ntpd"), "sync": "tool=chronyc\ntool=ntpq\n x"}, "ntpq -pn"),
    ],
)  # fmt: skip
def test_a_remedy_mends_what_is_wrong(check: str, answers: dict[str, str], words: str) -> None:
    (finding,) = judge([CHECKS[check]], host(answers, profiles="BEMDKC").site)
    assert finding.state in (FAIL, WARN)
    assert words in finding.remedy


def test_firewalld_is_a_warning_where_there_is_no_kubernetes() -> None:
    assert CHECKS["os.firewalld"].judge(host({"units": units("firewalld")}, profiles="B")).state == WARN


@pytest.mark.parametrize(
    ("status", "name", "state"), [(0, "*.x.org", PASS), (1, "*.x.org", FAIL), (0, "*.y.org", FAIL)]
)
def test_an_endpoint_needs_its_name_and_a_chain_that_hosts_trust(status: int, name: str, state: State) -> None:
    said = f"endpoint=vc.x.org:443\nstatus={status}\nnotAfter=Jan  1 00:00:00 2099 GMT\nDNS:{name}\n"
    assert CHECKS["cde.endpoint"].judge(host({"endpoints": said}, site=site(endpoints=["vc.x.org:443"]))).state == state


def test_an_endpoint_that_shows_no_certificate_beside_another_one_needs_no_new_one() -> None:
    fine = "status=0\nnotAfter=Jan  1 00:00:00 2099 GMT\nDNS:*.x.org\n"
    said = f"endpoint=vc.x.org:443\n{fine}endpoint=vc2.x.org:443\nstatus=1\nconfigured=1\n"
    found = CHECKS["cde.endpoint"].judge(
        host({"endpoints": said}, site=site(endpoints=["vc.x.org:443", "vc2.x.org:443"]))
    )
    assert (found.state, found.observed) == (ERROR, "vc2.x.org:443 shows no certificate")


@pytest.mark.parametrize(("health", "state"), [(["GOOD"], PASS), (["CONCERNING"], WARN), (["BAD"], FAIL),
                                               (["CONCERNING", "GOOD"], WARN), (["GOOD", "BAD"], FAIL),
                                               (["GOOD", "GOOD"], PASS)])  # fmt: skip
def test_ozone_is_judged_by_its_health(health: list[str], state: State) -> None:
    services = [{"type": "OZONE", "state": "STARTED", "health": one} for one in health]
    clusters: list[Any] = [{"name": "base", "type": "BASE_CLUSTER", "services": services},
                           {"name": "ecs", "type": "EXPERIENCE_CLUSTER", "services": []}]  # fmt: skip
    assert CHECKS["cde.ozone"].judge_all(site(ManagerFacts("", clusters=clusters)))[""].state is state


@pytest.mark.parametrize(("address", "state"), [("192.0.2.7", PASS), ("192.0.2.1", WARN), ("", FAIL)])
def test_a_wildcard_that_leads_to_none_of_the_ecs_hosts_is_told(address: str, state: State) -> None:
    known = site(app_domain="apps.x.org")
    for name, profiles, own in (("ds-01", "E", "192.0.2.7"), ("base-01", "B", "192.0.2.1")):
        said = {"wildcard": f"asked=apps.x.org\n{address}", "own_addresses": f"2: eth0 inet {own}/24 scope"}
        host(said, name=name, profiles=profiles, site=known)
    assert {one.state for one in CHECKS["ecs.dns.wildcard"].judge_all(known).values()} == {state}


def test_a_rule_in_the_other_back_end_is_found(tmp_path: Path) -> None:
    for name, rule in (("iptables", "-P INPUT ACCEPT"), ("iptables-legacy", "-A INPUT -j DROP")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{rule}'\n")
        (tmp_path / name).chmod(0o755)
    asked = CHECKS.questions()["iptables_rules"]
    said = subprocess.run(["/bin/sh", "-c", asked], env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    verdict = CHECKS["ecs.iptables.rules"].judge(host({"iptables_rules": said.stdout}))
    assert (verdict.state, verdict.observed) == (FAIL, "1 rule, such as -A INPUT -j DROP")


def test_rules_that_no_installed_program_shows_are_not_taken_for_none(tmp_path: Path) -> None:
    names = tmp_path / "names"
    asked = CHECKS.questions()["iptables_rules"].replace("/proc/net/ip_tables_names", str(names))
    asked = asked.replace("/sys/module/nf_tables", str(tmp_path / "nf_tables"))
    (tmp_path / "grep").symlink_to("/usr/bin/grep")

    def judged(version: str) -> Verdict:
        (tmp_path / "iptables").write_text(f"#!/bin/sh\n[ $1 = -V ] && echo '{version}' || echo -P INPUT ACCEPT\n")
        (tmp_path / "iptables").chmod(0o755)
        said = subprocess.run(["/bin/sh", "-c", asked], env={"PATH": str(tmp_path)}, capture_output=True, text=True)
        return CHECKS["ecs.iptables.rules"].judge(host({"iptables_rules": said.stdout}))

    new, old = "iptables v1.8.10 (nf_tables)", "iptables v1.8.10 (legacy)"
    assert (judged(new).state, judged(old).state) == (PASS, PASS)
    names.write_text("filter\n")
    assert (judged(new).state, judged(old).state) == (ERROR, PASS)
    assert "iptables-legacy alone shows" in judged(new).observed
    (tmp_path / "nf_tables").mkdir()
    assert "iptables-nft alone shows" in judged(old).observed


def test_a_kubernetes_that_refuses_is_not_one_without_a_vault(tmp_path: Path) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\necho 'The connection to the server was refused' >&2\nexit 1\n")
    kubectl.chmod(0o755)
    asked = ["/bin/sh", "-c", CHECKS.questions()["vault"]]
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "KUBECONFIG": str(kubectl)}
    said = subprocess.run(asked, env=env, capture_output=True, text=True)
    verdict = CHECKS["ecs.vault"].judge(host({"vault": Answered(said.returncode, said.stdout, said.stderr)}))
    assert (verdict.state, "The connection to the server was refused" in verdict.observed) == (ERROR, True)


def test_before_a_backup_the_redaction_must_be_off() -> None:
    off = {"java_options": "file-there\n-Dcom.cloudera.api.redaction=false",
           "java_running": "running\n-Dcom.cloudera.api.redaction=false"}  # fmt: skip
    assert CHECKS["cm.redaction"].judge(host(off, site=site(phase="before-backup"))).state == PASS
    on = {"java_options": "file-there\n", "java_running": "running\n-Xmx2G"}
    found = CHECKS["cm.redaction"].judge(host(on, site=site(phase="before-backup")))
    assert (found.state, found.observed) == (FAIL, "true, and a backup needs `false` now")


def test_ipv6_is_a_warning_on_releases_whose_documentation_allows_it() -> None:
    on = {"ipv6": "all=0\ndefault=0\n2: eth0 inet6 2001:db8::1/64 scope global"}
    for release, state in (("7.11.3", FAIL), ("7.13.1", WARN), ("", FAIL)):
        known = site(ManagerFacts("", release))
        assert CHECKS["net.ipv6"].judge(host(on, site=known)).state == state


@pytest.mark.parametrize(
    ("ahead", "state"),
    [(0.0, PASS), (0.4, PASS), (7.0, WARN), (-7.0, WARN), (299.0, WARN), (301.0, FAIL), (-500.0, FAIL)],
)
def test_a_clock_is_judged_by_what_is_certain(ahead: float, state: State) -> None:
    begin, end = 1000.0 + ahead, 1002.0 + ahead  # the script took two seconds
    answers = {"clock_begin": f"{begin:.3f}", "clock_end": f"{end:.3f}"}
    assert CHECKS["time.skew"].judge(host(answers, sent=999.9, received=1002.1)).state == state


def test_a_slow_way_to_a_host_is_no_skew() -> None:
    answers = {"clock_begin": "1008.0", "clock_end": "1008.1"}
    assert CHECKS["time.skew"].judge(host(answers, sent=1000.0, received=1008.2)).state == PASS


@pytest.mark.parametrize(
    ("release", "supported"),
    [
        ('JAVA_VERSION="1.8.0_232"\nIMPLEMENTOR="Red Hat"', True),
        ('JAVA_VERSION="1.8.0_222"\nIMPLEMENTOR="Red Hat"', False),
        ('JAVA_VERSION="1.8.0_181"\nIMPLEMENTOR="Oracle Corporation"', True),
        ('JAVA_VERSION="1.8.0_181"\nBUILD_TYPE="commercial"', True),
        ('JAVA_VERSION="1.8.0_171"\nBUILD_TYPE="commercial"', False),
        ('JAVA_VERSION="1.8.0_222"\nIMPLEMENTOR="Azul Systems, Inc."\nBUILD_TYPE="commercial"', False),
        ('JAVA_VERSION="11.0.2"', True),
        ('JAVA_VERSION="17.0.11"', True),
        ('JAVA_VERSION="21.0.1"', False),
        ('openjdk version "1.8.0_402"', True),
    ],
)
def test_a_jdk_is_known_by_vendor_and_update(release: str, supported: bool) -> None:
    known = site()
    host({"java": f"home=/usr/lib/jvm/x\n{release}\n"}, site=known)
    (verdict,) = CHECKS["jdk.present"].judge_all(known).values()
    assert (verdict.state == PASS) is supported, verdict


def test_hosts_that_differ_from_the_others_are_named() -> None:
    known = site()
    for name, zone in (("a", "UTC+0000"), ("b", "UTC+0000"), ("c", "CET+0100")):
        host({"zone": zone}, name=name, site=known)
    verdicts = CHECKS["os.tz"].judge_all(known)
    assert {name: verdict.state for name, verdict in verdicts.items()} == {"a": PASS, "b": PASS, "c": WARN}


def accounts(number: int) -> str:
    others = "".join(f"{name}:x:1:1::/:/x\ngroup {name}:x:1:\n" for name in ("hdfs", "hive", "yarn", "zookeeper"))
    return f"cloudera-scm:x:{number}:990::/:/sbin/nologin\ngroup cloudera-scm:x:990:\n{others}"


@pytest.mark.parametrize("name", ["cloudera-scm", "hdfs", "hive", "yarn", "zookeeper"])
def test_users_and_groups_that_every_host_lacks_are_missing(name: str) -> None:
    known = host({"accounts": accounts(990).replace(f"{name}:", "other:")}).site
    missing = CHECKS["os.users"].judge_all(known)["wn01"].observed.split(", ")
    assert sorted(missing) == sorted([f"group {name} missing", f"{name} missing"])


@pytest.mark.parametrize(
    ("ports", "certificates", "state"),
    [((7180, 7182), "0", WARN), ((7180, 7182, 7183), "1", PASS), ((7182, 7183), "1", PASS), ((7182, 7183), "0", FAIL),
     ((7182, 7183), "", PASS), ((7180, 7183), "0", FAIL), ((7180,), "0", FAIL)],
)  # fmt: skip
def test_a_manager_whose_ports_are_without_tls_never_passes(
    ports: tuple[int, ...], certificates: str, state: State
) -> None:
    said = {"listening": "".join(f"LISTEN 0 50 *:{port} *:*\n" for port in ports), "agent_reach": "tool=nc"}
    said["agents_tls"] = certificates
    assert CHECKS["cm.ports"].judge(host(said, profiles="M")).state is state


@pytest.mark.parametrize(("said", "state"), [
    ("to=cm:7182\nstatus=0", PASS), ("to=cm:7182\nstatus=1", FAIL), ("to=cm:7182\ntool=none\nstatus=0", ERROR), ("", SKIP),
])  # fmt: skip
def test_every_agent_tries_the_way_to_its_manager(said: str, state: State) -> None:
    assert CHECKS["cm.ports"].judge(host({"agent_reach": said}, profiles="B")).state is state


@pytest.mark.parametrize(("release", "state"), [
    ("4.18.0-305.el8.x86_64", FAIL), ("4.18.0-3050.el8.x86_64", PASS), ("5.14.0-70.13.1.el9_0.x86_64", FAIL),
    ("5.14.0-70.22.1.el9_0.x86_64", PASS),
])  # fmt: skip
def test_a_kernel_that_the_matrix_calls_bad_fails(release: str, state: State) -> None:
    known = site(matrix={"bad_kernels": ["4.18.0-305", "5.14.0-70.13.1"]})
    assert CHECKS["os.kernel"].judge(host({"uname": f"{release}\nx86_64"}, site=known)).state is state


@pytest.mark.parametrize(("jars", "state"), [
    ("oracle-connector-java\norai18n", PASS), ("oracle-connector-java", WARN), ("orai18n", FAIL), ("", FAIL),
])  # fmt: skip
def test_a_driver_of_oracle_without_its_character_sets_is_a_warning(jars: str, state: State) -> None:
    said = {"db_properties": "com.cloudera.cmf.db.type=oracle", "jdbc": jars, "jdbc_roles": ""}
    assert CHECKS["jdbc.driver"].judge(host(said, profiles="M")).state is state


@pytest.mark.parametrize(("listed", "state"), [(["8.0"], PASS), (["5.7"], FAIL), (None, PASS)])
def test_a_version_of_mysql_is_held_against_the_support_matrix(listed: list[str] | None, state: State) -> None:
    known = site(matrix=None if listed is None else {"mysql": listed})
    said = {"db_mysql": "version=8.0.36-log\nflush=O_DIRECT\nconnections=500"}
    assert CHECKS["db.mysql"].judge(host(said, site=known)).state is state


def test_users_with_other_numbers_are_named() -> None:
    known = site()
    for name, number in (("a", 990), ("b", 990), ("c", 991)):
        host({"accounts": accounts(number)}, name=name, site=known)
    assert CHECKS["os.users"].judge_all(known)["c"].observed == "cloudera-scm is 991, elsewhere 990"


def test_what_needs_the_manager_says_so_when_it_does_not_answer() -> None:
    for check in CHECKS.values():
        if check.needs_manager:
            (verdict,) = check.judge_all(site(ManagerFacts("refused"))).values()
            assert verdict.state == ERROR
            assert "refused" in verdict.observed


@pytest.mark.parametrize(
    ("words", "opens", "state"),
    [
        ("opens /x", True, PASS),
        ("does not open /x", False, FAIL),
        ("could not be tried", None, ERROR),
        ("", None, SKIP),
    ],
)
def test_a_truststore_passes_only_where_the_password_was_tried_on_it(
    words: str, opens: bool | None, state: State
) -> None:
    known = host({}, profiles="M", site=site(ManagerFacts("", truststore=words, opens=opens))).site
    (found,) = judge([CHECKS["tls.truststore"]], known)
    assert (found.state, words in found.observed) == (state, True)


def test_a_host_whose_answer_nobody_can_read_hides_nothing_of_what_others_say() -> None:
    known = site()
    for name, zone in (("a", "UTC+0000"), ("b", "UTC+0000"), ("c", "CET+0100"), ("d", Answered(124, ""))):
        host({"zone": zone}, name=name, site=known)
    host({"zone": ""}, name="e", site=known)
    host({}, name="f", site=known)
    states = {finding.host: finding.state for finding in judge([CHECKS["os.tz"]], known)}
    assert states == {"a": PASS, "b": PASS, "c": WARN, "d": ERROR, "e": ERROR, "f": ERROR}


def test_a_doubt_about_a_clock_is_told_and_not_averaged() -> None:
    slow = host({"clock_begin": "1007.0", "clock_end": "1017.5"}, sent=1000.0, received=1010.9)
    verdict = CHECKS["time.skew"].judge(slow)
    assert (verdict.state, verdict.observed) == (WARN, "+6.8 s")
    slow = host({"clock_begin": "1018.0", "clock_end": "1018.5"}, sent=1000.0, received=1011.5)
    assert CHECKS["time.skew"].judge(slow).observed == "between +7.0 and +18.0 s"


_NODES = '{"items": [{"status": {"allocatable": {"cpu": "16", "memory": "32Gi"}}}]}'
_DISKS = (
    '{{"items": [{{"spec": {{"disks": {{"d": {{"storageReserved": 30000000000}}}}}}, '
    '"status": {{"diskStatus": {{"d": {{"storageAvailable": {}}}}}}}}}]}}'
)


@pytest.mark.parametrize(
    ("disks", "state"),
    [(_DISKS.format(140_000_000_000), PASS), (_DISKS.format(139_000_000_000), WARN), ("", ERROR), ("{}", WARN)],
)
def test_a_service_needs_room_for_volumes_too(disks: str, state: State) -> None:
    said = {"nodes": _NODES, "node_use": "  cpu 1\n  memory 1Gi", "volumes": disks}
    assert CHECKS["cde.capacity"].judge(host(said, profiles="C")).state is state
