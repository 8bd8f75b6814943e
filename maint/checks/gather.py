"""Gather facts: one script a host, a few reads of the manager; and keep them in a file for later."""

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from maint.checks.check import Check
from maint.checks.facts import Answered, HostFacts, ManagerFacts, Setting, SiteFacts
from maint.checks.matrix import matrix_of
from maint.checks.plan import folders, repository
from maint.checks.registry import QUESTIONS
from maint.checks.script import parse, script
from maint.errors import Invalid, MaintError
from maint.model.fleet import Reply
from maint.model.json import Json
from maint.model.site import HostSettings, SiteSettings
from maint.ports import Fleet, ManagerSight

_LETTERS = {"base": "B", "ecs": "E", "ecs-master": "E", "manager": "M", "database": "D"}
FILE_FORMAT = "maint-facts/1"


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
    """Return what follows `cde-….` in an address of a virtual cluster."""
    for place in places:
        _, found, rest = place.partition(".cde-")
        if found:
            return rest.partition(".")[2].partition(":")[0]
    return ""


def questions_of(checks: Sequence[Check], profiles: str) -> dict[str, str]:
    """Return the questions of a host, in the registry's order."""
    wanted = {name for check in checks if check.concerns(profiles) for name in check.asks}
    return {name: text for name, text in QUESTIONS.items() if name in wanted}


@dataclass(frozen=True, slots=True)
class Enquiry:
    """What is asked of whom.

    Attributes:
        hosts: the hosts.
        checks: the checks whose facts are wanted.
        setting: what is configured.
        profiles: letters by host name.
        more: what commands find in `$maint_NAME` beside the site's own.
    """

    hosts: Sequence[HostSettings]
    checks: Sequence[Check]
    setting: Setting
    profiles: Mapping[str, str]
    more: Mapping[str, str]


def gather(
    enquiry: Enquiry, fleet: Fleet, taken_at: datetime, manager: ManagerFacts, *, timeout: float | None = None
) -> SiteFacts:
    """Ask all hosts and return what they and the manager said.

    Args:
        enquiry: what to ask.
        fleet: asks.
        taken_at: the time, which ages are counted from.
        manager: what the manager said.
        timeout: seconds for all hosts together.
    """
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
    """Return what the manager says; a manager that does not answer is a reason, no failure.

    Args:
        manager: the API.
        full: whether services are wanted too.
    """
    try:
        presence = manager.presence()
        chain = presence.chain or ""
    except MaintError as failure:
        return ManagerFacts(failure.message)
    try:
        release = manager.release()
        listed = manager.get("/hosts?view=full")
        items = listed.get("items") if isinstance(listed, Mapping) else None
        hosts = [_host(item) for item in items if isinstance(item, Mapping)] if isinstance(items, Sequence) else []
        clusters = [_cluster(manager, cluster.name, cluster.type, full) for cluster in manager.clusters()]
    except MaintError as failure:
        return ManagerFacts(failure.message, chain=chain)
    return ManagerFacts("", release, chain, hosts, clusters)


def _host(item: Mapping[str, Json]) -> Mapping[str, Json]:
    owner = item.get("clusterRef")
    cluster = owner.get("clusterName") if isinstance(owner, Mapping) else None
    return {"hostname": item.get("hostname"), "lastHeartbeat": item.get("lastHeartbeat"), "cluster": cluster}


def _cluster(manager: ManagerSight, name: str, kind: str, full: bool) -> Mapping[str, Json]:
    from urllib.parse import quote

    services: list[Json] = []
    if full:
        listed = manager.get(f"/clusters/{quote(name, safe='')}/services")
        items = listed.get("items") if isinstance(listed, Mapping) else None
        for item in items if isinstance(items, Sequence) else ():
            if isinstance(item, Mapping):
                services.append(
                    {"type": item.get("type"), "state": item.get("serviceState"), "health": item.get("healthSummary")}
                )
    return {"name": name, "type": kind, "services": services}


def to_json(site: SiteFacts, more: Mapping[str, Json]) -> dict[str, Json]:
    """Return facts as they are kept in a file; they hold no secrets."""
    setting = site.setting
    hosts: list[Json] = [
        {
            "name": host.name, "address": host.address, "profiles": host.profiles, "reached": host.reached,
            "reason": host.reason, "sent": host.sent, "received": host.received,
            "answers": {name: [answer.status, answer.out] for name, answer in host.answers.items()},
        }
        for host in site.hosts
    ]  # fmt: skip
    return {
        "format": FILE_FORMAT,
        "taken_at": site.taken_at.isoformat(),
        "setting": {
            "manager": setting.manager, "plain_port": setting.plain_port, "tls_port": setting.tls_port,
            "app_domain": setting.app_domain, "endpoints": list(setting.endpoints), "phase": setting.phase,
            "plan": None if setting.plan is None else dict(setting.plan),
            "matrix": None if setting.matrix is None else dict(setting.matrix),
        },
        "manager": {
            "reason": site.manager.reason, "release": site.manager.release, "chain": site.manager.chain,
            "hosts": [dict(host) for host in site.manager.hosts],
            "clusters": [dict(cluster) for cluster in site.manager.clusters],
        },
        "hosts": hosts,
        **more,
    }  # fmt: skip


def from_json(text: str, name: str) -> tuple[SiteFacts, Mapping[str, Json]]:
    """Return kept facts, and what else was kept with them.

    Raises:
        Invalid: the text is no file of facts.
    """
    try:
        told = json.loads(text)
        if told.get("format") != FILE_FORMAT:
            raise Invalid(f"{name} has format {told.get('format')!r}, not {FILE_FORMAT}")
        taken_at = datetime.fromisoformat(told["taken_at"])
        if taken_at.tzinfo is None:
            raise ValueError("taken_at")
        setting = Setting(**_fitting(told["setting"], Setting()))
        if setting.matrix is not None:
            matrix_of(setting.matrix, name)
        site = SiteFacts(taken_at, setting, ManagerFacts(**_fitting(told["manager"], ManagerFacts())))
        site.hosts.extend(_kept(host, site) for host in told["hosts"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Invalid(
            f"{name} is no file of facts ({type(error).__name__})", hint="maint host check --save-facts FILE writes one"
        ) from None
    return site, told


def with_matrix(site: SiteFacts, matrix: Mapping[str, Json] | None) -> SiteFacts:
    """Return facts judged by another support matrix than the one that was at hand when they were taken."""
    other = SiteFacts(site.taken_at, replace(site.setting, matrix=matrix), site.manager)
    other.hosts.extend(replace(host, site=other) for host in site.hosts)
    return other


def _kept(told: Mapping[str, Json], site: SiteFacts) -> HostFacts:
    fields = dict(told)
    answers = fields.pop("answers")
    if not isinstance(answers, Mapping):
        raise TypeError("answers")
    found = {name: Answered(int(status), str(out)) for name, (status, out) in _pairs(answers)}
    base = HostFacts("", "", "", found, site)
    return replace(base, **_fitting(fields, base))


# What a field may hold in a file, by the type of its value where nothing was said.
_FITTING: Mapping[type, tuple[type, ...]] = {
    str: (str,), int: (int,), bool: (bool,), float: (int, float), tuple: (list,), type(None): (dict, type(None)),
}  # fmt: skip


def _fitting(fields: Mapping[str, Any], like: object) -> dict[str, Any]:
    """Return fields of a file once each is of the type that `like` has there; a damaged file must not reach a check."""
    for name, value in fields.items():
        kind = type(getattr(like, name))
        inner = str if name == "endpoints" else dict
        fits = isinstance(value, _FITTING[kind]) and isinstance(value, bool) == (kind is bool)
        if not fits or (kind is tuple and not all(isinstance(item, inner) for item in value)):
            raise TypeError(name)
    return dict(fields)


def _pairs(answers: Mapping[str, Json]) -> Iterable[tuple[str, tuple[int, str]]]:
    for name, pair in answers.items():
        if not isinstance(pair, Sequence) or len(pair) != 2 or not isinstance(pair[0], int):
            raise TypeError(name)
        yield name, (pair[0], str(pair[1]))
