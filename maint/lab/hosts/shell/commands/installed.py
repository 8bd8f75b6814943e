"""rpm, python3, NetworkManager, chronyc: what is installed on a host, and how it is set up."""

import fnmatch
import re

from maint.lab.hosts.shell.call import Call, NotSimulated
from maint.lab.hosts.shell.commands.packages import installed

_NM = "/etc/NetworkManager/conf.d"


def rpm(call: Call) -> int:
    """`rpm -q NAME…`, `rpm -qa [--qf '%{ARCH}\\n'] [PATTERN]`: the fact `packages`, NAME-VERSION-RELEASE.ARCH each."""
    options = call.options("qa", "", ("qf=", "queryformat="))
    packages = installed(call)
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
