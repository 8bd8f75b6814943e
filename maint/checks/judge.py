"""Judge facts: run the chosen checks, and take accepted deviations into account."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from maint.checks.check import Check, Verdict
from maint.checks.facts import HostFacts, SiteFacts
from maint.model.finding import Finding, State


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A known deviation.

    Attributes:
        hosts: where it is accepted; everywhere when empty.
        until: the last day, None for no end.
    """

    check: str
    hosts: Sequence[str]
    reason: str
    owner: str
    until: date | None


def acceptances(listed: Sequence[Mapping[str, object]]) -> tuple[Acceptance, ...]:
    """Return the accepted deviations of a site's settings."""
    found = []
    for item in listed:
        hosts, until = item.get("hosts"), item.get("until")
        found.append(
            Acceptance(
                str(item["check"]),
                tuple(map(str, hosts)) if isinstance(hosts, Sequence) and not isinstance(hosts, str) else (),
                str(item.get("reason") or ""),
                str(item.get("owner") or ""),
                until if isinstance(until, date) else date.fromisoformat(str(until)) if until else None,
            )
        )
    return tuple(found)


def judge(checks: Sequence[Check], site: SiteFacts, accepted: Sequence[Acceptance] = ()) -> list[Finding]:
    """Return one finding for each check and each host that it concerns, in the checks' and the hosts' order."""
    found = []
    for check in checks:
        for name, verdict in _verdicts(check, site):
            finding = Finding(
                check.id, check.severity, verdict.state or State.ERROR, verdict.observed, check.expected,
                check.reference, check.remedy, name,
            )  # fmt: skip
            found.append(_settled(finding, accepted, site.taken_at.date()))
    return found


def _verdicts(check: Check, site: SiteFacts) -> Iterator[tuple[str, Verdict]]:
    concerned = [host for host in site.hosts if check.concerns(host.profiles)]
    if check.site_rule is None:
        yield from ((host.name, check.judge(host)) for host in concerned)
        return
    if not concerned and check.profiles:
        return
    told = check.judge_all(replace(site, hosts=concerned))
    yield from told.items()
    if check.asks and "" not in told:  # nobody is passed over in silence
        yield from ((host.name, _silent(check, host)) for host in concerned if host.name not in told)


def _silent(check: Check, host: HostFacts) -> Verdict:
    if host.reached or all(question in host.answers for question in check.asks):
        return Verdict(State.SKIP, "there is nothing to compare on this host")
    return Verdict(State.ERROR, host.reason or "it did not answer")


def _settled(finding: Finding, accepted: Sequence[Acceptance], today: date) -> Finding:
    if finding.state not in (State.FAIL, State.WARN):
        return finding
    for item in accepted:
        if item.check != finding.check or (item.hosts and finding.host not in item.hosts):
            continue
        who = f" by {item.owner}" if item.owner else ""
        if item.until is None or today <= item.until:
            until = f" until {item.until}" if item.until else ""
            return replace(
                finding, state=State.PASS, observed=f"{finding.observed} (accepted{who}{until}: {item.reason})"
            )
        ended = f"{finding.observed} (its acceptance{who} ended on {item.until}: {item.reason})"
        return replace(finding, state=State.FAIL, observed=ended)
    return finding
