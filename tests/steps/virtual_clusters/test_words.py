"""What is said of virtual clusters: what comes back by name, and the last words of a run."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from maint.errors import Refused, WorkFailed
from maint.model import secret
from maint.model.virtual_cluster import Job, Resource
from maint.ports import Ran
from maint.restore.conflicts import Resolution
from maint.snapshots.virtual_clusters.document import ClusterDocument
from maint.steps.virtual_clusters.kubernetes_secrets import KubernetesSecrets
from maint.steps.virtual_clusters.restore import words_of
from maint.steps.virtual_clusters.runs import last_words
from maint.steps.virtual_clusters.uploads import placed
from tests.adapters.virtual_clusters.conftest import Hurried


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


def test_the_last_words_of_a_run_whose_log_does_not_end_come_without_secrets_and_without_filling_memory(monkeypatch):
    monkeypatch.setattr(secret, "_KNOWN", set())
    secret.know("sesame-canary")

    class Endless:
        """A run that prints one line for ever."""

        def log_types(self, number):
            return ["driver/stderr"]

        def log(self, number, kind):
            line = b"no way: sesame-canary\n"
            return nullcontext(SimpleNamespace(read=lambda size=-1: line * (size // len(line))))

    assert last_words(Endless(), Hurried(), 1, ["driver/stderr"]) == ["driver/stderr: no way: •••"] * 5


@pytest.mark.parametrize(
    "out", [b"null", b"[]", b"{", b'{"kind": "List", "items": [1]}', b'{"kind": "Secret"}', b"[" * 9999]
)
def test_what_kubectl_prints_and_is_no_secret_is_a_failure_with_a_way_out(out):
    shell = SimpleNamespace(ask=lambda *words, **more: Ran(status=0, out=out, err=b""))
    with pytest.raises(WorkFailed) as failure:
        KubernetesSecrets("ecs-1", "space").read(shell, ["one"])
    assert failure.value.hint


def test_a_folder_among_the_files_to_upload_is_said_to_be_none_and_how_its_files_are_named(tmp_path):
    with pytest.raises(Refused, match="is not a file") as failure:
        placed([str(tmp_path)], "")
    assert "FOLDER/*" in failure.value.hint
    with pytest.raises(Refused, match="there is no file"):
        placed([str(tmp_path / "gone")], "")
