"""What every way of telling is given beside its settings and the notice."""

from collections.abc import Callable

import msgspec

from maint.model.notice import Notice
from maint.ports import Secrets


class Say(msgspec.Struct, frozen=True):
    """How a notice is put, where secrets come from, and the proxy on the way to addresses (None: there is none)."""

    secrets: Secrets
    text: Callable[[Notice], str]
    body: Callable[[str, Notice], bytes]  # of a format and a notice
    proxy: str | None = None
