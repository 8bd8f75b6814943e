"""Which plan the operator has seen: a digest, or a file that `-o json` wrote."""

import json
from collections.abc import Mapping
from pathlib import Path

from maint.errors import Invalid, Refused
from maint.model.json import Json
from maint.model.plan import Plan

_SHORTEST = 8  # characters of a digest that still tell plans apart


def expected_digest(text: str) -> str | None:
    """Return the digest that `--plan FILE|DIGEST` names, None where it was not given.

    Raises:
        Invalid: it is neither.
    """
    if not text:
        return None
    path = Path(text)
    if path.is_file():
        try:
            return str(json.loads(path.read_text())["digest"])
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise Invalid(f"{path} is no saved plan", hint="`maint restore plan -o json > FILE` writes one") from error
    if len(text) >= _SHORTEST and all(character in "0123456789abcdef" for character in text):
        return text
    raise Invalid(f"{text!r} is neither a file nor the digest of a plan", hint="`maint restore plan` shows the digest")


def planned_for(text: str) -> Mapping[str, Json]:
    """Return the parameters of the saved plan that `--plan FILE` names; empty where it names no file.

    Raises:
        Invalid: it is no saved plan.
    """
    path = Path(text)
    if not text or not path.is_file():
        return {}
    try:
        return Plan.from_json(json.loads(path.read_text())["plan"]).parameters
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise Invalid(f"{path} is no saved plan", hint="`maint restore plan -o json > FILE` writes one") from error


def refuse_stale(plan: Plan, expected: str | None) -> None:
    """Refuse a plan that is not the one the operator has seen.

    Raises:
        Refused: server, snapshot or playbook changed since.
    """
    if expected is not None and not plan.digest.startswith(expected):
        raise Refused(
            "the plan is stale: server, snapshot or playbook changed since it was made",
            detail=[f"it had {expected[:12]}, now it would be {plan.digest[:12]}"],
            hint="make the plan again, read it, and run that one",
        )
