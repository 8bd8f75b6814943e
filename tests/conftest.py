"""Where the real parts must be there, as in CI, a test that skips for lack of one is a failure."""

import os
import re
from collections.abc import Generator

import pytest

_NEEDED = os.environ.get("MAINT_TESTS_NEED_REAL_PARTS") == "1"
_LACKING = re.compile(r"not installed|no (keytool|dash|OpenSSH)|stock tool|cannot be had|could not be found")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if _NEEDED and report.skipped and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if _LACKING.search(reason):
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid}: a real part is missing, and here it must be there: {reason}"
    return report
