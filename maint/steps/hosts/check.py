"""`host.check`: judge hosts within a run; findings stop it, are reported, or decide what follows."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar, Literal, Self

from msgspec.structs import replace
from pydantic import Field, field_validator, model_validator

from maint.checks.check import RUNNING, Check, judge
from maint.checks.facts import SiteFacts
from maint.checks.gather import Enquiry, ask_site, profiles_of, setting_of
from maint.checks.registry import must_exist, select
from maint.config.schema import SiteSettings
from maint.errors import Invalid, UsageError, WorkFailed
from maint.files import explaining, read_file
from maint.model.certificate import all_of
from maint.model.fleet import Finding, State
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, Work
from maint.steps.hosts.fan_out import HostsArguments, choose, chosen_hosts, host_list, texts
from maint.steps.step import Progress, Step, done, in_a_template

_TOLD = 12  # findings that are told one by one


@contextmanager
def _as_a_mistake() -> Iterator[None]:
    """Turn what the command line would be told into what a file is told."""
    try:
        yield
    except UsageError as error:
        raise ValueError(f"{error.in_a_line}{f' ({error.hint})' if error.hint else ''}") from None


class CheckArguments(HostsArguments):
    """Which hosts by which checks, and what a finding does; all hosts of the config where none are named."""

    every: ClassVar[bool] = True
    checks: list[str] = Field([], description="ids of checks; else all of the phase")
    checks_in: list[str] = Field([], description="groups of checks")
    phase: str = Field(RUNNING, description="`running`, `before-install`, `before-restore` or `before-backup`")
    on_failure: Literal["fail", "warn", "register"] = Field(
        "fail",
        description="`fail` stops the run; `warn` goes on, and the run ends with 7; `register` leaves it to others",
    )

    @field_validator("checks")
    @classmethod
    def _are_checks(cls, ids: list[str]) -> list[str]:
        with _as_a_mistake():
            must_exist(ids=[one for one in ids if not in_a_template(one)])
        return ids

    @field_validator("checks_in")
    @classmethod
    def _are_groups(cls, groups: list[str]) -> list[str]:
        with _as_a_mistake():
            must_exist(groups=[one for one in groups if not in_a_template(one)])
        return groups

    @field_validator("phase")
    @classmethod
    def _is_a_phase(cls, phase: str) -> str:
        with _as_a_mistake():
            must_exist(phase="" if in_a_template(phase) else phase)
        return phase

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if not any(in_a_template(text) for text in (*self.checks, *self.checks_in, self.phase)):
            with _as_a_mistake():
                select(self.checks, self.checks_in, self.phase)
        return self


class CheckHosts(Step[CheckArguments]):
    """Check hosts as `maint host check` does: any of the checks, by id, group or phase."""

    kind = "host.check"
    effect = Effect.READ
    locks = False

    def plan(self, args: CheckArguments, sight: Sight) -> Iterable[Action]:
        hosts = chosen_hosts(sight, args) or [host.name for host in sight.settings.hosts_in("manager")]
        checks = select(args.checks, args.checks_in, args.phase)
        what = ", ".join(check.id for check in checks) if len(checks) <= 4 else show_count(len(checks), "check")
        then = {"fail": "stop at a failure", "warn": "warn of failures", "register": "register the findings"}
        yield self.action(
            host_list(hosts),
            f"check {host_list(hosts)}: {what} of phase {args.phase}; {then[args.on_failure]}",
            {**args.model_dump(exclude={"groups"}), "hosts": hosts},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        args = CheckArguments.model_validate(dict(action.arguments))
        checks, names = select(args.checks, args.checks_in, args.phase), texts(action.arguments["hosts"])
        yield f"asking {show_count(len(names), 'host')}"
        chosen = set(names) != {host.name for host in site.settings.hosts}
        facts = ask_site(site, _enquiry(site, checks, names, args.phase), site.fleet, timeout=work.timeout)
        findings = judge(checks, facts, site.settings.accepted, chosen=chosen)
        if all(one.state is State.SKIP for one in findings):  # no result is never a pass
            findings = [replace(one, state=State.ERROR) for one in findings]
        wrong = [one for one in findings if one.state in (State.FAIL, State.ERROR)]
        warned = [one for one in findings if one.state is State.WARN]
        lines, value = _lines(facts, wrong), _value(facts, findings)
        words = _words(len(names), len(findings), wrong, warned)
        if not wrong:
            return done(words, value)
        if args.on_failure == "fail":
            failure = WorkFailed(words, detail=lines, hint=f"{_way(args, wrong)}; then `maint playbook resume`")
            failure.hosts = texts(value["hosts"])
            raise failure
        if args.on_failure == "warn":
            return done("; ".join([words, *lines]), value, partly=True, hint=_way(args, wrong))
        return done(words, value)


def _enquiry(sight: Sight, checks: Sequence[Check], names: Sequence[str], phase: str) -> Enquiry:
    settings = sight.settings
    known = {host.name: host for host in (*settings.hosts_in("manager"), *settings.hosts)}
    choose(list(known.values()), names, ())  # one may have left the config since the plan
    hosts = [known[name] for name in names]
    profiles = {host.name: profiles_of(host, settings) for host in hosts}
    return Enquiry(hosts, checks, setting_of(settings, phase, None), profiles, {"authorities": authorities(settings)})


def _lines(facts: SiteFacts, wrong: Sequence[Finding]) -> list[str]:
    # A host that was not reached is one line, not one for each check.
    silent = {host.name: host.reason for host in facts.hosts if not host.reached}
    lines = [f"{name} was not reached: {reason}" for name, reason in silent.items()]
    lines += [
        f"{' '.join(filter(None, (one.check, one.host)))}: {one.observed}; expected: {one.expected}"
        for one in wrong
        if one.host not in silent
    ]
    more = len(lines) - _TOLD
    return [*lines[:_TOLD], *([f"and {more} more; `maint host check` shows all"] if more > 0 else [])]


def _way(args: CheckArguments, wrong: Sequence[Finding]) -> str:
    """Return which command tells how to mend it; it asks all hosts, since some checks compare them."""
    ids = dict.fromkeys(one.check for one in wrong)
    flags = " ".join(f"--check {one}" for one in ids) if len(ids) <= 3 else f"--phase {args.phase}"
    return f"`maint host check {flags}` tells how to mend it"


def _words(hosts: int, made: int, wrong: Sequence[Finding], warned: Sequence[Finding]) -> str:
    of = f"{show_count(made, 'check')} of {show_count(hosts, 'host')}"
    failed, unclear = (sum(one.state is state for one in wrong) for state in (State.FAIL, State.ERROR))
    parts = [f"{failed} failed" if failed else "", f"{unclear} could not tell" if unclear else ""]
    parts.append(show_count(len(warned), "warning") if warned else "")
    return f"{of}: {', '.join(part for part in parts if part) or 'nothing is wrong'}"


def _value(facts: SiteFacts, findings: Sequence[Finding]) -> dict[str, Json]:
    def ids(*states: State) -> list[Json]:
        return list(dict.fromkeys(one.check for one in findings if one.state in states))

    listed: list[Json] = [
        {"check": one.check, "host": one.host, "state": one.state.value, "observed": one.observed}
        for one in findings
        if one.state in (State.FAIL, State.ERROR, State.WARN)
    ]
    wrong = {one.host for one in findings if one.state in (State.FAIL, State.ERROR)}
    return {
        "ok": not ids(State.FAIL, State.ERROR),
        "failed": ids(State.FAIL),
        "unclear": ids(State.ERROR),
        "warned": ids(State.WARN),
        "hosts": [host.name for host in facts.hosts if host.name in wrong],
        "findings": listed,
    }


def authorities(settings: SiteSettings) -> str:
    """Return the certificates of the authorities that the virtual clusters of a site are configured with."""
    paths = dict.fromkeys(cluster.ca for cluster in settings.virtual_clusters if cluster.ca)
    hint = "`ca` must name a PEM file that this account may read"
    found = list[str]()
    for path in paths:
        with explaining(f"a virtual cluster's `ca`, {path}, cannot be read", hint):
            certificates = all_of(read_file(path))
        if not certificates:
            raise Invalid(f"a virtual cluster's `ca`, {path}, holds no certificate in PEM form", hint=hint)
        found += certificates
    return "\n".join(found)
