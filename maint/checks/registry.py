"""All checks and all questions, by id; a new subject is one line here, or an entry point of an installed package."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint

import msgspec
from msgspec.structs import replace

from maint import plugins
from maint.checks import clock, database, disks, ecs, ecs_plan, java, kerberos, network, server, service, system, tls
from maint.checks.check import PHASES, PROFILES, SOURCES, Check, Verdict
from maint.checks.facts import CouldNotTell, NotApplicable
from maint.errors import Stopped, UsageError
from maint.model.formatting import meant

_SUBJECTS = (system, java, network, clock, disks, server, tls, database, kerberos, ecs, service, ecs_plan)
OWN: dict[str, Check] = {
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


_RULE = (
    'its module has checks whose ids begin with "{name}." and whose sources are known, '
    'and `QUESTIONS` whose names begin with "{name}_": `maint help checks`'
)


class Subject(msgspec.Struct, frozen=True):
    """What a package's module has: checks by id, and the questions that only they ask."""

    checks: Mapping[str, Check]
    questions: Mapping[str, str]


class Checks(Mapping[str, Check]):
    """All checks by id; a package's subject is read in once one of its checks, or all checks, are asked for."""

    def __init__(self) -> None:
        self._subjects: dict[str, Subject] = {}

    def __getitem__(self, name: str) -> Check:
        return OWN[name] if name in OWN else self._subject(name.partition(".")[0]).checks[name]

    def __iter__(self) -> Iterator[str]:
        yield from OWN
        for name in plugins.offered(plugins.CHECKS):
            yield from self._subject(name).checks

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def questions(self) -> Mapping[str, str]:
        """Return all questions that maint's checks and those read in ask, in the order in which hosts answer them."""
        more = {name: text for one in self._subjects.values() for name, text in one.questions.items()}
        last = {"clock_end": QUESTIONS["clock_end"]}
        return {**{name: text for name, text in QUESTIONS.items() if name not in last}, **more, **last}

    def _subject(self, name: str) -> Subject:
        if name not in self._subjects:
            entry = plugins.offered(plugins.CHECKS).get(name)
            if entry is None:
                raise KeyError(name)
            rule = _RULE.format(name=name)
            self._subjects[name] = plugins.load(entry, "subject of checks", lambda module: _read(module, entry), rule)
        return self._subjects[name]

    def forget(self, name: str) -> None:
        """Read a package's subject in anew when it is asked for again."""
        self._subjects.pop(name, None)


def _read(module: object, entry: EntryPoint) -> Subject | None:
    """Return what a module has, None where it breaks the rule above or has a check that maint has too."""
    questions = getattr(module, "QUESTIONS", {})
    checks = {one.id: one for one in getattr(module, "__dict__", {}).values() if isinstance(one, Check)}
    asked = {name for one in checks.values() for name in one.asks}
    kept = (
        bool(checks) and isinstance(questions, Mapping),
        all(name.startswith(f"{entry.name}.") and name not in OWN for name in checks),
        all(str(name).startswith(f"{entry.name}_") for name in questions),
        asked <= {*questions, *QUESTIONS},
        all(key in SOURCES for one in checks.values() for key in one.source.split()),
        all((one.rule is None) != (one.site_rule is None) for one in checks.values()),
    )
    if not all(kept):
        return None
    told = _Told(plugins.package_of(entry), str(getattr(module, "__file__", None) or ""))
    return Subject({name: told.check(one) for name, one in checks.items()}, questions)


class _Told(msgspec.Struct, frozen=True):
    """Whose rules these are: what goes wrong within one is told as its package's, and the other checks go on."""

    package: str
    file: str

    def check(self, check: Check) -> Check:
        """Return the check with a rule that fails with words."""
        of_host, of_site = check.rule, check.site_rule
        if of_host is not None:
            return replace(check, rule=lambda facts: self._said(lambda: {"": of_host(facts)})[""])
        assert of_site is not None  # as `_read` has seen
        return replace(check, site_rule=lambda facts: self._said(lambda: of_site(facts)))

    def _said(self, ask: Callable[[], Mapping[str, Verdict]]) -> Mapping[str, Verdict]:
        try:
            verdicts = dict(ask())
        except (Stopped, CouldNotTell, NotApplicable):
            raise
        except (Exception, SystemExit) as error:  # whatever a package of somebody else does
            raise self._wrong(f"failed: {plugins.where_failed(error, self.file)}") from error
        if not all(isinstance(one, Verdict) for one in verdicts.values()):
            raise self._wrong("gives what is no verdict")
        return verdicts

    def _wrong(self, words: str) -> CouldNotTell:
        remedy = f"# tell whoever wrote {self.package}; nothing of maint itself is broken"
        return CouldNotTell(f"the rule of the package {self.package} {words}", remedy)


CHECKS = Checks()


def named(ids: Collection[str]) -> Sequence[Check]:
    """Return checks by their ids, in the registry's order; reads no package in of which none is named."""
    return [*(OWN[name] for name in OWN if name in ids), *(CHECKS[name] for name in ids if name not in OWN)]


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
                hint=f"it is in {', '.join(CHECKS[strange[0]].groups)}; leave the group out",
            )
        return named(ids)
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
    """Refuse names that nothing has; UsageError: there is no such check, group or phase."""
    for given, known, kind in (
        (ids, CHECKS, "check"),
        (groups, PROFILES.values(), "group"),
        ([phase] if phase else [], PHASES, "phase"),
    ):
        for name in given:
            if name not in known:
                many = kind == "check"
                listed = "`maint host check --list` shows them" if many else f"there are {', '.join(known)}"
                hint = meant(name, known, listed)
                raise UsageError(f"there is no {kind} {name!r}", hint=hint)
