"""What differs by release: thresholds as data, and the support matrix that the operator supplies."""

from collections.abc import Mapping, Sequence

from maint.errors import Invalid
from maint.model.json import Json

Release = tuple[int, ...]

# The newest entry that is not newer than the release counts.
# subject → (since which release, value); releases are the manager's, but for those that say otherwise.
THRESHOLDS: dict[str, Sequence[tuple[Release, int]]] = {
    "swappiness.best": [((0,), 1)],
    "swappiness.most": [((0,), 10)],
    "somaxconn.least": [((0,), 16000)],
    "entropy.least": [((0,), 500)],
    "nproc.least": [((0,), 65536)],
    "nofile.least": [((0,), 32768)],
    "domain.most": [((0,), 29)],  # characters of the app domain
    "ipv6.allowed": [((0,), 0), ((7, 13), 1)],  # whether the documentation allows IPv6 to be on
    "nscd.wanted": [((0,), 1), ((10,), 0)],  # by release of the operating system, which dropped it in 10
    "iptables.legacy": [((0,), 0), ((9,), 1)],  # by release of the operating system; the guides contradict each other
    "heap.least": [((0,), 2)],  # GiB
    "heap.large": [((0,), 4)],  # GiB, over 100 hosts
    "oracle.processes": [((0,), 250)],
}

# java vendor and major → the lowest update that is supported; a major without an entry is not known.
JAVA: dict[tuple[str, int], tuple[int, ...]] = {
    ("oracle", 8): (181,),
    ("openjdk", 8): (232,),
    ("azul", 8): (232,),  # Azul 8.56.0.21 carries 8u302; its release file tells the update alone
    ("any", 11): (0,),
    ("any", 17): (0,),
}
# From which update on referrals must be switched off for a KDC to answer (JDK-8215032).
REFERRALS: dict[int, tuple[int, ...]] = {8: (242,), 11: (0, 6), 17: (0,)}


def threshold(subject: str, release: str = "") -> int:
    """Return a threshold for a release such as `7.13.1`; without a release, the newest one."""
    wanted = tuple(int(part) for part in release.split(".") if part.isdigit()) or (10**6,)
    return [value for since, value in THRESHOLDS[subject] if since <= wanted][-1]


SUBJECTS = ("os", "python", "postgresql", "mysql", "bad_kernels")
UNKNOWN = "whether it is supported, only a support matrix says (--matrix FILE)"


def matrix_of(data: object, name: str) -> Mapping[str, Json]:
    """Return the matrix of a file `name`, or raise `Invalid`."""
    hint = "`maint help checks` describes the file"
    if not isinstance(data, Mapping) or not data:
        raise Invalid(f"{name} is not a support matrix: a mapping is expected", hint=hint)
    for subject, releases in data.items():
        if subject not in SUBJECTS:
            raise Invalid(
                f"{name}: a support matrix knows no {subject!r}",
                detail=[f"it has {', '.join(SUBJECTS)}"],
                hint="correct the name, or leave it out; `maint help checks` describes the file",
            )
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
    return " ".join(text.lower().replace("-", ".").split())
