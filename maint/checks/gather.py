"""Gather facts: one script a host, a few reads of the manager."""

import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from threading import Thread
from typing import TypeVar
from urllib.parse import quote

import msgspec

from maint.checks.check import Check
from maint.checks.ecs_plan import folders, names_below, repository
from maint.checks.facts import Answered, HostFacts, ManagerFacts, SiteFacts, SiteSetting
from maint.checks.registry import CHECKS
from maint.config.schema import HostSettings, SiteSettings
from maint.errors import Failure, WorkFailed
from maint.model.fleet import HostReply
from maint.model.formatting import show_duration, show_time, whole_number
from maint.model.json import Json, objects_of
from maint.model.manager import Cluster
from maint.model.secret import scrub
from maint.ports import Fleet, ManagerSight, Sight
from maint.ports.hosts import configured_as
from maint.ports.manager_host import CHECK, Trial, look, try_served
from maint.render import from_file

T = TypeVar("T")
_LETTERS = {"base": "B", "ecs": "E", "ecs-master": "E", "manager": "M", "database": "D"}


def profiles_of(host: HostSettings, settings: SiteSettings) -> str:
    """Return the profiles that a host's groups choose; Kerberos asks the host itself whether it has a realm."""
    letters = {_LETTERS[group] for group in host.groups if group in _LETTERS}
    if "E" in letters and settings.virtual_clusters:
        letters.add("C")
    return "".join(sorted(letters | {"K"}))


def setting_of(
    settings: SiteSettings, phase: str, plan: Mapping[str, Json] | None, matrix: Mapping[str, Json] | None = None
) -> SiteSetting:
    """Return what checks read of a site's configuration."""
    urls = [url for cluster in settings.virtual_clusters for url in (cluster.base_url, cluster.auth_url)]
    places = [url.partition("://")[2].partition("/")[0] for url in urls]
    endpoints = tuple(dict.fromkeys(place if ":" in place else f"{place}:443" for place in places))
    domain = settings.app_domain or _domain(places)
    if plan is not None:
        domain = names_below(plan) or domain
    manager = settings.manager
    return SiteSetting(manager.host, manager.plain_port, manager.tls_port, domain, endpoints, phase, plan, matrix)


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
    return {name: text for name, text in CHECKS.questions().items() if name in wanted}


class Enquiry(msgspec.Struct, frozen=True):
    """What is asked of whom."""

    hosts: Sequence[HostSettings]
    checks: Sequence[Check]
    setting: SiteSetting
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


def ask_site(sight: Sight, enquiry: Enquiry, fleet: Fleet, *, timeout: float | None = None) -> SiteFacts:
    """Ask all hosts, and meanwhile the manager where a check needs it; see `gather`."""
    wanted = {check.id for check in enquiry.checks if check.needs_manager}
    on_manager = any("M" in letters for letters in enquiry.profiles.values())
    ids = {check.id for check in enquiry.checks}
    if not (wanted or enquiry.setting.plan is not None or (on_manager and "tls.expiry" in ids)):
        return gather(enquiry, fleet, sight.clock.now(), ManagerFacts(), timeout=timeout)
    until = None if timeout is None else sight.clock.monotonic() + timeout
    machines = [host for host in enquiry.hosts if "M" in enquiry.profiles[host.name]] if CHECK in wanted else []
    asked = _beside(lambda: ask_manager(sight, "cde.ozone" in ids, "tls.truststore" in wanted, machines))
    facts = gather(enquiry, fleet, sight.clock.now(), ManagerFacts(), timeout=timeout)
    try:
        manager, answered = asked.result(None if until is None else max(until - sight.clock.monotonic(), 0.0))
    except TimeoutError:
        manager = ManagerFacts(f"no answer within {show_duration(timeout or 0.0)}")
        answered = sight.clock.now()
    whole = SiteFacts(answered, facts.setting, manager)  # a slow host makes no sign of life older
    whole.hosts.extend(msgspec.structs.replace(host, site=whole) for host in facts.hosts)
    return whole


def _beside(work: Callable[[], T]) -> "Future[T]":
    """Begin work that nobody has to wait for: a thread that hangs does not hold up the end of the process."""
    future: Future[T] = Future()

    def carry_out() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # is raised where the result is asked for
            future.set_exception(error)

    Thread(target=carry_out, daemon=True).start()
    return future


def full_name(host: HostSettings) -> str:
    """Return a host's full name as far as the inventory tells it, else nothing."""
    for name in (host.name, host.address):
        if "." in name and not name.rpartition(".")[2].isdigit() and ":" not in name:
            return name
    return ""


def host_facts(
    host: HostSettings, profiles: str, reply: HostReply, token: str, asked: Iterable[str], site: SiteFacts
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


def ask_manager(
    sight: Sight, full: bool, truststore: bool, machines: Sequence[HostSettings] = ()
) -> tuple[ManagerFacts, datetime]:
    """Return what the manager says, and when; no answer is a reason, not a failure.

    Args:
        full: with the services of each cluster.
        truststore: try the password of the truststore, too.
        machines: hosts to look at whether they run the manager.
    """
    facts, answered = _told(sight, full, truststore)
    seen = look(sight, machines) if machines else []
    return msgspec.structs.replace(facts, machines=seen), answered


def _told(sight: Sight, full: bool, truststore: bool) -> tuple[ManagerFacts, datetime]:
    chain = ends = ""
    manager = sight.manager
    try:
        presence = manager.presence()
        chain = presence.chain or ""
        end = manager.certificate_end()
        ends = show_time(end) if end else ""
        release = manager.release()
        clusters = [_cluster(manager, cluster, full) for cluster in manager.clusters()]
        listed = manager.hosts()
        answered = sight.clock.now()
        trial = _tried(sight) if truststore else None
    except Failure as failure:
        return ManagerFacts(failure.message, chain=chain, ends=ends), sight.clock.now()
    hosts = [
        {
            "hostname": one.hostname or None,
            "lastHeartbeat": one.heard or None,
            "cluster": one.cluster,
            "names": configured_as(sight.settings.hosts, one),
        }
        for one in listed
    ]
    opens, words = (trial.opens, trial.words) if trial else (None, "")
    clock = "".join(one.listed for one in listed[:1])
    return ManagerFacts("", release, chain, hosts, clusters, ends, words, opens, clock), answered


def _tried(sight: Sight) -> Trial | None:
    try:
        return try_served(sight)
    except WorkFailed as failure:  # what answers in the password's place says nothing of all else
        return Trial(None, f"could not be tried: {failure.message}")


def _word(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _cluster(manager: ManagerSight, cluster: Cluster, full: bool) -> Mapping[str, Json]:
    services: list[Json] = []
    if full:
        fields = {"type": "type", "state": "serviceState", "health": "healthSummary"}
        for item in objects_of(manager.get(f"/clusters/{quote(cluster.name, safe='')}/services")):
            kept = {one: _word(item.get(key)) for one, key in fields.items()}
            services.append({**kept, "name": _word(item.get("name")) or ""})
    kind = "EXPERIENCE_CLUSTER" if cluster.is_ecs else cluster.type  # an old API version names none
    return {"name": cluster.name, "type": kind, "services": services, "display": cluster.display_name}


FORMAT = 1
_VALUES = ("domain", "peers", "endpoints", "authorities", "folders", "repository", "ou", "ldap")  # `$maint_NAME`
_LIMIT = 20  # seconds that a question may take which is known to hang at times
_MOST = 1_000_000  # characters of one answer
_WORDS = 300  # characters of what a command says on its error output


class Framed(msgspec.Struct, frozen=True):
    """What a host's answer held."""

    answers: Mapping[str, Answered]  # by question, those that came whole
    reason: str  # why not all came, "" where they did
    before: str  # printed before the answer began, such as a login banner


def script(questions: Mapping[str, str], values: Mapping[str, str], token: str) -> bytes:
    """Return the script that asks questions; a random token marks answers: no output is taken for a mark."""
    filled = {name: values.get(name, "") for name in _VALUES}
    text = from_file(
        "host-facts.sh.j2",
        {"questions": questions, "values": filled, "token": token, "format": FORMAT, "limit": _LIMIT},
    )
    return text.encode("utf-8", "surrogateescape")  # bytes of a command line that are no text go as they came


def parse(out: bytes, token: str, asked: Iterable[str]) -> Framed:
    """Return the answers that a host's output holds, whatever stands around them."""
    text = out.decode("utf-8", "replace").replace("\r\n", "\n")
    before, begun, rest = text.partition(f"{token} begin ")
    if not begun:
        words = " ".join(scrub(text[:_WORDS]).split())[:120]
        return Framed({}, f"no answer began; it printed {words!r}" if words else "no answer began", words)
    version, _, rest = rest.partition("\n")
    if version.strip() != str(FORMAT):
        return Framed({}, f"the answer has format {scrub(version[:_WORDS])[:20]!r}, not {FORMAT}", before.strip())
    answers = dict(_frames(rest, token))
    missing = [name for name in asked if name not in answers]
    whole = re.search(rf"^{re.escape(token)} done \d+$", rest, re.MULTILINE)
    reason = (
        "" if whole and not missing else f"the answer broke off after {len(answers)} of {len(answers) + len(missing)}"
    )
    return Framed(answers, reason, " ".join(before.split()))


def _frames(text: str, token: str) -> Iterable[tuple[str, Answered]]:
    for block in text.split(f"{token} ask ")[1:]:
        name, _, rest = block.partition("\n")
        shown, ended, status = rest.partition(f"\n{token} end ")
        code = whole_number(status.partition("\n")[0])
        if ended and "\n" in status and code is not None:
            out, _, words = f"\n{shown}".partition(f"\n{token} said ")
            yield name, Answered(code, out[1:][:_MOST], " ".join(words.split())[-_WORDS:])
