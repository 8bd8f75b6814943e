"""`--run-key`: the same command under the same key goes on with the run that it began, and never does it twice."""

import hashlib
from collections.abc import Mapping

from maint.cli.options import Flags
from maint.cli.run_report import action_json
from maint.cli.screen import Screen
from maint.engine import journal
from maint.errors import PartlyDone, Refused
from maint.model.formatting import tell_times
from maint.model.json import Json
from maint.ports import Site


def asked(flags: Flags, playbook: str = "") -> dict[str, Json]:
    """Return what a journal keeps of a command with a key, and of its playbook's text; empty where it has none."""
    if not flags.run_key:
        return {}
    return {"run_key": flags.run_key, "asked": hashlib.sha256(f"{flags.asked}\n{playbook}".encode()).hexdigest()}


def earlier(site: Site, key: Mapping[str, Json]) -> journal.RunState | None:
    """Return the run that a command with this key began, None where it is to begin one.

    A run that was refused has done nothing, and one that was dismissed is given up: neither stands in the way.

    Raises:
        Refused: the key is another command's.
    """
    past = journal.of_key(site.state, str(key["run_key"])) if key else None
    if past is None or past.state in ("refused", "dismissed"):
        return None
    if past.options.get("asked") != key["asked"]:
        raise Refused(
            f"the key {key['run_key']!r} belongs to another command: run {past.id} ({past.plan.source}), {past.state}",
            detail=["a key stands for one command with its arguments and the playbook as it was then"],
            hint="use a new key; `maint playbook history` lists the runs",
        )
    return past


def done_already(screen: Screen, past: journal.RunState) -> None:
    """Say that a run is done already; PartlyDone: so it ended then."""
    ended = [(action, past.record(index).result) for index, action in enumerate(past.plan.actions)]
    actions = [action_json(action, result) for action, result in ended if result]
    words = f"done already: run {past.id} ({past.plan.source}), ended {tell_times(past.at)}"
    screen.say(words)
    if screen.output != "table":
        screen.emit({"run": past.id, "playbook": past.plan.source, "actions": actions, "done_already": True}, "")
    if partly := [result.detail for _, result in ended if result and result.partly]:
        raise PartlyDone(f"{words}, but not all that was asked for", detail=partly, hint="see what is left above")
