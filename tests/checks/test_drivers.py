"""Which databases the roles of a host are configured with, and whether their drivers are there."""

from pathlib import Path

from maint.checks.registry import CHECKS
from maint.model.fleet import State
from tests.checks.facts import healthy, host

_AGENT = "/var/run/cloudera-scm-agent"
_FILES = {
    f"{_AGENT}/supervisor/include/102-hive-HIVEMETASTORE.conf": ("", 0o600),
    f"{_AGENT}/process/102-hive-HIVEMETASTORE/hive-site.xml": ("<value>jdbc:oracle:thin:@//db:1521/x</value>", 0o640),
    f"{_AGENT}/process/103-hive-HIVESERVER2/hive-site.xml": ("<value>jdbc:mysql://db/x</value>", 0o640),  # ended
}


def test_a_role_that_runs_here_needs_the_driver_of_its_database(tmp_path: Path) -> None:
    found = CHECKS["jdbc.driver"].judge(host(healthy(tmp_path, files=_FILES), profiles="B"))
    assert (found.state, found.observed) == (State.FAIL, "hive-HIVEMETASTORE: no oracle-connector-java")


def test_a_role_whose_driver_is_there_passes(tmp_path: Path) -> None:
    jars = {f"/usr/share/java/{name}.jar": ("", 0o644) for name in ("oracle-connector-java", "orai18n")}
    found = CHECKS["jdbc.driver"].judge(host(healthy(tmp_path, files=_FILES | jars), profiles="B"))
    assert (found.state, found.observed) == (State.PASS, "oracle")
