"""The plan of a virtual cluster's restore says by name what comes back."""

from maint.model.virtual_cluster import Job, Resource
from maint.restore.conflicts import Resolution
from maint.snapshots.virtual_clusters.document import ClusterDocument
from maint.steps.virtual_clusters.restore import words_of


def test_the_plan_names_the_jobs_and_resources_that_come_back():
    document = ClusterDocument(
        name="vc",
        base_url="https://vc.example.internal/dex/api/v1",
        taken_at="2026-11-22T00:00:00Z",
        user="etl",
        info={},
        resources=[Resource({"name": "code"}), Resource({"name": "data"})],
        jobs=[Job({"name": "daily"}), Job({"name": "report"}), Job({"name": "dag"})],
        users=(),
        objects={},
        uncovered=(),
        problems=(),
    )
    words = words_of(document, Resolution(skipped_resources=("data",), left_out=("dag",)))
    assert words.startswith("1 resource (code), 2 jobs (daily, report); ")
