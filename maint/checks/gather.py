"""Gather facts: one script a host, a few reads of the manager."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from maint.checks.check import Check
from maint.checks.facts import HostFacts, ManagerFacts, Setting, SiteFacts
from maint.checks.plan import folders, repository
from maint.checks.registry import QUESTIONS
from maint.checks.script import parse, script
from maint.config.schema import HostSettings, SiteSettings
from maint.errors import MaintError
from maint.model.fleet import Reply
from maint.model.json import Json
from maint.ports import Fleet, ManagerSight

_LETTERS = {"base": "B", "ecs": "E", "ecs-master": "E", "manager": "M", "database": "D"}


def profiles_of(host: HostSettings, settings: SiteSettings) -> str:
    """Return the profiles that a host's groups choose; Kerberos asks the host itself whether it has a realm."""
    letters = {_LETTERS[group] for group in host.groups if group in _LETTERS}
    if "E" in letters and settings.virtual_clusters:
        letters.add("C")
    return "".join(sorted(letters | {"K"}))


def setting_of(
    settings: SiteSettings, phase: str, plan: Mapping[str, Json] | None, matrix: Mapping[str, Json] | None = None
) -> Setting:
    """Return what checks read of a site's configuration."""
    urls = [url for cluster in settings.virtual_clusters for url in (cluster.base_url, cluster.auth_url)]
    places = [url.partition("://")[2].partition("/")[0] for url in urls]
    endpoints = tuple(dict.fromkeys(place if ":" in place else f"{place}:443" for place in places))
    domain = settings.app_domain or _domain(places)
    if plan is not None:
        domain = str(plan.get("app_domain") or "") or domain
    manager = settings.manager
    return Setting(manager.host, manager.plain_port, manager.tls_port, domain, endpoints, phase, plan, matrix)


def _domain(places: Iterable[str]) -> str:
    # What follows `cde-….` in an address of a virtual cluster.
    for place in places:
        _, found, rest = place.partition(".cde-")
        if found:
            return rest.partition(".")[2].partition(":")[0]
    return ""


def questions_of(checks: Sequence[Check], profiles: str) -> dict[str, str]:
    """Return the questions of a host, in the registry's order."""
    wanted = {name for check in checks if check.concerns(profiles) for name in check.asks}
    return {name: text for name, text in QUESTIONS.items() if name in wanted}


class Enquiry(msgspec.Struct, frozen=True):
    """What is asked of whom."""

    hosts: Sequence[HostSettings]
    checks: Sequence[Check]
    setting: Setting
    profiles: Mapping[str, str]  # letters by host name
    more: Mapping[str, str]  # `$maint_NAME` of commands beside the site's own


def gather(
    enquiry: Enquiry, fleet: Fleet, taken_at: datetime, manager: ManagerFacts, *, timeout: float | None = None
) -> SiteFacts:
    """Ask all hosts within `timeout` seconds, and return what they and the manager said; ages count from `taken_at`."""
    site = SiteFacts(taken_at, enquiry.setting, manager)
    token = f"maint-{secrets.token_hex(12)}"
    asked = {host.name: questions_of(enquiry.checks, enquiry.profiles[host.name]) for host in enquiry.hosts}
    values = {
        "domain": enquiry.setting.app_domain,
        "peers": " ".join(sorted({name for host in enquiry.hosts if (name := full_name(host))})),
        "endpoints": " ".join(enquiry.setting.endpoints),
        "folders": " ".join(folders(enquiry.setting.plan)),
        "repository": repository(enquiry.setting.plan),
        **enquiry.more,
    }
    rendered: dict[tuple[str, ...], bytes] = {}
    scripts = {}
    for name, questions in asked.items():
        kind = tuple(questions)
        if kind not in rendered:  # hosts of one kind get the same script
            rendered[kind] = script(questions, values, token)
        scripts[name] = rendered[kind]
    for host, reply in zip(enquiry.hosts, fleet.ask(enquiry.hosts, scripts, timeout=timeout), strict=True):
        site.hosts.append(host_facts(host, enquiry.profiles[host.name], reply, token, asked[host.name], site))
    return site


def full_name(host: HostSettings) -> str:
    """Return a host's full name as far as the inventory tells it, else nothing."""
    for name in (host.name, host.address):
        if "." in name and not name.rpartition(".")[2].isdigit() and ":" not in name:
            return name
    return ""


def host_facts(
    host: HostSettings, profiles: str, reply: Reply, token: str, asked: Iterable[str], site: SiteFacts
) -> HostFacts:
    """Return a host's facts from its reply; what came before it broke off counts."""
    framed = parse(reply.out, token, asked)
    reason = reply.reason or framed.reason
    if reply.reason and framed.answers:
        reason = f"{reply.reason} ({framed.reason})"
    return HostFacts(
        host.name, host.address, profiles, framed.answers, site, not reason, reason, reply.sent, reply.received,
        reply.login_seconds,
    )  # fmt: skip


def ask_manager(manager: ManagerSight, *, full: bool) -> ManagerFacts:
    """Return what the manager says, `full` with services; a manager that does not answer is a reason, not a failure."""
    try:
        presence = manager.presence()
        chain = presence.chain or ""
        end = manager.certificate_end()
        ends = end.isoformat() if end else ""
    except MaintError as failure:
        return ManagerFacts(failure.message)
    try:
        release = manager.release()
        listed = manager.get("/hosts?view=full")
        items = listed.get("items") if isinstance(listed, Mapping) else None
        hosts = [_host(item) for item in items if isinstance(item, Mapping)] if isinstance(items, Sequence) else []
        clusters = [_cluster(manager, cluster.name, cluster.type, full) for cluster in manager.clusters()]
    except MaintError as failure:
        return ManagerFacts(failure.message, chain=chain, ends=ends)
    return ManagerFacts("", release, chain, hosts, clusters, ends)


def _host(item: Mapping[str, Json]) -> Mapping[str, Json]:
    owner = item.get("clusterRef")
    cluster = owner.get("clusterName") if isinstance(owner, Mapping) else None
    return {
        "hostname": _word(item.get("hostname")), "lastHeartbeat": _word(item.get("lastHeartbeat")),
        "cluster": _word(cluster),
    }  # fmt: skip


def _word(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _cluster(manager: ManagerSight, name: str, kind: str, full: bool) -> Mapping[str, Json]:
    from urllib.parse import quote

    services: list[Json] = []
    if full:
        listed = manager.get(f"/clusters/{quote(name, safe='')}/services")
        items = listed.get("items") if isinstance(listed, Mapping) else None
        for item in items if isinstance(items, Sequence) else ():
            if isinstance(item, Mapping):
                fields = {"type": "type", "state": "serviceState", "health": "healthSummary"}
                services.append({name: _word(item.get(key)) for name, key in fields.items()})
    return {"name": name, "type": kind, "services": services}
