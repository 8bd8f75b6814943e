import json
import re
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from maint.adapters.manager import calls, decoding
from maint.config.schema import Api
from maint.errors import CannotReach, LoginRefused, Transient, UsageError, WorkFailed
from maint.model.json import Json
from maint.model.manager import Place, made_of
from tests.adapters.manager.conftest import Bench

RECORDINGS = Path(__file__).parents[2] / "data" / "recordings"


def recorded(name: str) -> Json:
    value: Json = json.loads((RECORDINGS / f"answer-{name}.json").read_text())
    return value


@pytest.fixture
def server(plain: HTTPServer) -> HTTPServer:
    plain.expect_request("/api/version").respond_with_data("v49")
    return plain


def test_ecs_clusters_are_asked_for(bench: Bench, server: HTTPServer) -> None:
    ecs = {
        "name": "ecs-01",
        "displayName": "Data Services",
        "clusterType": "EXPERIENCE_CLUSTER",
        "version": "EXPERIENCE1",
        "dataContextRefs": [{"name": "ctx"}, {"uuid": "u-1"}, {}],
    }
    server.expect_request("/api/v45/clusters", query_string="clusterType=any").respond_with_json({"items": [ecs]})
    (found,) = bench.client().clusters()
    assert found.is_ecs
    assert found.data_contexts == ("ctx", "u-1")


@pytest.mark.parametrize("sent", [{}, {"items": []}, {"items": None}, []])
def test_a_list_without_a_value_is_an_empty_list(bench: Bench, server: HTTPServer, sent: Json) -> None:
    server.expect_request("/api/v45/cm/commands").respond_with_json(sent)
    server.expect_request("/api/v45/cm/service/commands").respond_with_json(sent)
    server.expect_request("/api/v45/cm/service/roles").respond_with_json(sent)
    server.expect_request("/api/v45/clusters").respond_with_json(sent)
    assert not bench.client().active_commands()


def test_a_server_that_rejects_the_parameter_is_asked_without(bench: Bench, server: HTTPServer) -> None:
    server.expect_request("/api/v45/clusters", query_string="clusterType=any").respond_with_json({"message": "?"}, 400)
    server.expect_request("/api/v45/clusters", query_string="").respond_with_json(recorded("clusters-v8"))
    (found,) = bench.client().clusters()
    assert (found.name, found.display_name, found.type) == ("cluster", "Pfern", "")


def test_a_server_that_rejects_the_parameter_is_waited_for_once(bench: Bench, server: HTTPServer) -> None:
    server.expect_request("/api/v45/clusters", query_string="clusterType=any").respond_with_json({"message": "?"}, 400)
    server.expect_request("/api/v45/clusters", query_string="").respond_with_json(recorded("clusters-v8"))
    client = bench.client()
    client.clusters()
    waited = len(bench.clock.pauses)
    assert client.clusters()
    assert len(bench.clock.pauses) == waited


def test_a_cluster_name_stands_in_one_path_segment(bench: Bench, server: HTTPServer) -> None:
    server.expect_request("/api/v45/clusters/Base Cluster/ü%2F?x/services").respond_with_json(recorded("services-v11"))
    assert bench.client().services("Base Cluster/ü%2F?x")
    raw = server.log[-1][0].environ["RAW_URI"]
    assert raw == "/api/v45/clusters/Base%20Cluster%2F%C3%BC%252F%3Fx/services"


def test_data_contexts_are_those_made_of_the_clusters_services(bench: Bench, server: HTTPServer) -> None:
    items = [
        {"name": "mine", "services": [{"clusterName": "base", "serviceName": "hdfs"}]},
        {"name": "detailed", "servicesDetails": {"items": [{"name": "hive", "clusterRef": {"clusterName": "base"}}]}},
        {"name": "other", "services": [{"clusterName": "second", "serviceName": "hdfs"}]},
        {"name": "plain", "services": ["hive"]},
        {"name": "plain-other", "services": ["ozone"]},
        {"name": "bare"},
    ]
    server.expect_request("/api/v45/dataContexts").respond_with_json({"items": items})
    server.expect_request("/api/v45/clusters/base/services").respond_with_json({"items": [{"name": "hive"}]})
    assert bench.client().data_contexts("base") == ["mine", "detailed", "plain"]


def test_an_api_below_32_knows_no_data_contexts(bench: Bench, plain: HTTPServer) -> None:
    plain.expect_request("/api/version").respond_with_data("v31")
    assert bench.client(clusters_api=31).data_contexts("base") == []


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_is_another_path_is_refused(bench: Bench, server: HTTPServer, name: str) -> None:
    with pytest.raises(UsageError):
        bench.client().services(name)


def test_recorded_hosts_and_settings_are_read(bench: Bench, server: HTTPServer) -> None:
    server.expect_request("/api/v45/hosts").respond_with_json(recorded("hosts-v14"))
    server.expect_request("/api/v45/cm/config").respond_with_json(recorded("cm-config-v16"))
    client = bench.client()
    assert client.hosts()[0].host_id == "c5bf96f8-dca4-463f-8c9d-f56555b334c6"
    assert all(isinstance(value, str) for value in client.settings().values())


def test_hosts_are_listed_with_the_time_of_the_server_that_stamps_their_signs_of_life(bench, server):
    server.expect_request("/api/v45/hosts").respond_with_json({"items": [{"hostId": "1"}]})
    (host,) = bench.client().hosts()
    assert abs(datetime.now(UTC) - datetime.fromisoformat(host.listed)) < timedelta(minutes=1)
    assert decoding.moment("Tue, 24 Nov 2026 10:00:07 GMT") == "2026-11-24T10:00:07.000Z"
    assert decoding.moment("soon") == decoding.moment("") == ""


def test_the_release_is_told(bench: Bench, server: HTTPServer) -> None:
    server.expect_request("/api/v45/cm/version").respond_with_json(recorded("version-v19"))
    assert bench.client().release() == "5.16.1"


def test_no_monitoring_service_is_none(bench: Bench, server: HTTPServer) -> None:
    for path in ("service", "service/roles"):
        server.expect_request(f"/api/v45/cm/{path}").respond_with_json({"message": "No such service"}, 404)
    client = bench.client()
    assert client.management_service() is None
    assert client.management_roles() == []


def test_unknown_states_are_kept_as_they_come(bench: Bench, server: HTTPServer) -> None:
    items = [{"name": "a", "serviceState": "HIBERNATING"}, {"name": "b"}, "noise", {"type": 7}]
    server.expect_request("/api/v45/clusters/c/services").respond_with_json({"items": items})
    assert [found.state for found in bench.client().services("c")] == ["HIBERNATING", "UNKNOWN", "UNKNOWN"]


def test_a_missing_licence_is_no_failure(bench: Bench, server: HTTPServer) -> None:
    told = {"message": "This installation currently has no license."}
    server.expect_request("/api/v49/cm/license").respond_with_json(told, 404)
    assert bench.client().license() is None


def test_a_licence_is_read(bench: Bench, server: HTTPServer) -> None:
    server.expect_request("/api/v49/cm/license").respond_with_json({"owner": "Example", "uuid": "u"})
    found = bench.client().license()
    assert found is not None
    assert (found.owner, found.expiration) == ("Example", "")


def test_a_404_that_is_not_the_managers_is_a_failure(bench: Bench, server: HTTPServer) -> None:
    server.expect_request("/api/v49/cm/license").respond_with_data("<html>Not Found</html>", status=404)
    with pytest.raises(WorkFailed, match="404"):
        bench.client().license()


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("abc-_123", "abc-_123"),
        ("abc\n", "abc"),
        ("abc\r\n", "abc"),
        (" a b \n", " a b "),
        ("1e10", "1e10"),
        ("true", "true"),
        ('a"b', 'a"b'),
        ("{half", "{half"),
        ("<sharp", "<sharp"),
    ],
)
def test_the_truststore_password_is_taken_as_it_comes(bench: Bench, server: HTTPServer, sent: str, kept: str) -> None:
    server.expect_request("/api/v49/certs/truststorePassword").respond_with_data(sent)
    found = bench.client().truststore_password()
    assert found is not None
    assert found.reveal() == kept


@pytest.mark.parametrize(
    "sent", ['{"message": "no"}', '"abc"', "<!DOCTYPE html><p>", "<html>", "a\nb\n", b"Pass\xe4word", b"\xff\xfe"]
)
def test_what_is_no_password_is_refused(bench: Bench, server: HTTPServer, sent: str | bytes) -> None:
    server.expect_request("/api/v49/certs/truststorePassword").respond_with_data(sent)
    with pytest.raises(WorkFailed, match="not a password"):
        bench.client().truststore_password()


@pytest.mark.parametrize(("status", "sent"), [(404, "no"), (500, "no"), (200, ""), (200, "\n")])
def test_without_auto_tls_there_is_no_truststore_password(
    bench: Bench, server: HTTPServer, status: int, sent: str
) -> None:
    path = "/api/v49/certs/truststorePassword"
    server.expect_request(path).respond_with_data(sent, status=status)
    assert bench.client().truststore_password() is None
    assert sum(request.path == path for request, _ in server.log) == (3 if status == 500 else 1)


def test_an_error_of_the_server_that_passes_is_not_taken_for_auto_tls_off(bench: Bench, server: HTTPServer) -> None:
    path = "/api/v49/certs/truststorePassword"
    server.expect_oneshot_request(path).respond_with_data("no", status=500)
    server.expect_request(path).respond_with_data("abc")
    found = bench.client().truststore_password()
    assert found is not None
    assert found.reveal() == "abc"


def test_an_api_below_41_is_not_asked_for_what_it_lacks(bench: Bench, plain: HTTPServer) -> None:
    plain.expect_request("/api/version").respond_with_data("v40")
    client = bench.client(api=Api.model_construct(clusters=40, deployment=40))
    assert client.truststore_password() is None
    assert client.instances() == []
    assert {request.path for request, _ in plain.log} == {"/api/version"}


def test_instances_are_listed(bench: Bench, server: HTTPServer) -> None:
    items = [{"name": "cm-1", "ipAddress": "192.0.2.1"}]
    server.expect_request("/api/v45/cm/instances").respond_with_json({"items": items})
    assert [found.name for found in bench.client().instances()] == ["cm-1"]


def test_a_403_names_the_role_that_is_needed(bench: Bench, server: HTTPServer) -> None:
    server.expect_request("/api/v49/cm/license").respond_with_json({"message": "Forbidden"}, 403)
    with pytest.raises(WorkFailed, match="403 Forbidden: Forbidden") as failure:
        bench.client().license()
    assert "Full Administrator" in (failure.value.hint or "")


def test_the_servers_words_and_causes_are_passed_on(bench: Bench, server: HTTPServer) -> None:
    told = {"message": "It broke.", "causes": ["a disk", 5, "a cable"]}
    server.expect_request("/api/v45/hosts").respond_with_json(told, 500)
    with pytest.raises(WorkFailed, match=r"500 Internal Server Error: It broke.; a disk; a cable"):
        bench.client().hosts()


@pytest.mark.parametrize("status", [502, 503, 504])
def test_html_of_a_proxy_is_transient(bench: Bench, server: HTTPServer, status: int) -> None:
    server.expect_request("/api/v45/hosts").respond_with_data("<html>Bad</html>", status=status)
    with pytest.raises(Transient, match=str(status)):
        bench.client().hosts()


def test_a_page_with_200_is_not_taken_for_an_answer(bench: Bench, server: HTTPServer) -> None:
    server.expect_request("/api/v45/hosts").respond_with_data("<html>Log in</html>", content_type="text/html")
    with pytest.raises(WorkFailed, match="not JSON") as failure:
        bench.client().hosts()
    assert "<html>" in failure.value.detail[0]


def test_integers_stay_exact(bench: Bench, server: HTTPServer) -> None:
    server.expect_request("/api/v45/x").respond_with_data('{"pwSalt": -8906817278156687271, "pwSalt2": 1, "a": 1}')
    assert bench.client().get("/x")["pwSalt"] == -8906817278156687271  # type: ignore[index,call-overload]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_read_that_is_redirected_knocks_anew_and_asks_at_the_tls_port(
    secure: Bench, plain: HTTPServer, tls: HTTPServer, status: int
) -> None:
    """TLS comes up under a client that knew only the plain port."""
    port = tls.port
    plain.expect_request("/api/version").respond_with_data("v49")
    tls.stop()
    client = secure.client(allow_plain=True)
    client.log_in()
    tls.port = port
    tls.start()
    plain.clear()
    plain.expect_request("/api/version").respond_with_data("", status=status)
    moved = {"Location": f"https://127.0.0.1:{port}/api/v45/hosts"}
    plain.expect_request("/api/v45/hosts").respond_with_data("", status=status, headers=moved)
    tls.expect_request("/api/version").respond_with_data("v49")
    tls.expect_request("/api/v45/hosts").respond_with_json({"items": []})
    assert client.hosts() == []
    assert [request.path for request, _ in plain.log] == ["/api/v45/hosts", "/api/version"]
    assert [request.path for request, _ in tls.log].count("/api/v45/hosts") == 1


def test_a_port_that_only_redirects_is_not_the_api(secure: Bench, tls: HTTPServer) -> None:
    tls.expect_request("/api/version").respond_with_data("", status=302, headers={"Location": "/cmf/login"})
    with pytest.raises(CannotReach, match="302"):
        secure.client().log_in()


def test_a_login_refused_while_reading_is_told(bench: Bench, plain: HTTPServer) -> None:
    def answer(request: Request) -> Response:
        return Response("no", 401)

    plain.expect_request("/api/version").respond_with_handler(answer)
    with pytest.raises(LoginRefused):
        bench.client().hosts()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["id", "items", "name", "children", "x"]), inner),
)


@given(anything)
def test_no_json_stops_the_decoding(value: Json) -> None:
    assert isinstance(decoding.command(value).id, int)
    listed = decoding.items(value) or []
    for item in listed:
        for decode in (decoding.cluster, decoding.service, decoding.role, decoding.host, decoding.instance):
            assert decode(item) == decode(item)
        assert not made_of(item, "base", ())
        assert not made_of({"services": [{"clusterName": item, "clusterRef": {"clusterName": item}}]}, "base", ())
    assert isinstance(decoding.settings(listed), dict)


@pytest.mark.parametrize("status", [400, 429, 500, 502, 503, 504])
@pytest.mark.parametrize("at", ["/api/version", "/api/v45/cm/commands", "/api/v49/cm/license"])
def test_a_failure_that_passes_is_asked_again_at_any_read_and_before_a_change(
    bench: Bench, plain: HTTPServer, status: int, at: str
) -> None:
    left = {at: 2}

    def answered(request: Request) -> Response:
        if left.get(request.path, 0):
            left[request.path] -= 1
            return Response('{"message": "Try later."}', status)
        if request.path == "/api/version":
            return Response("v49")
        return Response('{"items": [], "owner": "Example"}')

    plain.expect_request(re.compile("/api/.*")).respond_with_handler(answered)
    client = bench.client()
    if at == "/api/version":
        client.configure(Place("base"), "x", "1", "so")
        assert [request.method for request, _ in plain.log].count("PUT") == 1
    else:
        assert client.license() and not client.active_commands()
    assert left == {at: 0} and set(bench.clock.pauses) == {calls._PAUSE}


def test_a_line_that_dies_at_the_knock_is_no_manager_that_is_down(bench: Bench, plain: HTTPServer) -> None:
    dead = [True]

    def answered(request: Request) -> Response:
        if dead.pop() if dead else False:
            request.environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return Response("v49")

    plain.expect_request("/api/version").respond_with_handler(answered)
    assert bench.client().api_version() == 49
