"""The user who runs maint, as journals, locks and signed records name them."""

import os
import pwd
import socket


def account() -> str:
    """Return the name of this process's account, by number where it has none.

    What the environment says of it is not asked: there anybody can say anything.
    """
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # in containers
        return f"uid {os.getuid()}"


def user() -> str:
    """Return whose account runs this, and who became it by sudo: `root (ann)`."""
    name = account()
    before = os.environ.get("SUDO_USER", "")
    return f"{name} ({before})" if before.isprintable() and before not in ("", name) else name


def actor() -> str:
    """Return who runs this, as `user@host`."""
    return f"{user()}@{socket.gethostname()}"
