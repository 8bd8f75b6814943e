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

# ruff: noqa: E402 - only now may it be loaded
from paramiko import Channel as Channel
from paramiko import Message as Message
from paramiko import MissingHostKeyPolicy as MissingHostKeyPolicy
from paramiko import PKey as PKey
from paramiko import SFTPAttributes as SFTPAttributes
from paramiko import SFTPClient as SFTPClient
from paramiko import SFTPError as SFTPError
from paramiko import SSHClient as SSHClient
from paramiko import Transport as Transport
from paramiko import sftp as sftp
from paramiko.packet import Packetizer as Packetizer
from paramiko.ssh_exception import AuthenticationException as AuthenticationException
from paramiko.ssh_exception import SSHException as SSHException
