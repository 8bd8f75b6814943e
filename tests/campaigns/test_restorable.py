"""Exports spoiled at random: what is called restorable is taken by a server, which then lets an administrator in."""

import copy
import json
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from maint.deployment.judge import Judge, JudgedDocument
from maint.errors import MaintError
from maint.lab.manager import accounts, document, put_deployment
from maint.lab.manager.load import empty_deployment
from maint.lab.manager.world import World
from maint.lab.switches import Switches
from tests.campaigns.size import SEED, tries
from tests.snapshots.conftest import DEPLOYMENTS

TRIES = tries(60, 20_000)
VERSIONS = (2, 3, 5, 6, 8, 11, 12, 14, 15, 18, 19, 30, 31, 32, 40, 45, 49)
Place = tuple[Any, Any]  # what holds something, and under which name or at which place
STRANGE: tuple[Any, ...] = (
    "", "a b", "ü", "REDACTED", "null", "admin", "ROLE_ADMIN", None, 0, -1, 2**63, 1.5, True, [], {}, [None], [{}],
    {"items": []}, {"items": None}, {"name": "x"},
)  # fmt: skip


def places(document: Any) -> dict[str, list[Place]]:
    """Return every place of a document, by its path without names and numbers: rare ones are met as often as others."""
    found, open_ = defaultdict[str, list[Place]](list), [(document, "")]
    while open_:
        node, path = open_.pop()
        for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
            below = f"{path}/{key if isinstance(key, str) else ''}"
            found[below].append((node, key))
            open_.append((node[key], below))
    return found


def drop(chance: random.Random, node: Any, key: Any) -> None:
    del node[key]


def double(chance: random.Random, node: Any, key: Any) -> None:
    if isinstance(node, list):
        node.append(copy.deepcopy(node[key]))


def rename(chance: random.Random, node: Any, key: Any) -> None:
    if isinstance(node, dict):
        node[f"{key}X"] = node.pop(key)


def change(chance: random.Random, node: Any, key: Any) -> None:
    node[key] = copy.deepcopy(chance.choice(STRANGE))


def add(chance: random.Random, node: Any, key: Any) -> None:
    if isinstance(node, dict):
        node["newField"] = copy.deepcopy(chance.choice(STRANGE))


def swap_case(chance: random.Random, node: Any, key: Any) -> None:
    if isinstance(node[key], str):
        node[key] = node[key].swapcase()


# A deployment is judged by what is known of it; a server may ask more of what only exports of version 2 hold, or nobody
# knows, of which no source says anything.
NOT_JUDGED = ("/versionInfo", "roleTypeConfigs", "newField")
WAYS: tuple[Callable[[random.Random, Any, Any], None], ...] = (drop, double, rename, change, change, add, swap_case)


def spoil(chance: random.Random, deployment: Any) -> list[str]:
    """Change one to three places, and return what was done."""
    done, by_path = [], places(deployment)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        path = chance.choice(sorted(by_path))
        node, key = chance.choice(by_path[path])
        way = chance.choice(WAYS)
        there = key in node if isinstance(node, dict) else key < len(node)
        if there and not any(words in path for words in NOT_JUDGED):
            way(chance, node, key)
            done.append(f"{way.__name__} {path}")
            if way is rename:  # what is below is unknown by now
                break
    return done


def judged(content: bytes) -> JudgedDocument | None:
    try:
        return Judge("admin", None).verdict([content])
    except MaintError:  # it is none at all
        return None


def taken(like: Any, content: bytes, api: int) -> tuple[World, str]:
    """Return a new server that was sent a document, and why it refused it."""
    chance = random.Random(1)
    world = World(empty_deployment(like, document.recorded_at(like), chance), Switches({}), chance=chance)
    world.license, world.license_counts = {"owner": "Example"}, True
    try:
        sent = document.parse(content)
        if words := next(document.misshapen(sent, "the deployment"), ""):
            return world, words
        world.replace_deployment(put_deployment.prepared(world, sent, api, True), added=False)
    except (ValueError, put_deployment.NotAccepted) as refusal:
        return world, str(refusal)
    world.start_up(redaction=False, tls=False)
    return world, ""


def test_what_is_called_restorable_is_taken_by_a_server_that_lets_an_administrator_in() -> None:
    chance, originals = random.Random(SEED), [json.loads(path.read_bytes()) for path in DEPLOYMENTS]
    small = [one for one in originals if len(json.dumps(one)) < 300_000]
    restorable = refused = 0
    for number in range(TRIES):
        original = chance.choice(small)
        shown = min(chance.choice(VERSIONS), document.recorded_at(original))
        deployment = copy.deepcopy(document.as_of(original, shown))
        done = spoil(chance, deployment)
        content = json.dumps(deployment, ensure_ascii=False, indent=chance.choice((None, 2))).encode()
        verdict = judged(content)
        if verdict is None or not verdict.restorable:
            refused += 1
            continue
        restorable += 1
        world, why = taken(original, content, shown)
        assert why == "", (number, shown, done)
        names = verdict.summary.administrators
        let_in = [one for one in world.login_users if one.get("name") in names]
        assert any(accounts.is_admin(world.deployment, one) for one in let_in), (number, shown, done)
    assert restorable and refused
