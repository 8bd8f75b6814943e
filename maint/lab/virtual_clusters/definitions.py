"""Read what clients send as definitions: known keys with the right types (J3.1, J4.2, J4.3, J5.1)."""

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters import schedules, times
from maint.lab.virtual_clusters.messages import ApiError

# Any: a shape is a type, a list of one shape, a mapping of shapes by key, or {"*": shape} for free keys.
Shape: TypeAlias = Any

_TEXTS = [str]
JOB: Shape = {
    "name": str,
    "type": str,
    "hidden": bool,
    "retentionPolicy": str,
    "mounts": [{"resourceName": str, "dirPrefix": str}],
    "spark": {
        **dict.fromkeys(("name", "file", "className", "driverMemory", "executorMemory", "proxyUser", "logLevel"), str),
        **dict.fromkeys(("driverCores", "executorCores", "numExecutors"), int),
        **dict.fromkeys(("args", "pyFiles", "jars", "files"), _TEXTS),
        "conf": {"*": str},
        "pythonEnvResourceName": str,
    },
    "airflow": {"dagFile": str, "config": {"*": object}, "fileMounts": [{"resourceName": str, "dirPrefix": str}]},
    "schedule": {
        **dict.fromkeys(("enabled", "catchup", "dependsOnPast", "paused"), bool),
        **dict.fromkeys(("user", "cronExpression", "start", "end"), str),
    },
    "runtimeImageResourceName": str,
    "workloadCredentials": _TEXTS,
    "alerting": {"alertAfterDuration": str, "emailOnFailure": bool, "emailOnSLAMiss": bool, "mailTo": _TEXTS},
    "dataConnectors": _TEXTS,
    "identity": {"disableRoleProxy": bool, "role": str},
    "defaultVariables": {"*": str},
}
RESOURCE: Shape = {
    "name": str,
    "type": str,
    "hidden": bool,
    "retentionPolicy": str,
    "pythonEnv": {"pythonVersion": str, "pyPiMirror": str, "type": str},
    "customRuntimeImage": {"engine": str, "image": str, "credential": str},
}
REPOSITORY: Shape = {
    "name": str,
    "git": {"repository": str, "branch": str, "credential": str},
    "skipCredentialValidation": bool,
}
RUN: Shape = {
    "variables": {"*": str},
    "overrides": {"spark": JOB["spark"], "airflow": JOB["airflow"]},
    "user": str,
    "requestID": str,
}

# Set by the server; what clients send there is passed over, whatever becomes of unknown keys.
_OWN = {"created", "modified", "lastUsed", "latestRunInfo", "nextExecution", "pausedUponCreation", "dagID", "_"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_WORDS = {str: "string", bool: "bool", int: "int", object: "value"}


def take(value: Any, shape: Shape, *, keep: bool = False, where: str = "") -> Any:  # Any: what JSON can spell
    """Return the known part of a JSON value (unknown keys too with `keep`); ApiError names the place (`where`)."""
    if isinstance(shape, list):
        if not isinstance(value, list):
            raise _mismatch(value, where, "array")
        return [take(member, shape[0], keep=keep, where=where) for member in value]
    if isinstance(shape, Mapping):
        if not isinstance(value, Mapping):
            raise _mismatch(value, where, "object")
        return {name: inner for name, inner in _members(value, shape, keep, where) if inner is not None}
    fits = shape is object or (isinstance(value, shape) and (shape is bool or not isinstance(value, bool)))
    if not fits:
        raise _mismatch(value, where, _WORDS[shape])
    return value


def _members(value: Mapping[str, Any], shape: Mapping[str, Shape], keep: bool, where: str) -> list[tuple[str, Any]]:
    found = []
    for name, member in value.items():
        inner = shape.get(name, shape.get("*"))
        path = f"{where}.{name}" if where else name
        if inner is not None and member is not None:
            found.append((name, take(member, inner, keep=keep, where=path)))
        elif keep and name not in _OWN:
            found.append((name, member))
    return found


def job(value: Any, *, keep: bool = False) -> Doc:  # Any: what JSON can spell
    """Return a job's definition, checked."""
    found: Doc = take(value, JOB, keep=keep)
    if not _NAME.fullmatch(found.get("name", "")):
        raise ApiError(400, f"invalid job name {found.get('name', '')!r}")
    kind = found.get("type", "")
    if kind not in ("spark", "airflow"):
        raise ApiError(400, f"invalid job type {kind!r}")
    if not (found.get(kind) or {}).get("file" if kind == "spark" else "dagFile"):
        raise ApiError(400, f"{kind} job needs {'spark.file' if kind == 'spark' else 'airflow.dagFile'}")
    for mount in found.get("mounts") or ():
        if ".." in mount.get("dirPrefix", "").split("/"):
            raise ApiError(400, f"invalid dirPrefix {mount['dirPrefix']!r}")
    if "schedule" in found:
        found["schedule"] = _schedule(found["schedule"])
    return found


def resource(value: Any, *, keep: bool = False) -> Doc:  # Any: what JSON can spell
    """Return a resource's definition, checked; without a type it holds files (J5.1)."""
    found: Doc = take(value, RESOURCE, keep=keep)
    found["type"] = found.get("type") or "files"
    if not _NAME.fullmatch(found.get("name", "")):
        raise ApiError(400, f"invalid resource name {found.get('name', '')!r}")
    if found["type"] not in ("files", "python-env", "custom-runtime-image", "airflow-python-env"):
        raise ApiError(400, f"invalid resource type {found['type']!r}")
    return found


def repository(value: Any) -> Doc:  # Any: what JSON can spell
    """Return a git repository's definition, checked; unknown keys stay, since no contract spells its own."""
    found: Doc = take(value, REPOSITORY, keep=True)
    if not _NAME.fullmatch(found.get("name", "")):
        raise ApiError(400, f"invalid repository name {found.get('name', '')!r}")
    return found


def file_path(text: str) -> str:
    """Return the path of a file within a resource; ApiError: it leads out of the resource, or nowhere."""
    if any(part in ("", ".", "..") for part in text.split("/")) or "\0" in text:
        raise ApiError(400, f"invalid file path {text!r}")
    return text


def _schedule(given: Doc) -> Doc:
    try:
        schedules.parse_cron(given.get("cronExpression", ""))
        for name in ("start", "end"):
            moment = times.read(given.get(name, ""))
            given[name] = times.milliseconds(moment) if moment else ""
    except (ValueError, TypeError, OverflowError) as error:  # in UTC it may lie beyond the calendar
        raise ApiError(400, f"invalid schedule: {error}") from error
    return given


def _mismatch(value: Any, where: str, wanted: str) -> ApiError:  # Any: what JSON can spell
    words = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
    found = words.get(type(value), "null")
    return ApiError(400, f"json: cannot unmarshal {found} into field {where or '(top)'} of type {wanted}")
