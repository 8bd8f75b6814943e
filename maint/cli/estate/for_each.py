"""Carry a command out for several sites: a process each, one at a time per manager, and one summary."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from maint.cli.boundary import EXIT_CODES, OUTPUTS
from maint.cli.configless import settings_of
from maint.cli.estate.processes import ProcessEnd, Processes, SiteCall
from maint.cli.open_site import limit_of, warn_of_settings
from maint.cli.options import Connection, Flags, Said, Several, pairs_of
from maint.cli.screen import Screen, ask_change, error_object, table
from maint.config.paths import absolute
from maint.config.precedence import OVERRIDES, Settings
from maint.config.schema import SiteSettings
from maint.errors import Failure, Interrupted, PartlyDone, UsageError, WorkFailed
from maint.model.formatting import meant, parse_duration, show_count, show_duration, show_ends, tell_times
from maint.model.json import Json

Printed = Mapping[str, Json]
_STATES = ("fail", "error", "warn", "skip", "pass", "ok")  # the worst first


def in_words(one: ProcessEnd) -> str:
    """Return how a site ended: its failure and why, else what its answer holds, else what its exit code means."""
    if one.error is not None:
        detail = one.error.get("detail")
        words = "; ".join(map(str, detail)) if isinstance(detail, list) else ""
        return show_ends(": ".join(filter(None, (str(one.error.get("message")), words))), _MOST)
    answer = one.result if isinstance(one.result, Mapping) else {}
    return next((words(answer) for key, words in _SAYS.items() if key in answer), meaning(one.exit))


def meaning(code: int) -> str:
    """Return what an exit code means, in short."""
    return EXIT_CODES[code].meaning.partition(":")[0] if code in EXIT_CODES else "ended by a signal"


def _items(answer: Printed, key: str) -> list[Printed]:
    value = answer.get(key)
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _inside(answer: Printed, key: str) -> Printed:
    value = answer.get(key)
    return value if isinstance(value, Mapping) else {}


def _time(seconds: Json) -> str:
    return show_duration(seconds) if isinstance(seconds, int | float) else "?"


def _verification(answer: Printed) -> str:
    found = _inside(answer, "verification")
    return f"{found.get('snapshot')}: {found.get('result')}, level {found.get('depth')}"


def _drill(answer: Printed) -> str:
    found = _inside(answer, "drill")
    return f"{found.get('snapshot')}: {found.get('result')}, back in {_time(found.get('rto_seconds'))}"


def _verifications(answer: Printed) -> str:
    found = Counter(str(one.get("result")) for one in _items(answer, "verifications"))
    told = ", ".join(f"{count} {result}" for result, count in found.items())
    return f"{show_count(found.total(), 'snapshot')}: {told}" if told else "no snapshot was verified so long ago"


def _actions(answer: Printed) -> str:
    """Return what the snapshot is that was taken, else what the last action says."""
    told = [one for one in _items(answer, "actions") if one.get("detail")]
    told = [one for one in told if one.get("kind") == "snapshot.take"] or told
    return str(told[-1]["detail"]).splitlines()[0] if told else f"run {answer.get('run')}"


def _states(key: str, name: str) -> Callable[[Printed], str]:
    def count(answer: Printed) -> str:
        states = [(str(one.get("state")).lower(), str(one.get(name))) for one in _items(answer, key)]
        counts = Counter(state for state, _ in states)
        told = ", ".join(f"{counts[state]} {state}" for state in _STATES if counts[state])
        worst = list(dict.fromkeys(one for state, one in states if state in _STATES[:2]))
        more = f" and {len(worst) - _FAILED} more" if len(worst) > _FAILED else ""
        return f"{told}: {', '.join(worst[:_FAILED])}{more}" if worst else told or "nothing was looked at"

    return count


def _snapshots(answer: Printed) -> str:
    found = _items(answer, "snapshots")
    if "plan" in answer:
        return f"{show_count(sum(one.get('keep') is False for one in found), 'snapshot')} would go"
    newest = answer.get("last_verified")
    words = "no verified restorable backup"
    if isinstance(newest, Mapping):
        words = f"last verified {_time(newest.get('age'))} ago"
    return f"{show_count(len(found), 'snapshot')}, {words}"


# A key of an answer → how such an answer is told.
_SAYS: dict[str, Callable[[Printed], str]] = {
    "verification": _verification,
    "verifications": _verifications,
    "drill": _drill,
    "actions": _actions,
    "checks": _states("checks", "label"),
    "findings": _states("findings", "check"),
    "snapshots": _snapshots,
    "release": lambda answer: tell_times(f"{answer['release']}, redaction window {answer.get('redaction_window')}"),
    "differences": lambda answer: show_count(len(_items(answer, "differences")), "difference"),
    "same": lambda answer: "nothing differs" if answer["same"] else "there are differences",
    "pages": lambda answer: f"looked at; {answer.get('folder')} tells",
    "plan": lambda answer: f"plan {str(answer.get('digest'))[:12]}",
}


AT_ONCE = 4
_MOST = 240  # characters of why a site failed
_FAILED = 5  # checks that failed, by name
_NAMED = 8  # sites that a question names


def for_each(flags: Flags, several: Several, said: Said) -> int:
    """Carry a command out for each site that the flags choose, show one summary, and return the exit code.

    Raises:
        Interrupted: a signal came; it was passed on, all processes have ended, and the summary has been shown.
        UsageError: the flags make no sense for several sites, or choose none.
    """
    screen = flags.screen()
    _refuse(flags, several, said)
    settings = settings_of(flags)
    names = chosen(settings, flags)
    warn_of_settings(screen, settings, names)
    sites = [site for site in settings.sites if site.name in names]
    changes = several.asks and not flags.dry_run
    if changes and sites:
        ask_change(screen, f"carry out `maint {' '.join(said.command)}` for {_listed(sites)}?", yes=flags.yes)
    words = [*said.command, "--config", str(settings.path), "-o", "json", *_common(flags, yes=changes or flags.yes)]
    calls = calls_of(words, flags, several, said, sites)
    begun = time.time()
    broken = [
        ProcessEnd(name, one.exit_code, error_object(one)) for name, one in settings.broken.items() if name in names
    ]
    rows = by_manager(sites, calls)
    ended, stopped = _carried_out(screen, rows, several.grace, flags.at_once or AT_ONCE, broken)
    try:
        return _show(screen, sorted(ended, key=lambda one: names.index(one.site)), stopped)
    finally:
        _write_pages(screen, settings, said, begun)


def _write_pages(screen: Screen, settings: Settings, said: Said, since: float) -> None:
    """Write the catalogue pages once for all sites: where `maint site report` was told, else where the config says.

    Raises:
        WorkFailed: they cannot be written, and were all that was asked for.
    """
    asked = [*said.command] == ["site", "report"]
    given = said.options.get("to") if asked else None
    folder = absolute(given[0].partition("=")[2]) if given else settings.report_folder
    if folder is None:
        return
    from maint.cli.site.page_files import write_all_pages  # few configs ask for pages

    try:
        write_all_pages(settings, folder, since)
    except (OSError, Failure) as error:
        words = f"the pages in {folder} are not written: {error}"
        if asked:
            raise WorkFailed(words, hint="name another folder") from error
        screen.warn(words)


def chosen(settings: Settings, flags: Flags) -> Sequence[str]:
    """Return the sites that `--site`, `--all` or `--label` choose, broken ones too, as the config orders them.

    Raises:
        UsageError: there is no such site.
        Invalid: there is no config.
    """
    if flags.every and settings.names:
        return settings.names
    if not flags.labels:
        named = {name for name in flags.sites if name in settings.broken or settings.site(name)}
        return [name for name in settings.names if name in named] or [settings.site().name]
    wanted = [pairs_of("--label", [text], "region=eu") for text in flags.labels]
    labels = {name: settings.labels(name) for name in settings.names}
    found = [name for name, own in labels.items() if all(one.items() <= own.items() for one in wanted)]
    if not found:
        known = sorted({f"{key}={value}" for own in labels.values() for key, value in own.items()})
        hint = "sites have each of them, but none has all: name fewer"
        strange = [one for one in flags.labels if one not in known]
        if strange:
            hint = meant(strange[0], known, "`labels: {KEY: VALUE}` in the config of a site gives it labels")
        words = f"no site has {' and '.join(flags.labels)}"
        raise UsageError(words, detail=[f"labels of sites: {', '.join(known) or 'none'}"], hint=hint)
    return found


def calls_of(
    words: Sequence[str], flags: Flags, several: Several, said: Said, sites: Sequence[SiteSettings]
) -> Sequence[SiteCall]:
    """Return the call of each site, with a limit that it knows itself: so it puts things back before it is ended."""
    limit = limit_of(flags) or parse_duration(several.limit)
    words = [*words, f"--timeout={flags.timeout or several.limit}"]
    tail = [word for given in said.options.values() for word in given]
    return [SiteCall(site.name, (*words, "--site", site.name, *tail), limit) for site in sites]


def by_manager(sites: Sequence[SiteSettings], calls: Sequence[SiteCall]) -> Sequence[Sequence[SiteCall]]:
    """Return calls with those together whose sites have the same manager, and which so go one after another."""
    rows: dict[tuple[str, int, int], list[SiteCall]] = {}
    for site, call in zip(sites, calls, strict=True):
        rows.setdefault(site.manager.address, []).append(call)
    return [*rows.values()]


def exit_of(ended: Sequence[ProcessEnd]) -> int:
    """Return the exit code that all have, else 7."""
    codes = {one.exit for one in ended}
    return codes.pop() if len(codes) == 1 else PartlyDone.exit_code


def _refuse(flags: Flags, several: Several, said: Said) -> None:
    """Refuse what has a meaning for one site only."""
    if sum((flags.every, bool(flags.labels), len(flags.sites) > 0)) > 1:
        raise UsageError("--site, --all and --label are given together", hint="choose sites in one way")
    if (output := flags.screen().output) not in OUTPUTS:
        raise UsageError(f"several sites have no output {output!r}", hint=f"-o {' or '.join(OUTPUTS)}")
    alone = [name for name in several.alone if name in said.options]
    if alone or flags.connection != Connection() or flags.confirm:
        given = said.options[alone[0]][0].partition("=")[0] if alone else "--confirm" if flags.confirm else "this"
        what = given if alone or flags.confirm else "an option that says where a store or a manager is"
        raise UsageError(f"{what} is for one site", hint="leave it out, or name one site: --site NAME")
    replaced = [name for name in OVERRIDES if os.environ.get(name)]
    if replaced:
        hint = "take it out of the environment, or name one site: --site NAME"
        raise UsageError(f"{replaced[0]} replaces a key of one site, and here it would of all", hint=hint)


def _common(flags: Flags, *, yes: bool) -> list[str]:
    given = {"--yes": yes, "--dry-run": flags.dry_run, "--insecure": flags.insecure, "--allow-plain": flags.allow_plain}
    texts = {"--run-key": flags.run_key, "--log-format": flags.log_format}
    switches = [name for name, is_given in given.items() if is_given]
    return [*switches, *(f"{name}={text}" for name, text in texts.items() if text)]


def _listed(sites: Sequence[SiteSettings]) -> str:
    names = [site.name for site in sites]
    rest = [f"and {len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return f"{show_count(len(names), 'site')} ({', '.join([*names[:_NAMED], *rest])})"


def _carried_out(
    screen: Screen, rows: Sequence[Sequence[SiteCall]], grace: float, at_once: int, told: Sequence[ProcessEnd]
) -> tuple[list[ProcessEnd], Interrupted | None]:
    """Carry calls out, each row in its order and rows side by side; a signal is passed on, and waited for.

    Args:
        told: sites for which nothing can be done.
    """
    heard = screen.heard if screen.log_format == "json" else None
    processes, ended, stopped = Processes(grace, heard=heard), list[ProcessEnd](), None
    count = sum(map(len, rows)) + len(told)

    def tell(one: ProcessEnd) -> None:
        ended.append(one)
        words = f"[{len(ended)}/{count}] {one.site}: {in_words(one)} ({show_duration(one.seconds)})"
        screen.say(words, failed=one.exit != 0)
        for warning in one.warnings if heard is None else ():
            screen.warn(f"{one.site}: {warning}")
        screen.steps(len(ended), count, "sites")

    screen.steps(0, count, "sites")
    for one in told:
        tell(one)
    with ThreadPoolExecutor(at_once) as pool:
        ahead = {pool.submit(processes.carry_out, row[0]): row for row in rows}
        while ahead:
            try:
                done, _ = wait(ahead, return_when=FIRST_COMPLETED)
                for future in done:
                    ahead |= _next(pool, processes, ahead.pop(future))
                    tell(future.result())
            except (Interrupted, KeyboardInterrupt) as signal:
                stopped = signal if isinstance(signal, Interrupted) else Interrupted(2)
                processes.forward(stopped.signal_number)
    return ended, stopped


def _next(
    pool: ThreadPoolExecutor, processes: Processes, row: Sequence[SiteCall]
) -> dict[Future[ProcessEnd], Sequence[SiteCall]]:
    return {pool.submit(processes.carry_out, row[1]): row[1:]} if row[1:] else {}


def _show(screen: Screen, ended: Sequence[ProcessEnd], stopped: Interrupted | None) -> int:
    """Show how each site ended, the failed ones first for people; return the exit code, or raise what stopped it."""
    rows: list[Json] = [
        {"site": one.site, "exit": one.exit, "error": one.error, "result": one.result, "seconds": round(one.seconds, 1)}
        for one in ended
    ]
    lines = [[one.site, str(one.exit), show_duration(one.seconds), in_words(one)] for one in _worst_first(ended)]
    counts = Counter(one.exit for one in ended)
    told = [f"{show_count(count, 'site')} ended with {code} ({meaning(code)})" for code, count in counts.items()]
    parts = [table(["SITE", "EXIT", "TOOK", "SAYS"], lines), "; ".join(told), *_next_steps(ended)]
    screen.emit({"sites": rows}, "\n\n".join(parts))
    if stopped is not None:
        raise stopped
    return exit_of(ended)


def _next_steps(ended: Sequence[ProcessEnd]) -> Iterator[str]:
    """Yield what is to be done next about the sites that failed; those of which the same is said together."""
    sites: dict[str, list[str]] = {}
    for one in ended:
        for hint in _hints(one):
            sites.setdefault(hint, []).append(one.site)
    if sites:
        yield table(["NEXT FOR", ""], [[", ".join(names), hint] for hint, names in sites.items()])


def _hints(one: ProcessEnd) -> Sequence[str]:
    """Return what is to be done about a failure, or about each check of doctor that failed."""
    answer = one.result if isinstance(one.result, Mapping) else {}
    failed = [check for check in _items(answer, "checks") if check.get("state") == "FAIL"]
    hints = [each.get("hint") for each in ([one.error] if one.error else failed)]
    return [str(hint) for hint in dict.fromkeys(hints) if hint]


def _worst_first(ended: Sequence[ProcessEnd]) -> Sequence[ProcessEnd]:
    return sorted(ended, key=lambda one: one.exit == 0)
