"""All checks and all questions, by id; a new subject is one line here."""

from collections.abc import Collection, Sequence

from maint.checks import (
    clock,
    database,
    disks,
    ecs,
    java,
    kerberos,
    kernel,
    kubernetes,
    names,
    network,
    plan,
    server,
    service,
    system,
    tls,
)
from maint.checks.check import PHASES, PROFILES, Check
from maint.errors import UsageError

_SUBJECTS = (
    system, kernel, java, names, network, clock, disks, server, tls, database, kerberos, ecs, kubernetes, service, plan,
)  # fmt: skip
CHECKS: dict[str, Check] = {check.id: check for subject in _SUBJECTS for check in subject.CHECKS}
# The clock is read first and last, so that the time in between says nothing about it.
QUESTIONS: dict[str, str] = {
    "clock_begin": clock.QUESTIONS["clock_begin"],
    **{
        name: text for subject in _SUBJECTS for name, text in subject.QUESTIONS.items() if not name.startswith("clock_")
    },
    "clock_end": clock.QUESTIONS["clock_end"],
}


def select(ids: Collection[str] = (), groups: Collection[str] = (), phase: str = "running") -> Sequence[Check]:
    """Return the checks asked for, in order; `ids` whatever their phase, else all of the phase that write nothing."""
    for given, known, kind in (
        (ids, CHECKS, "check"),
        (groups, PROFILES.values(), "group"),
        ((phase,), PHASES, "phase"),
    ):
        for name in given:
            if name not in known:
                hint = "`maint host check --list` shows them" if kind != "phase" else f"there are {', '.join(PHASES)}"
                raise UsageError(f"there is no {kind} {name!r}", hint=hint)
    if ids:
        return [check for check in CHECKS.values() if check.id in ids]
    return [
        check
        for check in CHECKS.values()
        if phase in check.phases and not check.opt_in and (not groups or set(groups) & set(check.groups))
    ]
