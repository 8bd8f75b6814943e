"""What a host says of itself; its time, sleep, timeout, sh, sudo, sysctl, NetworkManager, rpm, dnf and pg_dump."""

import posixpath
import re
import time
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated
from maint.lab.hosts.shell.state import Killed, decode
from maint.lab.hosts.shell.syntax import Source

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def sh(call: Call) -> int:
    """`sh [-eu] -c SCRIPT [NAME ARG…]`, `sh -s [ARG…]`, `sh FILE [ARG…]`, `sh` with the script on standard input."""
    options = call.options("ceus", mixed=False)
    state, args = call.state.child(posixpath.basename(call.name)), options.operands
    state.options = {letter for letter in "eu" if letter in options}
    if "c" in options:
        if not args:
            raise Failed("-c requires an argument", 2)
        state.name, state.positional = (args[1] if len(args) > 1 else state.name), args[2:]
        return call.runner.run_script(Source(args[0]), state)
    if "s" in options or not args:
        state.positional = args
        return call.runner.run_script(Source("", lambda: decode(call.stdin.readline())), state)
    if not call.files.exists(call.path(args[0])):
        raise Failed(f"0: cannot open {args[0]}: No such file", 127)
    state.name, state.positional = args[0], args[1:]
    return call.runner.run_script(Source(decode(call.files.read(call.path(args[0])))), state)


def sudo(call: Call) -> int:
    """`sudo [-n] [-S] [-p PROMPT] COMMAND…`: the account of a lab host is root, who never needs a password."""
    operands = call.options("nSp:", mixed=False).operands
    return call.runner.run_words(operands, call.state.child("sudo")) if operands else 0


def timeout(call: Call) -> int:
    """`timeout DURATION COMMAND…`."""
    operands = call.options(mixed=False).operands
    if len(operands) < 2:
        raise Failed("missing operand", 125)
    state, seconds = call.state.copy(), duration(operands[0])
    if seconds:
        state.lifetime = call.state.lifetime.limited(seconds)
    try:
        return call.runner.run_words(operands[1:], state)
    except Killed:
        call.state.lifetime.check()
        return 124


def duration(text: str) -> float:
    """Return seconds; Failed where it is not a duration."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if not found:
        raise Failed(f"invalid time interval '{text}'", 125)
    return float(found[1]) * _UNITS[found[2]]


_ZONE = re.compile(r"(\w+)([-+])(\d\d)(\d\d)")
_NM = "/etc/NetworkManager/conf.d"
_GONE = "/var/lib/rpm/.removed"  # packages that were taken off the host


def says(call: Call) -> int:
    """A command that tells facts of the host, by its whole line: see `data/host-files.toml`."""
    said = call.machine.says(" ".join([call.name.rpartition("/")[2], *call.args]))
    if said is None:
        raise NotSimulated(" ".join(call.args) or "this form")
    call.out(said)
    return 0


def sleep(call: Call) -> int:
    """`sleep DURATION…`."""
    call.state.lifetime.sleep(sum(duration(operand) for operand in call.options().operands))
    return 0


def date(call: Call) -> int:
    """`date [-u] [+FORMAT]`, in the time zone of the fact `timezone`."""
    options = call.options("u")
    text = (options.operands or ["+%a %b %e %H:%M:%S %Z %Y"])[0]
    if not text.startswith("+"):
        raise NotSimulated("setting the date")
    name, offset = zone_offset("" if "u" in options else call.machine.fact("timezone"))
    now, away = call.machine.clock(), abs(offset)
    known = {
        "s": str(int(now)),
        "N": f"{int(now % 1 * 1e9):09}",
        "Z": name,
        "z": f"{'-' if offset < 0 else '+'}{away // 3600:02}{away % 3600 // 60:02}",
    }
    clock = time.gmtime(now + offset)
    call.out(re.sub("%(.)", lambda found: known.get(found[1]) or time.strftime(found[0], clock), text[1:]) + "\n")
    return 0


def zone_offset(zone: str) -> tuple[str, int]:
    """Return the name of a time zone such as `CET+0100`, and by how many seconds it is ahead of UTC."""
    found = _ZONE.fullmatch(zone)
    if not found:
        return "UTC", 0
    return found[1], int(found[2] + "1") * (int(found[3]) * 3600 + int(found[4]) * 60)


def timedatectl(call: Call) -> int:
    """`timedatectl`, `timedatectl show -p Timezone|NTPSynchronized [--value]`, `timedatectl set-timezone ZONE`."""
    options = call.options("p:", ("value",))
    verb, *rest = options.operands or [""]
    if verb == "set-timezone" and len(rest) == 1:
        try:
            now = datetime.fromtimestamp(call.machine.clock(), ZoneInfo(rest[0]))
        except (ValueError, ZoneInfoNotFoundError):
            raise Failed(f"Failed to set time zone: Invalid or not installed time zone '{rest[0]}'") from None
        call.machine.facts["timezone"] = f"{now:%Z%z}"
        return 0
    unit = call.machine.units.get("chronyd")
    known = {"Timezone": zone_offset(call.machine.fact("timezone"))[0]}
    known["NTPSynchronized"] = "yes" if unit and unit.active() else "no"
    if not verb:
        call.out(f"{'Time zone: ':>27}{known['Timezone']}\n")
        return 0
    if verb != "show" or rest or options.get("p") not in known:
        raise NotSimulated(" ".join(call.args))
    name = options.get("p")
    call.out(f"{known[name]}\n" if "value" in options else f"{name}={known[name]}\n")
    return 0


def sysctl(call: Call) -> int:
    """`sysctl -w NAME=VALUE…`: until the next boot."""
    options = call.options("w")
    if "w" not in options:
        raise NotSimulated("asking")

    def put(operand: str) -> None:
        name, _, value = operand.partition("=")
        path = f"/proc/sys/{name.replace('.', '/')}"
        call.files.entry(path)
        call.files.write(path, f"{value}\n".encode())
        call.out(f"{name} = {value}\n")

    return call.each(options.operands, put)


def chronyc(call: Call) -> int:
    """`chronyc [-n] tracking`, `chronyc makestep`; the fact `clock_offset`: how far it believes to be off."""
    operands = call.options("n").operands
    if operands not in (["tracking"], ["makestep"]):
        raise NotSimulated(" ".join(operands))
    unit = call.machine.units.get("chronyd")
    if unit is None or not unit.active():
        call.stderr.write(b"506 Cannot talk to daemon\n")
        return 1
    if operands == ["makestep"]:
        call.machine.facts |= {"clock_drift": "0", "clock_offset": "0"}
        call.out("200 OK\n")
        return 0
    offset = float(call.machine.fact("clock_offset"))
    call.out("Reference ID    : C0000235 (192.0.2.53)\nStratum         : 3\n")
    call.out(f"System time     : {abs(offset):.9f} seconds {'slow' if offset < 0 else 'fast'} of NTP time\n")
    call.out(f"Last offset     : {offset:+.9f} seconds\nLeap status     : Normal\n")
    return 0


def network_manager(call: Call) -> int:
    """`NetworkManager --print-config`: what it has read, which is files in *.conf alone."""
    if call.args != ["--print-config"]:
        raise NotSimulated(" ".join(call.args))
    for name in sorted(call.files.names(_NM)) if call.files.exists(_NM) else []:
        if name.endswith(".conf"):
            call.stdout.write(call.files.read(f"{_NM}/{name}"))
    return 0


def _installed(call: Call) -> dict[str, str]:
    """Return the packages by name: those of the fact `packages`, NAME-VERSION-RELEASE.ARCH each, without those gone."""
    gone = call.files.read(_GONE).decode().split() if call.files.exists(_GONE) else []
    found = {package.rsplit("-", 2)[0]: package for package in call.machine.fact("packages").split()}
    return {name: package for name, package in found.items() if name not in gone}


def rpm(call: Call) -> int:
    """`rpm -q NAME…`, `rpm -qa [--qf '%{ARCH}\\n']`."""
    options = call.options("qa", ("qf=",))
    installed = _installed(call)
    if "a" in options:
        if options.operands or options.get("qf", "%{ARCH}\\n") != "%{ARCH}\\n":
            raise NotSimulated("this query")
        shown = (p.rpartition(".")[2] if "qf" in options else p for p in installed.values())
        call.out("".join(f"{line}\n" for line in shown))
        return 0
    for name in options.operands:
        call.out(f"{installed.get(name, f'package {name} is not installed')}\n")
    return sum(name not in installed for name in options.operands)


def dnf(call: Call) -> int:
    """`dnf -y remove NAME…`, `dnf -y install NAME[-VERSION]…`, `yum` the same; a unit goes with its only package."""
    options = call.options("y", mixed=True)
    verb, *names = options.operands or [""]
    if verb not in ("remove", "install") or "y" not in options:
        raise NotSimulated(" ".join(call.args))
    for name in names:
        _install(call, name) if verb == "install" else _remove(call, name)
    call.out("Complete!\n")
    return 0


def _remove(call: Call, name: str) -> None:
    if name not in _installed(call):
        call.out(f"No match for argument: {name}\n")
        return
    before = call.files.read(_GONE) if call.files.exists(_GONE) else b""
    call.files.write(_GONE, before + f"{name}\n".encode())
    if name == "iscsi-initiator-utils":
        call.machine.units.pop("iscsid", None)
    call.machine.tell(f"{call.name} remove {name}")


def _install(call: Call, asked: str) -> None:
    """Install a package that the host once had, in the version that is asked for, else in that which it had."""
    known = {package.rsplit("-", 2)[0]: package for package in call.machine.fact("packages").split()}
    name = next((one for one in known if asked == one or re.fullmatch(re.escape(one) + r"-\d[\d.]*", asked)), "")
    if not name:
        raise Failed(f"Unable to find a match: {asked}")
    release = known[name].rpartition("-")[2]
    known[name] = f"{asked}-{release}" if asked != name else known[name]
    call.machine.facts["packages"] = " ".join(known.values())
    if call.files.exists(_GONE):
        gone = call.files.read(_GONE).decode().split()
        call.files.write(_GONE, "".join(f"{one}\n" for one in gone if one != name).encode())
    call.machine.tell(f"{call.name} install {asked}")


_PROPERTIES = "/etc/cloudera-scm-server/db.properties"


def pg_dump(call: Call) -> int:
    """`PGPASSFILE=FILE pg_dump --no-password --host=H --port=P --username=USER DATABASE`."""
    options = call.options(long=("no-password", "host=", "port=", "username="))
    name = " ".join(options.operands)
    known = _settings(call)
    if words := call.machine.fact("database_refuses"):
        raise Failed(f"error: {words}")
    given = call.state.environment().get("PGPASSFILE", "")
    if not given or call.files.entry(call.path(given)).mode & 0o077:
        raise Failed("error: fe_sendauth: no password supplied")
    entry = call.files.read(call.path(given)).decode().rstrip("\n").removeprefix("*:*:*:*:")
    password = entry.replace("\\:", ":").replace("\\\\", "\\")
    if (options.get("username"), password) != (known.get("user"), known.get("password")):
        raise Failed(f'error: FATAL:  password authentication failed for user "{options.get("username")}"')
    if name != known.get("name"):
        raise Failed(f'error: FATAL:  database "{name}" does not exist')
    call.out("--\n-- PostgreSQL database dump\n--\n\nCREATE TABLE public.cm_version (guid text);\n")
    call.out("--\n-- PostgreSQL database dump complete\n--\n\n")
    return 0


def _settings(call: Call) -> dict[str, str]:
    lines = call.files.read(_PROPERTIES).decode().splitlines()
    pairs = (line.removeprefix("com.cloudera.cmf.db.").partition("=") for line in lines)
    return {name: value for name, _, value in pairs}
