"""id, getent, ss, nc: users, groups, hosts, and who listens where."""

import re

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated

_TIME = 323  # chronyd's own port, on loopback alone


def known_as(call: Call, name: str, kind: str) -> str | None:
    """Return the name of a user or group, given as name or number; None for none, Failed where it is not known."""
    if name in ("", "root", "0"):
        return "root" if name else None
    for row in _database(call, kind):
        if name in (row[0], row[2]):
            return row[0]
    if name.isdigit():
        return name
    raise Failed(f"invalid {'user' if kind == 'passwd' else 'group'}: '{name}'")


def number_of(call: Call, name: str, kind: str) -> int:
    """Return the number of a user or group; 65534 for one that nobody knows."""
    if name.isdigit():
        return int(name)
    numbers = [int(row[2]) for row in _database(call, kind) if row[0] == name and row[2].isdigit()]
    return numbers[0] if numbers else 0 if name == "root" else 65534


def _database(call: Call, kind: str) -> list[list[str]]:
    """Return the rows of /etc/passwd or /etc/group."""
    path = f"/etc/{kind}"
    text = call.files.read(path).decode(errors="replace") if call.files.exists(path) else ""
    return [row for row in (line.split(":") for line in text.splitlines()) if len(row) > 2]


def id_(call: Call) -> int:
    """`id [-u] [USER]`."""
    options = call.options("u")
    user = (options.operands or ["root"])[0]
    row = next((row for row in _database(call, "passwd") if row[0] == user), None)
    if row is None and user != "root":
        raise Failed(f"'{user}': no such user")
    uid, gid = (row[2], row[3]) if row and len(row) > 3 else ("0", "0")
    call.out(f"{uid}\n" if "u" in options else f"uid={uid}({user}) gid={gid}({user}) groups={gid}({user})\n")
    return 0


def getent(call: Call) -> int:
    """`getent (passwd|group|hosts|ahostsv4) KEY…`."""
    kind, *keys = call.options().operands or [""]
    if kind not in ("passwd", "group", "hosts", "ahostsv4") or not keys:
        raise NotSimulated(" ".join([kind, *keys]) or "no database")
    if kind in ("passwd", "group"):
        rows = [row for row in _database(call, kind) if row[0] in keys or row[2] in keys]
        call.out("".join(":".join(row) + "\n" for row in rows))
        return 0 if rows else 2
    status = 0
    for key in keys:
        address, names = _host(call, key, four="4" in kind)
        if not address:
            status = 2
        elif kind == "hosts":
            call.out(f"{address:<15} {' '.join(names)}\n")
        else:
            call.out(f"{address:<15} STREAM {names[0]}\n{address:<15} DGRAM\n{address:<15} RAW\n")
    return status


def _host(call: Call, key: str, *, four: bool) -> tuple[str, list[str]]:
    """Return address and names of a host: of /etc/hosts, or of the fact `dns`, which knows whole domains too."""
    text = call.files.read("/etc/hosts").decode(errors="replace") if call.files.exists("/etc/hosts") else ""
    lines = [*text.splitlines(), *call.machine.fact("dns").split(";")]
    rows = [(words[0], words[1:]) for words in (line.split("#")[0].split() for line in lines) if len(words) > 1]
    rows = [row for row in rows if not (four and ":" in row[0])]
    for address, names in rows:
        if key == address or key in names:
            return address, names
    wide = [address for address, names in rows if names[0].startswith("*.") and key.endswith(names[0][1:])]
    return (wide[0], [key]) if wide else ("", [])


def ss(call: Call) -> int:
    """`ss [-Hlntu] ['sport = :PORT']`."""
    options = call.options("Hlntu")
    filtered = re.fullmatch(r"sport = :(\d+)", " ".join(options.operands))
    if options.operands and not filtered:
        raise NotSimulated(" ".join(options.operands))
    rows = [("UNCONN", f"127.0.0.1:{_TIME}")] if "u" in options else []
    if "t" in options or "u" not in options:
        rows += [("LISTEN", f"0.0.0.0:{port}") for port in sorted(call.machine.listening())]
    if "H" not in options:
        call.out("State  Recv-Q Send-Q Local Address:Port Peer Address:Port\n")
    for state, local in rows:
        if filtered is None or local.endswith(f":{filtered[1]}"):
            call.out(f"{state} 0      128    {local} 0.0.0.0:*\n")
    return 0


def nc(call: Call) -> int:
    """`nc -z [-w SECONDS] HOST PORT`: whether somebody listens there."""
    options = call.options("zw:")
    if "z" not in options:
        raise NotSimulated("anything but -z")
    if len(options.operands) != 2 or not options.operands[1].isdigit():
        raise Failed("a host and a port are needed")
    return 0 if call.machine.reaches(options.operands[0], int(options.operands[1])) else 1
