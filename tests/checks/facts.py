"""Facts of hosts as tests write them: a healthy host's answers, and what differs."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from maint.checks.facts import Answered, HostFacts, ManagerFacts, SiteFacts, SiteSetting
from maint.checks.gather import parse, script
from maint.checks.registry import QUESTIONS
from maint.lab.hosts.furnish import furnish_host
from maint.lab.hosts.machine import Machine
from maint.lab.hosts.shell.executor import run
from maint.lab.manager.simulator import PlainUnit

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
TOKEN = "maint-0011223344556677"


def healthy(
    folder: Path, name: str = "wn01.example.internal", files: Mapping[str, tuple[str, int]] | None = None, **facts: str
) -> dict[str, Answered]:
    """Return what a lab host answers to every question; `files` are its own, with their modes."""
    units: dict[str, Any] = {unit: PlainUnit() for unit in ("chronyd", "nscd", "cloudera-scm-agent", "iscsid")}
    for unit in units.values():
        unit.start()
    machine = Machine(name, folder, units, facts={"dns": f"192.0.2.9 {name}", **facts}, address="192.0.2.9")
    for path, (content, mode) in (files or {}).items():
        machine.files.write(path, content.encode(), mode)
    furnish_host(machine)
    ended = run(machine, "exec /bin/sh -s", script(QUESTIONS, {"peers": name}, TOKEN))
    framed = parse(ended.out, TOKEN, QUESTIONS)
    assert framed.reason == "", framed.reason
    return dict(framed.answers)


def host(
    answers: Mapping[str, str | Answered],
    *,
    name: str = "wn01",
    profiles: str = "BEMDK",
    site: SiteFacts | None = None,
    sent: float = 0.0,
    received: float = 0.0,
) -> HostFacts:
    """Return a host that gave these answers; texts ended with 0."""
    given = {q: a if isinstance(a, Answered) else Answered(0, a) for q, a in answers.items()}
    site = site or SiteFacts(NOW)
    made = HostFacts(name, "192.0.2.9", profiles, given, site, sent=sent, received=received)
    site.hosts.append(made)
    return made


def site(manager: ManagerFacts | None = None, **setting: Any) -> SiteFacts:
    """Return a site without hosts."""
    return SiteFacts(NOW, SiteSetting(**setting), manager or ManagerFacts())
