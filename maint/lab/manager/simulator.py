"""A simulated manager by itself: the files of its host, its world, its server; all that a restore drill needs."""

import json
import random
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from maint.lab import pki
from maint.lab.files import write_whole
from maint.lab.http.ports import free_ports
from maint.lab.http.server import RequestLog
from maint.lab.manager import host_files
from maint.lab.manager.document import dumps, hosts, read
from maint.lab.manager.http import ShownCertificates
from maint.lab.manager.license import make_license, read_license
from maint.lab.manager.load import Loaded, Options, empty_deployment, load
from maint.lab.manager.server import ManagerServer
from maint.lab.manager.world import World
from maint.lab.switches import Switches

_LICENSE_DAYS = 365


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
        loaded.world.license = read_license(make_license("Laboratory", _LICENSE_DAYS, now), now)
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
