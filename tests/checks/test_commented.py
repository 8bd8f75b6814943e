"""What is commented out in a host's files sets nothing."""

from pathlib import Path

from tests.checks.facts import healthy


def test_a_commented_line_of_rc_local_is_not_told(tmp_path: Path) -> None:
    line = "echo never > /sys/kernel/mm/transparent_hugepage/enabled"
    for text, told in ((f"\t# {line}\n", ""), (f"#!/bin/sh\n{line}\n", line)):
        files = {"/etc/rc.d/rc.local": (text, 0o755)}
        assert healthy(tmp_path / str(bool(told)), files=files)["rc_local"].out.strip() == told
