"""What a management API says of itself, clusters, hosts, commands (M3-5, M9, M10, M18, M19); where their files lie."""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from shlex import quote

import msgspec

from maint.model.json import Json, listed


class Door(StrEnum):
    """Which of the two ports serves the API now (M2.1)."""

    PLAIN = "plain"  # 7180 answers itself
    TLS = "tls"  # 7183 answers; 7180 is closed or redirects
    CLOSED = "closed"  # neither


class Presence(msgspec.Struct, frozen=True):
    """What an anonymous knock on both ports found."""

    door: Door  # the port to talk to
    plain: str  # words on 7180 (`answers 401`, `redirects`, `refused`, …)
    tls: str  # words on 7183
    chain: str | None = None  # None when the certificate chain was accepted or not seen, else why not
    silent: bool = False  # whether the TLS port takes connections and does not answer, which may soon be otherwise
    remedy: str | None = None  # what to do about either

    @property
    def ready(self) -> bool:
        """Whether the API answers, and does not say that it is starting."""
        if self.door is Door.CLOSED or self.chain is not None or self.silent:
            return False
        return not (self.tls if self.door is Door.TLS else self.plain).startswith("answers 5")


class Account(msgspec.Struct, frozen=True):
    """An account that was let in: its name, and whether it is the bootstrap account of the config."""

    name: str
    bootstrap: bool


class Service(msgspec.Struct, frozen=True):
    """A service of a cluster, or the management service."""

    name: str
    type: str
    state: str
    staleness: str = ""  # FRESH, STALE, STALE_REFRESHABLE; "" where it is not told


class Role(msgspec.Struct, frozen=True):
    """A role: where it runs and in what state."""

    name: str
    type: str
    state: str
    host_id: str
    maintenance: bool = False


CLOSE_COMMAND = "maint manager export --close-window"


class Place(msgspec.Struct, frozen=True):
    """What has settings or takes commands, by the manager's names; all empty: the manager itself (M18, M19)."""

    cluster: str = ""  # empty beside a service: the monitoring service
    service: str = ""
    role: str = ""
    role_group: str = ""
    host: str = ""  # its hostId
    hostname: str = ""  # of that host, for people

    def __str__(self) -> str:
        """Return it in words."""
        of_cluster = f" of {self.cluster}" if self.cluster else ""
        service = f"service {self.service}{of_cluster}"
        if self.role or self.role_group:
            return f"role {self.role} of {service}" if self.role else f"role group {self.role_group} of {service}"
        if self.service:
            return service
        if self.host:
            return f"host {self.hostname or self.host}"
        return f"cluster {self.cluster}" if self.is_cluster else "the manager"

    @property
    def options(self) -> str:
        """The options by which a command names it."""
        inner = {"--role": self.role, "--role-group": self.role_group, "--host": self.hostname or self.host}
        outer = {"--service": self.service, "--cluster": self.cluster}
        named = {key: name for key, name in inner.items() if name} or {key: name for key, name in outer.items() if name}
        return " ".join(f"{key} {quote(name)}" for key, name in named.items()) or "--manager"

    @property
    def is_cluster(self) -> bool:
        """Whether it is a cluster as a whole."""
        return bool(self.cluster) and not (self.service or self.role or self.role_group or self.host)


class Setting(msgspec.Struct, frozen=True):
    """One setting of a place; `value` is None where it is not set, so that the default counts (M19)."""

    name: str
    value: str | None = msgspec.field(default=None)
    default: str | None = None
    sensitive: bool | None = None  # None: the server does not flag

    def __repr__(self) -> str:
        return f"Setting({self.name})"


class Cluster(msgspec.Struct, frozen=True):
    """A cluster as `GET /clusters?clusterType=any` lists it; `name` is the immutable one."""

    name: str
    display_name: str
    type: str  # BASE_CLUSTER, COMPUTE_CLUSTER, EXPERIENCE_CLUSTER, or "" on old servers
    version: str
    data_contexts: Sequence[str] = ()  # names or uuids of the contexts a compute cluster uses
    uuid: str = ""  # one that is made anew under the same name has another; "" from API versions before 16

    @property
    def is_ecs(self) -> bool:
        """Whether it is the Kubernetes cluster of the data services."""
        return self.type == "EXPERIENCE_CLUSTER" or self.version.startswith(("EXPERIENCE", "DATA_SERVICES"))


def made_of(context: Mapping[str, Json], cluster: str, services: Collection[str]) -> bool:
    """Return whether a data context is made of a cluster's services (M7.2), by name where it names no cluster."""
    refs = [*listed(context.get("services")), *listed(context.get("servicesDetails"))]
    objects = [ref for ref in refs if isinstance(ref, Mapping)]
    named = [
        ref.get("clusterName")
        for ref in (*objects, *(ref.get("clusterRef") for ref in objects))
        if isinstance(ref, Mapping)
    ]
    owners = [name for name in named if name and isinstance(name, str)]
    if owners:
        return cluster in owners
    return any((ref.get("serviceName") if isinstance(ref, Mapping) else ref) in services for ref in refs)


class Host(msgspec.Struct, frozen=True):
    """A host as the manager knows it."""

    host_id: str
    hostname: str
    address: str
    cluster: str | None = None
    heard: str = ""  # when its agent was heard last, in the server's words
    listed: str = ""  # when the server said so, by its own clock; empty where it did not tell
    owners: Sequence[str] = ()  # the clusters whose roles it has, and "the management service"


class Command(msgspec.Struct, frozen=True):
    """An asynchronous command (M4)."""

    id: int
    name: str
    active: bool
    success: bool | None
    message: str
    children: Sequence["Command"] = ()

    @property
    def reason(self) -> str:
        """Why it failed: its own words, else those of its failed children, else none given (M4.3)."""
        failed = [child.reason for child in self.children if child.success is False]
        words = [text for text in (self.message, *failed) if text]
        return "; ".join(dict.fromkeys(words)) or "no reason given"


class License(msgspec.Struct, frozen=True):
    """An installed licence."""

    owner: str
    uuid: str
    expiration: str
    starts: str = ""  # this and the next from API 32 on; empty where they are not told
    deactivated: str = ""


class Instance(msgspec.Struct, frozen=True):
    """One server of a highly available manager (`GET /cm/instances`)."""

    name: str
    address: str


SETTINGS = "/etc/cloudera-scm-server"  # the folder of the next two
GUID = f"{SETTINGS}/uuid"
PROPERTIES = f"{SETTINGS}/db.properties"
STATE = "/var/lib/cloudera-scm-server"
CERTMANAGER = f"{STATE}/certmanager"
PARCELS = "/opt/cloudera/parcels"
