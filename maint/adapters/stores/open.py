"""Open the store that a location names."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from maint.adapters.stores.local import LocalStore
from maint.errors import Invalid
from maint.ports import Store


def _open_local(location: str) -> Store:
    parts = urlsplit(location)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise Invalid(f"{location!r} is no absolute path", hint="write file:///var/lib/maint/backups")
    return LocalStore(Path(unquote(parts.path)))


OPENERS: dict[str, Callable[[str], Store]] = {
    "file": _open_local,
}


def open_store(location: str) -> Store:
    """Return the store at an absolute path or at a URL whose scheme is known.

    Raises:
        Invalid: a relative path, or a scheme that is not known.
    """
    if location.startswith("/"):
        return LocalStore(Path(location))
    scheme, colon, _ = location.partition(":")
    if not colon:
        raise Invalid(
            f"the store {location!r} is no absolute path",
            hint="write it from the root on, such as /var/lib/maint/backups",
        )
    if scheme not in OPENERS:
        known = ", ".join(sorted(OPENERS))
        raise Invalid(f"no store is known for {scheme!r}", detail=[f"known: an absolute path, or {known}:"])
    return OPENERS[scheme](location)
