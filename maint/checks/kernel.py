"""Checks of the kernel's settings: memory, huge pages, entropy, connections."""

import re

from maint.checks.check import FAIL, INFORM, WARN, Check, Verdict, broken, good, held, warned
from maint.checks.facts import CouldNotTell, HostFacts, NotApplicable
from maint.checks.thresholds import supported, threshold

_THP = "/sys/kernel/mm/transparent_hugepage"
QUESTIONS = {
    "uname": "uname -r; uname -m",
    "swappiness": "cat /proc/sys/vm/swappiness",
    "swappiness_files": "for f in /usr/lib/sysctl.d/*.conf /etc/sysctl.d/*.conf /etc/sysctl.conf; do"
    " [ -f $f ] && grep -h '^ *vm.swappiness' $f; done; true",
    "overcommit": "cat /proc/sys/vm/overcommit_memory",
    "thp": f"for d in {_THP} /sys/kernel/mm/redhat_transparent_hugepage; do for f in enabled defrag; do"
    ' [ -f $d/$f ] && echo "$f=$(cat $d/$f)"; done; done; true',
    "cmdline": "cat /proc/cmdline",
    "rc_local": "[ -x /etc/rc.d/rc.local ] && grep -v '^[[:space:]]*#' /etc/rc.d/rc.local |"
    " grep transparent_hugepage; true",
    "tuned": 'for n in $(cat /etc/tuned/active_profile 2>/dev/null); do echo "profile=$n";'
    " for d in /etc/tuned /usr/lib/tuned /usr/lib/tuned/profiles; do"
    " [ -f $d/$n/tuned.conf ] && grep -h -e '^ *vm.swappiness' -e transparent_hugepage $d/$n/tuned.conf;"
    " done; done; true",
    "somaxconn": "cat /proc/sys/net/core/somaxconn",
    "entropy": "cat /proc/sys/kernel/random/poolsize; cat /proc/sys/kernel/random/entropy_avail",
}


@Check(
    id="os.kernel", profiles="BE", severity=FAIL, asks=("uname",), source="HI",
    expected="x86_64, and no release that the support matrix calls bad",
    why="The parcels are built for x86_64 alone, and some kernels lose data or stand still under them.",
    remedy="use a host with a supported processor, or boot another kernel",
).host_rule  # fmt: skip
def _kernel(host: HostFacts) -> Verdict:
    release, machine = host.lines("uname")[:2]
    bad = supported(host.site.setting.matrix, "bad_kernels", release)
    return held(machine == "x86_64" and not bad, f"{release} {machine}{', a bad one' if bad else ''}")


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
    asks=("swappiness", "swappiness_files", "tuned"),
    expected="the running value is the one that the files set",
    why="What only runs is lost at the next boot.",
    remedy="echo 'vm.swappiness = 1' > /etc/sysctl.d/90-swappiness.conf",
).host_rule  # fmt: skip
def _swappiness_persists(host: HostFacts) -> Verdict:
    running = host.number("swappiness")
    lines = [*host.lines("tuned"), *host.lines("swappiness_files")]  # sysctl settings win over tuned's by default
    set_to = re.findall(r"^vm\.swappiness\s*=\s*(\d+)", "\n".join(lines), re.MULTILINE)
    if not set_to:
        return held(running == 60, f"runs with {running}, no file sets it")
    return held(int(set_to[-1]) == running, f"runs with {running}, the files say {set_to[-1]}")


@Check(
    id="os.overcommit", profiles="B", severity=WARN, asks=("overcommit",), source="PS CC EXE",
    expected="1",
    why="Large heaps are reserved long before they are used; a strict kernel refuses them.",
    remedy="sysctl -w vm.overcommit_memory=1",
).host_rule  # fmt: skip
def _overcommit(host: HostFacts) -> Verdict:
    value = host.number("overcommit")
    return held(value == 1, str(value))


def _chosen(text: str) -> str:
    return text.partition("[")[2].partition("]")[0]


@Check(
    id="os.thp", profiles="BEM", severity=FAIL, asks=("thp", "db_properties"), source="THP HI PS",
    expected="[never] in enabled and in defrag",
    why="Transparent huge pages make the kernel move memory about while services wait.",
    remedy="echo never > /sys/kernel/mm/transparent_hugepage/enabled; the same for defrag",
).host_rule  # fmt: skip
def _huge_pages(host: HostFacts) -> Verdict:
    found = {name: _chosen(text) for name, text in host.fields("thp").items()}
    if not found:
        raise CouldNotTell("no transparent_hugepage below /sys/kernel/mm: not mounted, or a kernel without it")
    shown = ", ".join(f"{name} {value}" for name, value in found.items())
    if set(found.values()) == {"never"}:
        return good(shown)
    oracle = "M" in host.profiles and "oracle" in host.answers["db_properties"].out
    return broken(shown + ("; with an Oracle database this leaks native memory (OPSAPS-77888)" if oracle else ""))


@Check(
    id="os.thp.persist", profiles="BE", severity=WARN, asks=("cmdline", "rc_local", "tuned", "units"), source="THP EXE",
    expected="transparent_hugepage=never on the kernel's command line, in rc.local or in the active tuned profile",
    why="What only runs is lost at the next boot.",
    remedy="grubby --update-kernel=ALL --args=transparent_hugepage=never",
).host_rule  # fmt: skip
def _huge_pages_persist(host: HostFacts) -> Verdict:
    if "transparent_hugepage=never" in host.text("cmdline"):
        return good("on the kernel's command line")
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
    remedy="systemctl disable --now tuned, or set transparent_hugepages=never in its profile",
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
    remedy="sysctl -w net.core.somaxconn=16000",
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
    remedy="systemctl enable --now rngd",
).host_rule  # fmt: skip
def _entropy(host: HostFacts) -> Verdict:
    return held(*_entropy_of(host))


@Check(
    id="os.rngd", profiles="B", severity=INFORM, asks=("entropy", "units"), source="CC EXE FX",
    expected="active where entropy is low",
    why="A virtual machine has few sources of entropy of its own.",
    remedy="systemctl enable --now rngd",
).host_rule  # fmt: skip
def _rngd(host: HostFacts) -> Verdict:
    if _entropy_of(host)[0]:
        raise NotApplicable("there is entropy enough")
    return held(host.active("rngd"), host.unit("rngd").get("ActiveState", "unknown"))
