"""iptables, iptables-save, iptables-restore: the tables of a lab host, kept as `iptables-save` prints them."""

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated, lines_of

_FILE = "/proc/net/.iptables"  # written by the first change; until then the fact `iptables_rules` counts
_CHAINS = {
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
    "mangle": ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"),
    "raw": ("PREROUTING", "OUTPUT"),
    "security": ("INPUT", "FORWARD", "OUTPUT"),
}

Tables = dict[str, list[str]]  # by name: `:CHAIN POLICY [0:0]`, where `-` is a chain of others, and `-A CHAIN …`


def iptables(call: Call) -> int:
    """`iptables [-t TABLE] -V|-S|-P CHAIN TARGET|-F [CHAIN]|-X [CHAIN]`."""
    words = call.args
    if words[:1] == ["-V"]:
        call.out(f"iptables v1.8.10 ({call.machine.fact('iptables_backend')})\n")
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
    call.files.write(_FILE, _saved(tables))
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
    call.files.write(_FILE, _saved(_tables(call) | _read(lines_of(content))))
    return 0


def _tables(call: Call) -> Tables:
    empty = {name: [f":{chain} ACCEPT [0:0]" for chain in chains] for name, chains in _CHAINS.items()}
    if call.files.exists(_FILE):
        return empty | _read(lines_of(call.files.read(_FILE)))
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
