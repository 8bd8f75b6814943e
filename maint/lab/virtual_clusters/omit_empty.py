"""Output leaves out empty texts, empty lists and false (contract on the jobs API, section 3.2)."""

from collections.abc import Mapping
from typing import Any

from maint.lab.manager.document import Doc

# Printed although it is false.
_PRINTED = {"enabled"}


def shown(value: Mapping[str, Any]) -> Doc:  # Any: what JSON can spell
    """Return an object without what is empty, objects within objects too."""
    inner = {name: _inner(member) for name, member in value.items()}
    return {name: member for name, member in inner.items() if name in _PRINTED or not _empty(member)}


def _empty(value: Any) -> bool:  # Any: what JSON can spell
    return value is None or value is False or value in ("", [], {})


def _inner(value: Any) -> Any:  # Any: what JSON can spell
    if isinstance(value, Mapping):
        return shown(value)
    if isinstance(value, list):
        return [_inner(member) for member in value]
    return value
