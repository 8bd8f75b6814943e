"""What every way of telling is given beside its settings and the notice."""

from collections.abc import Callable

import msgspec

from maint.model.notice import Notice
from maint.ports import Secrets


class Say(msgspec.Struct, frozen=True):
    """How a notice is put, and where secrets come from."""

    secrets: Secrets
    text: Callable[[Notice], str]
    body: Callable[[str, Notice], bytes]  # of a format and a notice
