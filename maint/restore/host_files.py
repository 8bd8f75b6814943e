"""Scripts that put one file, folder or link back on a host where it lacks, and never touch what is there."""

import hashlib
import shlex

from maint.snapshots.archive import Kind, Member

THERE = 45  # exit status: something of that name exists, so nothing was done
LACKING = 'while IFS= read -r p; do [ -e "$p" ] || [ -L "$p" ] || printf "%s\\n" "$p"; done'
_BEGIN = """\
set -eu
p={path}
if [ -e "$p" ] || [ -L "$p" ]; then exit {there}; fi
mkdir -p "${{p%/*}}/"
"""
_FILE = """\
t=${{p%/*}}/.maint-{token}
umask 077
trap 'rm -f "$t"' EXIT
trap 'exit 1' HUP INT TERM
set -C
cat > "$t"
set +C
sum=$(sha256sum < "$t")
if [ "${{sum%% *}}" != {sha256} ]; then echo "the content did not arrive whole" >&2; exit 1; fi
{own}
chmod {mode:04o} "$t"
sync "$t" 2>/dev/null || sync
ln "$t" "$p"
sync "${{p%/*}}/" 2>/dev/null || sync
"""
_FOLDER = """\
t=$p
(umask 077; mkdir "$p")
{own}
chmod {mode:04o} "$p"
"""
# The names count where the host knows them, else the numbers; who is not root cannot give files away.
_OWN = """\
if [ "$(id -u)" = 0 ]; then chown {named} "$t" 2>/dev/null || chown {uid}:{gid} "$t"; fi"""


def putting_back(member: Member, content: bytes, token: str) -> str:
    """Return the script for one member of the archive; a file's content comes on its input.

    A file appears under its name whole, with its owner and mode, or not at all (`ln` refuses a name that is taken).
    """
    begin = _BEGIN.format(path=shlex.quote(member.path), there=THERE)
    if member.kind is Kind.LINK:
        return begin + f'ln -s {shlex.quote(member.target)} "$p"\n'
    named = shlex.quote(f"{member.user or member.uid}:{member.group or member.gid}")
    own = _OWN.format(named=named, uid=member.uid, gid=member.gid)
    if member.kind is Kind.FOLDER:
        return begin + _FOLDER.format(own=own, mode=member.mode)
    digest = hashlib.sha256(content).hexdigest()
    return begin + _FILE.format(token=token, sha256=digest, own=own, mode=member.mode)
