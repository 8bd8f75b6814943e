"""Keep facts in a file, and read them back: nothing that is damaged reaches a check."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from maint.checks.check import PHASES, PROFILES
from maint.checks.facts import Answered, HostFacts, ManagerFacts, Setting, SiteFacts
from maint.checks.thresholds import matrix_of
from maint.errors import Invalid
from maint.model.json import Json

FILE_FORMAT = "maint-facts/1"
_MOST_SECONDS = 1e11  # some three thousand years after 1970
_MOST_NUMBER = 2**63
_HINT = "maint host check --save-facts FILE writes one"


def to_json(site: SiteFacts, more: Mapping[str, Json]) -> dict[str, Json]:
    """Return facts as they are kept in a file; they hold no secrets."""
    setting = site.setting
    hosts: list[Json] = [
        {
            "name": host.name, "address": host.address, "profiles": host.profiles, "reached": host.reached,
            "reason": host.reason, "sent": host.sent, "received": host.received,
            "answers": {
                name: [answer.status, answer.out, *([answer.words] if answer.words else [])]
                for name, answer in host.answers.items()
            },
        }
        for host in site.hosts
    ]  # fmt: skip
    return {
        "format": FILE_FORMAT,
        "taken_at": site.taken_at.isoformat(),
        "setting": {
            "manager": setting.manager, "plain_port": setting.plain_port, "tls_port": setting.tls_port,
            "app_domain": setting.app_domain, "endpoints": list(setting.endpoints), "phase": setting.phase,
            "plan": None if setting.plan is None else dict(setting.plan),
            "matrix": None if setting.matrix is None else dict(setting.matrix),
        },
        "manager": {
            "reason": site.manager.reason, "release": site.manager.release, "chain": site.manager.chain,
            "ends": site.manager.ends,
            "hosts": [dict(host) for host in site.manager.hosts],
            "clusters": [dict(cluster) for cluster in site.manager.clusters],
        },
        "hosts": hosts,
        **more,
    }  # fmt: skip


def from_json(text: str, name: str) -> tuple[SiteFacts, Mapping[str, Json]]:
    """Return kept facts, and what else the file `name` has; `Invalid` says where it is not a file of facts."""
    try:
        data = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)
        found = _mapping(data, "the file")
        if found.get("format") != FILE_FORMAT:
            raise Invalid(f"{name} has format {str(found.get('format'))[:40]!r}, not {FILE_FORMAT}", hint=_HINT)
        _plain(data)
        return _site(found, name), found
    except (ValueError, OverflowError, RecursionError) as error:
        words = str(error) if type(error) is ValueError else type(error).__name__
        raise Invalid(f"{name} is not a file of facts, or is damaged ({words[:120]})", hint=_HINT) from None


def with_matrix(site: SiteFacts, matrix: Mapping[str, Json] | None) -> SiteFacts:
    """Return facts judged by another support matrix than the one that was at hand when they were taken."""
    other = SiteFacts(site.taken_at, replace(site.setting, matrix=matrix), site.manager)
    other.hosts.extend(replace(host, site=other) for host in site.hosts)
    return other


def _site(data: Mapping[str, Json], name: str) -> SiteFacts:
    taken_at = datetime.fromisoformat(_text(data.get("taken_at"), "taken_at"))
    if taken_at.tzinfo is None:
        raise ValueError("taken_at names no time zone")
    setting = _whole(data.get("setting"), "setting", _SETTING)
    if setting["matrix"] is not None:
        matrix_of(setting["matrix"], name)
    manager = _whole({"ends": "", **_mapping(data.get("manager"), "manager")}, "manager", _MANAGER)
    site = SiteFacts(taken_at.astimezone(UTC), Setting(**setting), ManagerFacts(**manager))
    for place, one in enumerate(_list(data.get("hosts"), "hosts")):
        host = _whole(one, f"host {place + 1}", _HOST)
        site.hosts.append(HostFacts(site=site, **host))
    names = [host.name for host in site.hosts]
    if not names:
        raise ValueError("it holds no host")
    if len(set(names)) != len(names):
        raise ValueError("two hosts have one name")
    return site


_Read = Callable[[Json, str], object]


# Any: each value is what the constructor wants there, by the table that read it.
def _whole(value: Json, where: str, reading: Mapping[str, _Read]) -> dict[str, Any]:
    data = _mapping(value, where)
    if odd := sorted(set(data) ^ set(reading)):
        raise ValueError(f"{where} {'has a strange' if odd[0] in data else 'lacks'} {odd[0][:40]}")
    return {key: read(data[key], f"{key} of {where}") for key, read in reading.items()}


def _mapping(value: Json, where: str) -> Mapping[str, Json]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is not a mapping")
    return value


def _list(value: Json, where: str) -> Sequence[Json]:
    if not isinstance(value, list):
        raise ValueError(f"{where} is not a list")
    return value


def _text(value: Json, where: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{where} is not a text")
    return value


def _named(value: Json, where: str) -> str:
    if not _text(value, where).strip():
        raise ValueError(f"{where} is empty")
    return str(value)


def _letters(value: Json, where: str) -> str:
    if set(_text(value, where)) - set(PROFILES) or "K" not in str(value):
        raise ValueError(f"{where} are not those of a host")
    return str(value)


def _phase(value: Json, where: str) -> str:
    if value not in PHASES:
        raise ValueError(f"{where} is none")
    return str(value)


def _truth(value: Json, where: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{where} is neither true nor false")
    return value


def _number(value: Json, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST_NUMBER:
        raise ValueError(f"{where} is not a number")
    return value


def _seconds(value: Json, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MOST_SECONDS:
        raise ValueError(f"{where} is not a time")
    return float(value)


def _texts(value: Json, where: str) -> Sequence[str]:
    return tuple(_text(one, where) for one in _list(value, where))


def _each(reading: Mapping[str, _Read]) -> _Read:
    return lambda value, where: [_whole(one, f"one of {where}", reading) for one in _list(value, where)]


def _maybe_text(value: Json, where: str) -> str | None:
    return None if value is None else _text(value, where)


def _maybe(value: Json, where: str) -> Mapping[str, Json] | None:
    return None if value is None else _mapping(value, where)


def _answers(value: Json, where: str) -> Mapping[str, Answered]:
    found = {}
    for question, listed in _mapping(value, where).items():
        answer, name = _list(listed, f"{question[:40]} in {where}"), question[:40]
        if len(answer) not in (2, 3):
            raise ValueError(f"{name} in {where} is not an answer")
        status, out, words = [*answer, ""][:3]
        found[question] = Answered(_number(status, f"{name} in {where}"), _text(out, name), _text(words, name))
    return found


_SETTING: Mapping[str, _Read] = {
    "manager": _text, "plain_port": _number, "tls_port": _number, "app_domain": _text, "endpoints": _texts,
    "phase": _phase, "plan": _maybe, "matrix": _maybe,
}  # fmt: skip


def _moment(value: Json, where: str) -> str:
    text = _text(value, where)
    if text and datetime.fromisoformat(text).tzinfo is None:
        raise ValueError(f"{where} names no time zone")
    return text


_MANAGER: Mapping[str, _Read] = {
    "reason": _text, "release": _text, "chain": _text, "ends": _moment,
    "hosts": _each(dict.fromkeys(("hostname", "lastHeartbeat", "cluster"), _maybe_text)),
    "clusters": _each(
        {"name": _text, "type": _maybe_text,
         "services": _each(dict.fromkeys(("type", "state", "health"), _maybe_text))}
    ),
}  # fmt: skip
_HOST: Mapping[str, _Read] = {
    "name": _named, "address": _text, "profiles": _letters, "reached": _truth, "reason": _text, "sent": _seconds,
    "received": _seconds, "answers": _answers,
}  # fmt: skip


def _once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a number")


def _finite(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError("a number is too large")
    return float(text)


def _plain(value: Json) -> None:
    # Halves of characters and numbers beyond all measure could not be printed.
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, int) and abs(value) >= _MOST_NUMBER:
        raise ValueError("a number is too large")
    elif isinstance(value, dict):
        for key, inner in value.items():
            key.encode()
            _plain(inner)
    elif isinstance(value, list):
        for inner in value:
            _plain(inner)
