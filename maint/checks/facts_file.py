"""Keep facts in a file, and read them back: nothing that is damaged reaches a check."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import asdict, replace

from maint.checks.check import PHASES, PROFILES
from maint.checks.facts import NOT_ASKED, Answered, HostFacts, ManagerFacts, SiteFacts, SiteSetting
from maint.checks.thresholds import matrix_of
from maint.errors import Invalid
from maint.model.formatting import show_time
from maint.model.json import Json
from maint.ports.manager_host import Proof

FILE_FORMAT = "maint-facts/1"
_MOST_NUMBER = 2**63
_HINT = "`maint host check --save-facts FILE` writes one"
_Number = Annotated[int, Meta(ge=0, le=_MOST_NUMBER - 1)]
_Seconds = Annotated[float, Meta(ge=0, lt=1e11)]  # some three thousand years after 1970
T = TypeVar("T")


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the file: it has these keys, and no others."""


class _Setting(_Kept, frozen=True):
    manager: str
    plain_port: _Number
    tls_port: _Number
    app_domain: str
    endpoints: tuple[str, ...]
    phase: Annotated[str, Meta(pattern=f"^({'|'.join(PHASES)})$")]
    plan: dict[str, Any] | None  # Any: what stands in a plan or a matrix, those who read it look at
    matrix: dict[str, Any] | None


class _Seen(_Kept, frozen=True):
    hostname: str | None
    lastHeartbeat: str | None
    cluster: str | None
    names: list[str] = []  # older files do not have it


class _Service(_Kept, frozen=True):
    type: str | None
    state: str | None
    health: str | None
    name: str = ""  # older files do not have it


class _Cluster(_Kept, frozen=True):
    name: str
    type: str | None
    services: list[_Service]
    display: str = ""


class _Manager(_Kept, frozen=True):
    reason: str
    release: str
    chain: str
    hosts: list[_Seen]
    clusters: list[_Cluster]
    ends: str | None = None
    truststore: str = ""
    opens: bool | None = None
    clock: str = ""
    machines: list[Proof] = []


class _Host(_Kept, frozen=True):
    name: Annotated[str, Meta(pattern=r"\S")]
    address: str
    profiles: Annotated[str, Meta(pattern=f"^[{''.join(PROFILES)}]*K[{''.join(PROFILES)}]*$")]
    reached: bool
    reason: str
    sent: _Seconds
    received: _Seconds
    answers: dict[str, Answered]


class _Wrong(ValueError):
    """What is wrong with a file of facts, in words for the caller."""


# What an older version did not ask, by what it asked of the same hosts.
_YOUNGER = {"volumes": "nodes", "jdbc_roles": "java", "jdbc": "java", "db_properties": "java", "layers": "mounts"}


class _File(msgspec.Struct, frozen=True):
    taken_at: str
    setting: _Setting
    manager: _Manager
    hosts: Annotated[list[_Host], Meta(min_length=1)]


def to_json(site: SiteFacts, more: Mapping[str, Json]) -> dict[str, Json]:
    """Return facts as they are kept in a file; they hold no secrets."""
    hosts = [_part(_Host, host) for host in site.hosts]
    file = _File(show_time(site.taken_at), _part(_Setting, site.setting), _part(_Manager, site.manager), hosts)
    return {"format": FILE_FORMAT, **msgspec.to_builtins(file), **more}


def _part(kind: type[T], whole: object) -> T:
    return kind(*(getattr(whole, name) for name in kind.__struct_fields__))  # type: ignore[attr-defined]  # of a Struct


def from_json(text: str, name: str) -> tuple[SiteFacts, Mapping[str, Json]]:
    """Return kept facts, and what else the file `name` has; `Invalid` says where it is not a file of facts."""
    try:
        data = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)
        if not isinstance(data, dict):
            raise _Wrong("it is not a mapping")
        if data.get("format") != FILE_FORMAT:
            raise Invalid(f"{name} has format {str(data.get('format'))[:40]!r}, not {FILE_FORMAT}", hint=_HINT)
        _plain(data)
        return _site(msgspec.convert(data, _File), name), data
    except msgspec.ValidationError as error:
        words, _, place = str(error).rpartition(" - at ")
        problem = f"{words if words.startswith('Object') else 'another value is expected'} at {place}"
    except json.JSONDecodeError as error:
        problem = f"line {error.lineno}, column {error.colno} is not JSON"
    except RecursionError:
        problem = "it is nested too deeply"
    except (ValueError, OverflowError) as error:
        problem = str(error) if isinstance(error, _Wrong) else "a text, time or number in it is not one"
    raise Invalid(f"{name} is not a file of facts, or is damaged ({problem[:120]})", hint=_HINT)


def with_matrix(site: SiteFacts, matrix: Mapping[str, Json] | None) -> SiteFacts:
    """Return facts judged by another support matrix than the one that was at hand when they were taken."""
    other = SiteFacts(site.taken_at, replace(site.setting, matrix=matrix), site.manager)
    other.hosts.extend(replace(host, site=other) for host in site.hosts)
    return other


def _site(file: _File, name: str) -> SiteFacts:
    times = (
        ("taken_at", file.taken_at),
        ("ends of manager", file.manager.ends),
        ("clock of manager", file.manager.clock),
    )
    for place, moment in times:
        if (moment or place == "taken_at") and datetime.fromisoformat(moment or "").tzinfo is None:
            raise _Wrong(f"{place} names no time zone")
    if file.setting.matrix is not None:
        matrix_of(file.setting.matrix, name)
    manager = ManagerFacts(**{**msgspec.to_builtins(file.manager), "machines": file.manager.machines})
    site = SiteFacts(
        datetime.fromisoformat(file.taken_at).astimezone(UTC), SiteSetting(**asdict(file.setting)), manager
    )
    for host in file.hosts:
        younger = {one: Answered(0, NOT_ASKED) for one, older in _YOUNGER.items() if older in host.answers}
        site.hosts.append(HostFacts(site=site, **{**asdict(host), "answers": younger | dict(host.answers)}))
    if len({host.name for host in site.hosts}) != len(site.hosts):
        raise _Wrong("two hosts have one name")
    return site


def _once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Wrong("a key stands twice")
    return found


def _no_number(text: str) -> float:
    raise _Wrong(f"{text} is not a number")


def _finite(text: str) -> float:
    if not math.isfinite(float(text)):
        raise _Wrong("a number is too large")
    return float(text)


def _plain(value: Json) -> None:
    # Halves of characters and numbers beyond all measure could not be printed.
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, int) and abs(value) >= _MOST_NUMBER:
        raise _Wrong("a number is too large")
    elif isinstance(value, dict):
        for key, inner in value.items():
            key.encode()
            _plain(inner)
    elif isinstance(value, list):
        for inner in value:
            _plain(inner)
