"""cat, head, tail, wc, sort, tr, seq, sha256sum, base64, tar: bytes in, bytes out."""

import base64 as codec
import binascii
import hashlib
import io
import re
import tarfile

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated, lines_of
from maint.lab.hosts.shell.state import Stream, decode, encode
from maint.lab.hosts.shell.tree import Entry

_BLOCK = 65536


def cat(call: Call) -> int:
    """`cat [FILE…]`."""
    return call.each(call.options().operands or ["-"], lambda operand: _copy(call, call.open(operand)))


def _copy(call: Call, stream: Stream) -> None:
    while data := stream.read(_BLOCK):
        call.state.lifetime.check()
        call.stdout.write(data)


def head(call: Call) -> int:
    """`head [-n LINES] [FILE…]`."""
    options = call.options("n:")
    count = _count(options.get("n", "10"))

    def show(operand: str) -> None:
        stream = call.open(operand)
        for _ in range(count):
            call.stdout.write(stream.readline())

    return call.each(options.operands or ["-"], show)


def tail(call: Call) -> int:
    """`tail [-n LINES | -c BYTES] [FILE…]`."""
    options = call.options("n:c:")

    def show(operand: str) -> None:
        data = call.open(operand).read()
        count = _count(options.get("c") or options.get("n", "10"))
        lines = data.splitlines(keepends=True)
        call.stdout.write(data[max(0, len(data) - count) :] if "c" in options else b"".join(lines[-count:]))

    return call.each(options.operands or ["-"], show)


def _count(text: str) -> int:
    if not text.isdigit():
        raise NotSimulated(f"number {text}")
    return int(text)


def wc(call: Call) -> int:
    """`wc -l [FILE…]`."""
    options = call.options("l")
    if "l" not in options:
        raise NotSimulated("wc without -l")

    def show(operand: str) -> None:
        count = call.open(operand).read().count(b"\n")
        call.out(f"{count}\n" if operand == "-" else f"{count} {operand}\n")

    return call.each(options.operands or ["-"], show)


def sort(call: Call) -> int:
    """`sort [-nru] [FILE…]`."""
    options = call.options("nru")
    content, status = call.content(options.operands)

    def key(line: str) -> tuple[float, bytes]:
        number = re.match(r"\s*-?\d+(\.\d+)?", line) if "n" in options else None
        return float(number[0]) if number else 0.0, encode(line)

    lines = lines_of(content)
    ordered = sorted(set(lines) if "u" in options else lines, key=key, reverse="r" in options)
    call.out("".join(line + "\n" for line in ordered))
    return status


def tr(call: Call) -> int:
    """`tr CHARACTER CHARACTER`, each as it is or as an octal or letter escape."""
    signs = [decode(_sign(operand)) for operand in call.options().operands]
    if len(signs) != 2 or any(len(sign) != 1 for sign in signs):
        raise NotSimulated("anything but one character for another")
    call.out(decode(call.stdin.read()).replace(signs[0], signs[1]))
    return 0


def _sign(text: str) -> bytes:
    named = {"\\n": b"\n", "\\t": b"\t", "\\\\": b"\\"}
    return named.get(text) or (bytes([int(text[1:], 8)]) if re.fullmatch(r"\\[0-7]{1,3}", text) else encode(text))


def seq(call: Call) -> int:
    """`seq [FIRST] LAST`."""
    numbers = [_count(operand) for operand in call.options().operands]
    if len(numbers) not in (1, 2):
        raise NotSimulated("seq with a step, or without a last number")
    call.out("".join(f"{number}\n" for number in range(numbers[0] if len(numbers) == 2 else 1, numbers[-1] + 1)))
    return 0


def sha256sum(call: Call) -> int:
    """`sha256sum [FILE…]`."""

    def show(operand: str) -> None:
        stream, digest = call.open(operand), hashlib.sha256()
        while data := stream.read(_BLOCK):
            digest.update(data)
        call.out(f"{digest.hexdigest()}  {operand}\n")

    return call.each(call.options().operands or ["-"], show)


def base64(call: Call) -> int:
    """`base64 -d [FILE]`."""
    options = call.options("d")
    if "d" not in options:
        raise NotSimulated("base64 without -d")
    data = call.open((options.operands or ["-"])[0]).read()
    try:
        call.stdout.write(codec.b64decode(b"".join(data.split()), validate=True))
    except binascii.Error:
        raise Failed("invalid input") from None
    return 0


def tar(call: Call) -> int:
    """`tar -c -f - [-C FOLDER] MEMBER…`: an archive on standard output."""
    options = call.options("cf:C:")
    if "c" not in options or options.get("f") != "-":
        raise NotSimulated("anything but an archive to standard output")
    folder, buffer, status = call.path(options.get("C", ".")).rstrip("/"), io.BytesIO(), 0
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for operand in options.operands:
            base = f"{folder}/{operand}".rstrip("/")
            if not call.files.exists(base, follow=False):
                call.say(f"{operand}: Cannot stat: No such file or directory")
                status = 2
                continue
            for path in call.files.walk(base):
                _add(call, archive, operand.rstrip("/") + path[len(base) :], call.files.entry(path, follow=False))
    call.stdout.write(buffer.getvalue())
    return status


def _add(call: Call, archive: tarfile.TarFile, name: str, entry: Entry) -> None:
    member = tarfile.TarInfo(name or ".")
    member.mode, member.mtime = entry.mode, int(entry.mtime)
    member.uname, member.gname = entry.user, entry.group
    content = None
    if entry.is_folder:
        member.type = tarfile.DIRTYPE
    elif entry.is_link:
        member.type, member.linkname = tarfile.SYMTYPE, call.files.link_text(entry.path)
    else:
        data = call.files.read(entry.path)
        member.size, content = len(data), io.BytesIO(data)
    archive.addfile(member, content)
