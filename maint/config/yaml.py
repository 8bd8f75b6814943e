"""Read YAML strictly, with the place of every value kept, and write it for output.

What is read is YAML 1.2 with its core scalars: `no`, `on` and `1:30` are text, `0o17` is fifteen. What makes a file
mean something else than it looks like (duplicate keys, aliases, merge keys, tags, several documents) is refused.
"""

import copy
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import yaml

from maint.errors import Invalid, Position
from maint.files import explaining, read_file
from maint.model.formatting import KeyPath
from maint.model.json import Json

MAX_DEPTH = 64
MAX_CHARACTERS = 4_000_000
MAX_DIGITS = 1000

_CORE = "tag:yaml.org,2002:"
_WORDS: Mapping[str, Json] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# Every command reads a file, and few files need all of these: `re` compiles one when it is first asked for.
_INT = r"[-+]?[0-9]+"
_OCTAL = r"0o[0-7]+"
_HEX = r"0x[0-9a-fA-F]+"
_FLOAT = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
_NOT_FINITE = r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
_MAY_BE_NUMBER = frozenset("+-.0123456789")  # what all of these begin with
# YAML 1.1 breaks lines at the last three, YAML 1.2 does not: an editor and the parser would count lines differently.
_UNWANTED = "[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
_NOWHERE = "[\0\ud800-\udfff]"
_BREAK = r"\r\n|\r|\n"
# PyYAML has a parser in Python and one in C, which takes a fifth of the time and is not everywhere. Here the two would
# read differently, or count places differently, so that only the first reads such a text. Each pattern begins with one
# character, which is found quickly: as one pattern they would take a third of the time of the parsing.
_READ_APART = ("\t", r"\?", r"\|\S*#", r">\S*#", r"---\s*(#|\Z)", r":\s+[],}]")
_SYNTAX_HINT = "look at the quotes, brackets, colons and the indentation here and in the line before"


class Document:
    """A YAML document: its plain value, the file's name for messages, and where each part of it stands.

    A caller that reads the same text again gets the same one: nobody changes its value.
    """

    def __init__(self, name: str, data: Json, places: Mapping[KeyPath, tuple[Position, Position]]) -> None:
        self.name = name
        self.data = data
        self._places = places

    def where(self, path: KeyPath, *, key: bool = False) -> Position:
        """Return the place of the value at a path, or of its key; of the nearest ancestor where it is not there."""
        for length in range(len(path), -1, -1):
            place = self._places.get(tuple(path[:length]))
            if place is not None:
                return place[0] if key and length == len(path) else place[1]
        return Position(self.name, 1, 1)

    def __contains__(self, path: KeyPath) -> bool:
        return path in self._places

    def with_value(self, path: KeyPath, value: Json, place: Position) -> "Document":
        """Return a copy with a value put at a path of keys; `place` tells where that came from.

        A plain true or false on the way, as `ssh.sudo` may be, gives way to a mapping.
        """
        data = copy.deepcopy(self.data)
        inner = data
        for step in path[:-1]:
            if not isinstance(inner, dict):
                return self  # what stands here is wrong already, and will be named as such
            if isinstance(inner.get(str(step)), bool | None):
                inner[str(step)] = {}
            inner = inner[str(step)]
        if not isinstance(inner, dict):
            return self
        inner[str(path[-1])] = value
        others = {at: places for at, places in self._places.items() if at[: len(path)] != path}
        return Document(self.name, data, {**others, path: (place, place)})

    def with_parts(self, parts: Mapping[KeyPath, tuple["Document", KeyPath]]) -> "Document":
        """Return a copy with parts of other documents, each at a path whose folder is a mapping; they keep places."""
        data, places = copy.deepcopy(self.data), dict(self._places)
        for path, (other, inner) in parts.items():
            folder = data
            for step in path[:-1]:
                assert isinstance(folder, dict)
                folder = folder.setdefault(str(step), {})
            assert isinstance(folder, dict)
            folder[str(path[-1])] = copy.deepcopy(other.at(inner))
            depth = len(inner)
            places |= {(*path, *at[depth:]): place for at, place in other._places.items() if at[:depth] == inner}
        return Document(self.name, data, places)

    def at(self, path: KeyPath) -> Json:
        """Return the value at a path; KeyError where there is none."""
        value = self.data
        for step in path:
            if isinstance(step, int):
                if not isinstance(value, list) or not -len(value) <= step < len(value):
                    raise KeyError(path)
                value = value[step]
            elif isinstance(value, dict):
                value = value[step]
            else:
                raise KeyError(path)
        return value


class _Mark(Protocol):
    line: int
    column: int


def read(path: Path, name: str | None = None) -> Document:
    """Read a file as `load` does; Invalid where it cannot be read, is not UTF-8, or is not what `load` accepts."""
    return load(read_text(path, name), name or str(path))


def read_text(path: Path, name: str | None = None) -> str:
    """Return the text of a file; Invalid where it cannot be read or is not UTF-8."""
    name = name or str(path)
    with explaining(f"cannot read {name}", "look at the name, and at who may read the file"):
        content = read_file(path, 4 * MAX_CHARACTERS)
    return _decoded(content, name)


@lru_cache(8)  # a command reads its config more than once, a process of many commands very often
def load(text: str, name: str) -> Document:
    """Read one YAML document; Invalid with file, line and column where it is not YAML, or refused."""
    _refuse_unreadable(text, name)
    if yaml.__with_libyaml__ and not any(re.search(shape, text) for shape in _READ_APART):
        try:
            return _Reader(name, yaml.CSafeLoader(text)).document()
        except Invalid:
            pass  # the parser in Python says why: in the same words on every machine
    return _Reader(name, yaml.SafeLoader(text)).document()


def dump(value: Json) -> str:
    """Return a value as YAML, keys in their order; `load` reads the same value back."""
    return yaml.dump(
        _plain(value), Dumper=_Writer, sort_keys=False, allow_unicode=True, default_flow_style=False, width=120
    )


def _decoded(content: bytes, name: str) -> str:
    if content.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise Invalid(
            "the file begins with a byte order mark",
            at=Position(name, 1, 1),
            hint="save it as UTF-8 without a byte order mark",
        )
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start].decode()
        raise Invalid(
            f"byte 0x{content[error.start]:02x} is not UTF-8", at=_place(before, name), hint="save the file as UTF-8"
        ) from None


def _place(before: str, name: str) -> Position:
    lines = re.split(_BREAK, before)
    return Position(name, len(lines), len(lines[-1]) + 1)


def _refuse_unreadable(text: str, name: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise Invalid(
            f"more than {MAX_CHARACTERS} characters", at=Position(name, 1, 1), hint="is this the file that was meant?"
        )
    found = _unwanted(text)
    if found:
        raise Invalid(
            f"the character U+{ord(found.group()):04X} does not belong in a YAML file",
            at=_place(text[: found.start()], name),
            hint='leave it out, or write it escaped in double quotes, such as "\\u2028"',
        )


def _unwanted(text: str) -> re.Match[str] | None:
    """Return the first character that has no place in a file; what can be printed has one, which is quickly seen."""
    return None if text.replace("\n", "").isprintable() else re.search(_UNWANTED, text)


class _Reader:
    """Builds plain values from the parser's events, one at a time, so that nothing is expanded or resolved for us."""

    def __init__(self, name: str, parser: "yaml.SafeLoader | yaml.CSafeLoader") -> None:
        self._name = name
        self._parser = parser
        self._next: Callable[[], Any] = parser.get_event  # Any: of which kind an event is, the grammar says
        self._places: dict[KeyPath, tuple[Position, Position]] = {}

    def document(self) -> Document:
        """Read the one document."""
        try:
            return self._document()
        except yaml.MarkedYAMLError as error:
            raise self._not_yaml(error) from None
        except (yaml.YAMLError, ValueError, OverflowError):
            # The parser trusts escapes such as "\UFFFFFFFF" and turns them into characters that do not exist.
            mark = self._parser.get_mark() if isinstance(self._parser, yaml.SafeLoader) else None
            words = "this is not YAML: an escape or number here has no meaning"
            raise Invalid(words, at=self._position(mark), hint=_SYNTAX_HINT) from None

    def _document(self) -> Document:
        self._next()  # the stream's start
        start = self._next()
        if isinstance(start, yaml.StreamEndEvent):
            return Document(self._name, None, {})
        if isinstance(start, yaml.DocumentStartEvent) and start.version and tuple(start.version) < (1, 2):
            raise self._invalid("only YAML 1.2 is read", start, hint="leave the %YAML line out")
        first = self._next()
        place = self._position(first.start_mark)
        self._places[()] = (place, place)
        data = self._value(first, ())
        self._next()  # the document's end
        after = self._next()
        if not isinstance(after, yaml.StreamEndEvent):
            raise self._invalid("a second document begins here", after, hint="keep one document in a file")
        return Document(self._name, data, self._places)

    def _not_yaml(self, error: yaml.MarkedYAMLError) -> Invalid:
        mark: _Mark | None = error.problem_mark or error.context_mark
        words = error.problem or error.context or "syntax error"
        hint = _SYNTAX_HINT
        if "'\\t'" in words:
            words, hint = "a tab stands where only spaces may", "indent with spaces"
        context = (
            [f"{error.context}, which began at {self._position(error.context_mark)}"]
            if (error.context and error.context_mark)
            else []
        )
        return Invalid(f"this is not YAML: {words}", at=self._position(mark), detail=context, hint=hint)

    def _value(self, event: yaml.NodeEvent, path: KeyPath) -> Json:
        if event.anchor:
            if isinstance(event, yaml.AliasEvent):
                raise self._invalid("aliases (*name) are not read", event, hint="write the value out")
            raise self._invalid("anchors (&name) are not read", event, hint="write the value out where it is needed")
        if len(path) > MAX_DEPTH:
            raise self._invalid(f"nested more than {MAX_DEPTH} deep", event, hint="is this the file that was meant?")
        if isinstance(event, yaml.ScalarEvent):  # what most are
            return self._scalar(event)
        if isinstance(event, yaml.MappingStartEvent):
            self._check_tag(event.tag, event, ("map",))
            return self._mapping(path)
        assert isinstance(event, yaml.SequenceStartEvent)  # the parser's grammar leaves nothing else
        self._check_tag(event.tag, event, ("seq",))
        return self._sequence(path)

    def _sequence(self, path: KeyPath) -> list[Json]:
        values: list[Json] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            here = (*path, len(values))
            place = self._position(event.start_mark)
            self._places[here] = (place, place)
            values.append(self._value(event, here))
        return values

    def _mapping(self, path: KeyPath) -> dict[str, Json]:
        values: dict[str, Json] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._key(event)
            here = (*path, key)
            if key in values:
                raise self._invalid(
                    f"the key {key!r} is given twice",
                    event,
                    detail=[f"first at {self._places[here][0]}"],
                    hint="keep one of them",
                )
            value = self._next()
            begin, place = event.start_mark, value.start_mark
            self._places[here] = (
                Position(self._name, begin.line + 1, begin.column + 1),
                Position(self._name, place.line + 1, place.column + 1),
            )
            values[key] = self._value(value, here)
        return values

    def _key(self, event: yaml.NodeEvent) -> str:
        if isinstance(event, yaml.CollectionStartEvent):
            raise self._invalid("a list or mapping cannot be a key", event, hint="put it in quotes if it is text")
        key = self._value(event, ())
        if key == "<<" and isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
            raise self._invalid("merge keys (<<) are not read", event, hint="write the keys out")
        if not isinstance(key, str):
            raise self._invalid("this key is not text", event, hint="put it in quotes")
        return key

    def _scalar(self, event: yaml.ScalarEvent) -> Json:
        text: str = event.value
        if event.tag is None and event.implicit[0]:  # as most are
            return self._number(text, event) if text[:1] in _MAY_BE_NUMBER else _WORDS.get(text, text)
        self._check_tag(event.tag, event, ("str", "int", "float", "bool", "null"))
        if event.style == '"' and not text.isprintable() and re.search(_NOWHERE, text):  # only there it can be spelled
            raise self._invalid("no file or command can have a character of this text", event, hint="leave it out")
        if event.tag in (None, "!", f"{_CORE}str"):
            return text
        value = self._number(text, event)
        if _kind(value) != event.tag.removeprefix(_CORE):
            tag = event.tag.removeprefix(_CORE)
            raise self._invalid(f"this is not of the type that its tag !!{tag} says", event, hint="leave the tag out")
        return value

    def _number(self, text: str, event: yaml.Event) -> Json:
        if re.fullmatch(_NOT_FINITE, text):
            raise self._invalid("infinite numbers and .nan are not read", event, hint="put it in quotes if it is text")
        try:
            value = resolve(text)
        except ValueError:
            raise self._invalid("this number is too long", event, hint="put it in quotes if it is text") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise self._invalid("this number is too large", event, hint="put it in quotes if it is text")
        return value

    def _check_tag(self, tag: str | None, event: yaml.Event, known: Sequence[str]) -> None:
        if tag not in (None, "!") and tag not in [_CORE + name for name in known]:
            raise self._invalid("tags (!name) are not read", event, hint="leave the tag out")

    def _position(self, mark: _Mark | None) -> Position:
        return Position(self._name, mark.line + 1, mark.column + 1) if mark else Position(self._name, 1, 1)

    def _invalid(self, message: str, event: yaml.Event, *, hint: str, detail: Sequence[str] = ()) -> Invalid:
        return Invalid(message, at=self._position(event.start_mark), detail=detail, hint=hint)


def resolve(text: str) -> Json:
    """Return what a plain scalar means in the core schema of YAML 1.2."""
    # ValueError: a whole number of more digits than anybody can mean (Python refuses to print some of them).
    if text[:1] not in _MAY_BE_NUMBER:
        return _WORDS.get(text, text)
    for shape, start, radix in ((_INT, 0, 10), (_OCTAL, 2, 8), (_HEX, 2, 16)):
        if re.fullmatch(shape, text):
            if len(text) > MAX_DIGITS:
                raise ValueError("too many digits")
            return int(text[start:], radix)
    return float(text) if re.fullmatch(_FLOAT, text) else text


def _kind(value: Json) -> str:
    names = {bool: "bool", int: "int", float: "float", type(None): "null"}
    return names.get(type(value), "str")


def _plain(value: Json) -> Json:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


class _Writer(yaml.SafeDumper):
    """Quotes whatever a reader of YAML 1.1 or 1.2 would take for something else than text."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # the base class asks about each value
        """Write every value out."""
        return True


def _represent_text(writer: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if _unwanted(text) or "\r" in text:
        style = '"'
    elif any(re.fullmatch(shape, text) for shape in (_NOT_FINITE, _INT, _OCTAL, _HEX, _FLOAT)):
        style = "'"  # PyYAML itself quotes the rest: what YAML 1.1 takes for something else
    return writer.represent_scalar(f"{_CORE}str", text, style=style)


_Writer.add_representer(str, _represent_text)
