"""What can be broken on purpose: every fault by name, and where it strikes (M16.10)."""

import re
import threading
from collections.abc import Iterable
from difflib import get_close_matches

import msgspec

ONCE, UNTIL_CLEARED = "once", "until cleared"
HOST = "host"


class Fault(msgspec.Struct, frozen=True):
    """One way of going wrong."""

    target: str  # the usual one; HOST for a host of the lab
    meaning: str  # what happens, for people
    count: str = ONCE  # ONCE, or UNTIL_CLEARED
    targets: tuple[str, ...] = ()  # the others it can be aimed at


_JOBS_API = r"/dex/api/v1/"
_VC_TARGETS: dict[str, str] = {
    "virtual-cluster": rf"\S+ {_JOBS_API}.*",
    "writes": rf"(POST|PUT|PATCH|DELETE) {_JOBS_API}.*",
    "jobs": rf"\S+ {_JOBS_API}jobs(/.*)?",
    "resources": rf"\S+ {_JOBS_API}resources(/.*)?",
    "runs": rf"(\S+ {_JOBS_API}job-runs(/.*)?|POST {_JOBS_API}jobs/[^/]+/run)",
    "lists": rf"GET {_JOBS_API}(jobs|resources|job-runs)",
    "downloads": rf"GET {_JOBS_API}resources/[^/]+/.+",
    "logs": rf"GET {_JOBS_API}job-runs/\d+/logs",
    "gateway": r"GET /gateway/.*",
    "jobs-engine": r"",  # what runs jobs and builds environments
    "kubectl": r"kubectl \S+ \S+",
    **{f"kubectl-{verb}": rf"kubectl {verb} \S+" for verb in ("get", "apply", "create", "replace", "delete")},
    "kubectl-create-keytab": r"kubectl create \S+-krb5-secret",
    "kubectl-apply-own": r"kubectl apply tls-dex-app-\S+",
    "kubectl-apply-keytab": r"kubectl apply \S+-krb5-secret",
}
# What a fault can be aimed at: a name, and the requests it means ("METHOD path").
TARGETS: dict[str, str] = {
    "manager": r".*",
    "version": r"GET /api/version",
    "clusters": r"\S+ /api/v\d+/clusters(/.*)?",
    "commands": r"(POST /api/v\d+/.*commands/.*|GET /api/v\d+/commands/.*)",
    "services": r"POST /api/v\d+/(clusters/[^/]+/services/[^/]+|cm/service)/(roleC|.*c)ommands/.*",
    "config": r"PUT /api/v\d+/.*/?config",
    "polling": r"GET /api/v\d+/commands/.*",
    "delete": r"DELETE /api/v\d+/clusters/[^/]+",
    "export": r"GET /api/v\d+/cm/deployment",
    "restore": r"PUT /api/v\d+/cm/deployment",
    "license": r"\S+ /api/v\d+/cm/license",
    "truststore": r"GET /api/v\d+/certs/truststorePassword",
    "server": r"",  # the server as a whole: what it does at its next start
    **_VC_TARGETS,
}
_WHOLES = ("server", "jobs-engine")
_CALLS = tuple(name for name in TARGETS if name not in ("manager", "server", *_VC_TARGETS))
_KUBECTL = tuple(name for name in _VC_TARGETS if name.startswith("kubectl-"))
_JOBS = tuple(name for name in _VC_TARGETS if not name.startswith(("gateway", "jobs-engine", "kubectl")))

# What a host's files and facts show while it is planted there.
AILMENTS: dict[str, str] = {
    "disk-97": "its disks are 97 % full",
    "clock-7s": "its clock is 7 seconds ahead, and nobody has noticed",
    "clock-skew": "its clock is 7 minutes ahead: chronyd has noticed, and only slows it down",
    "swappiness-60": "the kernel swaps as it does out of the box",
    "huge-pages": "transparent huge pages are switched on",
    "expired-host-certificate": "the certificate of its agent has expired",
    "wrong-dns": "its own name leads to another address",
    "redaction-twice": "the server's options file sets the redaction property twice",
    "untrusted-chain": "it trusts another authority than the one that the data services' certificates come from",
    "keytab-wrong-principal": "its keytabs are of principals that the realm does not know",
    "keytab-rc4": "its keytabs hold RC4 keys alone",
    "keytab-stale": "its keytabs are older than the keys that the realm has",
    "keytab-truncated": "its keytabs end in the middle of a key",
    "keytab-readable": "its keytabs can be read by everybody",
    "kdc-silent": "no key distribution centre of its realm can be reached from it",
}
_ACCESS = {
    "unreachable": "its SSH port is closed",
    "slow": "every command waits two seconds before it begins",
    "hangs-after-login": "login works, commands never answer",
    "dies-mid-command": "the connection breaks in the middle of a command's answer",
    "wrong-key": "it presents another host key than the known one",
    "banner-junk": "it prints a line of junk before each command's answer, as some login scripts do",
    "login-refused": "it lets nobody in",
    "disk-full": "whatever writes fails: No space left on device",
}
HOST_FAULTS = {name: Fault(HOST, meaning, UNTIL_CLEARED) for name, meaning in {**_ACCESS, **AILMENTS}.items()}

FAULTS: dict[str, Fault] = {
    "unauthorised-once": Fault("manager", "valid credentials are answered 401, once", ONCE, _CALLS),
    "bad-request-once": Fault("manager", "an internal failure is answered 400, once", ONCE, _CALLS),
    "error-500-once": Fault("manager", "500 with a JSON message, once", ONCE, _CALLS),
    "unavailable-once": Fault("manager", "503, once", ONCE, _CALLS),
    "unauthorised": Fault("manager", "every account is answered 401", UNTIL_CLEARED, _CALLS),
    "error-500": Fault("manager", "500 with a JSON message", UNTIL_CLEARED, _CALLS),
    "unavailable": Fault("manager", "503", UNTIL_CLEARED, _CALLS),
    "proxy-502": Fault("manager", "502 with the HTML page of a proxy", ONCE, _CALLS),
    "html-error": Fault("manager", "500 with an HTML page", ONCE, _CALLS),
    "html-200": Fault("manager", "200 with an HTML page: a portal answers in the server's place", ONCE, _CALLS),
    "redirect-everything": Fault("manager", "every request is redirected elsewhere", UNTIL_CLEARED, _CALLS),
    "connection-dropped": Fault("manager", "the connection ends before anything is done or answered", ONCE, _CALLS),
    "slow-body": Fault("export", "the body comes in drops, slow-seconds long", ONCE, ("manager", *_CALLS)),
    "cut-body": Fault("export", "the connection ends in the middle of the body", ONCE, ("manager", *_CALLS)),
    "cut-body-cleanly": Fault("export", "the body ends in its middle, with a proper last chunk", ONCE, _CALLS),
    "put-answer-lost": Fault("restore", "the deployment is applied, and the connection dropped without an answer"),
    "put-slow": Fault("restore", "the deployment takes slow-seconds longer to apply"),
    "put-fails": Fault("restore", "the server refuses the deployment with 500 and rolls everything back"),
    "delete-answer-lost": Fault("delete", "the cluster is deleted, and the connection dropped without an answer"),
    "config-refused": Fault("config", "the next setting is refused with 400, and its value quoted"),
    "config-answer-lost": Fault("config", "the setting is changed, and the connection dropped without an answer"),
    "command-rejected": Fault(
        "commands", "the next command is refused with HTTP 200 and success false", ONCE, ("services",)
    ),
    "command-fails-in-child": Fault("commands", "the next command fails; only a child says why", ONCE, ("services",)),
    "command-fails-in-parent": Fault("commands", "the next command fails and says why itself", ONCE, ("services",)),
    "command-never-ends": Fault("commands", "the next command stays active", ONCE, ("services",)),
    "command-answer-lost": Fault("services", "the command begins, and the connection dropped without an answer"),
    "wrong-truststore-password": Fault("truststore", "a password that opens nothing is served", UNTIL_CLEARED),
    "tls-never-comes-up": Fault("server", "the TLS port does not open at the next start", UNTIL_CLEARED),
    "never-comes-up": Fault("server", "the server does not come up again after its next stop", UNTIL_CLEARED),
    "expired-certificate": Fault("server", "the TLS port shows a certificate that has expired", UNTIL_CLEARED),
    "wrong-host-certificate": Fault("server", "the TLS port shows a certificate of another host", UNTIL_CLEARED),
    "unknown-ca-certificate": Fault("server", "the TLS port shows a chain of another authority", UNTIL_CLEARED),
    "vc-unauthorised-once": Fault("virtual-cluster", "a good token is answered 401, once", ONCE, _JOBS),
    "vc-forbidden": Fault("virtual-cluster", "403 for every user", UNTIL_CLEARED, _JOBS),
    "vc-throttled": Fault("virtual-cluster", "429 with Retry-After, once", ONCE, _JOBS),
    "vc-unavailable": Fault("virtual-cluster", "503 with an HTML page, nothing is done", UNTIL_CLEARED, _JOBS),
    "vc-proxy-502": Fault("virtual-cluster", "502 with an HTML page, nothing is done", ONCE, _JOBS),
    "vc-error-500": Fault("virtual-cluster", "500 with a JSON message, nothing is done", ONCE, _JOBS),
    "vc-html-200": Fault("virtual-cluster", "200 with an HTML page: a portal answers in the API's place", ONCE, _JOBS),
    "vc-connection-dropped": Fault("virtual-cluster", "the connection ends before anything is done", ONCE, _JOBS),
    "vc-answer-lost": Fault("writes", "it is done, and the connection ends without an answer", ONCE, _JOBS),
    "vc-502-after-write": Fault("writes", "it is done, and answered 502 with an HTML page", UNTIL_CLEARED, _JOBS),
    "vc-pages-repeat": Fault("lists", "an object comes in front: the next page repeats an entry", ONCE),
    "vc-pages-skip": Fault("lists", "an object in front goes: the next page skips an entry", ONCE),
    "vc-bad-signature": Fault("downloads", "the bytes do not match the file's signature", UNTIL_CLEARED),
    "vc-cut-download": Fault("downloads", "the connection ends in the middle of the bytes", ONCE, ("logs",)),
    "vc-log-missing": Fault("logs", "no log is there, ever", UNTIL_CLEARED),
    "vc-token-refused": Fault("gateway", "every password and access key is answered 401", UNTIL_CLEARED),
    "vc-gateway-down": Fault("gateway", "503 with an HTML page", UNTIL_CLEARED),
    "vc-token-nameless": Fault("gateway", "200 without an access_token", ONCE),
    "vc-run-fails": Fault("jobs-engine", "the next run cannot be fitted in, and fails"),
    "vc-run-stuck": Fault("jobs-engine", "the next run stays starting until it is killed"),
    "vc-run-unknown": Fault("jobs-engine", "the next run ends as unknown"),
    "vc-odd-state": Fault("jobs-engine", "the next run shows a state that nobody knows while it runs"),
    "vc-build-fails": Fault("jobs-engine", "the next build of a Python environment fails"),
    "vc-kubectl-fails": Fault("kubectl", "kubectl fails with an internal error, nothing is done", ONCE, _KUBECTL),
    "vc-kubectl-hangs": Fault(
        "kubectl", "kubectl never ends; with who called it the host goes down, nothing is done", ONCE, _KUBECTL
    ),
    "vc-kubectl-slow": Fault("kubectl", "kubectl takes a second longer", ONCE, _KUBECTL),
    "vc-kubectl-down": Fault("kubectl", "kubectl reaches no API server", UNTIL_CLEARED, _KUBECTL),
    "vc-node-not-ready": Fault("jobs-engine", "Kubernetes' first node is not ready", UNTIL_CLEARED),
    "vc-vault-sealed": Fault("jobs-engine", "the embedded vault is sealed", UNTIL_CLEARED),
    "vc-unknown-ca-certificate": Fault(
        "jobs-engine", "gateway and API show a chain of another authority", UNTIL_CLEARED
    ),
    "vc-expired-certificate": Fault("jobs-engine", "gateway and API show an expired certificate", UNTIL_CLEARED),
    **HOST_FAULTS,
}


class UnknownFault(ValueError):
    """No such fault, or it cannot be aimed there."""


def unheard_of(kind: str, name: str, known: Iterable[str]) -> UnknownFault:
    """Return the failure for a name that is not known, with the one that is most like it."""
    close = get_close_matches(name, known, 1, 0.7)
    return UnknownFault(f"there is no {kind} {name!r}" + (f"; did you mean {close[0]!r}?" if close else ""))


class FaultBox:
    """The faults that are set now."""

    def __init__(self, active: list[tuple[str, str]] | None = None) -> None:
        self.active = [(name, target) for name, target in active or []]  # (fault, target) as they were set
        self._lock = threading.Lock()  # what strikes once strikes one of those who ask at the same time

    def add(self, target: str, name: str) -> None:
        """Set a fault, at its usual target for ""; `UnknownFault` where it does not exist or cannot be aimed there."""
        fault = FAULTS.get(name)
        if fault is None:
            raise unheard_of("fault", name, FAULTS)
        if fault.target == HOST:
            raise UnknownFault(f"fault {name} strikes hosts, not {target or 'calls'!r}")
        target = target or fault.target
        if target not in (fault.target, *fault.targets):
            raise UnknownFault(f"fault {name} strikes {', '.join((fault.target, *fault.targets))}, not {target!r}")
        self.active.append((name, target))

    def clear(self, name: str = "", target: str = "") -> int:
        """Take a fault away, or all, everywhere or at one target; return how many went."""
        with self._lock:
            before = len(self.active)
            self.active = [(f, at) for f, at in self.active if name not in ("", f) or target not in ("", at)]
            return before - len(self.active)

    def strikes(self, name: str, call: str = "") -> bool:
        """Return whether a fault hits a call ("METHOD path"), and use it up when it hits once only."""
        with self._lock:
            entry = self._set(name, call)
            if entry and FAULTS[name].count == ONCE:
                self.active.remove(entry)
        return entry is not None

    def waits(self, name: str, call: str) -> bool:
        """Return whether a fault would hit a call, and leave it set."""
        return self._set(name, call) is not None

    def _set(self, name: str, call: str) -> tuple[str, str] | None:
        return next(
            (e for e in self.active if e[0] == name and (e[1] in _WHOLES or re.fullmatch(TARGETS[e[1]], call))), None
        )
