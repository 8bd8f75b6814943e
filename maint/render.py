"""The one door to Jinja2: strict about names, sandboxed, bounded, and escaped where the output is HTML.

Texts in playbooks hold expressions (`{{ … }}`) and conditions (`{% if … %}`); loops belong to our `templates/`.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache, wraps
from types import TracebackType
from typing import Any, NoReturn, TypeVar

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.filters import do_indent, do_join
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

from maint.config import paths
from maint.errors import Invalid, Position, Stopped
from maint.model.formatting import meant, show_count, show_duration, show_size, show_some
from maint.model.json import Json

MAX_SOURCE = 64_000
MAX_TEXT = 1_000_000
MAX_BITS = 4096
_DEEPEST = 64  # lists in lists
_TOLD = 120  # characters of a text that is told with what is wrong in it

# Whatever can grow without bound, or depends on chance, is left out.
_LEFT_OUT = frozenset((
    "attr", "batch", "center", "filesizeformat", "format", "pprint", "random", "slice", "urlize", "wordwrap", "xmlattr",
))  # fmt: skip
_METHODS = frozenset((
    "capitalize", "count", "endswith", "find", "get", "index", "isalnum", "isalpha", "isdigit", "items", "keys",
    "lower", "lstrip", "partition", "removeprefix", "removesuffix", "rpartition", "rsplit", "rstrip", "split",
    "splitlines", "startswith", "strip", "title", "upper", "values",
))  # fmt: skip
_STATEMENTS = (nodes.Output, nodes.If)
_Kind = TypeVar("_Kind", bound=jinja2.Environment)


class _Sandbox(ImmutableSandboxedEnvironment):
    """The sandbox of Jinja2, narrowed: few methods, and no operation that could fill the memory."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        """Allow plain data, and the methods that only look at it."""
        if not super().is_safe_attribute(obj, attr, value):
            return False
        return not callable(value) or attr in _METHODS or isinstance(obj, LoopContext)

    def wrap_str_format(self, value: object) -> None:
        """Have `format` judged like any other method: a width in it could fill the memory."""

    def call_binop(self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any) -> Any:
        """Refuse products and powers that are out of proportion. (Any: as the base class has it.)"""
        if operator == "%" and isinstance(left, str):
            raise SecurityError("texts are not formatted with %")
        if operator == "*" and _product(left, right) > MAX_TEXT:
            raise SecurityError("this product is too long")
        if operator == "**" and _bits(left) * abs(right) > MAX_BITS:
            raise SecurityError("this power is too large")
        return super().call_binop(context, operator, left, right)


def _product(left: object, right: object) -> int:
    for many, times in ((left, right), (right, left)):
        if isinstance(many, str | list | tuple) and isinstance(times, int):
            return _size(many) * times
    return MAX_TEXT + 1 if _bits(left) + _bits(right) > MAX_BITS else 0


def _size(value: object, most: int = 2 * MAX_TEXT, depth: int = 0) -> int:
    """Return how many characters and values there are in a value, or more than `most` where it is larger or deeper."""
    if isinstance(value, str):
        return len(value)
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    found = 1 if depth < _DEEPEST else most + 1
    for one in inner:
        if found > most:
            break
        found += _size(one, most - found, depth + 1)
    return found


def _bounded(fill: Callable[..., object]) -> Callable[..., object]:
    """Return a filter of Jinja2 that yields no more values than fit into a text."""

    @wraps(fill)  # it also has marks of Jinja2
    def bounded(*args: object, **named: object) -> object:
        made = fill(*args, **named)
        return _counted(made) if isinstance(made, Iterator) else made

    return bounded


def _counted(values: Iterator[object]) -> Iterator[object]:
    left = 2 * MAX_TEXT
    for value in values:
        left -= 1 + _size(value, left)
        if left < 0:
            raise SecurityError("the result is too large")
        yield value


@jinja2.pass_eval_context
def _join(context: nodes.EvalContext, value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
    values = list(value)
    if len(values) * len(str(d)) > MAX_TEXT:
        raise SecurityError("this is too long to be joined")
    return str(do_join(context, values, d, attribute))


def _bits(value: object) -> int:
    return value.bit_length() if isinstance(value, int) else 64


def _replace(text: object, old: str, new: str, count: int = -1) -> str:
    # The size is looked at beforehand: chained replacements grow like powers.
    whole = str(text)
    if len(whole) + (whole.count(old) if old else len(whole) + 1) * len(new) > MAX_TEXT:
        raise SecurityError("this replacement is too long")
    return whole.replace(old, new, count)


def _indent(text: object, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    whole = str(text)
    if len(whole) + (whole.count("\n") + 1) * (width if isinstance(width, int) else len(width)) > MAX_TEXT:
        raise SecurityError("this indentation is too long")
    return do_indent(whole, width, first, blank)


def _to_json(value: object, indent: int | None = None) -> str:
    return _dumped(_plain(value, [2 * MAX_TEXT]), ensure_ascii=False, indent=indent)


def _dumped(
    value: object, *, indent: int | str | None = None, ensure_ascii: bool = True, sort_keys: bool = False
) -> str:
    narrow = indent[:8] if isinstance(indent, str) else None if indent is None else min(indent, 8)
    return json.dumps(value, indent=narrow, ensure_ascii=ensure_ascii, sort_keys=sort_keys)


def _shell(value: object) -> str:
    """Return a text as one word for a shell, a list as one word for each member."""
    return shlex.join(map(_shown, value)) if isinstance(value, list | tuple) else shlex.quote(_shown(value))


def _shown(value: object) -> str:
    """Return a value that stands amid a text as people write it, not as Python does."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    if value is None:
        return ""
    return _to_json(value) if isinstance(value, dict) else str(value)


FILTERS: dict[str, Callable[..., str]] = {
    "indent": _indent,
    "join": _join,
    "duration": lambda seconds: show_duration(float(seconds)),
    "json": _to_json,
    "replace": _replace,
    "shell_quote": _shell,
    "counted": lambda count, noun: show_count(int(count), noun),
    "size": lambda count: show_size(int(count)),
}


_KINDS: dict[type, str] = {
    str: "a text",
    bool: "a truth value",
    int: "a number",
    float: "a number",
    list: "a list",
    type(None): "null",
}


class _Missing(jinja2.StrictUndefined):
    """What is not there: says what is, in a mapping."""

    @property
    def _undefined_message(self) -> str:
        held = self._undefined_obj
        if self._undefined_hint or held is missing:
            return super()._undefined_message
        if not isinstance(held, Mapping):
            wanted = f"{'element ' if isinstance(self._undefined_name, int) else ''}{self._undefined_name!r}"
            return f"there is no {wanted} in {_KINDS.get(type(held), 'what is no mapping')}"
        return f"there is no {self._undefined_name!r} in what has {show_some([*map(str, held)], 12) or 'nothing'}"


def _environment(kind: type[_Kind], **options: Any) -> _Kind:  # Any: whatever options jinja2 has
    environment = kind(undefined=_Missing, keep_trailing_newline=True, **options)
    environment.globals = {name: environment.globals[name] for name in ("range", "dict", "namespace")}
    known = {name: _bounded(item) for name, item in environment.filters.items() if name not in _LEFT_OUT}
    environment.filters = known | FILTERS
    return environment


def _load_file(name: str) -> tuple[str, str, Callable[[], bool]]:
    try:
        return paths.template(name), name, lambda: True
    except FileNotFoundError:
        raise jinja2.TemplateNotFound(name) from None


_TEXTS = _environment(_Sandbox, finalize=_shown)
_TEXTS.policies["json.dumps_function"] = _dumped  # what `tojson` calls


@cache
def _files(html: bool) -> jinja2.Environment:  # ours, which no sandbox need hold
    loader = jinja2.FunctionLoader(_load_file)
    return _environment(jinja2.Environment, loader=loader, autoescape=html, trim_blocks=True, lstrip_blocks=True)


class _Source:
    """A text that was read: what it asks for, and its program, which is made when it is first filled in."""

    def __init__(self, text: str, tree: nodes.Template, value: nodes.Expr | None) -> None:
        self.text = text
        self.native = value is not None
        self.names = _names(tree)
        self._body = tree if value is None else _assignment(value)

    @cached_property
    def code(self) -> jinja2.Template:
        """The program."""
        return jinja2.Template.from_code(_TEXTS, _TEXTS.compile(self._body), dict(_TEXTS.globals))


class Template:
    """A text of a playbook, ready to be filled in."""

    def __init__(self, source: _Source, at: Position | None) -> None:
        self.text = source.text
        self._source = source
        self._at = at

    def names(self) -> frozenset[str]:
        """Return the variables that the text asks for."""
        return self._source.names

    def render(self, values: Mapping[str, Json]) -> Json:
        """Fill in values; a text that is a single expression gives that value itself, any other gives text.

        Raises:
            Invalid: a variable or attribute is not there, an operation is not possible, or the result is too large.
        """
        with _Guard(self._at, self.text):
            code = self._source.code
            if not self._source.native:
                return _limited(code.generate(**dict(values)))
            context = code.new_context(dict(values))
            for _ in code.root_render_func(context):
                pass
            return _plain(context.vars["value"], [2 * MAX_TEXT])


def template(text: str, *, at: Position | None = None) -> Template:
    """Read a text with `{{ … }}` in it; Invalid, with the line, where it does what texts may not do."""
    with _Guard(at):
        return Template(_text(text), at)


@lru_cache(512)
def _text(text: str) -> _Source:
    tree = _parsed(text)
    for statement in tree.find_all(nodes.Stmt):
        if not isinstance(statement, _STATEMENTS):
            words = f"Encountered unknown tag '{type(statement).__name__.lower().replace('assign', 'set')}'."
            raise jinja2.TemplateSyntaxError(words, statement.lineno)
    return _Source(text, tree, _single(tree))


def expression(text: str, *, at: Position | None = None) -> Template:
    """Read an expression as it stands in `when:`, without braces; Invalid, with the line, where it is not one."""
    with _Guard(at):
        return Template(_expression(text), at)


@lru_cache(512)
def _expression(text: str) -> _Source:
    if not text.strip() or "{{" in text or "{%" in text:
        raise jinja2.TemplateSyntaxError(_NONE, 1)
    try:
        tree = _parsed("{{ (" + text + "\n) }}")
    except jinja2.TemplateSyntaxError as error:
        if error.lineno > (last := text.count("\n") + 1):  # what stands there is ours
            raise jinja2.TemplateSyntaxError(_TOO_EARLY, last) from None
        raise
    value = _single(tree)
    if value is None:
        raise jinja2.TemplateSyntaxError(_NONE, 1)
    return _Source(text, tree, value)


def holds(text: str, values: Mapping[str, Json], *, at: Position | None = None) -> bool:
    """Return whether a condition holds; lists and mappings hold when they are not empty.

    Raises:
        Invalid: it is not an expression, asks for what is not there, or gives text, which could mean anything.
    """
    value = expression(text, at=at).render(values)
    if isinstance(value, str):
        raise Invalid("this condition gives text, not true or false", at=at, hint="compare it: NAME == 'text'")
    return bool(value)


def from_file(name: str, values: Mapping[str, object], *, html: bool = False) -> str:
    """Fill in one of the files in `templates/`, such as `report.html.j2`; `html` escapes what is filled in."""
    with _Guard(None):  # it is ours: only what is filled in makes it long
        return _files(html).get_template(name).render(**values)


def _parsed(text: str) -> nodes.Template:
    if len(text) > MAX_SOURCE:
        raise SecurityError(f"more than {MAX_SOURCE} characters")
    return _TEXTS.parse(text)


def _names(tree: nodes.Template) -> frozenset[str]:
    """Return the variables that a text asks for: nothing in one gives a name to anything."""
    for one in tree.find_all((nodes.Filter, nodes.Test)):
        kind, known = ("filter", _TEXTS.filters) if isinstance(one, nodes.Filter) else ("test", _TEXTS.tests)
        if one.name not in known:
            raise jinja2.TemplateAssertionError(f"No {kind} named {one.name!r}.", one.lineno)
    names = {one.name for one in tree.find_all(nodes.Name)}
    return frozenset(names - _TEXTS.globals.keys())


def _single(tree: nodes.Template) -> nodes.Expr | None:
    """Return the expression of a text that is nothing else."""
    if len(tree.body) != 1 or not isinstance(tree.body[0], nodes.Output):
        return None
    parts = tree.body[0].nodes
    return parts[0] if len(parts) == 1 and not isinstance(parts[0], nodes.TemplateData) else None


def _assignment(value: nodes.Expr) -> nodes.Template:
    # Prints nothing and keeps the value.
    body = nodes.Template([nodes.Assign(nodes.Name("value", "store", lineno=1), value, lineno=1)], lineno=1)
    body.set_environment(_TEXTS)
    return body


def _limited(pieces: Iterator[str]) -> str:
    whole, size = [], 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_TEXT:
            raise SecurityError(f"the result is longer than {MAX_TEXT} characters")
        whole.append(piece)
    return "".join(whole)


def _plain(value: object, left: list[int], depth: int = 0) -> Json:
    # `left`: how many values, and characters in them, there may still be.
    left[0] -= 1 + (len(value) if isinstance(value, str) else 0)
    if left[0] < 0:
        raise SecurityError("the result is too large")
    if isinstance(value, jinja2.Undefined):
        str(value)  # a strict one raises its own words
    if depth > _DEEPEST:
        raise SecurityError("the result is nested too deep")
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise SecurityError(f"the result is longer than {MAX_TEXT} characters")
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item, left, depth + 1) for key, item in value.items()}
    if isinstance(value, Sequence | Iterator | set):
        return [_plain(item, left, depth + 1) for item in value]
    raise SecurityError("the result is not data")


class _Guard:
    """Turns whatever Jinja2 and Python complain about into `Invalid`, without repeating values."""

    def __init__(self, at: Position | None, text: str = "") -> None:
        self._at = at
        self._text = text  # told where no place is

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None and isinstance(error.__cause__, Stopped):  # Jinja2 makes a mistake in the text of it
            raise error.__cause__
        if isinstance(error, Exception) and not isinstance(error, Invalid | Stopped):
            self._translate(error)

    def _translate(self, error: Exception) -> NoReturn:
        if isinstance(error, jinja2.TemplateNotFound):
            raise Invalid(
                f"there is no template {error.name}", hint="it ships with maint: install maint anew"
            ) from None
        if isinstance(error, jinja2.TemplateSyntaxError):
            place = f"line {error.lineno} of {error.name or 'the text'}: " if error.name or error.lineno > 1 else ""
            words, hint = _mistake(error.message or "")
            raise Invalid(place + words, at=self._at, hint=hint) from None
        told = "" if self._at or not self._text or len(self._text) > _TOLD else f"`{' '.join(self._text.split())}`: "
        raise Invalid(_place_in_file(error.__traceback__) + told + _words(error), at=self._at) from None


_TOO_EARLY = "the expression ends too early, or a bracket closes nothing"
_NONE = "an expression stands here, without {{ }}"
_COMPARED = "compare values: NAME == 'text', NAME > 3; join them by and, or, not"
# What other languages write, and what is written here; single characters where Jinja2 reads them one by one.
_INSTEAD = {
    "=": "==",
    "&": "and",
    "!": "not, or !=",
    ">": "!=",
    "AND": "and",
    "OR": "or",
    "NOT": "not",
    "$": "the name alone",
}
_TOKENS = {"integer": "a number", "float": "a number", "string": "a text in quotes"}
_GOT = re.compile(r"(?:got|unexpected|unexpected char) (['\"])(?P<what>.+?)\1(?: at \d+|, expected .*)?\.?$")
_TAG = re.compile(r"(?:unknown tag '|Missing end of )(?!comment)(\w+)")
_UNKNOWN = re.compile(r"No (filter|test) named '(\w+)'")


def _mistake(said: str) -> tuple[str, str | None]:
    """Return what is wrong with a text that Jinja2 cannot read, in an operator's words, and what to write instead."""
    if found := _TAG.search(said):
        return f"{{% {found[1]} %}} has no place here", "a text takes {{ NAME }} and {% if CONDITION %}…{% endif %}"
    if found := _UNKNOWN.search(said):
        known: Iterable[str] = _TEXTS.filters if found[1] == "filter" else _TEXTS.tests
        return f"there is no {found[1]} {found[2]!r}", meant(found[2], known, "maint help playbooks shows some")
    if "looking for the following tags" in said:
        return "{% if %} is not closed", "write {% endif %} where it ends"
    if said.startswith("Missing end of comment"):
        return "a comment that begins with {# is not closed", "write #} where it ends"
    if said.startswith("unexpected end of template"):
        begun, ended = ("{{", "}}") if "print" in said else ("{%", "%}")
        return f"what begins with {begun} is not closed", f"write {ended} where it ends"
    found = _GOT.search(said)
    if said == _TOO_EARLY or (found and found["what"].startswith("end of")):
        return _TOO_EARLY, "write what is missing after its last word, and close each bracket once"
    if found is None:
        return said if said == _NONE else "this cannot be read as an expression", _COMPARED
    what = found["what"]
    if what in ("'", '"'):
        return f"a text that begins with {what} is not closed", f"write {what} where it ends"
    shown = _TOKENS.get(what, f"`{what}`")
    return f"{shown} has no place here", f"write {_INSTEAD[what]}" if what in _INSTEAD else _COMPARED


def _words(error: Exception) -> str:
    if isinstance(error, jinja2.UndefinedError | SecurityError):
        said = str(error.message)
        if found := re.search(r"attribute '(\w+)'.* is unsafe|not safely callable", said):
            return f"{repr(found[1]) if found[1] else 'such a function'} is not to be used here"
        return "the list is empty: it has none to take" if said.endswith("sequence was empty.") else said
    if isinstance(error, RecursionError | MemoryError | SyntaxError | OverflowError):
        return "this is too deep or too large to be worked out"
    if isinstance(error, ZeroDivisionError):
        return "cannot be worked out: it divides by zero"
    # Python's words mean nothing here, and might repeat a value.
    return "cannot be worked out: a value is of a kind, or has a content, that does not fit here"


def _place_in_file(trace: TracebackType | None) -> str:
    # Jinja2 puts its lines into the traceback: the innermost template file counts.
    place = ""
    while trace:
        name = trace.tb_frame.f_code.co_filename
        if name.endswith(".j2"):
            place = f"line {trace.tb_lineno} of {name}: "
        trace = trace.tb_next
    return place
