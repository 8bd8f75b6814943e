"""Buckets of a service that speaks S3, at the command line: what is tried of one, and what its versions hide."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.session import Session

from maint import files
from maint.lab.running import Lab
from tests.adapters.conftest import missing
from tests.cli.config.test_first_hour import flags, here, lab, states
from tests.cli.conftest import only_the_manager
from tests.s3_server import s3_server
from tests.steps.conftest import back_up
from tests.steps.operator import Operator, maint

__all__ = ["here", "lab"]


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The endpoint of a service of S3, with a bucket `company-backups`."""
    if not importlib.util.find_spec("moto") or not importlib.util.find_spec("flask"):
        missing("moto[server] is not installed")
    with s3_server("company-backups") as endpoint:
        yield endpoint


@pytest.fixture
def operator(lab: Lab) -> Operator:
    """An operator whose config, which names one host, is none of the lab's own."""
    operator = Operator(lab)
    text = Path(operator.config).read_text()
    operator.config = str(lab.folder / "bucket.yaml")
    Path(operator.config).write_text(text)
    return only_the_manager(operator, hosts=1)


def test_a_bucket_of_a_service_of_ones_own_is_tried_and_written_down(lab: Lab, here: Path, bucket: str) -> None:
    (here / "key").write_text("some-key")
    (here / "key").chmod(0o600)
    words = ["config", "init", "site.yaml", *flags(lab, store="s3://company-backups/maint")]
    keys = [word for name in ("access_key", "secret_key") for word in ("--s3", f"{name}=file:key")]
    elsewhere = maint(*words, *keys, "--s3", "endpoint=http://127.0.0.1:1", "-o", "json")
    assert (elsewhere.code, "`--s3 endpoint=URL`" in elsewhere.error["hint"]) == (1, True), elsewhere.err
    unlocked = maint(*words, *keys, "--s3", f"endpoint={bucket}", "--s3", "lock=35d", "-o", "json")
    assert (unlocked.code, "made with object lock" in unlocked.error["hint"]) == (1, True), unlocked.err
    said = maint(*words, *keys, "--s3", f"endpoint={bucket}", "--s3", "region=eu-west-1", "--s3", "lock=0s")
    assert (said.code, "can be written to: a file was put there" in said.err) == (0, True), said.err
    assert states(here / "site.yaml")["store"] == "ok"
    written = (here / "site.yaml").read_text()
    assert f"access_key: file:{here}/key " in written and "lock: 0s" in written


def test_what_somebody_removed_from_a_bucket_with_versioning_is_said_to_be_hidden_and_comes_back(
    operator: Operator, bucket: str
) -> None:
    secret = operator.lab.folder / "secret"
    files.create(secret, b"secret")
    keys = {"aws_access_key_id": "secret", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
    client = Session().create_client("s3", endpoint_url=bucket, **keys)
    client.create_bucket(Bucket="kept")
    client.put_bucket_versioning(Bucket="kept", VersioningConfiguration={"Status": "Enabled"})
    config = Path(operator.config)
    s3 = f"{{endpoint: '{bucket}', access_key: 'file:{secret}', secret_key: 'file:{secret}'}}"
    config.write_text(re.sub('store: ".*"', f"store: s3://kept/maint\n      s3: {s3}", config.read_text()))
    back_up(operator)
    for one in client.list_objects_v2(Bucket="kept")["Contents"]:
        client.delete_object(Bucket="kept", Key=one["Key"])
    said = operator("backup", "verify")
    hidden = "a bucket with versioning only hides them"
    assert (said.code, hidden in said.err, "disk" in said.err) == (1, True, False), said.err
    known = config.read_text()
    config.write_text(re.sub(r'state: "[^"]*"', f'state: "{operator.lab.folder}/new"', known, count=1))
    assert hidden in operator("backup", "list").out  # on a new machine, too
    assert hidden in operator("restore", "plan").err
    config.write_text(known)
    for marker in client.list_object_versions(Bucket="kept", Prefix="maint/")["DeleteMarkers"]:
        client.delete_object(Bucket="kept", Key=marker["Key"], VersionId=marker["VersionId"])
    assert operator("backup", "verify").code == 0
    assert operator("restore", "plan").code == 0
