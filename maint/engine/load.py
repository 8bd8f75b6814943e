"""Read a playbook strictly: all mistakes in it are found, with their places, before anything is touched."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

from maint.config.error_messages import decoded, readable, together
from maint.config.resources import playbooks
from maint.config.suggestions import KeyPath, meant
from maint.config.yaml import Document, read_text
from maint.config.yaml import load as load_yaml
from maint.engine.forms import ParameterForm, PlaybookForm, StepForm
from maint.engine.parameters import convert
from maint.engine.read_step import Mistakes, StepReader, is_file
from maint.errors import Invalid, Position, UsageError
from maint.model.plan import Parameter, ParameterSource, ParameterType, Playbook

_SECTIONS = {"steps": "steps", "on_failure": "on_failure", "finally": "finally_"}  # and as fields
F = TypeVar("F", ParameterForm, StepForm)


class Library(msgspec.Struct, frozen=True):
    """The playbooks that can be named, by name, as text."""

    texts: Mapping[str, str]
    read: dict[str, Playbook] = {}

    def load(self, name: str, within: Sequence[str] = ()) -> Playbook:
        """Return a playbook by name, or by its path; UsageError where there is none, Invalid where it has a mistake."""
        own = is_file(name)
        if not own and name not in self.texts:
            raise UsageError(
                f"there is no playbook {name!r}", hint=meant(name, self.texts, "`maint playbook list` lists them")
            )
        text = read_text(Path(name)) if own else self.texts[name]
        key, file = (f"{name}\n{text}", name) if own else (name, f"{name}.yaml")
        if key not in self.read:
            self.read[key] = load(text, file, self, within=within)
        return self.read[key]

    def find(self, name: str, folder: Path | None = None) -> Playbook:
        """Return a playbook by name, or by its file: a path from `folder`, else from the working folder."""
        if not is_file(name):
            return self.load(name)
        path = name if folder is None else str(folder / name)
        return load(read_text(Path(path)), path, self)


@cache
def library() -> Library:
    """Return the playbooks shipped with the product."""
    return Library(playbooks())


def load(text: str, file: str, library: Library, *, within: Sequence[str] = ()) -> Playbook:
    """Read and check one playbook.

    Args:
        file: its name, for messages.
        within: the playbooks that include this one: their names, of own ones their whole paths.

    Raises:
        Invalid: the first mistake with file, line and column; each further one is a detail line with its own.
    """
    playbook, mistakes = examine(text, file, library, within=within)
    if mistakes or playbook is None:
        raise together(mistakes)
    return playbook


def examine(
    text: str, file: str, library: Library, *, within: Sequence[str] = ()
) -> tuple[Playbook | None, Sequence[Invalid]]:
    """Read a playbook, and return what could be read with all mistakes in the order of the file; see `load`."""
    found = Mistakes()
    document = None
    with found:
        document = load_yaml(text, file)
    if document is None:
        return None, found.listed
    form, wrong = decoded(PlaybookForm, document)
    found.listed += wrong
    name = form.name if form else file
    texts = form.parameters if form else _forms(document, ("parameters",), ParameterForm)
    parameters = [_parameter(document, str(key), one, found) for key, one in texts.items()]
    whole_name = name if library.texts.get(name) == text else str(Path(file).resolve())
    reader = StepReader(document, library.load, library.texts, (*within, whole_name), _names(document), found)
    steps = [
        reader.step(section, int(index), one)
        for section, key in _SECTIONS.items()
        for index, one in (enumerate(getattr(form, key)) if form else _forms(document, (section,), StepForm).items())
    ]
    with found:
        if form is not None and not form.steps:
            raise Invalid("a playbook needs at least one step", at=document.where(("steps",), key=True))
    reader.refuse_questions_amid_a_window()
    whole = [one for one in parameters if one is not None]
    playbook = Playbook(name, form.summary if form else "", tuple(whole), tuple(steps), text)
    return playbook, in_order(found.listed, file)


def in_order(mistakes: Iterable[Invalid], file: str) -> list[Invalid]:
    """Return mistakes in the order of the file."""

    def order(mistake: Invalid) -> tuple[bool, int, int, bool]:
        # What an included playbook has wrong comes last; what is missing may only be misspelled.
        at = mistake.at or Position("", 0, 0)
        return at.file != file, at.line, at.column, mistake.message.endswith("is missing")

    return sorted(mistakes, key=order)


def _forms(document: Document, path: tuple[str], form: type[F]) -> dict[str | int, F]:
    """Return what can be read below a path, by key or index; what cannot has been named already.

    A step is read without its wrong keys where those do not make other mistakes of it.
    """
    data = document.data.get(path[0]) if isinstance(document.data, Mapping) else None
    if isinstance(data, Mapping):
        keys: Sequence[str | int] = list(data)
    else:
        keys = range(len(data)) if isinstance(data, list) else ()
    read: dict[str | int, F] = {}
    for key in keys:
        place: KeyPath = (*path, key)
        vital = {"do", "with", *(["each"] if "item" in str(document.at(place)) else [])}
        if (one := readable(form, document, place, vital)) is not None:
            read[key] = one
    return read


def _names(document: Document) -> set[str]:
    data = document.data.get("parameters") if isinstance(document.data, Mapping) else None
    return {str(name) for name in data} if isinstance(data, Mapping) else set()


def _parameter(document: Document, name: str, item: ParameterForm, found: Mistakes) -> Parameter | None:
    with found:
        return _checked_parameter(document, name, item)
    return None


def _checked_parameter(document: Document, name: str, item: ParameterForm) -> Parameter:
    at = document.where(("parameters", name, "type"))
    try:
        kind = ParameterType(item.type)
    except ValueError:
        kinds = [str(kind) for kind in ParameterType]
        words = f"a parameter's type is one of {', '.join(kinds)}, not {item.type!r}"
        raise Invalid(words, at=at, hint=meant(item.type, kinds, "")) from None
    given = "default" in item.model_fields_set
    source = (
        _source(document.where(("parameters", name, "from")), item, given=given) if item.from_ is not None else None
    )
    default = convert(kind, item.default, document.where(("parameters", name))) if given else None
    return Parameter(name, kind, item.help, default, not given and source is None, source)


def _source(at: Position, item: ParameterForm, *, given: bool) -> ParameterSource:
    lists = [str(source) for source in ParameterSource]
    if item.from_ not in lists:
        raise Invalid(f"there is no list {item.from_!r}", at=at, hint=meant(item.from_ or "", lists, ""))
    if given or item.type != ParameterType.LIST:
        raise Invalid("`from` fills a parameter of type list that has no default", at=at)
    return ParameterSource(item.from_)
