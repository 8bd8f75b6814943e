"""Every form of the result: no host, one host, all lost, names of any kind; forms and exit codes agree."""

import json
import xml.etree.ElementTree as ET

import pytest

from maint.model.fleet import Contact, Finding, Severity, State
from maint.report import checks as reports

NAMES = ["wn01", "höst-ü1.例え.テスト", 'a|b "x" <i>&amp;', "x\x1b[31mred"]
WORDS = 'seen <b>"60"</b> & \x1b[2J\x07 | ü\ud800\nsecond line'


def found(state: State, host: str) -> Finding:
    return Finding("os.swappiness", Severity.FAIL, state, WORDS, "1", "own", "sysctl", host)


CASES = [
    ([], [], 7, 3, "UNKNOWN"),
    ([found(State.PASS, "wn01")], [Contact("wn01", True)], 0, 0, "OK"),
    ([found(State.WARN, "wn01")], [Contact("wn01", True)], 0, 1, "WARNING"),
    ([found(State.SKIP, "wn01")], [Contact("wn01", True)], 7, 3, "UNKNOWN"),
    ([found(State.ERROR, "wn01")], [Contact("wn01", True)], 7, 3, "UNKNOWN"),
    ([found(State.PASS, "")], [Contact(name, False, WORDS) for name in NAMES], 7, 3, "UNKNOWN"),
    ([found(State.FAIL, name) for name in NAMES], [Contact(name, True) for name in NAMES], 1, 2, "CRITICAL"),
    ([found(State.FAIL, "wn01")], [Contact("wn01", True), Contact("b", False, WORDS)], 1, 2, "CRITICAL"),
]


@pytest.mark.parametrize(("findings", "contacts", "code", "status", "word"), CASES)
def test_each_form_tells_the_same(
    findings: list[Finding], contacts: list[Contact], code: int, status: int, word: str
) -> None:
    assert reports.exit_code(findings, contacts) == code
    text, shown = reports.nagios(findings, contacts)
    assert (shown, text.startswith(f"HOSTS {word} - ")) == (status, True)
    told = reports.to_json(findings, contacts)
    assert [host["name"] for host in json.loads(json.dumps(told))["hosts"]] == [contact.name for contact in contacts]
    suites = ET.fromstring(reports.to_junit(findings, contacts)).findall("testsuite")
    for kind, tag in (("tests", "testcase"), ("failures", ".//failure"), ("errors", ".//error")):
        assert sum(int(suite.attrib[kind]) for suite in suites) == sum(len(suite.findall(tag)) for suite in suites)
    assert sum(int(suite.attrib["failures"]) for suite in suites) == sum(f.state is State.FAIL for f in findings)
    page = reports.html(findings, contacts, {"site": "s", "taken_at": "now"})
    for form in (page, text):
        form.encode()
        assert "\x1b" not in form and "\x07" not in form
    assert "<b>" not in page and "<i>" not in page
    assert all(line.count("|") == (number == 0) for number, line in enumerate(text.splitlines()))


def test_a_host_that_was_not_reached_is_one_line_in_every_form() -> None:
    ids = [f"check.{number}" for number in range(9)]
    findings = [Finding(one, Severity.FAIL, State.ERROR, "refused", "", "", "", "b") for one in ids]
    contacts = [Contact("wn01", True), Contact("b", False, "refused")]
    findings.append(found(State.PASS, "wn01"))
    text, _ = reports.nagios(findings, contacts)
    assert text.splitlines()[1:] == ["NOT REACHED b: refused"]
    assert "1 of 2 hosts answered" in text and "error=9" in text
    page = reports.html(findings, contacts, {"site": "s", "taken_at": "now"})
    assert (page.count("<td>b</td>"), "no: refused" in page) == (1, True)
    cases = ET.fromstring(reports.to_junit(findings, contacts)).findall(".//testcase[@classname='b']")
    assert [case.attrib["name"] for case in cases] == ["reached"]
