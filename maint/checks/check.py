"""What a check is: an id, the questions it asks, a pure rule, how to mend what it finds; and how it judges facts."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date

import msgspec
from msgspec.structs import replace
from pydantic import ValidationError

from maint.checks.facts import CouldNotTell, HostFacts, NotApplicable, SiteFacts, names_of
from maint.config.schema import Accepted
from maint.model.fleet import Finding, Severity, State
from maint.model.secret import scrub

PROFILES: Mapping[str, str] = {
    "B": "base",
    "E": "ecs",
    "M": "manager",
    "D": "database",
    "K": "kerberos",
    "C": "virtual-cluster",
}
RUNNING, BEFORE_INSTALL, BEFORE_RESTORE, BEFORE_BACKUP = "running", "before-install", "before-restore", "before-backup"
PHASES = (RUNNING, BEFORE_INSTALL, BEFORE_RESTORE, BEFORE_BACKUP)
FAIL, WARN, INFORM = Severity.FAIL, Severity.WARN, Severity.INFORM
# What a rule stumbles over in an answer of a shape that nobody foresaw: the check could not tell, the others go on.
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, StopIteration)
_OTHERWISE = "the {} not of the form that this check can read"
_BROKEN = {FAIL: State.FAIL, WARN: State.WARN, INFORM: State.PASS}
_UNTOLD = "see to it that this can be told, then check again"  # what mends a broken rule may harm one that is kept


class Verdict(msgspec.Struct, frozen=True):
    """What a rule says about what it saw."""

    state: State | None  # None for "broken", as severe as the check says
    observed: str  # what was seen
    remedy: str = ""  # what mends just this; "" where the check's own remedy does


def good(observed: str) -> Verdict:
    """Return that the rule is kept."""
    return Verdict(State.PASS, observed)


def broken(observed: str, remedy: str = "") -> Verdict:
    """Return that the rule is broken, and what mends it where the check's own remedy does not."""
    return Verdict(None, observed, remedy)


def warned(observed: str, remedy: str = "") -> Verdict:
    """Return that the rule is bent: a warning, whatever the severity."""
    return Verdict(State.WARN, observed, remedy)


def failed(observed: str, remedy: str = "") -> Verdict:
    """Return that the rule is broken so badly that it fails, whatever the severity."""
    return Verdict(State.FAIL, observed, remedy)


def held(kept: bool, observed: str, remedy: str = "") -> Verdict:
    """Return whether the rule is kept, and what mends it where the check's own remedy does not."""
    return good(observed) if kept else broken(observed, remedy)


def setting_kernel(*settings: str) -> str:
    """Return the commands that set `NAME=VALUE` of the kernel at each boot, whatever other files say, and now."""
    # The last file by name decides; `/etc/sysctl.conf` is read as 99-sysctl.conf, if at all.
    lasting = (f"echo {one} >> /etc/sysctl.d/zz-maint.conf" for one in settings)
    return "; ".join([*lasting, f"sysctl -w {' '.join(settings)}"])


HostRule = Callable[[HostFacts], Verdict]
SiteRule = Callable[[SiteFacts], Mapping[str, Verdict]]


class Check(msgspec.Struct, frozen=True):
    """One check."""

    id: str  # `subject.what`
    profiles: str  # letters of `PROFILES`; empty for every host
    severity: Severity  # what a broken rule means
    asks: Sequence[str]  # the questions whose answers it reads
    expected: str
    why: str
    remedy: str  # a line for a shell where a command mends it, words for people behind `#`
    source: str  # keys of `SOURCES`
    rule: HostRule | None = None
    site_rule: SiteRule | None = None  # judges all hosts together
    phases: Sequence[str] = (RUNNING,)
    opt_in: bool = False  # runs only when asked for by name, because it writes
    needs_manager: bool = False  # reads the manager's API

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups it belongs to."""
        return tuple(PROFILES[letter] for letter in self.profiles or "BEM")

    @property
    def reference(self) -> str:
        """Where the rule can be read."""
        return "; ".join(SOURCES[key] for key in self.source.split())

    def concerns(self, letters: str) -> bool:
        """Return whether a host with these profiles is judged."""
        return not self.profiles or bool(set(self.profiles) & set(letters))

    def host_rule(self, rule: HostRule) -> "Check":
        """Return the check with the rule that judges one host; a decorator."""
        return replace(self, rule=rule)

    def cross_rule(self, rule: SiteRule) -> "Check":
        """Return the check with the rule that judges all hosts together; a decorator."""
        return replace(self, site_rule=rule)

    def judge(self, host: HostFacts) -> Verdict:
        """Return the verdict on one host; what could not be found out is an error with its reason."""
        if (rule := self.rule) is None:
            raise TypeError(f"{self.id} judges the site, not a host")
        return self._judged(lambda: {"": rule(host)}, "answer is")[""]

    def judge_all(self, site: SiteFacts) -> Mapping[str, Verdict]:
        """Return the verdicts by host name; "" for the site itself."""
        if (rule := self.site_rule) is None:
            raise TypeError(f"{self.id} judges hosts")
        return self._judged(lambda: rule(site), "answers are")

    def _judged(self, rule: Callable[[], Mapping[str, Verdict]], read: str) -> Mapping[str, Verdict]:
        try:
            return {name: self.settled(verdict) for name, verdict in rule().items()}
        except NotApplicable as reason:
            return {"": Verdict(State.SKIP, str(reason))}
        except CouldNotTell as reason:
            return {"": Verdict(State.ERROR, reason.words, reason.remedy)}
        except _UNREADABLE:
            return {"": Verdict(State.ERROR, _OTHERWISE.format(read))}

    def settled(self, verdict: Verdict) -> Verdict:
        """Return a verdict with its state decided."""
        return verdict if verdict.state is not None else replace(verdict, state=_BROKEN[self.severity])


_DOCS = "https://docs.cloudera.com"
_GITHUB = "https://github.com"
SOURCES: dict[str, str] = {
    "NET": f"{_DOCS}/cdp-private-cloud-base/latest/installation/topics/cdpdc-networking-security-requirements.html",
    "BEF": f"{_DOCS}/cdp-private-cloud-base/7.1.8/installation/topics/cdpdc-before-you-install.html",
    "THP": f"{_DOCS}/cloudera-manager/7.13.3/managing-clusters/topics/cm-disabling-transparent-hugepages.html",
    "ENT": f"{_DOCS}/cdp-private-cloud-base/latest/installation/topics/cdpdc-data-at-rest-encryption-requirements.html",
    "RA": f"{_DOCS}/cdp-reference-architectures/latest/cdp-pvc-base-ra/topics/ra-cdpdc-filesystems.html",
    "IPT": f"{_DOCS}/cdp-private-cloud-data-services/latest/installation-ecs/topics/cdppvc-install-ecsha-iptables.html",
    "CDE": f"{_DOCS}/data-engineering/1.5.3/prereqs/topics/cde-private-cloud-prereqs.html",
    "HI": "the host inspector of Cloudera Manager",
    "HM": "the host monitoring defaults of Cloudera Manager",
    "PS": f"{_GITHUB}/cloudera-ps/prereq-checks",
    "CC": f"{_GITHUB}/cloudera-labs/cloudera.cluster",
    "EXE": f"{_GITHUB}/cloudera-labs/cloudera.exe",
    "RKE2": "https://docs.rke2.io/known_issues",
    "FX": "operating experience with these clusters",
    "own": "maint: a proposal of its own",
    "site": "a rule of this site",
}


_FINE = Verdict(State.PASS, "")


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
    known = {name for host in site.manager.hosts for name in names_of(host)} if chosen else set[str]()
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
