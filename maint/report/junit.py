"""JUnit files, for build servers."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

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
    inner = "".join(_suite(*one) for one in suites.items())
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name={_quoted(name)}>\n{inner}</testsuites>\n'


def _suite(name: str, cases: Sequence[Case]) -> str:
    count = Counter(case.outcome for case in cases)
    return (
        f'<testsuite name={_quoted(name)} tests="{len(cases)}" failures="{count["failure"]}" '
        f'errors="{count["error"]}" skipped="{count["skipped"]}">\n'
        f"{''.join(_case(name, case) for case in cases)}</testsuite>\n"
    )


def _case(suite: str, case: Case) -> str:
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
