"""A site: where the manager is, how to log in, which hosts belong to it, and how its backups are kept.

Secrets are references (`file:…`, `env:…`); `ports.Secrets` turns one into a value when it is needed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from maint.errors import Invalid


class Login(msgspec.Struct, frozen=True):
    """An account: its name, and a reference to its password."""

    username: str
    password: str


class ManagerSettings(msgspec.Struct, frozen=True):
    """How to reach a manager."""

    host: str
    login: Login
    plain_port: int = 7180
    tls_port: int = 7183
    bootstrap: Login | None = None
    ca: Path | None = None
    clusters_api: int = 45
    deployment_api: int = 49
    license: Path | None = None
    insecure: bool = False
    allow_plain: bool = False  # passwords may go in clear although `ca` is set: --allow-plain


class SshSettings(msgspec.Struct, frozen=True):
    """How to reach hosts; time-outs in seconds."""

    user: str = "root"
    key: Path | None = None
    known_hosts: Path | None = None
    port: int = 22
    at_once: int = 64
    connect_timeout: float = 10.0
    command_timeout: float = 60.0
    jump: Mapping[str, str | int] | None = None  # host, user, port
    sudo: bool = False
    sudo_password: str | None = None  # reference


class HostSettings(msgspec.Struct, frozen=True):
    """One host by the name the config gives it."""

    name: str
    address: str
    port: int | None = None
    groups: Sequence[str] = ()


class Keep(msgspec.Struct, frozen=True):
    """How many snapshots of each kind stay."""

    last: int = 0
    hourly: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    yearly: int = 0


class SftpSettings(msgspec.Struct, frozen=True):
    """How stores on other hosts are reached, where that differs from the site's hosts."""

    key: Path | None = None
    known_hosts: Path | None = None


class S3Settings(msgspec.Struct, frozen=True):
    """How S3-compatible stores are reached; without an endpoint it is the provider's own for the region."""

    endpoint: str | None = None
    region: str = "us-east-1"
    access_key: str = "env:AWS_ACCESS_KEY_ID"  # reference
    secret_key: str = "env:AWS_SECRET_ACCESS_KEY"  # reference
    ca: Path | None = None
    buckets: Mapping[str, "S3Settings"] = {}  # those that are reached in another way

    def of(self, bucket: str) -> "S3Settings":
        """Return how a bucket is reached."""
        return self.buckets.get(bucket, self)


class PartsSettings(msgspec.Struct, frozen=True):
    """Further parts of a snapshot: None: taken where they can be had; True: their lack is a problem; False: never."""

    license: bool | None = None
    truststore_password: bool | None = None
    manager_files: bool | None = None


class BackupSettings(msgspec.Struct, frozen=True):
    """Where backups go, for whom they are sealed, and what is kept."""

    store: str
    on_redacted: str = "problem"  # problem, accept or window
    recipients: Sequence[str] = ()
    identity: str | None = None  # reference
    signing_key: str | None = None  # reference
    trusted_keys: Sequence[str] = ()
    keep: Keep | None = None
    minimum: int = 3
    reread: float = 604800.0  # seconds
    fingerprint_key: str | None = None  # reference
    copies: Sequence[str] = ()  # further stores
    parts: PartsSettings = PartsSettings()
    sftp: SftpSettings = SftpSettings()
    s3: S3Settings = S3Settings()


class TlsPair(msgspec.Struct, frozen=True):
    """A certificate, and a reference to its private key."""

    cert: Path
    key: str


class VirtualClusterUser(msgspec.Struct, frozen=True):
    """A user of a virtual cluster and the Kerberos identity that its jobs run with."""

    name: str
    principal: str  # text, or file:PATH
    keytab: str  # reference


class VirtualClusterSettings(msgspec.Struct, frozen=True):
    """One virtual cluster of the Data Engineering service."""

    name: str
    base_url: str
    auth_url: str
    login: Login
    token_service: str = "knoxtoken"
    ca: Path | None = None
    connect_to: str | None = None
    tls: TlsPair | None = None
    utility: str | None = None  # path of the utility script on the host
    users: Sequence[VirtualClusterUser] = ()
    insecure: bool = False  # only as the vendor's own configuration says


class SiteSettings(msgspec.Struct, frozen=True):
    """All that is configured for one site."""

    name: str
    manager: ManagerSettings
    state: Path  # folder of this site's lock, journals, undo objects and keys
    ssh: SshSettings | None = None
    hosts: Sequence[HostSettings] = ()
    backup: BackupSettings | None = None
    virtual_clusters: Sequence[VirtualClusterSettings] = ()
    app_domain: str | None = None
    accepted: Sequence[Mapping[str, object]] = ()
    metrics: Path | None = None  # file for Prometheus' textfile collector

    def virtual_cluster(self, name: str) -> VirtualClusterSettings:
        """Return a virtual cluster by name, the only one where the name is empty.

        Raises:
            Invalid: there is none of that name, or there are several to choose from.
        """
        known = [cluster.name for cluster in self.virtual_clusters]
        found = [cluster for cluster in self.virtual_clusters if not name or cluster.name == name]
        if len(found) == 1:
            return found[0]
        if not known:
            raise Invalid(
                f"site {self.name} has no virtual clusters in its config",
                hint="add `virtual_clusters: [{name: …, base_url: …, auth_url: …, username: …, password: …}]`",
            )
        problem = "several virtual clusters are configured" if found else f"there is no virtual cluster {name!r}"
        raise Invalid(problem, detail=[f"configured: {', '.join(known)}"], hint=f"choose one: --vc {known[0]}")

    def hosts_in(self, group: str) -> tuple[HostSettings, ...]:
        """Return the hosts of a group; the group `manager` is the manager's own address when none is listed."""
        found = tuple(host for host in self.hosts if group in host.groups)
        if not found and group == "manager":
            return (HostSettings(name=self.manager.host, address=self.manager.host, groups=("manager",)),)
        return found
