"""Check the operating system: packages, users, services, limits, settings of the kernel."""

import re
from collections.abc import Mapping
from shlex import quote

from maint.checks.check import (
    FAIL,
    INFORM,
    WARN,
    Check,
    Verdict,
    broken,
    failed,
    good,
    held,
    setting_kernel,
    warned,
)
from maint.checks.facts import NOT_FOUND, CouldNotTell, HostFacts, NotApplicable, SiteFacts, main_process, usual_of
from maint.checks.thresholds import UNKNOWN, supported, threshold
from maint.model.fleet import State
from maint.model.formatting import show_count

UNITS = (
    "tuned", "firewalld", "fapolicyd", "bluetooth", "cups", "postfix", "ip6tables", "rngd", "nscd", "sssd", "chronyd",
    "ntpd", "NetworkManager", "iscsid", "nm-cloud-setup.service", "nm-cloud-setup.timer", "cloudera-scm-server",
    "cloudera-scm-agent", "cloudera-scm-supervisord",
)  # fmt: skip
_PROPERTIES = "Id,Names,LoadState,ActiveState,SubState,UnitFileState,NRestarts,MainPID"
ACCOUNTS = ("cloudera-scm", "hdfs", "hive", "yarn", "zookeeper")
_SYSCTL_FOLDERS = "/etc /run /usr/local/lib /usr/lib"
_SYSCTL_FILES = " ".join(f"{folder}/sysctl.d/*.conf" for folder in _SYSCTL_FOLDERS.split())
_THP = "/sys/kernel/mm/transparent_hugepage"
_SELINUX = "/etc/selinux/config"
_SWAPPINESS = re.compile(r"^-?vm[./]swappiness\s*=\s*(\d+)", re.MULTILINE)
QUESTIONS = {
    "os_release": "cat /etc/os-release",
    "units": f"systemctl show --no-pager -p {_PROPERTIES} {' '.join(UNITS)}",
    "selinux": f'echo "now=$(getenforce)"; f={_SELINUX}; [ -f $f ] && sed -n "s/^SELINUX=/file=/p" $f; true',
    # The agent calls itself cmf-agent up to release 5.
    "limits": f"a=$({main_process('cloudera-scm-agent')}); for p in self ${{a:-$(pidof -s cmf-agent)}}; do"
    " [ -r /proc/$p/limits ] && grep -e 'Max processes' -e 'Max open files' /proc/$p/limits; done; true",
    "umask": "umask",
    "packages_32bit": "command -v rpm > /dev/null || exit 127; rpm -qa --qf '%{ARCH}\\n' | grep -c 'i[3-6]86'; true",
    "reboot": "needs-restarting -r > /dev/null",
    "python": "for p in python3 python3.8 python3.9 python3.11 python2; do command -v $p > /dev/null &&"
    ' echo "$p=$($p --version 2>&1)"; done;'
    " if ls -d /run/cloudera-scm-agent/process/*-hue-* > /dev/null 2>&1; then found=no;"
    " for p in python3 python3.8 python3.9 python3.11; do $p -c 'import psycopg2' 2> /dev/null && found=yes; done;"
    " echo psycopg2=$found; fi; true",
    "accounts": f"getent passwd {' '.join(ACCOUNTS)}; getent group {' '.join(ACCOUNTS)} | sed 's/^/group /'; true",
    "machine": 'echo "cpus=$(nproc)"; echo "virt=$(systemd-detect-virt)"; grep MemTotal /proc/meminfo',
    "uname": "uname -r; uname -m",
    "swappiness": "cat /proc/sys/vm/swappiness",
    # sysctl.d(5): by the files' names, whatever their folder, the first folder that has one; no other file is read.
    "swappiness_files": f"for n in $(for f in {_SYSCTL_FILES}; do [ -e $f ] || [ -L $f ] && echo ${{f##*/}}; done |"
    f" sort -u); do for d in {_SYSCTL_FOLDERS}; do f=$d/sysctl.d/$n; [ -e $f ] || [ -L $f ] || continue;"
    " grep -h '^[[:space:]]*-*vm[./]swappiness' $f; break; done; done; true",
    "overcommit": "cat /proc/sys/vm/overcommit_memory",
    "thp": f"for d in {_THP} /sys/kernel/mm/redhat_transparent_hugepage; do for f in enabled defrag; do"
    ' [ -f $d/$f ] && echo "$f=$(cat $d/$f)"; done; done; true',
    # What the loader is told counts from the next boot on.
    "cmdline": "cat /proc/cmdline; command -v grubby > /dev/null && grubby --info=DEFAULT | sed -n 's/^args=/next /p';"
    " true",
    "rc_local": "[ -x /etc/rc.d/rc.local ] && grep -v '^[[:space:]]*#' /etc/rc.d/rc.local |"
    " grep transparent_hugepage; true",
    "tuned": 'for n in $(cat /etc/tuned/active_profile 2>/dev/null); do echo "profile=$n";'
    " for d in /etc/tuned /usr/lib/tuned /usr/lib/tuned/profiles; do"
    " [ -f $d/$n/tuned.conf ] || continue;"
    " grep -h -e '^ *vm.swappiness' -e transparent_hugepage $d/$n/tuned.conf; break; done; done; true",
    "somaxconn": "cat /proc/sys/net/core/somaxconn",
    "entropy": "cat /proc/sys/kernel/random/poolsize; cat /proc/sys/kernel/random/entropy_avail",
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
    if known:
        return good(value)
    return broken(f"{value}, which the support matrix does not list", "bring the host to a release that it lists")


def _release_of(host: HostFacts) -> str:
    seen = host.fields("os_release")
    return f"{seen.get('ID', '?')} {seen.get('VERSION_ID', '?')}"


@Check(
    id="os.selinux", profiles="BE", severity=WARN, asks=("selinux",), source="PS CC EXE FX",
    expected="Disabled or Permissive, the same now and at boot",
    why="The services' files carry no labels, so an enforcing SELinux stops them one by one.",
    remedy=f"setenforce 0; sed -i 's/^SELINUX=.*/SELINUX=permissive/' {_SELINUX}",
).host_rule  # fmt: skip
def _selinux(host: HostFacts) -> Verdict:
    seen = host.fields("selinux")
    now, later = seen.get("now", ""), seen.get("file", "")
    if not now and not later:
        raise NotApplicable("there is no SELinux here")
    if not now:
        raise CouldNotTell(f"getenforce does not say what is now; at boot: {later}", "dnf install -y libselinux-utils")
    shown = f"{now} now, {later or 'unset'} at boot"
    if now.lower() not in ("disabled", "permissive"):
        return broken(shown)
    agree = later.lower() in ("", now.lower())  # one that is off becomes permissive at no command, only at a boot
    return held(agree, shown, f"sed -i 's/^SELINUX=.*/SELINUX={now.lower()}/' {_SELINUX}")


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
    remedy="systemctl disable --now bluetooth cups postfix ip6tables",
).host_rule  # fmt: skip
def _unneeded(host: HostFacts) -> Verdict:
    running = [name for name in ("bluetooth", "cups", "postfix", "ip6tables") if host.active(name)]
    return held(not running, f"{', '.join(running)} active" if running else "none of them active")


def _at_least(host: HostFacts, name: str, least: int, unit: str) -> Verdict:
    # The agent's soft limit where an agent runs, else the session's.
    rows = [line for line in host.lines("limits") if line.startswith(name)]
    if not rows:
        raise CouldNotTell("no limits could be read")
    value = rows[-1].removeprefix(name).split()[0]
    kept = value == "unlimited" or int(value) >= least
    return held(kept, value, _AGENT_LIMIT.format(unit, unit.lower()) if len(rows) > 1 else "")


# No limits of sessions count for what systemd starts.
_AGENT_LIMIT = (
    "d=/etc/systemd/system/cloudera-scm-agent.service.d; mkdir -p $d;"
    " printf '[Service]\\nLimit{}=65536\\n' > $d/90-{}.conf; systemctl daemon-reload;"
    " systemctl restart cloudera-scm-agent"
)
_SESSION_LIMIT = (
    "printf '* - {0} 65536\\nroot - {0} {1}\\n' > /etc/security/limits.d/95-{0}.conf # from the next login on"
)


@Check(
    id="os.nproc", profiles="BE", severity=WARN, asks=("limits",), source="FX",
    expected="at least 65536 processes",
    why="The default of 4096 for each user is soon used up by threads.",
    remedy=_SESSION_LIMIT.format("nproc", "unlimited"),
).host_rule  # fmt: skip
def _nproc(host: HostFacts) -> Verdict:
    return _at_least(host, "Max processes", 65536, "NPROC")


@Check(
    id="os.nofile", profiles="BE", severity=WARN, asks=("limits",), source="HI own",
    expected="at least 32768 open files",
    why="Every connection and every block is an open file.",
    remedy=_SESSION_LIMIT.format("nofile", "65536"),
).host_rule  # fmt: skip
def _nofile(host: HostFacts) -> Verdict:
    return _at_least(host, "Max open files", 32768, "NOFILE")


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
    remedy="dnf install -y python3",
).host_rule  # fmt: skip
def _python(host: HostFacts) -> Verdict:
    found = dict(host.fields("python"))
    driver = found.pop("psycopg2", "")
    shown = ", ".join(dict.fromkeys(found.values())) or "none"
    if "python3" not in found:
        return broken(shown)
    if driver == "no":
        return broken(f"{shown}; Hue runs here, and no Python has psycopg2", "python3 -m pip install psycopg2-binary")
    known = [supported(host.site.setting.matrix, "python", v.removeprefix("Python ")) for v in found.values()]
    if None in known:
        return Verdict(State.SKIP, f"{shown}; {UNKNOWN}")
    return held(any(known), shown, "dnf install -y python3.11 # or 3.8 or 3.9: one that the support matrix lists")


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
        shown = ", ".join(wrong) or f"{show_count(len(accounts), 'user')} and groups"
        found[host] = held(not wrong, shown, _made_alike(accounts, known, usual))
    return found


def _made_alike(accounts: Mapping[str, str], known: set[str], usual: Mapping[str, str]) -> str:
    """Return what gives a host the users and groups that it lacks, and what then is to be done about other numbers."""
    commands = []
    for name in sorted(known - accounts.keys(), key=lambda one: not one.startswith("group ")):  # groups before users
        user, number = quote(name.removeprefix("group ")), quote(usual.get(name, ""))
        verb, option = ("groupadd", "-g") if name.startswith("group ") else (f"useradd -g {user}", "-u")
        commands.append(f"{verb} -r {f'{option} {number} ' if usual.get(name) else ''}{user}")
    other = sorted(name for name, number in accounts.items() if usual[name] != number)
    words = [_renumbered(name, accounts[name], usual[name]) for name in other]
    return " # ".join(part for part in ("; ".join(commands), "; ".join(words)) if part)


def _renumbered(name: str, number: str, usual: str) -> str:
    """Return how an account gets another number, and its files on all local volumes with it."""
    kind, own = ("g", ":") if name.startswith("group ") else ("u", "")
    change = {"g": "groupmod -g", "u": "usermod -u"}[kind]
    user, old, new = quote(name.removeprefix("group ")), quote(number), quote(usual)
    volumes = "$(sed -n 's/^.dev[^ ]* //p' /proc/mounts | sed 's/ .*//')"
    files = f"find {volumes} -xdev -{kind}id {old} -exec chown -h {own}{new} {{}} +"
    return f"once nothing of {user} runs: `{files}; {change} {new} {user}`"


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


_BOOT = "boot another kernel: `grubby --info=ALL` shows them, `grubby --set-default=/boot/vmlinuz-RELEASE` chooses one"


@Check(
    id="os.kernel", profiles="BE", severity=FAIL, asks=("uname",), source="HI",
    expected="x86_64, and no release that the support matrix calls bad",
    why="The parcels are built for x86_64 alone, and some kernels lose data or stand still under them.",
    remedy="use a host with an x86_64 processor",
).host_rule  # fmt: skip
def _kernel(host: HostFacts) -> Verdict:
    release, machine = host.lines("uname")[:2]
    bad = supported(host.site.setting.matrix, "bad_kernels", release)
    shown = f"{release} {machine}{', a bad one' if bad else ''}"
    return held(machine == "x86_64" and not bad, shown, _BOOT if bad else "")


@Check(
    id="os.swappiness", profiles="BE", severity=FAIL, asks=("swappiness",), source="HI PS CC EXE",
    expected="1; up to 10 is tolerated",
    why="A kernel that swaps stops Java processes for seconds, and their peers take them for dead.",
    remedy="sysctl -w vm.swappiness=1",
).host_rule  # fmt: skip
def _swappiness(host: HostFacts) -> Verdict:
    value = host.number("swappiness")
    if value == threshold("swappiness.best"):
        return good(str(value))
    return warned(str(value)) if value <= threshold("swappiness.most") else broken(str(value))


@Check(
    id="os.swappiness.persist", profiles="BE", severity=WARN, source="HI own",
    asks=("swappiness", "swappiness_files", "tuned", "units"),
    expected="the running value is the one that the files set",
    why="What only runs is lost at the next boot.",
    remedy=setting_kernel("vm.swappiness=1"),
).host_rule  # fmt: skip
def _swappiness_persists(host: HostFacts) -> Verdict:
    running = host.number("swappiness")
    files, of_tuned = (_SWAPPINESS.findall("\n".join(host.lines(one))) for one in ("swappiness_files", "tuned"))
    set_to = files or (of_tuned if of_tuned and host.active("tuned") else [])  # sysctl settings win by default
    if not set_to:
        return held(running == 60, f"runs with {running}, no file sets it")
    alone = f"sysctl -w vm.swappiness={best}" if int(set_to[-1]) == (best := threshold("swappiness.best")) else ""
    return held(int(set_to[-1]) == running, f"runs with {running}, the files say {set_to[-1]}", alone)


@Check(
    id="os.overcommit", profiles="B", severity=WARN, asks=("overcommit",), source="PS CC EXE",
    expected="1",
    why="Large heaps are reserved long before they are used; a strict kernel refuses them.",
    remedy=setting_kernel("vm.overcommit_memory=1"),
).host_rule  # fmt: skip
def _overcommit(host: HostFacts) -> Verdict:
    value = host.number("overcommit")
    return held(value == 1, str(value))


def _chosen(text: str) -> str:
    return text.partition("[")[2].partition("]")[0]


_NEVER = "for f in /sys/kernel/mm/*transparent_hugepage/enabled /sys/kernel/mm/*transparent_hugepage/defrag;"
_NEVER += " do echo never > $f; done"
_FROM_BOOT = "grubby --update-kernel=ALL --args=transparent_hugepage=never"


@Check(
    id="os.thp", profiles="BEM", severity=FAIL, asks=("thp", "db_properties"), source="THP HI PS",
    expected="[never] in enabled and in defrag",
    why="Transparent huge pages make the kernel move memory about while services wait.",
    remedy=_NEVER,
).host_rule  # fmt: skip
def _huge_pages(host: HostFacts) -> Verdict:
    found = {name: _chosen(text) for name, text in host.fields("thp").items()}
    if not found:
        raise CouldNotTell("no transparent_hugepage below /sys/kernel/mm: not mounted, or a kernel without it")
    shown = ", ".join(f"{name} {value}" for name, value in found.items())
    if set(found.values()) == {"never"}:
        return good(shown)
    oracle = "M" in host.profiles and "oracle" in host.answers["db_properties"].out
    shown += "; with an Oracle database this leaks native memory (OPSAPS-77888)" if oracle else ""
    lasting = "" if {"B", "E"} & set(host.profiles) else f"{_NEVER}; {_FROM_BOOT}"  # of others, os.thp.persist asks
    return broken(shown, lasting)


@Check(
    id="os.thp.persist", profiles="BE", severity=WARN, asks=("cmdline", "rc_local", "tuned", "units"), source="THP EXE",
    expected="transparent_hugepage=never on the kernel's command line, in rc.local or in the active tuned profile",
    why="What only runs is lost at the next boot.",
    remedy=_FROM_BOOT,
).host_rule  # fmt: skip
def _huge_pages_persist(host: HostFacts) -> Verdict:
    now, *later = host.text("cmdline").split("\nnext ")
    if "transparent_hugepage=never" in (later[-1] if later else now):
        return good("on the kernel's command line" + (" of the next boot" if later else ""))
    if any("never" in line for line in host.lines("rc_local")):
        return good("in rc.local")
    if any(re.match(r"transparent_hugepages?\s*=\s*never", line) for line in host.lines("tuned")):
        return (
            good("in the tuned profile")
            if host.active("tuned")
            else broken("in a tuned profile, but tuned is inactive")
        )
    return broken("nothing sets it at boot")


@Check(
    id="os.tuned", profiles="B", severity=WARN, asks=("units", "tuned"), source="PS CC",
    expected="inactive, or a profile that leaves huge pages off",
    why="Most profiles of tuned switch huge pages on again after the boot.",
    remedy="systemctl disable --now tuned # or set transparent_hugepages=never in its profile",
).host_rule  # fmt: skip
def _tuned(host: HostFacts) -> Verdict:
    if not host.active("tuned"):
        return good("inactive")
    lines = host.lines("tuned")
    profile = next((line.partition("=")[2] for line in lines if line.startswith("profile=")), "unknown")
    never = any(re.match(r"transparent_hugepages?\s*=\s*never", line) for line in lines)
    return held(never, f"active with profile {profile}")


@Check(
    id="os.somaxconn", profiles="B", severity=WARN, asks=("somaxconn",), source="BEF",
    expected="at least 16000",
    why="A short queue drops connections when many clients come at once.",
    remedy=setting_kernel("net.core.somaxconn=16000"),
).host_rule  # fmt: skip
def _somaxconn(host: HostFacts) -> Verdict:
    value = host.number("somaxconn")
    return held(value >= threshold("somaxconn.least"), str(value))


def _entropy_of(host: HostFacts) -> tuple[bool, str]:
    # Kernels since 5.18 always say 256 of 256.
    pool, available = (int(line) for line in host.lines("entropy")[:2])
    shown = f"{available} of {pool} bits"
    if pool == 256:
        return True, f"{shown} (this kernel's pool is always 256)"
    return available > threshold("entropy.least"), shown


@Check(
    id="os.entropy", profiles="B", severity=WARN, asks=("entropy",), source="ENT PS",
    expected="over 500 bits, or a pool of 256 (kernel 5.18 and later)",
    why="Key generation waits where there is no entropy.",
    remedy="dnf install -y rng-tools && systemctl enable --now rngd",
).host_rule  # fmt: skip
def _entropy(host: HostFacts) -> Verdict:
    return held(*_entropy_of(host))


@Check(
    id="os.rngd", profiles="B", severity=INFORM, asks=("entropy", "units"), source="CC EXE FX",
    expected="active where entropy is low",
    why="A virtual machine has few sources of entropy of its own.",
    remedy="dnf install -y rng-tools && systemctl enable --now rngd",
).host_rule  # fmt: skip
def _rngd(host: HostFacts) -> Verdict:
    if _entropy_of(host)[0]:
        raise NotApplicable("there is entropy enough")
    return held(host.active("rngd"), host.unit("rngd").get("ActiveState", "unknown"))
