"""The client against both sides of everything that the contract leaves open."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from werkzeug import Response

from maint.adapters.virtual_clusters.calls import Patience
from maint.adapters.virtual_clusters.client import VirtualClusterClient
from maint.errors import AnswerMissing, CannotReach, Conflict, Invalid, LoginRefused, Rejected, WorkFailed
from maint.model.virtual_cluster import UNSCHEDULED
from maint.ports.virtual_cluster import Start
from tests.adapters.virtual_clusters.conftest import Bench, content, spark
from tests.adapters.virtual_clusters.server import Api

NAMES = [f"job-{number:03}" for number in range(250)]


def fill(api: Api, names: list[str] = NAMES) -> None:
    api.jobs.update({name: {"name": name, "type": "spark"} for name in names})


def test_lists_are_read_to_their_end(api: Api, client: VirtualClusterClient) -> None:
    fill(api)
    assert [job.name for job in client.jobs()] == NAMES


@pytest.mark.parametrize("shift", ["insert", "delete", "delete-many"])
def test_no_item_is_lost_or_doubled_when_pages_shift(api: Api, client: VirtualClusterClient, shift: str) -> None:
    fill(api)
    api.switches.shift = shift
    found = [job.name for job in client.jobs()]
    assert len(found) == len(set(found))
    gone = 30 if shift == "delete-many" else api.pages
    lasting = NAMES if shift == "insert" else NAMES[gone:]
    assert [name for name in lasting if name not in found] == []


def test_never_more_than_a_hundred_items_are_asked_for_at_once(api: Api, client: VirtualClusterClient) -> None:
    fill(api)
    client.jobs()
    asked = [path for method, path, _ in api.sent if method == "GET"]
    assert len(asked) == 3


def test_a_job_with_every_character_in_its_name_is_found(api: Api, client: VirtualClusterClient) -> None:
    name = "Jöb/with a%20 [name]?&#"
    client.create_job(spark(name))  # type: ignore[arg-type]  # a small definition
    job = client.job(name)
    assert job is not None and job.name == name
    assert [run.id for run in client.runs([f"job[eq]{name}"])] == []


def test_what_is_not_there_is_none(client: VirtualClusterClient) -> None:
    assert (client.job("x"), client.resource("x"), client.run(7)) == (None, None, None)
    with client.log(7, "driver/stdout") as log:
        assert log is None


def test_deleting_what_is_gone_is_no_failure(api: Api, client: VirtualClusterClient) -> None:
    fill(api, ["a"])
    assert (client.delete_job("a"), client.delete_job("a"), client.delete_resource("a")) == (True, False, False)


def test_killing_a_run_that_has_just_ended_or_gone_is_no_failure(api: Api, client: VirtualClusterClient) -> None:
    fill(api, ["a"])
    api.switches.states = ("running",)
    ending, going, staying = (client.start_run(Start("a", one)) for one in "123")

    def beforehand(run: dict[str, Any]) -> Response:
        if run["id"] == going:
            api.runs.remove(run)
        elif run["id"] == ending:
            run["status"] = "succeeded"
        code = 404 if run["id"] == going else 400
        return Response(json.dumps({"status": "error", "message": "no such run is active"}), code)

    api.switches.before_kill = beforehand
    client.kill(ending)
    client.kill(going)
    client.kill(going)
    with pytest.raises(Rejected, match="no such run is active"):
        client.kill(staying)
    assert len([one for one in api.writes() if one.endswith("/kill")]) == 3


@pytest.mark.parametrize("code", [409, 500])
def test_a_taken_name_is_asked_for_once(api: Api, client: VirtualClusterClient, code: int) -> None:
    api.switches.duplicate_job = code
    fill(api, ["taken"])
    with pytest.raises(Conflict):
        client.create_job({**spark("taken"), "type": "airflow"})  # type: ignore[arg-type]  # a small definition
    assert api.writes() == ["POST /jobs"]


@pytest.mark.parametrize("fails", [1, 2, -1])
def test_a_page_of_a_proxy_after_a_write_is_decided_by_looking(
    api: Api, client: VirtualClusterClient, fails: int
) -> None:
    api.switches.write_fails = fails
    client.create_resource({"name": "r", "hidden": False, "type": "files"})
    client.upload("r", "a/b.txt", content(b"\r\nbytes"))
    client.create_job({**spark("j"), "schedule": UNSCHEDULED})  # type: ignore[arg-type]  # a small definition
    client.update_job("j", spark("j", mounts=[{"resourceName": "r"}]))  # type: ignore[arg-type]  # a small definition
    client.unpause("j")
    client.pause("j")
    run = client.start_run(Start("j", "one"))
    client.kill(run)
    assert client.delete_file("r", "a/b.txt")
    assert client.delete_job("j")
    assert client.delete_resource("r")
    assert len(api.writes()) == len(set(api.writes())) == 11, "each was sent once"
    assert [one["id"] for one in api.runs] == [run]


def test_a_page_of_a_proxy_before_a_write_is_followed_by_another_try(api: Api, client: VirtualClusterClient) -> None:
    api.switches.write_refused = 2
    client.create_resource({"name": "r", "hidden": False, "type": "files"})
    assert api.writes() == ["POST /resources"] * 3
    assert list(api.resources) == ["r"]


def test_an_update_that_only_takes_away_is_not_taken_for_done_where_it_never_came(
    api: Api, client: VirtualClusterClient
) -> None:
    more: Any = {**spark("j"), "schedule": UNSCHEDULED, "spark": {"file": "app.py", "args": ["--drop-all-tables"]}}
    client.create_job(more)
    api.switches.write_refused = 1
    client.update_job("j", {**spark("j"), "schedule": UNSCHEDULED})  # type: ignore[arg-type]  # a small definition
    assert api.writes()[1:] == ["PATCH /jobs/j"] * 2
    assert "args" not in str(api.jobs["j"])


def test_a_proxy_that_never_lets_a_write_through_ends_in_a_failure(bench: Bench) -> None:
    bench.api.switches.write_refused = 99
    with pytest.raises(WorkFailed, match="502"):
        bench.client(Patience(attempts=2)).create_resource({"name": "r"})
    assert len(bench.api.writes()) == 3
    assert [words for words in bench.warnings if "502" in words and "asked again, for 2s at the most" in words] != []


def test_what_is_waited_for_is_told_while_it_is_waited_for(bench: Bench, server: Any) -> None:
    server.clear()
    server.expect_request("/gateway/authtkn/knoxtoken/api/v1/token").respond_with_json({"access_token": "t"})
    server.expect_request("/dex/api/v1/jobs").respond_with_data("<html>", status=503)
    with pytest.raises(WorkFailed, match="503"):
        bench.client().jobs()
    assert bench.clock.pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    first, *others = bench.warnings
    assert "503 Service Unavailable" in first and first.endswith("it is asked again, for 4m 2s at the most")
    assert len(others) == 3, "once a minute is enough"


def test_a_short_wait_that_the_server_asks_for_is_not_worth_a_word(bench: Bench, api: Api) -> None:
    client = bench.client()
    api.switches.throttle, api.switches.retry_after = 2, "1"
    client.info()
    assert bench.warnings == []


@pytest.mark.parametrize("answers_id", [True, False])
@pytest.mark.parametrize("knows", [True, False])
@pytest.mark.parametrize("shows", [True, False])
@pytest.mark.parametrize("sorts", [True, False])
@pytest.mark.parametrize("late", [0, 2])
@pytest.mark.parametrize("fails", [0, -1])
def test_a_run_is_started_once_and_its_number_is_known(
    api: Api,
    client: VirtualClusterClient,
    answers_id: bool,
    knows: bool,
    shows: bool,
    sorts: bool,
    late: int,
    fails: int,
) -> None:
    switches = api.switches
    switches.run_answers_id, switches.knows_request_id, switches.shows_request_id = answers_id, knows, shows
    switches.sorts = sorts
    fill(api, ["j", "other"])
    client.start_run(Start("j", "old"))
    first = [api.began("j", f"old {number}") for number in range(24)]
    client.start_run(Start("other", "another"))
    switches.listed_late, switches.write_fails = late, fails
    run = client.start_run(Start("j", "new", after=first[-1]))
    assert [one["id"] for one in api.runs if one["_request"] == "new"] == [run]


def test_a_repeated_start_gives_the_run_that_is_there(api: Api, client: VirtualClusterClient) -> None:
    fill(api, ["j"])
    assert client.start_run(Start("j", "one")) == client.start_run(Start("j", "one"))
    assert len(api.runs) == 1


def test_two_runs_of_which_nobody_knows_whose_they_are_are_told(api: Api, client: VirtualClusterClient) -> None:
    api.switches.run_answers_id = False
    fill(api, ["j"])
    client.start_run(Start("j", "one"))
    with pytest.raises(AnswerMissing, match="is unclear"):
        client.start_run(Start("j", "two", after=0))


def awake(api: Api, paused: bool = False, **run: object) -> None:
    """A job with a schedule, and a run of it that something started since."""
    fill(api, ["j"])
    api.jobs["j"]["schedule"] = {"enabled": True, "paused": paused, "cronExpression": "0 * * * *"}
    api.began("j", "not ours")
    api.runs[-1].update(run)


def test_a_run_of_the_jobs_schedule_is_not_taken_for_a_start_that_was_never_sent(
    api: Api, client: VirtualClusterClient
) -> None:
    awake(api)
    with pytest.raises(AnswerMissing, match="whether a run is its own cannot be told") as failure:
        client.start_run(Start("j", "ours", after=0, again=True))
    assert "started since: 41" in failure.value.detail and "dismiss" in str(failure.value.hint)
    assert len(api.runs) == 1, "nothing is started on a guess either"


def test_what_says_that_the_schedule_began_it_is_not_ours_and_ours_is_started(
    api: Api, client: VirtualClusterClient
) -> None:
    awake(api, airflow={"dagRunID": "scheduled__2026-11-24T00:00:00+00:00"})
    run = client.start_run(Start("j", "ours", after=0, again=True))
    assert [one["_request"] for one in api.runs if one["id"] == run] == ["ours"]


@pytest.mark.parametrize(
    ("paused", "more"),
    [(True, {}), (False, {"airflow": {"dagRunID": "manual__2026-11-24T00:00:00"}}), (False, {"requestID": "ours"})],
)
def test_a_start_that_went_out_before_is_found_again_where_no_schedule_can_have_made_its_run(
    api: Api, client: VirtualClusterClient, paused: bool, more: dict[str, object]
) -> None:
    awake(api, paused, **more)
    assert client.start_run(Start("j", "ours", after=0, again=True)) == 41
    assert len(api.runs) == 1


def test_a_404_of_a_gateway_in_front_does_not_say_that_anything_is_absent(
    api: Api, client: VirtualClusterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(api, ["j"])
    client.info()
    monkeypatch.setattr(Api, "_routed", lambda *_: Response("default backend - 404", 404))
    for asked in (lambda: client.job("j"), lambda: client.resource("r"), lambda: client.delete_job("j")):
        with pytest.raises(CannotReach, match=r"404 .*what stands before the API"):
            asked()
    with pytest.raises(WorkFailed, match="there is no jobs API at"):
        client.info()
    about = Response("{}", 200, content_type="application/json")
    monkeypatch.setattr(
        Api, "_routed", lambda _, request, *more: about if "info" in request.path else Response("", 404)
    )
    assert client.job("j") is None  # the API itself says so, in no words


def test_what_began_just_as_the_start_went_out_is_its_run_and_what_began_later_may_be_the_schedules(
    api: Api, client: VirtualClusterClient
) -> None:
    awake(api)
    now = datetime.now(UTC)
    assert client.start_run(Start("j", "ours", after=0, again=True, asked=now)) == 41
    with pytest.raises(AnswerMissing, match="whether a run is its own cannot be told"):
        client.start_run(Start("j", "ours", after=0, again=True, asked=now - timedelta(hours=1)))
    assert len(api.runs) == 1


def test_running_an_unknown_job_says_what_the_server_said(client: VirtualClusterClient) -> None:
    with pytest.raises(WorkFailed, match="job not found"):
        client.start_run(Start("nothing", "one"))


@pytest.mark.parametrize("shape", ["object", "bare", "objects"])
def test_log_types_are_read_in_every_shape(api: Api, client: VirtualClusterClient, shape: str) -> None:
    api.switches.log_types = shape
    fill(api, ["j"])
    run = client.start_run(Start("j", "one"))
    assert list(client.log_types(run)) == ["submitter/jobs_api", "driver/stdout"]


def test_a_throttled_call_waits_as_it_is_told(api: Api, bench: Bench) -> None:
    client = bench.client()
    api.switches.throttle = 12
    assert client.info()["appName"] == "Default-VC-abc12345"
    assert bench.clock.pauses == [7.0] * 12
    assert len(bench.warnings) == 2 and all("throttles us" in words for words in bench.warnings), "once a minute"
    api.switches.throttle = 1
    client.create_resource({"name": "r"})
    assert list(api.resources) == ["r"]


@pytest.mark.parametrize("data", [b"", b"\r\nline\r\n", "ünïcode".encode(), b"\0" * 700_000, b"--maint-"])
def test_bytes_come_back_as_they_went(api: Api, client: VirtualClusterClient, data: bytes) -> None:
    client.create_resource({"name": "r"})
    signature = client.upload("r", "lib/döc x.bin", content(data))
    resource = client.resource("r")
    assert resource is not None and [(file.path, file.signature) for file in resource.files] == [
        ("lib/döc x.bin", signature)
    ]
    with client.download("r", resource.files[0]) as answer:
        assert answer.read() == data


@pytest.mark.parametrize("path", ["../x", "a//b", "", "a/./b", "/a"])
def test_a_path_that_leads_elsewhere_is_refused(client: VirtualClusterClient, path: str) -> None:
    with pytest.raises(Invalid):
        client.upload("r", path, content(b""))


def test_a_file_that_shrinks_while_it_is_sent_is_a_failure(api: Api, client: VirtualClusterClient) -> None:
    client.create_resource({"name": "r"})
    with pytest.raises(WorkFailed, match="changed"):
        client.upload("r", "a", replace(content(b"abc"), size=9))


def test_unknown_keys_are_carried(api: Api, client: VirtualClusterClient) -> None:
    client.create_job(spark("j", future={"key": [1]}))  # type: ignore[arg-type]  # a small definition
    job = client.job("j")
    assert job is not None and job.raw["future"] == {"key": [1]}


def test_a_role_that_is_missing_is_told(api: Api, client: VirtualClusterClient) -> None:
    api.switches.role_refused = True
    with pytest.raises(LoginRefused) as failure:
        client.jobs()
    assert "DEUser" in str(failure.value.hint)


@pytest.mark.parametrize("code", [200, 201, 204])
def test_any_success_will_do(api: Api, client: VirtualClusterClient, code: int) -> None:
    api.switches.success = code
    client.create_job(spark("j"))  # type: ignore[arg-type]  # a small definition
    client.pause("j")
    assert api.jobs["j"]["schedule"]["paused"] is True


def test_a_page_instead_of_json_is_a_failure(bench: Bench, server: Any) -> None:
    server.clear()
    server.expect_request("/dex/api/v1/info").respond_with_data("<html>", status=200)
    server.expect_request("/gateway/authtkn/knoxtoken/api/v1/token").respond_with_json({"access_token": "t"})
    with pytest.raises(WorkFailed, match="not JSON"):
        bench.client().info()


def test_the_body_of_a_start_is_what_the_official_client_sends(api: Api, client: VirtualClusterClient) -> None:
    fill(api, ["j"])
    client.start_run(Start("j", "one", variables={"ds": "x"}, overrides={"spark": {"executorMemory": "2g"}}, user="u"))
    wanted = {
        "requestID": "one",
        "variables": {"ds": "x"},
        "overrides": {"spark": {"executorMemory": "2g"}},
        "user": "u",
    }
    assert json.loads(json.dumps(api.bodies("POST /jobs/j/run"))) == [wanted]
