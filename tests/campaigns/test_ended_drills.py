"""SIGTERM at random moments of a drill: it ends with 143 each time, never by a crash of Python, and leaves nothing."""

import random
import time

import pytest

from tests.campaigns.size import SEED, tries
from tests.restore.drill.test_drill import left_over, until_it_has_a_lab
from tests.steps.operator import Operator

ENDS = tries(2, 40)
_LONGEST = 0.6  # seconds after the lab was laid out: start, licence, and the PUT, which then takes minutes


@pytest.mark.timeout(60 * ENDS)
def test_a_drill_that_is_ended_at_any_moment_ends_in_order_and_leaves_nothing(loaded: Operator) -> None:
    chance = random.Random(SEED)
    ended = []
    for _ in range(ENDS):
        process = loaded.start("backup", "drill", "--switch", "put-seconds=600")
        until_it_has_a_lab(process)
        time.sleep(chance.uniform(0, _LONGEST))
        process.terminate()
        _, err = process.communicate(timeout=60)
        ended.append((process.returncode, left_over(process.pid), err if process.returncode != 143 else ""))
    assert [one for one in ended if one != (143, [], "")] == []
