"""Ask the hosts of an ECS cluster what is there to be removed; nothing is changed."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from maint.errors import Refused, WorkFailed
from maint.model.json import Json
from maint.ports import ShellSight, Sight
from maint.steps.ecs.cluster import UNCLEANED, Ecs
from maint.steps.ecs.paths import LISTED, UNMOUNTED, Found, Mount, Removal, judged, spelled
from maint.steps.hosts.fan_out import asked, looked_at
from maint.steps.hosts.script import script

BIN = "/opt/cloudera/parcels/ECS/bin"
PACKAGE = "iscsi-initiator-utils"
_BEGIN, _END = b"maint-ecs 1\0", b"end\0"


class Survey(msgspec.Struct, frozen=True):
    """What is on one host.

    Attributes:
        found: each path that was asked about.
        mounts: what is mounted, in the order in which it was.
        scripts: which of rke2's scripts are there.
        package: whether the package of iSCSI is installed.
        iscsid: whether its daemon runs.
    """

    found: Sequence[Found]
    mounts: Sequence[Mount]
    scripts: Sequence[str]
    package: bool
    iscsid: bool


def paths_of(ecs: Ecs) -> list[str]:
    """Return all paths that are asked about: those that the contract lists, and the data directories.

    Raises:
        Refused: a data directory is spelled in a way in which nothing is ever removed.
    """
    problems: list[str] = []
    paths = dict.fromkeys([*LISTED, *UNMOUNTED])
    for setting, path in ecs.data.items():
        try:
            paths[spelled(path)] = None
        except ValueError as error:
            problems.append(f"{setting} is {path!r}, which {error}")
    if problems:
        raise Refused(
            f"the data directories of cluster {ecs.cluster.name} cannot be removed as they are set, so nothing is",
            detail=problems,
            hint="set them right in the manager; or only the API calls: `maint cluster delete NAME --api-only`",
        )
    return list(paths)


def surveyed(shell: ShellSight, host: str, paths: Sequence[str]) -> Survey:
    """Ask one host.

    Raises:
        WorkFailed: its answer is not whole.
        CannotReach: it does not answer.
    """
    answer = asked(shell, host, script("ecs-survey", paths=list(paths), bin=BIN, package=PACKAGE))
    _, begun, rest = answer.partition(_BEGIN)
    words = rest.removesuffix(_END).split(b"\0")
    if not begun or not rest.endswith(_END) or len(words) != len(paths) * 3 + 5:
        raise WorkFailed(f"{host}: what it says about its folders is not whole")
    texts = [word.decode("utf-8", "backslashreplace") for word in words]
    found = [Found(path, *texts[3 * n : 3 * n + 3]) for n, path in enumerate(paths)]
    table, scripts, package, iscsid = texts[3 * len(paths) : -1]
    return Survey(found, _mounts(table), scripts.split(), package == "yes", iscsid == "yes")


def removals_on(sight: Sight, hosts: Sequence[str], paths: Sequence[str]) -> dict[str, list[Removal]]:
    """Return what would go from each host.

    Raises:
        CannotReach: a host does not answer: nothing starts then.
        Refused: something would go that must not; each is named.
    """
    asking = "looking at the folders of the cluster's hosts"
    found = looked_at(sight, hosts, lambda host: surveyed(sight.shell, host, paths), asking, UNCLEANED)
    judgements = {host: judged(survey.found, survey.mounts) for host, survey in found.items()}
    problems = [f"{host}: {problem}" for host, (_, listed) in judgements.items() for problem in listed]
    if problems:
        raise Refused(
            "some of the cluster's folders must not be removed, so nothing is",
            detail=problems,
            hint="set the directory right in the manager, or put the link or the mount right on the host",
        )
    return {host: removals for host, (removals, _) in judgements.items()}


def planned(value: Json) -> list[Removal]:
    """Read back what `Removal.to_json` wrote for one host."""
    listed = value if isinstance(value, list | tuple) else ()
    return [Removal(**one) for one in listed if isinstance(one, Mapping)]


def _mounts(table: str) -> list[Mount]:
    rows = [line.split(" ") for line in table.splitlines()]
    return [Mount(_plain(row[1]), row[2]) for row in rows if len(row) > 2]


def _plain(word: str) -> str:
    """Return a word of /proc/mounts: blanks, tabs, line breaks and backslashes stand there in octal."""
    return re.sub(r"\\([0-7]{3})", lambda digits: chr(int(digits[1], 8)), word)
