"""What a lab host says about itself when nobody told it otherwise."""

FACTS: dict[str, str] = {
    "fqdn": "full host name (default: the machine's name, under example.internal when it has no dot)",
    "os_id": "ID of /etc/os-release",
    "os_version": "VERSION_ID of /etc/os-release",
    "kernel": "release of the kernel (uname -r)",
    "arch": "hardware name (uname -m)",
    "cpus": "number of processors",
    "memory_kb": "memory in KiB",
    "timezone": "name and offset of the time zone, such as UTC+0000",
    "selinux": "what getenforce prints",
    "gateway": "default gateway",
    "disk_kb": "size of a file system in KiB; of one alone: disk_kb:/TARGET",
    "disk_used_percent": "how full a file system is; one alone: disk_used_percent:/TARGET",
    "dns": "further names that resolve, as ADDRESS NAME…;ADDRESS NAME…",
    "inodes": "inodes of each file system",
    "inodes_used_percent": "how many of them are used",
    "nofile": "limit of open files (ulimit -n)",
    "nproc_limit": "limit of processes (ulimit -u)",
    "sudo_password": "what sudo -S asks others than root for; without it none is needed",
    "packages": "installed packages, NAME-VERSION-RELEASE.ARCH each",
    "lacks": "commands that are not installed, with blanks in between",
    "python": "version of Python",
    "iptables_backend": "legacy or nf_tables",
    "iptables_rules": "rules beyond the default policies, `;` between",
    "mounts_in_use": "mount points that programs hold, `;` between",
    "cut_off_from": "`kdc`: the realm's key distribution centre cannot be reached from it",
    "clock_offset": "seconds by which the host believes to be off",
    "clock_drift": "seconds by which the clock is off in truth",
    "clock_skew": "seconds by which the clock is off under the fault clock-skew",
}

_DEFAULTS: dict[str, str] = {
    "os_id": "rhel",
    "os_version": "9.4",
    "kernel": "5.14.0-427.13.1.el9_4.x86_64",
    "arch": "x86_64",
    "cpus": "16",
    "memory_kb": "65536000",
    "timezone": "UTC+0000",
    "selinux": "Disabled",
    "gateway": "127.0.0.1",
    "disk_kb": "209715200",
    "disk_used_percent": "20",
    "inodes": "104857600",
    "inodes_used_percent": "1",
    "nofile": "65536",
    "nproc_limit": "65536",
    "packages": "bash-5.1.8-9.el9.x86_64 openssl-3.0.7-27.el9.x86_64 cloudera-manager-agent-7.13.1-1.el9.x86_64"
    " cloudera-manager-daemons-7.13.1-1.el9.x86_64 nfs-utils-2.5.4-25.el9.x86_64"
    " iscsi-initiator-utils-6.2.1.9-1.el9.x86_64 e2fsprogs-1.46.5-5.el9.x86_64 iptables-1.8.10-2.el9.x86_64",
    "python": "3.9.18",
    "iptables_backend": "legacy",
    "clock_offset": "0.000012",
    "clock_skew": "420",
}


def default_fact(machine: str, address: str, name: str) -> str:
    """Return the default of a fact of a machine; an empty text for a fact that has none."""
    if name == "fqdn":
        return machine if "." in machine else f"{machine}.example.internal"
    if name == "address":
        return address
    return _DEFAULTS.get(name, "")
