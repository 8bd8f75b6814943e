"""The part of a script that writes a file on a host whole: for what replaces one and for what puts a lost one back."""

import hashlib
import secrets

_LEFT_OVER = 60  # minutes after which a temporary file of ours belongs to a writer that is dead
_WHOLE = """\
find "$d" -maxdepth 1 -type f -name '.maint-????????????????' -mmin +{old} -exec rm -f '{{}}' ';' 2>/dev/null || :
t=$d/.maint-{token}
umask 077
trap 'rm -f "$t"' EXIT
trap 'exit 1' HUP INT TERM
set -C
cat > "$t"
set +C
sum=$(sha256sum < "$t")
if [ "${{sum%% *}}" != {sha256} ]; then echo "the content did not arrive whole" >&2; exit 1; fi
{own}\
sync "$t" 2>/dev/null || sync
{place}
sync "$d/" 2>/dev/null || sync
"""


def written_whole(content: bytes, own: str, place: str) -> str:
    """Return the lines that write the script's input, if it is this content, to a file in the folder `$d`, or nothing.

    Args:
        own: lines that give the temporary file, `$t`, its owner and mode.
        place: the command that gives it its name.
    """
    digest = hashlib.sha256(content).hexdigest()
    return _WHOLE.format(old=_LEFT_OVER, token=secrets.token_hex(8), sha256=digest, own=own, place=place)
