"""The alert rules over our metrics, tried by Prometheus' own tool."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from maint.cli.monitoring import metrics
from tests.steps.operator import Operator, maint

PROMTOOL = shutil.which("promtool")
ROOT = Path(metrics.__file__).parents[3]
NEED = pytest.mark.skipif(
    PROMTOOL is None and not os.environ.get("MAINT_TESTS_NEED_REAL_PARTS"), reason="promtool is not installed"
)
# Alert → series that raise it (with the labels of the alert), and what else it says.
RAISED = {
    "MaintBackupTooOld": ("maint_last_verified_backup_timestamp_seconds{site='prod'}", "0x200", {}),
    "MaintLastRunFailed": (
        "maint_verb_exit_code{site='prod',verb='backup create'}",
        "4x200",
        {"verb": "backup create"},
    ),
    "MaintPlaybookFailed": ("maint_verb_exit_code{site='prod',verb='nightly'}", "1x200", {"verb": "nightly"}),
    "MaintPartlyDone": ("maint_verb_exit_code{site='prod',verb='backup drill'}", "7x200", {"verb": "backup drill"}),
    "MaintStoreUnreachable": ("maint_store_reached{site='prod'}", "0x200", {}),
    "MaintCopyUnreachable": ("maint_copy_reached{site='prod',copy='/b'}", "0x200", {"copy": "/b"}),
    "MaintRedactionWindowOpen": ("maint_redaction_window_open{site='prod'}", "1x200", {}),
    "MaintRedactionWindowUnknown": ("maint_redaction_window_known{site='prod'}", "0x200", {}),
    "MaintLeaseTakenOver": ("maint_lease_taken_over_timestamp_seconds{site='prod'}", "9000x200", {}),
    "MaintAtWorkTooLong": ("maint_at_work_since_timestamp_seconds{site='prod'}", "60x200", {}),
    "MaintLeaseHeldTooLong": ("maint_lease_held{site='prod'}", "1x200", {}),
    "MaintSlow": (
        "maint_verb_duration_seconds{site='prod',verb='backup create'}",
        "400x150 1300x50",
        {"verb": "backup create"},
    ),
    "MaintBackupShrunk": ("maint_last_verified_backup_bytes{site='prod'}", "9000x150 4000x50", {}),
    "MaintDrillTooOld": ("maint_last_drill_timestamp_seconds{site='prod'}", "0x200", {}),
    "MaintSnapshotDamaged": ("maint_snapshots{site='prod',kind='damaged'}", "2x200", {"kind": "damaged"}),
    "MaintMetricsStale": ("maint_metrics_written_timestamp_seconds{site='prod'}", "0x200", {}),
    "MaintNoticeFailed": ("maint_notice_failed{site='prod',notice='chat'}", "1x200", {"notice": "chat"}),
}
QUIET = """
      - {series: "maint_verb_scheduled{site='prod',verb='nightly'}", values: "1x200"}
      - {series: "maint_at_work_since_timestamp_seconds{site='idle'}", values: "0x200"}
      - {series: "maint_redaction_window_known{site='idle'}", values: "1x200"}
      - {series: "maint_verb_exit_code{site='prod',verb='backup verify'}", values: "0x200"}
      - {series: "maint_verb_exit_code{site='prod',verb='vc job run'}", values: "1x200"}
      - {series: "maint_verb_duration_seconds{site='prod',verb='backup verify'}", values: "10x150 200x50"}
      - {series: "maint_verb_duration_seconds{site='prod',verb='vc job run'}", values: "400x150 1300x50"}
      - {series: "maint_last_verified_backup_bytes{site='idle'}", values: "9000x150 5000x50"}
      - {series: "maint_copy_reached{site='prod',copy='/c'}", values: "1x200"}
      - {series: "maint_copy_last_verified_backup_timestamp_seconds{site='prod',copy='/c'}", values: "6000+60x200"}
"""


def promtool(*words: str, folder: Path, given: str | None = None) -> str:
    ended = subprocess.run(
        [PROMTOOL or "promtool", *words], cwd=folder, input=given, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


# Where no age is given, each site's own counts.
OWN = """
      - {series: "maint_backup_max_age_seconds{site='prod'}", values: "7200x200"}
      - {series: "maint_backup_max_age_seconds{site='slack'}", values: "36000x200"}
      - {series: "maint_last_verified_backup_timestamp_seconds{site='slack'}", values: "0x200"}
      - {series: "maint_copy_last_verified_backup_timestamp_seconds{site='slack',copy='/c'}", values: "0x200"}
      - {series: "maint_copy_reached{site='slack',copy='/c'}", values: "1x200"}
      - {series: "maint_metrics_written_timestamp_seconds{site='slack'}", values: "0x200"}
      - {series: "maint_at_work_since_timestamp_seconds{site='slack'}", values: "60x200"}
"""


@NEED
@pytest.mark.parametrize("ages", ["given", "of the sites", "of an older version"])
def test_each_rule_fires_when_it_should_and_says_of_what(tmp_path: Path, ages: str) -> None:
    (tmp_path / "rules.yml").write_text(maint("generate", "alerts", "--max-age", "2h", "--drill-age", "1h").out)
    if ages != "given":
        backup = "{store: /b, max_age: 2h, identity: 'env:ID'}"
        site = f"{{manager: {{host: cm, password: 'env:PW'}}, backup: {backup}}}"
        (tmp_path / "c.yaml").write_text(f"sites: {{a: {site}}}\n")
        said = maint("generate", "alerts", "--drill-age", "1h", "--config", str(tmp_path / "c.yaml"))
        (tmp_path / "rules.yml").write_text(said.out)
    promtool("check", "rules", "rules.yml", folder=tmp_path)
    tests = ["rule_files: [rules.yml]", "evaluation_interval: 1m", "tests:"]
    series = [f'      - {{series: "{name}", values: "{values}"}}' for name, values, _ in RAISED.values()]
    copy = "maint_copy_last_verified_backup_timestamp_seconds{site='prod',copy='/d'}"
    old = f'      - {{series: "{copy}", values: "0x200"}}\n'
    old += "      - {series: \"maint_copy_reached{site='prod',copy='/d'}\", values: \"1x200\"}"
    beside = (QUIET + OWN.lstrip("\n") * (ages == "of the sites")).strip("\n")
    tests += ["  - interval: 1m", "    input_series:", *series, old, beside, "    promql_expr_test:"]
    labels = {**{alert: more for alert, (_, _, more) in RAISED.items()}, "MaintCopyTooOld": {"copy": "/d"}}
    for alert, more in labels.items():
        severity = {
            "MaintBackupTooOld",
            "MaintStoreUnreachable",
            "MaintCopyTooOld",
            "MaintRedactionWindowOpen",
            "MaintSnapshotDamaged",
        }
        said = {"alertname": alert, "alertstate": "firing", "severity": "critical" if alert in severity else "warning"}
        shown = ", ".join(f'{key}="{value}"' for key, value in {**said, "site": "prod", **more}.items())
        tests += [f"      - expr: ALERTS{{alertname='{alert}',alertstate='firing'}}", "        eval_time: 180m"]
        tests += [f"        exp_samples: [{{labels: 'ALERTS{{{shown}}}', value: 1}}]"]
    (tmp_path / "tests.yml").write_text("\n".join(tests) + "\n")
    promtool("test", "rules", "tests.yml", folder=tmp_path)


def test_each_rule_is_tried() -> None:
    rules = re.findall(r"alert: (\w+)", maint("generate", "alerts").out)
    assert set(rules) == {*RAISED, "MaintCopyTooOld"}


def test_the_help_names_every_metric_and_no_other() -> None:
    help_, template = (ROOT / name for name in ("maint/help/alerts.md", "templates/metrics.prom.j2"))
    written = {*re.findall(r"# HELP (maint_\w+)", template.read_text()), *metrics._NOW}
    assert set(re.findall(r"maint_[a-z_]+[a-z]", help_.read_text())) == written


@NEED
def test_what_a_site_writes_is_what_prometheus_reads(loaded: Operator) -> None:
    path = loaded.lab.folder / "config.yaml"
    copies, blocked = loaded.lab.folder / "copy", loaded.lab.folder / "blocked"
    blocked.write_text("in the way")
    text = path.read_text().replace("    backup:\n", f"    backup:\n      copies: [{copies}, {blocked}]\n", 1)
    path.write_text(
        text.rstrip() + "\n    metrics: m/maint.prom\n    notify: [{name: off, exec: {command: [/bin/false]}}]\n"
    )
    said = loaded("backup", "create")
    assert said.code == 7
    assert "notice off was not told" in said.err
    written = (loaded.lab.folder / "m/maint.prom").read_text()
    promtool("check", "metrics", folder=loaded.lab.folder, given=written)
    assert 'verb="backup create"} 7' in written
    assert 'notice="off"} 1' in written
    assert f'copy="{copies}"}} 1' in written
    assert 'maint_copy_reached{site="' in written
    assert f'copy="{blocked}"}} 0' in written
