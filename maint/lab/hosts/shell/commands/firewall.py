"""iptables, iptables-save, iptables-restore: the tables of a lab host, kept as `iptables-save` prints them."""

import msgspec

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated, lines_of

_FILE = "/proc/net/.iptables"  # written by the first change; until then the fact `iptables_rules` counts
_TABLES = {
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
    "mangle": ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"),
    "raw": ("PREROUTING", "OUTPUT"),
    "security": ("INPUT", "FORWARD", "OUTPUT"),
}


class Table(msgspec.Struct):
    """One table: chains of the kernel with their policies, chains of others, and rules."""

    policies: dict[str, str]
    chains: list[str] = msgspec.field(default_factory=list)
    rules: list[str] = msgspec.field(default_factory=list)

    def listed(self) -> list[str]:
        """Return what `-S` prints."""
        kernels = [f"-P {chain} {policy}" for chain, policy in self.policies.items()]
        return [*kernels, *(f"-N {chain}" for chain in self.chains), *self.rules]


Tables = dict[str, Table]


def _write(call: Call, tables: Tables) -> None:
    call.files.write(_FILE, _saved(tables).encode())


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
        call.out("".join(f"{line}\n" for line in tables[name].listed()))
        return 0
    _change(tables[name], words)
    _write(call, tables)
    return 0


def _change(table: Table, words: list[str]) -> None:
    verb, rest = (words or [""])[0], words[1:]
    if verb == "-P" and len(rest) == 2 and rest[0] in table.policies:
        table.policies[rest[0]] = rest[1]
    elif verb == "-F" and len(rest) < 2:
        table.rules = [rule for rule in table.rules if rest and rule.split()[1] != rest[0]]
    elif verb == "-X" and len(rest) < 2:
        _drop_chains(table, rest)
    else:
        raise NotSimulated(" ".join(words))


def _drop_chains(table: Table, named: list[str]) -> None:
    for chain in named or list(table.chains):
        if chain not in table.chains:
            raise Failed("No chain/target/match by that name.")
        if any(chain in rule.split()[1:] for rule in table.rules):
            raise Failed("CHAIN_USER_DEL failed (Device or resource busy): chain " + chain, 4)
        table.chains.remove(chain)


def iptables_save(call: Call) -> int:
    """`iptables-save`: all tables."""
    call.options()
    call.out(_saved(_tables(call)))
    return 0


def iptables_restore(call: Call) -> int:
    """`iptables-restore`: what `iptables-save` printed, from standard input; tables that it does not name stay."""
    call.options()
    content = call.stdin.read()
    if not content.rstrip().endswith(b"COMMIT") and b"COMMIT" not in content:
        raise Failed("line 1 failed: COMMIT expected", 1)
    _write(call, _tables(call) | _read(lines_of(content)))
    return 0


def _tables(call: Call) -> Tables:
    empty = {name: Table(dict.fromkeys(chains, "ACCEPT")) for name, chains in _TABLES.items()}
    if call.files.exists(_FILE):
        return empty | _read(lines_of(call.files.read(_FILE)))
    rules = [rule.strip() for rule in call.machine.fact("iptables_rules").split(";") if rule.strip()]
    empty["filter"].chains = [rule.split()[1] for rule in rules if rule.startswith("-N ")]
    empty["filter"].rules = [rule for rule in rules if not rule.startswith("-N ")]
    return empty


def _read(lines: list[str]) -> Tables:
    tables: Tables = {}
    table = Table({})
    for number, line in enumerate(lines, 1):
        if line.startswith("*") and line[1:] in _TABLES:
            table = tables[line[1:]] = Table({})
        elif line.startswith(":"):
            chain, policy = line[1:].split()[:2]
            if policy == "-":
                table.chains.append(chain)
            else:
                table.policies[chain] = policy
        elif line.startswith("-A "):
            table.rules.append(line)
        elif line and line != "COMMIT" and not line.startswith("#"):
            raise Failed(f"line {number} failed", 1)
    return tables


def _saved(tables: Tables) -> str:
    lines: list[str] = []
    for name, table in tables.items():
        kernels = [f":{chain} {policy} [0:0]" for chain, policy in table.policies.items()]
        lines += [f"*{name}", *kernels, *(f":{chain} - [0:0]" for chain in table.chains), *table.rules, "COMMIT"]
    return "".join(f"{line}\n" for line in lines)
