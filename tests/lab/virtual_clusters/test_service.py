"""The service over the network: names, certificates, tokens, uploads, faults of the wire."""

import base64
import json
import socket
import ssl
import subprocess
import time
from pathlib import Path

import pytest
import requests

from maint.lab.http.server import read_requests
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from maint.lab.virtual_clusters.create import BadName

SWITCHES = {"down-seconds": "0", "starting-seconds": "0", "vc-starting-seconds": "0", "vc-log-seconds": "0"}


class Client:
    """Talks to one virtual cluster of a lab by its names."""

    def __init__(self, lab: Lab, number: int = 0) -> None:
        self.lab = lab
        self.told = lab.status()["virtual_clusters"][number]
        self.token = ""

    def password(self, user: str) -> str:
        """Return the password of a user."""
        return (self.lab.folder / "vc/passwords" / user).read_text()

    def log_in(self, user: str = "etl_user", password: str | None = None) -> requests.Response:
        """Ask for a token."""
        url = f"{self.told['auth_url']}/gateway/authtkn/knoxtoken/api/v1/token"
        account = (user, password if password is not None else self.password(user))
        answer = requests.get(url, auth=account, verify=self.told["ca"], timeout=100)
        if answer.ok:
            self.token = answer.json().get("access_token", "")
        return answer

    def send(self, method: str, path: str, **more) -> requests.Response:
        """Send one request."""
        headers = {"Authorization": f"Bearer {self.token}", **more.pop("headers", {})}
        url = self.told["base_url"] + path
        return requests.request(method, url, headers=headers, verify=self.told["ca"], timeout=100, **more)


def until(so):
    """Return once something is so."""
    limit = time.monotonic() + 200
    while not so():
        assert time.monotonic() < limit, "it never came about"
        time.sleep(0.05)


@pytest.fixture(autouse=True)
def names(monkeypatch):
    """Let all names of the lab's domain be on loopback."""
    real = socket.getaddrinfo

    def answer(host, *more, **named):
        return real("127.0.0.1" if str(host).endswith(".example.internal") else host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", answer)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with Lab(tmp_path_factory.mktemp("lab") / "lab", Options(ssh=False, switches=SWITCHES)) as lab:
        yield lab


@pytest.fixture
def lab(shared):
    yield shared
    shared.repair()
    for name in list(shared.world.switches.chosen):
        if name.startswith("vc-") and name not in SWITCHES:
            del shared.world.switches.chosen[name]


@pytest.fixture
def client(lab):
    client = Client(lab)
    assert client.log_in().status_code == 200
    return client


def test_the_lab_tells_where_its_virtual_cluster_is(lab):
    (told,) = lab.status()["virtual_clusters"]
    assert {"name", "base_url", "auth_url", "username", "password_file", "ca", "cdp_endpoint"} <= told.keys()
    port = told["connect_to"].rpartition(":")[2]
    assert told["base_url"] == f"https://k7m2q9xz.cde-abc12345.apps.example.internal:{port}/dex/api/v1"
    assert told["auth_url"] == f"https://service.cde-abc12345.apps.example.internal:{port}"


def test_the_toolkit_reads_its_configuration(lab):
    from maint.config.precedence import ConfigFlags, load_settings

    site = load_settings(ConfigFlags(config=lab.folder / "config.yaml"), {}).site("lab")
    (cluster,) = site.virtual_clusters
    assert (cluster.name, cluster.login.username) == ("Default-VC-abc12345", "etl_user")
    assert [user.name for user in cluster.users] == ["etl_user", "deuser1"]


def test_a_token_is_for_directory_users_with_their_password(client):
    found = client.log_in().json()
    assert found["token_type"] == "Bearer"
    _, payload, signature = found["access_token"].split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    assert claims["exp"] == found["expires_in"] // 1000
    assert signature
    assert isinstance(found["managed"], str)
    assert client.log_in("etl_user", "wrong").status_code == 401
    assert client.log_in("nobody", "").status_code == 401
    assert client.log_in("admin").status_code == 403
    assert client.log_in("guest_user").status_code == 200
    assert client.send("GET", "/jobs").json()["jobs"] == []


@pytest.mark.parametrize(("form", "told"), [("duration", 1), ("absent", None)])
def test_a_token_expires_and_tells_when_in_the_chosen_form(lab, client, form, told):
    lab.switch("vc-expires-in", form)
    assert client.log_in().status_code == 200
    lasting = client.token
    assert client.send("GET", "/info").status_code == 200
    lab.switch("vc-token-seconds", "1")
    assert client.log_in().json().get("expires_in") == told
    until(lambda: client.send("GET", "/info").status_code == 401)
    assert client.send("GET", "/info").headers["Content-Type"] == "text/html"
    lab.switch("vc-unauthorised-body", "json")
    assert client.send("GET", "/info").json()["status"] == "error"
    client.token = lasting
    assert client.send("GET", "/info").status_code == 200


def signed(key):
    """The headers of a request that is signed with an access key."""
    sign = base64.urlsafe_b64encode(json.dumps({"access_key_id": key, "auth_method": "ed25519v1"}).encode()).decode()
    return {"x-altus-date": "Wed, 12 Mar 2025 09:31:00 GMT", "x-altus-auth": f"{sign}.c2ln"}


@pytest.mark.parametrize("key", ["any", "", "é", None])
def test_an_access_key_that_nobody_was_given_opens_nothing(client, key):
    url = f"{client.told['cdp_endpoint']}/api/v1/iam/generateWorkloadAuthToken"
    answer = requests.post(url, json={"workloadName": "DE"}, headers=signed(key), verify=client.told["ca"], timeout=100)
    assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHENTICATED")


def test_a_signature_that_is_nested_very_deeply_opens_nothing(client):
    url = f"{client.told['cdp_endpoint']}/api/v1/de/describeService"
    headers = {"x-altus-date": "now", "x-altus-auth": base64.urlsafe_b64encode(b"[" * 40_000).decode()}
    assert requests.post(url, json={}, headers=headers, verify=client.told["ca"], timeout=100).status_code == 401


@pytest.mark.parametrize(("kind", "status"), [("Bearer ", 200), ("bearer ", 200), ("", 401), ("Basic ", 401)])
def test_a_token_counts_only_where_it_is_said_to_be_one(client, kind, status):
    assert client.send("GET", "/info", headers={"Authorization": kind + client.token}).status_code == status


def test_only_its_owner_can_read_the_access_key(client):
    path = Path(client.told["access_key_file"])
    assert path.stat().st_mode & 0o777 == 0o600 and len(path.read_text()) == 32


def test_an_access_key_leads_to_the_same_token(client):
    told = client.told
    headers = signed(Path(told["access_key_file"]).read_text())

    def control(call, body):
        url = f"{told['cdp_endpoint']}/api/v1/{call}"
        return requests.post(url, json=body, headers=headers, verify=told["ca"], timeout=100).json()

    service = control("de/describeService", {"clusterId": "cluster-abc12345"})["service"]
    asked = {"workloadName": "DE", "environmentCRN": service["environmentCrn"]}
    workload = control("iam/generateWorkloadAuthToken", asked)["token"]
    url = f"{told['auth_url']}/gateway/cdptkn/knoxtoken/api/v1/token"
    found = requests.get(url, headers={"authorization": f"Bearer {workload}"}, verify=told["ca"], timeout=100).json()
    client.token = found["access_token"]
    assert client.send("GET", "/info").json() == {"appName": "Default-VC-abc12345"}
    assert control("de/listVcs", {})["vcs"][0]["vcApiUrl"] == told["base_url"]
    client.token = workload
    assert client.send("GET", "/info").status_code == 401


def test_a_large_file_goes_in_and_out_in_pieces(client, tmp_path):
    big = tmp_path / "big"
    with big.open("wb") as stream:
        for number in range(12):
            stream.write(bytes([number]) * (1 << 20))
    assert client.send("POST", "/resources", json={"name": "big", "type": "files"}).status_code == 201
    with big.open("rb") as stream:
        assert client.send("PUT", "/resources/big/a/b.bin", files={"file": stream}).status_code == 201
    answer = client.send("GET", "/resources/big/a/b.bin")
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.content == big.read_bytes()
    client.lab.break_("", "vc-bad-signature")
    wrong = client.send("GET", "/resources/big/a/b.bin").content
    assert (len(wrong), wrong == answer.content) == (len(answer.content), False)
    client.lab.repair()
    client.lab.break_("", "vc-cut-download")
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        client.send("GET", "/resources/big/a/b.bin")
    assert client.send("DELETE", "/resources/big").status_code == 204


def asked(client):
    """The last request that the lab has noted."""
    return read_requests(client.lab.folder / "requests.jsonl")[-1]


def test_a_failure_within_is_answered_and_noted(client, lab, monkeypatch, capfd):
    (cluster,) = lab.service.clusters()

    def broken(*_, **__):
        raise RuntimeError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(cluster, "job_view", broken)
        answer = client.send("GET", "/jobs")
    assert (answer.status_code, answer.json()["status"]) == (500, "error")
    assert asked(client)["status"] == 500
    assert "a bug" in capfd.readouterr().err
    assert client.send("GET", "/info").status_code == 200


def test_a_length_that_is_no_number_is_refused(client):
    answer = client.send("POST", "/jobs", headers={"Content-Length": "abc"}, data=b"")
    assert (answer.status_code, asked(client)["status"]) == (400, 400)


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PATCH"])
def test_methods_that_a_path_does_not_know_are_refused_and_noted(client, method):
    answer = client.send(method, "/jobs")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, POST")
    noted = asked(client)
    assert (noted["method"], noted["status"]) == (method, 405)


def test_what_is_no_object_is_refused_by_the_control_plane(client):
    url = f"{client.told['cdp_endpoint']}/api/v1/de/describeVc"
    headers = signed(Path(client.told["access_key_file"]).read_text())
    answer = requests.post(url, json=[1], headers=headers, verify=client.told["ca"], timeout=100)
    assert (answer.status_code, answer.json()) == (200, {"vc": {}})


def test_an_upload_may_come_in_chunks_or_not_at_all(client):
    client.send("POST", "/resources", json={"name": "chunks"})
    boundary = {"Content-Type": "multipart/form-data; boundary=B"}
    pieces = [b'--B\r\nContent-Disposition: form-data; name="file"\r\n\r\n', b"abc", b"def", b"\r\n--B--\r\n"]
    assert client.send("PUT", "/resources/chunks/a", data=iter(pieces), headers=boundary).status_code == 201
    assert client.send("GET", "/resources/chunks/a").content == b"abcdef"
    assert client.send("PUT", "/resources/chunks/a", data=b"raw").status_code == 400
    assert client.send("PUT", "/resources/chunks/a", data=b"".join(pieces[:2]), headers=boundary).status_code == 400
    assert client.send("GET", "/resources/chunks/a").content == b"abcdef"
    assert client.send("DELETE", "/resources/chunks").status_code == 204


def test_whoever_asks_too_often_is_told_how_long_to_wait(client):
    client.lab.switch("vc-requests-per-second", "1")
    answers = []
    until(lambda: answers.append(client.send("GET", "/info")) or answers[-1].status_code == 429)
    assert answers[-1].headers["Retry-After"] == "1"


def test_an_upload_larger_than_the_switch_says_is_refused(client):
    client.lab.switch("vc-upload-max-bytes", "1000")
    assert client.send("POST", "/resources", json={"name": "r", "type": "files"}).status_code == 201
    for size, status in ((2000, 413), (10, 201)):
        assert client.send("PUT", "/resources/r/a", files={"file": b"x" * size}).status_code == status


def test_a_write_may_be_done_and_its_answer_lost_or_replaced(client):
    client.lab.break_("", "vc-answer-lost")
    with pytest.raises(requests.ConnectionError):
        client.send("POST", "/resources", json={"name": "lost"})
    assert client.send("GET", "/resources/lost").status_code == 200
    client.lab.break_("", "vc-502-after-write")
    for expected in ("gone", "gone"):
        answer = client.send("DELETE", "/resources/lost")
        assert (answer.status_code, answer.headers["Content-Type"], expected) == (502, "text/html", "gone")
    assert client.send("GET", "/resources/lost").status_code == 404


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ("vc-unauthorised-once", 401),
        ("vc-forbidden", 403),
        ("vc-throttled", 429),
        ("vc-unavailable", 503),
        ("vc-proxy-502", 502),
        ("vc-error-500", 500),
        ("vc-html-200", 200),
    ],
)
def test_faults_answer_in_the_place_of_the_api_and_nothing_is_done(client, fault, status):
    client.lab.break_("", fault)
    assert client.send("POST", "/resources", json={"name": "not-made"}).status_code == status
    client.lab.repair()
    assert client.send("GET", "/resources/not-made").status_code == 404


def test_a_connection_may_end_before_anything_is_done(client):
    client.lab.break_("", "vc-connection-dropped")
    with pytest.raises(requests.ConnectionError):
        client.send("POST", "/resources", json={"name": "not-made"})
    assert client.send("GET", "/resources/not-made").status_code == 404


def test_a_token_service_that_the_gateway_has_not_is_not_found(client, lab):
    url = f"{client.told['auth_url']}/gateway/authtkn/knoxtoken/api/v1/token"
    account = ("etl_user", client.password("etl_user"))
    assert requests.delete(url, auth=account, verify=client.told["ca"], timeout=100).status_code == 405
    lab.switch("vc-token-service", "other")
    assert client.log_in().status_code == 404


@pytest.mark.parametrize(("fault", "status"), [("vc-token-refused", 401), ("vc-gateway-down", 503)])
def test_the_gateway_may_refuse_or_be_down(client, fault, status):
    client.lab.break_("", fault)
    assert client.log_in().status_code == status


def test_the_gateway_may_forget_the_token_and_spell_its_refusals_in_three_ways(client):
    client.lab.break_("", "vc-token-nameless")
    assert "access_token" not in client.log_in().json()
    for kind, content in (("empty", b""), ("json", b'{"status":"error","message":"invalid credentials"}\n')):
        client.lab.switch("vc-token-refusal", kind)
        assert client.log_in("etl_user", "wrong").content == content


def test_a_virtual_cluster_that_is_not_initialised_shows_the_certificate_of_its_ingress(lab):
    lab.service.create("fresh-one")
    client = Client(lab, 1)
    assert client.log_in().status_code == 200
    with pytest.raises(requests.exceptions.SSLError):
        client.send("GET", "/info")
    lab.service.cluster("fresh-one").set_tls(True)
    assert client.send("GET", "/info").json() == {"appName": "fresh-one"}
    assert client.send("GET", "/jobs").json()["jobs"] == []
    assert "fresh-one" in (lab.folder / "config.yaml").read_text()
    lab.service.delete("fresh-one")
    with pytest.raises(requests.exceptions.SSLError):
        client.send("GET", "/info")
    assert "fresh-one" not in (lab.folder / "config.yaml").read_text()


def test_certificates_may_have_expired(client):
    client.lab.break_("", "vc-expired-certificate")
    with pytest.raises(requests.exceptions.SSLError, match="expired"):
        client.send("GET", "/info")


@pytest.mark.parametrize("name", ["ab", "1abc", "a" * 31, "a_b", "Default-VC-abc12345"])
def test_names_of_virtual_clusters_are_checked(lab, name):
    with pytest.raises(BadName):
        lab.service.create(name)


def test_requests_are_in_the_labs_log(client):
    client.send("GET", "/info")
    line = json.loads((client.lab.folder / "requests.jsonl").read_text().splitlines()[-1])
    assert (line["method"], line["path"], line["status"]) == ("GET", "/dex/api/v1/info", 200)


def test_curl_does_what_the_seed_shows(client, tmp_path):
    told, app = client.told, tmp_path / "app.py"
    app.write_text("print('FROM CURL')\n")

    def curl(*words):
        common = ["curl", "-sS", "--fail-with-body", "--cacert", told["ca"], "--connect-to", f"::{told['connect_to']}"]
        return subprocess.run([*common, *words], capture_output=True, text=True, check=True).stdout

    account = f"etl_user:{client.password('etl_user')}"
    token = json.loads(curl("-u", account, f"{told['auth_url']}/gateway/authtkn/knoxtoken/api/v1/token"))[
        "access_token"
    ]
    bearer = ["-H", f"Authorization: Bearer {token}"]
    body = ["-H", "Content-Type: application/json", "-d"]
    base = told["base_url"]
    curl(*bearer, "-X", "POST", f"{base}/resources", *body, '{"name": "by-curl", "hidden": false, "type": "files"}')
    curl(*bearer, "-X", "PUT", f"{base}/resources/by-curl/app.py", "-F", f"file=@{app}")
    job = {"name": "by-curl", "type": "spark", "mounts": [{"dirPrefix": "", "resourceName": "by-curl"}]}
    curl(*bearer, "-X", "POST", f"{base}/jobs", *body, json.dumps(job | {"spark": {"file": "app.py"}}))
    curl(*bearer, "-X", "POST", f"{base}/jobs/by-curl/run")

    def listed():
        return json.loads(curl(*bearer, f"{base}/job-runs?filter=job%5Beq%5Dby-curl&offset=0"))["runs"][0]

    until(lambda: listed()["status"] == "succeeded")
    number = listed()["id"]
    assert curl(*bearer, f"{base}/job-runs/{number}/logs?type=driver%2Fstdout") == "FROM CURL\n"
    assert "submitter" in curl(*bearer, f"{base}/job-runs/{number}/logs?type=submitter%2Fstderr")
    curl(*bearer, "-X", "DELETE", f"{base}/jobs/by-curl")
    curl(*bearer, "-X", "DELETE", f"{base}/resources/by-curl")


def test_the_default_virtual_cluster_appears_some_time_after_its_service(tmp_path):
    switches = SWITCHES | {"vc-appears-seconds": "1"}
    options = Options(ssh=False, switches=switches, virtual_clusters=("spare-one",))
    founded = time.time()
    with Lab(tmp_path / "lab", options) as lab:
        early = [each["name"] for each in lab.status()["virtual_clusters"]]
        assert early == ["spare-one"] or time.time() > founded + 1
        until(lambda: len(lab.status()["virtual_clusters"]) == 2)
        assert "Default-VC-abc12345" in (lab.folder / "config.yaml").read_text()


def test_a_lab_without_data_services_has_no_virtual_clusters(tmp_path):
    lab = Lab(tmp_path / "lab", Options(ssh=False, fresh=True))
    assert lab.service is None
    assert lab.status()["virtual_clusters"] == []


def test_everything_is_still_there_when_the_lab_comes_up_again(tmp_path):
    options = Options(ssh=False, switches=SWITCHES)
    with Lab(tmp_path / "lab", options) as lab:
        client = Client(lab)
        client.log_in()
        client.send("POST", "/resources", json={"name": "kept"})
        before, token = client.send("GET", "/jobs").json(), client.token
    with Lab(tmp_path / "lab") as lab:
        client = Client(lab)
        client.token = token
        assert client.send("GET", "/jobs").json() == before
        assert client.send("GET", "/resources/kept").status_code == 200


def test_certificates_cover_both_names(client):
    port = int(client.told["connect_to"].rpartition(":")[2])
    context = ssl.create_default_context(cafile=client.told["ca"])
    for label in ("service", "k7m2q9xz"):
        name = f"{label}.cde-abc12345.apps.example.internal"
        with (
            socket.create_connection(("127.0.0.1", port)) as raw,
            context.wrap_socket(raw, server_hostname=name) as tls,
        ):
            names = {value for _, value in tls.getpeercert()["subjectAltName"]}
        assert "*.cde-abc12345.apps.example.internal" in names
