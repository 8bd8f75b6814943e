"""tar and gzip; members never leave the tree, whatever they are called."""

import gzip as codec
import io
import tarfile
import zlib

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated, Options
from maint.lab.hosts.shell.patterns import matches
from maint.lab.hosts.shell.tree import Entry

_FLAGS = "cxtzvpPOhS"


def tar(call: Call) -> int:
    """`tar (c|x|t) [-z] [-v] [-O] [-C FOLDER] [-f FILE|-] [--exclude P] [--owner …] [MEMBER…]`."""
    args = list(call.args)
    if args and not args[0].startswith("-"):
        args[0] = "-" + args[0]
    long = ("exclude=", "gzip", "numeric-owner", "create", "extract", "list", "file=", "directory=", "no-same-owner")
    options = call.again(call.name, args).options(_FLAGS, "fCT", long)
    kinds = [k for k, name in (("c", "create"), ("x", "extract"), ("t", "list")) if k in options or name in options]
    if len(kinds) != 1 or "T" in options:
        raise NotSimulated("this use of tar") if kinds else Failed("You must specify one of the options", 2)
    if kinds[0] == "c":
        return _create(call, options)
    return _read(call, options, extract=kinds[0] == "x")


def _folder(call: Call, options: Options) -> str:
    folder = call.path(options.get("C") or options.get("directory") or ".")
    if not call.files.exists(folder) or not call.files.entry(folder).is_folder:
        raise Failed(f"{folder}: Cannot open: No such file or directory", 2)
    return folder


def _create(call: Call, options: Options) -> int:
    folder, buffer, status = _folder(call, options), io.BytesIO(), 0
    gzip = "z" in options or "gzip" in options
    with tarfile.open(fileobj=buffer, mode="w:gz" if gzip else "w", format=tarfile.GNU_FORMAT) as archive:
        for operand in options.operands:
            base = operand if operand.startswith("/") else f"{folder.rstrip('/')}/{operand}"
            if not call.files.exists(base, follow=False):
                call.say(f"{operand}: Cannot stat: No such file or directory")
                status = 2
                continue
            for path in call.files.walk(base.rstrip("/")):
                name = (operand.rstrip("/") + path[len(base.rstrip("/")) :]).lstrip("/")
                if not any(matches(p, name) or matches(p, name.rsplit("/", 1)[-1]) for p in options.all("exclude")):
                    _add(call, archive, name, call.files.entry(path, follow=False))
                    _told(call, options, name)
    target = options.get("f") or options.get("file") or "-"
    if target == "-":
        call.stdout.write(buffer.getvalue())
    else:
        call.files.write(call.path(target), buffer.getvalue())
    return status


def _told(call: Call, options: Options, name: str) -> None:
    if "v" in options:
        archive_on_stdout = "c" in options and (options.get("f") or options.get("file") or "-") == "-"
        (call.stderr if archive_on_stdout else call.stdout).write(f"{name}\n".encode())


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


def _read(call: Call, options: Options, *, extract: bool) -> int:
    folder = _folder(call, options)
    source = options.get("f") or options.get("file") or "-"
    data = io.BytesIO(call.open(source).read())
    found: set[str] = set()
    try:
        with tarfile.open(fileobj=data, mode="r:*") as archive:
            for member in archive:
                wanted = [
                    o for o in options.operands if member.name == o or member.name.startswith(o.rstrip("/") + "/")
                ]
                if options.operands and not wanted:
                    continue
                found.update(wanted)
                if extract:
                    _extract(call, options, archive, member, folder)
                else:
                    call.out(member.name + ("/" if member.isdir() else "") + "\n")
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise Failed(f"This does not look like a tar archive ({error})", 2) from None
    for name in [o for o in options.operands if o not in found]:
        call.say(f"{name}: Not found in archive")
    return 0 if found == set(options.operands) else 2


def _extract(call: Call, options: Options, archive: tarfile.TarFile, member: tarfile.TarInfo, folder: str) -> None:
    name = member.name.lstrip("/")
    if ".." in name.split("/"):
        raise Failed(f"{member.name}: Member name contains '..'", 2)
    files, path = call.files, f"{folder.rstrip('/')}/{name}"
    if "O" in options:
        content = archive.extractfile(member)
        call.stdout.write(content.read() if content else b"")
        return
    if member.isdir():
        files.make_folders(path)
    else:
        files.make_folders(path.rsplit("/", 1)[0] or "/")
        if files.exists(path, follow=False):
            files.remove(path)
        if member.issym():
            files.link(member.linkname, path)
            return
        if member.islnk():
            files.hard_link(f"{folder.rstrip('/')}/{member.linkname.lstrip('/')}", path)
            return
        if not member.isfile():
            raise NotSimulated(f"special file {member.name}")
        content = archive.extractfile(member)
        files.write(path, content.read() if content else b"")
    files.own(path, member.mode & 0o7777, member.uname or None, member.gname or None)
    files.touch(path, float(member.mtime))
    _told(call, options, member.name)


def gzip(call: Call) -> int:
    """`gzip [-c] [-d]`, `gunzip`, `zcat`: as filters, or to standard output."""
    options = call.options("cdfkn123456789")
    unpack = "d" in options or call.name in ("gunzip", "zcat")
    if options.operands and not ("c" in options or call.name == "zcat"):
        raise NotSimulated("gzip in place")
    for _, data in call.inputs(options.operands).each():
        try:
            call.stdout.write(codec.decompress(data) if unpack else codec.compress(data, mtime=0))
        except (OSError, EOFError, zlib.error):
            raise Failed("not in gzip format") from None
    return 0
