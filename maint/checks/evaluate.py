"""Judge facts: run the chosen checks, and take accepted deviations into account."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from msgspec.structs import replace
from pydantic import ValidationError

from maint.checks.check import Check, Verdict
from maint.checks.facts import HostFacts, SiteFacts
from maint.config.schema import Accepted
from maint.model.fleet import Finding, State
from maint.model.secret import scrub

_FINE = Verdict(State.PASS, "")
_UNTOLD = "see to it that this can be told, then check again"  # what mends a broken rule may harm one that is kept


def acceptances(listed: Sequence[object]) -> tuple[Accepted, ...]:
    """Return the accepted deviations of a file of facts; ValueError says which part of one is missing."""
    return tuple(_acceptance(number, item) for number, item in enumerate(listed, 1))


def _acceptance(number: int, item: object) -> Accepted:
    try:
        return Accepted.model_validate_json(json.dumps(item))
    except ValidationError:
        raise ValueError(f"acceptance {number} lacks check, reason, owner or last day, or names no hosts") from None


def judge(
    checks: Sequence[Check], site: SiteFacts, accepted: Sequence[Accepted] = (), *, chosen: bool = False
) -> list[Finding]:
    """Return one finding for each check and each host that it concerns, in the checks' and the hosts' order.

    A check that concerns none of the hosts is a finding too: a skip of the site.

    Args:
        checks: what is judged.
        site: the facts.
        accepted: deviations that count as pass until their last day.
        chosen: whether the hosts were chosen, so that what the manager says of other hosts is left out.
    """
    found = []
    known = {str(host.get("hostname")) for host in site.manager.hosts} if chosen else set[str]()
    elsewhere = known - {name for host in site.hosts for name in (host.name, host.address)}
    for check in checks:
        for name, verdict in _verdicts(check, site):
            if name in elsewhere:
                continue
            remedy = verdict.remedy or (_UNTOLD if verdict.state is State.ERROR else check.remedy)
            finding = Finding(
                check.id, check.severity, verdict.state or State.ERROR, scrub(verdict.observed), check.expected,
                check.reference, scrub(remedy), name,
            )  # fmt: skip
            found.append(_settled(finding, accepted, site.taken_at.date()))
    return [_unproven(finding) for finding in found] if _silence(site) else found


def _silence(site: SiteFacts) -> bool:
    """Whether neither a host nor the manager has said anything."""
    return bool(site.hosts and site.manager.reason) and not any(host.reached or host.answers for host in site.hosts)


def _unproven(finding: Finding) -> Finding:
    """Return that nothing passes where nothing was reached: a rule kept by the config alone is no news of the site."""
    if finding.state is not State.PASS:
        return finding
    return replace(finding, state=State.SKIP, observed=f"nothing was reached; by the config alone: {finding.observed}")


def _verdicts(check: Check, site: SiteFacts) -> Iterator[tuple[str, Verdict]]:
    concerned = [host for host in site.hosts if check.concerns(host.profiles)]
    if not concerned and check.profiles:
        yield "", Verdict(State.SKIP, f"none of these hosts is in {' or '.join(check.groups)}")
        return
    if check.site_rule is None:
        yield from ((host.name, check.judge(host)) for host in concerned)
        return
    verdicts = _together(check, site, concerned)
    yield from verdicts.items()
    if check.asks and "" not in verdicts:  # nobody is passed over in silence
        yield from ((host.name, _silent(check, host)) for host in concerned if host.name not in verdicts)


def _together(check: Check, site: SiteFacts, hosts: list[HostFacts]) -> Mapping[str, Verdict]:
    # A host whose answer cannot be read hides nothing of what the others say.
    verdicts = check.judge_all(replace(site, hosts=hosts))
    if not check.asks or verdicts.get("", _FINE).state is not State.ERROR:
        return verdicts
    alone = {host.name: check.judge_all(replace(site, hosts=[host])).get("", _FINE) for host in hosts}
    unread = {name: verdict for name, verdict in alone.items() if verdict.state is State.ERROR}
    others = [host for host in hosts if host.name not in unread]
    return {**check.judge_all(replace(site, hosts=others)), **unread} if unread and others else verdicts


def _silent(check: Check, host: HostFacts) -> Verdict:
    missing = [question for question in check.asks if question not in host.answers]
    if not missing:
        return Verdict(State.SKIP, "there is nothing to compare on this host")
    return Verdict(State.ERROR, host.reason or f"{missing[0]} was not asked")


def _settled(finding: Finding, accepted: Sequence[Accepted], today: date) -> Finding:
    if finding.state not in (State.FAIL, State.WARN):
        return finding
    for item in accepted:
        if item.check != finding.check or (item.hosts and finding.host not in item.hosts):
            continue
        if today <= item.until:
            words = f"accepted by {item.owner} until {item.until}: {item.reason}"
            return replace(finding, state=State.PASS, observed=f"{finding.observed} ({words})")
        ended = f"its acceptance by {item.owner} ended on {item.until}: {item.reason}"
        return replace(finding, state=State.FAIL, observed=f"{finding.observed} ({ended})")
    return finding
