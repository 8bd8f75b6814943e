"""Definitions in their normal form: absent and zero are one, times have one spelling, unknown keys count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maint.model.virtual_cluster import (
    UNSCHEDULED,
    Job,
    Resource,
    covers,
    is_cluster_name,
    joint_signature,
    normal_job,
    normal_resource,
    same_time,
    sendable_job,
    signature_of,
)

LISTED = {
    "name": "j",
    "type": "spark",
    "created": "2025-03-10T06:05:22Z",
    "lastUsed": "0001-01-01T00:00:00Z",
    "mounts": [{"resourceName": "r"}],
    "spark": {"file": "a.py", "conf": {"k": "false"}},
    "schedule": {"enabled": False, "user": "u", "paused": True},
}
SENT = {
    "name": "j",
    "type": "spark",
    "mounts": [{"resourceName": "r", "dirPrefix": ""}],
    "spark": {"file": "a.py", "className": "", "args": [], "conf": {"k": "false"}, "pyFiles": [], "jars": []},
    "schedule": dict(UNSCHEDULED),
}


def test_what_was_sent_equals_what_is_listed():
    assert normal_job(SENT) == normal_job(LISTED)


@pytest.mark.parametrize(
    "change",
    [
        {"spark": {"file": "b.py"}},
        {"future": 1},
        {"mounts": [{"resourceName": "r", "dirPrefix": "data"}]},
        {"schedule": {"enabled": True}},
        {"spark": {"file": "a.py", "conf": {"k": "true"}}},
    ],
)
def test_what_differs_is_different(change):
    assert normal_job({**LISTED, **change}) != normal_job(LISTED)


def test_the_pause_of_a_schedule_counts_only_where_it_is_asked_for():
    awake, asleep = ({**LISTED, "schedule": {"enabled": True, "paused": paused}} for paused in (False, True))
    assert normal_job(awake) != normal_job(asleep)
    assert normal_job(awake, pauses=False) == normal_job(asleep, pauses=False)


@pytest.mark.parametrize(
    "text",
    [
        "2025-03-10T00:00:00.000Z",
        "2025-03-10T00:00:00Z",
        "2025-03-10T00:00:00.000000Z",
        "Mon, 10 Mar 2025 00:00:00 GMT",
    ],
)
def test_a_time_has_one_spelling(text):
    assert same_time(text) == "2025-03-10T00:00:00+00:00"


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-05:00", "0001-01-01T00:00:00+02:00", "soon"])
def test_a_time_that_has_no_other_spelling_stays_as_it_is(text):
    assert same_time(text) == text


@pytest.mark.parametrize("text", ["", "0001-01-01T00:00:00Z"])
def test_no_time_is_no_time(text):
    assert same_time(text) == ""


def test_an_airflow_job_is_sent_without_schedule_and_dag_id():
    raw = {"name": "d", "type": "airflow", "airflow": {"dagFile": "d.py", "dagID": "x"}, "schedule": {"paused": True}}
    assert sendable_job(raw) == {"name": "d", "type": "airflow", "airflow": {"dagFile": "d.py"}}


def test_resources_made_alike_are_equal():
    listed = {"name": "e", "type": "python-env", "status": "ready", "signature": "x", "pythonEnvInfo": {"sizeMb": 1}}
    listed |= {"pythonEnv": {"pythonVersion": "python3", "type": "python-env"}}
    sent = {"name": "e", "type": "python-env", "hidden": False, "pythonEnv": {"pythonVersion": "python3"}}
    assert normal_resource(sent) == normal_resource(listed)
    assert normal_resource({**sent, "hidden": True}) != normal_resource(listed)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=5))
def test_a_normal_form_is_its_own_normal_form(raw):
    normal = normal_job(raw)
    assert normal_job(normal) == normal
    assert covers(normal, normal)


@given(st.dictionaries(st.text(min_size=1, max_size=3), JSON, max_size=5))
def test_leaving_out_what_says_nothing_changes_nothing(raw):
    thin = {key: value for key, value in raw.items() if value is not False and value not in ("", None, [], {})}
    assert normal_job(thin) == normal_job(raw)


@given(st.text(max_size=40))
def test_names_of_virtual_clusters_follow_the_rule(text):
    plain = text.isascii() and all(c.isalnum() or c == "-" for c in text)
    assert is_cluster_name(text) == (plain and 3 <= len(text) <= 30 and text[0].isalpha())


def test_signatures_follow_the_verified_rule():
    assert signature_of(b"") == "da39a3ee5e6b4b0d3255bfef95601890afd80709"
    files = [("basket.py", "b" * 40), ("Vacuum.py", "a" * 40)]
    assert joint_signature(files) == signature_of(("a" * 40 + "b" * 40).encode())
    assert joint_signature([]) == ""
    assert joint_signature([("\ud800", "a" * 40)]) == signature_of(b"a" * 40)  # half a character, as JSON can hold it


def test_objects_answer_for_what_is_left_out():
    job, resource = Job({"name": "j"}), Resource({"name": "r", "files": [{"path": "a"}]})
    assert (job.type, job.mounts, job.paused, job.scheduled, job.file) == ("", (), False, False, "")
    assert (resource.type, resource.files[0].size, resource.file("b")) == ("files", 0, None)


def test_a_key_that_the_server_does_not_know_may_be_dropped_but_none_that_every_server_keeps():
    live = normal_job({key: value for key, value in LISTED.items() if key != "mounts"})
    assert covers(live, {**live, "future": 1})
    assert covers({**live, "future": 1}, live)
    assert not covers({**live, "future": 2}, {**live, "future": 1})
    assert not covers(live, normal_job(LISTED))


@pytest.mark.parametrize(
    "more", [{"args": ["x"]}, {"conf": {"k": "1"}}, {"numExecutors": 9}, {"executorMemory": "64g"}]
)
def test_more_than_is_wanted_is_not_the_same_unless_servers_fill_it_in(more):
    wanted = normal_job({"name": "j", "type": "spark", "spark": {"file": "a.py"}})
    filled = {**wanted, "retentionPolicy": "keep_indefinitely", "spark": {"file": "a.py", "logLevel": "INFO"}}
    assert covers(filled, wanted)
    assert not covers({**filled, "spark": {**filled["spark"], **more}}, wanted)
    assert not covers({**filled, "hidden": True}, wanted)
    assert covers({**filled, "spark": {**filled["spark"], **more}}, wanted, more=True)
