"""The result of checks for people and programs: grouped, as JUnit, for Nagios, as HTML."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from maint.model.fleet import Contact, Finding, State
from maint.model.formatting import fold, show_count
from maint.model.json import Json, as_json
from maint.render import from_file

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


class Case(msgspec.Struct, frozen=True):
    """One test."""

    name: str
    outcome: str = ""  # failure, error or skipped; "" for one that passed
    message: str = ""  # why
    text: str = ""  # more about that; of one that passed, what it printed
    seconds: float | None = None


def junit(name: str, suites: Mapping[str, Sequence[Case]]) -> str:
    """Return a file with the cases of each suite."""
    inner = "".join(_suite_element(*one) for one in suites.items())
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name={_quoted(name)}>\n{inner}</testsuites>\n'


def _suite_element(name: str, cases: Sequence[Case]) -> str:
    count = Counter(case.outcome for case in cases)
    return (
        f'<testsuite name={_quoted(name)} tests="{len(cases)}" failures="{count["failure"]}" '
        f'errors="{count["error"]}" skipped="{count["skipped"]}">\n'
        f"{''.join(_element(name, case) for case in cases)}</testsuite>\n"
    )


def _element(suite: str, case: Case) -> str:
    kind, text = case.outcome, _escaped(case.text)
    inner = f"<system-out>{text}</system-out>" if text else ""
    if kind:
        inner = f"<{kind} message={_quoted(case.message)}" + (f">{text}</{kind}>" if text else "/>")
    time = "" if case.seconds is None else f' time="{case.seconds:.3f}"'
    return f"<testcase classname={_quoted(suite)} name={_quoted(case.name)}{time}>{inner}</testcase>\n"


def _quoted(text: str) -> str:
    """Return text as the value of an attribute."""
    return '"' + _escaped(text).replace("\n", "&#10;") + '"'


def _escaped(text: str) -> str:
    """Return text as XML spells it, without the characters that it does not have."""
    return _NOT_XML.sub("", text).translate(_ENTITIES)


ORDER = (State.FAIL, State.ERROR, State.WARN, State.SKIP, State.PASS)
LOUD = (State.FAIL, State.ERROR, State.WARN)
PASSED, FAILED, PARTLY = 0, 1, 7
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_NAGIOS = {State.FAIL: (2, "CRITICAL"), State.ERROR: (3, "UNKNOWN"), State.WARN: (1, "WARNING")}


class FindingGroup(msgspec.Struct, frozen=True):
    """Findings that say the same of several hosts."""

    finding: Finding
    hosts: Sequence[str]

    @property
    def where(self) -> str:
        """The hosts, folded; the site where the finding is of no host."""
        return fold(self.hosts) or "site"


def group(findings: Sequence[Finding]) -> list[FindingGroup]:
    """Return findings with equal ones put together, in the order of the checks."""
    found: dict[tuple[str, State, str], list[Finding]] = {}
    for finding in findings:
        found.setdefault((finding.check, finding.state, finding.observed), []).append(finding)
    return [FindingGroup(members[0], [m.host for m in members if m.host]) for members in found.values()]


def exit_code(findings: Sequence[Finding], contacts: Sequence[Contact]) -> int:
    """Return 1 when something failed, else 7 when a host or check could not tell or nothing was judged, else 0."""
    states = {finding.state for finding in findings}
    if State.FAIL in states:
        return FAILED
    return PARTLY if State.ERROR in states or _unclear(findings, contacts) else PASSED


def _unclear(findings: Sequence[Finding], contacts: Sequence[Contact]) -> bool:
    """Return whether a host did not answer, or no check had anything to say: no result is never a pass."""
    return _skipped(findings) or not contacts or any(not contact.reached for contact in contacts)


def _skipped(findings: Sequence[Finding]) -> bool:
    return all(finding.state is State.SKIP for finding in findings)


def to_json(findings: Sequence[Finding], contacts: Sequence[Contact]) -> dict[str, Json]:
    """Return all findings, grouped, and which hosts answered."""
    listed: list[Json] = []
    for one in group(findings):
        said = as_json(one.finding)
        del said["host"]
        listed.append({**said, "hosts": list(one.hosts)})
    hosts: list[Json] = [{"name": c.name, "reached": c.reached, "reason": c.reason or None} for c in contacts]
    return {"findings": listed, "hosts": hosts}


def without_repeats(findings: Sequence[Finding], contacts: Sequence[Contact]) -> list[Finding]:
    """Return the findings without those that only repeat, check for check, that their host was not reached."""
    silent = {contact.name for contact in contacts if not contact.reached}
    return [one for one in findings if not (one.host in silent and one.state is State.ERROR)]


def rows(findings: Sequence[Finding], *, every: bool = False) -> list[list[str]]:
    """Return the lines of a table, the worst first: state, check, hosts, observed, expected, remedy.

    Only what is loud is shown, or skips where there is nothing else; with `every` all of it.
    """
    shown = (*LOUD, State.SKIP) if _skipped(findings) else LOUD
    groups = sorted(group(findings), key=lambda one: ORDER.index(one.finding.state))
    return [
        [one.finding.state.value.upper(), one.finding.check, one.where, one.finding.observed, one.finding.expected,
         one.finding.remedy]
        for one in groups
        if every or one.finding.state in shown
    ]  # fmt: skip


def by_host(findings: Sequence[Finding], contacts: Sequence[Contact]) -> list[list[str]]:
    """Return one line a host: its name, and how many checks ended how."""
    counts: dict[str, Counter[State]] = {contact.name: Counter() for contact in contacts}
    for finding in findings:
        if finding.host in counts:
            counts[finding.host][finding.state] += 1
    return [
        [contact.name, "yes" if contact.reached else f"no: {contact.reason}"]
        + [str(counts[contact.name][state]) for state in ORDER]
        for contact in contacts
    ]


def summary(findings: Sequence[Finding], contacts: Sequence[Contact]) -> str:
    """Return one line for people."""
    count = Counter(finding.state for finding in findings)
    reached = sum(contact.reached for contact in contacts)
    hosts = f"{reached} of {show_count(len(contacts), 'host')} answered"
    return f"{hosts}: " + ", ".join(f"{count[state]} {state.value}" for state in ORDER)


def nagios(findings: Sequence[Finding], contacts: Sequence[Contact]) -> tuple[str, int]:
    """Return the plugin's output and its status: 0 to 3."""
    states = {finding.state for finding in findings}
    states |= {State.ERROR} if _unclear(findings, contacts) else set()
    status, word = next(
        (_NAGIOS[state] for state in (State.FAIL, State.ERROR, State.WARN) if state in states), (0, "OK")
    )
    count = Counter(finding.state for finding in findings)
    metrics = " ".join(f"{state.value}={count[state]}" for state in ORDER)
    lines = [f"HOSTS {word} - {summary(findings, contacts)} | {metrics}"]
    found = rows(without_repeats(findings, contacts))
    lines += [f"{state} {check} on {where}: {observed}" for state, check, where, observed, *_ in found]
    lines += [f"NOT REACHED {contact.name}: {contact.reason}" for contact in contacts if not contact.reached]
    return "\n".join([lines[0], *map(plain, lines[1:])]) + "\n", status


def plain(text: str) -> str:
    """Return text on one line, without what the plugin convention or a terminal would take for something else."""
    return _CONTROL.sub("", " ".join(text.split())).replace("|", "/")


def to_junit(findings: Sequence[Finding], contacts: Sequence[Contact]) -> str:
    """Return a JUnit file: a suite a host, a case a check; warnings are cases that passed, with their words."""
    suites: dict[str, list[Case]] = {contact.name: [] for contact in contacts}
    for finding in without_repeats(findings, contacts):
        suites.setdefault(finding.host or "site", []).append(_case(finding))
    for contact in contacts:
        if not contact.reached:
            suites[contact.name].append(Case("reached", "error", contact.reason))
    return junit("maint host check", suites)


def _case(finding: Finding) -> Case:
    words = f"{finding.observed}; expected: {finding.expected}"
    return {
        State.FAIL: Case(finding.check, "failure", words, finding.remedy),
        State.ERROR: Case(finding.check, "error", finding.observed),
        State.SKIP: Case(finding.check, "skipped", finding.observed),
        State.WARN: Case(finding.check, text=f"warning: {words}"),
    }.get(finding.state, Case(finding.check))


def html(findings: Sequence[Finding], contacts: Sequence[Contact], facts: Mapping[str, str]) -> str:
    """Return the report as a page; `facts` are site and time, for its head."""
    values = {
        "facts": facts,
        "summary": summary(findings, contacts),
        "rows": [
            [_CONTROL.sub("", cell) for cell in row] for row in rows(without_repeats(findings, contacts), every=True)
        ],
        "states": [state.value for state in ORDER],
        "hosts": [[_CONTROL.sub("", cell) for cell in row] for row in by_host(findings, contacts)],
    }
    return from_file("host-check.html.j2", values, html=True)
