"""Read and replace files on a host with what every POSIX system has."""

import hashlib
import posixpath
import shlex

MISSING = 44
_READ = """\
p={path}
if [ -e "$p" ]; then exec cat "$p"; fi
if [ -L "$p" ]; then exit {missing}; fi
d=$p
while d=${{d%/*}}; [ -n "$d" ]; do
  if [ -e "$d" ]; then break; fi
done
if [ -d "${{d:-/}}" ] && [ ! -x "${{d:-/}}" ]; then echo "$d: not allowed to look into this folder" >&2; exit 1; fi
exit {missing}
"""
_WRITE = """\
set -eu
p={path}
if [ -L "$p" ]; then p=$(readlink -f "$p"); fi
if [ -d "$p" ]; then echo "$p is a folder" >&2; exit 1; fi
t=${{p%/*}}/{temporary}
umask 077
trap 'rm -f "$t"' EXIT
trap 'exit 1' HUP INT TERM
set -C
cat > "$t"
set +C
sum=$(sha256sum < "$t")
if [ "${{sum%% *}}" != {sha256} ]; then echo "the content did not arrive whole" >&2; exit 1; fi
if [ -e "$p" ]; then
  chown "$(stat -c %u:%g "$p")" "$t"
  chmod "$(stat -c %a "$p")" "$t"
else
  if [ "$(id -u)" = 0 ]; then chown 0:0 "$t"; fi
  chmod 0644 "$t"
fi
sync "$t" 2>/dev/null || sync
mv -f "$t" "$p"
sync "${{p%/*}}/" 2>/dev/null || sync
"""


def reading(path: str) -> str:
    """Return a script that prints a file; it exits with `MISSING` where there is none."""
    return _READ.format(path=_quoted(path), missing=MISSING)


def writing(path: str, content: bytes, token: str) -> str:
    """Return a script that replaces a file by its input, atomically; owner and mode stay, else root's and 0644.

    Where the path is a symbolic link, what it points to is replaced.

    Args:
        path: absolute.
        content: what will be sent; the script refuses anything else.
        token: makes the name of the temporary file, which lies in the same folder.
    """
    return _WRITE.format(
        path=_quoted(path),
        temporary=f".maint-{token}",
        sha256=hashlib.sha256(content).hexdigest(),
    )


def _quoted(path: str) -> str:
    if not posixpath.isabs(path) or path.endswith("/") or "\0" in path:
        raise ValueError(f"{path!r} is no absolute path of a file")
    return shlex.quote(path)
