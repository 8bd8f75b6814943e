"""Certificates for a virtual cluster: judged by OpenSSL's own rules before they are installed; the gateway's is kept.

The gateway's certificate is shared by all virtual clusters of a service. The utility replaces it whenever it makes one
of its own (J11.3), so a good one is sealed before, and put back.
"""

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import repeat

import msgspec

from maint.config.schema import VirtualClusterSettings
from maint.errors import NotKept, WorkFailed
from maint.files import explaining, read_file
from maint.model.certificate import covers, end_of, first_of, is_self_signed, names_of
from maint.model.secret import SecretBytes
from maint.ports import Secrets, Site, Work
from maint.retry import looks
from maint.steps.virtual_clusters.init_host import SHARED_SECRET, ServiceAddress, address_of
from maint.steps.virtual_clusters.kubernetes_secrets import KubernetesSecrets, Manifest, contents_of
from maint.steps.virtual_clusters.safety_net import (
    CERTIFICATE,
    came_back,
    replaced_since,
    sealed_certificate,
    sealed_in,
)

SOON = timedelta(days=30)
_NOTE = "shared"
_SERVED = 120.0  # seconds until an ingress must show what its secret holds
_PAUSE = 2.0


class Pair(msgspec.Struct, frozen=True):
    """A certificate with its chain, and its key."""

    chain: bytes  # as configured (PEM), the server's own certificate first
    key: SecretBytes  # the private key (PEM)
    until: datetime  # when the certificate ends
    known: bool  # whether the `ca` of the virtual cluster accepts it


def pair_of(settings: VirtualClusterSettings, secrets: Secrets, names: Sequence[str]) -> Pair | None:
    """Return the certificate that the config names, once it has proven fit; None where it names none.

    Args:
        names: what it must cover: the virtual cluster's host and the gateway's; none: nobody knows them yet.

    Raises:
        Invalid: certificate or key cannot be read.
        Refused: they do not fit each other, or it is not in date, or for other names.
    """
    if settings.tls is None:
        return None
    from maint.steps.virtual_clusters.handshake import HINT, prove_pair  # few have a certificate of their own

    path = settings.tls.cert
    with explaining(f"the certificate {path} cannot be read", HINT):
        chain = read_file(path)
    key = SecretBytes(secrets.resolve(settings.tls.key).reveal().encode() + b"\n")
    known = prove_pair(path, chain, key, names, settings.ca)
    return Pair(chain, key, end_of(first_of(chain)), known)


def lasting(address: ServiceAddress, held: Mapping[str, bytes], now: datetime) -> bool:
    """Whether the gateway has a certificate that should stay: for its name, and good for a month more."""
    shared = held.get(SHARED_SECRET)
    return shared is not None and covers(shared, address.gateway) and end_of(shared) > now + SOON


def keep_shared(site: Site, work: Work, vc: str, cabinet: KubernetesSecrets) -> None:
    """Note that the gateway's certificate, which `seal_certificates` has sealed, is to be put back by this run."""
    there = cabinet.read(site.shell, [SHARED_SECRET]).get(SHARED_SECRET)
    if there is not None and (one := sealed_certificate(site, work.run, vc, SHARED_SECRET, there)) is not None:
        work.note(_NOTE, one.definition)


def put_shared_back(
    site: Site, work: Work, vc: str, cabinet: KubernetesSecrets, address: ServiceAddress, *, left: bool = False
) -> Generator[str, None, None]:
    """Put the gateway's certificate back, as far as an attempt of this run has sealed one.

    Args:
        left: what is there was left by an earlier attempt, or is somebody's newer one, which stays.

    Raises:
        WorkFailed: it could not be put back; it stays sealed.
    """
    sealed = work.noted(_NOTE)
    if not isinstance(sealed, str):
        return
    kept = sealed_in(site.state, work.run, vc, CERTIFICATE)
    one = next((each for each in kept if each.definition == sealed), None)
    try:
        wanted = json.loads(site.undo.fetch(sealed))
    except NotKept:
        if one is not None:
            raise
        work.note(_NOTE, None)  # `maint vc undo` has brought it back
        return
    there = cabinet.read(site.shell, [SHARED_SECRET]).get(SHARED_SECRET)
    if there is None or there.get("data") != wanted["data"]:
        if left and not _is_ours(site, work, vc, address, wanted, there):
            yield f"{address.gateway} has another certificate than this run left there: it stays"
            work.note(_NOTE, None)
            return
        yield f"putting the certificate of {address.gateway} back"
        cabinet.put(site.shell, wanted)
    work.note(_NOTE, None)
    if one is not None:
        came_back(site, work.run, one)
    else:  # an earlier version sealed it
        site.undo.drop(sealed)


def _is_ours(
    site: Site, work: Work, vc: str, address: ServiceAddress, sealed: Manifest, there: Manifest | None
) -> bool:
    """Whether the gateway's certificate is one that the utility made for this run, and the sealed one still good."""
    before, now = (_der(secret) for secret in (sealed, there))
    if before is None or not lasting(address, {SHARED_SECRET: before}, site.clock.now()):
        return False
    made = now is None or (is_self_signed(now) and (covers(now, address.host) or not names_of(now)))
    return made and not replaced_since(site.state, work.run, vc, SHARED_SECRET)


def _der(secret: Manifest | None) -> bytes | None:
    """Return the certificate (DER) that a secret holds, None where there is none, or none that can be read."""
    with suppress(ValueError):
        der = first_of((contents_of(secret) or {}).get("tls.crt", b""))
        end_of(der), names_of(der)
        return der
    return None


def served(
    site: Site, settings: VirtualClusterSettings, held: Mapping[str, bytes]
) -> Generator[str, None, tuple[str, bool]]:
    """Wait until names show what Kubernetes holds; return that in words, and whether it was seen.

    Args:
        held: certificates (DER) by name of their secret; those of other virtual clusters are not looked for.
    """
    address = address_of(settings)
    hosts = {address.certificate_secret: address.host, SHARED_SECRET: address.gateway}
    wanted = {hosts[name]: der for name, der in held.items() if name in hosts}
    if not wanted:
        return "", True
    cluster, both = site.virtual_cluster(settings.name), len(wanted) > 1
    for _ in looks(site.clock, _SERVED, repeat(_PAUSE)):
        shown = cluster.certificates()
        late = [host for host, der in wanted.items() if shown.get(host) != der]
        if not late:
            return f", and {'both show' if both else 'its host shows'} it", True
        yield f"waiting until {' and '.join(late)} show it"
    if not wanted.keys() & shown.keys():
        who = "neither could" if both else "its host could not"
        return f"; {who} be reached from here within {_SERVED:g} s, so what is shown there was not seen", False
    raise WorkFailed(
        f"{', '.join(late)}: Kubernetes has the certificate, and it is not shown after {_SERVED:g} s",
        hint="is the ingress up, and does `connect_to` lead there? Then `maint playbook resume`",
    )
