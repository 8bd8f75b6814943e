"""`maint backup drill`: rehearse the restore of a snapshot in a throw-away manager, and show the result."""

import fcntl
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

from maint.cli.after_run import followed, planned
from maint.cli.command import command
from maint.cli.lab.options import switches_of
from maint.cli.open_site import opened
from maint.cli.options import WORKS, Flags, argument, option
from maint.config.schema import Login, ManagerSettings, SiteSettings
from maint.engine.shared_runs import at_work
from maint.errors import Refused, WorkFailed
from maint.ports import Clock, Secrets
from maint.restore.drill import Drilled
from maint.restore.drill import drill as rehearse_restore
from maint.restore.select_snapshot import chosen
from maint.snapshots.catalogue import newest_restorable
from maint.snapshots.prune import of_passed_over, passed_over

if TYPE_CHECKING:
    from maint.adapters.manager.client import ManagerClient
    from maint.lab.manager.simulator import Simulator

PREFIX = "maint-drill-"
_MEMORY = Path("/dev/shm")
_FACTOR = 12  # how many times its size a deployment takes in the folder of a lab
_LEAST = 64 * 1024 * 1024  # bytes
_LOCK = "lock"


class LabStage:
    """`ports.Stage`: a lab that is up."""

    def __init__(self, lab: "Simulator", client: "ManagerClient", login: Login, secrets: Secrets) -> None:
        self.manager = client
        self._lab, self._login, self._secrets = lab, login, secrets

    def restart(self) -> None:
        """Restart its server; returns once it answers."""
        self._lab.server.restart()
        if not self._lab.server.wait():
            raise WorkFailed(
                "the throw-away manager did not come up again",
                hint="run the drill again; where it ends so each time, the machine may lack memory or free ports",
            )

    def admit(self) -> None:
        """Let the site's account in by its configured password; the deployment itself is not touched."""
        from maint.lab.manager.accounts import set_password

        password, world = self._secrets.resolve(self._login.password), self._lab.world
        with world.lock:
            users = [dict(user) for user in world.login_users]
            for user in users:
                if user.get("name") == self._login.username:
                    set_password(user, password.reveal(), random.SystemRandom(), "cm5")
            world.login_users = users


class LabRehearsal:
    """`ports.Rehearsal` in a lab; `behaviours` are its switches, by name."""

    def __init__(
        self,
        settings: SiteSettings,
        secrets: Secrets,
        clock: Clock,
        warn: Callable[[str], None],
        behaviours: Mapping[str, str],
    ) -> None:
        self._settings, self._secrets, self._clock = settings, secrets, clock
        self._warn, self._behaviours = warn, behaviours

    @contextmanager
    def stage(self, document: BinaryIO, size: int, api: int) -> Iterator[LabStage]:
        """Bring up a throw-away manager; see `ports.Rehearsal`."""
        from maint.lab.manager import simulator
        from maint.lab.manager.load import Options

        switches = {
            "down-seconds": "0",
            "starting-seconds": "0",
            "redaction-default": "off",  # so that every secret can be compared
            "announced-api": f"v{api}",
            **self._behaviours,
        }
        sweep()
        with private_folder(size) as folder:
            path = folder / "deployment.json"
            options = Options(deployment=path, fresh=True, switches=switches)
            try:
                with path.open("xb") as file:
                    shutil.copyfileobj(document, file, 1 << 18)
                lab = simulator.create(folder / "lab", options).simulator
            except OSError as problem:  # which says nothing of the snapshot
                raise Refused(
                    f"no throw-away manager can be made here: {problem}",
                    hint="make room in the folder for temporary files, then run the drill again",
                ) from None
            except ValueError as problem:
                raise WorkFailed(
                    f"no throw-away manager can be made of this deployment: {problem}",
                    hint="`maint backup verify --level 2` says whether it is whole",
                ) from None
            with lab:
                yield LabStage(lab, self._client(lab, api), self._settings.manager.login, self._secrets)

    def _client(self, lab: "Simulator", api: int) -> "ManagerClient":
        from maint.adapters.manager.client import ManagerClient

        own = self._settings.manager
        settings = ManagerSettings(
            host="127.0.0.1",
            plain_port=lab.server.plain_port,
            tls_port=lab.server.tls_port,
            username=own.username,
            password=own.password,
            ca=lab.bundle,
            api=own.api.model_copy(update={"deployment": api}),
        )
        # In clear where it must be, see `allow_plain`: nothing leaves this machine.
        client = ManagerClient(settings.in_clear(), self._secrets, self._clock, warn=lambda _: None)
        client.for_fresh_server()
        return client


@contextmanager
def private_folder(size: int) -> Iterator[Path]:
    """Yield a folder that only we can enter, in memory where `size` bytes have room, and that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=_place(size)))  # made 0700
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def sweep() -> int:
    """Remove what drills left that were killed; return how many folders."""
    left = left_behind()
    for folder in left:
        shutil.rmtree(folder, ignore_errors=True)
    return len(left)


def left_behind() -> list[Path]:
    """Return the folders of drills that were killed."""
    places = {_MEMORY, Path(tempfile.gettempdir())}
    return [folder for place in places for folder in sorted(place.glob(f"{PREFIX}*")) if _dead(folder)]


def _dead(folder: Path) -> bool:
    """Tell whether a folder is one of ours whose drill has ended: the kernel frees its lock, however it ends."""
    with suppress(OSError):  # another drill may be removing it at this moment
        if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
            return False
        handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        finally:
            os.close(handle)
    return False


def _place(size: int) -> Path:
    """Return where there is room: in memory, else the folder for temporary files."""
    needed = max(size * _FACTOR, _LEAST)
    with suppress(OSError):
        if os.access(_MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(_MEMORY).free > needed:
            return _MEMORY
    return Path(tempfile.gettempdir())


@command(several=WORKS)
def drill(
    flags: Flags,
    snapshot: Annotated[str, argument("Its id or the beginning of it; else the newest restorable.")] = "",
    switch: Annotated[
        list[str] | None, option("--switch", "NAME=VALUE: a behaviour of the throw-away manager.")
    ] = None,
) -> int:
    """Rehearse a restore in a throw-away manager: send, restart, read back, compare, measure, and keep the evidence."""
    return rehearse(flags, snapshot, switches_of(switch or ()))


def rehearse(flags: Flags, wanted: str, switches: Mapping[str, str]) -> int:
    """Drill a snapshot, else the newest restorable one, under the site's lock; WorkFailed: it did not pass."""
    with opened(flags) as (site, screen):
        with planned(site, screen, "backup drill", dry_run=flags.dry_run):
            snapshot = chosen(site, wanted) if wanted else newest_restorable(site)
            newer = {} if wanted else passed_over(site, snapshot)
        if newer:
            screen.warn(f"snapshot {snapshot.id} is drilled{of_passed_over(newer)}")
        if flags.dry_run:
            words = f"would restore snapshot {snapshot.id} into a throw-away manager, and record how that went"
            screen.emit({"snapshot": snapshot.id}, words)
            return 0
        rehearsal = LabRehearsal(site.settings, site.secrets, site.clock, screen.warn, switches)
        with followed(site, screen, "backup drill") as begin, at_work(site, "backup drill", screen.say):
            begin()
            found = screen.follow(rehearse_restore(site, rehearsal, snapshot))
            screen.emit({"drill": found.to_json()}, _table(found))
            if not found.passed:
                raise WorkFailed(
                    f"the drill of snapshot {found.snapshot} failed: {found.reason}",
                    detail=[*found.detail, *([found.unkept.in_a_line] if found.unkept else [])],
                    hint=f"`maint backup drill {found.snapshot}` without --switch: until one passes, it proves nothing"
                    if switches
                    else "it would not come back as it is: `maint backup create --open-window`, then drill again",
                )
            if found.unkept:
                raise found.unkept
    return 0


def _table(found: Drilled) -> str:
    lines = [f"{phase.name:<10}{phase.seconds:9.2f} s" for phase in found.phases]
    if found.rto_seconds is not None:
        lines.append(f"{'in all':<10}{found.rto_seconds:9.2f} s to the configuration read back, in a rehearsal")
    return "\n".join([*lines, f"snapshot {found.snapshot}: {found.reason}"])
