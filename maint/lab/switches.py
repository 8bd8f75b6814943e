"""Every behaviour that the contract calls unknown or inferred, behind a name of its own."""

from collections.abc import Iterable, Mapping

from maint.lab.switch import COUNT, SECONDS, TEXT, Switch
from maint.lab.virtual_clusters.switches import VC_SWITCHES

SWITCHES: dict[str, Switch] = {
    "down-seconds": Switch("0.3", SECONDS, "how long a restart refuses connections", "3, 16.2"),
    "starting-seconds": Switch("0.2", SECONDS, "how long the server then answers starting-status", "3, 16.2"),
    "starting-status": Switch("503", ("503", "404"), "what it answers meanwhile", "3"),
    "command-seconds": Switch("0.3", SECONDS, "how long a command is active", "16.7"),
    "put-seconds": Switch("0", SECONDS, "how long the PUT of a deployment takes", "U16"),
    "get-seconds": Switch("0", SECONDS, "how long an export takes before its first byte", "U16"),
    "slow-seconds": Switch("3", SECONDS, "how much longer the faults slow-body and put-slow take", "16.10"),
    "announced-api": Switch("by-release", TEXT, "by-release, or the number that GET /api/version answers", "1, 3"),
    "redirect-code": Switch("302", ("301", "302", "303", "307", "308"), "status of the plain port under TLS", "U9"),
    "plain-when-tls-fails": Switch(
        "open", ("open", "redirect", "closed"), "the plain port when TLS was asked for and could not come up", "2.1"
    ),
    "redaction-default": Switch(
        "by-release", ("by-release", "on", "off"), "com.cloudera.api.redaction where the options do not say", "7.1"
    ),
    "pwhash-in-redacted-view": Switch("absent", ("absent", "present"), "accounts in view=export_redacted", "U12"),
    "pwhash-under-redaction": Switch("absent", ("absent", "present"), "accounts under the JVM property", "U12"),
    "peer-password-redacted": Switch("yes", ("yes", "no"), "whether redaction hides passwords of peers", "U13"),
    "delete-running": Switch("refuse", ("refuse", "allow"), "DELETE of a cluster that runs", "U1"),
    "stop-stopped": Switch("reject", ("reject", "succeed"), "stopping a cluster that is stopped", "U2"),
    "put-without-admin": Switch("refuse", ("refuse", "accept"), "PUT of a deployment without an administrator", "U3"),
    "put-existing": Switch("refuse", ("refuse", "keep"), "an entity that exists and is not to be deleted", "U4"),
    "put-unlicensed": Switch("refuse", ("refuse", "accept"), "PUT of clusters without a licence", "U5"),
    "put-redacted": Switch("store", ("store", "refuse"), "PUT of values that are the word REDACTED", "U6"),
    "bad-license": Switch("400", ("400", "500"), "status for a licence that is none", "U7"),
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
    "put-other-release": Switch("accept", ("accept", "refuse"), "PUT of another release's document", "8"),
    "read-only-fields": Switch("ignore", ("ignore", "refuse"), "read-only fields in a PUT", "8"),
    "cluster-uuid-after-put": Switch("keep", ("keep", "new"), "uuid of a cluster in a PUT", "7.2"),
    "users-after-put": Switch("at-once", ("at-once", "after-restart"), "when the accounts of a PUT count", "8.6"),
    "reject-role": Switch("", TEXT, "name of a role that the server does not take in a PUT", "8"),
    "reject-role-message": Switch(
        "Role type is not supported by this release.", TEXT, "what the server says about reject-role", "8"
    ),
    "unknown-command": Switch("404", ("404", "500"), "status for a command id that is unknown", "4.2"),
    "missing-data-context": Switch("500", ("404", "500"), "status for a data context that is missing", "2.4"),
    "no-license-message": Switch(
        "no-license", ("express", "cloudera", "no-license"), "which of the three texts says that there is none", "9"
    ),
    "server-instances": Switch("1", COUNT, "servers listed by GET /cm/instances", "10.5"),
    "rotate-internal-secrets": Switch(
        "never", ("never", "restart"), "fresh passwords of internal accounts and roles at each restart", "recordings"
    ),
    **VC_SWITCHES,
}


class UnknownSwitch(ValueError):
    """No such switch, or no such value of it."""


class Switches:
    """The switches of one lab.

    Args:
        chosen: the values that differ from the defaults, by name.

    Raises:
        UnknownSwitch: a name or a value that does not exist.
    """

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
        raise UnknownSwitch(f"there is no switch {name!r}; known are {', '.join(SWITCHES)}")
    if switch.allowed in (SECONDS, COUNT):
        if not value.replace(".", "", 1).isdigit():
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
