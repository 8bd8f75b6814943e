"""What `maint doctor` looks at of what runs by itself: its timers, how it ended last, and the newest drill."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from maint.cli.composition import ConfiguredSite
from maint.cli.monitoring.outcomes import SCHEDULED, last
from maint.cli.schedule.files import MANAGED, playbooks, systemctl
from maint.cli.schedule.install import own_files
from maint.cli.site.doctor_lines import FAIL, OK, SKIP, WARN, Line
from maint.engine import past_runs
from maint.errors import PartlyDone, WorkFailed
from maint.model.formatting import show_duration, tell_time
from maint.snapshots.records import drills, last_good

_PROPERTIES = "Id,ActiveState,UnitFileState,Result"


def timers(site: ConfiguredSite) -> Iterator[Line]:
    """Look whether the timers that are installed for a site run, and how what they start has ended."""
    for user in (False, True):
        books = playbooks(site.settings, user=user, folder=None).values()
        paths = [*own_files(site.settings, user, None), *(path for paths in books for path in paths)]
        names = sorted({path.stem for path in paths if path.suffix == ".timer"})
        if names and MANAGED.is_dir():
            yield from _timers(names, user=user)


def _timers(names: list[str], *, user: bool) -> Iterator[Line]:
    try:
        units = [f"{name}.{kind}" for name in names for kind in ("timer", "service")]
        said = systemctl("show", "-p", _PROPERTIES, *units, user=user)
    except WorkFailed as error:
        yield Line("schedule", SKIP, f"cannot be told: {error.in_a_line}")
        return
    option = "--user " * user
    blocks = [dict(line.partition("=")[::2] for line in block.splitlines()) for block in said.strip().split("\n\n")]
    seen = {block.get("Id", ""): block for block in blocks}
    for name in names:
        timer, service = seen.get(f"{name}.timer", {}), seen.get(f"{name}.service", {})
        start = f"`systemctl {option}enable {name}.timer; systemctl {option}start {name}.timer`"
        if timer.get("ActiveState") != "active":
            words = f"{name}.timer is {timer.get('ActiveState') or 'not known'}: nothing starts by itself"
            yield Line("schedule", FAIL, words, start)
        elif timer.get("UnitFileState") == "disabled":
            yield Line("schedule", WARN, f"{name}.timer runs, but not after the next boot: it is disabled", start)
        elif (result := service.get("Result") or "success") != "success":
            again = f"`journalctl {option}-u {name}` tells why; mend that, then `systemctl {option}start {name}`"
            yield Line("schedule", WARN, f"{name}.service ended last with {result}", again)
        else:
            yield Line("schedule", OK, f"{name}.timer is active")


def ends(site: ConfiguredSite) -> Iterator[Line]:
    """Tell what may be scheduled and failed last, however fresh the newest backup still is."""
    told = {past.id for past in past_runs.unfinished(site.state)}
    for verb in SCHEDULED:
        one = last(site.state, verb)
        if one is not None and one.exit not in (0, PartlyDone.exit_code) and one.run not in told:
            words = f"failed at {tell_time(datetime.fromtimestamp(one.at, UTC))} ({one.exit}): {one.words}"
            yield Line(f"last {verb}", WARN, words, f"maint {verb}")


def drill(site: ConfiguredSite, limit: timedelta) -> Iterator[Line]:
    """Look whether a drill has proved a restore lately, and none has failed since."""
    found = drills(site)
    good = last_good(found)
    if found and not found[-1].passed:
        newest = found[-1]
        words = f"that of {newest.snapshot} at {tell_time(newest.at)} failed: {newest.reason}"
        yield Line("drill", WARN, words, "maint backup drill")
    elif good is None:
        yield Line("drill", WARN, "no drill is known", "maint backup drill")
    else:
        age = site.clock.now() - good.at
        late = age > limit
        words = f"{show_duration(age.total_seconds())} ago"
        yield Line("drill", WARN if late else OK, words, "maint backup drill" if late else "")
