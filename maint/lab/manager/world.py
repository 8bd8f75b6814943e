"""The state of a simulated manager: deployment, accounts, licence, commands, and what its last start made of them."""

import random
import secrets
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from maint.lab.faults import FaultBox
from maint.lab.manager import accounts
from maint.lab.manager.document import (
    MARKER,
    Doc,
    all_services,
    announced,
    clusters,
    items,
    major,
    recorded_at,
    release,
    roles,
    services,
    settings,
    users,
)
from maint.lab.switches import Switches

STARTED, STOPPED, STARTING, STOPPING, NA = "STARTED", "STOPPED", "STARTING", "STOPPING", "NA"

NEVER_ENDS = "command-never-ends"  # the fault whose work outlives it
# What is kept on disk as it is.
_KEPT = (
    "license", "license_counts", "trial", "redaction", "tls", "next_command", "role_states", "sessions", "joined",
    "login_users", "maintenance", "stale", "once_set", "kdc_account", "credentials",
)  # fmt: skip


class Command(msgspec.Struct):
    """An asynchronous command under way or done (M4)."""

    id: int
    name: str
    ref: Doc  # the entity it works on, as the answer shows it: `{"clusterRef": {...}}`
    started: float  # seconds since 1970
    seconds: float  # how long it takes; negative: it never ends
    parent: int | None = None
    ended: float | None = None  # None while it is active
    success: bool | None = None
    message: str = ""
    roles: dict[str, str] = {}  # those it moves, with the state before
    fails: bool = False  # it will fail; its message says why

    @property
    def active(self) -> bool:
        return self.ended is None


class World:
    """A manager's state; callers hold `lock` while they use it."""

    def __init__(
        self, deployment: Doc, switches: Switches | None = None, *, chance: random.Random | None = None
    ) -> None:
        self.lock = threading.RLock()
        self.switches = switches or Switches()
        self.faults = FaultBox()
        self.machines: list[tuple[str, str]] = [("cm", "127.0.0.1")]  # where its servers run: name and address
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.heard: Callable[[str], datetime] = lambda _: self.now()  # when a host's agent last gave a sign of life
        self.chance = chance or random.SystemRandom()
        self.shape = recorded_at(deployment)  # the API version whose shape the deployment has
        self.edits = 0  # changes of the deployment so far
        self.license: Doc | None = None
        self.license_counts = False
        self.trial = "unused"
        self.tls = False  # of the last start, as `redaction` (M2.1, M7.1)
        self.commands: dict[int, Command] = {}
        self.next_command = 1
        self.role_states: dict[str, str] = {}
        self.sessions: dict[str, str] = {}
        self.joined: dict[str, str] = {}  # host id → its cluster; others belong where their roles are
        self.maintenance: list[str] = []  # what is in maintenance mode, such as `role NAME`
        self.stale: dict[str, str] = {}  # `cluster/service` → staleness of its configuration
        self.once_set: list[str] = []  # settings that were set before, `KIND NAME`: they are known, though not set
        self.kdc_account = True  # whether the account that makes principals was imported (M21)
        self.credentials: list[str] | None = None  # principals that have keytabs; None: all that are needed
        self.truststore_files: dict[str, bytes] = {}  # by type (JKS, PEM), as the last start found them
        self._checked: dict[tuple[str, str], str] = {}
        self.deployment = deployment
        self.login_users = users(deployment)  # who is let in; see `users-after-put`
        self._stand_everything(STARTED)
        self.redaction = self.redaction_by_default()

    # -- what kind of server it is

    @property
    def release(self) -> str:
        return release(self.deployment)

    @property
    def api(self) -> int:
        """N of the `vN` that it announces."""
        chosen = self.switches["announced-api"]
        return announced(self.release) if chosen == "by-release" else int(chosen.removeprefix("v"))

    @property
    def settings(self) -> dict[str, str]:
        return settings(self.deployment)

    def redaction_by_default(self) -> bool:
        """Return whether values are redacted where the options do not say (M7.1)."""
        chosen = self.switches["redaction-default"]
        return chosen == "on" or (chosen == "by-release" and major(release(self.deployment)) >= 6)

    def truststore_password(self) -> str:
        """Return the password that is served, "" where Auto-TLS is off."""
        named = self.settings
        if named.get("AUTO_TLS_TYPE", "NONE") in ("", "NONE"):
            return ""
        return named.get("AUTO_TLS_TRUSTSTORE_PASSWORD") or named.get("TRUSTSTORE_PASSWORD") or MARKER

    # -- accounts

    def log_in(self, name: str, password: str) -> Doc | None:
        """Return the account that a name and a password belong to."""
        for user in self.login_users:
            if user.get("name") == name and self._checked.get((name, password)) == user.get("pwHash", ""):
                return user
        found = accounts.check_password(self.login_users, name, password)
        if found:
            self._checked[name, password] = str(found["pwHash"])
        return found

    def open_session(self, name: str) -> str:
        session = secrets.token_hex(12)
        self.sessions[session] = name
        return session

    def session_user(self, session: str) -> Doc | None:
        name = self.sessions.get(session)
        return next((user for user in self.login_users if user.get("name") == name), None) if name else None

    # -- clusters, services, roles

    def find_cluster(self, name: str) -> Doc | None:
        """Return a cluster by name, else by display name (M5, U24)."""
        found = [cluster for cluster in clusters(self.deployment) if cluster.get("name") == name]
        if not found and self.switches["display-name-in-path"] == "accepted":
            found = [cluster for cluster in clusters(self.deployment) if cluster.get("displayName") == name]
        return found[0] if found else None

    def role_state(self, role: Doc) -> str:
        """Return the state of a role; client-only roles have none."""
        if role.get("type") == "GATEWAY":
            return NA
        return self.role_states.get(str(role["name"]), STOPPED)

    def service_state(self, service: Doc) -> str:
        states = {self.role_state(role) for role in roles(service)} - {NA}
        for state in (STOPPING, STARTING, STARTED, STOPPED):
            if state in states:
                return state
        return NA

    def cluster_runs(self, cluster: Doc) -> bool:
        return any(self.service_state(service) not in (STOPPED, NA) for service in services(cluster))

    # -- changes

    def replace_deployment(self, deployment: Doc, *, added: bool = False) -> None:
        """Put another deployment in force, as a PUT does (M8, U10, U17, U18); `added` keeps what was there as it is."""
        before = self.role_states
        self.deployment = deployment
        self.shape = recorded_at(deployment)
        self.edits += 1
        if self.switches["users-after-put"] == "at-once":
            self.login_users = users(deployment)
        if self.switches["session-after-put"] == "invalid":
            self.sessions.clear()
        if self.switches["commands-after-put"] == "forget":
            self.commands.clear()
            self.next_command += 100
        self.joined = self.joined if added else {}
        if not added:
            self._forget_beside()
        self._stand_everything(STOPPED)
        if added or self.switches["put-stops-clusters"] == "no":
            self.role_states.update({name: state for name, state in before.items() if name in self.role_states})

    def changed(self) -> None:
        self.edits += 1

    def start_up(self, *, redaction: bool | None, tls: bool) -> None:
        """Take over what a start of the server reads; `redaction` is None where the JVM options do not say."""
        self.redaction = self.redaction_by_default() if redaction is None else redaction
        self.tls = tls
        self.license_counts = self.license is not None
        if self.switches["rotate-internal-secrets"] == "restart":
            self._rotate_internal_secrets()
        self.login_users = users(self.deployment)
        if self.switches["session-after-restart"] == "invalid":
            self.sessions.clear()
        for command in self.commands.values():
            if command.active:
                command.ended, command.success = self.now().timestamp(), False
                command.message = "Command aborted because of a server restart."
        self._settle_roles()

    def lose_database(self, empty: Doc) -> None:
        """Become a server just installed, with an empty deployment; the hosts' files are not touched."""
        self.deployment = empty
        self.edits += 1
        self.license, self.license_counts, self.trial = None, False, "unused"
        self.tls = False
        self.commands.clear()
        self.sessions.clear()
        self.role_states.clear()
        self.joined.clear()
        self._forget_beside()
        self.next_command = 1
        self.login_users = users(self.deployment)

    def _forget_beside(self) -> None:
        # What no export holds: maintenance, staleness, the Kerberos credentials (M7, M21).
        self.maintenance, self.stale = [], {}
        self.kdc_account, self.credentials = False, []

    def stuck(self) -> list[Command]:
        return [command for command in self.commands.values() if command.active and command.seconds < 0]

    def repair(self, fault: str = "", target: str = "") -> int:
        """Clear a fault, or all, everywhere or at one target, and end what it keeps from ending; return how many."""
        cleared = self.faults.clear(fault, target)
        if fault in ("", NEVER_ENDS) and target in ("", "commands"):
            cleared += sum(command.parent is None for command in self.stuck())
            for command in self.stuck():
                command.seconds = 0
        return cleared

    def _stand_everything(self, state: str) -> None:
        named = [role for _, service in all_services(self.deployment) for role in roles(service)]
        self.role_states = {str(role.get("name")): state for role in named if role.get("type") != "GATEWAY"}

    def _rotate_internal_secrets(self) -> None:
        for user in users(self.deployment):
            if accounts.internal(user):
                accounts.set_password(user, secrets.token_hex(16), self.chance, "cm5")
        for _, service in all_services(self.deployment):
            for item in (item for role in roles(service) for item in items(role.get("config"))):
                if item.get("name") == "role_jceks_password":
                    item["value"] = f"{self.chance.getrandbits(120):030x}"[:25]
        self.changed()

    def _settle_roles(self) -> None:
        for name, state in self.role_states.items():
            self.role_states[name] = {STARTING: STOPPED, STOPPING: STARTED}.get(state, state)

    # -- on disk

    def to_json(self) -> Doc:
        return {name: getattr(self, name) for name in _KEPT} | {
            "commands": [msgspec.structs.asdict(command) for command in self.commands.values()],
            "faults": [list(entry) for entry in self.faults.active],
            "switches": self.switches.chosen,
        }

    def take_json(self, state: Mapping[str, Any]) -> None:  # Any: what `to_json` wrote
        """Take over what `to_json` returned."""
        for name in _KEPT:
            setattr(self, name, state.get(name, getattr(self, name)))
        self.commands = {entry["id"]: Command(**entry) for entry in state["commands"]}
        self.faults = FaultBox([(name, target) for name, target in state["faults"]])
        self.switches = Switches(state["switches"])
