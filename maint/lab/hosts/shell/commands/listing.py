"""ls, stat, readlink, basename: what is known of files."""

import re

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated
from maint.lab.hosts.shell.commands.names import number_of
from maint.lab.hosts.shell.tree import Entry


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
