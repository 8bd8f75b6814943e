"""Values of parameters: in their types, from a YAML file or a command line; which ones texts ask for; filled in."""

import re
from collections.abc import Callable, Mapping, Sequence

from maint.errors import Invalid, Position
from maint.model.formatting import duration_of
from maint.model.json import Json
from maint.model.plan import ParameterType
from maint.steps.step import in_a_template

_SHORT = 1000  # characters of a text that may be filled in, however many come of it
# Not names of values: a template takes them for a constant, an operator, or itself.
RESERVED = ("true", "false", "none", "not", "self")
# What is a constant, an operator or a function of Jinja2 is no variable, and is left to it.
_NAME = r"(?!(?:true|false|none|not|range|dict|namespace)\b)([a-z_][a-z0-9_]*)(?:\.[a-z_][a-z0-9_]*)*"
_FILLED_IN = r"\{\{ *" + _NAME + r" *\}\}"


def convert(kind: ParameterType, value: object, at: Position | None = None) -> Json:
    """Return a parameter's value in its type, or Invalid; texts come from `--set`, typed values from YAML."""
    readers: dict[ParameterType, Callable[[object], Json]] = {
        ParameterType.STRING: _string,
        ParameterType.INTEGER: _integer,
        ParameterType.BOOLEAN: _boolean,
        ParameterType.DURATION: duration_of,
        ParameterType.LIST: _list,
    }
    if value is None:
        return None
    try:
        return readers[kind](value)
    except (ValueError, TypeError) as error:
        raise Invalid(
            f"{value!r} is not of type {kind.value}: {error}",
            at=at,
            hint="`maint playbook show NAME` lists the parameters with their types",
        ) from None


def render(value: Json, scope: Mapping[str, Json], at: Position | None = None) -> Json:
    """Fill the templates in a value, however deep they lie."""
    if isinstance(value, str):
        if not in_a_template(value):
            return value
        from maint.render import template  # a playbook that is only checked is not filled in

        try:
            return template(value).render(scope)
        except Invalid as error:
            raise Invalid(error.message, at=at, detail=error.detail, hint=error.hint) from error
    if isinstance(value, Mapping):
        return {key: render(inner, scope, at) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [render(inner, scope, at) for inner in value]
    return value


def in_text(text: str, *, at: Position | None = None) -> frozenset[str]:
    """Return the variables that a text with `{{ … }}` asks for; Invalid where it does what texts may not do."""
    if len(text) < _SHORT and "{" not in re.sub(_FILLED_IN, "", text):
        return frozenset(re.findall(_FILLED_IN, text))
    from maint.render import template  # which takes a tenth of the time of a lint

    return template(text, at=at).names()


def refuse_reserved(name: str, at: Position) -> None:
    """Raise Invalid where a value has a name under which no template could ask for it."""
    if name in RESERVED:
        raise Invalid(
            f"{name!r} cannot be the name of a value", at=at, hint="in a template that word means something else"
        )


def alone(text: object) -> str | None:
    """Return the variable whose value a text stands for, as `{{ NAME }}` does; None where there is more to it."""
    found = re.fullmatch(_FILLED_IN, text) if isinstance(text, str) and "." not in text else None
    return found[1] if found else None


def in_condition(text: str, *, at: Position | None = None) -> frozenset[str]:
    """Return the variables that an expression as in `when:` asks for; Invalid where it is not one."""
    if found := re.fullmatch(f"(?:not )?{_NAME}", text):
        return frozenset(found.groups())
    from maint.render import expression  # as above

    return expression(text, at=at).names()


def _string(value: object) -> Json:
    if not isinstance(value, str):
        raise TypeError("write it in quotes")
    return value


def _integer(value: object) -> Json:
    if isinstance(value, bool):
        raise TypeError("it is true or false")
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", str(value)):
        raise ValueError("write a whole number")
    return int(str(value))


def _boolean(value: object) -> Json:
    words = {"true": True, "false": False, "yes": True, "no": False}
    if isinstance(value, bool):
        return value
    if str(value).lower() not in words:
        raise ValueError("write true or false")
    return words[str(value).lower()]


def _list(value: object) -> Json:
    if isinstance(value, str):
        return [item.strip() for item in value.split(",") if item.strip()]
    if not isinstance(value, list):
        raise TypeError("write a list, or a text with commas")
    return value
