"""The gateway's certificate, which all virtual clusters of a service share: replaced once, not once for each of them.

The utility, when it makes a certificate of its own, gives it to the gateway too (jobs API, section 11.3), so that the
clients of all other virtual clusters must trust something new. A good one is therefore sealed before, and put back.
"""

import json
from collections.abc import Generator, Mapping
from datetime import datetime, timedelta

from maint.model.certificate import covers, end_of
from maint.ports import Site, Work
from maint.steps.virtual_clusters.init_host import SHARED_SECRET, Address
from maint.steps.virtual_clusters.kubernetes_secrets import Cabinet

SOON = timedelta(days=30)
_NOTE = "shared"


def lasting(address: Address, held: Mapping[str, bytes], now: datetime) -> bool:
    """Whether the gateway has a certificate that should stay: for its name, and good for a month more."""
    shared = held.get(SHARED_SECRET)
    return shared is not None and covers(shared, address.gateway) and end_of(shared) > now + SOON


def keep_shared(site: Site, work: Work, host: str, address: Address) -> Generator[str, None, None]:
    """Seal the gateway's certificate with its key, once for all lives of a run."""
    if work.noted(_NOTE) is not None:
        return
    found = Cabinet(host, address.service_namespace).read(site.shell, [SHARED_SECRET])
    if SHARED_SECRET in found:
        work.note(_NOTE, site.undo.keep(json.dumps(found[SHARED_SECRET]).encode()))
        yield f"the certificate of {address.gateway} is sealed in the state folder: it is to stay"


def put_shared_back(site: Site, work: Work, host: str, address: Address) -> Generator[str, None, None]:
    """Put the gateway's certificate back, as far as this run has sealed one; whoever comes after a kill does so too.

    Raises:
        WorkFailed: it could not be put back; it stays sealed.
    """
    sealed = work.noted(_NOTE)
    if not isinstance(sealed, str):
        return
    cabinet = Cabinet(host, address.service_namespace)
    wanted = json.loads(site.undo.fetch(sealed))
    there = cabinet.read(site.shell, [SHARED_SECRET]).get(SHARED_SECRET)
    if there is None or there.get("data") != wanted["data"]:
        yield f"putting the certificate of {address.gateway} back"
        cabinet.put(site.shell, wanted)
    work.note(_NOTE, None)
    site.undo.drop(sealed)
