"""The raw part of a capture, and all of it, against curl, tee, zstd, age and jq."""

import re
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.benchmarks.exports import PASSWORD, Export
from tests.benchmarks.measure import Cost, compared, heading, report, shell
from tests.benchmarks.place import Place, serving

_TOOK = re.compile(r"received and stored in ([0-9.]+) s")
# What a careful operator's script asks of an export: nothing redacted, an administrator, roles on known hosts.
RULES = """
([.. | objects | select(.sensitive == true)] | length > 0 and all(.value != "REDACTED")) and
([.users[] | select(.pwHash != null) | .authRoles[]? | .name] | index("ROLE_ADMIN") != null) and
(([.hosts[].hostId]) as $hosts | ([.clusters[].services[].roles[].hostRef.hostId] | unique) - $hosts == [])
"""
COPY = 'walk(if type == "object" and .sensitive == true then .value = "x" else . end) | del(.users[].pwHash)'


def main() -> None:
    heading()
    with tempfile.TemporaryDirectory(prefix="maint-bench-") as folder:
        for size in (1, 20, 200):
            _measure(Path(folder) / str(size), size)


def _measure(folder: Path, size: int) -> None:
    export = Export(size).file(Path(tempfile.gettempdir()) / "maint-bench")
    with serving(folder, export) as place:
        raw: list[float] = []

        def ours() -> Cost:
            cost = place.maint("backup", "create")
            found = _TOOK.search(cost.out)
            assert found, cost.out
            raw.append(float(found[1]))
            return cost

        theirs: list[Cost] = []

        def pipeline() -> Cost:
            theirs.append(_pipeline(place))
            return theirs[-1]

        whole, piped = compared(ours, pipeline)
        report(f"raw part, {size} MB", replace(whole, wall=sorted(raw)[len(raw) // 2]), piped, wall=0.6)
        rules = _jq(place, export)
        both = Cost(piped.wall + rules.wall, piped.cpu + rules.cpu, max(piped.memory, rules.memory))
        report(f"all of backup create, {size} MB", whole, both, wall=0.3, memory=0.1)


def _pipeline(place: Place) -> Cost:
    out = place.folder / "raw.age"
    return shell(
        f"curl -sS --cacert {place.authority} -u admin:{PASSWORD} '{place.url}/api/v49/cm/deployment?view=export'"
        f" | tee >(sha256sum >{out}.sum) >(grep -c REDACTED >{out}.count) | zstd -q -3"
        f" | age -r {place.recipient} >{out}; sync"
    )


def _jq(place: Place, export: Path) -> Cost:
    copy = place.folder / "copy.zst"
    return shell(f"jq -e '{RULES}' {export} && jq '{COPY}' {export} | zstd -q -3 -f -o {copy}")


if __name__ == "__main__":
    main()
