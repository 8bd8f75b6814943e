"""What `maint doctor` looks at in the Kubernetes of the virtual clusters, by the checks that `maint host check` has."""

from collections.abc import Collection, Iterator

from maint.checks.check import RUNNING
from maint.checks.evaluate import judge
from maint.checks.gather import Enquiry, ask_site, profiles_of, setting_of
from maint.checks.registry import named
from maint.cli.composition import ConfiguredSite
from maint.cli.site.doctor_lines import FAIL, OK, REACH, SKIP, WARN, Line
from maint.model.fleet import State
from maint.steps.virtual_clusters.init_host import GROUP

_CHECKS = ("ecs.kubelet.nodes", "ecs.vault")
_STATES = {State.FAIL: FAIL, State.ERROR: WARN, State.WARN: WARN, State.PASS: OK, State.SKIP: SKIP}  # the worst first


def kubernetes(site: ConfiguredSite, silent: Collection[str]) -> Iterator[Line]:
    """Ask kubectl on the host where virtual clusters are initialised; nothing where there is none, or none of both."""
    hosts = site.settings.hosts_in(GROUP)[:1] if site.settings.ssh and site.settings.virtual_clusters else ()
    for host in hosts:
        if host.name in silent:
            yield Line("kubernetes", SKIP, f"not looked at, since {host.name} did not answer over SSH")
            return
        profiles = {host.name: profiles_of(host, site.settings)}
        enquiry = Enquiry(hosts, named(_CHECKS), setting_of(site.settings, RUNNING, None), profiles, {})
        facts = ask_site(site, enquiry, site.fleet, timeout=REACH)
        findings = judge(enquiry.checks, facts, site.settings.accepted)
        worst = next(state for state in _STATES if any(one.state is state for one in findings))
        told = [one for one in findings if _STATES[one.state] == _STATES[worst]]
        words = "; ".join(f"{one.check}: {one.observed}" for one in told)
        words = words if facts.hosts[0].reached else f"no whole answer about it within {REACH:g} s"
        again = f"maint host check --host {host.name} {' '.join(f'--check {name}' for name in _CHECKS)}"
        hint = {FAIL: "; ".join(one.remedy for one in told), WARN: again}.get(_STATES[worst], "")
        yield Line("kubernetes", _STATES[worst], f"{host.name}: {words}", hint)
