"""What marks a value of a deployment document as secret (contract section 7.1).

From API 14 on each config item says `sensitive` itself. Before that nothing is flagged, and a peer's password and
a user's hash never are: there only names tell.
"""

import re
from functools import lru_cache

REDACTED = "REDACTED"
# Fields that are secret wherever they stand: of users (contract section 7.2) and of peers.
SECRET_FIELDS = frozenset({"password", "pwHash", "pwSalt"})

_SECRET = re.compile(
    r"pass(?:word|wd|phrase|code)|secret|(?:^|_)pw(?:$|_)|token$|credentials?$|private_?key$|api_?key$|access_?key$"
)
# Names that speak about a secret without being one: where it lies, how long it lasts, that a warning is suppressed.
_ABOUT = re.compile(
    r"suppression|_(?:path|file|location|dir|url|user|username|type|algorithm|enabled|interval|length|lifetime"
    r"|expiry|policy|name|script|provider)$"
)

# A fingerprint of ours, stars or dots, the word in another spelling.
_MASK = re.compile(r"fp:[0-9a-f]{16}|[*•]{3,}|\W?(?i:redacted)\W?")
_MASKS = frozenset("f*•rR<[({")
_ODD = _MASKS | {""}


@lru_cache(maxsize=4096)  # a document repeats a few thousand names very often
def secret_name(name: str) -> bool:
    """Tell by its name whether a config item holds a secret."""
    low = name.lower()
    return bool(_SECRET.search(low)) and not _ABOUT.search(low)


def sensitive(name: object, flag: object) -> bool:
    """Tell whether a config item is secret: by its flag, or by its name where it carries none.

    A flag that is neither yes nor no is taken for yes: what may be secret is not shown.
    """
    if isinstance(flag, bool):
        return flag
    return bool(flag) or (isinstance(name, str) and secret_name(name))


def hidden(name: object, value: object, flag: object) -> bool:
    """Tell whether a config item's value stands in a secret's place: the server's word for it, or a mask.

    A flag says what the server hides; it does not prove that nothing was hidden. So the word counts where the name
    tells of a secret, even if the flag denies it. On any other item so flagged it is a text like another.
    """
    if value == REDACTED:
        return flag is not False or (isinstance(name, str) and secret_name(name))
    return masked(value) and sensitive(name, flag)


def readable(value: object) -> bool:
    """Tell whether a secret's value is really there: not missing, not empty, nothing that stands in its place."""
    return value is not None and value not in ("", REDACTED) and not masked(value)


def plainly_readable(value: object) -> bool:
    """Tell by a look at its beginning that a value is `readable`; most are, and a large export holds very many."""
    return isinstance(value, str) and value[:1] not in _ODD


def masked(value: object) -> bool:
    """Tell whether a value is one that stands in a secret's place in displays and in redacted copies of ours.

    No server is known to write them into an export (contract section 7.1); but documents pass through hands.
    """
    return isinstance(value, str) and value[:1] in _MASKS and bool(_MASK.fullmatch(value))
