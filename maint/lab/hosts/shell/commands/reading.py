"""cat, head, tail, tee, wc, dd: move bytes."""

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated
from maint.lab.hosts.shell.redirection import open_stream
from maint.lab.hosts.shell.streams import Stream, decode

_BLOCK = 65536
_UNITS = {"": 1, "c": 1, "w": 2, "b": 512, "k": 1024, "K": 1024, "kB": 1000, "M": 1 << 20, "MB": 10**6, "G": 1 << 30}


def cat(call: Call) -> int:
    """`cat [FILE…]`."""
    operands = call.options("u").operands or ["-"]
    return call.each(operands, lambda operand: _copy(call, call.open(operand)))


def _copy(call: Call, stream: Stream) -> None:
    while data := stream.read(_BLOCK):
        call.state.life.check()
        call.stdout.write(data)


def _counted(call: Call) -> tuple[str, str, list[str]]:
    """Return unit, count and operands of head and tail; `-20` is `-n 20`."""
    args = call.args
    if args and args[0][:1] == "-" and args[0][1:].isdigit():
        args = ["-n", args[0][1:], *args[1:]]
    options = call.again(call.name, args).options("qv", "nc")
    unit = options.order("n", "c") or "n"
    count = options.get(unit, "10")
    if not count.lstrip("+-").isdigit():
        raise Failed(f"invalid number of lines: '{count}'")
    return unit, count, options.operands


def head(call: Call) -> int:
    """`head [-n LINES] [-c BYTES] [FILE…]`."""
    unit, count, operands = _counted(call)

    def show(operand: str) -> None:
        _title(call, operands, operand)
        stream = call.open(operand)
        number = int(count)
        if number < 0:
            _all_but(call, stream, unit, number)
        elif unit == "c":
            call.stdout.write(_exactly(stream, number))
        else:
            for _ in range(number):
                call.stdout.write(stream.readline())

    return call.each(operands or ["-"], show)


def _all_but(call: Call, stream: Stream, unit: str, number: int) -> None:
    data = stream.read()
    call.stdout.write(data[:number] if unit == "c" else b"".join(data.splitlines(keepends=True)[:number]))


def tail(call: Call) -> int:
    """`tail [-n LINES] [-c BYTES] [FILE…]`."""
    unit, count, operands = _counted(call)

    def show(operand: str) -> None:
        _title(call, operands, operand)
        data = call.open(operand).read()
        pieces = [data[i : i + 1] for i in range(len(data))] if unit == "c" else data.splitlines(keepends=True)
        number = int(count.lstrip("+-"))
        start = number - 1 if count.startswith("+") else len(pieces) - number
        call.stdout.write(b"".join(pieces[max(0, start) :]))

    return call.each(operands or ["-"], show)


def _title(call: Call, operands: list[str], operand: str) -> None:
    if len(operands) > 1:
        call.out(("" if operand == operands[0] else "\n") + f"==> {operand} <==\n")


def _exactly(stream: Stream, size: int) -> bytes:
    parts = b""
    while len(parts) < size and (data := stream.read(size - len(parts))):
        parts += data
    return parts


def tee(call: Call) -> int:
    """`tee [-a] FILE…`."""
    options = call.options("ai")
    targets = [open_stream(call.state, call.files, o, ">>" if "a" in options else ">") for o in options.operands]
    try:
        while data := call.stdin.read(_BLOCK):
            for target in [call.stdout, *targets]:
                target.write(data)
    finally:
        for target in targets:
            target.close()
    return 0


def wc(call: Call) -> int:
    """`wc [-lwcm] [FILE…]`."""
    options = call.options("lwcm")
    wanted = [kind for kind in "lwmc" if kind in options] or ["l", "w", "c"]
    inputs = call.inputs(options.operands)
    rows = [(name, _counts(data, wanted)) for name, data in inputs.each()]
    if len(rows) > 1:
        rows.append(("total", [sum(column) for column in zip(*(c for _, c in rows), strict=True)]))
    width = 1 if len(wanted) == 1 and len(rows) == 1 else 7 if rows and rows[0][0] == "-" else 1
    for name, counts in rows:
        call.out(" ".join(f"{n:{width}}" for n in counts) + ("" if name == "-" else f" {name}") + "\n")
    return inputs.status


def _counts(data: bytes, wanted: list[str]) -> list[int]:
    known = {"l": data.count(b"\n"), "w": len(data.split()), "c": len(data), "m": len(decode(data))}
    return [known[kind] for kind in wanted]


def dd(call: Call) -> int:
    """`dd if= of= bs= count= skip= conv=fsync,notrunc status=none`, in blocks."""
    known = {"if", "of", "bs", "count", "skip", "conv", "status", "iflag", "oflag"}
    given = dict(arg.split("=", 1) for arg in call.args if "=" in arg)
    for name in given.keys() - known:
        raise NotSimulated(f"operand {name}=")
    if "notrunc" in given.get("conv", ""):
        raise NotSimulated("conv=notrunc")
    size = _size(given.get("bs", "512"))
    source = call.open(given.get("if", "-"))
    target = open_stream(call.state, call.files, given["of"], ">") if "of" in given else call.stdout
    _exactly(source, size * int(given.get("skip", "0")))
    moved, left = 0, int(given["count"]) if "count" in given else -1
    while left != 0 and (data := _exactly(source, size)):
        call.state.life.check()
        target.write(data)
        moved, left = moved + len(data), left - 1
    if given.get("status") != "none":
        blocks = f"{moved // size}+{int(moved % size > 0)}"
        call.stderr.write(f"{blocks} records in\n{blocks} records out\n{moved} bytes copied\n".encode())
    return 0


def _size(text: str) -> int:
    digits = text.rstrip("cwbkKMGB")
    if not digits.isdigit() or text[len(digits) :] not in _UNITS:
        raise Failed(f"invalid number: '{text}'")
    return int(digits) * _UNITS[text[len(digits) :]]
