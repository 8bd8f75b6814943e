"""What a check is: an id, the questions it needs answered, a pure rule, and how to mend what it finds."""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from maint.checks.facts import CouldNotTell, HostFacts, NotApplicable, SiteFacts
from maint.model.fleet import Severity, State

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
