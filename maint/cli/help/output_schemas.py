"""JSON schemas: of the configuration, and of what `-o json` prints."""

from maint.cli.app import COMMANDS
from maint.cli.command import loaded
from maint.cli.help.command_outputs import (
    FLAG,
    NUMBER,
    OUTPUTS,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    TIME,
    a_list,
    an_object,
    or_null,
    ref,
)
from maint.config.schema import Config
from maint.config.suggestions import meant
from maint.engine.journal import RUN_STATES
from maint.engine.schema import DRAFT, playbook_schema, playbook_test_schema
from maint.errors import UsageError
from maint.model.json import Json


def schema_of(what: str, command: str = "") -> dict[str, Json]:
    """Return the JSON schema of the configuration, of a playbook, its test, or a command's output; else UsageError."""
    if what == "output":
        return _output_of(command) if command else _output()
    if command or what not in ("config", "playbook", "playbook-test"):
        words = f"{what} {command}".strip()
        hint = "there is one of config, playbook, playbook-test, output, and output COMMAND"
        raise UsageError(f"there is no schema of {words!r}", hint=hint)
    if what == "config":
        return {"$schema": DRAFT, **Config.model_json_schema()}
    return playbook_schema() if what == "playbook" else playbook_test_schema()


def _output_of(command: str) -> dict[str, Json]:
    """Return the schema of what one command prints; its failures are an `error` on standard error."""
    if command not in OUTPUTS:
        hint = meant(command, list(OUTPUTS), "`maint help commands` lists the commands")
        raise UsageError(f"there is no schema of what {command!r} prints", hint=hint)
    output = OUTPUTS[command]
    several = [{"sites": a_list(ref("outcome"))}] if loaded(COMMANDS[command][0]).several else []
    return {
        "$schema": DRAFT,
        "$id": f"urn:maint:output:{command.replace(' ', '-')}:{output.version}",
        "title": f"What `maint {command} -o json` prints, version {output.version}; every object may gain keys",
        "anyOf": [an_object({"schema": {"const": "maint/1"}, **shape}) for shape in (*output.shapes, *several)],
        "$defs": _definitions(),
    }


def _output() -> dict[str, Json]:
    """Return the schema of all outputs: the command decides which keys stand beside `schema`."""
    answers: dict[str, Json] = {
        "error": ref("error"),
        "snapshots": a_list({"anyOf": [ref("snapshot"), ref("fate")]}),
        "last_verified": or_null(ref("success")),
        "last_drill": or_null(ref("drill")),
        "drill": {"type": "object"},
        "snapshot": ref("snapshot"),
        "verification": ref("verification"),
        "runs": a_list(ref("run")),
        "plan": ref("plan"),
        "digest": TEXT,
        "fingerprint": TEXT,
        "checks": a_list(ref("check")),
        "playbooks": a_list(an_object({"name": TEXT, "summary": TEXT})),
        "sites": a_list({"anyOf": [TEXT, ref("site"), ref("outcome")]}),
        "files": {},
        "schedule": an_object({"files": TEXTS, "when": TEXTS, "next": TEXT_OR_NULL}),
        "folder": TEXT,
        "pages": TEXTS,
        "version": TEXT,
        "topics": TEXTS,
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
    verified = an_object({"level": NUMBER, "at": TIME, "result": {"enum": ["verified", "failed", "not verified"]}})
    part = an_object({"name": TEXT, "bytes": NUMBER, "sha256": TEXT}, restorable=FLAG)
    hold = an_object({"reason": TEXT, "at": TIME, "by": TEXT, "until": or_null(TIME)})
    finding = an_object({"rule": TEXT, "passed": {"type": ["boolean", "null"]}, "words": TEXT})
    action = an_object(
        {"name": TEXT, "kind": TEXT, "target": TEXT, "effect": {"enum": ["READ", "CHANGE", "DESTROY"]}},
        summary=TEXT,
        arguments={"type": "object"},
        undo=TEXT_OR_NULL,
        confirm=TEXT_OR_NULL,
    )
    return {
        "error": an_object({"message": TEXT, "detail": TEXTS, "hint": TEXT_OR_NULL, "exit": {"type": "integer"}}),
        "snapshot": an_object(
            {"id": TEXT, "restorable": FLAG, "parts": a_list(part)},
            site=TEXT,
            taken_at=TIME,
            purpose={"enum": ["backup", "safety"]},
            verified=or_null(verified),
            proven=or_null(an_object({"level": NUMBER, "at": TIME})),
            holds=a_list(hold),
            problem=TEXT,
        ),
        "fate": an_object({"id": TEXT, "keep": FLAG, "reasons": TEXTS}),
        **_of_sites(),
        "success": an_object({"id": TEXT, "taken_at": TIME, "age": NUMBER}),
        "drill": an_object(
            {"snapshot": TEXT, "at": TIME, "age": NUMBER, "result": {"enum": ["passed", "failed"]}},
            reason=TEXT,
            rto_seconds=or_null(NUMBER),
        ),
        "verification": an_object(
            {"snapshot": TEXT, "level": NUMBER, "depth": NUMBER, "result": TEXT, "parts_checked": NUMBER},
            parts=NUMBER,
            at=TIME,
            findings=a_list(finding),
        ),
        "run": an_object(
            {
                "id": TEXT,
                "playbook": TEXT,
                "state": {"enum": [*RUN_STATES]},
                "started": TEXT,
                "finished": TEXT_OR_NULL,
            },
            by=TEXT,
            version=TEXT,
            effect=TEXT,
            detail=TEXT,
            attempts=a_list(an_object({"began": TEXT, "by": TEXT, "ended": TEXT_OR_NULL, "state": TEXT_OR_NULL})),
        ),
        "plan": an_object({"source": TEXT, "site": TEXT, "actions": a_list(action)}, parameters={"type": "object"}),
        "check": an_object(
            {"label": TEXT, "state": {"enum": ["ok", "warn", "FAIL"]}, "words": TEXT, "hint": TEXT_OR_NULL}
        ),
    }


def _of_sites() -> dict[str, Json]:
    """Return what is told of several sites: each as it is listed, and how a command ended for it."""
    return {
        "site": an_object(
            {"name": TEXT, "manager": TEXT, "store": TEXT},
            labels={"type": "object"},
            summary=or_null(an_object({"seen": TIME, "age": NUMBER, "snapshots": NUMBER})),
        ),
        "outcome": an_object(
            {"site": TEXT, "exit": {"type": "integer"}, "error": or_null(ref("error")), "result": {}},
            seconds=NUMBER,
        ),
    }
