"""`maint lab up|down|status|break`: a simulated manager with its hosts; `demo`: the main job in it, end to end."""

import os
import secrets
import shlex
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from msgspec.structs import replace

from maint.cli.command import command
from maint.cli.configless import settings_of, state_home
from maint.cli.lab.options import deployment_file, lab_folder, switches_of, up_again
from maint.cli.options import Flags, argument, number, option
from maint.cli.run_playbook import carry_out, resume
from maint.cli.screen import Screen, ask_change, table
from maint.errors import MaintError, Refused, Unfinished, UsageError, WorkFailed
from maint.files import explaining
from maint.lab import control
from maint.lab.faults import FAULTS, unheard_of
from maint.lab.manager.load import Options
from maint.model.formatting import show_count
from maint.model.json import spelled
from maint.model.virtual_cluster import is_cluster_name

LOST = "lost"
LOSSES = {  # what can be lost → what becomes of it, and what makes it so
    "database": ("the manager becomes one just installed; its hosts keep their files", "lose_database"),
    "virtual-clusters": (
        "all virtual clusters are gone with what they held; the config keeps the addresses that they had",
        "lose_virtual_clusters",
    ),
}
Folder = Annotated[str, option("--folder", "Where the lab is; else MAINT_LAB, else your state folder.")]
Deployment = Annotated[str, option("--deployment", "An export to load; else the example.")]


@command()
def up(
    flags: Flags,
    folder: Folder = "",
    deployment: Deployment = "",
    fresh: Annotated[bool, option("--fresh", "A server just installed.")] = False,
    switch: Annotated[list[str] | None, option("--switch", "NAME=VALUE; see `maint help lab`.")] = None,
    password: Annotated[str, option("--password", "A password to try for the administrators.")] = "",
    plain_port: Annotated[int, number("--plain-port", "Up to 65535; 0 chooses a free one.", 0, 65535)] = 0,
    tls_port: Annotated[int, number("--tls-port", "Up to 65535; 0 chooses a free one.", 0, 65535)] = 0,
    virtual_cluster: Annotated[
        list[str] | None, option("--virtual-cluster", "A further, empty virtual cluster of this name.")
    ] = None,
    new: Annotated[bool, option("--new", "Throw away the lab that is in the folder, and make another.")] = False,
) -> None:
    """Bring a lab up; prints the line that makes every other command talk to it."""
    for name in virtual_cluster or ():
        if not is_cluster_name(name):
            words = f"--virtual-cluster {name!r}: a virtual cluster's name has 3 to 30 letters, digits and hyphens"
            raise UsageError(f"{words}, and a letter first", hint="such as --virtual-cluster etl-2")

    options = Options(
        deployment=deployment_file(deployment),
        fresh=fresh,
        password=password or None,
        switches=switches_of(switch or ()),
        plain_port=plain_port,
        tls_port=tls_port,
        virtual_clusters=tuple(dict.fromkeys(virtual_cluster or ())),
    )
    place = lab_folder(folder)
    there, as_it_is = control.is_lab(place), options == Options(virtual_clusters=options.virtual_clusters)
    if there and not new and not as_it_is:
        raise Refused(
            f"there is a lab in {place} already, and it stays what it was made from",
            hint=f"`{up_again(place)}` alone brings it up again; --new makes another; --folder puts one elsewhere",
        )
    if not there:
        control.refuse_other(place)
    if flags.dry_run:
        again = f"would bring a lab up in {place}" + (", and throw away the one that is there" * there)
        words = _as_it_would_be(place, options.virtual_clusters) if there and not new else again
        flags.screen().emit({"folder": str(place)}, words)
    elif not there:
        _show(flags, control.up(place, options))
    elif new:
        _show(flags, _replaced(flags, place, options))
    else:
        _made(flags, place, options.virtual_clusters)


def _as_it_would_be(place: Path, names: Sequence[str]) -> str:
    found = control.status(place)
    words = f"the lab in {place} is up already" if found["running"] else f"would bring the lab in {place} up again"
    made = sorted({*names} - {each["name"] for each in found.get("virtual_clusters", ())})
    return words + (f"; would make {', '.join(made)} in it, where it has none of that name" if made else "")


def _made(flags: Flags, place: Path, names: Sequence[str]) -> None:
    """Bring a lab up that is there, and make further virtual clusters in it, as the vendor's UI does."""
    found = control.up(place)
    known = {each["name"] for each in found.get("virtual_clusters", ())}
    made = [control.create_vc(place, name) for name in names if name not in known]
    _show(flags, control.status(place))
    for each in made:
        flags.screen().say(f"virtual cluster {each['name']}: empty, not initialised, at {each['base_url']}")


def _replaced(flags: Flags, place: Path, options: Options) -> dict[str, Any]:  # Any: what a lab tells, as JSON
    """Bring another lab up, once the operator agrees; the one that was there goes only once the new one is up."""
    store = ", with the snapshots in its store" if any(place.glob("backups/*")) else ""
    question = f"the lab in {place} is to be thrown away{store}; go on?"
    ask_change(flags.screen(), question, yes=flags.yes)
    control.down(place)
    real, hint = place.resolve(), "remove it by hand, or let it be and name another folder with --folder"
    aside = real.with_name(f".{real.name}-{os.getpid()}")
    with explaining(f"the lab in {place} cannot be thrown away", hint, WorkFailed):
        real.rename(aside)
    try:
        found = control.up(place, options)
    except MaintError as error:
        if not real.exists():
            aside = aside.rename(real)
        error.detail = (*error.detail, f"the lab that was there is down, and kept in {aside}")
        raise
    with explaining(f"the new lab is up, and the old one, in {aside}, cannot be thrown away", hint, WorkFailed):
        shutil.rmtree(aside)
    return found


def _show(flags: Flags, found: dict[str, Any]) -> None:  # Any: what a lab tells, as JSON
    screen = flags.screen()
    for remark in found.get("remarks", ()):
        screen.say(f"note: {remark}")
    screen.emit(found, f"export MAINT_CONFIG={shlex.quote(str(found['config']))}")


@command()
def down(flags: Flags, folder: Folder = "") -> None:
    """Take the lab down; its files stay."""
    place = lab_folder(folder)
    if flags.dry_run:
        up = control.status(place)["running"]
        flags.screen().emit({"folder": str(place)}, f"would take the lab in {place} down" if up else "no lab is up")
        return
    was_up = control.down(place)
    flags.screen().emit(
        {"was_up": was_up}, f"the lab in {place} is down; its files stay" if was_up else "no lab was up"
    )


@command()
def status(flags: Flags, folder: Folder = "") -> None:
    """Show where the lab answers, and with which credentials."""
    place = lab_folder(folder)
    found = control.status(place)
    if not (found["running"] or control.is_lab(place)):
        flags.screen().emit(found, f"there is no lab in {place}: `{up_again(place)}` makes one")
        return
    rows = [["running", "yes" if found["running"] else "no"], ["config", str(found["config"])]]
    for part in ("manager", "ssh"):
        rows += [[f"{part} {key}", spelled(value)] for key, value in (found.get(part) or {}).items()]
    rows += [[f"virtual cluster {each['name']}", str(each["base_url"])] for each in found.get("virtual_clusters", ())]
    rows += [["requests", str(found["requests"])]] if "requests" in found else []
    rows += [["fault", f"{each['fault']}, at {each['target']}"] for each in found.get("faults", ())]
    flags.screen().emit(found, table(["WHAT", "IS"], rows))


@command()
def break_(
    flags: Flags,
    target: Annotated[str, argument("A host's name, or a target that --list shows.")] = "",
    fault: Annotated[str, argument("A fault's name.")] = "",
    listed: Annotated[bool, option("--list", "List the faults.")] = False,
    repair: Annotated[bool, option("--repair", "Clear a fault, all faults of a target, or all.")] = False,
    folder: Folder = "",
) -> None:
    """Set a fault in the lab, list them, or clear them."""
    screen = flags.screen()
    if listed:
        rows = [[name, one.target, one.meaning] for name, one in FAULTS.items()]
        rows += [[LOST, target, words] for target, (words, _) in LOSSES.items()]
        data = [dict(zip(("name", "target", "meaning"), row, strict=True)) for row in rows]
        screen.emit({"faults": data}, table(["FAULT", "TARGET", "MEANING"], rows))
    elif not (repair or (target and fault)):
        raise UsageError("name a target and a fault", hint="`maint lab break --list` shows both")
    elif fault and fault not in {*FAULTS, LOST}:
        raise UsageError(str(unheard_of("fault", fault, FAULTS)), hint="`maint lab break --list` shows them")
    elif flags.dry_run:
        words = f"would {'clear' if repair else 'set'} {' '.join(filter(None, (target, fault))) or 'all faults'}"
        screen.emit({"target": target, "fault": fault}, words)
    elif repair:
        cleared = control.repair(lab_folder(folder), fault or target, target if fault else "")
        screen.emit({"cleared": cleared}, f"{show_count(cleared, 'fault')} cleared")
    elif fault == LOST and target in LOSSES:
        words, lose = LOSSES[target]
        getattr(control, lose)(lab_folder(folder))
        screen.emit({"target": target, "fault": fault}, f"lost: {words}")
    else:
        control.break_(lab_folder(folder), target, fault)
        screen.emit({"target": target, "fault": fault}, f"{target}: {fault}")


_KEEPS_ONE = "`maint lab up` keeps one, in which the same commands can be tried one by one"
_LOOK_CLOSER = f"the demo removed its lab: {_KEEPS_ONE}"


@command()
def demo(flags: Flags, deployment: Deployment = "") -> int:
    """Back a manager up, lose it, bring an empty one back, prove it: the main job, in a minute, on your machine."""
    export = deployment_file(deployment)
    if flags.dry_run:
        words = "would show the main job in a lab of its own, and clear the lab away; its report stays"
        flags.screen().emit({}, words)
        return 0
    screen = flags.screen()
    folder = Path(tempfile.mkdtemp(prefix="maint-demo-"))
    state = state_home() / "demo" / folder.name
    try:
        return _story(replace(flags, config=None, site=None, output=None, state=str(state)), screen, folder, export)
    except MaintError as error:
        error.hint = _LOOK_CLOSER  # what it says may name the demo's own lab, which is gone
        raise
    finally:
        control.down(folder)
        shutil.rmtree(folder, ignore_errors=True)
        _keep_reports(state)


def _story(flags: Flags, screen: Screen, folder: Path, deployment: Path | None) -> int:
    chapter = _chapters(screen)
    chapter("A manager is loaded, with a password that is not the factory one")
    password = f"demo-{secrets.token_urlsafe(9)}"
    quick = {"vc-env-seconds": "0", "vc-dag-seconds": "0"}  # of minutes that a demo need not last
    found = control.up(folder, Options(deployment=deployment, new_password=password, switches=quick), passing=True)
    for remark in found.get("remarks", ()):
        screen.say(f"  {remark}")
    names = [str(each["name"]) for each in found.get("virtual_clusters", ())]
    on_lab = replace(flags, config=str(found["config"]), yes=True)
    site = settings_of(on_lab).site()
    chapter("A backup is taken through the redaction window" + (f", and of {', '.join(names)}" if names else ""))
    carry_out(on_lab, "export-unredacted", {})
    gone = "; all virtual clusters are lost with what they held" if names else ""
    chapter(f"The server's database is lost; an empty manager takes its place{gone}")
    control.lose_database(folder)
    if names:
        control.lose_virtual_clusters(folder)
    carry_out(replace(on_lab, allow_plain=True), "probe", {})  # a fresh server has no TLS yet
    chapter("Disaster recovery: from the empty manager to the old configuration, with one command")
    try:
        carry_out(replace(on_lab, confirm=site.name), "disaster-recovery", {})
    except Unfinished as stop:
        screen.error(stop)
        _go_on(on_lab, chapter, folder, names)
    too = "; so are its virtual clusters" if names else ""
    chapter(f"The manager is back, and was compared with the snapshot{too}")
    screen.say(f"nothing is left to do: the demo removes its lab; {_KEEPS_ONE}")
    reports = {kind: str(max(site.state.glob(f"reports/*.{kind}"))) for kind in ("md", "html")}
    screen.emit({"report": dict(reports)}, "\n".join(f"report: {path}" for path in reports.values()))
    return 0


def _go_on(flags: Flags, chapter: Callable[[str], None], folder: Path, names: list[str]) -> None:
    """Make what only the vendor's UI can make, and take the run up where it waits for that."""
    chapter(f"In the vendor's UI, {', '.join(names)} is made anew: empty, not initialised, at another address")
    made = {name: str(control.create_vc(folder, name)["base_url"]) for name in names}
    told = {f"vc.{name}.base_url": url for name, url in made.items()}
    chapter(f"maint playbook resume {' '.join(f'--set {key}={value}' for key, value in told.items())}")
    resume(flags, None, told)


def _keep_reports(state: Path) -> None:
    """Clear away the demo's state, all but its reports."""
    for place in state.glob("*/*"):
        if place.is_dir() and place.name != "reports":
            shutil.rmtree(place, ignore_errors=True)
        elif place.is_file():
            place.unlink()


def _chapters(screen: Screen) -> Callable[[str], None]:
    count = 0

    def chapter(words: str) -> None:
        nonlocal count
        count += 1
        screen.say(f"\n{count}. {words}")

    return chapter
