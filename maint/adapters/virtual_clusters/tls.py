"""TLS rules of a virtual cluster: its CA file, or the system's authorities."""

import ssl

from maint.adapters.manager.certificate import blind, verifying
from maint.config.schema import VirtualClusterSettings


def rules(settings: VirtualClusterSettings) -> ssl.SSLContext:
    """Return the TLS rules for virtual cluster and gateway.

    Raises:
        Invalid: the CA file cannot be read or holds no certificate.
    """
    hint = f"`ca` of the virtual cluster {settings.name} must be a PEM file"
    return blind() if settings.insecure else verifying(settings.ca, hint)
