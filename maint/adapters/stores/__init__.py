"""Places for snapshots, each kind in a module of its own; opening the one that a location names."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import msgspec

from maint.adapters.stores.local import LocalStore
from maint.config.fields import STORE_URLS, STORES
from maint.config.schema import BackupSettings, SshSettings
from maint.errors import Invalid
from maint.ports import Secrets, Store


class Access(msgspec.Struct, frozen=True):
    """What opens a store that is not a local folder."""

    backup: BackupSettings  # how stores are reached
    ssh: SshSettings | None  # how the site's hosts are; what `backup` leaves open comes from here
    secrets: Secrets
    shared: bool = False  # whether of two machines exactly one may create a file


def open_store(location: str, access: Access | None = None) -> Store:
    """Return the store at an absolute path or at a URL such as sftp://maint@backup.example.internal/srv/maint.

    Local folders need no access; Invalid for a relative path, an unknown scheme, or a URL that says too little.
    """
    if location.startswith("/"):
        return LocalStore(Path(location), shared=access is not None and access.shared)
    try:
        parts = urlsplit(location)
        port = parts.port  # looked at here, since it may not be a number
    except ValueError as error:
        raise Invalid(
            f"{location!r} is not a URL", detail=[str(error)], hint="`maint help stores` shows how each is written"
        ) from None
    if parts.scheme not in STORE_URLS:
        raise Invalid(f"{location!r} is not a store", hint=f"write {STORES}; `maint help stores` describes each")
    if access is None or parts.password is not None or port == 0:
        raise Invalid(f"{location!r} cannot be opened so", hint="keys and passwords go into the config, under backup")
    # Each kind is a module called like its scheme; most runs need none of their libraries.
    opened: Callable[[SplitResult, Access], Store] = import_module(f"maint.adapters.stores.{parts.scheme}").opened
    return opened(parts, access)
