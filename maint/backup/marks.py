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


@lru_cache(maxsize=4096)  # a document repeats a few thousand names very often
def secret_name(name: str) -> bool:
    """Tell by its name whether a config item holds a secret."""
    low = name.lower()
    return bool(_SECRET.search(low)) and not _ABOUT.search(low)


def sensitive(name: object, flag: object) -> bool:
    """Tell whether a config item is secret: by its flag, or by its name where it carries none."""
    if isinstance(flag, bool):
        return flag
    return isinstance(name, str) and secret_name(name)


def readable(value: object) -> bool:
    """Tell whether a secret's value is really there: not missing, not empty, not the word REDACTED."""
    return value is not None and value not in ("", REDACTED)
