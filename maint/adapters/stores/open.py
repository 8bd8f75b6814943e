"""Open the store that a location names."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from maint.adapters.stores.local import LocalStore
from maint.config.actor import account
from maint.config.schema import BackupSettings, HostSettings, SshSettings
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
        return _local(location, access)
    scheme, colon, _ = location.partition(":")
    if not colon:
        raise Invalid(
            f"the store {location!r} is not an absolute path",
            hint="write it from the root on, such as /var/lib/maint/backups",
        )
    if scheme not in OPENERS:
        known = ", ".join(sorted(OPENERS))
        raise Invalid(
            f"no store is known for {scheme!r}",
            detail=[f"known: an absolute path, or {known}:"],
            hint="`maint help stores` describes each",
        )
    return OPENERS[scheme](location, access)


def _local(path: str, access: Access | None) -> Store:
    return LocalStore(Path(path), shared=access is not None and access.shared)


def _open_local(location: str, access: Access | None) -> Store:
    parts = urlsplit(location)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise Invalid(f"{location!r} is not an absolute path", hint="write file:///var/lib/maint/backups")
    return _local(unquote(parts.path), access)


def _open_sftp(location: str, access: Access | None) -> Store:
    # Late, here and below: most runs need neither library.
    from maint.adapters.ssh.connections import Connections, KeptConnection
    from maint.adapters.ssh.sftp import Sessions
    from maint.adapters.stores.sftp import SftpStore

    parts, given = _split(location, access)
    path = unquote(parts.path)
    if not parts.hostname or path in ("", "/"):
        raise Invalid(f"{location!r} names no host or no folder", hint="write sftp://USER@HOST/srv/maint")
    ssh = given.ssh or SshSettings(user=account())
    own = given.backup.sftp
    changes = {
        "user": unquote(parts.username) if parts.username else ssh.user,
        "key": own.key or ssh.key,
        "known_hosts": own.known_hosts or ssh.known_hosts,
        "jump": None,  # the way to the site's hosts; not to a backup host
        "sudo": False,
    }
    settings = ssh.model_copy(update=changes)
    connections = Connections(settings)
    host = HostSettings.model_construct(name=parts.hostname, address=parts.hostname, port=parts.port or 22)
    kept = KeptConnection(connections, connections.address(host))
    root = path.removeprefix("/~/") if path.startswith("/~/") else path
    return SftpStore(Sessions(kept, settings.command_timeout), root, location, shared=given.shared)


def _open_s3(location: str, access: Access | None) -> Store:
    from maint.adapters.stores.s3 import S3Store
    from maint.adapters.stores.s3_wire import Service

    parts, given = _split(location, access)
    if not parts.hostname or parts.port or parts.username:
        raise Invalid(f"{location!r} names no bucket", hint="write s3://BUCKET/PREFIX; backup.s3 says where that is")
    own = given.backup.s3.of(parts.netloc)
    service = Service(own, given.secrets.resolve(own.access_key), given.secrets.resolve(own.secret_key))
    return S3Store(service, parts.netloc, unquote(parts.path))


def _split(location: str, access: Access | None) -> tuple[SplitResult, Access]:
    try:
        parts = urlsplit(location)
        port = parts.port  # looked at here, since it may not be a number
    except ValueError as error:
        raise Invalid(
            f"{location!r} is not a URL", detail=[str(error)], hint="`maint help stores` shows how each is written"
        ) from None
    if access is None or parts.password is not None or port == 0:
        raise Invalid(f"{location!r} cannot be opened so", hint="keys and passwords go into the config, under backup")
    return parts, access


OPENERS: dict[str, Callable[[str, Access | None], Store]] = {"file": _open_local, "sftp": _open_sftp, "s3": _open_s3}
