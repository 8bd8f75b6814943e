"""ls and stat."""

import re
import stat as kinds
import time

from maint.lab.hosts.shell.call import Call, NotSimulated
from maint.lab.hosts.shell.commands.modes import number_of
from maint.lab.hosts.shell.tree import Entry

_KINDS = {
    kinds.S_IFREG: "regular file",
    kinds.S_IFDIR: "directory",
    kinds.S_IFLNK: "symbolic link",
    kinds.S_IFCHR: "character special file",
}


def ls(call: Call) -> int:
    """`ls [-aAd1lnRtrS] [PATH…]`, one name a line."""
    options = call.options("aAd1lnrtSFhi", "", ("color=", "full-time"))
    if "i" in options or "F" in options or "full-time" in options:
        raise NotSimulated("this form of listing")
    status, single, folders = 0, list[tuple[str, Entry]](), list[str]()
    for operand in options.operands or ["."]:
        try:
            follow = "l" not in options and "d" not in options
            entry = call.files.entry(call.path(operand), follow=follow or operand.endswith("/"))
        except OSError as error:
            call.say(f"cannot access '{operand}': {error.strerror}")
            status = 2
            continue
        if entry.is_folder and "d" not in options:
            folders.append(operand)
        else:
            single.append((operand, entry))
    shape = "".join(letter for letter in "aAlnrtS" if letter in options)
    _show(call, single, shape)
    for place, folder in enumerate(folders):
        if len(folders) > 1 or single:
            call.out(("\n" if place or single else "") + f"{folder}:\n")
        _show(call, _inside(call, folder, shape), shape, total=True)
    return status


def _inside(call: Call, folder: str, shape: str) -> list[tuple[str, Entry]]:
    path = call.path(folder)
    names = [n for n in call.files.names(path) if not n.startswith(".") or "a" in shape or "A" in shape]
    names = [".", "..", *names] if "a" in shape else names
    return [(name, call.files.entry(f"{path}/{name}", follow=False)) for name in names]


def _show(call: Call, rows: list[tuple[str, Entry]], shape: str, *, total: bool = False) -> None:
    if "t" in shape:
        rows.sort(key=lambda row: -row[1].mtime)
    if "S" in shape:
        rows.sort(key=lambda row: -row[1].size)
    if "r" in shape:
        rows.reverse()
    if "l" not in shape and "n" not in shape:
        call.out("".join(f"{name}\n" for name, _ in rows))
        return
    if total:
        call.out(f"total {sum((entry.size + 4095) // 4096 * 4 for _, entry in rows)}\n")
    for name, entry in rows:
        call.out(_long(call, name, entry, "n" in shape))


def _long(call: Call, name: str, entry: Entry, numbers: bool) -> str:
    user, group = entry.user, entry.group
    if numbers:
        user, group = str(number_of(call, user, "passwd")), str(number_of(call, group, "group"))
    when = time.strftime("%b %e %H:%M", time.gmtime(entry.mtime))
    arrow = f" -> {call.files.link_text(entry.path)}" if entry.is_link else ""
    mode = kinds.filemode(entry.kind | entry.mode)
    return f"{mode} {entry.links} {user} {group} {entry.size:5} {when} {name}{arrow}\n"


def stat(call: Call) -> int:
    """`stat [-L] -c FORMAT FILE…`."""
    options = call.options("L", "c", ("format=", "printf="))
    text = options.get("c") or options.get("format")
    if "printf" in options:
        raise NotSimulated("option --printf")

    def show(operand: str) -> None:
        entry = call.files.entry(call.path(operand), follow="L" in options)
        call.out((_formatted(call, text, operand, entry) if text else _whole(call, operand, entry)) + "\n")

    status = 0
    for operand in options.operands:
        try:
            show(operand)
        except OSError as error:
            call.say(f"cannot statx '{operand}': {error.strerror}")
            status = 1
    return status


def _formatted(call: Call, text: str, operand: str, entry: Entry) -> str:
    known = {
        "a": f"{entry.mode:o}",
        "A": kinds.filemode(entry.kind | entry.mode),
        "f": f"{entry.kind | entry.mode:x}",
        "U": entry.user,
        "G": entry.group,
        "u": str(number_of(call, entry.user, "passwd")),
        "g": str(number_of(call, entry.group, "group")),
        "s": str(entry.size),
        "Y": str(int(entry.mtime)),
        "y": time.strftime("%Y-%m-%d %H:%M:%S.000000000 +0000", time.gmtime(entry.mtime)),
        "n": operand,
        "N": f"'{operand}'" + (f" -> '{call.files.link_text(entry.path)}'" if entry.is_link else ""),
        "h": str(entry.links),
        "i": str(entry.inode),
        "d": "1",
        "F": "regular empty file" if entry.is_file and not entry.size else _KINDS.get(entry.kind, "weird file"),
        "%": "%",
    }

    def one(found: "re.Match[str]") -> str:
        if found[1] not in known:
            raise NotSimulated(f"directive %{found[1]}")
        return known[found[1]]

    return re.sub("%(.)", one, text)


def _whole(call: Call, operand: str, entry: Entry) -> str:
    text = "  File: %n\n  Size: %s\t%F\nAccess: (%a/%A)  Uid: (%u/%U)   Gid: (%g/%G)\nModify: %y"
    return _formatted(call, text, operand, entry)
