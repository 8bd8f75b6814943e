"""Every behaviour of a real server that is unknown or inferred, behind a name of its own."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

import msgspec

SECONDS, COUNT, TEXT, API = ("seconds",), ("number",), ("text",), ("by-release", "number")


class Switch(msgspec.Struct, frozen=True):
    """One behaviour that can be chosen."""

    default: str
    allowed: tuple[str, ...]  # the values it takes, or one of SECONDS, COUNT, TEXT, API
    meaning: str  # what it decides, for people
    section: str  # where a server's behaviour is described


_STATUS = ("400", "409", "500")
SWITCHES: dict[str, Switch] = {
    "down-seconds": Switch("0.3", SECONDS, "how long a restart refuses connections", "M3, M16.2"),
    "starting-seconds": Switch("0.2", SECONDS, "how long the server then answers starting-status", "M3, M16.2"),
    "starting-status": Switch("503", ("503", "404"), "what it answers meanwhile", "M3"),
    "command-seconds": Switch("0.3", SECONDS, "how long a command is active", "M16.7"),
    "put-seconds": Switch("0", SECONDS, "how long the PUT of a deployment takes", "U16"),
    "get-seconds": Switch("0", SECONDS, "how long an export takes before its first byte", "U16"),
    "slow-seconds": Switch("3", SECONDS, "how much longer the faults slow-body and put-slow take", "M16.10"),
    "announced-api": Switch("by-release", API, "by-release, or the number that GET /api/version answers", "M1, M3"),
    "redirect-code": Switch("302", ("301", "302", "303", "307", "308"), "status of the plain port under TLS", "U9"),
    "plain-when-tls-fails": Switch(
        "open", ("open", "redirect", "closed"), "the plain port when TLS was asked for and could not come up", "M2.1"
    ),
    "redaction-default": Switch(
        "by-release", ("by-release", "on", "off"), "com.cloudera.api.redaction where the options do not say", "M7.1"
    ),
    "pwhash-in-redacted-view": Switch("absent", ("absent", "present"), "accounts in view=export_redacted", "U12"),
    "pwhash-under-redaction": Switch("absent", ("absent", "present"), "accounts under the JVM property", "U12"),
    "peer-password-redacted": Switch("yes", ("yes", "no"), "whether redaction hides passwords of peers", "U13"),
    "delete-running": Switch("refuse", ("refuse", "allow"), "DELETE of a cluster, service or role that runs", "U1"),
    "stop-stopped": Switch("reject", ("reject", "succeed"), "stopping a cluster that is stopped", "U2"),
    "put-without-admin": Switch("refuse", ("refuse", "accept"), "PUT of a deployment without an administrator", "U3"),
    "put-existing": Switch("refuse", ("refuse", "keep"), "an entity that exists and is not to be deleted", "U4"),
    "put-unlicensed": Switch("refuse", ("refuse", "accept"), "PUT of clusters without a licence", "U5"),
    "put-redacted": Switch("store", ("store", "refuse"), "PUT of values that are the word REDACTED", "U6"),
    "bad-license": Switch("400", ("400", "500"), "status for a licence that is not one", "U7"),
    "truststore-off": Switch("404", ("404", "500", "empty"), "truststore password without Auto-TLS", "U8"),
    "session-cookie": Switch("by-release", TEXT, "by-release, or the name of the session cookie", "U10"),
    "session-after-put": Switch("invalid", ("invalid", "valid"), "session cookies after a PUT", "U10"),
    "session-after-restart": Switch("invalid", ("invalid", "valid"), "session cookies after a restart", "U10"),
    "unauthorised-body": Switch("html", ("html", "json"), "body of a 401", "U11"),
    "pwhash-algorithm": Switch("cm5", ("cm5", "other"), "how the lab hashes the passwords it sets itself", "U14"),
    "extra-fields": Switch("absent", ("absent", "present"), "uuid and entityStatus in exports that lack them", "U15"),
    "hostname-in-refs": Switch("kept", ("kept", "absent"), "hostname in the host references of exports", "U15"),
    "put-stops-clusters": Switch("yes", ("yes", "no"), "whether a PUT leaves everything stopped", "U17"),
    "commands-after-put": Switch("forget", ("forget", "keep"), "commands by id after a PUT", "U18"),
    "license-effective": Switch("at-once", ("at-once", "after-restart"), "when a licence counts for a PUT", "U19"),
    "version-content-type": Switch("text/plain", TEXT, "content type of GET /api/version", "U20"),
    "version-body": Switch("bare", ("bare", "quoted", "line"), "spelling of GET /api/version", "U20"),
    "put-max-bytes": Switch("0", COUNT, "largest body taken; 0 is no limit", "U21"),
    "chunked-upload": Switch("accept", ("accept", "refuse"), "bodies without Content-Length (411 if refused)", "U21"),
    "delete-with-dependants": Switch(
        "refuse", ("refuse", "allow"), "DELETE of a base cluster that compute clusters or data contexts use", "U22"
    ),
    "privileged-role": Switch(
        "administrator", ("administrator", "cluster-administrator", "any"), "who may read licence and truststore", "U23"
    ),
    "display-name-in-path": Switch("accepted", ("accepted", "refused"), "clusters by display name in paths", "U24"),
    "put-by-lower-api": Switch(
        "ignore", ("ignore", "keep", "refuse"), "fields newer than the API version of the PUT's path", "U25"
    ),
    "put-commits": Switch(
        "whole-body", ("whole-body", "closing-brace"), "what a PUT of a deployment waits for before it commits", "M8"
    ),
    "put-other-release": Switch("accept", ("accept", "refuse"), "PUT of another release's document", "M8"),
    "read-only-fields": Switch("ignore", ("ignore", "refuse"), "read-only fields in a PUT", "M8"),
    "cluster-uuid-after-put": Switch("keep", ("keep", "new"), "uuid of a cluster in a PUT", "M7.2"),
    "users-after-put": Switch("at-once", ("at-once", "after-restart"), "when the accounts of a PUT count", "M8.6"),
    "reject-role": Switch("", TEXT, "name of a role that the server does not take in a PUT", "M8"),
    "reject-role-message": Switch(
        "Role type is not supported by this release.", TEXT, "what the server says about reject-role", "M8"
    ),
    "unknown-command": Switch("404", ("404", "500"), "status for a command id that is unknown", "M4.2"),
    "missing-data-context": Switch("500", ("404", "500"), "status for a data context that is missing", "M2.4"),
    "no-license-message": Switch(
        "no-license", ("express", "cloudera", "no-license"), "which of the three texts says that there is none", "M9"
    ),
    "unknown-setting": Switch("refuse", ("refuse", "accept"), "a setting that nobody knows", "M19.1"),
    "default-setting": Switch("keep", ("keep", "drop"), "a setting that is set to its default value", "M19.3"),
    "wrong-content-type": Switch("refuse", ("refuse", "accept"), "bodies that are not said to be JSON (415)", "M2.3"),
    "server-instances": Switch("1", ("1", "2", "3"), "servers listed by GET /cm/instances", "M10.5"),
    "rotate-internal-secrets": Switch(
        "never", ("never", "restart"), "fresh passwords of internal accounts and roles at each restart", "recordings"
    ),
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
    "vc-token-service": Switch("knoxtoken", TEXT, "name of the gateway's token service; any other is 404", "J2.1"),
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
    "vc-log-grows": Switch("0", SECONDS, "how long a log that appeared is half of what it becomes", "J6.4"),
    "vc-starting-seconds": Switch("0.2", SECONDS, "how long a run is starting", "J6.3"),
    "vc-scale-up": Switch("no", ("yes", "no"), "a run is waiting-for-scale-up before it starts", "J6.3"),
    "vc-mount-namespace": Switch("auto", ("auto", "off"), "literal /app/mount by a private mount namespace", "J4.3"),
    "vc-env-seconds": Switch("1", SECONDS, "how long the build of a Python environment takes", "J5.4"),
    "vc-env-build": Switch("succeed", ("succeed", "fail"), "how builds of Python environments end", "J5.4"),
    "vc-requirements-download": Switch("allow", ("allow", "refuse"), "reading requirements.txt back", "J5.4"),
    "vc-delete-mounted": Switch("allow", ("allow", "refuse"), "deleting a resource that jobs mount", "J5.5"),
    "vc-upload-max-bytes": Switch("0", COUNT, "largest body of an upload; 0 is no limit", "J5.5"),
    "vc-pause-unparsed": Switch(
        "works", ("works", "refused", "overruled"), "pausing a DAG whose file was never parsed", "J4.4"
    ),
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


class UnknownSwitch(ValueError):
    """No such switch, or no such value of it."""


class Switches:
    """The switches of one lab: the chosen values, which differ from the defaults."""

    def __init__(self, chosen: Mapping[str, str] | None = None) -> None:
        self.chosen = dict(chosen or {})
        for name, value in self.chosen.items():
            check(name, value)

    def __getitem__(self, name: str) -> str:
        return self.chosen.get(name, SWITCHES[name].default)

    def number(self, name: str) -> float:
        """Return a SECONDS or COUNT switch."""
        return float(self[name])


def check(name: str, value: str) -> None:
    """Raise `UnknownSwitch` unless a switch takes a value."""
    switch = SWITCHES.get(name)
    if switch is None:
        close = get_close_matches(name, SWITCHES, 1, 0.7)
        raise UnknownSwitch(f"there is no switch {name!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
    numbers = {SECONDS: r"\d{1,9}(\.\d*)?|\.\d+", COUNT: r"\d{1,18}", API: r"by-release|v?[1-9]\d{0,3}"}
    if switch.allowed in numbers:
        if not re.fullmatch(numbers[switch.allowed], value, re.ASCII):
            raise UnknownSwitch(f"switch {name} takes a number, not {value!r}")
    elif switch.allowed != TEXT and value not in switch.allowed:
        raise UnknownSwitch(f"switch {name} takes {', '.join(switch.allowed)}, not {value!r}")


def parse(words: Iterable[str]) -> dict[str, str]:
    """Return the switches that words of the form NAME=VALUE choose."""
    chosen = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise UnknownSwitch(f"a switch is chosen with NAME=VALUE, not {word!r}")
        check(name, value)
        chosen[name] = value
    return chosen
