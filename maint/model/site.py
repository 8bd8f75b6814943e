"""A site: where the manager is, how to log in, which hosts belong to it, and how its backups are kept.

Secrets are references (`file:…`, `env:…`); `ports.Secrets` turns one into a value when it is needed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from maint.errors import Invalid
from maint.model.noun import Noun


class Login(Noun):
    """An account: its name, and a reference to its password."""

    username: str
    password: str


class ManagerSettings(Noun):
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


class SshSettings(Noun):
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


class HostSettings(Noun):
    """One host by the name the config gives it."""

    name: str
    address: str
    port: int | None = None
    groups: Sequence[str] = ()


class Keep(Noun):
    """How many snapshots of each kind stay."""

    last: int = 0
    hourly: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    yearly: int = 0


class SftpSettings(Noun):
    """How stores on other hosts are reached, where that differs from the site's hosts."""

    key: Path | None = None
    known_hosts: Path | None = None


class S3Settings(Noun):
    """How S3-compatible stores are reached; without an endpoint it is the provider's own for the region."""

    endpoint: str | None = None
    region: str = "us-east-1"
    access_key: str = "env:AWS_ACCESS_KEY_ID"  # reference
    secret_key: str = "env:AWS_SECRET_ACCESS_KEY"  # reference
    ca: Path | None = None
    buckets: Mapping[str, "S3Settings"] = field(default_factory=dict)  # those that are reached in another way

    def of(self, bucket: str) -> "S3Settings":
        """Return how a bucket is reached."""
        return self.buckets.get(bucket, self)


class PartsSettings(Noun):
    """Further parts of a snapshot: None: taken where they can be had; True: their lack is a problem; False: never."""

    license: bool | None = None
    truststore_password: bool | None = None
    manager_files: bool | None = None


class BackupSettings(Noun):
    """Where backups go, for whom they are sealed, and what is kept."""

    store: str
    on_redacted: str = "problem"  # problem, accept or window
    recipients: Sequence[str] = ()
    identity: str | None = None  # reference
    signing_key: str | None = None  # reference
    trusted_keys: Sequence[str] = ()
    keep: Keep | None = None
    minimum: int = 3
    fingerprint_key: str | None = None  # reference
    copies: Sequence[str] = ()  # further stores
    parts: PartsSettings = field(default_factory=PartsSettings)
    sftp: SftpSettings = field(default_factory=SftpSettings)
    s3: S3Settings = field(default_factory=S3Settings)


class TlsPair(Noun):
    """A certificate, and a reference to its private key."""

    cert: Path
    key: str


class VirtualClusterUser(Noun):
    """A user of a virtual cluster and the Kerberos identity that its jobs run with."""

    name: str
    principal: str  # text, or file:PATH
    keytab: str  # reference


class VirtualClusterSettings(Noun):
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


class SiteSettings(Noun):
    """All that is configured for one site."""

    name: str
    manager: ManagerSettings
    state: Path  # folder of this site's lock, journals, undo objects and keys
    ssh: SshSettings | None = None
    hosts: Sequence[HostSettings] = ()
    backup: BackupSettings | None = None
    virtual_clusters: Sequence[VirtualClusterSettings] = ()
    app_domain: str | None = None
    accepted: Sequence[Mapping[str, object]] = field(default_factory=tuple)
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
