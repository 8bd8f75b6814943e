"""The registry of step kinds."""

from maint.model.plan import Effect
from maint.steps.registry import STEPS
from maint.steps.step import Step


def test_every_step_kind_is_listed_by_the_name_that_it_gives_itself() -> None:
    assert {name: step.kind for name, step in STEPS.items()} == {name: name for name in STEPS}


def test_every_step_kind_that_there_is_is_listed() -> None:
    listed = {type(step) for step in STEPS.values()}

    def below(kind: type[Step]) -> set[type[Step]]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    kinds = {kind for kind in below(Step) if "kind" in vars(kind) and kind.__module__.startswith("maint.")}
    assert kinds == listed


def test_every_step_kind_that_changes_the_site_out_of_a_snapshot_says_so() -> None:
    takes = {name for name, step in STEPS.items() if "snapshot" in step.arguments.model_fields}
    acting = {name for name in takes if STEPS[name].effect > Effect.READ}
    proof = {"clusters.stop"}  # names the snapshot as what proves the way back, and reads nothing of it
    assert {name for name, step in STEPS.items() if step.restores} == acting - proof
