"""`maint notify list|test`: which notices go where, and a notice that is sent as a test."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated

from maint.cli.after_run import tell, trial_notice
from maint.cli.command import command
from maint.cli.monitoring.outcomes import NOTICE, SCHEDULED, last
from maint.cli.open_site import opened
from maint.cli.options import Flags, argument
from maint.cli.screen import table
from maint.config.notices import WAYS, NoticeSettings
from maint.engine.load import library
from maint.errors import PartlyDone, Refused
from maint.model.formatting import did_you_mean, tell_times, unknown
from maint.model.json import Json


@command()
def list_notices(flags: Flags) -> None:
    """List who gets which notices, and whether the last one arrived."""
    with opened(flags) as (site, screen):
        found, rows = list[Json](), []
        for one in site.settings.notify:
            seen = last(site.state, NOTICE + one.name)
            at = datetime.fromtimestamp(seen.at, UTC).isoformat(timespec="seconds") if seen else None
            problem = seen.words if seen else ""
            ways = [way for way in WAYS if getattr(one, way) is not None]
            found.append({"name": one.name, "ways": ways, "on": list(one.on), "last": at, "problem": problem or None})
            told = [", ".join(one.on)] if ways != ["ping"] else []
            told += ["ping: each start and end"] if one.ping else []  # whatever `on` says
            rows.append([one.name, ", ".join(ways), "; ".join(told), tell_times(at or "never"), problem])
        screen.emit({"notices": found}, table(["NAME", "BY", "ON", "LAST", "PROBLEM"], rows))


@command()
def test(
    flags: Flags, names: Annotated[list[str] | None, argument("Names of configured notices; else all.")] = None
) -> None:
    """Tell a test, and say whether it arrived; a dead man's switch is left alone, since that would reset it.

    Ends with 7 when somebody could not be told.
    """
    with opened(flags) as (site, screen):
        known = [one.name for one in site.settings.notify]
        if not known:
            raise Refused("nobody is told anything: the site has no `notify`", hint="`maint help alerts` shows how")
        for name in names or ():
            if name not in known:
                raise unknown(f"there is no notice {name!r}", name, known, "name one of these, or add it to the config")
        if flags.dry_run:
            screen.emit({"would_tell": [*(names or known)]}, f"would tell a test to {', '.join(names or known)}")
            return
        told = tell(site, screen, [trial_notice(site)], names or None)
        found: list[Json] = [{"name": one.name, "problem": one.problem or None} for one in told]
        lines = [f"{one.name}: {one.problem or 'told'}" for one in told]
        alone = [name for name in names or known if name not in {one.name for one in told}]
        lines += [f"{name}: left alone, since a test would reset the dead man's switch" for name in alone]
        screen.emit({"told": found}, "\n".join(lines))
        if failed := [one for one in told if one.problem]:
            words = f"{len(failed)} of {len(told)} could not be told"
            hints = [f"{one.name}: {one.hint}" if len(failed) > 1 else one.hint for one in failed if one.hint]
            hint = "; ".join(hints) or "correct the config"
            raise PartlyDone(words, detail=[f"{one.name}: {one.problem}" for one in failed], hint=hint)


def strange_verbs(notices: Sequence[NoticeSettings]) -> Iterator[str]:
    """Yield what looks like a slip in `verbs`; a playbook of one's own may have any name."""
    known = {*SCHEDULED, *library().texts} if any(one.verbs for one in notices) else set[str]()
    for one in notices:
        for verb in one.verbs:
            if verb not in known and (guess := did_you_mean(verb, known)):
                yield f"{one.name} is told of {verb!r}, which is not a verb of maint; did you mean {guess!r}?"
