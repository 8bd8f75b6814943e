"""id, whoami, getent: users, groups and host names."""

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated
from maint.lab.hosts.shell.commands.modes import database, number_of


def whoami(call: Call) -> int:
    """`whoami`."""
    call.out(call.state.user + "\n")
    return 0


def id_(call: Call) -> int:
    """`id [-u|-g|-G] [-n] [USER]`."""
    options = call.options("ugGnr")
    user = options.operands[0] if options.operands else call.state.user
    if user != "root" and not any(row[0] == user for row in database(call, "passwd")):
        raise Failed(f"'{user}': no such user")
    named = "n" in options
    uid = number_of(call, user, "passwd")
    groups = [("root", "0")] if user == "root" else _groups(call, user)
    if "u" in options:
        call.out((user if named else str(uid)) + "\n")
    elif "g" in options or "G" in options:
        chosen = groups if "G" in options else groups[:1]
        call.out(" ".join(name if named else number for name, number in chosen) + "\n")
    else:
        shown = ",".join(f"{number}({name})" for name, number in groups)
        call.out(f"uid={uid}({user}) gid={groups[0][1]}({groups[0][0]}) groups={shown}\n")
    return 0


def _groups(call: Call, user: str) -> list[tuple[str, str]]:
    primary = next((row[3] for row in database(call, "passwd") if row[0] == user and len(row) > 3), "65534")
    rows = database(call, "group")
    own = [(row[0], row[2]) for row in rows if row[2] == primary] or [(user, primary)]
    return own + [(row[0], row[2]) for row in rows if len(row) > 3 and user in row[3].split(",") and row[2] != primary]


def getent(call: Call) -> int:
    """`getent (passwd|group|hosts|ahosts|ahostsv4) [KEY…]`."""
    operands = call.options().operands
    if not operands:
        raise Failed("wrong number of arguments", 1)
    kind, keys = operands[0], operands[1:]
    if kind in ("passwd", "group"):
        rows = [row for row in database(call, kind) if not keys or row[0] in keys or row[2] in keys]
        call.out("".join(":".join(row) + "\n" for row in rows))
        return 0 if rows else 2
    if kind not in ("hosts", "ahosts", "ahostsv4"):
        raise NotSimulated(f"database {kind}")
    known = _hosts(call)
    if not keys and kind == "hosts":
        call.out("".join(f"{address:<15} {' '.join(names)}\n" for address, names in known))
        return 0
    status = 0
    for key in keys:
        found = [(address, names) for address, names in known if key == address or key in names]
        found = found or [(address, [key]) for address, suffix in _wildcards(call) if key.endswith(suffix)]
        found = [row for row in found if kind != "ahostsv4" or ":" not in row[0]]
        status = status if found else 2
        for address, names in found[:1]:
            text = f"{address:<15} {' '.join(names)}\n"
            if kind != "hosts":
                text = f"{address:<15} STREAM {names[0]}\n{address:<15} DGRAM\n{address:<15} RAW\n"
            call.out(text)
    return status


def _wildcards(call: Call) -> list[tuple[str, str]]:
    """Return what the fact `dns` says of whole domains, `ADDRESS *.DOMAIN`; /etc/hosts knows no such thing."""
    words = [line.split() for line in call.machine.fact("dns").split(";")]
    return [(row[0], row[1][1:]) for row in words if len(row) == 2 and row[1].startswith("*.")]


def _hosts(call: Call) -> list[tuple[str, list[str]]]:
    """Return addresses and names: /etc/hosts, then what the fact `dns` adds as `ADDRESS NAME…;…`."""
    text = call.files.read("/etc/hosts").decode(errors="replace") if call.files.exists("/etc/hosts") else ""
    lines = [*text.splitlines(), *call.machine.fact("dns").split(";")]
    words = [line.split("#")[0].split() for line in lines]
    return [(row[0], row[1:]) for row in words if len(row) > 1]
