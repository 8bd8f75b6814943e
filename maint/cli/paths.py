"""Where the lab and the demo keep their files, and where a file that the operator names lies."""

import json
import os
from pathlib import Path

from maint.errors import Invalid


def lab_folder(given: str) -> Path:
    """Return the lab's folder: the flag, `MAINT_LAB`, or `lab` in the owner's state folder."""
    if given or os.environ.get("MAINT_LAB"):
        return Path(given or os.environ["MAINT_LAB"]).expanduser().absolute()
    return state_home() / "lab"


def state_home() -> Path:
    """Return where the owner's programs keep state: `$XDG_STATE_HOME/maint`."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "maint"


def deployment_file(given: str) -> Path | None:
    """Return the file to load, None for the example.

    Raises:
        Invalid: there is no such file.
    """
    if not given:
        return None
    path = Path(given).expanduser().absolute()
    if not path.is_file():
        raise Invalid(f"there is no file {path}", hint="give an export as the manager sent it")
    _refuse_other(path)
    return path


def _refuse_other(path: Path) -> None:
    """Refuse a file that is no export: a lab could not serve it.

    Raises:
        Invalid: saying what it lacks.
    """
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{path} is not JSON: {error}", hint="give an export as the manager sent it") from error
    version = document.get("versionInfo") if isinstance(document, dict) else None
    lacking = [
        words
        for words, there in {
            "it is no JSON object": isinstance(document, dict),
            "it has no versionInfo with a version": isinstance(version, dict) and bool(version.get("version")),
            "it has no list of users": isinstance(document, dict) and isinstance(document.get("users"), list),
            "its clusters are no list": isinstance(document, dict) and isinstance(document.get("clusters", []), list),
        }.items()
        if not there
    ]
    if lacking:
        hint = "give the body of GET /cm/deployment as the manager sent it"
        raise Invalid(f"{path} is no export of a manager", detail=lacking, hint=hint)
