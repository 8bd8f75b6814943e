"""Fill a lab's virtual cluster: jobs that use every field of the contract, and files of all awkward kinds."""

import io
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from maint.adapters.clock import SystemClock
from maint.adapters.virtual_clusters.calls import ServiceCalls
from maint.adapters.virtual_clusters.client import VirtualClusterClient
from maint.config.schema import VirtualClusterSettings
from maint.config.secrets import ReferencedSecrets
from maint.model.json import Json
from maint.ports.virtual_cluster import Content

_BLOCK = 1 << 18  # bytes
_AT_ONCE = 8
_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")
_CRONS = ("0 3 * * *", "*/5 * * * *", "4 5 * * 1", "@once", "@daily")
_WORDS = (
    "ärgument",
    "日本語",
    "Ω≠ω",
    "with blank",
    "--flag=x y",
    "",
    "'quoted'",
    'a"b',
    "tab\tbed",
    "🚀",
    "line\nbreak",
)


@dataclass(frozen=True, slots=True)
class Size:
    """How much to make.

    Attributes:
        jobs: how many; every twentieth is a DAG.
        resources: how many.
        bytes: of all files together, about.
        files: how many in each resource; the first is the largest by far.
    """

    jobs: int
    resources: int
    bytes: int
    files: int = 4


def client_of(told: dict[str, Any], folder: Path) -> VirtualClusterClient:
    """Return a client for a virtual cluster as `lab status` tells of it."""
    settings = VirtualClusterSettings(
        name=told["name"],
        base_url=told["base_url"],
        auth_url=told["auth_url"],
        username=told["username"],
        password=f"file:{told['password_file']}",
        ca=Path(told["ca"]),
        connect_to=f"127.0.0.1:{urlsplit(told['base_url']).port}",
    )
    return VirtualClusterClient(ServiceCalls(settings, ReferencedSecrets(folder, {}), SystemClock(), warn=print))


def content(seed: int, size: int) -> Content:
    """Return a file of so many bytes, half of which can be compressed, made anew each time that it is opened."""
    return Content(lambda: io.BufferedReader(_Made(seed, size), _BLOCK), size)


class _Made(io.RawIOBase):
    def __init__(self, seed: int, size: int) -> None:
        self._block = random.Random(seed).randbytes(_BLOCK // 2) + b"0123456789abcde\n" * (_BLOCK // 32)
        self._left = size
        self._number = seed

    def readable(self) -> bool:
        return True

    # "override": the type of its argument, Buffer, has a name only from Python 3.12 on.
    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        self._number += 1
        block = self._number.to_bytes(8, "big") + self._block[8:]
        count = min(len(buffer), len(block), self._left)
        buffer[:count] = block[:count]
        self._left -= count
        return count


def files_of(number: int, size: Size) -> Iterator[tuple[str, Content]]:
    """Yield path and content of each file of a resource: one large one, the others small and awkward."""
    small = [b"print(1)\r\nprint(2)\r\n", b"", "print('ümlaut')\n".encode(), bytes(range(256))]
    names = ["app.py", "empty", "sub/Ordner ä/tools.py", "lib/all.bin"]
    large = size.bytes // size.resources
    yield "jars/large.jar", content(number, large)
    for index in range(size.files - 1):
        # Each differs from all others: what is equal is stored once, and would cost the backup nothing.
        made = small[index % 4] + (b"" if index % 4 == 1 else f"# {number} {index}\n".encode())
        yield (
            names[index % 4] if index < 4 else f"more/{index}.txt",
            Content(lambda made=made: io.BytesIO(made), len(made)),
        )


def job(number: int, size: Size) -> dict[str, Json]:
    """Return a definition; all of them together use every field of the contract (sections 4.2 to 4.4)."""
    chance = random.Random(number)
    resource = f"made-{number % size.resources}"
    mounts: list[Json] = [{"resourceName": resource, "dirPrefix": chance.choice(["", "data", "sub/folder"])}]
    common: dict[str, Json] = {"name": f"Made_job-{number}", "mounts": mounts, "retentionPolicy": "keep_indefinitely"}
    if number % 3 == 0:
        common["alerting"] = {"emailOnFailure": True, "mailTo": ["ops@example.com"], "alertAfterDuration": "1h"}
    if number % 4 == 0:
        common["workloadCredentials"] = [f"cred-{number % 7}"]
    if number % 20 == 19:
        flow: dict[str, Json] = {"dagFile": f"dag_{number}.py", "config": {"k": "v"}}
        flow["fileMounts"] = [{"resourceName": resource, "dirPrefix": f"/{resource}"}]
        return {**common, "type": "airflow", "airflow": flow, "mounts": [{"resourceName": "made-dags"}]}
    return {**common, "type": "spark", "spark": _spark(number, chance), "schedule": _schedule(number, chance)}


def _spark(number: int, chance: random.Random) -> dict[str, Json]:
    spark: dict[str, Json] = {
        "file": "app.py" if number % 5 else "https://repo.example.com/all.jar",
        "className": "" if number % 5 else "com.example.Main",
        "args": [chance.choice(_WORDS) for _ in range(number % 6)],
        "driverMemory": f"{1 + number % 8}g",
        "driverCores": 1 + number % 4,
        "executorMemory": f"{1 + number % 16}g",
        "executorCores": 1 + number % 3,
        "conf": {"spark.a": str(chance.random()), "dex.safariEnabled": "false", "spark.pyspark.python": "python3"},
        "logLevel": _LEVELS[number % len(_LEVELS)],
        "pyFiles": ["lib/all.bin"] if number % 2 else [],
        "jars": ["jars/large.jar"] if number % 3 else [],
        "files": ["empty"] if number % 4 else [],
    }
    if number % 7 == 0:
        spark |= {"numExecutors": number % 9, "proxyUser": "someone", "name": f"app {number} é"}
    if number % 11 == 0:
        spark["pythonEnvResourceName"] = "made-env"
    return spark


def _schedule(number: int, chance: random.Random) -> dict[str, Json]:
    if number % 2:
        return {
            "enabled": False,
            "paused": True,
            "catchup": False,
            "dependsOnPast": False,
            "cronExpression": "",
            "start": "",
            "end": "",
        }
    return {
        "enabled": True,
        "paused": number % 8 == 0,
        "catchup": number % 16 == 0,
        "dependsOnPast": number % 32 == 0,
        "cronExpression": chance.choice(_CRONS),
        "start": "2041-01-01T00:00:00.000Z",
        "end": "2042-01-01T00:00:00Z" if number % 3 else "",
    }


def _dag(number: int) -> bytes:
    return (
        "from airflow import DAG\nfrom cloudera.cdp.airflow.operators.cde_operator import CDEJobRunOperator\n"
        f"with DAG('dag-{number}', schedule=None, is_paused_upon_creation=True):\n"
        f"    CDEJobRunOperator(task_id='one', job_name='Made_job-{number - 1}')\n"
    ).encode()


def fill(client: VirtualClusterClient, size: Size) -> None:
    """Create all of it, several at once."""
    dags = [number for number in range(size.jobs) if number % 20 == 19]
    with ThreadPoolExecutor(_AT_ONCE) as hands:
        list(hands.map(lambda number: _resource(client, number, size), range(size.resources)))
        client.create_resource({"name": "made-dags", "type": "files", "hidden": False})
        sources = {f"dag_{number}.py": _dag(number) for number in dags}
        for path, source in sources.items():
            client.upload("made-dags", path, Content(lambda source=source: io.BytesIO(source), len(source)))
        client.create_resource(
            {"name": "made-env", "type": "python-env", "hidden": True, "pythonEnv": {"pythonVersion": "python3"}}
        )
        client.upload("made-env", "requirements.txt", Content(lambda: io.BytesIO(b"requests\n"), 9))
        list(hands.map(client.create_job, (job(number, size) for number in range(size.jobs) if number % 20 != 19)))
        list(hands.map(client.create_job, (job(number, size) for number in dags)))


def _resource(client: VirtualClusterClient, number: int, size: Size) -> None:
    name = f"made-{number}"
    client.create_resource({"name": name, "type": "files", "hidden": number % 50 == 49})
    for path, made in files_of(number, size):
        client.upload(name, path, made)
