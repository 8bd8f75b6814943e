"""Give a virtual cluster its certificate with the utility script, on an ECS master host (J11.3)."""

import base64
import binascii
from collections.abc import Generator, Iterable, Mapping
from datetime import datetime

from pydantic import Field

from maint.checks.ecs import KUBECTL
from maint.config.schema import VirtualClusterSettings
from maint.errors import MaintError, WorkFailed
from maint.files import replace
from maint.model.certificate import covers, end_of, fingerprint, first_of, names_of, pem
from maint.model.json import Json
from maint.model.plan import Action, Effect
from maint.ports import ShellSight, Sight, Site, Work
from maint.steps.step import Progress, Step, done, unchanged
from maint.steps.virtual_clusters.certificate import SOON, Pair, keep_shared, lasting, pair_of, put_shared_back, served
from maint.steps.virtual_clusters.init_host import (
    SHARED_SECRET,
    MasterAnswer,
    ServiceAddress,
    address_of,
    call_utility,
    kubectl,
    look,
    master_of,
    require_ingress,
    require_utility,
    siblings,
    sweep,
)
from maint.steps.virtual_clusters.kubernetes_secrets import KubernetesSecrets
from maint.steps.virtual_clusters.safety_net import seal_certificates, way_back
from maint.steps.virtual_clusters.step import VcArguments, own_certificate

_UNSEEN = "look from where the clients are: `maint vc status`"
_LATER = "its host and its service's gateway, unless they have a good one; all its virtual clusters share the gateway's"


class InitArguments(VcArguments):
    """Which virtual cluster, and whether it need not answer yet while this is planned."""

    later: bool = Field(False, description="do not look at the virtual cluster while planning: it need not be up yet")


class InitClusterArguments(InitArguments):
    """Whether a certificate of the utility's own making is made anew although the present one is good."""

    renew: bool = Field(False, description="without `tls`: make a new certificate although the present one is good")


class InitCluster(Step[InitClusterArguments]):
    """Give a virtual cluster and its service's gateway their certificate, with the utility script on an ECS master."""

    kind = "vc.init"
    effect = Effect.DESTROY

    def plan(self, args: InitClusterArguments, sight: Sight) -> Iterable[Action]:
        settings = sight.settings.virtual_cluster(args.vc)
        if args.later:
            pair = pair_of(settings, sight.secrets, ())
            yield self._planned(args, settings, pair, f"{_what(settings, pair)} for {_LATER}", {})
            return
        address, host = address_of(settings), master_of(sight)
        pair = pair_of(settings, sight.secrets, (address.host, address.gateway))
        now = sight.clock.now()
        found = look(sight.shell, host, address, settings.utility)
        held = certificates(sight.shell, host, address)
        if there := _good(pair, address, held, now, renew=args.renew):
            yield self._planned(args, settings, pair, there, held, nothing=True)
            return
        require_utility(found, settings)
        stays = pair is None and not args.renew and lasting(address, held, now)
        whom = f"{address.host} and {address.gateway}{_shared(sight, address, found, stays=stays)}"
        yield self._planned(args, settings, pair, f"{_what(settings, pair)} for {whom}", held)

    def _planned(
        self,
        args: InitClusterArguments,
        settings: VirtualClusterSettings,
        pair: Pair | None,
        words: str,
        held: Mapping[str, bytes],
        *,
        nothing: bool = False,
    ) -> Action:
        effect = Effect.READ if nothing else Effect.DESTROY if pair is None else Effect.CHANGE
        return self.action(
            f"virtual cluster {settings.name}",
            words,
            {**args.model_dump(), "vc": settings.name},
            effect=effect,
            confirm=settings.name if effect is Effect.DESTROY else None,
            undo=None if nothing else "`maint vc undo RUN` brings the certificates of before back, for 30 days",
            facts=_prints(held),
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        settings = site.settings.virtual_cluster(str(action.arguments["vc"]))
        address, host = address_of(settings), master_of(site)
        pair = pair_of(settings, site.secrets, (address.host, address.gateway))
        found = look(site.shell, host, address, settings.utility)
        sweep(site.shell, host, site.state)
        cabinet = KubernetesSecrets(host, address.service_namespace)
        yield from put_shared_back(site, work, settings.name, cabinet, address, left=True)
        held = certificates(site.shell, host, address)
        before, now, own = work.noted("before"), _prints(held), address.certificate_secret
        # A certificate that an earlier attempt of this run had made is not made once more; the gateway's alone is half.
        made = isinstance(before, Mapping) and before.get(own) != now.get(own)
        renew = action.arguments["renew"] is True and not made
        if there := _good(pair, address, held, site.clock.now(), renew=renew):
            words, seen = yield from served(site, settings, held)
            kept = _trusted(site, settings, held) if pair is None and before is not None else ""
            detail = f"{there}{words}{kept}"
            return unchanged(detail) if before is None and seen else done(detail, partly=not seen, hint=_UNSEEN)
        require_ingress(found, address)
        work.note("before", now)
        stays = pair is None and not renew and lasting(address, held, site.clock.now())
        ours = pair.chain if pair else b""
        yield from seal_certificates(site, work, settings.name, cabinet, [own, SHARED_SECRET], ours)
        if stays:
            keep_shared(site, work, settings.name, cabinet)
        yield from self._install(site, work, found, settings, pair, cabinet)
        held = certificates(site.shell, host, address)
        _verify(address, host, pair, held, now)
        words, seen = yield from served(site, settings, held)
        kept = _trusted(site, settings, held) if pair is None else ""
        detail = f"{address.host} and {address.gateway} have {_described(pair, held)}{words}{kept}"
        detail += way_back(site.state, work.run)
        if not covers(held[SHARED_SECRET], address.gateway):  # the utility makes it for the virtual cluster's name
            detail += f"; it is NOT for {address.gateway}, so that clients get no token there"
            return done(detail, partly=True, hint="name a certificate for both under `tls:` in the config, then again")
        return done(detail, partly=not seen, hint=_UNSEEN)

    @staticmethod
    def _install(
        site: Site,
        work: Work,
        found: MasterAnswer,
        settings: VirtualClusterSettings,
        pair: Pair | None,
        cabinet: KubernetesSecrets,
    ) -> Generator[str, None, None]:
        """Call the script; the gateway's certificate is put back where it is to stay, whatever becomes of the call."""
        address = address_of(settings)
        yield f"calling the utility script on {found.host}"
        files = {} if pair is None else {"cert.pem": pair.chain, "key.pem": pair.key.reveal()}
        how = "-a" if pair is None else '-c "$d/in/cert.pem" -k "$d/in/key.pem"'
        try:
            call_utility(site, found, settings, f"init-virtual-cluster -h {address.host} {how}", files)
        except (MaintError, KeyboardInterrupt):
            if (
                not work.heir()
            ):  # else it is that machine's now, and the seal stays for the machine that takes the run up
                sweep(site.shell, found.host, site.state)  # which waits for a script that still goes on
                yield from put_shared_back(site, work, settings.name, cabinet, address)
            raise
        yield from put_shared_back(site, work, settings.name, cabinet, address)

    def holds(self, action: Action, site: Site, work: Work) -> bool:
        settings = site.settings.virtual_cluster(str(action.arguments["vc"]))
        address = address_of(settings)
        pair = pair_of(settings, site.secrets, (address.host, address.gateway))
        held = certificates(site.shell, master_of(site), address)
        return bool(_good(pair, address, held, site.clock.now(), renew=False))


def certificates(shell: ShellSight, host: str, address: ServiceAddress) -> dict[str, bytes]:
    """Return the certificates (DER) that Kubernetes holds, by name of their secret; keys are never read.

    Raises:
        WorkFailed: kubectl does not answer.
    """
    found: dict[str, bytes] = {}
    for secret in (address.certificate_secret, SHARED_SECRET):
        words = f"get secret {secret} -n {address.service_namespace} -o 'jsonpath={{.data.tls\\.crt}}'"
        ran = shell.ask(host, kubectl(words, "ignore-not-found"), timeout=90.0)
        if not ran.ok:
            raise WorkFailed(
                f"{host}: kubectl does not answer", detail=ran.last_words, hint="are the data services up?"
            )
        try:
            der = first_of(base64.b64decode(ran.out, validate=True))
            end_of(der), names_of(der)
        except (binascii.Error, ValueError):
            continue  # none, or one that is not a certificate: as good as none
        found[secret] = der
    return found


def _prints(held: Mapping[str, bytes]) -> dict[str, Json]:
    return {name: fingerprint(der) for name, der in held.items()}


def _good(pair: Pair | None, address: ServiceAddress, held: Mapping[str, bytes], now: datetime, *, renew: bool) -> str:
    """Return in words why nothing needs to be done, else nothing."""
    own, shared = held.get(address.certificate_secret), held.get(SHARED_SECRET)
    if own is None or shared is None:
        return ""
    if pair is not None:
        same = fingerprint(own) == fingerprint(shared) == fingerprint(first_of(pair.chain))
        return f"{address.host} has the configured certificate already, until {pair.until:%Y-%m-%d}" if same else ""
    lasting = min(end_of(own), end_of(shared)) > now + SOON
    if renew or not lasting or not covers(own, address.host):
        return ""
    return f"{address.host} has a certificate until {end_of(own):%Y-%m-%d}; `--renew` makes a new one all the same"


def _what(settings: VirtualClusterSettings, pair: Pair | None) -> str:
    if pair is None or settings.tls is None:
        return "let the utility make a self-signed certificate, good for 365 days,"
    doubt = (
        "" if pair.known else f" (which the `ca` of {settings.name} does NOT accept: maint itself would be shut out)"
    )
    return f"install the certificate {settings.tls.cert} (until {pair.until:%Y-%m-%d}){doubt}"


def _shared(sight: Sight, address: ServiceAddress, found: MasterAnswer | None, *, stays: bool) -> str:
    """Return whom else it concerns: the gateway's certificate is one for all virtual clusters of the service."""
    others = siblings(sight.settings, address)
    named = [f"{one.name} (ca: {one.ca or 'the authorities of the system'})" for one in others]
    known = {address.cluster, *(address_of(one).cluster for one in others)}
    named += [f"{one} (not in this config)" for one in (found.clusters if found else ()) if one not in known]
    if not named:
        return f"; no other virtual cluster shares {address.gateway}"
    after = "it is put back a moment later, since it is a good one" if stays else "their clients must trust it"
    whole = f"; the certificate of {address.gateway} is replaced for all virtual clusters of the service, {after}: "
    return whole + ", ".join(named)


def _verify(
    address: ServiceAddress, host: str, pair: Pair | None, held: Mapping[str, bytes], before: Mapping[str, Json]
) -> None:
    """See that Kubernetes holds what was to be installed."""
    hint = f"on {host}: `{KUBECTL} get secret {address.certificate_secret} -n {address.service_namespace}`"
    own = held.get(address.certificate_secret)
    if own is None or SHARED_SECRET not in held:
        raise WorkFailed("the script ended well, and a certificate is missing all the same", hint=hint)
    if pair is not None and {fingerprint(der) for der in held.values()} != {fingerprint(first_of(pair.chain))}:
        raise WorkFailed("the script ended well, and another certificate than the configured one is there", hint=hint)
    if pair is None and fingerprint(own) == before.get(address.certificate_secret):
        raise WorkFailed("the script ended well, and the certificate is the old one", hint=hint)
    if pair is None and not covers(own, address.host):
        raise WorkFailed(f"the script made a certificate that is not for {address.host}", hint=hint)


def _described(pair: Pair | None, held: Mapping[str, bytes]) -> str:
    end = min(end_of(der) for der in held.values())
    return f"{'a self-signed' if pair is None else 'the configured'} certificate until {end:%Y-%m-%d}"


def _trusted(site: Site, settings: VirtualClusterSettings, held: Mapping[str, bytes]) -> str:
    """Write the new certificates, which are public, where clients can be given them, and say so."""
    path = own_certificate(site.state, settings.name)
    certificates = "".join(pem(der) for der in dict.fromkeys(held.values()))
    replace(path, certificates.encode(), mode=0o644)
    return f"; clients must trust it now: put {path} into the `ca` of the config"
