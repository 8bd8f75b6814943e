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
    system, kernel, java, names, network, clock, disks, server, tls, database, kerberos, ecs, service, plan,
)  # fmt: skip
CHECKS: dict[str, Check] = {
    check.id: check for subject in _SUBJECTS for check in vars(subject).values() if isinstance(check, Check)
}
# The clock is read first and last, so that the time in between says nothing about it.
QUESTIONS: dict[str, str] = {
    "clock_begin": clock.QUESTIONS["clock_begin"],
    **{
        name: text for subject in _SUBJECTS for name, text in subject.QUESTIONS.items() if not name.startswith("clock_")
    },
    "clock_end": clock.QUESTIONS["clock_end"],
}


def select(ids: Collection[str] = (), groups: Collection[str] = (), phase: str = "running") -> Sequence[Check]:
    """Return the checks that were asked for, in the registry's order.

    Args:
        ids: named ones, whatever their phase; those that write run only so.
        groups: groups whose checks are wanted; all when empty.
        phase: what is going to happen.

    Raises:
        UsageError: there is no such check, group or phase, or nothing is in all that was asked for.
    """
    must_exist(ids, groups, phase)
    if ids:
        strange = [name for name in ids if groups and not set(groups) & set(CHECKS[name].groups)]
        if strange:
            raise UsageError(
                f"check {strange[0]!r} is not in group {' or '.join(groups)}",
                hint=f"it is in {', '.join(CHECKS[strange[0]].groups)}; leave out --group",
            )
        return [check for check in CHECKS.values() if check.id in ids]
    found = [
        check
        for check in CHECKS.values()
        if phase in check.phases and not check.opt_in and (not groups or set(groups) & set(check.groups))
    ]
    if not found:
        raise UsageError(
            f"no check of group {' or '.join(groups)} belongs to phase {phase}",
            hint=f"`maint host check --list --phase {phase}` shows those that do",
        )
    return found


def must_exist(ids: Collection[str] = (), groups: Collection[str] = (), phase: str = "") -> None:
    """Refuse names that nothing has.

    Raises:
        UsageError: there is no such check, group or phase.
    """
    for given, known, kind in (
        (ids, CHECKS, "check"),
        (groups, PROFILES.values(), "group"),
        ([phase] if phase else [], PHASES, "phase"),
    ):
        for name in given:
            if name not in known:
                hint = "`maint host check --list` shows them" if kind != "phase" else f"there are {', '.join(PHASES)}"
                raise UsageError(f"there is no {kind} {name!r}", hint=hint)
