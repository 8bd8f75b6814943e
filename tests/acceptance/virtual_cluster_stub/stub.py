"""A difficult jobs API, written from the contract alone: it knows neither the lab nor the other scripted one.

It is never kind: tokens last two seconds, pages shift while they are read, some calls are throttled, and every write is
answered with a proxy's page after it was done, now and then before it was.
"""

import base64
import hashlib
import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

USER, PASSWORD = "etl_user", "ein Paßwort: mit ümläuten"
PROXY = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
_LIFE = 2.0  # seconds that a token is good for
_ZERO = "0001-01-01T00:00:00Z"

Doc = dict[str, Any]
Answer = tuple[int, Any]  # status, and a body: bytes as they are, None for none, anything else as JSON


@dataclass
class Temper:
    """What the contract leaves open.

    Attributes:
        duplicate: the status of a job whose name is taken.
        log_types: the shape of the answer: `object`, `strings` or `objects`.
        expiry: how a token tells its end: `milliseconds`, `seconds`, `token` (in the JWT alone).
        written: the status of a write that nobody spoiled.
        merges: whether a PATCH keeps what it is not given.
    """

    duplicate: int = 409
    log_types: str = "object"
    expiry: str = "milliseconds"
    written: int = 201
    merges: bool = True


@dataclass
class Foreign:
    """The state of one virtual cluster."""

    temper: Temper = field(default_factory=Temper)
    jobs: dict[str, Doc] = field(default_factory=dict)
    resources: dict[str, Doc] = field(default_factory=dict)
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    runs: dict[int, Doc] = field(default_factory=dict)
    lies: set[str] = field(default_factory=set)  # resources whose bytes are not what their signatures say
    cuts: int = 0  # downloads that are cut before their end
    shifts: int = 6  # pages that shift before the lists come to rest
    calls: list[str] = field(default_factory=list)
    writes: int = 0
    tokens: int = 0
    throttled: int = 0
    undone: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)

    def token(self, basic: str) -> Answer:
        given = base64.b64decode(basic.removeprefix("Basic ")).decode()
        if given != f"{USER}:{PASSWORD}":
            return 401, b"<html>unauthorized</html>"
        self.tokens += 1
        end = time.time() + _LIFE
        claims = base64.urlsafe_b64encode(json.dumps({"exp": end}).encode()).decode().rstrip("=")
        told: Doc = {"access_token": f"e30.{claims}.sig", "token_type": "Bearer", "managed": "true"}
        spelled = {"milliseconds": int(end * 1000), "seconds": 2, "token": None}[self.temper.expiry]
        return 200, {**told, "expires_in": spelled} if spelled is not None else told

    def knows(self, bearer: str) -> bool:
        try:
            claims = bearer.split(".")[1]
            return float(json.loads(base64.urlsafe_b64decode(claims + "==="))["exp"]) > time.time()
        except (IndexError, ValueError, KeyError):
            return False

    def answer(self, method: str, target: str, content: bytes) -> Answer:
        """Answer one call of somebody who was let in; writes are spoiled on their way back."""
        parts = urlsplit(target)
        path = [unquote(one) for one in parts.path.removeprefix("/dex/api/v1/").split("/")]
        query = parse_qs(parts.query)
        with self.lock:
            self.calls.append(f"{method} /{'/'.join(path)}")
            if len(self.calls) % 23 == 0:
                self.throttled += 1
                return 429, b"slow down"
            if method == "GET":
                return self._read(path, query)
            self.writes += 1
            if self.writes % 31 == 0:  # not done
                self.undone += 1
                return 502, PROXY
            status, body = self._write(method, path, content)
            return (502, PROXY) if status < 300 else (status, body)  # done, and again on its repeat

    # -- reading

    def _read(self, path: list[str], query: dict[str, list[str]]) -> Answer:
        kind, *rest = path
        if kind == "info":
            return 200, {"appName": "foreign-vc"}
        if kind == "job-runs":
            return self._read_run(rest, query)
        table = self.jobs if kind == "jobs" else self.resources
        if not rest:
            return self._page(kind, [self._shown(kind, one) for _, one in sorted(table.items())], query)
        if rest[0] not in table:
            return self._missing(kind)
        if len(rest) == 1:
            shown = self._shown(kind, table[rest[0]])
            listed = self._listed(rest[0]) if query.get("includeFiles") == ["true"] else []
            return 200, {**shown, **({"files": listed} if listed else {})}
        found = self.files[rest[0]].get("/".join(rest[1:]))
        if found is None:
            return 404, {"status": "error", "message": "file not found"}
        return 200, found[:-1] + b"?" if rest[0] in self.lies else found

    def _page(self, key: str, items: list[Doc], query: dict[str, list[str]]) -> Answer:
        limit, offset = int(query.get("limit", ["20"])[0]), int(query.get("offset", ["0"])[0])
        if limit > 100:
            return 400, {"status": "error", "message": "limit too large"}
        for term in query.get("filter", []):
            name, wanted = re.fullmatch(r"(\w+)\[eq\](.*)", term).groups()  # type: ignore[union-attr]
            items = [one for one in items if str(one.get(name)) == wanted]
        if query.get("orderasc") == ["false"]:
            items.reverse()
        if offset and self.shifts:  # somebody creates, or deletes, in front of what was read
            self.shifts -= 1
            items = [{"name": "0-ghost", "type": "spark"}, *items] if self.shifts % 2 else items[3:]
        shown = items[offset : offset + limit]
        return 200, {"meta": {"count": len(items), "hasNext": offset + limit < len(items)}, key: shown}

    def _shown(self, kind: str, one: Doc) -> Doc:
        if kind == "resources":
            paths = sorted(self.files[one["name"]].items(), key=lambda pair: pair[0].encode())
            joined = "".join(hashlib.sha1(content).hexdigest() for _, content in paths)
            return {**one, **({"signature": hashlib.sha1(joined.encode()).hexdigest()} if paths else {})}
        return one

    def _listed(self, resource: str) -> list[Doc]:
        found = sorted(self.files[resource].items(), key=lambda pair: pair[0].lower())
        return [
            {
                "signature": hashlib.sha1(content).hexdigest(),
                "path": path,
                **({"sizeBytes": len(content)} if content else {}),
            }
            for path, content in found
        ]

    def _read_run(self, rest: list[str], query: dict[str, list[str]]) -> Answer:
        if not rest:
            return self._page("runs", [self._run(number) for number in sorted(self.runs)], query)
        number = int(rest[0])
        if number not in self.runs:
            return 404, {"status": "error", "message": "job run not found"}
        if rest[1:] == ["log-types"]:
            kinds = ["driver/stdout", "submitter/jobs_api"]
            shapes = {"object": {"logTypes": kinds}, "strings": kinds, "objects": [{"type": one} for one in kinds]}
            return 200, shapes[self.temper.log_types]
        if rest[1:] == ["logs"]:
            return self._log(self.runs[number], query["type"][0])
        return 200, self._run(number)

    def _run(self, number: int) -> Doc:
        run = self.runs[number]
        age = time.time() - run["_at"]
        if run["status"] not in ("killed", "succeeded"):
            run["status"] = "starting" if age < 0.2 else "running" if age < 0.4 else "succeeded"
        return {key: value for key, value in run.items() if key[0] != "_"}

    def _log(self, run: Doc, kind: str) -> Answer:
        if kind != "driver/stdout":
            return 200, b"submitted\n"
        printed = re.findall(rb'print\("([^"]+)"\)', run["_source"])
        return 200, b"".join(one + b"\n" for one in printed) or b"nothing printed\n"

    # -- writing

    def _write(self, method: str, path: list[str], content: bytes) -> Answer:
        kind, *rest = path
        if kind == "job-runs":
            self.runs[int(rest[0])]["status"] = "killed"
            return self.temper.written, None
        if kind == "jobs":
            return self._write_job(method, rest, json.loads(content or b"{}"))
        if not rest:
            return self._create_resource(json.loads(content))
        if rest[0] not in self.resources:
            return self._missing(kind)
        if len(rest) == 1:
            del self.resources[rest[0]], self.files[rest[0]]
            return 204, None
        name = "/".join(rest[1:])
        if method == "DELETE":
            return (204, None) if self.files[rest[0]].pop(name, None) is not None else self._missing("file")
        start = content.index(b"\r\n\r\n") + 4
        self.files[rest[0]][name] = content[start : content.rindex(b"\r\n--", start)]
        self.resources[rest[0]]["modified"] = _now()
        return self.temper.written, None

    def _create_resource(self, given: Doc) -> Answer:
        if given["name"] in self.resources:
            return 409, {"status": "error", "message": "resource with name already exists"}
        made = {"type": "files", **_told(given), "status": "ready", "created": _now(), "modified": _now()}
        self.resources[given["name"]], self.files[given["name"]] = made, {}
        return self.temper.written, None

    def _write_job(self, method: str, rest: list[str], given: Doc) -> Answer:
        if not rest:
            if given["name"] in self.jobs:
                return self.temper.duplicate, {"status": "error", "message": "job with name already exists"}
            self.jobs[given["name"]] = self._completed(given)
            return self.temper.written, None
        job = self.jobs.get(rest[0])
        if job is None:
            return self._missing("jobs")
        if rest[1:] == ["run"]:
            return self._start(job, given)
        if rest[1:2] == ["schedule"]:
            job["schedule"] = {**job.get("schedule", {}), "paused": rest[2] == "pause"}
        elif method == "DELETE":
            del self.jobs[rest[0]]
        else:
            kept = job if self.temper.merges else {"created": job["created"]}
            self.jobs[rest[0]] = {**kept, **self._completed(given), "created": job["created"]}
        return self.temper.written, None

    def _completed(self, given: Doc) -> Doc:
        job = {**_told(given), "created": _now(), "modified": _now(), "lastUsed": _ZERO}
        job["schedule"] = {"enabled": False, "user": USER, **job.get("schedule", {})}
        if job["type"] == "airflow":
            job["airflow"] = {**job["airflow"], "dagID": "dag"}
            job["schedule"] |= {"paused": False}
        return job

    def _start(self, job: Doc, given: Doc) -> Answer:
        for run in self.runs.values():
            if given.get("requestID") and run["_request"] == given["requestID"]:
                return 409, {"status": "error", "message": "exists", "id": run["id"]}
        number = len(self.runs) + 7
        mounted = [self.files.get(one["resourceName"], {}) for one in job.get("mounts", [])]
        wanted = job.get("spark", {}).get("file", "")
        source = b"".join(files.get(wanted, b"") for files in mounted)
        run = {"id": number, "job": job["name"], "type": job["type"], "user": USER, "status": "starting"}
        run |= {"started": _now(), "ended": _ZERO, "_at": time.time(), "_source": source}
        self.runs[number] = {**run, "_request": given.get("requestID")}
        return 201, {"id": number}

    def _missing(self, kind: str) -> Answer:
        return 404, {"status": "error", "message": f"could not get it from storage: {kind} not found"}


def _told(given: Any) -> Any:
    """Leave out what says nothing, as the real one does in its answers."""
    if isinstance(given, dict):
        found = {key: _told(value) for key, value in given.items()}
        return {key: one for key, one in found.items() if one not in ("", [], {}) and one is not False}
    return [_told(one) for one in given] if isinstance(given, list) else given


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    foreign: Foreign

    def do_GET(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith("/gateway/authtkn/knoxtoken/"):
            status, body = self.foreign.token(self.headers.get("Authorization", ""))
        elif not self.foreign.knows(self.headers.get("Authorization", "")):
            status, body = 401, b"<html>log in</html>"
        else:
            status, body = self.foreign.answer(self.command, self.path, content)
        self._say(status, body)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def _say(self, status: int, body: Any) -> None:
        raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "0")
        if (
            status == 200 and isinstance(body, bytes) and len(body) > 1000
        ):  # such as a server that does not know the size
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            if self.foreign.cuts:
                self.foreign.cuts -= 1
                self.wfile.write(b"%x\r\n%b\r\n" % (1000, raw[:1000]))
                self.close_connection = True
                return
            for start in range(0, len(raw), 1000):
                piece = raw[start : start + 1000]
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
            return
        if status != 204:
            self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class calls it so
        """Say nothing."""


def serve(foreign: Foreign) -> ThreadingHTTPServer:
    """Serve it on loopback; the caller shuts it down."""
    handler = type("Exchange", (_Exchange,), {"foreign": foreign})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return server
