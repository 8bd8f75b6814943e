"""What a virtual cluster and its gateway show to whoever connects: their certificates, believed or not."""

import contextlib
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

from maint.adapters.manager.certificate import blind
from maint.config.schema import VirtualClusterSettings

_LIMIT = 10.0  # seconds


def presented(settings: VirtualClusterSettings) -> Mapping[str, bytes]:
    """Return the certificate (DER) of each of both hosts that shows one; nothing is sent but the name."""
    found: dict[str, bytes] = {}
    for url in (settings.base_url, settings.auth_url):
        parts = urlsplit(url)
        name, place = parts.hostname or "", (parts.hostname or "", parts.port or 443)
        if settings.connect_to:
            host, _, port = settings.connect_to.rpartition(":")
            place = (host.strip("[]"), int(port))
        with (
            contextlib.suppress(OSError),
            socket.create_connection(place, _LIMIT) as plain,
            blind().wrap_socket(plain, server_hostname=name) as tls,
        ):
            found[name] = tls.getpeercert(binary_form=True) or b""
    return found
