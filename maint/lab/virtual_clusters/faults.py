"""What can go wrong on purpose at the gateway and in the jobs API."""

from maint.lab.fault import ONCE, UNTIL_CLEARED, Fault

_API = r"/dex/api/v1/"

VC_TARGETS: dict[str, str] = {
    "virtual-cluster": rf"\S+ {_API}.*",
    "writes": rf"(POST|PUT|PATCH|DELETE) {_API}.*",
    "jobs": rf"\S+ {_API}jobs(/.*)?",
    "resources": rf"\S+ {_API}resources(/.*)?",
    "runs": rf"(\S+ {_API}job-runs(/.*)?|POST {_API}jobs/[^/]+/run)",
    "lists": rf"GET {_API}(jobs|resources|job-runs)",
    "downloads": rf"GET {_API}resources/[^/]+/.+",
    "logs": rf"GET {_API}job-runs/\d+/logs",
    "gateway": r"GET /gateway/.*",
    "jobs-engine": r"",  # what runs jobs and builds environments
    "kubectl": r"kubectl \S+ \S+",
    **{f"kubectl-{verb}": rf"kubectl {verb} \S+" for verb in ("get", "apply", "create", "replace", "delete")},
    "kubectl-create-keytab": r"kubectl create \S+-krb5-secret",
    "kubectl-apply-own": r"kubectl apply tls-dex-app-\S+",
    "kubectl-apply-keytab": r"kubectl apply \S+-krb5-secret",
}
_KUBECTL = tuple(name for name in VC_TARGETS if name.startswith("kubectl-"))
_CALLS = tuple(name for name in VC_TARGETS if not name.startswith(("gateway", "jobs-engine", "kubectl")))

VC_FAULTS: dict[str, Fault] = {
    "vc-unauthorised-once": Fault("virtual-cluster", "a good token is answered 401, once", ONCE, _CALLS),
    "vc-forbidden": Fault("virtual-cluster", "403 for every user", UNTIL_CLEARED, _CALLS),
    "vc-throttled": Fault("virtual-cluster", "429 with Retry-After, once", ONCE, _CALLS),
    "vc-unavailable": Fault("virtual-cluster", "503 with an HTML page, nothing is done", UNTIL_CLEARED, _CALLS),
    "vc-proxy-502": Fault("virtual-cluster", "502 with an HTML page, nothing is done", ONCE, _CALLS),
    "vc-error-500": Fault("virtual-cluster", "500 with a JSON message, nothing is done", ONCE, _CALLS),
    "vc-html-200": Fault("virtual-cluster", "200 with an HTML page: a portal answers in the API's place", ONCE, _CALLS),
    "vc-connection-dropped": Fault("virtual-cluster", "the connection ends before anything is done", ONCE, _CALLS),
    "vc-answer-lost": Fault("writes", "it is done, and the connection ends without an answer", ONCE, _CALLS),
    "vc-502-after-write": Fault("writes", "it is done, and answered 502 with an HTML page", UNTIL_CLEARED, _CALLS),
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
}
