"""Who runs this, as journals, locks and signed records name them."""

import getpass
import os
import socket


def user() -> str:
    """Return the name of the user who runs this; one without a name (containers) is given by number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def actor() -> str:
    """Return who runs this, as `user@host`."""
    return f"{user()}@{socket.gethostname()}"
