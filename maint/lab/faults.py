"""What can be broken on purpose: faults by name, and where they strike (contract section 16.10)."""

import re

from maint.lab.fault import ONCE, UNTIL_CLEARED, Fault
from maint.lab.virtual_clusters.faults import VC_FAULTS, VC_TARGETS

# What a fault can be aimed at: a name, and the requests it means ("METHOD path").
TARGETS: dict[str, str] = {
    "manager": r".*",
    "version": r"GET /api/version",
    "clusters": r"\S+ /api/v\d+/clusters(/.*)?",
    "commands": r"(POST /api/v\d+/.*commands/.*|GET /api/v\d+/commands/.*)",
    "polling": r"GET /api/v\d+/commands/.*",
    "delete": r"DELETE /api/v\d+/clusters/[^/]+",
    "export": r"GET /api/v\d+/cm/deployment",
    "restore": r"PUT /api/v\d+/cm/deployment",
    "license": r"\S+ /api/v\d+/cm/license",
    "truststore": r"GET /api/v\d+/certs/truststorePassword",
    "server": r"",  # the server as a whole: what it does at its next start
    **VC_TARGETS,
}
_WHOLES = ("server", "jobs-engine")
_CALLS = tuple(name for name in TARGETS if name not in ("manager", "server", *VC_TARGETS))

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
    "command-rejected": Fault("commands", "the next command is refused with HTTP 200 and success false"),
    "command-fails-in-child": Fault("commands", "the next command fails; only a child says why"),
    "command-fails-in-parent": Fault("commands", "the next command fails and says why itself"),
    "command-never-ends": Fault("commands", "the next command stays active"),
    "wrong-truststore-password": Fault("truststore", "a password that opens nothing is served", UNTIL_CLEARED),
    "tls-never-comes-up": Fault("server", "the TLS port does not open at the next start", UNTIL_CLEARED),
    "never-comes-up": Fault("server", "the server does not come up again after its next stop", UNTIL_CLEARED),
    "expired-certificate": Fault("server", "the TLS port shows a certificate that has expired", UNTIL_CLEARED),
    "wrong-host-certificate": Fault("server", "the TLS port shows a certificate of another host", UNTIL_CLEARED),
    "unknown-ca-certificate": Fault("server", "the TLS port shows a chain of another authority", UNTIL_CLEARED),
    **VC_FAULTS,
}


class UnknownFault(ValueError):
    """No such fault, or it cannot be aimed there."""


class FaultBox:
    """The faults that are set now.

    Attributes:
        active: (fault, target) pairs in the order they were set.
    """

    def __init__(self, active: list[tuple[str, str]] | None = None) -> None:
        self.active = [(name, target) for name, target in active or []]

    def add(self, target: str, name: str) -> None:
        """Set a fault; `target` may be "" for its usual one.

        Raises:
            UnknownFault: no such fault, or it cannot be aimed there.
        """
        fault = FAULTS.get(name)
        if fault is None:
            raise UnknownFault(f"there is no fault {name!r}; known are {', '.join(FAULTS)}")
        target = target or fault.target
        if target not in (fault.target, *fault.targets):
            raise UnknownFault(f"fault {name} strikes {', '.join((fault.target, *fault.targets))}, not {target!r}")
        self.active.append((name, target))

    def clear(self, name: str = "", target: str = "") -> int:
        """Take a fault away, or all, everywhere or at one target; return how many went."""
        before = len(self.active)
        going = [(fault, at) for fault, at in self.active if name in ("", fault) and target in ("", at)]
        self.active = [entry for entry in self.active if entry not in going]
        return before - len(self.active)

    def strikes(self, name: str, call: str = "") -> bool:
        """Return whether a fault hits a call ("METHOD path"), and use it up when it hits once only."""
        for entry in self.active:
            if entry[0] == name and (entry[1] in _WHOLES or re.fullmatch(TARGETS[entry[1]], call)):
                if FAULTS[name].count == ONCE:
                    self.active.remove(entry)
                return True
        return False
