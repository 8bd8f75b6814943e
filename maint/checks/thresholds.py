"""Thresholds that differ by release, as data: the newest entry that is not newer than the release counts."""

from collections.abc import Sequence

Release = tuple[int, ...]

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
