"""Comparing outlines finds what comparing whole trees finds, in little memory."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from maint.deployment.compare import Comparison, compare
from maint.deployment.normalize import LONGEST, Folded, Outline, normalize, unfold
from maint.deployment.secrets import Fingerprint
from maint.errors import WorkFailed
from maint.lab.manager.document import dumps
from tests.benchmarks.exports import Export
from tests.deployment.test_styles import DOCUMENTS, FINGERPRINT, permuted

# Compares two exports as `backup diff` does, in a process of its own, and prints how much memory that took.
PROGRAM = """
import sys
from pathlib import Path
from maint.deployment.secrets import Fingerprint
from maint.snapshots.diff import held_against
from tests.benchmarks.diff import side
def most():  # kibibytes; `ru_maxrss` would begin with what the parent took
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

idle = most()
fingerprint = Fingerprint(b"k")
before, after = (side(Path(path), fingerprint) for path in sys.argv[1:])
assert (held_against(before, after, fingerprint).differences)
print(most() - idle)
"""


def seen(found: Comparison) -> Any:
    """Return a comparison without the order in which it was found."""
    differences = sorted((one.path, str(one.before), str(one.after)) for one in found.differences)
    return differences, sorted(found.not_comparable), sorted(found.added), found.volatile


def both_ways(before: bytes, after: bytes) -> tuple[Any, Any]:
    trees = [normalize([content], FINGERPRINT) for content in (before, after)]
    one, other = (Outline([content], FINGERPRINT, LONGEST) for content in (before, after))
    unfold(one, other)
    return seen(compare(*trees)), seen(compare(one.tree, other.tree))


def altered(value: Any, chance: random.Random) -> Any:
    """Change a few texts, and leave a few fields out."""
    if isinstance(value, dict):
        return {key: altered(inner, chance) for key, inner in value.items() if chance.random() > 0.02}
    if isinstance(value, list):
        return [altered(inner, chance) for inner in value]
    return f"{value}x" if isinstance(value, str) and chance.random() < 0.05 else value


@given(DOCUMENTS, DOCUMENTS, st.integers(0, 1 << 32))
def test_outlines_differ_where_trees_do(document: dict[str, Any], other: dict[str, Any], seed: int) -> None:
    chance = random.Random(seed)
    for after in (altered(permuted(document, chance), chance), other):
        try:
            trees, outlines = both_ways(dumps(document).encode(), dumps(after).encode())
        except WorkFailed:
            return
        assert outlines == trees


def test_outlines_of_an_export_differ_where_trees_do(tmp_path: Path) -> None:
    before = Export(1)
    for after in (before.days_later(), before.shuffled()):
        trees, outlines = both_ways(*(b"".join(export.blocks()) for export in (before, after)))
        assert outlines == trees


def test_what_is_equal_stays_folded_and_what_differs_is_not() -> None:
    before, after = (
        Outline(export.blocks(), Fingerprint(b"k"), LONGEST) for export in (Export(1), Export(1).days_later())
    )
    unfold(before, after)
    groups = [group for cluster in before.tree["clusters"].values() for service in cluster["services"].values()  # type: ignore[union-attr]
              for group in service["roleConfigGroups"].values()]  # type: ignore[index,union-attr]  # fmt: skip
    folded = [group for group in groups if isinstance(group, Folded)]
    assert 0 < len(groups) - len(folded) < len(folded)


def kilobytes(before: Export, after: Export, folder: Path) -> int:
    command = [sys.executable, "-c", PROGRAM, str(before.file(folder)), str(after.file(folder))]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_the_memory_of_a_diff_hardly_grows_with_the_documents(tmp_path: Path) -> None:
    small = kilobytes(Export(1), Export(1).days_later(), tmp_path)
    large = kilobytes(Export(8), Export(8).days_later(), tmp_path)
    assert large < 28 * 1024
    assert large - small < 20 * 1024


def test_what_no_digest_can_spell_is_compared_as_a_tree() -> None:
    half = b'{"hosts" : [ {"hostId" : "h1", "hostname" : "\\ud800"}, {"hostId" : "h2", "hostname" : "b"} ]}'
    found = Outline([half], FINGERPRINT, LONGEST).tree["hosts"]
    assert isinstance(found, dict)
    assert found["h1"] == {"hostId": "h1", "hostname": "\ud800"}
    assert isinstance(found["h2"], Folded)


def test_a_setting_whose_flag_is_no_flag_is_compared_as_a_tree() -> None:
    odd = b'{"hosts": [{"hostId": "h1", "config": {"items": [{"name": "a", "value": "1", "sensitive": 1.5}]}}]}'
    trees, outlines = both_ways(odd.replace(b"1.5", b"false"), odd)
    assert outlines == trees
    assert [path for path, *_ in outlines[0]] == ["hosts/h1/config/a"]


def test_what_has_the_field_of_a_secret_is_compared_as_a_tree() -> None:
    before = b'{"hosts": [{"hostId": "h1", "password": "x"}, {"hostId": "h2", "password": "x"}]}'
    trees, outlines = both_ways(before, before.replace(b'"x"}]', b'"y"}]'))
    assert outlines == trees
    assert [path for path, *_ in outlines[0]] == ["hosts/h2/password"]
    assert not isinstance(Outline([before], FINGERPRINT, LONGEST).tree["hosts"]["h1"], Folded)  # type: ignore[index]


def test_a_list_within_an_element_is_compared_as_a_tree() -> None:
    before = b'{"hosts": [{"hostId": "h1", "tags": [{"name": "a"}]}, {"hostId": "h2"}]}'
    trees, outlines = both_ways(before, before.replace(b'"a"', b'"b"'))
    assert outlines == trees and outlines[0]
    assert not isinstance(Outline([before], FINGERPRINT, LONGEST).tree["hosts"]["h1"], Folded)  # type: ignore[index]
