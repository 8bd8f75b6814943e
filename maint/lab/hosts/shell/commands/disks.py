"""df, du, sync, mount, umount, findmnt: one file system per line of the host's /proc/mounts."""

import re

import msgspec

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated

_TABLE = "/proc/mounts"
_VOLUMES = "/dev/.volumes"  # where the content of a volume lies while it is not mounted
_BUSY = "/run/k3s/.busy"  # while it is there, pods that nobody supervises hold their volumes


class Mount(msgspec.Struct, frozen=True):
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
    """`df -Pk|-Pi [PATH…]`; sizes are the facts `disk_kb` and `disk_used_percent`, or `disk_used_percent:/TARGET`."""
    options = call.options("Pki")
    if "P" not in options:
        raise NotSimulated("df without -P")
    inodes = "i" in options
    titles = ("Inodes", "IUsed", "IFree", "IUse%") if inodes else ("1024-blocks", "Used", "Available", "Capacity")
    rows = [("Filesystem", *titles, "Mounted on")]

    def look(operand: str) -> None:
        call.files.entry(call.path(operand))
        mount = holding(call, call.path(operand))
        rows.append((mount.source, *_sizes(call, mount, inodes=inodes), mount.target))

    status = call.each(options.operands or [m.target for m in mounts(call)], look)
    if len(rows) > 1:
        call.out("".join(f"{r[0]:<20} {r[1]:>13} {r[2]:>12} {r[3]:>12} {r[4]:>8} {r[5]}\n" for r in rows))
    return status


def _sizes(call: Call, mount: Mount, *, inodes: bool) -> tuple[str, str, str, str]:
    fact = call.machine.fact
    if inodes:
        total, percent = int(fact("inodes")), int(fact("inodes_used_percent"))
    else:
        total = int(fact(f"disk_kb:{mount.target}") or fact("disk_kb"))
        percent = int(fact(f"disk_used_percent:{mount.target}") or fact("disk_used_percent"))
        percent = 100 if call.files.is_full else percent
    used = total * percent // 100
    return str(total), str(used), str(total - used), f"{percent}%"


def du(call: Call) -> int:
    """`du [-x] [-k] PATH…`: KiB of each folder, those inside first."""

    def show(operand: str) -> None:
        top = call.path(operand).rstrip("/") or "/"
        for path in reversed(list(call.files.walk(top))):
            if path == top or call.files.entry(path, follow=False).is_folder:
                size = sum(call.files.entry(p, follow=False).size for p in call.files.walk(path))
                call.out(f"{-(-size // 1024)}\t{operand + path[len(top) :]}\n")

    return call.each(call.options("kx").operands or ["."], show)


def mount(call: Call) -> int:
    """`mount`: show what is mounted."""
    if call.args:
        raise NotSimulated("mounting")
    call.out("".join(f"{m.source} on {m.target} type {m.kind} ({m.options})\n" for m in mounts(call)))
    return 0


def umount(call: Call) -> int:
    """`umount [-l] TARGET…`: the last one that was mounted there; what lies in it goes out of sight with it."""
    options = call.options("l")

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
    """`findmnt -n [-r] -o COLUMN[,COLUMN…] [--target PATH]`."""
    options = call.options("rno:", ("target=",))
    columns = options.get("o").split(",")
    unknown = [column for column in columns if column not in ("TARGET", "SOURCE", "FSTYPE", "OPTIONS")]
    if unknown or "n" not in options or options.operands:
        raise NotSimulated(f"column {unknown[0]}" if unknown else "this form of listing")
    for m in [holding(call, call.path(options.get("target")))] if "target" in options else mounts(call):
        known = {"TARGET": m.target, "SOURCE": m.source, "FSTYPE": m.kind, "OPTIONS": m.options}
        call.out(" ".join(known[column] for column in columns) + "\n")
    return 0


def sync(call: Call) -> int:
    """`sync [FILE…]`."""
    return call.each(call.options().operands, lambda operand: call.files.entry(call.path(operand)))
