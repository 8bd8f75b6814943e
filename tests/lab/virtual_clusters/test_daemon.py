"""Virtual clusters of a lab in its own process: made, deleted, kept across a sudden end."""

import json
import os
import signal
import socket
import ssl
import time
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from maint.errors import UsageError
from maint.lab import control
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from maint.lab.virtual_clusters.create import BadName


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "lab"
    yield place
    control.down(place)


def ask(told, method, path, body=None, *, token=""):
    """Send one request by the names of a virtual cluster, to where they can be reached."""
    url = told["auth_url"] if path.startswith("/gateway") else told["base_url"]
    host, _, port = url.removeprefix("https://").partition("/")[0].partition(":")
    context = ssl.create_default_context(cafile=told["ca"])
    connection = HTTPSConnection(host, int(port), context=context, timeout=100)
    raw = socket.create_connection(("127.0.0.1", int(port)), timeout=100)
    connection.sock = context.wrap_socket(raw, server_hostname=host)
    headers = {"Authorization": token} if token else {}
    target = path if path.startswith("/gateway") else f"/dex/api/v1{path}"
    connection.request(method, target, json.dumps(body) if body is not None else None, headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, json.loads(content) if content.startswith((b"{", b"[")) else content


def log_in(told):
    import base64

    account = f"{told['username']}:{Path(told['password_file']).read_text()}"
    basic = "Basic " + base64.b64encode(account.encode()).decode()
    return "Bearer " + ask(told, "GET", "/gateway/authtkn/knoxtoken/api/v1/token", token=basic)[1]["access_token"]


def test_a_virtual_cluster_comes_on_order(folder):
    control.up(folder, Options(ssh=False))
    told = control.create_vc(folder, "second-one", initialised=True)
    assert ask(told, "GET", "/info", token=log_in(told)) == (200, {"appName": "second-one"})
    with pytest.raises(UsageError, match="already"):
        control.create_vc(folder, "second-one")
    there = [each["name"] for each in control.status(folder)["virtual_clusters"]]
    assert there == ["Default-VC-abc12345", "second-one"]


def test_a_lab_without_a_service_takes_no_such_order(folder):
    control.up(folder, Options(ssh=False, fresh=True))
    with pytest.raises(UsageError, match="no Data Engineering service"):
        control.create_vc(folder, "second-one")


def test_what_was_answered_survives_a_sudden_end_and_its_active_runs_are_unknown(folder):
    (told,) = control.up(folder, Options(ssh=False))["virtual_clusters"]
    control.break_(folder, "", "vc-run-stuck")
    token = log_in(told)
    assert ask(told, "POST", "/resources", {"name": "kept"}, token=token)[0] == 201
    number = ask(told, "POST", "/jobs/order-report/run", token=token)[1]["id"]
    os.kill(json.loads((folder / "control.json").read_bytes())["pid"], signal.SIGKILL)
    while control.status(folder)["running"]:
        time.sleep(0.02)
    (again,) = control.up(folder)["virtual_clusters"]
    assert again == told
    assert ask(told, "GET", "/resources/kept", token=token)[0] == 200
    assert ask(told, "GET", f"/job-runs/{number}", token=token)[1]["status"] == "unknown"
    assert ask(told, "POST", "/jobs/order-report/run", token=token)[1]["id"] > number


def test_names_that_are_none_keep_a_lab_from_coming_up(tmp_path):
    with pytest.raises(BadName, match="names no virtual cluster"):
        Lab(tmp_path / "lab", Options(ssh=False, virtual_clusters=("1st",)))
