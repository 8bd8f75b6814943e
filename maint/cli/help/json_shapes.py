"""How schemas of JSON are put together: objects that may gain keys, lists, what may be null."""

from collections.abc import Mapping

from maint.model.json import Json

TEXT: Json = {"type": "string"}
TEXT_OR_NULL: Json = {"type": ["string", "null"]}
TIME: Json = {"type": "string", "format": "date-time"}
TEXTS: Json = {"type": "array", "items": TEXT}
NUMBER: Json = {"type": "number"}
FLAG: Json = {"type": "boolean"}
ANY: Json = {}
OBJECT: Json = {"type": "object"}


def an_object(required: Mapping[str, Json], **optional: Json) -> Json:
    """Return the schema of an object that may gain keys later."""
    return {"type": "object", "properties": {**required, **optional}, "required": list(required)}


def a_list(item: Json) -> Json:
    """Return the schema of a list."""
    return {"type": "array", "items": item}


def or_null(schema: Json) -> Json:
    """Return the schema of what may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


def ref(name: str) -> Json:
    """Return the schema that `$defs` holds under a name."""
    return {"$ref": f"#/$defs/{name}"}
