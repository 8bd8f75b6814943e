"""What the contract on the jobs API leaves open (its section 15), behind names that begin with `vc-`."""

from maint.lab.switch import COUNT, SECONDS, TEXT, Switch

_STATUS = ("400", "409", "500")

VC_SWITCHES: dict[str, Switch] = {
    "vc-appears-seconds": Switch("0", SECONDS, "how long after its service the default virtual cluster appears", "J8"),
    "vc-initialised": Switch(
        "yes", ("yes", "no"), "virtual clusters of a new lab have TLS and Kerberos secrets", "J11"
    ),
    "vc-server-side-apply": Switch("yes", ("yes", "no"), "Kubernetes and kubectl know server-side apply", "J11.4"),
    "vc-self-signed": Switch("both", ("both", "own"), "names of the certificate that the utility makes", "J11.3"),
    "vc-release": Switch("1.5.4", TEXT, "release of the data services, as a new lab's ECS parcel tells it", "J11.1"),
    "vc-token-seconds": Switch("3600", SECONDS, "how long a token is good", "J2.1"),
    "vc-expires-in": Switch(
        "milliseconds",
        ("milliseconds", "duration", "absent"),
        "expires_in: a point in time, seconds left, or none",
        "J2.1",
    ),
    "vc-token-refusal": Switch("html", ("html", "empty", "json"), "body of the gateway's 401", "J2.1"),
    "vc-unauthorised-body": Switch("html", ("html", "json"), "body of the jobs API's 401", "J3.5"),
    "vc-no-role": Switch("empty", ("empty", "forbidden"), "what a user without a role sees", "J2.3"),
    "vc-over-limit": Switch("refuse", ("refuse", "clamp"), "a list's limit above 100", "J3.3"),
    "vc-meta-count": Switch("page", ("page", "total"), "meta.count: items of the page, or of all pages", "J3.3"),
    "vc-hidden": Switch("listed", ("listed", "omitted"), "hidden objects in lists", "J14"),
    "vc-unknown-keys": Switch("drop", ("drop", "keep"), "keys of definitions that the server does not know", "J3.1"),
    "vc-create-body": Switch("empty", ("empty", "object"), "body of the 201 of a creation", "J3.6"),
    "vc-run-answer": Switch("id", ("id", "empty"), "whether the answer to a run tells its number", "J3.6"),
    "vc-duplicate-job": Switch("500", ("409", "500"), "status for a job whose name is taken", "J3.5"),
    "vc-missing-mount": Switch(
        "refuse", ("refuse", "accept"), "creating a job that mounts what does not exist", "J4.3"
    ),
    "vc-missing-file": Switch("accept", ("refuse", "accept"), "creating a job whose file is not there", "J4.3"),
    "vc-patch": Switch("merge", ("merge", "replace"), "keys that a PATCH leaves out stay, or go", "J4.1"),
    "vc-update-status": Switch("200", ("200", "201", "204"), "status of a PATCH", "J3.6"),
    "vc-delete-status": Switch("204", ("200", "204"), "status of deleting a job or a file", "J3.6"),
    "vc-pause-status": Switch("201", ("200", "201", "204"), "status of pause and unpause", "J3.6"),
    "vc-kill-status": Switch("201", ("200", "201", "204"), "status of kill", "J3.6"),
    "vc-paused-run": Switch("400", _STATUS, "status for running a paused airflow job by hand", "J3.5"),
    "vc-env-not-ready": Switch("400", _STATUS, "status for running a job whose environment is not built", "J3.5"),
    "vc-missing-log": Switch("404", ("404", "500"), "status for a log that is not there", "J3.5"),
    "vc-log-types": Switch("object", ("object", "strings", "objects"), "shape of log-types", "J6.1"),
    "vc-log-seconds": Switch("0.5", SECONDS, "how long after its run a log appears", "J6.4"),
    "vc-starting-seconds": Switch("0.2", SECONDS, "how long a run is starting", "J6.3"),
    "vc-scale-up": Switch("no", ("yes", "no"), "a run is waiting-for-scale-up before it starts", "J6.3"),
    "vc-mount-namespace": Switch("auto", ("auto", "off"), "literal /app/mount by a private mount namespace", "J4.3"),
    "vc-env-seconds": Switch("1", SECONDS, "how long the build of a Python environment takes", "J5.4"),
    "vc-env-build": Switch("succeed", ("succeed", "fail"), "how builds of Python environments end", "J5.4"),
    "vc-requirements-download": Switch("allow", ("allow", "refuse"), "reading requirements.txt back", "J5.4"),
    "vc-delete-mounted": Switch("allow", ("allow", "refuse"), "deleting a resource that jobs mount", "J5.5"),
    "vc-upload-max-bytes": Switch("0", COUNT, "largest body of an upload; 0 is no limit", "J5.5"),
    "vc-dag-seconds": Switch("1", SECONDS, "how long the parsing of a DAG file takes", "J4.4"),
    "vc-schedule-user": Switch("given", ("given", "caller"), "owner of a schedule: as sent, or who sent it", "J7"),
    "vc-pause-modifies": Switch("no", ("yes", "no"), "whether pause and unpause change a job's modified", "J15"),
    "vc-next-execution": Switch(
        "match", ("match", "logical"), "nextExecution: next match of cron, or its logical date", "J7"
    ),
    "vc-requests-per-second": Switch("0", COUNT, "requests a second before the API answers 429; 0 is no limit", "J3.5"),
    "vc-retry-after": Switch("1", SECONDS, "Retry-After of a 429", "J3.5"),
    "vc-app-name": Switch("", TEXT, "appName of GET /info; empty: the virtual cluster's name", "J8"),
}
