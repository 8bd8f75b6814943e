"""uname, hostname, nproc, free, sysctl, getenforce, ip, date, sleep, uptime: what a host knows about itself."""

import re
import time

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated
from maint.lab.hosts.shell.commands.wrappers import duration

_ZONE = re.compile(r"(\w+)([-+])(\d\d)(\d\d)")


def uname(call: Call) -> int:
    """`uname [-asrnmpio]`."""
    options = call.options("asrnmpiov")
    machine = call.machine
    known = {"s": "Linux", "n": machine.fact("fqdn"), "r": machine.fact("kernel"), "v": "#1 SMP PREEMPT_DYNAMIC"}
    known |= dict.fromkeys("mpi", machine.fact("arch")) | {"o": "GNU/Linux"}
    wanted = "snrvmo" if "a" in options else "".join(k for k in known if k in options) or "s"
    call.out(" ".join(known[letter] for letter in wanted) + "\n")
    return 0


def hostname(call: Call) -> int:
    """`hostname [-f|-s|-d|-i|-I]`."""
    options = call.options("fsdiI", "", ("fqdn", "short"))
    if options.operands:
        raise NotSimulated("setting the name")
    full = call.machine.fact("fqdn")
    short, _, domain = full.partition(".")
    text = short if "s" in options or "short" in options else domain if "d" in options else full
    call.out((call.machine.address if "i" in options or "I" in options else text) + "\n")
    return 0


def nproc(call: Call) -> int:
    """`nproc`."""
    call.options("", "", ("all",))
    call.out(call.machine.fact("cpus") + "\n")
    return 0


def free(call: Call) -> int:
    """`free [-k|-m|-g|-b]`."""
    options = call.options("kmgb")
    unit = 1 << 20 if "g" in options else 1024 if "m" in options else 1
    total = int(call.machine.fact("memory_kb")) * (1024 if "b" in options else 1) // unit
    call.out("               total        used        free      shared  buff/cache   available\n")
    call.out(f"Mem:     {total:11} {total // 4:11} {total // 2:11} {0:11} {total // 4:11} {total * 3 // 4:11}\n")
    call.out(f"Swap:    {0:11} {0:11} {0:11}\n")
    return 0


def sysctl(call: Call) -> int:
    """`sysctl [-n] [-e] KEY…`, read from /proc/sys."""
    options = call.options("neq")
    status = 0
    for key in options.operands:
        if "=" in key:
            raise NotSimulated("setting a value")
        path = "/proc/sys/" + key.replace(".", "/")
        if not call.files.exists(path):
            call.say(f"cannot stat {path}: No such file or directory")
            status = 255
            continue
        value = call.files.read(path).decode().strip()
        call.out((value if "n" in options else f"{key} = {value}") + "\n")
    return status


def getenforce(call: Call) -> int:
    """`getenforce`."""
    call.out(call.machine.fact("selinux") + "\n")
    return 0


def ip(call: Call) -> int:
    """`ip [-4|-6] [-o] addr [show [scope global]]`, `ip route`."""
    flags = [arg for arg in call.args if arg.startswith("-")]
    words = [arg for arg in call.args if not arg.startswith("-")]
    if unknown := [flag for flag in flags if flag not in ("-4", "-6", "-o", "-br")]:
        raise NotSimulated(f"option {unknown[0]}")
    address, gateway = call.machine.address, call.machine.fact("gateway")
    if words[:1] in (["a"], ["addr"], ["address"]):
        if "-6" in flags:
            return 0
        if "global" not in words:
            call.out("1: lo    inet 127.0.0.1/8 scope host lo\n")
        call.out(f"2: eth0    inet {address}/24 brd {address.rsplit('.', 1)[0]}.255 scope global eth0\n")
    elif words[:1] in (["r"], ["route"]):
        call.out(f"default via {gateway} dev eth0\n")
    else:
        raise NotSimulated(" ".join(words) or "no object")
    return 0


def sleep(call: Call) -> int:
    """`sleep DURATION…`."""
    call.state.life.sleep(sum(duration(operand) for operand in call.options().operands))
    return 0


def uptime(call: Call) -> int:
    """`uptime [-s|-p]`."""
    options = call.options("sp")
    if "s" in options:
        call.out(time.strftime("%Y-%m-%d %H:%M:%S\n", time.gmtime(call.machine.clock() - 864000)))
    elif "p" in options:
        call.out("up 1 week, 3 days\n")
    else:
        shown = time.strftime("%H:%M:%S", time.gmtime(call.machine.clock()))
        call.out(f" {shown} up 10 days,  0:00,  0 users,  load average: 0.10, 0.10, 0.10\n")
    return 0


def date(call: Call) -> int:
    """`date [-u] [-d @SECONDS] [-I] [+FORMAT]`, in the time zone of the fact `timezone`."""
    options = call.options("uIR", "dr", ("utc", "date=", "iso-8601="))
    zone = _ZONE.fullmatch(call.machine.fact("timezone"))
    name, offset = ("UTC", 0)
    if zone and "u" not in options and "utc" not in options:
        name, offset = zone[1], int(zone[2] + "1") * (int(zone[3]) * 3600 + int(zone[4]) * 60)
    now = call.machine.clock()
    given = options.get("d") or options.get("date")
    if given:
        if not re.fullmatch(r"@\d+", given):
            raise NotSimulated(f"date {given}")
        now = float(given[1:])
    if "r" in options:
        now = call.files.entry(call.path(options.get("r"))).mtime
    default = "+%Y-%m-%d" if "I" in options or "iso-8601" in options else "+%a %b %e %H:%M:%S %Z %Y"
    text = (options.operands or [default])[0]
    if not text.startswith("+"):
        raise Failed("cannot set date: Operation not permitted")
    call.out(_formatted(text[1:], now, name, offset) + "\n")
    return 0


def _formatted(text: str, now: float, zone: str, offset: int) -> str:
    sign, away = "-" if offset < 0 else "+", abs(offset)
    known = {
        "s": str(int(now)),
        "N": f"{int(now % 1 * 1e9):09}",
        "3N": f"{int(now % 1 * 1e3):03}",
        "Z": zone,
        "z": f"{sign}{away // 3600:02}{away % 3600 // 60:02}",
        ":z": f"{sign}{away // 3600:02}:{away % 3600 // 60:02}",
    }
    parts = re.split(r"(%(?::z|3N|.))", text)
    clock = time.gmtime(now + offset)
    return "".join(
        known.get(p[1:], "") or time.strftime(p, clock) if p.startswith("%") and len(p) > 1 else p for p in parts
    )
