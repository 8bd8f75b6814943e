"""What is commented out in a host's files, or never runs, sets nothing."""

from pathlib import Path

from tests.checks.facts import healthy


def test_a_commented_line_of_rc_local_is_not_told(tmp_path: Path) -> None:
    line = "echo never > /sys/kernel/mm/transparent_hugepage/enabled"
    cases = ((f"\t# {line}\n", 0o755, ""), (f"#!/bin/sh\n{line}\n", 0o755, line), (f"#!/bin/sh\n{line}\n", 0o644, ""))
    for number, (text, mode, told) in enumerate(cases):
        files = {"/etc/rc.d/rc.local": (text, mode)}
        assert healthy(tmp_path / str(number), files=files)["rc_local"].out.strip() == told
