"""Which variables the texts and conditions of a playbook ask for: most are but a name, which needs no Jinja2."""

import re

from maint.errors import Position

_SHORT = 1000  # characters of a text that may be filled in, however many come of it
# What is a constant, an operator or a function of Jinja2 is no variable, and is left to it.
_NAME = r"(?!(?:true|false|none|not|range|dict|namespace)\b)([a-z_][a-z0-9_]*)(?:\.[a-z_][a-z0-9_]*)*"
_FILLED_IN = r"\{\{ *" + _NAME + r" *\}\}"


def in_text(text: str, *, at: Position | None = None) -> frozenset[str]:
    """Return the variables that a text with `{{ … }}` asks for; Invalid where it does what texts may not do."""
    if len(text) < _SHORT and "{" not in re.sub(_FILLED_IN, "", text):
        return frozenset(re.findall(_FILLED_IN, text))
    from maint.render import template  # which takes a tenth of the time of a lint

    return template(text, at=at).names()


def alone(text: object) -> str | None:
    """Return the variable whose value a text stands for, as `{{ NAME }}` does; None where there is more to it."""
    found = re.fullmatch(_FILLED_IN, text) if isinstance(text, str) and "." not in text else None
    return found[1] if found else None


def in_condition(text: str, *, at: Position | None = None) -> frozenset[str]:
    """Return the variables that an expression as in `when:` asks for; Invalid where it is none."""
    if found := re.fullmatch(f"(?:not )?{_NAME}", text):
        return frozenset(found.groups())
    from maint.render import expression  # as above

    return expression(text, at=at).names()
