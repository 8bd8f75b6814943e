"""Where a lab is and how it behaves, as the command line says: its folder, its deployment, `--switch NAME=VALUE`."""

import json
import os
import shlex
from collections.abc import Iterable
from pathlib import Path

from maint.cli.configless import state_home
from maint.cli.options import pairs_of
from maint.config.paths import absolute
from maint.errors import Invalid, UsageError
from maint.lab.switches import UnknownSwitch, parse


def switches_of(words: Iterable[str]) -> dict[str, str]:
    """Return what NAME=VALUE sets switches to, by name; UsageError: no such switch, or no such value."""
    try:
        return parse(f"{name}={value}" for name, value in pairs_of("--switch", words, "NAME=VALUE").items())
    except UnknownSwitch as error:
        raise UsageError(f"--switch: {error}", hint="`maint help lab` lists the switches") from None


def lab_folder(given: str) -> Path:
    """Return the lab's folder: the flag, `MAINT_LAB`, or `lab` in the owner's state folder."""
    if given or os.environ.get("MAINT_LAB"):
        return absolute(given or os.environ["MAINT_LAB"])
    return state_home() / "lab"


def up_again(place: Path) -> str:
    """Return the command that brings the lab of a folder up."""
    return "maint lab up" + ("" if place == lab_folder("") else f" --folder {shlex.quote(str(place))}")


def deployment_file(given: str) -> Path | None:
    """Return the file to load, None for the example; Invalid: there is no such file."""
    if not given:
        return None
    path = absolute(given)
    if not path.is_file():
        raise Invalid(f"there is no file {path}", hint="give an export as the manager sent it")
    _refuse_other(path)
    return path


def _refuse_other(path: Path) -> None:
    """Refuse a file that is not an export: a lab could not serve it; Invalid: saying what it lacks."""
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{path} is not JSON: {error}", hint="give an export as the manager sent it") from error
    version = document.get("versionInfo") if isinstance(document, dict) else None
    lacking = [
        words
        for words, there in {
            "it is not a JSON object": isinstance(document, dict),
            "it has no versionInfo with a version": isinstance(version, dict) and bool(version.get("version")),
            "it has no list of users": isinstance(document, dict) and isinstance(document.get("users"), list),
            "its clusters are not a list": isinstance(document, dict)
            and isinstance(document.get("clusters", []), list),
        }.items()
        if not there
    ]
    if lacking:
        hint = "give the body of GET /cm/deployment as the manager sent it"
        raise Invalid(f"{path} is not an export of a manager", detail=lacking, hint=hint)
