"""Check names, addresses, interfaces and ports."""

import re
from collections import Counter
from collections.abc import Mapping
from shlex import quote

from maint.checks.check import (
    BEFORE_INSTALL,
    FAIL,
    INFORM,
    WARN,
    Check,
    Verdict,
    broken,
    good,
    held,
    setting_kernel,
    warned,
)
from maint.checks.facts import CouldNotTell, HostFacts, NotApplicable, SiteFacts, usual_of
from maint.checks.thresholds import threshold
from maint.model.formatting import show_count, show_some

_DIRECTORY_MOST = 15  # characters of a computer account's name
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
QUESTIONS = {
    "names": 'echo "full=$(hostname -f)"; echo "short=$(hostname -s)"; echo "plain=$(hostname)";'
    ' echo "file=$(cat /etc/hostname)"',
    "hosts_file": "cat /etc/hosts",
    "localhost": "getent ahostsv4 localhost",
    "own_addresses": "ip -4 -o addr show",
    "forward": 'n=$(hostname -f); echo "name=$n"; getent ahostsv4 "$n" | sed -n "s/^\\([^ ]*\\)  *STREAM.*/nss \\1/p";'
    ' command -v dig > /dev/null && dig +short +time=2 +tries=1 A "$n" | sed "s/^/dns /"; true',
    "reverse": 'for a in $(getent ahostsv4 "$(hostname -f)" | sed "s/ .*//" | sort -u); do'
    ' echo "$a $(getent hosts $a | sed "s/^[^ ]* *//")"; done; true',
    "peers": '[ -n "$maint_peers" ] || exit 0; b=$(date +%s%N); for n in $maint_peers; do echo "asked $n"; done;'
    " getent ahostsv4 $maint_peers; e=$(date +%s%N);"
    ' case $b$e in *N*) ;; *) echo "took $(((e - b) / 1000000))";; esac; true',
    "ipv6": 'for n in all default; do echo "$n=$(cat /proc/sys/net/ipv6/conf/$n/disable_ipv6)"; done; ip -6 -o addr',
    "global_addresses": "ip -4 -o addr show scope global",
    "nscd_conf": "[ -f /etc/nscd.conf ] && grep enable-cache /etc/nscd.conf; true",
    "interfaces": "for d in /sys/class/net/*; do [ ${d##*/} = lo ] ||"
    ' echo "${d##*/} $(cat $d/mtu) $(cat $d/speed)"; done; true',
    "listening": "ss -H -lnt",
}


_NAMED = "let `hostnamectl set-hostname NAME` and the first name at its address, in /etc/hosts or DNS, be one full name"


@Check(
    id="net.hostname", profiles="", severity=FAIL, asks=("names", "krb5_conf"), source="NET PS",
    expected="a full name of lower-case labels, the same from `hostname` and `hostname -f`",
    why="Certificates, principals and the manager all know a host by its full name.",
    remedy=_NAMED,
).host_rule  # fmt: skip
def _hostname(host: HostFacts) -> Verdict:
    seen = host.fields("names")
    full, plain = seen.get("full", ""), seen.get("plain", "")
    wrong = []
    if "." not in full:
        wrong.append("no domain")
    if full != full.lower():
        wrong.append("upper case")
    if len(full) > 253 or not all(_LABEL.fullmatch(label) for label in full.lower().split(".")):
        wrong.append("not a valid name")
    remedy = _NAMED if wrong else f"hostnamectl set-hostname {quote(full)}"
    if plain != full:
        wrong.append(f"`hostname` says {plain or 'nothing'}")
    short = full.partition(".")[0]
    if not wrong and len(short) > _DIRECTORY_MOST and _has_realm(host):
        shown = f"{full}: {len(short)} characters before the first dot, of which Active Directory takes 15"
        return warned(shown, "give the host a shorter name; where the KDC is none of Active Directory's, accept it")
    return held(not wrong, ": ".join([full or "no name", *([", ".join(wrong)] if wrong else [])]), remedy)


def _has_realm(host: HostFacts) -> bool:
    try:
        return bool(host.realm)
    except (CouldNotTell, NotApplicable):
        return False


def _entries(host: HostFacts) -> list[tuple[str, list[str]]]:
    lines = (line.partition("#")[0].split() for line in host.lines("hosts_file"))
    return [(words[0], words[1:]) for words in lines if len(words) > 1]


@Check(
    id="net.hosts", profiles="", severity=FAIL, asks=("hosts_file", "names"), source="NET PS",
    expected="127.0.0.1 is localhost first; full names before short ones, lower case, each address once, no wildcards",
    why="The file is asked before DNS, and it knows neither wildcards nor second thoughts.",
    remedy="mend /etc/hosts",
).host_rule  # fmt: skip
def _hosts_file(host: HostFacts) -> Verdict:
    entries = _entries(host)
    full = host.fields("names").get("full", "")
    wrong: dict[str, str] = {}
    if not any(address == "127.0.0.1" and names[0] == "localhost" for address, names in entries):
        wrong["127.0.0.1 is not localhost first"] = "begin its line with `127.0.0.1 localhost`"
    for address, names in entries:
        if any(name.startswith("*") for name in names):
            wrong[f"a wildcard for {address} does nothing"] = "take it out, and give DNS a wildcard record"
        if any(name != name.lower() for name in names):
            wrong[f"upper case at {address}"] = f"write the names of {address} in lower case"
        dotted = ["." in name for name in names]
        if True in dotted and dotted[0] is False and not address.startswith(("127.", "::")):
            wrong[f"{address}: the short name stands before the full one"] = f"turn the names of {address} round"
        if address.startswith("127.") and full and full in names:
            wrong[f"{full} on {address}"] = f"move {full} to a line with an address of the host's interfaces"
    for address, count in Counter(address for address, _ in entries).items():
        if count > 1:
            wrong[f"{address} stands {count} times"] = f"join the lines of {address} into one"
    remedy = f"in /etc/hosts: {'; '.join(wrong.values())}"
    return held(not wrong, "; ".join(wrong) or f"entries: {len(entries)}", remedy)


@Check(
    id="net.localhost", profiles="", severity=FAIL, asks=("localhost",), source="HI PS",
    expected="127.0.0.1",
    why="Agents and supervisors talk to themselves over localhost.",
    remedy="let localhost stand in /etc/hosts in the line of 127.0.0.1, and at no other IPv4 address",
).host_rule  # fmt: skip
def _localhost(host: HostFacts) -> Verdict:
    found = sorted({line.split()[0] for line in host.lines("localhost")})
    return held(found == ["127.0.0.1"], ", ".join(found) or "does not resolve")


def own_addresses(host: HostFacts) -> set[str]:
    """Return the addresses that the host's interfaces show."""
    return set(re.findall(r"inet (\d+\.\d+\.\d+\.\d+)", host.text("own_addresses")))


@Check(
    id="net.dns.fwd", profiles="", severity=FAIL, asks=("forward", "own_addresses"), source="NET PS HI",
    expected="one IPv4 address, on an interface of this host, the same from the system and from DNS",
    why="Services register the address that the host's own name resolves to; others connect there.",
    remedy="let the host's name lead to its address alone: its A record, and its line in /etc/hosts where it has one",
).host_rule  # fmt: skip
def _forward(host: HostFacts) -> Verdict:
    lines = host.lines("forward")
    name = next((line.partition("=")[2] for line in lines if line.startswith("name=")), "")
    system = sorted({line.split()[1] for line in lines if line.startswith("nss ") and len(line.split()) > 1})
    dns = sorted({w for w in (line.partition(" ")[2] for line in lines if line.startswith("dns ")) if w[:1].isdigit()})
    own = own_addresses(host)
    lead = " or ".join(sorted(own - {"127.0.0.1"})) or "the host's address"
    remedy = f"let {name} lead to {lead} alone: its A record in DNS, and its line in /etc/hosts where it has one"
    if not system:
        return broken(f"{name} does not resolve", remedy)
    wrong = []
    if len(system) > 1:
        wrong.append("more than one address")
    wrong += [f"{a} is on no interface ({', '.join(sorted(own - {'127.0.0.1'}))} are)" for a in system if a not in own]
    wrong += ["a loopback address"] if any(a.startswith("127.") for a in system) else []
    wrong += [f"DNS says {', '.join(dns)}"] if dns and dns != system else []
    return held(not wrong, f"{name} is {', '.join(system)}" + (f": {'; '.join(wrong)}" if wrong else ""), remedy)


@Check(
    id="net.dns.rev", profiles="", severity=FAIL, asks=("reverse", "names"), source="NET PS",
    expected="the address leads back to the full name",
    why="Kerberos and TLS compare the name that an address leads to.",
    remedy="mend the PTR record, or the line in /etc/hosts",
).host_rule  # fmt: skip
def _reverse(host: HostFacts) -> Verdict:
    full = host.fields("names").get("full", "")
    rows = [line.split() for line in host.lines("reverse")]
    if not rows:
        return broken(f"{full or 'the own name'} has no address to look up", "give it one: net.dns.fwd says which")
    odd = [row for row in rows if len(row) < 2 or row[1] != full]
    shown = "; ".join(f"{row[0]} is {row[1] if len(row) > 1 else 'nobody'}" for row in odd)
    places = ", ".join(row[0] for row in odd)
    remedy = f"let the PTR record of {places} name {full}, or let {full} stand first in its line of /etc/hosts"
    return held(not odd, shown or f"{', '.join(row[0] for row in rows)} is {full}", remedy)


_SLOW = "take name servers that answer late out of /etc/resolv.conf (`dig NAME @SERVER` shows the time), or start nscd"


@Check(
    id="net.dns.peers", profiles="", severity=FAIL, asks=("peers", "own_addresses"), source="HI",
    expected="all hosts agree on the addresses of all, and learn them in a second",
    why="Two hosts that see a third in different places do not form one cluster.",
    remedy="let each of these names lead to an address of its host here as elsewhere: in DNS and in /etc/hosts",
).cross_rule  # fmt: skip
def _peers(site: SiteFacts) -> Mapping[str, Verdict]:
    hosts = {h.name: _resolved(h) for h in site.answering("peers") if h.answers["peers"].out.strip()}
    asked = {name for seen, _ in hosts.values() for name in seen}
    usual = {name: usual_of(seen[name] for seen, _ in hosts.values() if seen.get(name)) for name in asked}
    owned = {h.name: own_addresses(h) for h in site.answering("own_addresses") if h.answers["own_addresses"].out}
    found = {}
    for host, (seen, took) in hosts.items():
        wrong = [f"{n} is not found here" for n, a in sorted(seen.items()) if not a]
        wrong += [
            f"{n} is {a} here, {usual[n] or 'unknown'} elsewhere"
            for n, a in sorted(seen.items())
            if a and a != usual[n]
        ]
        wrong += [f"{n} is {a}, which is on none of its interfaces" for n, a in sorted(seen.items())
                  if a and a == usual[n] and n in owned and a not in owned[n]]  # fmt: skip
        found[host] = _spoken(wrong, seen, took)
    return found


def _spoken(wrong: list[str], seen: Mapping[str, str], took: int | None) -> Verdict:
    if wrong:
        return broken(show_some(wrong, 5, "; "))
    if took is not None and took >= 1000 * max(1, len(seen)):
        return broken(f"{show_count(len(seen), 'name')} took {took / 1000:.1f} s", _SLOW)
    if took is not None and took >= 1000:
        return warned(f"{show_count(len(seen), 'name')} took {took / 1000:.1f} s together", _SLOW)
    return good(f"{show_count(len(seen), 'name')}")


def _resolved(host: HostFacts) -> tuple[dict[str, str], int | None]:
    # The first address by name, "" where there is none, and the milliseconds it took.
    lines = [line.split() for line in host.lines("peers")]
    asked = [words[1] for words in lines if words[0] == "asked" and len(words) == 2]
    took = next((int(words[1]) for words in lines if words[0] == "took"), None)
    found: dict[str, str] = dict.fromkeys(asked, "")
    for words in lines:
        if len(words) > 2 and words[1] == "STREAM" and words[2] in found and not found[words[2]]:
            found[words[2]] = words[0]
    streams = [words[0] for words in lines if len(words) > 1 and words[1] == "STREAM"]
    if asked and streams and not any(found.values()):
        raise CouldNotTell("getent names its answers otherwise here")
    if not asked:
        raise CouldNotTell("what the other hosts' names lead to was not asked")
    return found, took


# Ports that the roles of a host listen on, by its profile.
ROLE_PORTS = {"B": (9000,), "M": (7180, 7182, 7183), "E": (53, 80, 443, 2379, 5000, 6443, 9345, 10250)}


@Check(
    id="net.ipv6", profiles="BE", severity=FAIL, asks=("ipv6",), source="NET PS CC",
    expected="IPv6 disabled, no address of its own",
    why="Services that find an IPv6 address listen there, and their peers look elsewhere.",
    remedy=setting_kernel("net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"),
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
    remedy="keep one address; or bind the services to all, and accept it in the config",
).host_rule  # fmt: skip
def _multihome(host: HostFacts) -> Verdict:
    rows = [line.split() for line in host.lines("global_addresses")]
    found = [row[row.index("inet") + 1].partition("/")[0] for row in rows if "inet" in row and not _virtual(row)]
    if not found:
        raise CouldNotTell("`ip` shows no address but those of loopback and containers")
    return held(len(set(found)) <= 1, ", ".join(found))


def _virtual(row: list[str]) -> bool:
    return len(row) > 1 and row[1].startswith(("docker", "virbr", "cni", "flannel", "cali"))


_CACHES_LESS = (
    "sed -i -E 's/^(\\s*enable-cache\\s+(passwd|group|netgroup)\\s+)yes/\\1no/' /etc/nscd.conf; systemctl restart nscd"
)


@Check(
    id="net.nscd", profiles="B", severity=WARN, asks=("units", "nscd_conf", "os_release"), source="PS CC EXE",
    expected="nscd active; with sssd, its passwd, group and netgroup caches off (not on releases without nscd)",
    why="Thousands of processes ask for the same names again and again.",
    remedy="dnf install -y nscd && systemctl enable --now nscd",
).host_rule  # fmt: skip
def _nscd(host: HostFacts) -> Verdict:
    if not threshold("nscd.wanted", str(host.major)):
        raise NotApplicable("this release has no nscd")
    if not host.active("nscd"):
        return broken("inactive")
    rows = [line.split() for line in host.lines("nscd_conf") if not line.startswith("#")]
    cached = [row[1] for row in rows if len(row) > 2 and row[2] == "yes" and row[1] in ("passwd", "group", "netgroup")]
    if host.active("sssd") and cached:
        return broken(f"active, and caches {', '.join(cached)} beside sssd", _CACHES_LESS)
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
    remedy="stop and disable what listens there: `ss -lntp` shows which program it is",
).host_rule  # fmt: skip
def _ports_free(host: HostFacts) -> Verdict:
    wanted = {port for letter in host.profiles for port in ROLE_PORTS.get(letter, ())}
    taken = sorted(wanted & listening(host))
    return held(not taken, f"{', '.join(map(str, taken))} taken" if taken else "free")
