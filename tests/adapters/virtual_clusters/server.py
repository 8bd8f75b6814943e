"""A jobs API that a test scripts: state in memory, and a switch for everything that the contract leaves open."""

import hashlib
import json
import re
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

TOKEN_PATH = "/gateway/authtkn/knoxtoken/api/v1/token"
PAGE = "<html><body>502 Bad Gateway</body></html>"
PASSWORD = "pässword-of-the-user"
MARKER = re.compile(r'print\("([^"]+)"\)')


@dataclass
class Switches:
    """What the contract leaves open (section 15)."""

    duplicate_job: int = 500
    before_kill: Callable[[dict[str, Any]], Response] | None = None  # answers in its place
    log_types: str = "object"  # object, bare, objects, none
    expires_in: Any = 3600
    token_user: str = ""  # whose the token says it is
    run_answers_id: bool = True
    knows_request_id: bool = True
    shows_request_id: bool = False
    write_fails: int = 0  # so many writes are done and then answered with a page of a proxy; -1: each one
    write_refused: int = 0  # so many writes are answered with a page of a proxy and not done
    throttle: int = 0  # so many calls are answered with 429
    retry_after: str = "7"  # seconds that those ask for
    unauthorised: int = 0  # so many calls are answered with 401
    role: bool = True
    role_refused: bool = False
    shift: str = ""  # before each page but the first: insert, delete
    sorts: bool = True
    success: int = 201
    states: tuple[str, ...] = ("starting", "running", "succeeded")
    log_late: int = 0  # so many asks for a log are answered with "not found"
    update_replaces: bool = False
    born_paused: bool = False  # whether a DAG whose file asks for it is paused upon creation
    kerberos: bool = True
    listed_late: int = 0  # so many lists of runs do not yet have the newest


@dataclass
class Api:
    """The state and the answers."""

    switches: Switches = field(default_factory=Switches)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)
    logs: dict[tuple[int, str], str] = field(default_factory=dict)
    sent: list[tuple[str, str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list, repr=False)
    tokens: int = 0
    polls: dict[int, int] = field(default_factory=dict)
    pages: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)

    def writes(self) -> list[str]:
        """Return all that was sent to change something, as "METHOD path"."""
        return [f"{method} {path}" for method, path, _ in self.sent if method != "GET"]

    def bodies(self, what: str) -> list[Any]:
        """Return the bodies of all calls "METHOD path"."""
        return [body for method, path, body in self.sent if f"{method} {path}" == what]

    def add_file(self, resource: str, path: str, content: bytes, **more: Any) -> None:
        """Put a file into a resource, made where it is not there."""
        self.resources.setdefault(resource, {"name": resource, "type": "files", "status": "ready", **more})
        self.files.setdefault(resource, {})[path] = content

    def serve(self, server: HTTPServer) -> None:
        """Answer all that is asked."""
        server.expect_request(re.compile(".*")).respond_with_handler(self.answer)

    def answer(self, request: Request) -> Response:
        """Answer one request."""
        with self.lock:
            path = unquote(urlsplit(request.environ["REQUEST_URI"]).path)
            self.headers.append(dict(request.headers))
            if path == TOKEN_PATH:
                return self._token(request)
            body = self._body(request)
            self.sent.append((request.method, path.removeprefix("/dex/api/v1"), body))
            return self._switched(request, path.removeprefix("/dex/api/v1"), body)

    def _token(self, request: Request) -> Response:
        given = request.authorization
        if given is None or (given.username, given.password) != ("etl_user", PASSWORD):
            return Response("<html>who are you</html>", 401)
        self.tokens += 1
        user = json.dumps({"sub": self.switches.token_user}).encode()
        claims = urlsafe_b64encode(user).decode().rstrip("=") if self.switches.token_user else f"number{self.tokens}"
        answer: dict[str, Any] = {"access_token": f"token.{claims}.signature", "token_type": "Bearer"}
        if self.switches.expires_in is not None:
            answer["expires_in"] = self.switches.expires_in
        return _json(answer)

    def _switched(self, request: Request, path: str, body: Any) -> Response:
        switches = self.switches
        if switches.throttle:
            switches.throttle -= 1
            return _error(429, "slow down", {"Retry-After": switches.retry_after})
        if switches.unauthorised or not request.headers.get("Authorization", "").startswith("Bearer token."):
            switches.unauthorised -= 1
            return Response("<html>log in</html>", 401)
        if switches.role_refused:
            return _error(403, "forbidden")
        write = request.method != "GET"
        if write and switches.write_refused:
            switches.write_refused -= 1
            return Response(PAGE, 502)
        answer = self._routed(request, path, body)
        if write and switches.write_fails:
            switches.write_fails -= 1 if switches.write_fails > 0 else 0
            return Response(PAGE, 502, content_type="text/html")
        return answer

    def _body(self, request: Request) -> Any:
        raw = request.get_data()
        if not raw:
            return None
        if request.content_type == "application/json":
            return json.loads(raw)
        head = f"Content-Type: {request.content_type}\r\n\r\n".encode()
        part = next(iter(BytesParser(policy=HTTP).parsebytes(head + raw).iter_parts()))
        assert part.get_param("name", header="content-disposition") == "file"
        start = raw.index(b"\r\n\r\n") + 4
        return raw[start : raw.rindex(b"\r\n--")]

    def _routed(self, request: Request, path: str, body: Any) -> Response:
        uri = urlsplit(request.environ["REQUEST_URI"])
        parts = [unquote(part) for part in uri.path.removeprefix("/dex/api/v1").strip("/").split("/")]
        query = parse_qs(uri.query)
        routes = {"info": self._info, "jobs": self._jobs, "resources": self._resources, "job-runs": self._runs}
        if parts[0] not in routes:
            return _error(404, "no such path")
        return routes[parts[0]](request.method, parts[1:], query, body)

    def _info(self, method: str, parts: list[str], query: Any, body: Any) -> Response:
        return _json({"appName": "Default-VC-abc12345"})

    def _listed(self, key: str, items: list[dict[str, Any]], query: Any) -> Response:
        limit, offset = int(query.get("limit", ["20"])[0]), int(query.get("offset", ["0"])[0])
        if limit > 100:
            return _error(400, "limit is too large")
        items = items if self.switches.role else []
        for text in query.get("filter", []):
            found = re.fullmatch(r"(\w+)\[eq\](.*)", text)
            assert found, text
            items = [item for item in items if item.get(found[1]) == found[2]]
        shown = items[offset : offset + limit]
        meta = {"hasNext": offset + limit < len(items), "limit": limit, "offset": offset, "count": len(shown)}
        return _json({key: shown, "meta": meta})

    def _shifted(self, table: dict[str, dict[str, Any]], query: Any) -> None:
        if query.get("offset", ["0"])[0] == "0":
            return
        self.pages += 1
        if self.switches.shift == "insert":
            table[f"aaa-{self.pages:03}"] = {"name": f"aaa-{self.pages:03}", "type": "spark"}
        elif self.switches.shift == "delete":
            table.pop(min(table))
        elif self.switches.shift == "delete-many" and self.pages == 1:
            for name in sorted(table)[:30]:
                table.pop(name)

    def _jobs(self, method: str, parts: list[str], query: Any, body: Any) -> Response:
        if not parts:
            if method == "POST":
                return self._create_job(body)
            self._shifted(self.jobs, query)
            shown = [job for _, job in sorted(self.jobs.items()) if not job.get("hidden")]  # as a real one may (J14)
            return self._listed("jobs", shown, query)
        name = parts[0]
        if name not in self.jobs:
            return _error(404, "could not get job from storage: job not found")
        if parts[1:] == ["run"]:
            return self._start(name, body or {})
        if parts[1:2] == ["schedule"]:
            self.jobs[name].setdefault("schedule", {})["paused"] = parts[2] == "pause"
            return Response("", self.switches.success)
        if method == "DELETE":
            del self.jobs[name]
            return Response("", 204)
        if method == "PATCH":
            self.jobs[name] = {**({} if self.switches.update_replaces else self.jobs[name]), **_omit_empty(body)}
            return Response("", self.switches.success)
        return _json(self.jobs[name])

    def _create_job(self, body: Any) -> Response:
        if body["name"] in self.jobs:
            return _error(self.switches.duplicate_job, "job with name already exists")
        made = {"created": _now(), "modified": _now(), "lastUsed": "0001-01-01T00:00:00Z"}
        job = {**_omit_empty(body), **made, "retentionPolicy": "keep_indefinitely"}
        job.setdefault("schedule", {"enabled": False, "cronExpression": "@once"})
        job["schedule"] = {"enabled": False, **job["schedule"], "user": "etl_user"}
        if job["type"] == "airflow":
            job["airflow"]["dagID"] = "the_dag"
            sources = [self.files.get(mount["resourceName"], {}) for mount in job.get("mounts", ())]
            source = b"".join(each.get(job["airflow"]["dagFile"], b"") for each in sources).decode()
            if found := re.search(r"schedule=[\"'](.*?)[\"']", source):
                job["schedule"]["cronExpression"] = found[1]
            else:
                job["schedule"].pop("cronExpression", None)
            if self.switches.born_paused and "is_paused_upon_creation=True" in source:
                job["schedule"] |= {"paused": True, "pausedUponCreation": True}
        self.jobs[body["name"]] = job
        return Response("", self.switches.success)

    def began(self, job: str, request: str) -> int:
        """Have a run that somebody started; return its number."""
        self._start(job, {"requestID": request})
        return int(self.runs[-1]["id"])

    def _start(self, name: str, body: dict[str, Any]) -> Response:
        wanted = body.get("requestID")
        if self.switches.knows_request_id:
            for run in self.runs:
                if run["_request"] == wanted:
                    return _json({"status": "error", "message": "exists", "id": run["id"]}, 409)
        job, number = self.jobs[name], len(self.runs) + 41
        run = {"id": number, "job": name, "type": job["type"], "user": "etl_user", "started": _now()}
        run |= {"_request": wanted, "status": self.switches.states[0], "ended": "0001-01-01T00:00:00Z"}
        run |= {"requestID": wanted} if self.switches.shows_request_id else {}
        self.runs.append(run)
        self._write_logs(job, number)
        return _json({"id": number}, 201) if self.switches.run_answers_id else Response("", 201)

    def _write_logs(self, job: dict[str, Any], number: int) -> None:
        self.logs[(number, "submitter/jobs_api")] = f"run {number}\n"
        if not self.switches.kerberos:
            self.logs[(number, "submitter/stderr")] = "secret etl---user-krb5-secret not found\n"
            return
        source = b"".join(
            self.files.get(mount.get("resourceName", ""), {}).get(job.get("spark", {}).get("file", ""), b"")
            for mount in job.get("mounts", [])
        )
        printed = MARKER.findall(source.decode())
        self.logs[(number, "driver/stdout")] = "".join(f"{line}\n" for line in printed) or "some output\n"

    def _runs(self, method: str, parts: list[str], query: Any, body: Any) -> Response:
        if not parts:
            rising = not (self.switches.sorts and query.get("orderasc") == ["false"])
            shown = [{k: v for k, v in run.items() if k != "_request"} for run in self.runs]
            if self.switches.listed_late and shown:
                self.switches.listed_late -= 1
                shown.pop()
            return self._listed("runs", shown if rising else shown[::-1], query)
        run = next((run for run in self.runs if run["id"] == int(parts[0])), None)
        if run is None:
            return _error(404, "run not found")
        if parts[1:] == ["kill"] and self.switches.before_kill is not None:
            return self.switches.before_kill(run)
        if parts[1:] == ["kill"]:
            run["status"] = "killed"
            return Response("", 201)
        if parts[1:] == ["log-types"]:
            return self._log_types(run["id"])
        if parts[1:] == ["logs"]:
            return self._log(run["id"], query["type"][0])
        polled = self.polls[run["id"]] = self.polls.get(run["id"], 0) + 1
        if run["status"] not in ("killed", "failed", "succeeded"):
            states = self.switches.states if self.switches.kerberos else ("starting", "failed")
            run["status"] = states[min(polled, len(states) - 1)]
        return _json({k: v for k, v in run.items() if k != "_request"})

    def _log_types(self, number: int) -> Response:
        names = [kind for run, kind in self.logs if run == number]
        shapes: dict[str, Any] = {
            "object": {"logTypes": names},
            "bare": names,
            "objects": [{"type": name} for name in names],
            "none": {"logTypes": []},
        }
        return _json(shapes[self.switches.log_types])

    def _log(self, number: int, kind: str) -> Response:
        if self.switches.log_late:
            self.switches.log_late -= 1
            return _error(404, "object not found")
        text = self.logs.get((number, kind))
        return _error(404, "object not found") if text is None else Response(text, 200, content_type="text/plain")

    def _resources(self, method: str, parts: list[str], query: Any, body: Any) -> Response:
        if not parts:
            if method == "POST":
                if body["name"] in self.resources:
                    return _error(409, "resource with name already exists")
                made = {"status": "ready", "created": _now(), "modified": _now()}
                self.resources[body["name"]] = {**_omit_empty(body), **made, "retentionPolicy": "keep_indefinitely"}
                self.files[body["name"]] = {}
                return Response("", 201)
            return self._listed("resources", [self.resources[name] for name in sorted(self.resources)], query)
        if parts[0] not in self.resources:
            return _error(404, "resource not found")
        if len(parts) == 1:
            if method == "DELETE":
                del self.resources[parts[0]], self.files[parts[0]]
                return Response("", 204)
            return _json(self._resource(parts[0], with_files=query.get("includeFiles") == ["true"]))
        return self._file(method, parts[0], "/".join(parts[1:]), body)

    def _resource(self, name: str, *, with_files: bool) -> dict[str, Any]:
        files = [
            {"path": path, "signature": hashlib.sha1(content).hexdigest(), "sizeBytes": len(content)}
            for path, content in sorted(self.files.get(name, {}).items(), key=lambda pair: pair[0].lower())
        ]
        return {**self.resources[name], **({"files": files} if with_files else {})}

    def _file(self, method: str, resource: str, path: str, body: Any) -> Response:
        files = self.files[resource]
        if method == "PUT":
            files[path] = body or b""
            return Response("", 201)
        if path not in files:
            return _error(404, "file not found")
        if method == "DELETE":
            del files[path]
            return Response("", 204)
        return Response(files[path], 200, content_type="application/octet-stream")


def _omit_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _omit_empty(v) for k, v in value.items() if v not in ("", [], None) and (v or k == "enabled")}
    return value


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _json(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value), status, content_type="application/json")


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    body = json.dumps({"status": "error", "message": message})
    return Response(body, status, headers or {}, content_type="application/json")
