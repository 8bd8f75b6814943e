"""How stores on other machines are reached: SFTP and S3."""

from typing import Literal

from pydantic import Field

from maint.config.fields import Duration, FilePath, Proxy, Reference, Strict, Text, Url


class SftpSettings(Strict):
    """How stores on other hosts are reached, where that differs from the site's hosts."""

    key: FilePath | None = Field(
        default=None,
        description="private key for SFTP stores; `ssh.key` when left out",
        examples=["/etc/maint/id_backup"],
    )
    known_hosts: FilePath | None = Field(
        default=None,
        description="host keys of SFTP stores; `ssh.known_hosts` when left out",
        examples=["/etc/maint/known_hosts_backup"],
    )


class S3Bucket(Strict):
    """How one bucket is reached; what is left out is as for all."""

    name: Text = Field(description="the bucket", examples=["offsite-backups"])
    endpoint: Url | None = Field(default=None, description="its service", examples=["https://s3.elsewhere.example"])
    region: Text | None = Field(default=None, description="its region", examples=["eu-west-1"])
    access_key: Reference | None = Field(
        default=None,
        description="reference to the id of its access key",
        examples=["file:/etc/maint/offsite-access-key"],
    )
    secret_key: Reference | None = Field(
        default=None, description="reference to its secret access key", examples=["file:/etc/maint/offsite-secret-key"]
    )
    ca: FilePath | None = Field(
        default=None, description="PEM bundle that its service must chain to", examples=["/etc/maint/offsite-ca.pem"]
    )
    lock: Duration | None = Field(default=None, description="object lock, as for all; 0s: none", examples=["35d"])


class S3Settings(Strict):
    """How S3-compatible stores are reached."""

    endpoint: Url | None = Field(
        default=None, description="the service; Amazon's when left out", examples=["https://s3.example.internal"]
    )
    region: Text = Field(default="us-east-1", description="region that requests are signed for")
    access_key: Reference = Field(
        default="env:AWS_ACCESS_KEY_ID",
        description="reference to the access key's id",
        examples=["file:/etc/maint/s3-access-key"],
    )
    secret_key: Reference = Field(
        default="env:AWS_SECRET_ACCESS_KEY",
        description="reference to the secret access key",
        examples=["file:/etc/maint/s3-secret-key"],
    )
    ca: FilePath | None = Field(
        default=None, description="PEM bundle that the service must chain to", examples=["/etc/maint/s3-ca.pem"]
    )
    proxy: Proxy | None = Field(default=None, description="an HTTP proxy; else HTTPS_PROXY and NO_PROXY count")
    lock: Duration | None = Field(
        default=None,
        description="object lock: how long nobody can remove what is written; the bucket must have been made with it",
        examples=["35d"],
    )
    lock_mode: Literal["compliance", "governance"] = Field(
        default="compliance", description="governance: whoever has the right to may remove it all the same"
    )
    buckets: tuple[S3Bucket, ...] = Field(default=(), description="buckets that are reached in another way")

    def own(self, bucket: str) -> S3Bucket | None:
        """Return what is said of one bucket alone."""
        return next((one for one in self.buckets if one.name == bucket), None)

    def of(self, bucket: str) -> "S3Settings":
        """Return how a bucket is reached: as all are, but for what is said of it alone."""
        own = self.own(bucket)
        said = own.model_dump(exclude={"name"}, exclude_none=True) if own else {}
        return self.model_copy(update=said)

    def where(self, bucket: str, key: str = "") -> str:
        """Return where the config says how a bucket is reached, or where it says one key of that."""
        own = self.own(bucket)
        is_own = own is not None and (not key or getattr(own, key) is not None)
        return (f"backup.s3.buckets.{bucket}" if is_own else "backup.s3") + (f".{key}" if key else "")

    def keys(self, store: str) -> dict[str, str]:
        """Return the references to the keys with which a store is reached, by their names in the config; else {}."""
        if not store.startswith("s3://"):
            return {}
        bucket = store.removeprefix("s3://").partition("/")[0]
        of = self.of(bucket)
        return {
            self.where(bucket, "access_key"): of.access_key,
            self.where(bucket, "secret_key"): of.secret_key,
        }
