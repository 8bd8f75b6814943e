"""Read a playbook strictly: all mistakes are found, with their places, and all names that the config lacks."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

from maint.config.error_messages import decoded, readable, together
from maint.config.paths import playbooks
from maint.config.schema import SiteSettings
from maint.config.yaml import Document, read_text
from maint.config.yaml import load as load_yaml
from maint.engine.parameters import alone, convert, in_text, refuse_reserved, render
from maint.engine.read_step import (
    Mistakes,
    ParameterForm,
    PlaybookForm,
    StepForm,
    StepReader,
    is_file,
    is_template,
    texts,
)
from maint.errors import Invalid, Position, UsageError
from maint.files import visible
from maint.model.formatting import KeyPath, did_you_mean, meant
from maint.model.json import Json
from maint.model.notice import Kind
from maint.model.plan import Parameter, ParameterSource, ParameterType, Playbook, StepText
from maint.steps.registry import STEPS

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
            file = next((one for one in (f"{name}.yaml", f"{name}.yml") if visible(Path(one))), "")
            hint = f"a file is named with its ending: {file}" if file else ""
            hint = hint or meant(name, self.texts, "`maint playbook list` lists them")
            raise UsageError(f"there is no playbook {name!r}", hint=hint)
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
    refuse_reserved(name, document.where(("parameters", name), key=True))
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


_WHOEVER = ("notice that takes messages", "virtual cluster")  # where a step names none, it means what there is


def unknown_names(
    playbook: Playbook, settings: SiteSettings, given: Mapping[str, Json] | None = None
) -> Iterator[Invalid]:
    """Yield each name that the config of a site does not have, with its place, and each step that needs some name.

    What only a parameter without a default would tell is not judged; neither is what an included playbook names itself.

    Args:
        given: the parameters of a run, where they are known.
    """
    defaults: dict[str, Json] = {item.name: item.default for item in playbook.parameters if item.default is not None}
    defaults |= given or {}
    every = known_names(settings)
    for step in playbook.steps:
        if step.do is None or step.do not in STEPS:
            continue
        for key, kind in _named(step, every).items():
            known = every[kind]
            if not known and kind in _WHOEVER and key not in step.arguments:
                hint = "`maint help configuration` describes every key"
                yield Invalid(f"site {settings.name} has no {kind}", at=step.at, hint=hint)
            for name in names_given(step, key, defaults):
                if name not in known:
                    guess = did_you_mean(name, sorted(known))
                    hint = (
                        f"did you mean {guess!r}?" if guess else f"the config has {', '.join(sorted(known)) or 'none'}"
                    )
                    words = f"site {settings.name} has no {kind} {name!r}"
                    yield Invalid(words, at=step.argument_places.get(key, step.at), hint=hint)


def known_names(settings: SiteSettings) -> Mapping[str, set[str]]:
    """Return the names that the config of a site has, by what they are the names of."""
    hosts = (*settings.hosts, *settings.hosts_in("manager"))
    return {
        "host": {host.name for host in hosts},
        "group of hosts": {group for host in hosts for group in host.groups},
        "notice that takes messages": {one.name for one in settings.notify if one.ways(Kind.MESSAGE.value, "")},
        "virtual cluster": {one.name for one in settings.virtual_clusters},
    }


def _named(step: StepText, kinds: Collection[str]) -> Mapping[str, str]:
    """Return the keys of a step's arguments that name what the config has, and what that is."""
    arguments = STEPS[step.do or ""].arguments
    own = {"vc": "virtual cluster"} if "vc" in arguments.model_fields else {}
    named = {**getattr(arguments, "in_config", {}), **own}  # a plugin's may lack it, or say what means nothing here
    return {key: kind for key, kind in named.items() if kind in kinds}


def names_given(step: StepText, key: str, defaults: Mapping[str, Json]) -> Sequence[str]:
    """Return the names that an argument of a step has, as far as the parameters that are known tell."""
    value = step.arguments.get(key)
    try:
        if any(not in_text(text) <= defaults.keys() for text, _ in texts(value, ()) if is_template(text)):
            return ()
        variable = alone(value)
        listed = value if isinstance(value, list) else [value]
        found = [_filled(one, defaults) for one in listed] if variable is None else defaults[variable]
    except Invalid:  # a template that is malformed, which is a mistake of its own
        return ()
    return [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, str) and one]


def _filled(text: Json, defaults: Mapping[str, Json]) -> Json:
    known = defaults.get(alone(text) or "")
    return known if isinstance(known, str) else render(text, defaults)
