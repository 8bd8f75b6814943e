"""Lists of a virtual cluster: envelope, pages, order, filters, and what output leaves out."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maint.lab.virtual_clusters import lists
from maint.lab.virtual_clusters.create import EXAMPLE
from maint.lab.virtual_clusters.messages import without_empty

KNOWN = json.loads(Path(EXAMPLE).read_bytes())


def names(api, filter_):
    return [job["name"] for job in api.get(f"/jobs?filter={filter_}")["jobs"]]


def test_the_example_jobs_are_listed_as_the_contract_has_them(loaded):
    assert loaded.get("/jobs")["jobs"] == [{**job, "schedule": {**job["schedule"]}} for job in KNOWN["jobs"]]


def test_the_example_resources_are_listed_with_the_signatures_of_the_contract(loaded):
    assert loaded.get("/resources")["resources"] == KNOWN["resources"]


@pytest.mark.parametrize("name", list(KNOWN["resourceFiles"]))
def test_the_files_of_the_example_are_listed_in_the_order_of_the_contract(loaded, name):
    files = [{k: v for k, v in entry.items() if k != "contentBase64"} for entry in KNOWN["resourceFiles"][name]]
    assert loaded.get(f"/resources/{name}?includeFiles=true")["files"] == files
    assert "files" not in loaded.get(f"/resources/{name}")


def test_a_page_has_twenty_entries_and_says_whether_more_follow(api):
    for number in range(25):
        assert api.spark(f"job-{number:02}").status == 201
    first = api.get("/jobs")
    assert len(first["jobs"]) == 20
    assert first["meta"] == {"hasNext": True, "limit": 20, "offset": 0, "count": 20}
    rest = api.get("/jobs?offset=20&includeTotal=true")
    assert [job["name"] for job in rest["jobs"]] == [f"job-{number}" for number in range(20, 25)]
    assert rest["meta"] == {"hasNext": False, "limit": 20, "offset": 20, "count": 5, "total": 25}


def test_a_limit_above_one_hundred_is_refused_or_cut(api):
    assert api.ask("GET", "/jobs?limit=101").status == 400
    api.switch(over_limit="clamp")
    assert api.get("/jobs?limit=101")["meta"]["limit"] == 100


def test_meta_may_count_everything(loaded):
    loaded.switch(meta_count="total")
    assert loaded.get("/jobs?limit=2")["meta"]["count"] == 8


def test_runs_come_oldest_first_unless_asked_otherwise(loaded):
    assert [run["id"] for run in loaded.get("/job-runs?limit=2")["runs"]] == [41, 42]
    assert [run["id"] for run in loaded.get("/job-runs?limit=2&orderby=ID&orderasc=false")["runs"]] == [49, 48]


@pytest.mark.parametrize(
    ("filter_", "found"),
    [
        ("name[eq]order-report", ["order-report"]),
        ("type[noteq]spark", ["adhoc-rebuild", "nightly-pipeline"]),
        ("name[in]remote-pi,pi-estimate", ["pi-estimate", "remote-pi"]),
        ("name[notin]remote-pi,pi-estimate&filter=type[eq]spark&filter=name[lt]e", ["basket-analysis", "daily-vacuum"]),
        ("name[like]order%25", ["order-report", "orders-ingest"]),
        ("name[rlike]^(pi|remote)-", ["pi-estimate", "remote-pi"]),
        ("spark.file[eq]Vacuum.py", ["daily-vacuum"]),
        ("created[gte]2025-03-10T06:05:28", ["adhoc-rebuild", "nightly-pipeline"]),
        ("created[lt]2025-03-10T06:05:13", ["orders-ingest"]),
        ("spark.driverMemory[gt]1g", ["basket-analysis"]),
        ("schedule.paused[eq]false", ["nightly-pipeline"]),
        ("spark.className[isnot]null", ["pi-estimate", "remote-pi"]),
        ("mounts[is]null", ["remote-pi"]),
        ("spark.driverCores[lte]0", ["adhoc-rebuild", "nightly-pipeline"]),
    ],
)
def test_filters_know_every_operator(loaded, filter_, found):
    assert names(loaded, filter_) == found


@pytest.mark.parametrize("bad", ["name", "name[eq", "name[near]x", "name[rlike](", "name[is]x"])
def test_a_filter_without_sense_is_refused(loaded, bad):
    answer = loaded.ask("GET", f"/jobs?filter={bad}")
    assert answer.status == 400
    assert answer.json["status"] == "error"


def test_the_latest_run_is_told_when_asked_for(loaded):
    jobs = {job["name"]: job for job in loaded.get("/jobs?latestjob=true")["jobs"]}
    assert jobs["remote-pi"]["latestRunInfo"]["id"] == 47
    assert "latestRunInfo" not in loaded.get("/jobs")["jobs"][0]


def test_a_user_without_a_role_sees_empty_lists_and_may_not_write(loaded):
    assert loaded.get("/jobs", user="guest")["jobs"] == []
    assert loaded.ask("GET", "/jobs/order-report", user="guest").status == 404
    assert loaded.ask("POST", "/resources", {"name": "x"}, user="guest").status == 403
    loaded.switch(no_role="forbidden")
    assert loaded.ask("GET", "/jobs", user="guest").status == 403


def test_hidden_objects_can_be_left_out_of_lists(api):
    assert api.spark("seen").status == 201
    assert api.spark("unseen", hidden=True).status == 201
    assert len(api.get("/jobs")["jobs"]) == 2
    api.switch(hidden="omitted")
    assert [job["name"] for job in api.get("/jobs")["jobs"]] == ["seen"]


def test_pages_shift_while_they_are_read(loaded):
    loaded.strike("vc-pages-repeat")
    loaded.strike("vc-pages-skip")
    first = [job["name"] for job in loaded.get("/jobs?limit=3")["jobs"]]
    repeated = [job["name"] for job in loaded.get("/jobs?limit=3&offset=3")["jobs"]]
    skipped = [job["name"] for job in loaded.get("/jobs?limit=3&offset=3")["jobs"]]
    healed = [job["name"] for job in loaded.get("/jobs?limit=3&offset=3")["jobs"]]
    assert repeated[0] == first[-1]
    assert skipped[0] == healed[1]


@pytest.mark.parametrize("fault", ["vc-pages-repeat", "vc-pages-skip"])
def test_a_list_of_one_page_can_shift_too(loaded, fault):
    whole = [job["name"] for job in loaded.get("/jobs")["jobs"]]
    loaded.strike(fault)
    first = loaded.get("/jobs?limit=100")
    assert first["meta"]["hasNext"] and len(first["jobs"]) == (len(whole) + 1) // 2
    second = loaded.get(f"/jobs?limit=100&offset={len(first['jobs'])}")
    read = [job["name"] for job in (*first["jobs"], *second["jobs"])]
    assert len(read) == len(whole) + (1 if fault == "vc-pages-repeat" else -1) and set(read) <= set(whole)
    assert [job["name"] for job in loaded.get("/jobs")["jobs"]] == whole


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_what_is_shown_holds_nothing_empty(value):
    def empty(found):
        if isinstance(found, dict):
            return any(
                empty(v) or (k != "enabled" and (v is None or v is False or v in ("", [], {})))
                for k, v in found.items()
            )
        return isinstance(found, list) and any(map(empty, found))

    assert not empty(without_empty({"x": value}))
    assert without_empty({"enabled": False, "paused": False, "count": 0}) == {"enabled": False, "count": 0}


@given(st.text(max_size=20), st.text(max_size=20))
def test_filters_compare_any_two_texts_one_way_only(left, right):
    entry = {"name": left}
    results = [lists.parse_filter([f"name[{op}]{right}"])(entry) for op in ("lt", "eq", "gt")]
    assert sum(results) == 1
