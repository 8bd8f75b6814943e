"""TLS rules of a virtual cluster: its CA file, or the system's authorities."""

import ssl

from maint.adapters.manager.certificate import blind
from maint.errors import Invalid
from maint.model.site import VirtualClusterSettings


def rules(settings: VirtualClusterSettings) -> ssl.SSLContext:
    """Return the TLS rules for virtual cluster and gateway.

    Raises:
        Invalid: the CA file cannot be read or holds no certificate.
    """
    if settings.insecure:
        return blind()
    try:
        context = ssl.create_default_context(cafile=str(settings.ca) if settings.ca else None)
    except (OSError, ssl.SSLError) as error:
        raise Invalid(
            f"the CA file {settings.ca} cannot be used: {error.strerror or error}",
            hint=f"`ca` of the virtual cluster {settings.name} must be a PEM file",
        ) from None
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the utility's self-signed certificates lack extensions (11.3)
    return context
