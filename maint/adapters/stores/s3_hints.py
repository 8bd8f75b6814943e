"""What helps where an S3-compatible service says no, by the code that it answers with."""

from collections.abc import Mapping
from typing import Any

_RIGHTS = "look at the rights of the access key: `maint help stores` names those that it needs"
_BUSY = "the service is busy or in trouble: try again later, and look at its state where that stays"
_FULL = "make room in the service, or have it allow more"
_REGION = "write in {s3}.region the region of the bucket, which the service names above"
# What botocore can follow alone, by the region that the service names, never comes here: then the address is fixed.
ELSEWHERE = "{s3}.endpoint must be the service itself, in the bucket's region"
CONDITION = "use a service that honours conditional writes (Ceph: a bucket without versioning)"
# What helps, by what S3 answers; `{s3}`: where the config says how the bucket is reached.
_HINTS = {
    "403": _RIGHTS,
    "AccessDenied": _RIGHTS,
    "InvalidAccessKeyId": "look at {s3}.access_key; keys that go with a session token cannot be used",
    "InvalidToken": "look at {s3}.access_key; keys that go with a session token cannot be used",
    "ExpiredToken": "the access key has expired: have a new one made, for {s3}.access_key and secret_key",
    "SignatureDoesNotMatch": "look at {s3}.secret_key",
    "RequestTimeTooSkewed": "set this machine's clock right (timedatectl), or the service's",
    "NoSuchBucket": "look at the bucket's name in the address, and at {s3}.endpoint; a new bucket must be made first",
    "AuthorizationHeaderMalformed": _REGION,
    **dict.fromkeys(
        ("IllegalLocationConstraintException", "PermanentRedirect", "TemporaryRedirect", "301", "302", "307"), ELSEWHERE
    ),
    "EntityTooLarge": "the service ignores If-None-Match on uploads in pieces, and takes no file as large in one",
    "NotImplemented": CONDITION,
    "QuotaExceeded": _FULL,
    "XMinioAdminBucketQuotaExceeded": _FULL,
    "XMinioStorageFull": _FULL,
}
_LOCK = "leave {s3}.lock out, or name a bucket that was made with object lock"
_ANSWERED = "the service is there, and refuses this: what it says of that code tells why; look at {s3} and the bucket"


def hint_for(answer: Mapping[str, Any], where: str) -> str:
    """Return what helps after an error, as botocore reads it; `where` the config says how the bucket is reached."""
    error, about = answer.get("Error", {}), answer.get("ResponseMetadata", {})
    status, region = about.get("HTTPStatusCode", 0), about.get("HTTPHeaders", {}).get("x-amz-bucket-region", "")
    if error.get("Code") == "InvalidRequest" and "lock" in str(error.get("Message", "")).lower():
        found = _LOCK
    else:
        found = _HINTS.get(error.get("Code"), _ANSWERED if status < 500 else _BUSY)
    return found.format(s3=where) + (f", {region}" if region and found == ELSEWHERE else "")
