"""A manager written from the contract alone: it shares no code with the lab, and behaves otherwise where it may."""

import base64
import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

DOCUMENT = Path(__file__).parents[3] / "maint" / "lab" / "data" / "deployment-example.json"
ACCOUNT = "admin"
PASSWORD = "admin"  # as the document has it
PAGE = "<!DOCTYPE html><html><body><h1>Please log in</h1></body></html>"
_LONG = 120.0  # seconds; no more than an end for what hangs
Scripted = Response | Callable[[Request], Response]


def said(body: object, status: int = 200) -> Response:
    """An answer in JSON, in one line: nobody may depend on how it is laid out."""
    return Response(json.dumps(body), status=status, content_type="application/json;charset=utf-8")


def page(status: int = 200) -> Response:
    """An answer of somebody else on the way."""
    return Response(PAGE, status=status, content_type="text/html")


def cut(content: bytes, length: int) -> Response:
    """An answer that ends before it is whole."""
    response = Response(content[:length], content_type="application/json")
    response.headers["Content-Length"] = str(len(content))
    response.automatically_set_content_length = False
    return response


class Manager:
    """State, what arrived, and what a test wants to have answered instead: `script["METHOD path"]`, first come first.

    Command ids are fractions, as old clients write them, and parameters that came with ECS are unknown.
    """

    def __init__(self, server: HTTPServer) -> None:
        self.server = server
        self.document: dict[str, Any] = json.loads(DOCUMENT.read_bytes())
        self.states = {
            cluster["name"]: {service["name"]: "STARTED" for service in cluster["services"]}
            for cluster in self.document["clusters"]
        }
        self.roles = {"mgmt-HM": "HOSTMONITOR", "mgmt-SM": "SERVICEMONITOR", "mgmt-EV": "EVENTSERVER"}
        self.role_states = dict.fromkeys(self.roles, "STOPPED")
        self.commands: dict[int, dict[str, Any]] = {}
        self.polls = 2  # how often a command is asked for until it has ended
        self.failing: dict[str, Any] | None = None  # how commands end, where they do not succeed
        self.license: dict[str, Any] | None = None
        self.truststore = Response("yNpPRZ1X_of-the-stub", content_type="text/plain")
        self.script: dict[str, list[Scripted]] = {}
        self.log: list[str] = []
        self.lock = threading.RLock()
        self.made, self.gone = threading.Event(), threading.Event()  # a late answer, and who waited for it
        self.everything = re.compile("")
        self.serve(server)

    def serve(self, server: HTTPServer) -> None:
        """Answer at one more port."""
        server.expect_request(self.everything).respond_with_handler(self._answer)

    @property
    def sent(self) -> list[str]:
        """What was to change something."""
        return [line for line in self.log if not line.startswith("GET ")]

    def wait_for(self, line: str, process: Any) -> None:
        """Return once a request has arrived; AssertionError where the process ends before."""
        while line not in self.log:
            assert process.poll() is None, process.communicate()
            time.sleep(0.005)

    def late(self, act: Callable[[], Response]) -> Scripted:
        """Act at once, and answer only when `kill_amid` has killed who waits."""

        def answer(request: Request) -> Response:
            with self.lock:
                told = act()
            self.made.set()
            self.gone.wait(_LONG)
            return told

        return answer

    def kill_amid(self, line: str, process: Any) -> None:
        """Kill a command once a request has arrived; where its answer is late, once the request is carried out."""
        late = line in self.script
        self.wait_for(line, process)
        assert not late or self.made.wait(_LONG)
        process.kill()
        process.communicate()
        self.gone.set()

    def _answer(self, request: Request) -> Response:
        token = base64.b64encode(f"{ACCOUNT}:{PASSWORD}".encode()).decode()
        line = f"{request.method} {re.sub('^/api/v[0-9]+', '', request.path)}"
        self.log.append(line)
        if request.headers.get("Authorization") != f"Basic {token}":
            return Response("<h2>Error 401 Bad credentials</h2>", 401, {"WWW-Authenticate": "Basic realm=x"})
        if self.script.get(line):
            scripted = self.script[line].pop(0)
            return scripted(request) if callable(scripted) and not isinstance(scripted, Response) else scripted
        with self.lock:
            return self._usual(request.method, line.partition(" ")[2], request)

    def _usual(self, method: str, path: str, request: Request) -> Response:
        for pattern, answer in (
            (r"GET /api/version", lambda: Response("v49", content_type="text/plain")),
            (r"GET /cm/version", lambda: said({"version": "7.6.5"})),
            (r"GET /cm/deployment", lambda: said(self.document)),
            (r"PUT /cm/deployment", lambda: self.put(request)),
            (r"GET /cm/license", lambda: said(self.license) if self.license else self._none("No license.")),
            (r"GET /certs/truststorePassword", lambda: self.truststore),
            (r"GET /clusters", lambda: self._clusters(request)),
            (r"DELETE /clusters/([^/]+)", self.delete),
            (r"GET /clusters/([^/]+)/services", self._services),
            (r"POST /clusters/([^/]+)/commands/(stop|start)", self.begin),
            (r"GET /commands/(\d+)", self._poll),
            (r"GET (?:/clusters/([^/]+)|/cm/service|/cm)/commands", self._active),
            (r"GET /cm/service", lambda: said({"name": "mgmt", "type": "MGMT", "serviceState": "STOPPED"})),
            (r"GET /cm/service/roles", self.listed_roles),
            (r"POST /cm/service/roleCommands/start", lambda: self.start_roles(request)),
            (r"GET /cm/config", lambda: said({"items": [{"name": "WEB_TLS", "value": "true"}]})),
            (r"GET /hosts", lambda: said({"items": self.document["hosts"]})),
            (r"GET /(?:dataContexts|cm/instances)", lambda: said({"items": []})),
        ):
            found = re.fullmatch(pattern, f"{method} {path}")
            if found:
                response: Response = answer(*(group for group in found.groups()))
                return response
        return page(404)

    def _none(self, message: str) -> Response:
        return said({"message": message}, 404)

    def _clusters(self, request: Request) -> Response:
        if request.query_string:
            return said({"message": "Unknown query parameter 'clusterType'."}, 400)
        return said({"items": [{"name": name, "displayName": f"{name} (shown)"} for name in self.states]})

    def _services(self, cluster: str) -> Response:
        if cluster not in self.states:
            return self._none(f"Cluster '{cluster}' not found.")
        listed = [{"name": name, "serviceState": state} for name, state in self.states[cluster].items()]
        return said({"items": listed})

    def delete(self, cluster: str) -> Response:
        """Forget a cluster, or have none."""
        if self.states.pop(cluster, None) is None:
            return self._none(f"Cluster '{cluster}' not found.")
        kept = [one for one in self.document["clusters"] if one["name"] != cluster]
        templates = [t for t in self._templates(self.document) if t["clusterRef"]["clusterName"] != cluster]
        self.document = {**self.document, "clusters": kept, "hostTemplates": {"items": templates}}
        return said({"name": cluster})

    def begin(self, cluster: str, verb: str) -> Response:
        """Begin a command; the services' states lag behind it."""
        number = 338 + len(self.commands)
        self.commands[number] = {"id": float(number), "name": verb.title(), "active": True, "left": self.polls}
        self.commands[number]["cluster"] = cluster
        return said({"id": float(number), "name": verb.title(), "active": True})

    def _poll(self, number: str) -> Response:
        command = self.commands.get(int(number))
        if command is None:
            return self._none(f"Command {number} not found.")
        command["left"] -= 1
        if command["left"] <= 0 and command["active"]:
            command.update(active=False, success=True)
            if self.failing is not None:
                command.update(self.failing)
            elif "cluster" in command:
                reached = "STOPPED" if command["name"] == "Stop" else "STARTED"
                self.states[command["cluster"]] = dict.fromkeys(self.states[command["cluster"]], reached)
            else:
                self.role_states[command["role"]] = "STARTED"
        return said({key: value for key, value in command.items() if key not in ("left", "cluster", "role")})

    def _active(self, cluster: str | None) -> Response:
        running = [one for one in self.commands.values() if one["active"] and one.get("cluster") == cluster]
        return said({"items": [{key: one[key] for key in ("id", "name", "active")} for one in running]})

    def listed_roles(self) -> Response:
        """Tell the monitoring service's roles."""
        listed = [{"name": n, "type": kind, "roleState": self.role_states[n]} for n, kind in self.roles.items()]
        return said({"items": listed})

    def start_roles(self, request: Request) -> Response:
        """Begin a command for each role."""
        begun = []
        for role in json.loads(request.get_data())["items"]:
            number = 338 + len(self.commands)
            self.commands[number] = {"id": float(number), "name": "Start", "active": True, "left": 1, "role": role}
            begun.append({"id": float(number), "name": "Start", "active": True})
        return said({"items": begun, "errors": []})

    def put(self, request: Request) -> Response:
        """Add a document to what there is; its clusters are at rest."""
        assert request.args["deleteCurrentDeployment"] == "false"
        more, now = json.loads(request.get_data()), self.document
        for one in more["clusters"]:
            self.states[one["name"]] = {service["name"]: "STOPPED" for service in one["services"]}
        added = {name: [*now[name], *more.get(name, [])] for name in ("clusters", "hosts")}
        templates = self._templates(now) + self._templates(more)
        self.document = {**now, **added, "hostTemplates": {"items": templates}}
        return said(self.document)

    @staticmethod
    def _templates(document: dict[str, Any]) -> list[dict[str, Any]]:
        return list(document.get("hostTemplates", {}).get("items", []))
