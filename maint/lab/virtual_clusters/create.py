"""Lay a new service out in a lab's folder: ids, users, keytabs, virtual clusters; fill one with the example set."""

import base64
import copy
import json
import re
import secrets
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec.structs import asdict

from maint.files import write_whole
from maint.lab.hosts.kerberos import new_keytab
from maint.lab.manager.document import Doc, clusters, items, roles, services
from maint.lab.switches import Switches
from maint.lab.virtual_clusters import dagfile, runs, schedules, tick, times
from maint.lab.virtual_clusters.cluster import Cluster
from maint.lab.virtual_clusters.gateway import User

FACTS = "service.json"
_KEY = 32
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{2,29}")
EXAMPLE = Path(__file__).parents[1] / "data" / "jobs-example.json"


class BadName(ValueError):
    """No name for a virtual cluster, or one that is taken."""


def domain_of(deployment: Doc) -> str:
    """Return the domain of the data services that a deployment runs, "" where it runs none."""
    for service in (service for cluster in clusters(deployment) for service in services(cluster)):
        if service.get("type") == "ECS":
            groups = service.get("roleConfigGroups") or []
            listed = [service, *groups, *roles(service)]
            settings = [item for node in listed for item in items(_config(node)) if item.get("name") == "app_domain"]
            domain = str(settings[0].get("value") or "") if settings else ""
            return domain if domain.startswith("apps.") else f"apps.{domain or 'example.internal'}"
    return ""


def plan(folder: Path, domain: str, port: int, switches: Switches, further: Sequence[str]) -> None:
    """Write down a new service, its names below `domain`, and `further` virtual clusters beside the default one."""
    known = example_set()["virtualCluster"]
    for number, name in enumerate(further):
        check_name(name, [str(known["name"]), *further[:number]])
    people = _people(folder)
    ready = switches["vc-initialised"] == "yes"
    due = time.time() + switches.number("vc-appears-seconds")
    first = entry_of(str(known["name"]), loaded=True, initialised=ready, id_=str(known["id"]), due=due)
    facts: Doc = {
        "id": known["serviceInstance"],
        "domain": domain,
        "port": port,
        "secret": secrets.token_hex(_KEY),
        "environment": f"crn:cdp:environments:us-west-1:lab:environment:{secrets.token_hex(8)}",
        "clusters": [first, *(entry_of(name, loaded=False, initialised=ready) for name in further)],
        "people": [asdict(person) for person in people],
    }
    write_whole(folder / FACTS, json.dumps(facts, indent=1).encode(), 0o600)


def _people(folder: Path) -> list[User]:
    """Return the users of a lab, with and without a role; their passwords and keytabs are written."""
    found = [User(str(user["name"]), "", ["DEUser"], str(user["principal"])) for user in example_set()["users"]]
    realm = found[0].principal.partition("@")[2]
    found += [User("guest_user", "", [], f"guest_user@{realm}"), User("admin", "", ["Administrator"], local=True)]
    for person in found:
        person.password = secrets.token_urlsafe(18)
        write_whole(folder / "passwords" / person.name, person.password.encode(), 0o600)
        if person.principal:
            write_whole(folder / "keytabs" / f"{person.name}.keytab", new_keytab(person.principal), 0o600)
    return found


def _config(node: Doc) -> Doc:
    found: Doc = node.get("config") or {}
    return found


def entry_of(name: str, *, loaded: bool, initialised: bool, id_: str = "", due: float = 0.0) -> Doc:
    """Return a virtual cluster as the service remembers it; `due`: when it appears, seconds since 1970."""
    return {"name": name, "id": id_ or new_id(), "loaded": loaded, "initialised": initialised, "due": due}


def check_name(name: str, taken: Iterable[str]) -> None:
    """Raise `BadName` unless a virtual cluster may be called so (J8)."""
    if not _NAME.fullmatch(name):
        raise BadName(f"{name!r} names no virtual cluster: 3 to 30 letters, digits and hyphens, a letter first")
    if name in taken:
        raise BadName(f"there is a virtual cluster {name!r} already")


def new_id() -> str:
    """Return eight lowercase letters and digits, as services and virtual clusters have (J1)."""
    letters = "abcdefghijkmnopqrstuvwxyz"
    return secrets.choice(letters) + "".join(secrets.choice(letters + "23456789") for _ in range(7))


def load_example(cluster: Cluster) -> None:
    """Put the example set into an empty virtual cluster, as something that has been there for a while."""
    create = example_set()
    for resource in create["resources"]:
        kept = {name: value for name, value in resource.items() if name != "signature"}
        cluster.resources.put(kept["name"], kept)
        for entry in create["resourceFiles"].get(kept["name"], ()):
            cluster.files.adopt(kept["name"], entry, base64.b64decode(entry["contentBase64"]))
    for job in create["jobs"]:
        _load_job(cluster, job)
    for run in create["jobRuns"]:
        _load_run(cluster, copy.deepcopy(run), create["jobRunLogs"].get(str(run["id"]), {}))
    cluster.set_next_run(max(int(run["id"]) for run in create["jobRuns"]) + 1)


def example_set() -> Doc:
    """Return the example set."""
    found: Doc = json.loads(EXAMPLE.read_bytes())
    return found


def _load_job(cluster: Cluster, job: Doc) -> None:
    """Take in a job; nothing that was due before today fires now."""
    kept = copy.deepcopy(job) | {"_": {}}
    kept["schedule"].pop("nextExecution", None)
    if kept["type"] == "airflow":
        kept["_"]["dag"] = tick.dag_text(cluster, kept)
        kept["schedule"]["catchup"] = bool(kept["schedule"].get("catchup")) and dagfile.parse(kept["_"]["dag"]).catchup
    recurring = schedules.parse_cron(kept["schedule"].get("cronExpression", ""))
    last = schedules.last_interval(recurring, cluster.now()) if recurring else None
    if last:
        kept["_"]["last"] = times.microseconds(last)
    cluster.jobs.put(str(kept["name"]), kept)


def _load_run(cluster: Cluster, run: Doc, written: dict[str, str]) -> None:
    """Take in a run; one that was active when the example was made has succeeded since."""
    run["_"] = {"ended": 0}
    run.setdefault("mounts", [])
    if not runs.ended(run):
        run |= {"status": runs.SUCCEEDED, "ended": run["started"]}
    if "spark" in run and "sparkAppURL" in run["spark"]:
        host = cluster.identity.host
        run["spark"]["sparkAppURL"] = run["spark"]["sparkAppURL"].replace("vc-host.example", host)
    cluster.runs.put(str(run["id"]), run)
    for kind, text in written.items():
        runs.write_log(cluster, run, kind, text)
