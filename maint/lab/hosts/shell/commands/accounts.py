"""groupadd, useradd, groupmod and usermod: accounts of a host, as lines of /etc/group and /etc/passwd."""

from maint.lab.hosts.shell.call import Call, Failed

_HIGHEST = 999  # of the numbers of system accounts


def groupadd(call: Call) -> int:
    """`groupadd [-r] [-g NUMBER] NAME`."""
    options = call.options("rg:")
    name, rows = _named(options.operands), _rows(call, "group")
    number = _free(rows, options.get("g"))
    if name in (row[0] for row in rows):
        raise Failed(f"group '{name}' already exists", 9)
    return _write(call, "group", [*rows, [name, "x", number, ""]])


def useradd(call: Call) -> int:
    """`useradd [-r] [-g GROUP] [-u NUMBER] NAME`."""
    options = call.options("rg:u:")
    name, rows = _named(options.operands), _rows(call, "passwd")
    number, group = _free(rows, options.get("u")), options.get("g", name)
    of_group = [row[2] for row in _rows(call, "group") if group in (row[0], row[2])]
    if not of_group:
        raise Failed(f"group '{group}' does not exist", 6)
    if name in (row[0] for row in rows):
        raise Failed(f"user '{name}' already exists", 9)
    return _write(call, "passwd", [*rows, [name, "x", number, of_group[0], "", f"/home/{name}", "/bin/bash"]])


def groupmod(call: Call) -> int:
    """`groupmod -g NUMBER NAME`: those whose own group it is stay in it."""
    options = call.options("g:")
    before = _renumbered(call, "group", _named(options.operands), options.get("g"))
    people = _rows(call, "passwd")
    for row in people:
        row[3] = options.get("g") if row[3] == before else row[3]
    return _write(call, "passwd", people)


def usermod(call: Call) -> int:
    """`usermod -u NUMBER NAME`."""
    options = call.options("u:")
    _renumbered(call, "passwd", _named(options.operands), options.get("u"))
    return 0


def _named(operands: list[str]) -> str:
    if len(operands) != 1:
        raise Failed("a name is needed", 2)
    return operands[0]


def _renumbered(call: Call, kind: str, name: str, number: str) -> str:
    """Give an account another number, and return the one it had."""
    rows = _rows(call, kind)
    found = [row for row in rows if row[0] == name]
    if not found:
        raise Failed(f"'{name}' does not exist", 6)
    before = found[0][2]
    found[0][2] = before if number == before else _free(rows, number)
    _write(call, kind, rows)
    return before


def _free(rows: list[list[str]], number: str) -> str:
    """Return the number that is asked for, else the highest that nobody has; Failed where somebody has it."""
    taken = {row[2] for row in rows}
    if number and (number in taken or not number.isdigit()):
        raise Failed(f"ID '{number}' already exists, or is no number", 4)
    return number or str(next(n for n in range(_HIGHEST, 0, -1) if str(n) not in taken))


def _rows(call: Call, kind: str) -> list[list[str]]:
    return [line.split(":") for line in call.files.read(f"/etc/{kind}").decode().splitlines()]


def _write(call: Call, kind: str, rows: list[list[str]]) -> int:
    call.files.write(f"/etc/{kind}", "".join(":".join(row) + "\n" for row in rows).encode())
    return 0
