"""The longest files begin first; where the real parts must be there, as in CI, a skip for lack of one is a failure."""

import contextlib
import gc
import importlib
import itertools
import json
import math
import os
import re
import signal
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Generator
from pathlib import Path

# Many processes import the same modules: each finds them compiled, whatever the environment says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ.pop("COLUMNS", None)  # which a process of a parallel run is given: tables are as wide as for a program
os.environ["TERM"] = "xterm"  # what is shown on a terminal is asked of one that can show it

import pytest  # noqa: E402 - compiled, and kept so, only from here on
from hypothesis import HealthCheck, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from maint.lab.http import server  # noqa: E402
from maint.model import secret  # noqa: E402

# How long one example takes says nothing on a busy machine.
settings.register_profile("maint", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50)
settings.register_profile("campaign", settings.get_profile("maint"), max_examples=500)
settings.load_profile("campaign" if os.environ.get("MAINT_CAMPAIGN") else "maint")

gc.disable()  # until all is collected, of which nothing goes
_freeze = gc.freeze

# Under `nohup` a hang-up is ignored, and so by every process that is started. A handler goes on ignoring it here, and
# is not inherited: tests see the signals that they are about.
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

# The product syncs what it writes, and tests would mostly wait for a disk: their files lie in memory where it has room.
# PYTEST_DEBUG_TEMPROOT or --basetemp lay them elsewhere, TMPDIR what commands have for a moment only.
_MEMORY, _ROOM = Path("/dev/shm"), 4 << 30  # bytes, of which a run takes a fraction


def _has_room(folder: Path) -> bool:
    if not os.access(folder, os.W_OK):
        return False
    told = os.statvfs(folder)
    return told.f_bavail * told.f_frsize >= _ROOM and not told.f_flag & os.ST_NOEXEC


if _has_room(_MEMORY):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))
    os.environ.setdefault("TMPDIR", str(_MEMORY))
    tempfile.tempdir = None  # where pytest has asked for it already, as with -n0

# Each process of a run hands out ports of its own, also those of what is down for now; another run begins elsewhere.
_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid())).encode()
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
server.turns = itertools.count(zlib.crc32(_RUN) + len(server.OWN_PORTS) // _WORKERS * _WORKER)

_TESTS = Path(__file__).parent
# Files go to whichever process is free: a long one that begins last is waited for by all others. So the seconds that
# each took are recorded, by a run with MAINT_TESTS_RECORD=1, and the longest begin first, after those not known yet.
_DURATIONS = _TESTS / "data" / "durations.json"
_SECONDS: dict[str, float] = json.loads(_DURATIONS.read_text()) if _DURATIONS.exists() else {}

_NEEDED = os.environ.get("MAINT_TESTS_NEED_REAL_PARTS") == "1"
_LACKING = re.compile(r"not installed|no (keytool|dash|OpenSSH)|stock tool|cannot be had|could not be found")


# The threads of a process take turns anyway. On several cores each turn is handed over from one to another, which costs
# a lab, all of whose hosts are threads, twice the time of what they do.
if "PYTEST_XDIST_WORKER" in os.environ and hasattr(os, "sched_setaffinity"):
    _cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {_cores[_WORKER % len(_cores)]})


@pytest.hookimpl(trylast=True)  # when Hypothesis expects to be used, and before further processes begin
def pytest_sessionstart(session: pytest.Session) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        st.text().validate()  # leaves a table of all characters on disk, which each process would make for itself
        return
    # All import the same files. Each process begins with others, so that a file is compiled by one, and not by all.
    files = sorted(path for place in session.config.args for path in Path(place).rglob("test_*.py"))
    for path in files[_WORKER::_WORKERS]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # told when it is collected
            importlib.import_module(".".join(path.resolve().relative_to(_TESTS.parent).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: -_SECONDS.get(_file_of(item.nodeid), math.inf))  # stable: the order within a file stays


def pytest_collection_finish() -> None:
    gc.freeze()  # what was collected stays to the end: it is never looked through again for what nobody holds
    gc.set_threshold(50_000)  # as often as Python does it by itself takes a twentieth of the time
    gc.enable()
    # A command freezes what there is when it begins: in a process that runs thousands, every lab that went before.
    gc.freeze = lambda: None  # type: ignore[assignment]


def pytest_unconfigure() -> None:
    gc.collect()
    _freeze()  # pytest collects twice more, of which this process has no need


def _file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0].removeprefix("tests/")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if os.environ.get("MAINT_TESTS_RECORD") != "1":
        return
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[_file_of(report.nodeid)] += report.duration
    _DURATIONS.write_text(json.dumps({name: round(took) for name, took in seconds.most_common()}, indent=1) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if _NEEDED and report.skipped and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if _LACKING.search(reason):
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid}: a real part is missing, and here it must be there: {reason}"
    return report


@pytest.fixture(scope="session", autouse=True)
def near() -> Generator[None, None, None]:
    """A server on loopback is looked at again soon, as none far away that others use may be."""
    with pytest.MonkeyPatch.context() as patch:
        for name in (
            "maint.adapters.manager.calls._PAUSE",
            "maint.snapshots.sources._PAUSE",
            "maint.steps.virtual_clusters.certificate._PAUSE",
            "maint.steps.virtual_clusters.restorer._PAUSE",
            "maint.steps.virtual_clusters.runs._FIRST",
            "maint.steps.virtual_clusters.runs._SETTLED",
        ):
            patch.setattr(name, 0.1)
        patch.setattr("maint.steps.manager.commands._FIRST", 0.03)  # commands of a quick lab take less
        yield


@pytest.fixture(autouse=True)
def forgetful() -> Generator[None, None, None]:
    """Whatever runs is a process of its own elsewhere: it knows no secret that another test has met."""
    known, sent = set(secret._KNOWN), list(secret._SENT)
    yield
    secret._KNOWN.clear()
    secret._KNOWN.update(known)
    secret._SENT[:] = sent


@pytest.fixture(scope="session")
def backed_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a lab, now down, that was backed up through the window: one for all tests of this process."""
    from tests.steps.conftest import lay_out  # most areas need no lab, and no import of one

    return lay_out(tmp_path_factory.mktemp("template") / "lab")
