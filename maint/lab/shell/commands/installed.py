"""rpm, python3, iptables, NetworkManager, chronyc: what is installed on a host, and how it is set up."""

import fnmatch
import re

from maint.lab.shell.call import Call, NotSimulated

_TABLES = {
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
    "mangle": ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"),
    "raw": ("PREROUTING", "OUTPUT"),
    "security": ("INPUT", "FORWARD", "OUTPUT"),
}
_NM = "/etc/NetworkManager/conf.d"


def rpm(call: Call) -> int:
    """`rpm -q NAME…`, `rpm -qa [--qf '%{ARCH}\\n'] [PATTERN]`: the fact `packages`, NAME-VERSION-RELEASE.ARCH each."""
    options = call.options("qa", "", ("qf=", "queryformat="))
    packages = call.machine.fact("packages").split()
    if "a" in options:
        pattern = options.operands[0] if options.operands else "*"
        shown = [name for name in packages if fnmatch.fnmatch(_name(name), pattern)]
        form = options.get("qf") or options.get("queryformat")
        call.out("".join(_formatted(name, form) if form else f"{name}\n" for name in shown))
        return 0
    status = 0
    for wanted in options.operands:
        found = [name for name in packages if _name(name) == wanted]
        call.out(f"{found[0]}\n" if found else f"package {wanted} is not installed\n")
        status += not found
    return status


def _name(package: str) -> str:
    return package.rsplit("-", 2)[0]


def _formatted(package: str, form: str) -> str:
    _, version, rest = package.rsplit("-", 2)
    known = {
        "NAME": _name(package),
        "VERSION": version,
        "ARCH": rest.rpartition(".")[2],
        "RELEASE": rest.rpartition(".")[0],
    }
    if unknown := [tag for tag in re.findall(r"%\{(\w+)\}", form) if tag not in known]:
        raise NotSimulated(f"tag {unknown[0]}")
    return re.sub(r"%\{(\w+)\}", lambda tag: known[tag[1]], form).replace("\\n", "\n")


def python3(call: Call) -> int:
    """`python3 --version`; nothing is run."""
    if call.args not in (["--version"], ["-V"]):
        raise NotSimulated("running Python")
    call.out(f"Python {call.machine.fact('python')}\n")
    return 0


def iptables(call: Call) -> int:
    """`iptables -V`, `iptables [-t TABLE] -S`; rules beyond the policies are the fact `iptables_rules`."""
    options = call.options("VS", "t")
    if "V" in options:
        call.out(f"iptables v1.8.10 ({call.machine.fact('iptables_backend')})\n")
        return 0
    if "S" not in options:
        raise NotSimulated("changing rules")
    table = options.get("t") or "filter"
    call.out("".join(f"-P {chain} ACCEPT\n" for chain in _TABLES.get(table, ())))
    if table == "filter":
        call.out(
            "".join(f"{rule.strip()}\n" for rule in call.machine.fact("iptables_rules").split(";") if rule.strip())
        )
    return 0


def network_manager(call: Call) -> int:
    """`NetworkManager --print-config`: what it has read, which is files in *.conf alone."""
    if call.args != ["--print-config"]:
        raise NotSimulated(" ".join(call.args))
    if call.files.exists(_NM):
        for name in sorted(call.files.names(_NM)):
            if name.endswith(".conf"):
                call.stdout.write(call.files.read(f"{_NM}/{name}"))
    return 0


def chronyc(call: Call) -> int:
    """`chronyc [-n] tracking`; the fact `clock_offset` is how far it believes to be off, in seconds."""
    options = call.options("n")
    if options.operands != ["tracking"]:
        raise NotSimulated(" ".join(options.operands))
    unit = call.machine.units.get("chronyd")
    if unit is None or not unit.active():
        call.stderr.write(b"506 Cannot talk to daemon\n")
        return 1
    offset = float(call.machine.fact("clock_offset"))
    call.out("Reference ID    : C0000235 (192.0.2.53)\nStratum         : 3\n")
    call.out(f"System time     : {abs(offset):.9f} seconds {'slow' if offset < 0 else 'fast'} of NTP time\n")
    call.out(f"Last offset     : {offset:+.9f} seconds\nLeap status     : Normal\n")
    return 0
