"""What proves that virtual clusters come back that go with their ECS cluster."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from maint.errors import Refused
from maint.model.snapshot import Purpose
from maint.snapshots import prune
from maint.snapshots.capture import recipients_of, take
from maint.snapshots.parts import object_name
from maint.snapshots.virtual_clusters.capture import take_alone
from maint.steps.guards import Proven, contents_proof
from tests.adapters.virtual_clusters.server import Api
from tests.snapshots.virtual_clusters.conftest import VC, Ground, lie_about

Run = Callable[[Any], Any]


def test_the_newest_complete_backup_proves_it_with_the_manager_or_alone(ground: Ground, run: Run) -> None:
    first = run(take(ground)).snapshot
    assert contents_proof(ground, Proven())[VC].id == first.id
    ground.clock.time += timedelta(minutes=5)
    second = run(take_alone(ground, VC, recipients_of(ground))).snapshot
    assert contents_proof(ground, Proven())[VC].id == second.id


def test_one_that_another_machine_removes_while_it_is_read_leaves_it_to_the_one_before(
    ground: Ground, run: Run
) -> None:
    first = run(take(ground)).snapshot
    ground.clock.time += timedelta(minutes=5)
    second, opened = run(take_alone(ground, VC, recipients_of(ground))).snapshot, ground.store.open

    def late(name: str) -> Any:
        if name.startswith(f"prod/{second.id}/") and name.endswith(".age"):
            ground.store.open = opened  # type: ignore[method-assign]
            prune.remove(ground, second.id, ["no rule keeps it"])
        return opened(name)

    ground.store.open = late  # type: ignore[method-assign]
    assert contents_proof(ground, Proven())[VC].id == first.id


def test_an_incomplete_backup_proves_nothing_and_the_complete_one_before_does(
    ground: Ground, api: Api, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        lie_about(patch, "basket.py")
        run(take_alone(ground, VC, recipients_of(ground)))
        with pytest.raises(Refused, match=f"virtual cluster {VC} can come back") as caught:
            contents_proof(ground, Proven())
        assert "does not hold it wholly" in caught.value.detail[0]
        assert "take it out of `virtual_clusters`" in (caught.value.hint or "")
    ground.clock.time += timedelta(minutes=5)
    whole = run(take_alone(ground, VC, recipients_of(ground))).snapshot
    assert contents_proof(ground, Proven())[VC].id == whole.id


def test_an_old_one_one_from_the_future_a_rotten_and_a_safety_copy_prove_nothing(ground: Ground, run: Run) -> None:
    run(take_alone(ground, VC, recipients_of(ground), purpose=Purpose.SAFETY))
    with pytest.raises(Refused) as caught:
        contents_proof(ground, Proven())
    assert "there is none of it" in caught.value.detail[0]
    ground.clock.time += timedelta(minutes=5)
    taken = run(take_alone(ground, VC, recipients_of(ground))).snapshot
    ground.clock.time += timedelta(days=2)
    with pytest.raises(Refused) as caught:
        contents_proof(ground, Proven())
    assert "2d old" in caught.value.detail[0]
    ground.clock.time -= timedelta(days=30)  # the clock was ahead when it was taken: nobody knows how old it is
    with pytest.raises(Refused) as caught:
        contents_proof(ground, Proven())
    assert "taken in the future" in caught.value.detail[0]
    ground.clock.time += timedelta(days=30)
    path = ground.root / object_name("prod", taken.objects[0].id)
    path.write_bytes(b"rotten")
    with pytest.raises(Refused) as caught:
        contents_proof(ground, Proven(max_age=864000.0))
    assert "is not proven" in caught.value.detail[0]
    assert contents_proof(ground, Proven(no_safety_net="it is empty")) == {}
