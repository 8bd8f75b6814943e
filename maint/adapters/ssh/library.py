"""The one door to paramiko, which is loaded without what nothing here uses."""

import sys


def _load() -> None:
    """Import paramiko without Invoke.

    Its reader of ssh_config would run `Match exec` through Invoke, and for that imports asyncio, unittest and a YAML
    parser: a third of all the time and 6 MiB that paramiko takes. No ssh_config is ever read here. Fabric, where it is
    needed, finds Invoke as usual.
    """
    if "paramiko" in sys.modules or "invoke" in sys.modules:
        return
    sys.modules["invoke"] = None  # type: ignore[assignment]  # Python's own mark for "there is none"
    try:
        import paramiko  # noqa: F401 - loaded for those who import from here
    finally:
        del sys.modules["invoke"]


_load()

from paramiko import (  # noqa: E402 - only now may it be loaded
    Channel,
    Message,
    MissingHostKeyPolicy,
    PKey,
    SFTPAttributes,
    SFTPClient,
    SSHClient,
    Transport,
)
from paramiko.packet import Packetizer  # noqa: E402 - as above
from paramiko.sftp import (  # noqa: E402 - as above
    CMD_CLOSE,
    CMD_DATA,
    CMD_EXTENDED,
    CMD_INIT,
    CMD_OPEN,
    CMD_READ,
    CMD_STATUS,
    CMD_VERSION,
    CMD_WRITE,
    SFTP_FLAG_CREATE,
    SFTP_FLAG_EXCL,
    SFTP_FLAG_READ,
    SFTP_FLAG_WRITE,
    SFTPError,
    int64,
)
from paramiko.ssh_exception import AuthenticationException, SSHException  # noqa: E402 - as above

__all__ = [
    "CMD_CLOSE",
    "CMD_DATA",
    "CMD_EXTENDED",
    "CMD_INIT",
    "CMD_OPEN",
    "CMD_READ",
    "CMD_STATUS",
    "CMD_VERSION",
    "CMD_WRITE",
    "SFTP_FLAG_CREATE",
    "SFTP_FLAG_EXCL",
    "SFTP_FLAG_READ",
    "SFTP_FLAG_WRITE",
    "AuthenticationException",
    "Channel",
    "Message",
    "MissingHostKeyPolicy",
    "PKey",
    "Packetizer",
    "SFTPAttributes",
    "SFTPClient",
    "SFTPError",
    "SSHClient",
    "SSHException",
    "Transport",
    "int64",
]
