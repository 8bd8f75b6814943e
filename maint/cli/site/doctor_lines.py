"""What `maint doctor` shows of one thing that it looked at, also where looking failed."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path

import msgspec

from maint.checks.check import RUNNING, judge
from maint.checks.ecs import closed_place
from maint.checks.facts import HostFacts
from maint.checks.gather import Enquiry, ask_site, profiles_of, setting_of
from maint.checks.registry import named
from maint.cli.composition import ConfiguredSite
from maint.config.schema import HostSettings
from maint.errors import CannotReach, Failure
from maint.model.fleet import Finding, State
from maint.ports import Clock
from maint.retry import answering
from maint.snapshots.capture import BROKEN, READ_ONLY, shut

REACH = 20.0  # seconds for all hosts together, for each further look at one, and for each virtual cluster
OK, WARN, FAIL = "ok", "warn", "FAIL"
SKIP = "skip"  # could not be tried here, and that is not a fault of this site
SOON = timedelta(days=30)  # before a certificate or a licence ends, it is said
_STATES = {State.FAIL: FAIL, State.ERROR: WARN, State.WARN: WARN, State.PASS: OK, State.SKIP: SKIP}  # the worst first


class Line(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    label: str
    state: str
    words: str
    hint: str = ""


def within(clock: Clock, hint: str) -> AbstractContextManager[None]:
    """Raise TimedOut where what is looked at does not answer in `REACH`; the operator's own limit ends all looks."""
    return answering(clock, REACH, "", hint)


def unwritable(label: str, folder: Path, hint: str) -> Iterator[Line]:
    """Yield that a folder cannot be written to, where it cannot; `hint`: what mends it where it is for its owner."""
    words = shut(folder)
    if not words:
        return
    if words.endswith(READ_ONLY):
        point = next(one for one in (folder.resolve(), *folder.resolve().parents) if one.is_mount())
        hint = f"`mount -o remount,rw {shlex.quote(str(point))}`"
    if words.endswith(BROKEN):
        hint = "`dmesg` shows why; unmount it, repair (`e2fsck -f`) or replace the disk, mount it again"
    yield Line(label, FAIL, words, hint)


def by_checks(site: ConfiguredSite, label: str, host: HostSettings, checks: Sequence[str]) -> Iterator[Line]:
    """Yield what some checks of `maint host check` say of a host: the worst alone, each check that says it."""
    enquiry = Enquiry(
        (host,),
        named(checks),
        setting_of(site.settings, RUNNING, None),
        {host.name: profiles_of(host, site.settings)},
        {},
    )
    facts = ask_site(site, enquiry, site.fleet, timeout=REACH)
    yield line_of(label, facts.hosts[0], judge(enquiry.checks, facts, site.settings.accepted), checks)


def line_of(label: str, host: HostFacts, findings: Sequence[Finding], checks: Sequence[str]) -> Line:
    """Return what is shown of what a host said; what its account may not look into is not known, and no warning."""
    if closed := next(filter(None, (closed_place(one.out) for one in host.answers.values())), ""):
        words = f"{host.name}: not looked at, since this account may not look into {closed}"
        return Line(label, SKIP, words, "let `ssh.user` become root there, by `ssh.sudo`, or name another `user`")
    worst = next(state for state in _STATES if any(one.state is state for one in findings))
    told = [one for one in findings if _STATES[one.state] == _STATES[worst]]
    words = "; ".join(f"{one.check}: {one.observed}" for one in told)
    if not host.reached:  # a limit is ours, and which one ended it is no matter
        late = " within " in host.reason or "limit had passed" in host.reason
        words = f"no whole answer about it within {REACH:g} s" if late else host.reason
    again = f"maint host check --host {host.name} {' '.join(f'--check {name}' for name in checks)}"
    hint = {FAIL: "; ".join(one.remedy for one in told), WARN: again}.get(_STATES[worst], "")
    return Line(label, _STATES[worst], f"{host.name}: {words}", hint)


def guarded(label: str, look: Callable[[], Iterator[Line]], lab: str = "") -> Iterator[Line]:
    """Yield what a look shows; `lab`: what is to be done instead of what failed where nothing answered."""
    try:
        yield from look()
    except CannotReach as error:
        yield Line(label, FAIL, error.in_a_line, lab or error.hint or "")
    except Failure as error:
        yield Line(label, FAIL, error.in_a_line, error.way_on or "")
    except OSError as error:
        yield Line(label, FAIL, f"{error.filename or label}: {error.strerror}", "correct that path, or its permissions")
