"""The support matrix: which releases of what the operator's versions of the platform support, as they say in a file."""

from collections.abc import Mapping, Sequence

from maint.errors import Invalid
from maint.model.json import Json

SUBJECTS = ("os", "python", "postgresql", "mysql")
UNKNOWN = "whether it is supported, only a support matrix says (--matrix FILE)"


def matrix_of(data: object, name: str) -> Mapping[str, Json]:
    """Return the matrix of a file `name`, or raise `Invalid`."""
    hint = "`maint help checks` describes the file"
    if not isinstance(data, Mapping) or not data:
        raise Invalid(f"{name} is not a support matrix: a mapping is expected", hint=hint)
    for subject, releases in data.items():
        if subject not in SUBJECTS:
            raise Invalid(f"{name}: a support matrix knows no {subject!r}", detail=[f"it has {', '.join(SUBJECTS)}"])
        if not isinstance(releases, Sequence) or isinstance(releases, str) or not releases:
            raise Invalid(f"{name}: {subject} is not a list of releases", hint=hint)
        for release in releases:
            if not isinstance(release, str):  # 8.10 without quotes would be the number 8.1
                raise Invalid(f"{name}: {subject} holds {release!r}, which is not a text", hint="put it in quotes")
    return {str(subject): list(releases) for subject, releases in data.items()}


def supported(matrix: Mapping[str, Json] | None, subject: str, release: str) -> bool | None:
    """Return whether a release is listed (`rhel 8` covers `rhel 8.10`), None where its subject is not in the matrix."""
    listed = (matrix or {}).get(subject)
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        return None
    said = _plain(release)
    return any(said == _plain(str(one)) or said.startswith(f"{_plain(str(one))}.") for one in listed)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())
