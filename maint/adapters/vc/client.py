"""The jobs API of one virtual cluster: all reads and all changes behind one constructor."""

from collections.abc import Callable, Mapping

from maint.adapters.vc.calls import Calls
from maint.adapters.vc.jobs import Jobs
from maint.adapters.vc.knock import knock
from maint.adapters.vc.patience import Patience
from maint.adapters.vc.presented import presented
from maint.adapters.vc.resources import Resources
from maint.adapters.vc.runs import Runs
from maint.adapters.vc.transport import Timeouts
from maint.errors import WorkFailed
from maint.model.site import VirtualClusterSettings
from maint.model.vc import Object
from maint.ports import Clock, Secrets


class VirtualClusterClient(Jobs, Resources, Runs):
    """Talks to a virtual cluster; implements `ports.VirtualCluster`; may be used by several threads at once.

    Args:
        settings: where it is and who we are.
        secrets: resolves the password's reference, when it is first needed.
        clock: for pauses and for the token's age.
        warn: told, in words, when certificates are not verified.
        timeouts: how long to wait for what.
        patience: when to give up.
    """

    def __init__(
        self,
        settings: VirtualClusterSettings,
        secrets: Secrets,
        clock: Clock,
        *,
        warn: Callable[[str], None],
        timeouts: Timeouts | None = None,
        patience: Patience | None = None,
    ) -> None:
        calls = Calls(
            settings, secrets, clock, warn=warn, timeouts=timeouts or Timeouts(), patience=patience or Patience()
        )
        super().__init__(calls)
        self.settings = settings

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
