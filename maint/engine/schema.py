"""The JSON schema of a playbook, made from its forms and from the arguments of the step kinds, for editors."""

from collections.abc import Mapping

from maint.engine.expectations import ExpectationForm
from maint.engine.forms import PlaybookForm
from maint.errors import Invalid
from maint.model.json import Json
from maint.model.plan import ParameterType
from maint.steps.registry import STEPS

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TEMPLATE: Mapping[str, Json] = {"type": "string", "pattern": r"\{\{|\{%"}


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
