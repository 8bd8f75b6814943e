"""JUnit files, for build servers."""

import re
from collections.abc import Sequence

import msgspec

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


class Case(msgspec.Struct, frozen=True):
    """One test: how many seconds it took, and what is wrong, "" for nothing."""

    name: str
    seconds: float
    wrong: str


def junit(name: str, cases: Sequence[Case]) -> str:
    """Return a file with one suite."""
    failed = sum(bool(case.wrong) for case in cases)
    inner = "".join(_case(name, case) for case in cases)
    suite = (
        f'<testsuite name={quoted(name)} tests="{len(cases)}" failures="{failed}" errors="0">\n{inner}</testsuite>\n'
    )
    return f"{HEAD}<testsuites name={quoted(name)}>\n{suite}</testsuites>\n"


def _case(suite: str, case: Case) -> str:
    first = case.wrong.partition("\n")[0]
    inner = f"<failure message={quoted(first)}>{escaped(case.wrong)}</failure>" if case.wrong else ""
    return (
        f'<testcase classname={quoted(suite)} name={quoted(case.name)} time="{case.seconds:.3f}">{inner}</testcase>\n'
    )


def quoted(text: str) -> str:
    """Return text as the value of an attribute."""
    return '"' + escaped(text).replace("\n", "&#10;") + '"'


def escaped(text: str) -> str:
    """Return text as XML spells it, without the characters that it does not have."""
    return _NOT_XML.sub("", text).translate(_ENTITIES)
