"""Find the playbooks and templates that are shipped with the product; never in the working folder."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path


def folder(name: str) -> Traversable:
    """Return a shipped folder, of the installed package or (editable install) the checkout; FileNotFoundError."""
    inside = files("maint") / "_bundled" / name
    if inside.is_dir():
        return inside
    beside = Path(__file__).resolve().parents[2] / name
    if beside.is_dir() and (beside.parent / "pyproject.toml").is_file():
        return beside
    raise FileNotFoundError(f"{name}/ is missing from this installation")


def changelog() -> str:
    """Return what is new in each version; FileNotFoundError where it is missing."""
    place = folder("playbooks")
    inside = files("maint") / "_bundled" / "CHANGELOG.md"
    found = inside if inside.is_file() else Path(str(place)).parent / "CHANGELOG.md"
    return found.read_text(encoding="utf-8")


def playbooks() -> dict[str, str]:
    """Return the shipped playbooks: name (without `.yaml`) → text, in order."""
    found = sorted((item for item in folder("playbooks").iterdir()), key=lambda item: item.name)
    return {
        item.name.removesuffix(".yaml"): item.read_text(encoding="utf-8")
        for item in found
        if item.name.endswith(".yaml")
    }


def template(name: str) -> str:
    """Return the text of a shipped template by its path below `templates/`; FileNotFoundError where there is none."""
    steps = name.split("/")
    if not name or any(step in ("", ".", "..") for step in steps):
        raise FileNotFoundError(name)
    return folder("templates").joinpath(*steps).read_text(encoding="utf-8")
