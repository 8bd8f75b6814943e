"""JSON schemas: of the configuration, and of what `-o json` prints."""

from collections.abc import Mapping

from maint.config.schema import Config
from maint.engine.journal import RUN_STATES
from maint.engine.schema import DRAFT, playbook_schema, playbook_test_schema
from maint.errors import UsageError
from maint.model.json import Json

_TEXT: Json = {"type": "string"}
_TEXT_OR_NULL: Json = {"type": ["string", "null"]}
_TIME: Json = {"type": "string", "format": "date-time"}
_TEXTS: Json = {"type": "array", "items": _TEXT}
_NUMBER: Json = {"type": "number"}
_FLAG: Json = {"type": "boolean"}


def schema_of(what: str) -> dict[str, Json]:
    """Return a JSON schema.

    Args:
        what: `config`, `playbook`, `playbook-test`, or `output`.

    Raises:
        UsageError: none of them.
    """
    if what == "config":
        return {"$schema": DRAFT, **Config.model_json_schema()}
    if what == "playbook":
        return playbook_schema()
    if what == "playbook-test":
        return playbook_test_schema()
    if what == "output":
        return _output()
    raise UsageError(
        f"there is no schema of {what!r}", hint="there is one of config, playbook, playbook-test and output"
    )


def _object(required: Mapping[str, Json], **optional: Json) -> Json:
    """Return the schema of an object that may gain keys later."""
    return {"type": "object", "properties": {**required, **optional}, "required": list(required)}


def _list(item: Json) -> Json:
    return {"type": "array", "items": item}


def _or_null(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def _ref(name: str) -> Json:
    return {"$ref": f"#/$defs/{name}"}


def _output() -> dict[str, Json]:
    """Return the schema of all outputs: the command decides which keys stand beside `schema`."""
    answers: dict[str, Json] = {
        "error": _ref("error"),
        "snapshots": _list({"anyOf": [_ref("snapshot"), _ref("fate")]}),
        "last_verified": _or_null(_ref("success")),
        "last_drill": _or_null(_ref("drill")),
        "drill": {"type": "object"},
        "snapshot": _ref("snapshot"),
        "verification": _ref("verification"),
        "runs": _list(_ref("run")),
        "plan": _ref("plan"),
        "digest": _TEXT,
        "fingerprint": _TEXT,
        "checks": _list(_ref("check")),
        "playbooks": _list(_object({"name": _TEXT, "summary": _TEXT})),
        "sites": _list({"anyOf": [_TEXT, _ref("site"), _ref("outcome")]}),
        "files": {},
        "schedule": _object({"files": _TEXTS, "when": _TEXTS, "next": _TEXT_OR_NULL}),
        "version": _TEXT,
        "topics": _TEXTS,
        "folder": _TEXT,
        "pages": _TEXTS,
    }
    return {
        "$schema": DRAFT,
        "title": "What maint prints with -o json; every object may gain keys",
        "type": "object",
        "properties": {"schema": {"const": "maint/1"}, **answers},
        "required": ["schema"],
        "$defs": _definitions(),
    }


def _definitions() -> dict[str, Json]:
    verified = _object({"level": _NUMBER, "at": _TIME, "result": {"enum": ["verified", "failed", "not verified"]}})
    part = _object({"name": _TEXT, "bytes": _NUMBER, "sha256": _TEXT}, restorable=_FLAG)
    hold = _object({"reason": _TEXT, "at": _TIME, "by": _TEXT, "until": _or_null(_TIME)})
    finding = _object({"rule": _TEXT, "passed": {"type": ["boolean", "null"]}, "words": _TEXT})
    action = _object(
        {"name": _TEXT, "kind": _TEXT, "target": _TEXT, "effect": {"enum": ["READ", "CHANGE", "DESTROY"]}},
        summary=_TEXT,
        arguments={"type": "object"},
        undo=_TEXT_OR_NULL,
        confirm=_TEXT_OR_NULL,
    )
    return {
        "error": _object({"message": _TEXT, "detail": _TEXTS, "hint": _TEXT_OR_NULL, "exit": {"type": "integer"}}),
        "snapshot": _object(
            {"id": _TEXT, "restorable": _FLAG, "parts": _list(part)},
            site=_TEXT,
            taken_at=_TIME,
            purpose={"enum": ["backup", "safety"]},
            verified=_or_null(verified),
            proven=_or_null(_object({"level": _NUMBER, "at": _TIME})),
            holds=_list(hold),
            problem=_TEXT,
        ),
        "fate": _object({"id": _TEXT, "keep": _FLAG, "reasons": _TEXTS}),
        **_of_sites(),
        "success": _object({"id": _TEXT, "taken_at": _TIME, "age": _NUMBER}),
        "drill": _object(
            {"snapshot": _TEXT, "at": _TIME, "age": _NUMBER, "result": {"enum": ["passed", "failed"]}},
            reason=_TEXT,
            rto_seconds=_or_null(_NUMBER),
        ),
        "verification": _object(
            {"snapshot": _TEXT, "level": _NUMBER, "depth": _NUMBER, "result": _TEXT, "parts_checked": _NUMBER},
            parts=_NUMBER,
            at=_TIME,
            findings=_list(finding),
        ),
        "run": _object(
            {
                "id": _TEXT,
                "playbook": _TEXT,
                "state": {"enum": [*RUN_STATES]},
                "started": _TEXT,
                "finished": _TEXT_OR_NULL,
            },
            by=_TEXT,
            version=_TEXT,
            effect=_TEXT,
            detail=_TEXT,
            attempts=_list(_object({"began": _TEXT, "by": _TEXT, "ended": _TEXT_OR_NULL, "state": _TEXT_OR_NULL})),
        ),
        "plan": _object({"source": _TEXT, "site": _TEXT, "actions": _list(action)}, parameters={"type": "object"}),
        "check": _object(
            {"label": _TEXT, "state": {"enum": ["ok", "warn", "FAIL"]}, "words": _TEXT, "hint": _TEXT_OR_NULL}
        ),
    }


def _of_sites() -> dict[str, Json]:
    """Return what is told of several sites: each as it is listed, and how a command ended for it."""
    return {
        "site": _object(
            {"name": _TEXT, "manager": _TEXT, "store": _TEXT},
            labels={"type": "object"},
            summary=_or_null(_object({"seen": _TIME, "age": _NUMBER, "snapshots": _NUMBER})),
        ),
        "outcome": _object(
            {"site": _TEXT, "exit": {"type": "integer"}, "error": _or_null(_ref("error")), "result": {}},
            seconds=_NUMBER,
        ),
    }
