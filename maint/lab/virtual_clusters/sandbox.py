"""Run a command with a folder at /app/mount, seen by that command alone: `python sandbox.py ROOT MOUNT WORK COMMAND…`.

A private mount namespace gets a root of its own, in memory, on which the real one is bound; only there `/app/mount` is
made. Ends with `REFUSED` where the system forbids it.
"""

import ctypes
import os
import sys
from pathlib import Path

REFUSED = 121
PROBE = "--probe"
_NEW_NAMESPACE, _NEW_USER = 0x00020000, 0x10000000
_BIND, _REC, _PRIVATE = 4096, 16384, 1 << 18


def main(words: list[str]) -> None:
    """Become the command; comes back only when the system refuses."""
    try:
        if words[0] == PROBE:
            _enter()
            _mount("tmpfs", words[1], "tmpfs", 0)
            sys.exit(0)
        root, mount, work, *command = words
        _enter()
        _furnish(Path(root), mount)
        os.chroot(root)
        os.chdir(work)
    except OSError as error:
        sys.stderr.write(f"this system allows no private mount namespace: {error}\n")
        sys.exit(REFUSED)
    os.execvp(command[0], command)


def _enter() -> None:
    """Leave the machine's mounts, as root or in a user namespace of one's own."""
    user, group = os.getuid(), os.getgid()
    if _libc().unshare(_NEW_NAMESPACE) != 0:
        _check(_libc().unshare(_NEW_NAMESPACE | _NEW_USER), "unshare")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _mount(None, "/", None, _REC | _PRIVATE)


def _furnish(root: Path, mount: str) -> None:
    root.mkdir(exist_ok=True)
    _mount("tmpfs", str(root), "tmpfs", 0)
    for entry in Path("/").iterdir():
        if entry.name != "app":
            _show(entry, root / entry.name)
    own = root / "app"
    own.mkdir()
    for entry in Path("/app").iterdir() if Path("/app").is_dir() else ():
        if entry.name != "mount":
            _show(entry, own / entry.name)
    (own / "mount").mkdir()
    _mount(mount, str(own / "mount"), None, _BIND)


def _show(entry: Path, place: Path) -> None:
    """Let an entry of the real root be seen at another place."""
    if entry.is_symlink():
        place.symlink_to(entry.readlink())
        return
    if entry.is_dir():
        place.mkdir()
    else:
        place.touch()
    _mount(str(entry), str(place), None, _BIND | _REC)


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    words = [word.encode() if word is not None else None for word in (source, target, kind)]
    _check(_libc().mount(*words, ctypes.c_ulong(flags), None), f"mount of {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


if __name__ == "__main__":
    main(sys.argv[1:])
