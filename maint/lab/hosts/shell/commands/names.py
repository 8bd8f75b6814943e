"""id, getent, groupadd, useradd, ss, nc, iptables: users, groups, hosts, who listens where, rules of the firewall."""

import re

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated, lines_of

_TIME = 323  # chronyd's own port, on loopback alone
_HIGHEST = 999  # of the numbers of system accounts


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


_FILE = "/proc/net/.iptables"  # written by the first change; until then the fact `iptables_rules` counts
_OTHER_FILE = f"{_FILE}-other"  # the same of the back end that plain iptables is not; no rules until then
_CHAINS = {
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
    "mangle": ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"),
    "raw": ("PREROUTING", "OUTPUT"),
    "security": ("INPUT", "FORWARD", "OUTPUT"),
}

Tables = dict[str, list[str]]  # by name: `:CHAIN POLICY [0:0]`, where `-` is a chain of others, and `-A CHAIN …`


def iptables(call: Call) -> int:
    """`iptables [-t TABLE] -V|-S|-P CHAIN TARGET|-F [CHAIN]|-X [CHAIN]`; `iptables-legacy`, `iptables-nft`."""
    words = call.args
    if words[:1] == ["-V"]:
        call.out(f"iptables v1.8.10 ({_backend(call)})\n")
        return 0
    name = "filter"
    if words[:1] == ["-t"]:
        name, words = (words[1:2] or [""])[0], words[2:]
    tables = _tables(call)
    if name not in tables:
        raise Failed(f"can't initialize iptables table `{name}': Table does not exist", 3)
    if words[:1] == ["-S"]:
        call.out("".join(f"{_listed(line)}\n" for line in tables[name]))
        return 0
    tables[name] = _changed(tables[name], words)
    call.files.write(_file(call), _saved(tables))
    return 0


def _listed(line: str) -> str:
    if not line.startswith(":"):
        return line
    chain, policy = line[1:].split()[:2]
    return f"-N {chain}" if policy == "-" else f"-P {chain} {policy}"


def _changed(lines: list[str], words: list[str]) -> list[str]:
    verb, chain = [*words, "", ""][:2]
    own = [line[1:].split()[0] for line in lines if line.startswith(":") and line.split()[1] == "-"]
    kernels = [line[1:].split()[0] for line in lines if line.startswith(":") and line.split()[1] != "-"]
    if verb == "-P" and len(words) == 3 and chain in kernels:
        return [f":{chain} {words[2]} [0:0]" if line.startswith(f":{chain} ") else line for line in lines]
    if verb == "-F" and len(words) < 3:
        return [line for line in lines if line.startswith(":") or (chain and line.split()[1] != chain)]
    if verb != "-X" or len(words) > 2:
        raise NotSimulated(" ".join(words))
    going = [chain] if chain else own
    for gone in going:
        if gone not in own:
            raise Failed("No chain/target/match by that name.")
        if any(gone in line.split()[1:] for line in lines if line.startswith("-A")):
            raise Failed("CHAIN_USER_DEL failed (Device or resource busy): chain " + gone, 4)
    return [line for line in lines if not (line.startswith(":") and line[1:].split()[0] in going)]


def iptables_save(call: Call) -> int:
    """`iptables-save`: all tables."""
    call.options()
    call.stdout.write(_saved(_tables(call)))
    return 0


def iptables_restore(call: Call) -> int:
    """`iptables-restore`: what `iptables-save` printed, from standard input; tables that it does not name stay."""
    call.options()
    content = call.stdin.read()
    if b"COMMIT" not in content:
        raise Failed("line 1 failed: COMMIT expected")
    call.files.write(_file(call), _saved(_tables(call) | _read(lines_of(content))))
    return 0


def _backend(call: Call) -> str:
    """Return which of the two holders of rules is meant; they know nothing of each other."""
    named = {"legacy": "legacy", "nft": "nf_tables"}
    return named.get(call.name.split("-")[1] if "-" in call.name else "", call.machine.fact("iptables_backend"))


def _file(call: Call) -> str:
    return _FILE if _backend(call) == call.machine.fact("iptables_backend") else _OTHER_FILE


def _tables(call: Call) -> Tables:
    empty = {name: [f":{chain} ACCEPT [0:0]" for chain in chains] for name, chains in _CHAINS.items()}
    if call.files.exists(_file(call)):
        return empty | _read(lines_of(call.files.read(_file(call))))
    if _file(call) == _OTHER_FILE:
        return empty
    rules = [rule.strip() for rule in call.machine.fact("iptables_rules").split(";") if rule.strip()]
    empty["filter"] += [f":{rule.split()[1]} - [0:0]" for rule in rules if rule.startswith("-N ")]
    empty["filter"] += [rule for rule in rules if not rule.startswith("-N ")]
    return empty


def _read(lines: list[str]) -> Tables:
    tables: Tables = {}
    own: list[str] = []
    for number, line in enumerate(lines, 1):
        if line.startswith("*") and line[1:] in _CHAINS:
            own = tables[line[1:]] = []
        elif line.startswith((":", "-A ")):
            own.append(line)
        elif line and line != "COMMIT" and not line.startswith("#"):
            raise Failed(f"line {number} failed")
    return tables


def _saved(tables: Tables) -> bytes:
    lines = [line for name, own in tables.items() for line in (f"*{name}", *own, "COMMIT")]
    return "".join(f"{line}\n" for line in lines).encode()


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
