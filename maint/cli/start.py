"""The entry point: signals, the garbage collector and core dumps are set before anything else of ours is imported."""

import gc
import io
import os
import resource
import signal
import sys
from contextlib import suppress
from typing import NoReturn

BUG = 70  # as in `errors`, which may be what cannot be loaded
_GARBAGE = 100_000  # objects that nobody may hold any more until they are looked for


def main() -> None:
    """Run the command line."""
    # A command is short: what it imports is all held, and at its end goes with the process. Looking takes a quarter of
    # its time else; `command` turns it on for the work.
    gc.disable()
    gc.set_threshold(_GARBAGE)
    # Else whatever is installed here is looked through for plugins of pydantic, which nothing of ours needs.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Until `boundary` listens, and it is ready to end in order, Ctrl-C ends a command at once and without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold the secrets of the platform
    os.environ.pop("SSLKEYLOGFILE", None)  # by what a TLS library writes there, passwords on the wire can be read
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed: the next file would have its number, and get the words
            access = os.O_RDONLY if name == "stdout" else os.O_RDWR  # data that nobody gets is not written
            setattr(sys, name, os.fdopen(os.open(os.devnull, access), mode))
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and isinstance(stream.buffer, io.RawIOBase):
            # PYTHONUNBUFFERED, as containers have it: where a disk or a pipe takes half, Python drops the rest unsaid.
            number, kind, faults = stream.fileno(), stream.encoding, stream.errors
            setattr(sys, name, os.fdopen(number, "w", encoding=kind, errors=faults, closefd=False))
    for stream in (sys.stdout, sys.stderr):
        # Whatever the locale, a program reads UTF-8, and a terminal is shown what it cannot spell as its number.
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="backslashreplace")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # half a character is a wrong answer, and no failure
    try:
        if "_MAINT_COMPLETE" in os.environ:  # a shell asks at every Tab, so nothing else is loaded
            from maint.cli.completion.names import main as run
        else:
            from maint.cli.app import main as run
    except Exception as broken:
        sys.exit(_unloadable(broken))
    try:
        run()
    except SystemExit as over:
        if isinstance(over.code, int):
            _leave(over.code)
        raise


def _unloadable(broken: Exception) -> int:
    """Say why maint cannot be loaded, without any part of it, and return its exit code."""
    import json  # a whole installation needs none of these here
    import platform
    import traceback

    from maint import __version__

    message = f"maint cannot be loaded: {broken}"
    frames = [one for one in traceback.extract_tb(broken.__traceback__) if not one.filename.startswith("<frozen")]
    detail = [f"maint {__version__}, Python {platform.python_version()}, {platform.system()}"]
    detail += [f"{one.filename}:{one.lineno} in {one.name}" for one in frames]
    hint = (
        "its installation is damaged or incomplete: install it anew, `python -m pip check` names what does not fit;"
        " where that mends nothing, send these lines with what you did"
    )
    said = "\n".join([f"error: {message}", *(f"  {line}" for line in detail), f"hint: {hint}"])
    if "json" in {word.removeprefix("-o").rpartition("=")[2] for word in sys.argv[1:]}:
        error = {"message": message, "detail": detail, "hint": hint, "exit": BUG}
        said = json.dumps({"schema": "maint/1", "error": error})
    with suppress(OSError, ValueError):
        sys.stderr.write(f"{said}\n")
    return BUG


def _leave(code: int) -> NoReturn:
    # Python does not take itself down piece by piece, which takes a short command a twentieth of its time. It would do
    # so under a thread that nobody waits for, such as one that asks a manager past a limit: within a library in C or
    # Rust that is a crash. And what a signal interrupted may have held a lock for which it would wait for ever.
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # its reader has gone, or a disk is full
            code = code or 1
    os._exit(code)
