"""chmod, chown, chgrp."""

import re
from collections.abc import Callable

from maint.lab.hosts.shell.call import Call, Failed

_WHO = {"u": 0o4700, "g": 0o2070, "o": 0o0007, "a": 0o7777}
_KINDS = ("passwd", "group")
_CLAUSE = re.compile(r"([ugoa]*)((?:[-+=][rwxXst]*)+)")


def changed_mode(text: str, mode: int, *, folder: bool) -> int:
    """Return mode bits after a change such as `640`, `u+x` or `go-rwx`.

    Raises:
        Failed: the change makes no sense.
    """
    if re.fullmatch("[0-7]{1,4}", text):
        return int(text, 8)
    for clause in text.split(","):
        found = _CLAUSE.fullmatch(clause)
        if not found:
            raise Failed(f"invalid mode: '{text}'")
        mask = 0
        for who in found[1] or "a":
            mask |= _WHO[who]
        for operator, letters in re.findall(r"([-+=])([rwxXst]*)", found[2]):
            mode = _applied(mode, operator, _bits(letters, mode, folder) & mask, mask)
    return mode


def _applied(mode: int, operator: str, bits: int, mask: int) -> int:
    if operator == "+":
        return mode | bits
    if operator == "-":
        return mode & ~bits
    return mode & ~(mask & 0o777) | bits


def _bits(letters: str, mode: int, folder: bool) -> int:
    values = {"r": 0o444, "w": 0o222, "x": 0o111, "s": 0o6000, "t": 0o1000}
    values["X"] = 0o111 if folder or mode & 0o111 else 0
    bits = 0
    for letter in letters:
        bits |= values[letter]
    return bits


def owner_and_group(text: str) -> tuple[str | None, str | None]:
    """Return what `user:group` names; `user:` means the user's own group."""
    user, colon, group = text.partition(":")
    return user or None, (group or user or None) if colon else None


def chmod(call: Call) -> int:
    """`chmod [-R] MODE FILE…`."""
    args = call.args
    options = call.again(call.name, ["--", *args] if args and re.match("-[rwxX]", args[0]) else args).options("Rfv")
    if len(options.operands) < 2:
        raise Failed("missing operand")
    text, operands = options.operands[0], options.operands[1:]

    def change(path: str) -> None:
        entry = call.files.entry(path)
        call.files.own(path, changed_mode(text, entry.mode, folder=entry.is_folder))

    return call.each(operands, lambda operand: _all(call, operand, "R" in options, change))


def chown(call: Call) -> int:
    """`chown [-R] USER[:GROUP] FILE…`."""
    return _owned(call, owner_and_group)


def chgrp(call: Call) -> int:
    """`chgrp [-R] GROUP FILE…`."""
    return _owned(call, lambda text: (None, text))


def _owned(call: Call, meaning: Callable[[str], tuple[str | None, str | None]]) -> int:
    options = call.options("Rfhv", "", ("reference=",))
    operands = list(options.operands)
    if "reference" in options:
        entry = call.files.entry(call.path(options.get("reference")))
        user: str | None = entry.user if call.name == "chown" else None
        group: str | None = entry.group
    else:
        if len(operands) < 2:
            raise Failed("missing operand")
        user, group = (known_as(call, name, kind) for name, kind in zip(meaning(operands.pop(0)), _KINDS, strict=True))
    return call.each(
        operands,
        lambda operand: _all(call, operand, "R" in options, lambda path: call.files.own(path, None, user, group)),
    )


def known_as(call: Call, name: str | None, kind: str) -> str | None:
    """Return the name of a user or group, given as name or number.

    Raises:
        Failed: /etc/passwd or /etc/group does not know it.
    """
    if name is None or name == "root":
        return name
    for line in database(call, kind):
        if name in (line[0], line[2]):
            return line[0]
    if name.isdigit():
        return "root" if name == "0" else name
    raise Failed(f"invalid {'user' if kind == 'passwd' else 'group'}: '{name}'")


def database(call: Call, kind: str) -> list[list[str]]:
    """Return the rows of /etc/passwd or /etc/group."""
    path = f"/etc/{kind}"
    text = call.files.read(path).decode(errors="replace") if call.files.exists(path) else ""
    return [row for row in (line.split(":") for line in text.splitlines()) if len(row) > 2]


def number_of(call: Call, name: str, kind: str) -> int:
    """Return the number of a user or group; 65534 for one that nobody knows."""
    numbers = [int(row[2]) for row in database(call, kind) if row[0] == name and row[2].isdigit()]
    if name.isdigit():
        return int(name)
    return numbers[0] if numbers else 0 if name == "root" else 65534


def _all(call: Call, operand: str, recursive: bool, work: Callable[[str], None]) -> None:
    for path in call.files.walk(call.path(operand)) if recursive else [call.path(operand)]:
        if recursive and call.files.entry(path, follow=False).is_link:
            continue
        work(path)
