"""sha256sum, sha512sum, sha1sum, md5sum, base64, cmp."""

import base64 as codec
import binascii
import hashlib
import re

from maint.lab.hosts.shell.call import Call, Failed
from maint.lab.hosts.shell.streams import Stream, decode


def digest(call: Call) -> int:
    """`sha256sum [-c] [FILE…]` and its kin; the name says which."""
    options = call.options("bctw", "", ("check", "status", "quiet"))
    if "c" in options or "check" in options:
        return _check(call, options.operands, "status" in options or "quiet" in options)
    return call.each(
        options.operands or ["-"], lambda operand: call.out(f"{_of(call, call.open(operand))}  {operand}\n")
    )


def _of(call: Call, stream: Stream) -> str:
    state = hashlib.new(call.name.removesuffix("sum"), usedforsecurity=False)
    while data := stream.read(1 << 20):
        state.update(data)
    return state.hexdigest()


def _check(call: Call, operands: list[str], quiet: bool) -> int:
    status = 0
    for line in call.inputs(operands).lines():
        found = re.fullmatch(r"([0-9a-f]+) [ *](.+)", line)
        if not found:
            raise Failed("no properly formatted checksum lines found")
        try:
            good = _of(call, call.open(found[2])) == found[1]
            said = "OK" if good else "FAILED"
        except OSError:
            good, said = False, "FAILED open or read"
        status = status if good else 1
        if not (quiet and good):
            call.out(f"{found[2]}: {said}\n")
    return status


def base64(call: Call) -> int:
    """`base64 [-d] [-w COLUMNS] [FILE]`."""
    options = call.options("di", "w", ("decode", "wrap="))
    data = call.open((options.operands or ["-"])[0]).read()
    if "d" in options or "decode" in options:
        try:
            call.stdout.write(codec.b64decode(b"".join(data.split()), validate=True))
        except binascii.Error:
            raise Failed("invalid input") from None
        return 0
    text = decode(codec.b64encode(data))
    width = int(options.get("w") or options.get("wrap") or 76)
    lines = [text[i : i + width] for i in range(0, len(text), width)] if width else [text]
    call.out("\n".join(lines) + ("\n" if width and text else ""))
    return 0


def cmp(call: Call) -> int:
    """`cmp [-s] FILE FILE`."""
    options = call.options("s")
    if len(options.operands) != 2:
        raise Failed("two files are needed", 2)
    try:
        one, other = (call.open(operand).read() for operand in options.operands)
    except OSError as error:
        raise Failed(f"{error.filename}: {error.strerror}", 2) from None
    if one == other:
        return 0
    if "s" not in options:
        place = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
        line = one[:place].count(b"\n") + 1
        call.out(f"{' '.join(options.operands)} differ: byte {place + 1}, line {line}\n")
    return 1
