"""Make exports of any size, in the server's own style (contract section 2.3), the same ones for the same seed.

Everything is drawn from `random.Random`, so nothing depends on the machine or the day. Names and proportions are
those of the recorded deployments: some forty per cent of the bytes are config items, some tenth of these secret.
"""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROLE_TYPES = {
    "hdfs": ("DATANODE", "NAMENODE", "GATEWAY"),
    "yarn": ("NODEMANAGER", "RESOURCEMANAGER", "GATEWAY"),
    "zookeeper": ("SERVER",),
    "hive": ("HIVEMETASTORE", "HIVESERVER2", "GATEWAY"),
    "impala": ("IMPALAD", "CATALOGSERVER"),
    "hbase": ("REGIONSERVER", "MASTER"),
    "spark": ("SPARK_YARN_HISTORY_SERVER", "GATEWAY"),
    "kafka": ("KAFKA_BROKER",),
}
PLAIN = ("log_dir", "java_heapsize", "process_auto_restart", "rm_io_weight", "max_log_size", "local_dir_list", "port")
SECRET = ("ssl_server_keystore_password", "ssl_client_truststore_password", "fc_authorization_secret_key")
SAFETY_VALVE = (
    "<property><name>javax.jdo.option.ConnectionURL</name>"
    '<value>jdbc:postgresql://db/{name}?user=hive&password={secret}</value></property>\\n<!-- \\"kept\\" -->'
)


@dataclass(frozen=True, slots=True)
class Export:
    """What to make.

    Attributes:
        megabytes: how large, about.
        seed: decides everything that is drawn.
        hosts: of each cluster.
        drift: which share of the config values differs from the export with drift 0, as days later.
        permuted: whether the lists are in another order.
        flagged: whether items carry `sensitive` (API 14 and later).
    """

    megabytes: int
    seed: int = 1
    hosts: int = 40
    drift: float = 0.0
    permuted: bool = False
    flagged: bool = True

    def blocks(self) -> Iterator[bytes]:
        """Yield the document, a cluster at a time."""
        yield b'{\n  "timestamp" : "2026-01-%02dT02:00:03.417Z",\n  "clusters" : [ ' % (17 if self.drift else 15)
        written, number = 0, 0
        while written < self.megabytes * 1_000_000:
            text = _Cluster(self, number).text()
            yield (f", {text}" if number else text).encode()
            written, number = written + len(text), number + 1
        yield _tail(self, number).encode()

    def file(self, folder: Path) -> Path:
        """Write it below a folder, unless it is there already; return where."""
        name = hashlib.sha256(repr(self).encode() + Path(__file__).read_bytes()).hexdigest()[:12]
        path = folder / f"export-{self.megabytes}-{name}.json"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            staging = path.with_suffix(".new")
            with staging.open("wb") as file:
                file.writelines(self.blocks())
            staging.rename(path)
        return path

    def days_later(self) -> "Export":
        """Return the same site two days later: a few values set, a few secrets rotated."""
        return replace(self, drift=0.002)

    def shuffled(self) -> "Export":
        """Return the same site, its lists in another order."""
        return replace(self, permuted=True)


class _Cluster:
    """One cluster: what a draw decides is drawn in the same order whatever the drift, so that pairs belong together."""

    def __init__(self, export: Export, number: int) -> None:
        self._export, self._name = export, f"cluster-{number:03d}"
        self._draw = random.Random(f"{export.seed}/{number}")
        self._drift = random.Random(f"drift/{export.seed}/{number}")
        self._order = random.Random(f"order/{export.seed}/{number}")
        self._hosts = [
            (self._hex(32), f"{self._name}-node-{host:03d}.example.internal") for host in range(export.hosts)
        ]
        self._database = self._hex(24)  # a secret that is also inside free text

    def text(self) -> str:
        services = self._listed([self._service(name, types) for name, types in ROLE_TYPES.items()])
        return (
            f'{{\n    "name" : "{self._name}",\n    "displayName" : "Cluster {self._name}",\n'
            f'    "version" : "CDH7",\n    "fullVersion" : "7.1.9",\n    "services" : {services},\n'
            '    "parcels" : [ {\n      "product" : "CDH",\n      "version" : "7.1.9-1.cdh7.1.9.p0.44702451",\n'
            '      "stage" : "ACTIVATED"\n    } ],\n'
            f'    "uuid" : "{self._hex(32)}",\n    "clusterType" : "BASE_CLUSTER"\n  }}'
        )

    def _service(self, name: str, types: tuple[str, ...]) -> str:
        hosts = self._hosts
        roles = [
            self._role(name, kind, *host)
            for place, kind in enumerate(types)
            for host in (hosts if place != 1 else hosts[:3])
        ]
        groups = [self._group(name, kind, variant) for kind in types for variant in ("BASE", "1", "2")]
        config = self._items(" " * 8, 14, database=name)
        return (
            f'{{\n      "name" : "{name}",\n      "type" : "{name.upper()}",\n      "config" : {config},\n'
            f'      "roles" : {self._listed(roles)},\n      "displayName" : "{name.title()}",\n'
            f'      "roleConfigGroups" : {self._listed(groups)}\n    }}'
        )

    def _role(self, service: str, kind: str, host_id: str, host: str) -> str:
        variant = "BASE" if self._draw.random() < 0.7 else self._draw.choice("12")
        pad = " " * 8
        return (
            f'{{\n{pad}"name" : "{service}-{kind}-{host_id}",\n{pad}"type" : "{kind}",\n'
            f'{pad}"hostRef" : {{\n{pad}  "hostId" : "{host_id}",\n{pad}  "hostname" : "{host}"\n{pad}}},\n'
            f'{pad}"config" : {self._items(" " * 10, self._draw.choice((0, 1, 2, 6)), keystore=True)},\n'
            f'{pad}"roleConfigGroupRef" : {{\n{pad}  "roleConfigGroupName" : "{service}-{kind}-{variant}"\n'
            f"{pad}}}\n      }}"
        )

    def _group(self, service: str, kind: str, variant: str) -> str:
        pad = " " * 8
        return (
            f'{{\n{pad}"name" : "{service}-{kind}-{variant}",\n{pad}"displayName" : "{kind.title()} Group {variant}",\n'
            f'{pad}"roleType" : "{kind}",\n{pad}"base" : {"true" if variant == "BASE" else "false"},\n'
            f'{pad}"serviceRef" : {{\n{pad}  "clusterName" : "{self._name}",\n'
            f'{pad}  "serviceName" : "{service}"\n{pad}}},\n'
            f'{pad}"config" : {self._items(" " * 10, self._draw.randrange(10, 40))}\n      }}'
        )

    def _items(self, pad: str, count: int, *, keystore: bool = False, database: str = "") -> str:
        """Spell a config: `count` items, some secret, sorted by name as the server does."""
        found = [(f"{self._draw.choice(PLAIN)}_{place:02d}", self._plain(), False) for place in range(count)]
        found += [(name, self._secret(), True) for name in SECRET if count > 5 and self._draw.random() < 0.5]
        if keystore:
            found.append(("role_jceks_password", self._secret(), True))
        if database:
            found.append((f"{database}_metastore_database_password", self._database, True))
            valve = SAFETY_VALVE.format(name=database, secret=self._database)
            found.append((f"{database}_service_config_safety_valve", valve, False))
        items = [self._item(pad, *item) for item in sorted(found)]
        inner = pad[:-2]
        return f'{{\n{pad}"items" : {self._listed(items)}\n{inner}}}'

    def _item(self, pad: str, name: str, value: str, secret: bool) -> str:
        flag = f',\n{pad}  "sensitive" : {"true" if secret else "false"}' if self._export.flagged else ""
        return f'{{\n{pad}  "name" : "{name}",\n{pad}  "value" : "{value}"{flag}\n{pad}}}'

    def _plain(self) -> str:
        number = self._draw.randrange(1000)
        if self._drift.random() < self._export.drift:
            number += 1000
        return (f"/var/log/service/{number}", str(number), "true", f"node-{number}.example.internal:8020")[number % 4]

    def _secret(self) -> str:
        text = self._hex(25)
        return text[::-1] if self._drift.random() < self._export.drift else text

    def _hex(self, length: int) -> str:
        return f"{self._draw.getrandbits(4 * length):0{length}x}"

    def _listed(self, elements: list[str]) -> str:
        if self._export.permuted:
            self._order.shuffle(elements)
        return f"[ {', '.join(elements)} ]" if elements else "[ ]"


def _tail(export: Export, clusters: int) -> str:
    """Spell what follows the clusters: hosts, users, the manager's own settings."""
    hosts = [host for number in range(clusters) for host in _Cluster(export, number)._hosts]
    shown = ", ".join(
        f'{{\n    "hostId" : "{host_id}",\n'
        f'    "ipAddress" : "10.{place >> 16 & 255}.{place >> 8 & 255}.{place & 255}",\n'
        f'    "hostname" : "{name}",\n    "rackId" : "/default",\n    "config" : {{\n      "items" : [ ]\n    }}\n  }}'
        for place, (host_id, name) in enumerate(hosts)
    )
    users = ", ".join(_user(number) for number in range(40))
    flag = ',\n      "sensitive" : {}' if export.flagged else ""
    return (
        f' ],\n  "hosts" : [ {shown} ],\n  "users" : [ {users} ],\n'
        '  "versionInfo" : {\n    "version" : "7.6.5",\n    "buildUser" : "jenkins",\n    "snapshot" : false\n  },\n'
        '  "managerSettings" : {\n    "items" : [ {\n      "name" : "KDC_HOST",\n      "value" : "kdc.example.internal"'
        f"{flag.format('false')}\n    }}, {{\n"
        '      "name" : "TRUSTSTORE_PASSWORD",\n      "value" : "hive-truststore"'
        f"{flag.format('true')}\n    }} ]\n  }},\n"
        '  "peers" : [ ],\n  "hostTemplates" : {\n    "items" : [ ]\n  }\n}'
    )


def _user(number: int) -> str:
    """Spell a user; the first is `admin`, whose password is PASSWORD."""
    salt = -7318004425519934603 + number
    role, title = ("ROLE_ADMIN", "Full Administrator") if number == 0 else ("ROLE_USER", "Read-Only")
    return (
        f'{{\n    "name" : "{"admin" if number == 0 else f"user-{number:02d}"}",\n    "authRoles" : [ {{\n'
        f'      "displayName" : "{title}",\n      "name" : "{role}"\n    }} ],\n'
        f'    "pwHash" : "{_hash(salt)}",\n    "pwSalt" : {salt},\n    "pwLogin" : true\n  }}'
    )


PASSWORD = "alder-Admin1"


def _hash(salt: int) -> str:
    """Hash PASSWORD as the server does (contract section 7.3)."""
    digest = f"{PASSWORD}{{{salt}}}".encode()
    for _ in range(1024):
        digest = hashlib.sha256(digest).digest()
    return digest.hex()
