"""JSON schemas: of the configuration, of playbooks and their tests, and of what `-o json` prints."""

from collections.abc import Mapping, Sequence

import msgspec

from maint.cli.app import COMMANDS
from maint.cli.command import loaded
from maint.config.sample import json_schema
from maint.engine.expectations import ExpectationForm
from maint.engine.journal import RUN_STATES
from maint.engine.read_step import PlaybookForm
from maint.errors import Invalid, UsageError
from maint.model.formatting import meant
from maint.model.json import Json
from maint.model.plan import Effect, ParameterType
from maint.model.snapshot import Purpose, Trust
from maint.snapshots.records import FAILED, PASSED
from maint.steps.registry import STEPS

TEXT: Json = {"type": "string"}
TEXT_OR_NULL: Json = {"type": ["string", "null"]}
TIME: Json = {"type": "string", "format": "date-time"}
TEXTS: Json = {"type": "array", "items": TEXT}
NUMBER: Json = {"type": "number"}
FLAG: Json = {"type": "boolean"}
ANY: Json = {}
OBJECT: Json = {"type": "object"}
_FINDING: Mapping[str, Json] = {
    **dict.fromkeys(("check", "severity", "state", "observed", "expected", "remedy"), TEXT), "hosts": TEXTS,
}  # fmt: skip
_CONTACT: Mapping[str, Json] = {"name": TEXT, "reached": FLAG, "reason": TEXT_OR_NULL}
_VC: Mapping[str, Json] = {"name": TEXT, "base_url": TEXT, "user": TEXT, "jobs": NUMBER, "resources": NUMBER}
_VC_RUN: Mapping[str, Json] = {"id": NUMBER, "job": TEXT, "status": TEXT}
# This prints no object of ours: what it prints is a schema.
WITHOUT = frozenset({"generate schema"})
DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TEMPLATE: Mapping[str, Json] = {"type": "string", "pattern": r"\{\{|\{%"}


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


class Output(msgspec.Struct, frozen=True):
    """What a command prints.

    Attributes:
        shapes: each a set of keys that are there together, beside `schema`.
        version: counts up when a key goes or changes its type, which none has so far.
    """

    shapes: Sequence[Mapping[str, Json]]
    version: int = 1


def _listed(key: str, **fields: Json) -> Output:
    """Return what a command prints that lists things: objects of these fields under one key."""
    return Output([{key: a_list(an_object(fields))}])


_OBJECTS = a_list(OBJECT)
_FILES = a_list(an_object({"path": TEXT, "content": TEXT}))
_NAMED = a_list(an_object({"name": TEXT}))
_PLAN: Mapping[str, Json] = {"plan": ref("plan"), "digest": TEXT, "fingerprint": TEXT}
_DONE = an_object(
    {**dict.fromkeys(("name", "kind", "target", "outcome", "detail"), TEXT), "partly": FLAG, "value": ANY}
)
_RUN: Mapping[str, Json] = {
    "run": TEXT, "playbook": TEXT, "actions": a_list(_DONE), "report": an_object({}, md=TEXT, html=TEXT),
}  # fmt: skip
_RESTORE: Mapping[str, Json] = {
    **_PLAN, "endpoints": OBJECT, "secrets": a_list(an_object({"name": TEXT, "kind": TEXT})), "hosts": _NAMED,
    "snapshot": an_object({"id": TEXT, "taken_at": TEXT, "age_seconds": NUMBER}), "lost": an_object({"counts": OBJECT}),
    "unmapped": a_list(ANY), "left_out": a_list(ANY), "virtual_clusters": _NAMED, "uncovered": TEXTS,
}  # fmt: skip
_COMPARED: Mapping[str, Json] = {
    "before": an_object({"name": TEXT, "source": TEXT}), "after": an_object({"name": TEXT, "source": TEXT}),
    "same": FLAG, "differences": _OBJECTS, "not_comparable": a_list(ANY), "added_keys": a_list(ANY), "volatile": NUMBER,
    "virtual_clusters": _NAMED,
}  # fmt: skip
_DRILL: Mapping[str, Json] = {
    "snapshot": TEXT, "result": TEXT, "reason": TEXT, "phases": _OBJECTS, "rto_seconds": or_null(NUMBER),
}  # fmt: skip
_DRILLED = [{"drill": an_object(_DRILL)}, {"snapshot": TEXT}]
_SCHEDULED = an_object({"name": TEXT, "files": TEXTS, "when": TEXTS})
_SCHEDULE = an_object({"files": TEXTS, "when": TEXTS, "next": TEXT_OR_NULL, "playbooks": a_list(_SCHEDULED)})
_SUCCESS = or_null(ref("success"))
_STATUS: Mapping[str, Json] = {
    **dict.fromkeys(("site", "manager", "plain_port", "tls_port", "tls_chain", "tls_certificate_ends"), TEXT),
    **dict.fromkeys(("account", "api", "release", "redaction", "licence", "redaction_window"), TEXT),
    **dict.fromkeys(("clusters", "active_commands"), TEXTS),
}
_FILLED: Mapping[str, Json] = {"snapshot": TEXT, "filled": NUMBER, "left": TEXTS}
_VERIFIED = ref("verification")
_DONE_ALREADY: Mapping[str, Json] = {"run": TEXT, "playbook": TEXT, "actions": a_list(_DONE), "done_already": FLAG}
_RUNS_OR_PLANS = Output([_PLAN, _RUN, _DONE_ALREADY])
_RESTORES = Output([_RESTORE, _PLAN, _RUN, _DONE_ALREADY])

# What is not named here is a front of a playbook: it prints a plan, or what became of a run.
OUTPUTS: Mapping[str, Output] = {
    **{name: _RUNS_OR_PLANS for name in COMMANDS if name not in WITHOUT},
    "doctor": Output([{"checks": a_list(ref("check"))}]),
    "help": Output([{"topics": TEXTS}, {"topic": TEXT, "text": TEXT}]),
    "version": Output([{"version": TEXT}]),
    "lab demo": Output([{"report": OBJECT}, {}]),
    "lab up": Output([{"config": TEXT}, {"folder": TEXT}]),
    "lab down": Output([{"was_up": FLAG}, {"folder": TEXT}]),
    "lab status": Output([{"running": FLAG, "config": TEXT_OR_NULL}]),
    "lab break": Output([{"faults": _OBJECTS}, {"cleared": NUMBER}, {"target": TEXT, "fault": TEXT}]),
    "site list": _listed("sites", name=TEXT, manager=TEXT, store=TEXT),
    "site status": Output([_STATUS, {**_STATUS, "lease": TEXT}]),
    "cluster list": _listed("clusters", name=TEXT, display_name=TEXT, type=TEXT, version=TEXT, states=TEXTS),
    "service list": _listed(
        "services", name=TEXT, cluster=TEXT_OR_NULL, type=TEXT, state=TEXT_OR_NULL, staleness=TEXT_OR_NULL
    ),
    "setting list": _listed("settings", name=TEXT, value=TEXT_OR_NULL, set=FLAG, default=TEXT_OR_NULL, secret=FLAG),
    "manager version": Output([{"api": TEXT, "release": TEXT}]),
    "manager restore": _RESTORES,
    "playbook list": _listed("playbooks", name=TEXT, summary=TEXT),
    "playbook show": Output([{"name": TEXT, "summary": TEXT, "parameters": _OBJECTS, "text": TEXT}]),
    "playbook lint": Output([{"checked": TEXTS, "mistakes": a_list(ANY)}]),
    "playbook new": Output([{"path": TEXT, "schema_file": TEXT}, {"path": TEXT, "content": TEXT}]),
    "playbook dismiss": Output([{"run": TEXT}]),
    "playbook diff": Output([{"differences": _OBJECTS}]),
    "playbook history": Output(
        [{"runs": a_list(ref("run"))}, {"forgotten": TEXTS, "would_forget": TEXTS, "kept": OBJECT}]
    ),
    "playbook report": Output([{"report": OBJECT}, {"report": OBJECT, "files": OBJECT}]),
    "playbook resume": Output([_RUN, {"run": TEXT, "playbook": TEXT, "left": _OBJECTS}]),
    "playbook approve": Output([{"approval": OBJECT}]),
    "backup list": Output(
        [{"snapshots": a_list(ref("snapshot")), "last_verified": _SUCCESS, "last_drill": or_null(ref("drill"))}]
    ),
    "backup show": Output([{"snapshot": ref("snapshot")}]),
    "backup verify": Output(
        [
            {"verification": _VERIFIED},
            {"verifications": a_list(_VERIFIED)},
            {"snapshot": TEXT, "level": NUMBER},
            {"snapshots": TEXTS, "level": NUMBER},
            *_DRILLED,  # --level 4
        ]
    ),
    "backup prune": Output([{"snapshots": a_list(ref("fate")), **_PLAN}, _RUN, _DONE_ALREADY]),
    **dict.fromkeys(("backup diff", "backup drift"), Output([_COMPARED])),
    "backup heal": Output(
        [
            _FILLED,
            {**_FILLED, "healed_from": OBJECT, "restorable": FLAG, "verification": _VERIFIED},
            {"snapshot": OBJECT},
        ]
    ),
    "backup drill": Output(_DRILLED),
    "backup files": Output([{"path": TEXT, "file": TEXT}, {"files": a_list(ANY)}]),
    "restore plan": Output([_RESTORE, _PLAN]),
    "restore run": _RESTORES,
    "schedule show": Output([{"schedule": _SCHEDULE, "last_verified": _SUCCESS}]),
    **dict.fromkeys(
        ("schedule install", "playbook schedule"),
        Output(
            [
                {"files": _FILES, "changed": TEXTS},
                {"written": TEXTS, "removed": TEXTS},
                {"removed": TEXTS},
                {"files": TEXTS},
            ]
        ),
    ),
    "schedule remove": Output([{"files": TEXTS}, {"removed": TEXTS}]),
    "host list": _listed("hosts", name=TEXT, address=TEXT, port=NUMBER, groups=TEXTS),
    "host check": Output(
        [{"findings": a_list(an_object(_FINDING)), "hosts": a_list(an_object(_CONTACT))}, {"checks": _OBJECTS}]
    ),
    "host trust": _listed("hosts", name=TEXT, type=TEXT_OR_NULL, fingerprint=TEXT_OR_NULL, recorded=FLAG),
    "vc job list": _listed("jobs", name=TEXT),
    "vc job describe": Output([{"job": an_object({"name": TEXT})}]),
    "vc resource list": _listed("resources", name=TEXT),
    "vc resource describe": Output([{"resource": an_object({"name": TEXT, "files": a_list(ANY)})}]),
    "vc resource download": Output([{"file": TEXT}, {"file": TEXT, "bytes": NUMBER}]),
    "vc run list": _listed("runs", **_VC_RUN),
    "vc run describe": Output([{"run": an_object(_VC_RUN)}]),
    "vc run logs": Output([{"id": NUMBER, "type": TEXT, "log": TEXT}, {"id": NUMBER, "types": a_list(ANY)}]),
    "vc status": Output([{"virtual_cluster": an_object(_VC)}]),
    "vc drift": Output([{"virtual_cluster": TEXT, "snapshot": TEXT, "differences": a_list(ANY)}]),
    "notify list": Output([{"notices": _OBJECTS}]),
    "notify test": Output([{"told": _OBJECTS}, {"would_tell": TEXTS}]),
    "config show": Output([{"values": a_list(an_object({"key": TEXT, "value": ANY}, origin=TEXT))}]),
    "config validate": Output([{"path": TEXT, "sites": TEXTS}]),
    "config path": Output([{"path": TEXT, "looked": TEXTS}]),
    "config init": Output([{"path": TEXT}]),
    "generate systemd": Output([{"files": _FILES}]),
    "generate man": Output([{"man": TEXT}, {"written": TEXTS}]),
    "generate alerts": Output([{"rules": TEXT}]),
    "site report": Output([{"folder": TEXT}, {"folder": TEXT, "pages": TEXTS}]),
    "playbook test": Output([{"tests": _OBJECTS}]),
    "backup rekey": Output([{"rekeyed": _OBJECTS}]),
    "generate airflow": Output([{"dag": TEXT}]),
    "generate constraints": Output([{"constraints": TEXT}]),
    "generate bundle": Output([{"path": TEXT, "sha256": TEXT, "packages": TEXTS}, {"path": TEXT}]),
    "generate container": Output([{"containerfile": TEXT}]),
    "generate completion": Output([{"script": TEXT}]),
}


def schema_of(what: str, command: str = "") -> dict[str, Json]:
    """Return the JSON schema of the configuration, of a playbook, its test, or a command's output; else UsageError."""
    if what == "output":
        return _output_of(command) if command else _output()
    if command or what not in ("config", "playbook", "playbook-test"):
        words = f"{what} {command}".strip()
        hint = "there is one of config, playbook, playbook-test, output, and output COMMAND"
        raise UsageError(f"there is no schema of {words!r}", hint=hint)
    if what == "config":
        return {"$schema": DRAFT, **json_schema()}
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
    answers: dict[str, list[Json]] = {"error": [ref("error")]}
    for key, shape in (pair for output in OUTPUTS.values() for one in output.shapes for pair in one.items()):
        if shape not in answers.setdefault(key, []):
            answers[key].append(shape)
    answers["sites"].append(a_list({"anyOf": [ref("site"), ref("outcome")]}))
    return {
        "$schema": DRAFT,
        "title": "What maint prints with -o json; every object may gain keys",
        "type": "object",
        "properties": {"schema": {"const": "maint/1"}, **{key: {"anyOf": shapes} for key, shapes in answers.items()}},
        "required": ["schema"],
        "$defs": _definitions(),
    }


def _definitions() -> dict[str, Json]:
    verified = an_object({"level": NUMBER, "depth": or_null(NUMBER), "at": TIME, "result": {"enum": [*Trust]}})
    part = an_object({"name": TEXT, "bytes": NUMBER, "sha256": TEXT}, restorable=FLAG)
    hold = an_object({"reason": TEXT, "at": TIME, "by": TEXT, "until": or_null(TIME)})
    finding = an_object({"rule": TEXT, "passed": {"type": ["boolean", "null"]}, "words": TEXT})
    action = an_object(
        {"name": TEXT, "kind": TEXT, "target": TEXT, "effect": {"enum": [one.name for one in Effect]}},
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
            purpose={"enum": [*Purpose]},
            verified=or_null(verified),
            proven=or_null(an_object({"level": NUMBER, "at": TIME})),
            holds=a_list(hold),
            problem=TEXT,
        ),
        "fate": an_object({"id": TEXT, "keep": FLAG, "reasons": TEXTS}),
        **_of_sites(),
        "success": an_object({"id": TEXT, "taken_at": TIME, "age": NUMBER}),
        "drill": an_object(
            {"snapshot": TEXT, "at": TIME, "age": NUMBER, "result": {"enum": [PASSED, FAILED]}},
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
            {"id": TEXT, "playbook": TEXT, "state": {"enum": [*RUN_STATES]}, "started": TEXT, "finished": TEXT_OR_NULL},
            by=TEXT,
            version=TEXT,
            effect=TEXT,
            detail=TEXT,
            attempts=a_list(an_object({"began": TEXT, "by": TEXT, "ended": TEXT_OR_NULL, "state": TEXT_OR_NULL})),
        ),
        "plan": an_object({"source": TEXT, "site": TEXT, "actions": a_list(action)}, parameters={"type": "object"}),
        "check": an_object(
            {"label": TEXT, "state": {"enum": ["ok", "warn", "skip", "FAIL"]}, "words": TEXT, "hint": TEXT_OR_NULL}
        ),
    }


def _of_sites() -> dict[str, Json]:
    """Return the schema for several sites: each as it is listed, and how a command ended for it."""
    return {
        "site": an_object(
            {"name": TEXT, "manager": TEXT, "store": TEXT},
            labels={"type": "object"},
            summary=or_null(an_object({"seen": TIME, "age": NUMBER, "snapshots": NUMBER})),
            error=or_null(ref("error")),
        ),
        "outcome": an_object(
            {"site": TEXT, "exit": {"type": "integer"}, "error": or_null(ref("error")), "result": {}}, seconds=NUMBER
        ),
    }


def playbook_schema() -> dict[str, Json]:
    """Return the schema: every key, every step kind with its arguments; a text with `{{` may stand for any value."""
    whole = PlaybookForm.model_json_schema(by_alias=True)
    step = whole["$defs"]["StepForm"]
    step["properties"]["do"] = {"enum": sorted(STEPS), "description": "the step kind"}
    step["oneOf"] = [{"required": ["do"]}, {"required": ["playbook"]}]
    step["allOf"] = [_rule(kind) for kind in sorted(STEPS) if _usable(kind)]
    whole["$defs"]["ParameterForm"]["properties"]["type"] = {"enum": [str(one) for one in ParameterType]}
    return {
        "$schema": DRAFT,
        **whole,
        "title": "A playbook of maint",
        "description": "`maint help playbooks` tells what its keys mean, `maint help steps` what its steps do",
    }


def playbook_test_schema() -> dict[str, Json]:
    """Return the schema of a test of a playbook."""
    return {
        "$schema": DRAFT,
        **ExpectationForm.model_json_schema(by_alias=True),
        "title": "A test of a playbook of maint",
        "description": "`maint help playbooks` tells what its keys mean",
    }


def _usable(kind: str) -> bool:
    try:
        return kind in STEPS.own or STEPS[kind] is not None
    except Invalid:  # a package of somebody else is broken: a playbook that names its step is told so
        return False


def _rule(kind: str) -> Json:
    return {
        "if": {"properties": {"do": {"const": kind}}, "required": ["do"]},
        "then": {"properties": {"with": _arguments(kind)}, "description": STEPS[kind].help},
    }


def _arguments(kind: str) -> Json:
    found = STEPS[kind].arguments.model_json_schema(by_alias=True)
    properties: dict[str, Json] = {}
    for name, one in found.get("properties", {}).items():
        properties[name] = {"description": one.get("description", ""), "anyOf": [one, _TEMPLATE]}
    schema: dict[str, Json] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": found["required"]} if found.get("required") else schema
