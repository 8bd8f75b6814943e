"""The operating system: release, security services, what must not run, limits, packages."""

from collections.abc import Mapping

from maint.checks.check import FAIL, INFORM, WARN, Check, Verdict, broken, failed, good, held
from maint.checks.facts import NOT_FOUND, CouldNotTell, HostFacts, NotApplicable, SiteFacts, usual_of
from maint.checks.thresholds import UNKNOWN, supported
from maint.model.fleet import State
from maint.model.formatting import show_count

UNITS = (
    "tuned", "firewalld", "fapolicyd", "bluetooth", "cups", "postfix", "ip6tables", "rngd", "nscd", "sssd", "chronyd",
    "ntpd", "NetworkManager", "iscsid", "nm-cloud-setup.service", "nm-cloud-setup.timer", "cloudera-scm-server",
    "cloudera-scm-agent", "cloudera-scm-supervisord",
)  # fmt: skip
_PROPERTIES = "Id,Names,LoadState,ActiveState,SubState,UnitFileState,NRestarts,MainPID"
ACCOUNTS = ("cloudera-scm", "hdfs", "hive", "yarn", "zookeeper")
QUESTIONS = {
    "os_release": "cat /etc/os-release",
    "units": f"systemctl show --no-pager -p {_PROPERTIES} {' '.join(UNITS)}",
    "selinux": 'echo "now=$(getenforce)"; f=/etc/selinux/config; [ -f $f ] && sed -n "s/^SELINUX=/file=/p" $f; true',
    "limits": "for p in self $(pidof -s cmf-agent); do"
    " [ -r /proc/$p/limits ] && grep -e 'Max processes' -e 'Max open files' /proc/$p/limits; done; true",
    "umask": "umask",
    "packages_32bit": "command -v rpm > /dev/null || exit 127; rpm -qa --qf '%{ARCH}\\n' | grep -c 'i[3-6]86'; true",
    "reboot": "needs-restarting -r > /dev/null",
    "python": 'for p in python3 python2; do command -v $p > /dev/null && echo "$p=$($p --version 2>&1)"; done;'
    " if ls -d /run/cloudera-scm-agent/process/*-hue-* > /dev/null 2>&1; then found=no;"
    " for p in python3 python3.8 python3.9 python3.11; do $p -c 'import psycopg2' 2> /dev/null && found=yes; done;"
    " echo psycopg2=$found; fi; true",
    "accounts": f"getent passwd {' '.join(ACCOUNTS)}; getent group {' '.join(ACCOUNTS)} | sed 's/^/group /'; true",
    "machine": 'echo "cpus=$(nproc)"; echo "virt=$(systemd-detect-virt)"; grep MemTotal /proc/meminfo',
}


@Check(
    id="os.release", profiles="BEM", severity=FAIL, asks=("os_release",), source="EXE",
    expected="a release that the support matrix lists, the same on all hosts of a cluster",
    why="Agents, drivers and packages are built for one release; a mixed cluster fails in ways nobody can repeat.",
    remedy="bring the odd hosts to the release of the others; whether it is supported, only the support matrix says",
).cross_rule  # fmt: skip
def _release(site: SiteFacts) -> Mapping[str, Verdict]:
    found: dict[str, Verdict] = {}
    for letter in ("M", "B", "E"):  # a manager's host among those of a cluster is judged with them
        seen = {h.name: _release_of(h) for h in site.answering("os_release") if letter in h.profiles}
        usual = usual_of(seen.values())
        for name, value in seen.items():
            odd = letter != "M" and value != usual
            found[name] = broken(f"{value}, the others have {usual}") if odd else _listed(site, value)
    return found or {h.name: _listed(site, _release_of(h)) for h in site.answering("os_release")}


def _listed(site: SiteFacts, value: str) -> Verdict:
    known = supported(site.setting.matrix, "os", value)
    if known is None:
        return Verdict(State.SKIP, f"{value}; {UNKNOWN}")
    return held(known, value if known else f"{value}, which the support matrix does not list")


def _release_of(host: HostFacts) -> str:
    seen = host.fields("os_release")
    return f"{seen.get('ID', '?')} {seen.get('VERSION_ID', '?')}"


@Check(
    id="os.selinux", profiles="BE", severity=WARN, asks=("selinux",), source="PS CC EXE FX",
    expected="Disabled or Permissive, now and at boot",
    why="The services' files carry no labels, so an enforcing SELinux stops them one by one.",
    remedy="setenforce 0; sed -i 's/^SELINUX=.*/SELINUX=permissive/' /etc/selinux/config",
).host_rule  # fmt: skip
def _selinux(host: HostFacts) -> Verdict:
    seen = host.fields("selinux")
    now, later = seen.get("now", ""), seen.get("file", "")
    if not now and not later:
        raise NotApplicable("there is no SELinux here")
    shown = f"{now or 'unknown'} now, {later or 'unset'} at boot"
    return held(now.lower() in ("disabled", "permissive") and later.lower() in ("", "disabled", "permissive"), shown)


@Check(
    id="os.firewalld", profiles="BE", severity=WARN, asks=("units",), source="CC PS EXE",
    expected="inactive and disabled",
    why="Its rules fight those of Kubernetes, and close ports that services open by themselves.",
    remedy="systemctl disable --now firewalld",
).host_rule  # fmt: skip
def _firewalld(host: HostFacts) -> Verdict:
    active, enabled = host.active("firewalld"), host.enabled("firewalld")
    shown = f"{'active' if active else 'inactive'}, {'enabled' if enabled else 'disabled'}"
    if not (active or enabled):
        return good(shown)
    return failed(shown) if "E" in host.profiles else broken(shown)


@Check(
    id="os.fapolicyd", profiles="BE", severity=FAIL, asks=("units",), source="BEF",
    expected="inactive",
    why="It forbids programs that no package has installed, which is what parcels are.",
    remedy="systemctl disable --now fapolicyd",
).host_rule  # fmt: skip
def _fapolicyd(host: HostFacts) -> Verdict:
    return held(not host.active("fapolicyd"), host.unit("fapolicyd").get("ActiveState", "unknown"))


@Check(
    id="os.unneeded", profiles="B", severity=INFORM, asks=("units",), source="PS CC EXE",
    expected="bluetooth, cups, postfix and ip6tables inactive",
    why="What does not run needs no care.",
    remedy="systemctl disable --now NAME",
).host_rule  # fmt: skip
def _unneeded(host: HostFacts) -> Verdict:
    running = [name for name in ("bluetooth", "cups", "postfix", "ip6tables") if host.active(name)]
    return held(not running, f"{', '.join(running)} active" if running else "none of them active")


def _at_least(host: HostFacts, name: str, least: int) -> Verdict:
    # The agent's soft limit where an agent runs, else the session's.
    rows = [line for line in host.lines("limits") if line.startswith(name)]
    if not rows:
        raise CouldNotTell("no limits could be read")
    value = rows[-1].removeprefix(name).split()[0]
    return held(value == "unlimited" or int(value) >= least, value)


@Check(
    id="os.nproc", profiles="BE", severity=WARN, asks=("limits",), source="FX",
    expected="at least 65536 processes",
    why="The default of 4096 for each user is soon used up by threads.",
    remedy="raise nproc in /etc/security/limits.d/20-nproc.conf to 65536",
).host_rule  # fmt: skip
def _nproc(host: HostFacts) -> Verdict:
    return _at_least(host, "Max processes", 65536)


@Check(
    id="os.nofile", profiles="BE", severity=WARN, asks=("limits",), source="HI own",
    expected="at least 32768 open files",
    why="Every connection and every block is an open file.",
    remedy="raise nofile in /etc/security/limits.d to 65536",
).host_rule  # fmt: skip
def _nofile(host: HostFacts) -> Verdict:
    return _at_least(host, "Max open files", 32768)


@Check(
    id="os.umask", profiles="B", severity=INFORM, asks=("umask",), source="NET own",
    expected="0022 or 0002",
    why="A stricter mask makes installed files unreadable for the services.",
    remedy="umask 0022 in /etc/profile",
).host_rule  # fmt: skip
def _umask(host: HostFacts) -> Verdict:
    value = host.text("umask")
    return held(int(value, 8) in (0o022, 0o002), value)


@Check(
    id="os.32bit", profiles="B", severity=INFORM, asks=("packages_32bit",), source="PS",
    expected="no 32-bit packages",
    why="A 32-bit library in the path is loaded by mistake.",
    remedy="dnf remove '*.i686'",
).host_rule  # fmt: skip
def _packages(host: HostFacts) -> Verdict:
    count = host.number("packages_32bit")
    return held(count == 0, f"{show_count(count, 'package')}")


@Check(
    id="os.uptime_reboot", profiles="BE", severity=INFORM, asks=("reboot",), source="own",
    expected="no reboot is due",
    why="A host that runs another kernel than it will boot surprises its operator.",
    remedy="reboot in the next maintenance window",
).host_rule  # fmt: skip
def _reboot(host: HostFacts) -> Verdict:
    if "reboot" in host.answers and host.answers["reboot"].status == NOT_FOUND:
        raise NotApplicable("needs-restarting is not installed")
    answer = host.answer("reboot")
    if answer.status not in (0, 1):
        raise CouldNotTell(f"needs-restarting: {answer.words or 'it failed'} (exit status {answer.status})")
    return held(answer.status == 0, "no reboot is due" if answer.status == 0 else "a reboot is due")


@Check(
    id="os.python", profiles="BM", severity=WARN, asks=("python",), source="EXE",
    expected="a Python 3, of a version that the support matrix lists; where Hue runs, one that has psycopg2",
    why="Agents and Hue run on the host's Python.",
    remedy="dnf install python3",
).host_rule  # fmt: skip
def _python(host: HostFacts) -> Verdict:
    found = dict(host.fields("python"))
    driver = found.pop("psycopg2", "")
    shown = ", ".join(found.values()) or "none"
    if "python3" not in found:
        return broken(shown)
    if driver == "no":
        return broken(f"{shown}; Hue runs here, and no Python has psycopg2", "pip3 install psycopg2-binary")
    known = [supported(host.site.setting.matrix, "python", v.removeprefix("Python ")) for v in found.values()]
    if None in known:
        return Verdict(State.SKIP, f"{shown}; {UNKNOWN}")
    return held(any(known), shown)


@Check(
    id="os.users", profiles="B", severity=WARN, asks=("accounts",), source="HI",
    expected="cloudera-scm and the services' users and groups, with the same numbers on all hosts",
    why="Files on shared volumes belong to numbers, not to names.",
    remedy="create the missing users with the numbers of the other hosts",
).cross_rule  # fmt: skip
def _users(site: SiteFacts) -> Mapping[str, Verdict]:
    hosts = {h.name: _accounts(h) for h in site.answering("accounts") if "B" in h.profiles}
    known = {*ACCOUNTS, *(f"group {name}" for name in ACCOUNTS)}.union(*hosts.values())
    usual = {name: usual_of(a[name] for a in hosts.values() if name in a) for name in known}
    found = {}
    for host, accounts in hosts.items():
        wrong = [f"{name} missing" for name in sorted(known - accounts.keys())]
        wrong += [f"{n} is {u}, elsewhere {usual[n]}" for n, u in sorted(accounts.items()) if usual[n] != u]
        found[host] = held(not wrong, ", ".join(wrong) or f"{show_count(len(accounts), 'user')} and groups")
    return found


def _accounts(host: HostFacts) -> dict[str, str]:
    rows = [line.split(":") for line in host.lines("accounts")]
    return {row[0]: row[2] for row in rows if len(row) > 2}


@Check(
    id="cpu.virt", profiles="BE", severity=INFORM, asks=("machine",), source="PS",
    expected="processors and memory for the host's roles",
    why="What a host is decides what it can carry.",
    remedy="compare with the sizing of the host's roles",
).host_rule  # fmt: skip
def _machine(host: HostFacts) -> Verdict:
    seen = host.fields("machine")
    memory = next((int(line.split()[1]) for line in host.lines("machine") if line.startswith("MemTotal")), 0)
    cpus = show_count(seen.get("cpus", "?"), "processor")
    return good(f"{cpus}, {memory >> 20} GiB, {seen.get('virt') or 'not known whether virtual'}")
