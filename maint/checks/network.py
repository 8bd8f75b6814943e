"""Checks of the network: IPv6, interfaces, caching of names, ports that must be free."""

from collections.abc import Mapping

from maint.checks.check import BEFORE_INSTALL, FAIL, INFORM, WARN, Check, Verdict, broken, good, held, warned
from maint.checks.facts import CouldNotTell, HostFacts, NotApplicable, SiteFacts, usual_of
from maint.checks.thresholds import threshold

# Ports that the roles of a host listen on, by its profile.
ROLE_PORTS = {"B": (9000,), "M": (7180, 7182, 7183), "E": (53, 80, 443, 2379, 5000, 6443, 9345, 10250)}
QUESTIONS = {
    "ipv6": 'for n in all default; do echo "$n=$(cat /proc/sys/net/ipv6/conf/$n/disable_ipv6)"; done; ip -6 -o addr',
    "global_addresses": "ip -4 -o addr show scope global",
    "nscd_conf": "[ -f /etc/nscd.conf ] && grep enable-cache /etc/nscd.conf; true",
    "interfaces": "for d in /sys/class/net/*; do [ ${d##*/} = lo ] ||"
    ' echo "${d##*/} $(cat $d/mtu) $(cat $d/speed)"; done; true',
    "listening": "ss -H -lnt",
}


@Check(
    id="net.ipv6", profiles="BE", severity=FAIL, asks=("ipv6",), source="NET PS CC",
    expected="IPv6 disabled, no address of its own",
    why="Services that find an IPv6 address listen there, and their peers look elsewhere.",
    remedy="sysctl -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1",
).host_rule  # fmt: skip
def _ipv6(host: HostFacts) -> Verdict:
    seen = host.fields("ipv6")
    if "all" not in seen:  # it is empty where the kernel knows no IPv6 at all
        raise CouldNotTell("the kernel's switches for IPv6 were not shown")
    on = [name for name in ("all", "default") if seen.get(name) == "0"]
    addresses = [line for line in host.lines("ipv6") if "inet6" in line and " lo " not in line]
    if not on and not addresses:
        return good("disabled")
    shown = f"enabled for {', '.join(on) or 'some interfaces'}, addresses: {len(addresses)}"
    allowed = host.site.manager.release and threshold("ipv6.allowed", host.site.manager.release)
    return warned(shown) if allowed else broken(shown)


@Check(
    id="net.multihome", profiles="B", severity=WARN, asks=("global_addresses",), source="NET",
    expected="one address",
    why="Services bind to the first address they find, and that is not always the same.",
    remedy="keep one address, or bind the services to all",
).host_rule  # fmt: skip
def _multihome(host: HostFacts) -> Verdict:
    rows = [line.split() for line in host.lines("global_addresses")]
    found = [row[row.index("inet") + 1].partition("/")[0] for row in rows if "inet" in row and not _virtual(row)]
    if not found:
        raise CouldNotTell("`ip` shows no address but those of loopback and containers")
    return held(len(set(found)) <= 1, ", ".join(found))


def _virtual(row: list[str]) -> bool:
    return len(row) > 1 and row[1].startswith(("docker", "virbr", "cni", "flannel", "cali"))


@Check(
    id="net.nscd", profiles="B", severity=WARN, asks=("units", "nscd_conf", "os_release"), source="PS CC EXE",
    expected="nscd active; with sssd, its passwd, group and netgroup caches off (not on releases without nscd)",
    why="Thousands of processes ask for the same names again and again.",
    remedy="systemctl enable --now nscd",
).host_rule  # fmt: skip
def _nscd(host: HostFacts) -> Verdict:
    if not threshold("nscd.wanted", str(host.major)):
        raise NotApplicable("this release has no nscd")
    if not host.active("nscd"):
        return broken("inactive")
    rows = [line.split() for line in host.lines("nscd_conf") if not line.startswith("#")]
    cached = [row[1] for row in rows if len(row) > 2 and row[2] == "yes" and row[1] in ("passwd", "group", "netgroup")]
    if host.active("sssd") and cached:
        return broken(f"active, and caches {', '.join(cached)} beside sssd")
    return good("active")


def _alike(site: SiteFacts, column: int, least: int) -> Mapping[str, Verdict]:
    hosts = {h.name: [line.split() for line in h.lines("interfaces")] for h in site.answering("interfaces")}
    seen = {name: ",".join(sorted({r[column] for r in rows if len(r) > column and r[column].lstrip("-").isdigit()
            and not _virtual(["", r[0]])})) for name, rows in hosts.items()}  # fmt: skip
    usual = usual_of(value for value in seen.values() if value and not value.startswith("-"))
    found = {}
    for name, value in seen.items():
        slow = any(int(part) < least for part in value.split(",") if part.isdigit())
        found[name] = held(
            value in ("", usual, "-1") and not slow,
            value if value == usual else f"{value or 'unknown'}, others {usual}",
        )
    return found


@Check(
    id="net.mtu", profiles="BE", severity=INFORM, asks=("interfaces",), source="own",
    expected="the same on all hosts",
    why="Large packets that one host sends and another drops look like a network that hangs.",
    remedy="ip link set dev NAME mtu N",
).cross_rule  # fmt: skip
def _mtu(site: SiteFacts) -> Mapping[str, Verdict]:
    return _alike(site, 1, 0)


@Check(
    id="net.speed", profiles="BE", severity=INFORM, asks=("interfaces",), source="own",
    expected="the same on all hosts, 10 Gbit/s or more",
    why="The slowest link decides how long a job takes.",
    remedy="look at cable, port and driver",
).cross_rule  # fmt: skip
def _speed(site: SiteFacts) -> Mapping[str, Verdict]:
    return _alike(site, 2, 10000)


def listening(host: HostFacts) -> set[int]:
    """Return the TCP ports that something listens on; `CouldNotTell` where `ss` failed, as an old one does."""
    rows = sockets(host, "listening")
    return {int(row[3].rpartition(":")[2]) for row in rows if len(row) > 3 and row[3].rpartition(":")[2].isdigit()}


def sockets(host: HostFacts, question: str) -> list[list[str]]:
    """Return the words of `ss -H`, the fourth being the local address; `CouldNotTell` where it failed."""
    rows = [line.split() for line in host.lines(question)]
    if (status := host.answer(question).status) or any(len(row) < 4 or ":" not in row[3] for row in rows):
        raise CouldNotTell(f"{question}: `ss` does not say who listens (exit status {status})")
    return rows


@Check(
    id="net.ports.free", profiles="BEM", severity=FAIL, asks=("listening",), source="own",
    phases=(BEFORE_INSTALL,),
    expected="nobody listens on the ports of the host's roles",
    why="A role whose port is taken does not start.",
    remedy="ss -lntp shows who listens; stop it",
).host_rule  # fmt: skip
def _ports_free(host: HostFacts) -> Verdict:
    wanted = {port for letter in host.profiles for port in ROLE_PORTS.get(letter, ())}
    taken = sorted(wanted & listening(host))
    return held(not taken, f"{', '.join(map(str, taken))} taken" if taken else "free")
