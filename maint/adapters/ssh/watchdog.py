"""A leash for scripts: what runs on a host ends when we are gone, however we went.

SSH leaves a command running when its connection ends, and OpenSSH passes no signals on to root's commands. So the
script gets a watcher beside it, for whom the end of input, which nobody sends otherwise, means that nobody is there.
"""

_HEAD = b"maint_visit() {\n:\n"
# One command, so that the shell has read all of it before the watcher begins to read the same input. The watcher ends
# its whole process group: only where that group is this login's own, which /proc tells.
_TAIL = b"""
}
{
maint_group= maint_session= maint_watcher=
{ read -r maint_ maint_ maint_ maint_ maint_group maint_session maint_ < /proc/$$/stat; } 2> /dev/null
if [ -n "$maint_group" ] && { [ "$maint_group" = $$ ] || [ "$maint_group" = "$maint_session" ]; }; then
  exec 3<&0
  ( read -r maint_ <&3; kill -s TERM 0 ) > /dev/null 2>&1 &
  maint_watcher=$!
  exec 3<&-
fi
maint_visit < /dev/null
maint_status=$?
[ -z "$maint_watcher" ] || kill "$maint_watcher" 2> /dev/null
exit "$maint_status"
}
"""


def leashed(script: bytes) -> bytes:
    """Return a script that ends, with all that it has started, once its input ends; it must be given no end of input.

    Args:
        script: whole commands for a POSIX shell; they find nothing on their own input.
    """
    return _HEAD + script + _TAIL
