"""readlink, realpath, basename, dirname, which: names of files."""

from maint.lab.hosts.shell.call import Call, Failed


def readlink(call: Call) -> int:
    """`readlink [-f|-e|-m] [-n] PATH…`."""
    options = call.options("fenmqsz")
    end = "" if "n" in options else "\n"
    status = 0
    for operand in options.operands:
        try:
            if "f" in options or "e" in options or "m" in options:
                found = call.files.canonical(call.path(operand))
                if "e" in options:
                    call.files.entry(found)
            else:
                found = call.files.link_text(call.path(operand))
        except OSError:
            status = 1
            continue
        call.out(found + end)
    return status


def realpath(call: Call) -> int:
    """`realpath [-e] [-m] [-s] PATH…`."""
    options = call.options("eq")

    def show(operand: str) -> None:
        found = call.files.canonical(call.path(operand))
        if "e" in options:
            call.files.entry(found)
        call.out(found + "\n")

    return call.each(options.operands, show)


def basename(call: Call) -> int:
    """`basename PATH [SUFFIX]`."""
    operands = call.options().operands
    if not operands:
        raise Failed("missing operand")
    name = operands[0].rstrip("/").rsplit("/", 1)[-1] or ("/" if operands[0] else "")
    suffix = operands[1] if len(operands) > 1 else ""
    call.out((name.removesuffix(suffix) if suffix and name != suffix else name) + "\n")
    return 0


def dirname(call: Call) -> int:
    """`dirname PATH…`."""
    for operand in call.options().operands:
        trimmed = operand.rstrip("/")
        folder = trimmed.rsplit("/", 1)[0].rstrip("/") if "/" in trimmed else ""
        call.out((folder or ("/" if operand.startswith("/") else ".")) + "\n")
    return 0


def which(call: Call) -> int:
    """`which NAME…`."""
    status = 0
    for name in call.options("a").operands:
        path = call.runner.which(name)
        if path is None:
            status = 1
        else:
            call.out(path + "\n")
    return status
