"""cut, sort, uniq, tr, tac, seq, paste, rev: shape lines."""

import re

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated
from maint.lab.hosts.shell.formatting import unescaped
from maint.lab.hosts.shell.streams import decode, encode

_SETS = {
    "upper": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "lower": "abcdefghijklmnopqrstuvwxyz",
    "digit": "0123456789",
    "space": " \t\n\r\f\v",
    "blank": " \t",
    "alpha": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    "alnum": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
    "punct": "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
}


def cut(call: Call) -> int:
    """`cut (-d D -f LIST [-s] | -c LIST | -b LIST) [FILE…]`."""
    options = call.options("sn", "dfcb", ("output-delimiter=", "complement"))
    kind = options.order("f", "c", "b")
    if not kind or "complement" in options:
        raise NotSimulated("this use of cut")
    ranges, mark = _ranges(options.get(kind)), options.get("d", "\t")
    glue = options.get("output-delimiter", mark) if kind == "f" else ""
    inputs = call.inputs(options.operands)
    for line in inputs.lines():
        if kind == "f" and mark not in line:
            call.out("" if "s" in options else line + "\n")
            continue
        parts = line.split(mark) if kind == "f" else list(line)
        chosen = [p for n, p in enumerate(parts, 1) if any(a <= n <= b for a, b in ranges)]
        call.out(glue.join(chosen) + "\n")
    return inputs.status


def _ranges(text: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for part in text.split(","):
        if not re.fullmatch(r"\d+|\d+-\d*|-\d+", part):
            raise Failed(f"invalid list '{text}'")
        first, dash, last = part.partition("-")
        found.append((int(first or 1), int(last or (1 << 30)) if dash else int(first)))
    return found


def sort(call: Call) -> int:
    """`sort [-nruhVsf] [-t C] [-k F[,F][nr]] [FILE…]`."""
    options = call.options("nrusfVb", "tko")
    inputs = call.inputs(options.operands)
    lines = inputs.lines()
    specification = re.fullmatch(r"(\d+)(?:,(\d+))?([nr]*)", options.get("k", "1"))
    if not specification:
        raise NotSimulated(f"key {options.get('k')}")
    numeric = "n" in options or "n" in specification[3]
    first, last = int(specification[1]) - 1, int(specification[2]) if specification[2] else None

    def key(line: str) -> tuple[object, ...]:
        part = line
        if "k" in options:
            part = " ".join((line.split(options.get("t")) if "t" in options else line.split())[first:last])
        if numeric:
            number = re.match(r"\s*-?\d*\.?\d+", part)
            return (float(number[0]) if number else 0.0, b"" if "u" in options else encode(line))
        if "V" in options:
            pieces = re.findall(r"\d+|\D+", part)
            return tuple((piece.isdigit(), int(piece) if piece.isdigit() else 0, piece) for piece in pieces)
        return (encode(part.lower() if "f" in options else part), encode(line) if "u" not in options else b"")

    ordered = sorted(lines, key=key, reverse="r" in options or "r" in specification[3])
    if "u" in options:
        ordered = [line for n, line in enumerate(ordered) if n == 0 or key(line) != key(ordered[n - 1])]
    text = "".join(line + "\n" for line in ordered)
    if "o" in options:
        call.files.write(call.path(options.get("o")), encode(text))
    else:
        call.out(text)
    return inputs.status


def uniq(call: Call) -> int:
    """`uniq [-cdui] [FILE]`."""
    options = call.options("cdui")
    inputs = call.inputs(options.operands[:1])
    runs: list[tuple[str, int]] = []
    for line in inputs.lines():
        same = runs and (runs[-1][0] == line or ("i" in options and runs[-1][0].lower() == line.lower()))
        if same:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((line, 1))
    for line, count in runs:
        if ("d" in options and count == 1) or ("u" in options and count > 1):
            continue
        call.out((f"{count:7} " if "c" in options else "") + line + "\n")
    return inputs.status


def tr(call: Call) -> int:
    """`tr [-dsc] SET [SET]`."""
    options = call.options("dscC", mixed=False)
    sets = [_set(operand) for operand in options.operands]
    if not sets:
        raise Failed("missing operand")
    inside, outside = sets[0], "c" in options or "C" in options
    text = decode(call.stdin.read())

    def chosen(char: str) -> bool:
        return (char in inside) != outside

    if "d" in options:
        text = "".join(char for char in text if not chosen(char))
    elif len(sets) > 1:
        to = sets[1] or inside
        mapping = {char: to[min(place, len(to) - 1)] for place, char in reversed(list(enumerate(inside)))}
        text = "".join((to[-1] if outside else mapping[char]) if chosen(char) else char for char in text)
    if "s" in options:
        squeezed, other = sets[-1], outside and len(sets) == 1
        text = "".join(c for n, c in enumerate(text) if not (n and c == text[n - 1] and (c in squeezed) != other))
    call.out(text)
    return 0


def _set(text: str) -> str:
    text = re.sub(r"\[:(\w+):\]", lambda found: _SETS.get(found[1], ""), text)
    text = unescaped(text, zero=False)[0]
    return re.sub(
        r"(.)-(.)", lambda f: "".join(chr(c) for c in range(ord(f[1]), ord(f[2]) + 1)) or f[0], text, flags=re.DOTALL
    )


def tac(call: Call) -> int:
    """`tac [FILE…]`."""
    inputs = call.inputs(call.options().operands)
    call.out("".join(line + "\n" for line in reversed(inputs.lines())))
    return inputs.status


def seq(call: Call) -> int:
    """`seq [FIRST [STEP]] LAST`, whole numbers."""
    numbers = [int(arg) for arg in call.args if re.fullmatch(r"-?\d+", arg)]
    if len(numbers) != len(call.args) or not 1 <= len(numbers) <= 3:
        raise NotSimulated(" ".join(call.args) or "no operand")
    first, last = (1, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[-1])
    step = numbers[1] if len(numbers) == 3 else 1
    call.out("".join(f"{n}\n" for n in range(first, last + (1 if step > 0 else -1), step)))
    return 0


def paste(call: Call) -> int:
    """`paste -s [-d C] [FILE…]`."""
    options = call.options("s", "d")
    if "s" not in options:
        raise NotSimulated("paste without -s")
    for name in options.operands or ["-"]:
        call.out(options.get("d", "\t").join(call.inputs([name]).lines()) + "\n")
    return 0
