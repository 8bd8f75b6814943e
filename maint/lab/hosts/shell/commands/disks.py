"""df, du, sync, mount, umount, findmnt, mountpoint: one file system per line of the host's /proc/mounts."""

import re
from dataclasses import dataclass

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated, Options

_TABLE = "/proc/mounts"
_VOLUMES = "/dev/.volumes"  # where the content of a volume lies while it is not mounted
_BUSY = "/run/k3s/.busy"  # while it is there, pods that nobody supervises hold their volumes


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system."""

    source: str
    target: str
    kind: str
    options: str


def mounts(call: Call) -> list[Mount]:
    """Return what is mounted, `/` at least."""
    text = call.files.read(_TABLE).decode() if call.files.exists(_TABLE) else ""
    split = [[_plain(word) for word in row.split(" ")] for row in text.splitlines()]
    rows = [Mount(*row[:4]) for row in split if len(row) >= 4]
    return rows or [Mount("/dev/sda2", "/", "xfs", "rw,noatime")]


def _plain(word: str) -> str:
    """Return a word of the table without its escapes: blanks and the like stand there in octal."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), word)


def _spelled(word: str) -> str:
    return re.sub(r"[ \t\n\\]", lambda found: f"\\{ord(found[0]):03o}", word)


def holding(call: Call, path: str) -> Mount:
    """Return the file system that a path is on."""
    canonical = call.files.canonical(path)
    best = [m for m in mounts(call) if canonical == m.target or canonical.startswith(m.target.rstrip("/") + "/")]
    return max(best, key=lambda m: len(m.target))


def df(call: Call) -> int:
    """`df [-P] [-k|-m|-h] [-i] [-T] [PATH…]`; sizes are the facts `disk_kb` and `disk_used_percent`, or those of
    `disk_used_percent:/TARGET`."""
    options = call.options("PkmhliTa", "", ("output=",))
    if "output" in options or "T" in options:
        raise NotSimulated("this form of listing")
    inodes = "i" in options
    titles = (
        ("Inodes", "IUsed", "IFree", "IUse%") if inodes else (_title(options), "Used", "Available", _percent(options))
    )
    rows = [("Filesystem", *titles, "Mounted on")]
    status = 0
    for operand in options.operands or [m.target for m in mounts(call)]:
        if not call.files.exists(call.path(operand)):
            call.say(f"{operand}: No such file or directory")
            status = 1
            continue
        mount = holding(call, call.path(operand))
        rows.append((mount.source, *_sizes(call, mount, options, inodes), mount.target))
    if len(rows) > 1:
        call.out("".join(f"{r[0]:<20} {r[1]:>13} {r[2]:>12} {r[3]:>12} {r[4]:>8} {r[5]}\n" for r in rows))
    return status


def _title(options: Options) -> str:
    return (
        "Size"
        if "h" in options
        else "1M-blocks"
        if "m" in options
        else "1024-blocks"
        if "P" in options
        else "1K-blocks"
    )


def _percent(options: Options) -> str:
    return "Capacity" if "P" in options else "Use%"


def _sizes(call: Call, mount: Mount, options: Options, inodes: bool) -> tuple[str, str, str, str]:
    percent = int(call.machine.fact(f"disk_used_percent:{mount.target}") or call.machine.fact("disk_used_percent"))
    percent = 100 if call.files.is_full else percent
    if inodes:
        total = int(call.machine.fact("inodes") or "104857600")
        percent = int(call.machine.fact("inodes_used_percent") or "1")
        return str(total), str(total * percent // 100), str(total - total * percent // 100), f"{percent}%"
    total = int(call.machine.fact(f"disk_kb:{mount.target}") or call.machine.fact("disk_kb"))
    used = total * percent // 100
    unit, sign = (1 << 20, "G") if "h" in options else (1024, "") if "m" in options else (1, "")
    return f"{total // unit}{sign}", f"{used // unit}{sign}", f"{(total - used) // unit}{sign}", f"{percent}%"


def du(call: Call) -> int:
    """`du [-s] [-k|-b|-m] PATH…`."""
    options = call.options("skbmx", "d")
    unit = 1 if "b" in options else 1 << 20 if "m" in options else 1024

    def show(operand: str) -> None:
        top = call.path(operand).rstrip("/") or "/"
        for path in call.files.walk(top):
            if path == top or ("s" not in options and call.files.entry(path, follow=False).is_folder):
                size = sum(call.files.entry(p, follow=False).size for p in call.files.walk(path))
                call.out(f"{-(-size // unit)}\t{operand + path[len(top) :]}\n")

    if "d" in options and options.get("d") != "0":
        raise NotSimulated("option -d")
    return call.each(options.operands or ["."], show)


def mount(call: Call) -> int:
    """`mount`: show what is mounted."""
    if call.options("l").operands:
        raise NotSimulated("mounting")
    call.out("".join(f"{m.source} on {m.target} type {m.kind} ({m.options})\n" for m in mounts(call)))
    return 0


def umount(call: Call) -> int:
    """`umount [-fl] TARGET…`: the last one that was mounted there; what lies in it goes out of sight with it."""
    options = call.options("fl")

    def take(operand: str) -> None:
        rows, path = mounts(call), call.files.canonical(call.path(operand))
        found = [place for place, m in enumerate(rows) if m.target == path]
        if not found:
            raise Failed(f"{operand}: not mounted.", 32)
        held = path in call.machine.fact("mounts_in_use").split(";")
        held |= path.startswith("/var/lib/kubelet/") and call.files.exists(_BUSY)
        if (held or any(m.target.startswith(f"{path}/") for m in rows)) and "l" not in options:
            raise Failed(f"{operand}: target is busy.", 32)
        left = rows[: found[-1]] + rows[found[-1] + 1 :]
        text = "".join(f"{_spelled(m.source)} {_spelled(m.target)} {m.kind} {m.options} 0 0\n" for m in left)
        call.files.write(_TABLE, text.encode())
        _hide(call, path)

    return call.each(options.operands, take)


def _hide(call: Call, path: str) -> None:
    """Let a folder be empty, as it is below a volume that is no longer mounted."""
    call.files.make_folders(_VOLUMES)
    call.files.rename(path, f"{_VOLUMES}/{len(call.files.names(_VOLUMES))}{path.replace('/', '_')}")
    call.files.make_folder(path)


def findmnt(call: Call) -> int:
    """`findmnt [-rn] [-o COLUMNS] [--target PATH | TARGET]`."""
    options = call.options("rnl", "oTt", ("target=", "noheadings", "output=", "mountpoint="))
    path = options.get("T") or options.get("target")
    rows = [holding(call, call.path(path))] if path else mounts(call)
    exact = options.operands[0] if options.operands else options.get("mountpoint")
    rows = [m for m in rows if m.target == exact] if exact else rows
    rows = [m for m in rows if m.kind in options.get("t").split(",")] if "t" in options else rows
    columns = (options.get("o") or options.get("output") or "TARGET,SOURCE,FSTYPE,OPTIONS").split(",")
    if unknown := [c for c in columns if c not in ("TARGET", "SOURCE", "FSTYPE", "OPTIONS")]:
        raise NotSimulated(f"column {unknown[0]}")
    if "n" not in options and "noheadings" not in options and rows:
        call.out(" ".join(columns) + "\n")
    for m in rows:
        known = {"TARGET": m.target, "SOURCE": m.source, "FSTYPE": m.kind, "OPTIONS": m.options}
        call.out(" ".join(known[c] for c in columns) + "\n")
    return 0 if rows else 1


def mountpoint(call: Call) -> int:
    """`mountpoint [-q] PATH`."""
    options = call.options("q")
    if len(options.operands) != 1:
        raise Failed("one path is needed")
    path = call.files.canonical(call.path(options.operands[0]))
    found = any(m.target == path for m in mounts(call))
    if "q" not in options:
        call.out(f"{options.operands[0]} is {'' if found else 'not '}a mountpoint\n")
    return 0 if found else 32


def sync(call: Call) -> int:
    """`sync [-df] [FILE…]`."""
    return call.each(call.options("df").operands, lambda operand: call.files.entry(call.path(operand)))
