"""mkdir, rm, rmdir, mv, cp, ln, touch, install, mktemp, truncate: make, move and remove files."""

import errno
import os
import secrets
import string
from collections.abc import Callable

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated, Options
from maint.lab.hosts.shell.commands.disks import mounts
from maint.lab.hosts.shell.commands.modes import changed_mode
from maint.lab.hosts.shell.tree import Entry, failure

Pair = tuple[str, str]


def mkdir(call: Call) -> int:
    """`mkdir [-p] [-m MODE] FOLDER…`."""
    options = call.options("pv", "m", ("parents", "mode="))
    usual = 0o777 & ~call.state.umask
    mode = options.get("m") or options.get("mode")
    wanted = changed_mode(mode, 0o777, folder=True) if mode else usual

    def make(operand: str) -> None:
        path = call.path(operand)
        if "p" in options or "parents" in options:
            parent = path.rstrip("/").rsplit("/", 1)[0] or "/"
            call.files.make_folders(parent, usual, call.state.user)
            call.files.make_folders(path, wanted, call.state.user)
        else:
            call.files.make_folder(path, wanted, call.state.user)

    return call.each(options.operands, make)


def rm(call: Call) -> int:
    """`rm [-rf] FILE…`; `/` and the folder one stands in are refused as coreutils does."""
    options = call.options("rRfvid", "", ("recursive", "force", "one-file-system"))
    force = "f" in options or "force" in options
    recursive = any(name in options for name in ("r", "R", "recursive"))

    def remove(operand: str) -> None:
        if operand.rstrip("/").rsplit("/", 1)[-1] in (".", ".."):
            raise failure(errno.EINVAL, operand)
        path = call.path(operand)
        try:
            entry = call.files.entry(path.rstrip("/") or "/", follow=False)
        except OSError as error:
            if force and error.errno in (errno.ENOENT, errno.ENOTDIR):
                return
            raise
        _remove(call, entry, recursive, one_volume="one-file-system" in options)

    if not options.operands and not force:
        raise Failed("missing operand")
    return call.each(options.operands, remove)


def _remove(call: Call, entry: Entry, recursive: bool, *, one_volume: bool) -> None:
    if not entry.is_folder:
        call.files.remove(entry.path)
    elif recursive:
        _remove_below(call, entry, {m.target for m in mounts(call)}, one_volume=one_volume)
    else:
        raise failure(errno.EISDIR, entry.path)


def _remove_below(call: Call, entry: Entry, mounted: set[str], *, one_volume: bool) -> None:
    """Remove a folder; what is mounted in it loses its content, unless it is left alone, and is itself never removed.

    Raises:
        OSError: EBUSY, once all else is gone.
    """
    files, kept = call.files, entry.path if entry.path in mounted else ""
    if not any(f"{target}/".startswith(f"{entry.path}/") for target in mounted):
        files.remove_folder(entry.path, all_below=True)
        return
    for name in files.names(entry.path):
        child = files.entry(f"{entry.path.rstrip('/')}/{name}", follow=False)
        try:
            if child.is_folder and not (one_volume and child.path in mounted):
                _remove_below(call, child, mounted, one_volume=one_volume)
            elif child.is_folder:
                kept = child.path
            else:
                files.remove(child.path)
        except OSError as error:
            kept = str(error.filename)
    if kept:
        raise failure(errno.EBUSY, kept)
    files.remove_folder(entry.path)


def rmdir(call: Call) -> int:
    """`rmdir FOLDER…`."""
    options = call.options()
    return call.each(options.operands, lambda operand: call.files.remove_folder(call.path(operand)))


def _targets(call: Call, options: Options) -> list[Pair]:
    """Return pairs of source and final target for mv, cp, ln and install."""
    operands = list(options.operands)
    folder = options.get("t") if "t" in options else None
    if folder is None:
        if len(operands) < 2:
            raise Failed("missing destination file operand")
        last = operands.pop()
        if "T" in options or not _folder(call, last, follow="n" not in options):
            if len(operands) > 1:
                raise Failed(f"target '{last}' is not a directory")
            return [(operands[0], call.path(last))]
        folder = last
    return [(o, f"{call.path(folder).rstrip('/')}/{o.rstrip('/').rsplit('/', 1)[-1]}") for o in operands]


def _folder(call: Call, operand: str, *, follow: bool = True) -> bool:
    try:
        return call.files.entry(call.path(operand), follow=follow).is_folder
    except OSError:
        return False


def mv(call: Call) -> int:
    """`mv [-fnT] SOURCE… TARGET`."""
    options = call.options("fT", "t")

    def move(pair: Pair) -> None:
        call.files.rename(call.path(pair[0]), pair[1])

    return _each_pair(call, _targets(call, options), move)


def _each_pair(call: Call, pairs: list[Pair], work: Callable[[Pair], None]) -> int:
    by_source = dict(pairs)
    return call.each(list(by_source), lambda source: work((source, by_source[source])))


def cp(call: Call) -> int:
    """`cp [-aprRfT] SOURCE… TARGET`."""
    options = call.options("aprRfdTP", "t", ("preserve=", "no-preserve=", "archive"))
    archive = "a" in options or "archive" in options
    recursive = archive or "r" in options or "R" in options
    keep = archive or "p" in options or "preserve" in options
    as_link = archive or "d" in options or "P" in options

    def copy(pair: Pair) -> None:
        entry = call.files.entry(call.path(pair[0]), follow=not as_link)
        if entry.is_folder and not recursive:
            raise OSError(errno.EISDIR, f"-r not specified; omitting directory '{pair[0]}'", pair[0])
        if pair[1] == entry.path or (pair[1].startswith(entry.path.rstrip("/") + "/") and entry.is_folder):
            raise OSError(errno.EINVAL, "cannot copy a file or directory onto or into itself", pair[0])
        _copy(call, entry, pair[1], keep, as_link or recursive)

    return _each_pair(call, _targets(call, options), copy)


def _copy(call: Call, entry: Entry, target: str, keep: bool, as_link: bool) -> None:
    files = call.files
    if entry.is_link and as_link:
        if files.exists(target, follow=False):
            files.remove(target)
        files.link(files.link_text(entry.path), target)
        return
    if entry.is_folder:
        files.make_folders(target, entry.mode & ~call.state.umask, call.state.user)
        for name in files.names(entry.path):
            child = files.entry(f"{entry.path.rstrip('/')}/{name}", follow=False)
            _copy(call, child, f"{target.rstrip('/')}/{name}", keep, as_link)
    else:
        _copy_bytes(call, entry, target)
    if keep:
        files.own(target, entry.mode, entry.user, entry.group)
        files.touch(target, entry.mtime)


def _copy_bytes(call: Call, entry: Entry, target: str) -> None:
    mode = entry.mode & 0o777 & ~call.state.umask
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with (
        call.files.open(entry.path, os.O_RDONLY) as source,
        call.files.open(target, flags, mode, call.state.user) as out,
    ):
        if call.files.is_full:
            raise failure(errno.ENOSPC, target)
        while data := source.read(1 << 20):
            out.write(data)


def ln(call: Call) -> int:
    """`ln [-sfnT] TARGET LINK`."""
    options = call.options("sfnT")
    operands = options.operands
    if len(operands) == 1:
        options = call.again("ln", [*call.args, "."]).options("sfnT")

    def link(pair: Pair) -> None:
        if "f" in options and call.files.exists(pair[1], follow=False):
            call.files.remove(pair[1])
        if "s" in options:
            call.files.link(pair[0], pair[1])
        else:
            call.files.hard_link(call.path(pair[0]), pair[1])

    return _each_pair(call, _targets(call, options), link)


def touch(call: Call) -> int:
    """`touch [-c] FILE…`, to the time now."""
    options = call.options("cam")

    def stamp(operand: str) -> None:
        path = call.path(operand)
        if not call.files.exists(path):
            if "c" in options:
                return
            flags = os.O_WRONLY | os.O_CREAT
            call.files.open(path, flags, 0o666 & ~call.state.umask, call.state.user).close()
        call.files.touch(path, call.machine.clock())

    return call.each(options.operands, stamp)


def install(call: Call) -> int:
    """`install [-d] [-m MODE] [-o USER] [-g GROUP] [-D] SOURCE TARGET`."""
    options = call.options("dDpcvT", "mogt")
    mode = changed_mode(options.get("m", "755"), 0, folder="d" in options)
    user, group = options.get("o", call.state.user), options.get("g", call.state.user)

    def place(pair: Pair) -> None:
        if "D" in options:
            call.files.make_folders(pair[1].rsplit("/", 1)[0] or "/")
        staging = f"{pair[1]}.{secrets.token_hex(4)}"
        _copy_bytes(call, call.files.entry(call.path(pair[0])), staging)
        call.files.own(staging, mode, user, group)
        call.files.rename(staging, pair[1])

    def make(operand: str) -> None:
        call.files.make_folders(call.path(operand))
        call.files.own(call.path(operand), mode, user, group)

    if "d" in options:
        return call.each(options.operands, make)
    return _each_pair(call, _targets(call, options), place)


def mktemp(call: Call) -> int:
    """`mktemp [-d] [-p FOLDER] [-t] [TEMPLATE]`."""
    options = call.options("dqtu", "p", ("tmpdir=",))
    template = options.operands[0] if options.operands else "tmp.XXXXXXXXXX"
    marks = len(template) - len(template.rstrip("X"))
    if marks < 3:
        raise Failed(f"too few X's in template '{template}'")
    name = template[:-marks] + "".join(secrets.choice(string.ascii_letters) for _ in range(marks))
    folder = options.get("p") or options.get("tmpdir") or call.state.variables.get("TMPDIR") or "/tmp"
    shown = name if options.operands and options.order("p", "t", "tmpdir") == "" else f"{folder.rstrip('/')}/{name}"
    if "d" in options:
        call.files.make_folder(call.path(shown), 0o700, call.state.user)
    else:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        call.files.open(call.path(shown), flags, 0o600, call.state.user).close()
    call.out(shown + "\n")
    return 0


def truncate(call: Call) -> int:
    """`truncate -s SIZE FILE…`."""
    options = call.options("c", "s")
    if not options.get("s").isdigit():
        raise NotSimulated(f"size {options.get('s')}")

    def cut(operand: str) -> None:
        with call.files.open(call.path(operand), os.O_RDWR | os.O_CREAT, 0o666 & ~call.state.umask) as file:
            file.truncate(int(options.get("s")))

    return call.each(options.operands, cut)
