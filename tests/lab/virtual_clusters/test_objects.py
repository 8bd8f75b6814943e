"""Jobs, resources and files of a virtual cluster: created, changed, deleted, refused."""

import hashlib
import io
import zipfile

import pytest

from maint.lab.http import messages
from maint.lab.virtual_clusters.cluster import Cluster
from maint.lab.virtual_clusters.messages import ApiError, Request

REQUIREMENTS = "/resources/env/requirements.txt"


def test_the_recreate_order_of_the_seed_works_twice(api):
    for _ in range(2):
        assert api.ask("DELETE", "/jobs/j").status in (204, 404)
        assert api.ask("DELETE", "/resources/r").status in (204, 404)
        api.resource("r", {"a.py": b"print(1)\n"})
        created = api.spark("j", mounts=[{"resourceName": "r", "dirPrefix": ""}], spark={"file": "a.py"})
        assert (created.status, created.content) == (201, b"")
    assert api.get("/jobs/j")["spark"] == {"file": "a.py"}


def test_a_job_is_shown_without_what_is_empty_and_with_what_the_server_knows(api):
    schedule = {"enabled": False, "paused": True, "catchup": False, "dependsOnPast": False}
    api.spark("j", schedule=schedule | {"cronExpression": "", "start": "", "end": ""}, hidden=False)
    assert api.get("/jobs/j") == {
        "name": "j", "type": "spark", "spark": {"file": "https://x/y.jar"},
        "created": "2025-03-12T09:31:00Z", "modified": "2025-03-12T09:31:00Z", "retentionPolicy": "keep_indefinitely",
        "schedule": {"enabled": False, "paused": True, "user": "etl_user"},
    }  # fmt: skip


@pytest.mark.parametrize("status", ["409", "500"])
def test_a_taken_name_is_refused(api, status):
    api.switch(duplicate_job=status)
    api.spark("j")
    again = api.spark("j")
    assert again.status == int(status)
    assert again.json == {"status": "error", "message": "job with name already exists"}
    api.resource("r", {})
    again = api.ask("POST", "/resources", {"name": "r", "type": "files", "hidden": False})
    assert (again.status, again.json["message"]) == (409, "resource with name already exists")


@pytest.mark.parametrize(
    "definition",
    [
        {"name": "", "type": "spark", "spark": {"file": "x"}},
        {"name": "x" * 65, "type": "spark", "spark": {"file": "x"}},
        {"name": "a/b", "type": "spark", "spark": {"file": "x"}},
        {"name": "j", "type": "other", "spark": {"file": "x"}},
        {"name": "j", "type": "spark"},
        {"name": "j", "type": "airflow", "airflow": {}},
        {"name": "j", "type": "spark", "spark": {"file": "x", "conf": {"a": 1}}},
        {"name": "j", "type": "spark", "spark": {"file": "x", "driverCores": True}},
        {"name": "j", "type": "spark", "spark": {"file": "x"}, "mounts": {"resourceName": "r"}},
        {"name": "j", "type": "spark", "spark": {"file": "x"}, "mounts": [{"resourceName": "not-there"}]},
        {"name": "j", "type": "spark", "spark": {"file": "x"}, "schedule": {"cronExpression": "61 * * * *"}},
        {"name": "j", "type": "spark", "spark": {"file": "x"}, "schedule": {"start": "tomorrow"}},
        ["no", "object"],
    ],
)
def test_a_definition_without_sense_is_refused(api, definition):
    answer = api.ask("POST", "/jobs", definition)
    assert answer.status == 400
    assert answer.json["status"] == "error"


def test_mounts_and_files_are_checked_as_the_switches_say(api):
    missing = {"mounts": [{"resourceName": "git"}], "spark": {"file": "x.py"}}
    assert api.spark("j", **missing).status == 400
    api.switch(missing_mount="accept")
    assert api.spark("j", **missing).status == 201
    api.switch(missing_file="refuse", missing_mount="accept")
    assert api.spark("k", **missing).status == 400


def test_unknown_keys_are_dropped_or_kept(api):
    body = {"python-version": "python3", "retention-policy": "x"}
    api.spark("j", **body)
    assert not body.keys() & api.get("/jobs/j").keys()
    api.switch(unknown_keys="keep")
    api.spark("k", **body, created="yesterday")
    shown = api.get("/jobs/k")
    assert body.items() <= shown.items()
    assert shown["created"] == "2025-03-12T09:31:00Z"


def test_a_patch_merges_or_replaces(api):
    api.spark("j", alerting={"mailTo": ["x"]}, schedule={"enabled": True, "paused": True, "cronExpression": "@daily"})
    api.pass_(seconds=5)
    assert api.ask("PATCH", "/jobs/j", {"spark": {"file": "https://x/z.jar"}}).status == 200
    merged = api.get("/jobs/j")
    assert (merged["spark"]["file"], merged["alerting"]) == ("https://x/z.jar", {"mailTo": ["x"]})
    assert (merged["created"], merged["modified"]) == ("2025-03-12T09:31:00Z", "2025-03-12T09:31:05Z")
    assert merged["schedule"]["pausedUponCreation"] is True
    api.switch(patch="replace", update_status="204")
    answer = api.ask("PATCH", "/jobs/j", {"spark": {"file": "https://x/z.jar"}})
    assert (answer.status, answer.content) == (204, b"")
    assert "alerting" not in api.get("/jobs/j")
    assert api.ask("PATCH", "/jobs/none", {}).status == 404


def test_creations_may_answer_with_the_object(api):
    api.switch(create_body="object")
    assert api.spark("j").json["name"] == "j"


def test_a_file_comes_back_byte_for_byte_whatever_it_holds(api):
    files = {"crlf.csv": b"a\r\nb\r\n", "empty": b"", "lib/über.bin": bytes(range(256)) * 999, "Vacuum.py": b"x"}
    api.resource("r", files)
    for path, content in files.items():
        assert api.ask("GET", f"/resources/r/{path}").content == content
    listed = api.get("/resources/r?includeFiles=true")
    assert [entry["path"] for entry in listed["files"]] == ["crlf.csv", "empty", "lib/über.bin", "Vacuum.py"]
    signatures = {path: hashlib.sha1(content).hexdigest() for path, content in files.items()}
    assert {entry["path"]: entry["signature"] for entry in listed["files"]} == signatures
    ordered = [signatures[path] for path in sorted(files, key=str.encode)]
    assert listed["signature"] == hashlib.sha1("".join(ordered).encode()).hexdigest()
    assert listed["files"][1]["sizeBytes"] == 0


def test_an_empty_resource_has_no_signature(api):
    api.resource("r", {"a": b"x"})
    assert api.ask("DELETE", "/resources/r/a").status == 204
    assert "signature" not in api.get("/resources/r?includeFiles=true")
    assert api.ask("GET", "/resources/r/a").status == 404


def test_content_is_kept_once_and_goes_with_its_last_use(api):
    api.resource("r", {"a": b"same", "b": b"same"})
    blob = api.cluster.files.blob(hashlib.sha1(b"same").hexdigest())
    api.ask("PUT", "/resources/r/a", upload=b"other")
    assert blob.exists()
    api.ask("DELETE", "/resources/r")
    assert not blob.exists()


@pytest.mark.parametrize("path", ["../x", "a//b", "a/./b", "%2e%2e/x", "/x"])
def test_a_file_cannot_lie_outside_of_its_resource(api, path):
    api.resource("r", {})
    assert api.ask("PUT", f"/resources/r/{path}", upload=b"x").status == 400


def test_a_mounted_resource_may_be_protected(api):
    api.resource("r", {"a.py": b""})
    api.spark("j", mounts=[{"resourceName": "r"}], spark={"file": "a.py"})
    api.switch(delete_mounted="refuse")
    assert api.ask("DELETE", "/resources/r").status == 409
    api.switch(delete_mounted="allow")
    assert api.ask("DELETE", "/resources/r").status == 204
    assert api.get("/jobs/j")["mounts"] == [{"resourceName": "r"}]


def test_an_environment_is_built_once_its_requirements_come(api):
    api.resource("env", {}, "python-env")
    assert api.get("/resources/env")["status"] == "pending-build"
    assert api.ask("PUT", "/resources/env/other.txt", upload=b"x").status == 400
    assert api.ask("PUT", REQUIREMENTS, upload=b"pandas==1.5.3\n# no\npyarrow\n").status == 201
    assert api.get("/resources/env")["status"] == "building"
    api.spark("j", spark={"file": "https://x/y.py", "pythonEnvResourceName": "env"})
    refused = api.ask("POST", "/jobs/j/run")
    assert (refused.status, refused.json["message"]) == (400, "cannot use resource 'env' in status 'building'")
    uploaded = api.get("/resources/env")["modified"]
    api.pass_(seconds=2)
    built = api.get("/resources/env")
    assert (built["status"], built["modified"], built["pythonEnvInfo"]["numberOfPackages"]) == ("ready", uploaded, 2)
    assert api.ask("GET", REQUIREMENTS).content.startswith(b"pandas")
    assert api.ask("POST", "/jobs/j/run").status == 201


def test_an_environment_may_fail_to_build_and_keep_its_requirements_to_itself(api):
    api.switch(requirements_download="refuse")
    api.strike("vc-build-fails")
    api.resource("env", {"requirements.txt": b"nothing\n"}, "python-env")
    api.pass_(seconds=2)
    failed = api.get("/resources/env")
    assert failed["status"] == "failed"
    assert "Build failed" in failed["pythonEnvInfo"]["statusReason"]
    assert api.ask("GET", REQUIREMENTS).status == 400


def test_bytes_may_not_match_their_signature(api):
    api.resource("r", {"a": b"content"})
    api.strike("vc-bad-signature")
    assert api.ask("GET", "/resources/r/a").response.damage == "flip"


def test_state_survives(loaded):
    before = (loaded.get("/jobs"), loaded.get("/resources"), loaded.get("/job-runs"))
    files = loaded.cluster.files.entries("etl-scripts")
    loaded.cluster.close()
    again = Cluster(loaded.cluster.folder, loaded.cluster.identity, loaded.world, loaded.cluster.now)
    assert again.files.entries("etl-scripts") == files
    loaded.cluster = again
    assert (loaded.get("/jobs"), loaded.get("/resources"), loaded.get("/job-runs")) == before
    assert again.next_run() == 50
    again.close()


def cut(content, size):
    return (content[start : start + size] for start in range(0, len(content), size))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1 << 16])
@pytest.mark.parametrize("payload", [b"", b"\r\n", b"--XX", b"\r\n--X", b"a\r\n--XXnot\r\n" * 9])
def test_a_form_gives_its_file_however_it_is_cut(size, payload):
    boundary = b"--" + b"XXY"
    head = b'\r\nContent-Disposition: form-data; name="%s"; filename="f"\r\n\r\n'
    body = (
        boundary + head % b"other" + b"zzz\r\n" + boundary + head % b"file" + payload + b"\r\n" + boundary + b"--\r\n"
    )
    assert b"".join(messages.form_part(cut(body, size), "multipart/form-data; boundary=XXY")) == payload


@pytest.mark.parametrize("keep", [10, 60, 100])
def test_a_form_that_ends_early_gives_nothing(keep):
    body = b'--B\r\nContent-Disposition: form-data; name="file"\r\n\r\n' + b"x" * 90 + b"\r\n--B--\r\n"
    with pytest.raises(messages.BadForm):
        list(messages.form_part(cut(body[:keep], 8), "multipart/form-data; boundary=B"))


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b"[" * 700 + b"]" * 700, b'{"name": "\\ud800"}', b'{"name": NaN}', b"\xff"]
)
def test_a_body_that_no_parser_likes_is_a_400(content):
    with pytest.raises(ApiError) as refused:
        Request("POST", "/jobs", content=content).document()
    assert refused.value.response.status == 400


def test_a_git_repository_can_be_mounted_and_is_no_resource(api):
    made = {"name": "git", "git": {"repository": "https://git.example.internal/jobs.git", "branch": "main"}}
    assert api.ask("POST", "/repositories", made).status == 201
    assert api.ask("POST", "/repositories", made).status == 409
    assert api.ask("POST", "/repositories", {"name": "a/b"}).status == 400
    assert api.spark("j", mounts=[{"resourceName": "git"}], spark={"file": "x.py"}).status == 201
    assert api.get("/resources")["resources"] == []
    assert api.get("/repositories")["repositories"][0]["git"]["branch"] == "main"
    api.pass_(minutes=5)
    assert api.ask("POST", "/repositories/git/sync").status == 201
    assert api.get("/repositories/git")["modified"] == "2025-03-12T09:36:00Z"
    assert api.ask("DELETE", "/repositories/git").status == 204
    assert api.ask("GET", "/repositories/git").status == 404
    assert api.get("/jobs/j")["mounts"] == [{"resourceName": "git"}]


def _archive(api, query):
    answer = api.ask("GET", f"/admin/export?{query}")
    assert answer.status == 200
    return answer.content


def test_what_was_exported_comes_back_by_an_import(api, make_api):
    api.resource("r", {"a.py": b"print(1)\n", "sub/b.py": b""})
    api.resource("env", {"requirements.txt": b"x\n"}, "python-env")
    api.spark("j", mounts=[{"resourceName": "r"}], spark={"file": "a.py"})
    api.spark("other")
    other = make_api()
    whole = _archive(api, "exportjobs=true&exportjobresources=true&jobfilter=name%5Beq%5Dj")
    answer = other.ask("POST", "/admin/import", upload=whole)
    assert answer.json == {
        "resources": [{"name": "r", "status": "restored"}], "jobs": [{"name": "j", "status": "restored"}]
    }  # fmt: skip
    assert other.get("/resources/r")["signature"] == api.get("/resources/r")["signature"]
    assert (
        other.ask("POST", "/admin/import", upload=_archive(api, "exportjobs=false&exportresources=true")).status == 409
    )
    kept = other.ask(
        "POST", "/admin/import?duplicatehandling=keep-original", upload=_archive(api, "exportresources=true")
    )
    assert [one["name"] for one in kept.json["jobs"]] == ["other"]
    assert other.get("/resources/env")["status"] == "building"


def test_an_import_keeps_renames_or_refuses_what_is_there_already(api):
    api.spark("j", spark={"file": "https://x/old.jar"})
    archive = _archive(api, "exportjobs=true")
    assert api.ask("POST", "/admin/import", upload=archive).status == 409
    assert api.ask("POST", "/admin/import?duplicatehandling=keep-original", upload=archive).json["jobs"] == []
    for name in ("j-1", "j-2"):
        done = api.ask("POST", "/admin/import?duplicatehandling=rename", upload=archive).json["jobs"]
        assert done == [{"name": name, "status": "restored"}]
    assert api.ask("POST", "/admin/import?duplicatehandling=x", upload=archive).status == 400


def test_an_import_tells_which_jobs_could_not_be_made_and_takes_no_strange_archive(api, make_api):
    api.resource("r", {})
    api.spark("j", mounts=[{"resourceName": "r"}])
    answer = make_api().ask("POST", "/admin/import", upload=_archive(api, "exportjobs=true"))
    assert answer.json["jobs"] == [{"name": "j", "status": "failed", "message": "resource 'r' not found"}]
    assert api.ask("POST", "/admin/import", upload=b"no zip").status == 400
    for contents in (None, "{", "[]", '{"jobs": [{}]}', '{"resources": 5}'):
        strange = io.BytesIO()
        with zipfile.ZipFile(strange, "w") as archive:
            if contents:
                archive.writestr("contents-of-the-lab.json", contents)
        assert api.ask("POST", "/admin/import", upload=strange.getvalue()).status == 400
