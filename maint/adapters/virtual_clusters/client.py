"""The jobs API of one virtual cluster: all reads and all changes behind one constructor."""

import contextlib
import socket
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from maint.adapters.http.proxy import ProxyFailed, way
from maint.adapters.http.request import Call, Timeouts
from maint.adapters.http.tls import presented_der
from maint.adapters.http.transport import NotSent, Peer, Transport
from maint.adapters.virtual_clusters.calls import Calls
from maint.adapters.virtual_clusters.jobs import Jobs
from maint.adapters.virtual_clusters.resources import Resources
from maint.adapters.virtual_clusters.runs import Runs
from maint.errors import CannotReach, WorkFailed
from maint.model.virtual_cluster import Object

_LIMIT = 10.0  # seconds for a probe
_GONE = 404  # what the ingress says of a host that it does not know


class VirtualClusterClient(Jobs, Resources, Runs):
    """Talks to a virtual cluster; implements `ports.VirtualCluster`; may be used by several threads at once."""

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        self.settings = calls.settings

    def token_until(self) -> float | None:
        """Log in, and return for how many seconds the token is good; None where nothing says."""
        return self._calls.tokens.current().lifetime

    def info(self) -> Object:
        found = self._calls.json("info")
        if found is None:
            raise WorkFailed(
                f"there is no jobs API at {self.settings.base_url}",
                hint="`base_url` ends with /dex/api/v1, and a new virtual cluster needs some minutes",
            )
        return found

    def answers(self, base_url: str) -> bool:
        """Return whether a jobs API, and not just an ingress, answers at an address, without logging in."""
        try:
            return _answers(base_url, None, self._calls.proxy)
        except NotSent as failure:
            if not issubclass(failure.why, socket.gaierror | ProxyFailed) or not self.settings.connect_to:
                return issubclass(failure.why, ssl.SSLError)  # somebody is there
        with contextlib.suppress(NotSent):
            return _answers(base_url, self.settings.connect_to, self._calls.proxy)
        return False

    def certificates(self) -> Mapping[str, bytes]:
        """Return the certificates (DER) that virtual cluster and gateway show, by host, believed or not."""
        found: dict[str, bytes] = {}
        for url in (self.settings.base_url, self.settings.auth_url):
            parts = urlsplit(url)
            name = parts.hostname or ""
            with contextlib.suppress(OSError):
                place = _unverified(self.settings.connect_to, None).place(name, parts.port or 443)
                found[name] = presented_der(place, name, proxy=way(self._calls.proxy, url))
        return found

    def close(self) -> None:
        """Let go of connections."""
        self._calls.close()


def _answers(base_url: str, connect_to: str | None, proxy: str | None) -> bool:
    transport = Transport(_unverified(connect_to, proxy), Timeouts(connect=_LIMIT), lambda _: None)
    try:
        return transport.fetch(Call("GET", f"{base_url.rstrip('/')}/info", _LIMIT, total=_LIMIT)).status != _GONE
    except NotSent:
        raise
    except CannotReach:
        return False


def _unverified(connect_to: str | None, proxy: str | None) -> Peer:
    # Asking without trust sends no secret, and an expired certificate is an answer, too.
    return Peer(
        ca=None,
        ca_hint="",
        authority_hint="",
        name_setting="",
        unreachable=lambda _: "",
        insecure=True,
        connect_to=connect_to,
        proxy=proxy,
    )
