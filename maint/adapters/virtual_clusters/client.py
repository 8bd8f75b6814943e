"""The jobs API of one virtual cluster: all reads and all changes behind one constructor."""

from collections.abc import Mapping

from maint.adapters.virtual_clusters.calls import Calls
from maint.adapters.virtual_clusters.jobs import Jobs
from maint.adapters.virtual_clusters.probe import knock
from maint.adapters.virtual_clusters.resources import Resources
from maint.adapters.virtual_clusters.runs import Runs
from maint.adapters.virtual_clusters.server_certificates import presented
from maint.errors import WorkFailed
from maint.model.virtual_cluster import Object


class VirtualClusterClient(Jobs, Resources, Runs):
    """Talks to a virtual cluster; implements `ports.VirtualCluster`; may be used by several threads at once.

    Args:
        calls: how to ask it: where it is, who we are, and how patiently.
    """

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        self.settings = calls.settings

    def token_until(self) -> float | None:
        """Log in, and return for how many seconds the token is good; None where nobody says."""
        return self._calls.tokens.current().lifetime

    def info(self) -> Object:
        """Return `GET /info`."""
        found = self._calls.json("info")
        if found is None:
            raise WorkFailed(
                f"there is no jobs API at {self.settings.base_url}",
                hint="`base_url` ends with /dex/api/v1, and a new virtual cluster needs some minutes",
            )
        return found

    def answers(self, base_url: str) -> bool:
        """Tell whether a jobs API answers at an address; what an ingress says of an unknown name is no answer."""
        return knock(base_url, self.settings.connect_to)

    def certificates(self) -> Mapping[str, bytes]:
        """Return the certificates (DER) that virtual cluster and gateway show, by host."""
        return presented(self.settings)

    def close(self) -> None:
        """Let go of connections."""
        self._calls.transport.close()
