"""A simulated manager by itself: its unit, its host's files, its world, its server; all that a restore drill needs."""

import contextlib
import json
import random
import secrets
import shutil
import ssl
import threading
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from maint.files import write_whole
from maint.lab import pki
from maint.lab.http.server import RequestLog, free_ports, leave
from maint.lab.manager import host_files
from maint.lab.manager.api.manager import make_license, read_license
from maint.lab.manager.document import dumps, hosts, read
from maint.lab.manager.host_files import java_options, redaction_property
from maint.lab.manager.http import Port, ShownCertificates
from maint.lab.manager.load import Loaded, Options, empty_deployment, load
from maint.lab.manager.world import World
from maint.lab.switches import Switches

_ASK_AGAIN = 0.1  # seconds


class Invocation:
    """One start of a unit, as `systemctl show` reports it."""

    def __init__(self) -> None:
        self._id = secrets.token_hex(16)
        self._pid = 2000 + secrets.randbelow(60000)
        self._since = datetime.now(UTC)
        self._monotonic = time.monotonic_ns() // 1000

    def properties(self, active: bool) -> dict[str, str]:
        """Return the properties; a unit that is stopped has no process."""
        return {
            "InvocationID": self._id if active else "",
            "MainPID": str(self._pid if active else 0),
            "ActiveEnterTimestamp": self._since.strftime("%a %Y-%m-%d %H:%M:%S UTC"),
            "ActiveEnterTimestampMonotonic": str(self._monotonic),
        }


class PlainUnit:
    """A unit that does nothing but run, such as an agent."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._active = False
        self._invocation = Invocation()
        self.stopped_at = datetime.now(UTC)

    def start(self) -> None:
        with self._lock:
            if not self._active:
                self._active, self._invocation = True, Invocation()

    def stop(self) -> None:
        with self._lock:
            self.stopped_at = datetime.now(UTC) if self._active else self.stopped_at
            self._active = False

    def restart(self) -> None:
        self.stop()
        self.start()

    def active(self) -> bool:
        return self._active

    def properties(self) -> dict[str, str]:
        """Return what `systemctl show` knows."""
        return self._invocation.properties(self._active)


class ManagerServer(PlainUnit):
    """The server of a world, on the host whose file tree is `root`."""

    def __init__(
        self,
        world: World,
        root: Path,
        showing: ShownCertificates,
        ports: tuple[int, int],
        log: RequestLog,
        save: Callable[[World], None],
    ) -> None:
        super().__init__()
        self.world, self.log = world, log
        self.plain_port, self.tls_port = ports
        self._root, self._showing, self._save = root, showing, save
        self._listeners: list[Port] = []
        self._stopped = threading.Event()
        self._up = threading.Event()
        self._booting: threading.Thread | None = None
        self._failed_tls = False
        self._shown = ""  # the process whose command line the host shows

    # -- the unit

    def start(self) -> None:
        """Launch the server; it answers after its time to come up."""
        with self._lock:
            if self._active:
                return
            self._active, self._stopped = True, threading.Event()
            self._invocation = Invocation()
            self._booting = threading.Thread(target=self._boot, args=(self._stopped,), daemon=True)
            self._booting.start()

    def stop(self) -> None:
        """Close both ports; what is under way comes to nothing."""
        with self._lock:
            self._active = False
            self._stopped.set()
            self._up.clear()
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.stopped.set()
        for listener in listeners:
            listener.close()
        if self._booting:
            leave(self._booting)

    def wait(self, seconds: float = 30) -> bool:
        """Wait until it answers; return whether it does."""
        return self._up.wait(seconds)

    @property
    def opened(self) -> Collection[int]:
        """The ports that are open now."""
        with self._lock:
            return {self.tls_port if one.tls else self.plain_port for one in self._listeners}

    # -- what listeners ask

    @property
    def ready(self) -> bool:
        """Whether it answers; otherwise it is starting."""
        return self._up.is_set()

    @property
    def redirects(self) -> bool:
        broken = self._failed_tls and self.world.switches["plain-when-tls-fails"] == "redirect"
        return self.world.tls or broken

    def context(self) -> ssl.SSLContext:
        with self.world.lock:
            return self._showing.context(self.world.faults)

    def changed(self) -> None:
        self._save(self.world)

    # -- coming up

    def _boot(self, stopped: threading.Event) -> None:
        if self._passes("down-seconds", stopped):
            return
        with self.world.lock:
            if self.world.faults.strikes("never-comes-up"):
                self._write_log("ERROR Main: the lab was told never to come up")
                return
            tls = self._read_configuration()
        while not self._open(tls, stopped):
            if stopped.wait(_ASK_AGAIN):
                return
        if not self._passes("starting-seconds", stopped):
            self._write_log("INFO WebServerImpl: Started Jetty server.")
            self._up.set()
            if stopped.is_set():
                self._up.clear()

    def _passes(self, switch: str, stopped: threading.Event) -> bool:
        # Returns whether the server was stopped meanwhile.
        begun = time.monotonic()
        while (left := begun + self.world.switches.number(switch) - time.monotonic()) > 0:
            if stopped.wait(min(left, _ASK_AGAIN)):
                return True
        return stopped.is_set()

    def _open(self, tls: bool, stopped: threading.Event) -> bool:
        # Returns False while another process holds a port.
        closed = self._failed_tls and self.world.switches["plain-when-tls-fails"] == "closed"
        wanted = [(self.plain_port, False)] * (not closed) + [(self.tls_port, True)] * tls
        opened: list[Port] = []
        with self._lock:
            if stopped.is_set():
                return True
            try:
                for port, secure in wanted:
                    opened.append(Port(self, port, tls=secure))
            except OSError as error:
                self._write_log(f"ERROR WebServerImpl: cannot open the ports: {error}")
                for listener in opened:
                    listener.close()
                return False
            self._listeners = opened
        return True

    def _read_configuration(self) -> bool:
        # As each start does; returns whether TLS came up.
        wanted = self.world.settings.get("WEB_TLS", "false").lower() == "true"
        reason = self._load_keystore() if wanted else ""
        if wanted and self.world.faults.strikes("tls-never-comes-up"):
            reason = "the lab was told that TLS never comes up"
        if reason:
            self._write_log(f"ERROR WebServerImpl: Failed to start TLS: {reason}")
        self._failed_tls = bool(reason)
        options = self._root / host_files.DEFAULTS
        text = options.read_text(errors="replace") if options.exists() else ""
        self.world.truststore_files = _truststores(self._root)
        self._show_process(text)
        self.world.start_up(redaction=redaction_property(text), tls=wanted and not reason)
        self._save(self.world)
        return self.world.tls

    def _show_process(self, text: str) -> None:
        last, pid = self._shown, self._invocation.properties(True)["MainPID"]
        words = ["/usr/bin/java", *java_options(text), "com.cloudera.server.cmf.Main"]
        folder = self._root / "proc" / pid
        with contextlib.suppress(OSError):  # a full disk does not keep it from starting
            if last:
                shutil.rmtree(self._root / "proc" / last, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "cmdline").write_bytes("".join(f"{word}\0" for word in words).encode(errors="surrogateescape"))
            self._shown = pid

    def _load_keystore(self) -> str:
        # Returns why it cannot be used, "" when it can.
        settings = self.world.settings
        path = settings.get("KEYSTORE_PATH", "")
        if not path:
            return "KEYSTORE_PATH is not set"
        return self._showing.load(host_files.inside(self._root, path), settings.get("KEYSTORE_PASSWORD", ""))

    def _write_log(self, line: str) -> None:
        stamp = self.world.now().strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
        path = self._root / "var/log/cloudera-scm-server/cloudera-scm-server.log"
        # The log is for people; a full or missing folder must not keep the server down.
        with contextlib.suppress(OSError), path.open("a") as stream:
            stream.write(f"{stamp} {line}\n")


def _truststores(root: Path) -> dict[str, bytes]:
    folder = root / host_files.CERTMANAGER / "trust-store"
    named = {"JKS": folder / "cm-auto-global_truststore.jks", "PEM": folder / "cm-auto-global_cacerts.pem"}
    return {kind: path.read_bytes() for kind, path in named.items() if path.exists()}


class Storage:
    """The folder of a world: `deployment.json` as the server would print it, `state.json` for the rest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._written = -1

    def save(self, world: World) -> None:
        """Write what changed; each file whole or not at all."""
        if self._written != world.edits:
            write_whole(self.folder / "deployment.json", dumps(world.deployment).encode(), 0o600)
            self._written = world.edits
        write_whole(self.folder / "state.json", json.dumps(world.to_json(), indent=1).encode(), 0o600)

    def load(self) -> World:
        state = json.loads((self.folder / "state.json").read_bytes())
        world = World(read(self.folder / "deployment.json"), Switches(state["switches"]))
        world.take_json(state)
        return world


class Simulator:
    """A manager in a folder that `create` wrote, or an earlier process left."""

    def __init__(self, folder: Path, host: str, ports: tuple[int, int]) -> None:
        self.folder = folder
        self._storage = Storage(folder / "world")
        self.world: World = self._storage.load()
        self.world.machines = [(host, "127.0.0.1")]
        self.log = RequestLog(folder / "requests.jsonl")
        self.bundle = folder / "ca/bundle.pem"
        names = [*pki.LOOPBACK, host]
        shown = ShownCertificates(folder / "ca/showing", self.authority, names, datetime.now(UTC))
        root = root_of(folder, host)
        self.server = ManagerServer(self.world, root, shown, ports, self.log, self._storage.save)

    def __enter__(self) -> "Simulator":
        try:
            self.server.start()
            self.server.wait()
        except BaseException:  # a signal: what was started still writes into the folder
            self.server.stop()
            raise
        return self

    def __exit__(self, *reason: object) -> None:
        self.stop()

    @property
    def authority(self) -> pki.Authority:
        return pki.Authority.load(self.folder / "ca")

    def save(self) -> None:
        with self.world.lock:
            self._storage.save(self.world)

    def stop(self) -> None:
        """Take the server down; files stay."""
        self.server.stop()
        self.save()

    def lose_database(self) -> None:
        """Become a manager that was just installed; files of the host stay. It is down and up again afterwards."""
        self.server.stop()
        with self.world.lock:
            world = self.world
            world.lose_database(empty_deployment(world.deployment, world.shape, world.chance))
            self._storage.save(self.world)
        self.server.start()
        self.server.wait()


class Created(msgspec.Struct, frozen=True):
    """A new manager, what it was made from, and the passwords of its Auto-TLS stores."""

    simulator: Simulator
    loaded: Loaded
    passwords: host_files.StorePasswords


def create(folder: Path, options: Options, chance: random.Random | None = None) -> Created:
    """Write the files of a new manager; OSError or ValueError for a bad deployment or a port that is taken."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    ports = free_ports(options.plain_port, options.tls_port)
    loaded = load(options, chance)
    now = datetime.now(UTC)
    authority = pki.Authority.create(now)
    authority.save(folder / "ca")
    if not options.fresh:  # a manager that runs clusters has one
        loaded.world.license = read_license(make_license(now=now), now)
        loaded.world.license_counts = True
    host = manager_host(loaded)
    root = root_of(folder, host)
    passwords = host_files.store_passwords(loaded.blueprint)
    host_files.write_agent(root, host, host, loaded.blueprint, authority, passwords, now)
    host_files.write_manager(root)
    host_files.write_stores(root, host, loaded.blueprint, authority, passwords, now)
    Storage(folder / "world").save(loaded.world)
    return Created(Simulator(folder, host, ports), loaded, passwords)


def manager_host(loaded: Loaded) -> str:
    """Return the name of the manager's host: the first one of the deployment."""
    first = next(iter(hosts(loaded.blueprint)), None)
    return host_files.folder_name(first) if first else "cm"


def root_of(folder: Path, host: str) -> Path:
    """Return where the file tree of a host lies in a lab's folder."""
    return folder / "hosts" / host / "root"
