"""Commands about files, folders and file systems, `mount` and `df` among them; what files hold is in `filters.py`."""

import errno
import os
import re
import secrets
import string

import msgspec

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated
from maint.lab.hosts.shell.commands.names import known_as, number_of
from maint.lab.hosts.shell.tree import Entry, failure

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


def mkdir(call: Call) -> int:
    """`mkdir [-p] [-m MODE] FOLDER…`."""
    options = call.options("pm:")
    usual = 0o777 & ~call.state.umask
    mode = _mode(options.get("m")) if "m" in options else usual

    def make(operand: str) -> None:
        path = call.path(operand)
        if "p" in options:
            call.files.make_folders(path.rstrip("/").rsplit("/", 1)[0] or "/", usual)
            call.files.make_folders(path, mode)
        else:
            call.files.make_folder(path, mode)

    return call.each(options.operands, make)


def rm(call: Call) -> int:
    """`rm [-rf] [--one-file-system] FILE…`; `.` and `..` are refused as coreutils does."""
    options = call.options("rf", ("one-file-system",))

    def remove(operand: str) -> None:
        if operand.rstrip("/").rsplit("/", 1)[-1] in (".", ".."):
            raise failure(errno.EINVAL, operand)
        try:
            entry = call.files.entry(call.path(operand).rstrip("/") or "/", follow=False)
        except OSError as error:
            if "f" in options and error.errno in (errno.ENOENT, errno.ENOTDIR):
                return
            raise
        if not entry.is_folder:
            call.files.remove(entry.path)
        elif "r" not in options:
            raise failure(errno.EISDIR, entry.path)
        else:
            _remove_below(call, entry, {m.target for m in mounts(call)}, one_volume="one-file-system" in options)

    if not options.operands and "f" not in options:
        raise Failed("missing operand")
    return call.each(options.operands, remove)


def _remove_below(call: Call, entry: Entry, mounted: set[str], *, one_volume: bool) -> None:
    """Remove a folder; what is mounted in it loses its content unless left alone, and stays (EBUSY at the end)."""
    files, kept = call.files, entry.path if entry.path in mounted else ""
    if not any(f"{target}/".startswith(f"{entry.path}/") for target in mounted):
        files.remove_folder(entry.path, all_below=True)
        return
    for name in files.names(entry.path):
        child = files.entry(f"{entry.path.rstrip('/')}/{name}", follow=False)
        try:
            if child.is_folder and not (one_volume and child.path in mounted):
                _remove_below(call, child, mounted, one_volume=one_volume)
            elif child.is_folder:
                kept = child.path
            else:
                files.remove(child.path)
        except OSError as error:
            kept = str(error.filename)
    if kept:
        raise failure(errno.EBUSY, kept)
    files.remove_folder(entry.path)


def rmdir(call: Call) -> int:
    """`rmdir FOLDER…`."""
    return call.each(call.options().operands, lambda operand: call.files.remove_folder(call.path(operand)))


def _target(call: Call, operands: list[str], *, follow: bool = True) -> tuple[str, str]:
    if len(operands) != 2:
        raise NotSimulated("anything but one source and one target")
    source, last = operands
    target = call.path(last)
    try:
        inside = call.files.entry(target, follow=follow).is_folder
    except OSError:
        inside = False
    return source, f"{target.rstrip('/')}/{source.rstrip('/').rsplit('/', 1)[-1]}" if inside else target


def mv(call: Call) -> int:
    """`mv [-f] SOURCE TARGET`."""
    source, target = _target(call, call.options("f").operands)
    return call.each([source], lambda _: call.files.rename(call.path(source), target))


def ln(call: Call) -> int:
    """`ln [-sfn] TARGET LINK`."""
    options = call.options("sfn")
    text, place = _target(call, options.operands, follow="n" not in options)

    def link(_: str) -> None:
        if "f" in options and call.files.exists(place, follow=False):
            call.files.remove(place)
        if "s" in options:
            call.files.link(text, place)
        else:
            call.files.hard_link(call.path(text), place)

    return call.each([text], link)


def touch(call: Call) -> int:
    """`touch FILE…`, to the time now."""

    def stamp(operand: str) -> None:
        path = call.path(operand)
        if not call.files.exists(path):
            call.files.open(path, os.O_WRONLY | os.O_CREAT, 0o666 & ~call.state.umask).close()
        call.files.touch(path, call.machine.clock())

    return call.each(call.options().operands, stamp)


def mktemp(call: Call) -> int:
    """`mktemp [-d] [-p FOLDER] [TEMPLATE]`."""
    options = call.options("dp:")
    template = options.operands[0] if options.operands else "/tmp/tmp.XXXXXXXXXX"
    marks = len(template) - len(template.rstrip("X"))
    if marks < 3:
        raise Failed(f"too few X's in template '{template}'")
    shown = template[:-marks] + "".join(secrets.choice(string.ascii_letters) for _ in range(marks))
    shown = f"{options.get('p').rstrip('/')}/{shown}" if "p" in options else shown
    if "d" in options:
        call.files.make_folder(call.path(shown), 0o700)
    else:
        call.files.open(call.path(shown), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600).close()
    call.out(shown + "\n")
    return 0


def chmod(call: Call) -> int:
    """`chmod MODE FILE…`, in octal; `chmod go= FILE…`."""
    operands = call.options().operands
    if len(operands) < 2:
        raise Failed("missing operand")
    mode = None if operands[0] == "go=" else _mode(operands[0])

    def change(operand: str) -> None:
        path = call.path(operand)
        call.files.own(path, call.files.entry(path).mode & 0o5700 if mode is None else mode)

    return call.each(operands[1:], change)


def _mode(text: str) -> int:
    if not re.fullmatch("[0-7]{1,4}", text):
        raise NotSimulated(f"mode {text}")
    return int(text, 8)


def chown(call: Call) -> int:
    """`chown [-h] USER[:GROUP]|:GROUP FILE…`; `USER:` means the user's own group; links are followed all the same."""
    operands = call.options("h").operands
    if len(operands) < 2:
        raise Failed("missing operand")
    name, colon, group_name = operands[0].partition(":")
    user = known_as(call, name, "passwd")
    group = known_as(call, group_name or name if colon else "", "group")
    return call.each(operands[1:], lambda operand: call.files.own(call.path(operand), None, user, group))


def ls(call: Call) -> int:
    """`ls [-Ad1t] [PATH…]`, one name a line; one folder, or any number of files."""
    options = call.options("Ad1t")
    status, rows = 0, list[tuple[str, Entry]]()
    operands = options.operands or ["."]
    for operand in operands:
        path = call.path(operand)
        try:
            entry = call.files.entry(path, follow="d" not in options or operand.endswith("/"))
        except OSError as error:
            call.say(f"cannot access '{operand}': {error.strerror}")
            status = 2
            continue
        if "d" in options or not entry.is_folder:
            rows.append((operand, entry))
        elif len(operands) > 1:
            raise NotSimulated("a folder beside others")
        else:
            names = [name for name in call.files.names(path) if "A" in options or not name.startswith(".")]
            rows = [(name, call.files.entry(f"{path}/{name}", follow=False)) for name in names]
    if "t" in options:
        rows.sort(key=lambda row: -row[1].mtime)
    call.out("".join(f"{name}\n" for name, _ in rows))
    return status


def stat(call: Call) -> int:
    """`stat [-L] -c FORMAT FILE…`; the format knows %a %U %G %u %g %s %n."""
    options = call.options("Lc:")
    if "c" not in options:
        raise NotSimulated("stat without -c")
    status = 0
    for operand in options.operands:
        try:
            entry = call.files.entry(call.path(operand), follow="L" in options)
        except OSError as error:
            call.say(f"cannot statx '{operand}': {error.strerror}")
            status = 1
            continue
        call.out(_formatted(call, options.get("c"), operand, entry) + "\n")
    return status


def _formatted(call: Call, text: str, operand: str, entry: Entry) -> str:
    known = {"a": f"{entry.mode:o}", "U": entry.user, "G": entry.group, "s": str(entry.size), "n": operand}
    known |= {"u": str(number_of(call, entry.user, "passwd")), "g": str(number_of(call, entry.group, "group"))}
    if unknown := [letter for letter in re.findall("%(.)", text) if letter not in known]:
        raise NotSimulated(f"directive %{unknown[0]}")
    return re.sub("%(.)", lambda found: known[found[1]], text)


def readlink(call: Call) -> int:
    """`readlink [-f] PATH…`."""
    options = call.options("f")
    status = 0
    for operand in options.operands:
        try:
            path = call.path(operand)
            call.out((call.files.canonical(path) if "f" in options else call.files.link_text(path)) + "\n")
        except OSError:
            status = 1
    return status


def basename(call: Call) -> int:
    """`basename PATH`."""
    operands = call.options().operands
    if len(operands) != 1:
        raise Failed("one path is needed")
    call.out((operands[0].rstrip("/").rsplit("/", 1)[-1] or operands[0][:1]) + "\n")
    return 0
