"""Turn the decoded configuration of a site into the settings that the rest of maint works with."""

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from maint.config import schema
from maint.model.json import Json
from maint.model.site import (
    BackupSettings,
    HostSettings,
    Keep,
    Login,
    ManagerSettings,
    PartsSettings,
    S3Settings,
    SftpSettings,
    SiteSettings,
    SshSettings,
    TlsPair,
    VirtualClusterSettings,
    VirtualClusterUser,
)


def settings(name: str, site: schema.Site, *, state: Path, place: Callable[[str], Path]) -> SiteSettings:
    """Return a site's settings.

    Args:
        name: the site's name.
        site: what the config says.
        state: the folder of all sites' state.
        place: turns a path of the config into an absolute one.
    """
    return SiteSettings(
        name=name,
        manager=_manager(site.manager, place),
        state=state / name,
        ssh=_ssh(site.ssh, place) if site.ssh else None,
        hosts=tuple(HostSettings(h.name, h.address or h.name, h.port, tuple(h.groups)) for h in site.hosts),
        backup=_backup(site.backup, place) if site.backup else None,
        virtual_clusters=tuple(_virtual_cluster(cluster, place) for cluster in site.virtual_clusters),
        app_domain=site.app_domain,
        accepted=tuple(_accepted(item) for item in site.accepted),
        metrics=_optional(site.metrics, place),
    )


def _optional(path: str | None, place: Callable[[str], Path]) -> Path | None:
    return None if path is None else place(path)


def _manager(manager: schema.Manager, place: Callable[[str], Path]) -> ManagerSettings:
    return ManagerSettings(
        host=manager.host,
        login=Login(manager.username, manager.password),
        plain_port=manager.plain_port,
        tls_port=manager.tls_port,
        bootstrap=Login(manager.bootstrap.username, manager.bootstrap.password),
        ca=_optional(manager.ca, place),
        clusters_api=manager.api.clusters,
        deployment_api=manager.api.deployment,
        license=_optional(manager.license, place),
    )


def _ssh(ssh: schema.Ssh, place: Callable[[str], Path]) -> SshSettings:
    jump = ssh.jump
    return SshSettings(
        user=ssh.user,
        key=_optional(ssh.key, place),
        known_hosts=_optional(ssh.known_hosts, place),
        port=ssh.port,
        at_once=ssh.at_once,
        connect_timeout=ssh.connect_timeout,
        command_timeout=ssh.command_timeout,
        jump={"host": jump.host, "user": jump.user or ssh.user, "port": jump.port} if jump else None,
        sudo=ssh.sudo is not False,
        sudo_password=ssh.sudo.password if isinstance(ssh.sudo, schema.Sudo) else None,
    )


def store_address(text: str, place: Callable[[str], Path]) -> str:
    """Return a store's address; a local one as an absolute path."""
    return text if "://" in text else str(place(text))


def _backup(backup: schema.Backup, place: Callable[[str], Path]) -> BackupSettings:
    return BackupSettings(
        store=store_address(backup.store, place),
        on_redacted=backup.on_redacted,
        recipients=tuple(backup.recipients),
        identity=backup.identity,
        signing_key=backup.signing_key,
        trusted_keys=tuple(backup.trusted_keys),
        keep=Keep(**backup.keep.model_dump()) if backup.keep else None,
        minimum=backup.minimum,
        reread=backup.reread,
        fingerprint_key=backup.fingerprint_key,
        copies=tuple(store_address(copy, place) for copy in backup.copies),
        parts=PartsSettings(**backup.parts.model_dump()),
        sftp=SftpSettings(_optional(backup.sftp.key, place), _optional(backup.sftp.known_hosts, place)),
        s3=_s3(backup.s3, place),
    )


def _s3(s3: schema.S3, place: Callable[[str], Path]) -> S3Settings:
    general = S3Settings(s3.endpoint, s3.region, s3.access_key, s3.secret_key, _optional(s3.ca, place))
    buckets = {
        one.name: S3Settings(
            endpoint=one.endpoint or general.endpoint,
            region=one.region or general.region,
            access_key=one.access_key or general.access_key,
            secret_key=one.secret_key or general.secret_key,
            ca=_optional(one.ca, place) or general.ca,
        )
        for one in s3.buckets
    }
    return replace(general, buckets=buckets)


def _virtual_cluster(cluster: schema.VirtualCluster, place: Callable[[str], Path]) -> VirtualClusterSettings:
    return VirtualClusterSettings(
        name=cluster.name,
        base_url=cluster.base_url,
        auth_url=cluster.auth_url,
        login=Login(cluster.username, cluster.password),
        token_service=cluster.token_service,
        ca=_optional(cluster.ca, place),
        connect_to=cluster.connect_to,
        tls=TlsPair(place(cluster.tls.cert), cluster.tls.key) if cluster.tls else None,
        utility=cluster.utility,
        users=tuple(
            VirtualClusterUser(user.name, _principal(user.principal, place), user.keytab) for user in cluster.users
        ),
    )


def _principal(text: str, place: Callable[[str], Path]) -> str:
    """Return a principal; a file's path as an absolute one."""
    return f"file:{place(text.removeprefix('file:'))}" if text.startswith("file:") else text


def _accepted(accepted: schema.Accepted) -> dict[str, Json]:
    return {
        "check": accepted.check,
        "hosts": tuple(accepted.hosts),
        "reason": accepted.reason,
        "owner": accepted.owner,
        "until": accepted.until.isoformat(),
    }
