"""The configuration as models: every key, its meaning, default, example; sample, JSON schema and reference follow."""

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, PrivateAttr

from maint.config.fields import (
    STORES,
    Address,
    ApiVersion,
    ClusterName,
    Count,
    Duration,
    Endpoint,
    FarPath,
    FilePath,
    HostName,
    JobsApi,
    Limit,
    Name,
    Port,
    Principal,
    Proxy,
    PublicKey,
    Recipient,
    Reference,
    Said,
    StoreAddress,
    Strict,
    Text,
    Url,
)
from maint.config.notices import Hooks, NoticeSettings
from maint.config.paths import SYSTEM_KNOWN_HOSTS, home
from maint.config.secrets import FACTORY
from maint.config.stores import S3Settings, SftpSettings
from maint.errors import Invalid
from maint.model.formatting import unknown


class Tls(Strict):
    """Something that is reached with TLS; whether its certificate is verified is not a key of the configuration."""

    _insecure: bool = PrivateAttr(default=False)

    @property
    def insecure(self) -> bool:
        """Whether the certificate is not verified, as `--insecure` or the vendor's own configuration wants."""
        return self._insecure

    def unverified(self) -> Self:
        """Return a copy that is reached without verification."""
        found = self.model_copy()
        found._insecure = True
        return found


class Login(Strict):
    """An account: its name, and a reference to its password."""

    username: Text
    password: Reference


class Bootstrap(Login):
    """The account of a fresh server, before a restore."""

    username: Text = Field(default="admin", description="its name")
    password: Reference = Field(default=FACTORY, description="reference to its password; the factory one when left out")


class KdcAccount(Login):
    """The account with which the manager makes principals in the KDC."""

    username: Text = Field(description="its name with the realm", examples=["scm/admin@EXAMPLE.INTERNAL"])
    password: Reference = Field(description="reference to its password", examples=["file:/etc/maint/kdc-password"])


class Api(Strict):
    """The versions of the management API that are asked for."""

    clusters: ApiVersion = Field(
        default="v45", validate_default=True, description="for clusters and commands", examples=["v45"]
    )
    deployment: ApiVersion = Field(
        default="v49", validate_default=True, description="for export and restore", examples=["v49"]
    )


class ManagerSettings(Tls):
    """How to reach the manager, and as whom."""

    host: HostName = Field(description="name or address of the manager", examples=["cm.example.internal"])
    plain_port: Port = Field(default=7180, description="port without TLS")
    tls_port: Port = Field(default=7183, description="port with TLS")
    username: Text = Field(default="admin", description="account for the management API")
    password: Reference = Field(description="reference to its password", examples=["file:/etc/maint/manager-password"])
    bootstrap: Bootstrap = Field(
        default=Bootstrap.model_construct(), description="account of a fresh server, before a restore"
    )
    kdc: KdcAccount | None = Field(default=None, description="account of the KDC, imported after a restore")
    ca: FilePath | None = Field(
        default=None, description="PEM bundle that the TLS port must chain to", examples=["/etc/maint/manager-ca.pem"]
    )
    api: Api = Field(default=Api(), description="API versions")
    license: FilePath | None = Field(
        default=None, description="licence file to upload before a restore", examples=["/etc/maint/license.txt"]
    )

    _allow_plain: bool = PrivateAttr(default=False)

    @property
    def allow_plain(self) -> bool:
        """Whether passwords may go in clear although `ca` is set, as `--allow-plain` wants."""
        return self._allow_plain

    @property
    def address(self) -> tuple[str, int, int]:
        """Host and ports: sites in which it is the same have one manager."""
        return self.host.lower(), self.plain_port, self.tls_port

    def in_clear(self) -> Self:
        """Return a copy to which passwords may go in clear."""
        found = self.model_copy()
        found._allow_plain = True
        return found

    @property
    def login(self) -> Login:
        """The account for the management API."""
        return Login.model_construct(username=self.username, password=self.password)


class Jump(Strict):
    """A host that connections go through."""

    host: HostName = Field(description="name or address", examples=["bastion.example.internal"])
    user: Text | None = Field(default=None, description="account there; the same as on the hosts when left out")
    port: Port = Field(default=22, description="SSH port there")


class Sudo(Strict):
    """How commands become root."""

    password: Reference | None = Field(
        default=None,
        description="reference to the password that sudo asks for",
        examples=["file:/etc/maint/sudo-password"],
    )


class SshSettings(Strict):
    """How to reach the hosts."""

    user: Text = Field(default="root", description="account on the hosts")
    key: FilePath | None = Field(default=None, description="private key", examples=["/etc/maint/id_ed25519"])
    known_hosts: FilePath | None = Field(
        default=None, description="host keys that are trusted", examples=["/etc/maint/known_hosts"]
    )
    port: Port = Field(default=22, description="SSH port")
    at_once: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=64, description="hosts that are asked at the same time"
    )
    connect_timeout: Limit = Field(default=10.0, description="limit for a connection", examples=["10s"])
    command_timeout: Limit = Field(default=60.0, description="limit for a command", examples=["60s"])
    jump: Jump | None = Field(default=None, description="host that connections go through")
    sudo: bool | Sudo = Field(default=False, description="run commands with sudo: true, or its password")

    @property
    def sudo_password(self) -> str | None:
        """The reference to the password that sudo asks for."""
        return self.sudo.password if isinstance(self.sudo, Sudo) else None

    @property
    def trusted_files(self) -> Sequence[Path]:
        """The files whose host keys are trusted, there or not; into the first of them such a key is recorded."""
        return [self.known_hosts] if self.known_hosts else [home() / ".ssh/known_hosts", SYSTEM_KNOWN_HOSTS]


class Accepted(Strict):
    """A known deviation: somebody answers for it, until a day."""

    check: Text = Field(description="id of the check", examples=["os.selinux"])
    hosts: tuple[Text, ...] = Field(
        default=(), description="hosts it is accepted for; all when left out", examples=[["cm"]]
    )
    reason: Said = Field(description="why", examples=["agreed with security"])
    owner: Said = Field(description="who answers for it", examples=["ops"])
    until: date = Field(description="last day", examples=["2027-06-30"])


class HostSettings(Strict):
    """A host of the platform."""

    name: Name = Field(description="how maint calls it", examples=["cm"])
    address: Address = Field(
        default=None,
        validate_default=True,
        description="where SSH reaches it; its name when left out",
        examples=["cm.example.internal"],
    )
    port: Port | None = Field(default=None, description="SSH port when it differs", examples=[22])
    groups: tuple[Name, ...] = Field(
        default=(), description="base, ecs, ecs-master, manager, or names of your own", examples=[["manager"]]
    )


class Keep(Strict):
    """How many snapshots of each kind stay."""

    last: Count = Field(default=0, description="newest ones", examples=[3])
    hourly: Count = Field(default=0, description="one an hour", examples=[0])
    daily: Count = Field(default=0, description="one a day", examples=[7])
    weekly: Count = Field(default=0, description="one a week", examples=[5])
    monthly: Count = Field(default=0, description="one a month", examples=[12])
    yearly: Count = Field(default=0, description="one a year", examples=[0])


class PartsSettings(Strict):
    """Further parts of a snapshot; left out: taken where they can be had; true: their lack is exit 7; false: never."""

    license: bool | None = Field(default=None, description="the licence that manager.license names", examples=[True])
    truststore_password: bool | None = Field(
        default=None, description="the password of the shared truststore", examples=[True]
    )
    manager_files: bool | None = Field(
        default=None, description="the manager's own files, read over SSH", examples=[True]
    )
    database: bool = Field(
        default=False,
        description="a dump of the manager's database, made on its host; false unless said",
        examples=[True],
    )


class BackupSettings(Strict):
    """Where snapshots go, for whom they are encrypted, and what is kept."""

    on_redacted: Literal["problem", "accept", "window"] = Field(
        default="problem", description="an export without secrets is a problem (exit 7), accepted, or opens a window"
    )
    store: StoreAddress = Field(description=STORES, examples=["/var/lib/maint/backups"])
    copies: tuple[StoreAddress, ...] = Field(
        default=(), description="further stores", examples=[["sftp://backup.example.internal/srv/maint"]]
    )
    sftp: SftpSettings = Field(default=SftpSettings.model_construct(), description="how SFTP stores are reached")
    s3: S3Settings = Field(default=S3Settings.model_construct(), description="how S3 stores are reached")
    recipients: tuple[Recipient, ...] = Field(
        default=(),
        description="age public keys that can decrypt",
        examples=[["age1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq"]],
    )
    identity: Reference | None = Field(
        default=None,
        description="reference to the private key, only where backups are read",
        examples=["file:/etc/maint/identity"],
    )
    parts: PartsSettings = Field(default=PartsSettings.model_construct(), description="further parts of a snapshot")
    keep: Keep | None = Field(default=None, description="what pruning keeps")
    max_age: Duration = Field(
        default=93600.0,
        description="how old the newest verified restorable backup may get before it is stale",
        examples=["26h"],
    )
    minimum: Count = Field(default=3, description="verified restorable snapshots that pruning never goes below")
    reread: Duration = Field(
        default=604800.0,
        description="age from which on what was read of a stored file of a virtual cluster is read again by a backup",
        examples=["7d"],
    )
    signing_key: Reference | None = Field(
        default=None,
        description="reference to the Ed25519 key that signs; made in the state folder when left out",
        examples=["file:/etc/maint/signing"],
    )
    fingerprint_key: Reference | None = Field(
        default=None,
        description="reference to the key of secrets' fingerprints; made in the state folder when left out",
        examples=["file:/etc/maint/fingerprint"],
    )
    trusted_keys: tuple[PublicKey, ...] = Field(
        default=(),
        description="whose signatures are believed; the site's own key always is",
        examples=[["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"]],
    )


class TlsPair(Strict):
    """The certificate for `vc init`; without it the utility makes its own."""

    cert: FilePath = Field(description="certificate (PEM)", examples=["/etc/maint/vc.pem"])
    key: Reference = Field(description="reference to its private key", examples=["file:/etc/maint/vc.key"])


class VirtualClusterUser(Strict):
    """A user of a virtual cluster, for `vc init-user`."""

    name: Name = Field(description="name", examples=["etl_user"])
    principal: Principal = Field(description="Kerberos principal, or file:PATH", examples=["etl_user@EXAMPLE.INTERNAL"])
    keytab: Reference = Field(description="reference to its keytab", examples=["file:/etc/maint/etl_user.keytab"])


class VirtualClusterSettings(Tls):
    """A virtual cluster of the Data Engineering service."""

    name: ClusterName = Field(description="how maint calls it", examples=["default-vc"])
    base_url: JobsApi = Field(
        description="its jobs API; ends with /dex/api/v1",
        examples=["https://abcd1234.cde-efgh5678.apps.example.internal/dex/api/v1"],
    )
    auth_url: Url = Field(
        description="where tokens come from", examples=["https://service.cde-efgh5678.apps.example.internal"]
    )
    token_service: Name = Field(default="knoxtoken", description="topology that gives tokens")
    username: Text = Field(description="workload user", examples=["etl_user"])
    password: Reference = Field(description="reference to its password", examples=["credential:etl_password"])
    ca: FilePath | None = Field(
        default=None, description="PEM bundle for both addresses", examples=["/etc/maint/apps-ca.pem"]
    )
    connect_to: Endpoint | None = Field(
        default=None, description="where to connect when DNS is not to be trusted", examples=["10.0.0.21:443"]
    )
    tls: TlsPair | None = Field(default=None, description="certificate for vc init")
    utility: FarPath | None = Field(
        default=None,
        description="absolute path of the utility script on the first ecs-master host; looked for when left out",
        examples=["/opt/maint/cde-utils.sh"],
    )
    users: tuple[VirtualClusterUser, ...] = Field(default=(), description="users for vc init-user")

    @property
    def login(self) -> Login:
        """The workload user."""
        return Login.model_construct(username=self.username, password=self.password)


class HistorySettings(Strict):
    """Which runs are remembered: the newest, and young ones; those that may be taken up always are."""

    last: Count = Field(default=100, description="how many of the newest stay", examples=[100])
    age: Duration = Field(default=90 * 86400.0, description="how young a run is that stays", examples=["90d"])


class Site(Strict):
    """One platform: a manager, its hosts, its backups, its virtual clusters."""

    manager: ManagerSettings = Field(description="the manager")
    labels: dict[Name, Text] = Field(
        default={}, description="what `--label KEY=VALUE` chooses it by", examples=[{"region": "eu"}]
    )
    ssh: SshSettings | None = Field(default=None, description="how to reach the hosts")
    app_domain: HostName | None = Field(
        default=None,
        description="domain of the data services; found out when left out",
        examples=["apps.example.internal"],
    )
    accepted: tuple[Accepted, ...] = Field(default=(), description="known deviations")
    hosts: tuple[HostSettings, ...] = Field(default=(), description="the hosts")
    backup: BackupSettings | None = Field(default=None, description="backups")
    virtual_clusters: tuple[VirtualClusterSettings, ...] = Field(default=(), description="virtual clusters")
    proxy: Proxy | None = Field(
        default=None,
        description="HTTP proxy to manager, virtual clusters and notices; NO_PROXY counts, HTTPS_PROXY does not",
        examples=["http://proxy.example.internal:3128"],
    )
    hooks: Hooks | None = Field(default=None, description="programs that run around each run")
    notify: tuple[NoticeSettings, ...] = Field(default=(), description="the notices: who gets which")
    shared_state: StoreAddress | None = Field(
        default=None, description="where machines that share this site meet", examples=["s3://maint/state"]
    )
    shared_state_key: Reference | None = Field(
        default=None, description="their age key, which seals runs there", examples=["file:/etc/maint/shared"]
    )
    history: HistorySettings | None = Field(
        default=None, description="old runs are forgotten after each run; left out, by `playbook history --prune` alone"
    )
    metrics: FilePath | None = Field(
        default=None,
        description="file that each run writes for Prometheus' textfile collector; its name ends in .prom",
        examples=["/var/lib/prometheus/node-exporter/maint.prom"],
    )


class SiteSettings(Site):
    """A site with its name, and the folder of its lock, journals, undo objects and keys."""

    name: str
    state: Path
    report_folder: Path | None = None  # of the catalogue pages
    beside: Mapping[str, str] = {}  # all sites by name: why one cannot be used, else empty
    same_manager: tuple[str, ...] = ()  # the other sites that have this manager
    config: str = ""  # what a command is told so that it finds the config, `--config PATH`; empty: nothing

    @classmethod
    def of(
        cls,
        site: Site,
        *,
        name: str,
        state: Path,
        report: Path | None = None,
        beside: Mapping[str, str] = {},
        same_manager: tuple[str, ...] = (),
        config: str = "",
    ) -> Self:
        """Return what is configured of a site that was read, and of what is about all sites."""
        return cls.model_construct(
            name=name,
            state=state,
            report_folder=report,
            beside=beside,
            same_manager=same_manager,
            config=config,
            **{key: getattr(site, key) for key in Site.model_fields},
        )

    def virtual_cluster(self, name: str) -> VirtualClusterSettings:
        """Return a virtual cluster by name (empty: the only one).

        Raises:
            UnknownName: there is none of that name.
            Invalid: none is configured, or there is a choice.
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
        choice = f"name one, such as {known[0]}: `--vc` of a command, `vc` of a playbook's step"
        if not found:
            raise unknown(f"there is no virtual cluster {name!r}", name, known, choice)
        raise Invalid(
            "several virtual clusters are configured", detail=[f"configured: {', '.join(known)}"], hint=choice
        )

    def hosts_in(self, group: str) -> tuple[HostSettings, ...]:
        """Return the hosts of a group; the group `manager` is the manager's own address when none is listed."""
        found = tuple(host for host in self.hosts if group in host.groups)
        if not found and group == "manager":
            return (
                HostSettings.model_construct(name=self.manager.host, address=self.manager.host, groups=("manager",)),
            )
        return found

    def references(self, *stores: str) -> dict[str, str]:
        """Return the secret references of a run that uses these stores: the key in the config → the reference."""
        ssh, backup = self.ssh, self.backup
        found = {
            "manager.password": self.manager.password,
            "manager.bootstrap.password": self.manager.bootstrap.password,
            "ssh.sudo.password": ssh.sudo_password if ssh else None,
            "backup.identity": backup.identity if backup else None,
            "backup.signing_key": backup.signing_key if backup else None,
            "backup.fingerprint_key": backup.fingerprint_key if backup else None,
            "shared_state_key": self.shared_state_key,
        }
        for store in (*stores, self.shared_state or ""):
            found |= backup.s3.keys(store) if backup else {}
        found |= {f"virtual_clusters.{one.name}.password": one.password for one in self.virtual_clusters}
        return {key: reference for key, reference in found.items() if reference}


class ReportSettings(Strict):
    """The catalogue pages."""

    folder: FilePath = Field(
        description="folder of the catalogue pages, which each run writes anew", examples=["/srv/www/maint"]
    )


class Config(Strict):
    """The configuration file."""

    state: FilePath | None = Field(
        default=None,
        description="where locks, journals, undo objects and keys live; its default depends on where this file is",
        examples=["/var/lib/maint"],
    )
    report: ReportSettings | None = Field(default=None, description="pages to look at (maint help pages)")
    sites: dict[Name, Site] = Field(description="the sites by name", min_length=1)
