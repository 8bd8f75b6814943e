"""The gateway: users, tokens for passwords and for access keys, and the control plane (J2)."""

import base64
import hashlib
import hmac
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from urllib.parse import quote

import msgspec

from maint.lab.http.messages import Response
from maint.lab.http.server import basic_login
from maint.lab.manager.document import Doc, spelled
from maint.lab.switches import Switches
from maint.lab.virtual_clusters import times
from maint.lab.virtual_clusters.messages import ApiError, Request, html

_WORKLOAD_LIFE = timedelta(hours=1)
WORKLOAD, ACCESS = "workload", "access"


class TokenSigner:
    """Makes and checks tokens; `issuer` is the gateway's address, for people."""

    def __init__(self, secret: bytes, issuer: str) -> None:
        self._secret, self._issuer = secret, issuer

    def make(self, user: str, kind: str, until: datetime) -> str:
        """Return a token: a JSON web token in three parts."""
        claims = {"sub": user, "iss": self._issuer, "use": kind, "exp": int(until.timestamp()), "jti": uuid.uuid4().hex}
        # To the second is too coarse for tokens that live two seconds.
        body = f"{_spell({'alg': 'HS256', 'typ': 'JWT'})}.{_spell(claims | {'until': until.timestamp()})}"
        return f"{body}.{self._signature(body)}"

    def user(self, token: str, kind: str, now: datetime) -> str:
        """Return whose token it is, "" where it is not one, or no longer one."""
        body, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(body).encode()):
            return ""
        claims = _read(body.partition(".")[2])
        if claims.get("use") != kind or claims.get("until", 0) <= now.timestamp():
            return ""
        return str(claims["sub"])

    def _signature(self, body: str) -> str:
        return _plain(hmac.new(self._secret, body.encode(), hashlib.sha256).digest())


class User(msgspec.Struct):
    """A user of the directory."""

    name: str
    password: str
    roles: list[str] = msgspec.field(
        default_factory=list
    )  # resource roles on the environment; without one, nothing is seen
    principal: str = ""  # the Kerberos principal that jobs run with
    local: bool = False  # a local administrator, who gets no tokens at all


class Users:
    """All users of a service; the id of the first one's access key cannot be guessed ("" for none)."""

    def __init__(self, people: list[User], access_key: str = "") -> None:
        self._access_key = access_key
        self._people = {person.name: person for person in people}

    def __iter__(self) -> Iterator[User]:
        return iter(self._people.values())

    def get(self, name: str) -> User | None:
        return self._people.get(name)

    def log_in(self, name: str, password: str) -> User | None:
        """Return the user that a name and a password belong to."""
        person = self._people.get(name)
        known = person.password if person else ""
        fits = hmac.compare_digest(known.encode(), password.encode())
        return person if person and fits else None

    def of_key(self, key: str) -> User | None:
        """Return the user of an access key: the first one's is the service's own; its signature is not verified."""
        fits = self._access_key and hmac.compare_digest(self._access_key.encode(), key.encode())
        return next(iter(self._people.values()), None) if fits else None


class Gateway(msgspec.Struct, frozen=True):
    """What gives tokens.

    Attributes:
        strikes: tells whether a fault hits a call.
        environment: the CRN of the environment.
        certificate: what `endpoint_public_cert` tells, base64.
        clusters: names of the virtual clusters → their addresses.
    """

    mint: TokenSigner
    people: Users
    switches: Callable[[], Switches]
    strikes: Callable[[str, str], bool]
    now: Callable[[], datetime]
    service: str
    environment: str
    certificate: str
    clusters: Callable[[], Mapping[str, tuple[str, str]]]

    def answer(self, request: Request) -> Response:
        if request.path.startswith("/gateway/") and self.strikes("vc-gateway-down", request.call):
            return html(503, "503 Service Temporarily Unavailable")
        service = quote(self.switches()["vc-token-service"], safe="")
        ways = {"authtkn": self._by_password, "cdptkn": self._by_workload}
        for word, answer in ways.items():
            if request.path == f"/gateway/{word}/{service}/api/v1/token":
                return answer(request) if request.method in ("GET", "POST") else html(405, "405 Method Not Allowed")
        if request.path.startswith("/api/v1/"):
            return self._control(request)
        return html(404, "404 Not Found")

    # -- tokens

    def _by_password(self, request: Request) -> Response:
        person = self.people.log_in(*basic_login(request.headers.get("authorization", "")))
        if person is None or self.strikes("vc-token-refused", request.call):
            return self._refused()
        if person.local:
            return ApiError(403, "only users of the directory get tokens").response
        return self._token(person.name, request)

    def _by_workload(self, request: Request) -> Response:
        user = self.mint.user(request.bearer, WORKLOAD, self.now())
        if not user or self.strikes("vc-token-refused", request.call):
            return self._refused()
        return self._token(user, request)

    def _token(self, user: str, request: Request) -> Response:
        seconds = self.switches().number("vc-token-seconds")
        until = self.now() + timedelta(seconds=seconds)
        found: Doc = {"access_token": self.mint.make(user, ACCESS, until), "token_type": "Bearer"}
        found |= {"endpoint_public_cert": self.certificate, "token_id": str(uuid.uuid4()), "managed": "false"}
        form = self.switches()["vc-expires-in"]
        if form != "absent":
            found["expires_in"] = int(until.timestamp() * 1000) if form == "milliseconds" else round(seconds)
        if self.strikes("vc-token-nameless", request.call):
            del found["access_token"]
        return Response(value=found)

    def _refused(self) -> Response:
        kind = self.switches()["vc-token-refusal"]
        if kind == "html":
            return html(401, "HTTP Status 401 - Unauthorized")
        return Response(401, text=b"") if kind == "empty" else ApiError(401, "invalid credentials").response

    # -- control plane

    def _control(self, request: Request) -> Response:
        person = self.people.of_key(_key(request.headers.get("x-altus-auth", "")))
        if person is None or not request.headers.get("x-altus-date"):
            return Response(401, {"code": "UNAUTHENTICATED", "message": "the access key is not known"})
        try:
            given = request.document()
        except ApiError as error:
            return error.response
        asked = given if isinstance(given, dict) else {}
        answers: dict[str, Callable[[], Doc]] = {
            "/api/v1/de/describeService": lambda: {"service": self._service()},
            "/api/v1/de/listServices": lambda: {"services": [self._service()]},
            "/api/v1/de/listVcs": lambda: {"vcs": self._virtual_clusters()},
            "/api/v1/de/describeVc": lambda: {"vc": self._virtual_cluster(str(asked.get("vcId", "")))},
            "/api/v1/iam/generateWorkloadAuthToken": lambda: self._workload(person.name),
        }
        if request.method != "POST" or request.path not in answers:
            return Response(404, {"code": "NOT_FOUND", "message": "no such call"})
        return Response(value=answers[request.path]())

    def _workload(self, user: str) -> Doc:
        until = self.now() + _WORKLOAD_LIFE
        return {"token": self.mint.make(user, WORKLOAD, until), "expireAt": times.seconds(until)}

    def _service(self) -> Doc:
        known = {"clusterId": f"cluster-{self.service}", "environmentCrn": self.environment}
        return known | {"name": self.service, "status": "ClusterCreationCompleted"}

    def _virtual_clusters(self) -> list[Doc]:
        known = {"clusterId": f"cluster-{self.service}", "status": "AppInstalled"}
        return [{"vcName": n, "vcId": i, "vcApiUrl": url, **known} for n, (i, url) in self.clusters().items()]

    def _virtual_cluster(self, vc_id: str) -> Doc:
        return next((vc for vc in self._virtual_clusters() if vc["vcId"] == vc_id), {})


def _key(header: str) -> str:
    """Return the access key that a signature names; the signature itself is not verified (J2.2)."""
    return str(_read(header.partition(".")[0]).get("access_key_id", ""))


def _read(encoded: str) -> Doc:
    # The object that a part of a token spells, an empty one where it is not one.
    try:
        found = spelled(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _spell(part: Doc) -> str:
    return _plain(json.dumps(part, separators=(",", ":")).encode())


def _plain(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
