"""The outside world on one page: what maint asks of it, as Protocols.

What only reads is in a `…Sight`; what changes something adds to it. Planning receives a `Sight`, carrying out a
`Site`, so that "a dry run changes nothing" is a matter of types.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec

from maint.config.schema import SiteSettings
from maint.model.json import Json
from maint.model.manager import (
    Account,
    Cluster,
    Command,
    Host,
    Instance,
    License,
    Place,
    Presence,
    Role,
    Service,
    Setting,
)
from maint.model.notice import Notice, Told
from maint.model.secret import Secret, SecretBytes
from maint.ports.hosts import Fleet as Fleet
from maint.ports.hosts import Ran as Ran
from maint.ports.hosts import Shell as Shell
from maint.ports.hosts import ShellSight as ShellSight
from maint.ports.streams import Answer as Answer
from maint.ports.streams import Sized
from maint.ports.virtual_cluster import VirtualCluster as VirtualCluster
from maint.ports.virtual_cluster import VirtualClusterSight as VirtualClusterSight


class Clock(Protocol):
    """Time, and the right to wait."""

    def now(self) -> datetime:
        """Return the time, UTC, aware."""

    def monotonic(self) -> float:
        """Return seconds that never go back, and pass while the machine sleeps, too."""

    def sleep(self, seconds: float) -> None:
        """Wait."""

    def limit(self, seconds: float | None, of: float | None = None) -> AbstractContextManager[Callable[[float], None]]:
        """Raise `DeadlinePassed` inside the block once the seconds, left `of` a limit, have passed; they nest.

        What it gives puts the limit off, from any thread, until a time of `monotonic`.
        """


class Secrets(Protocol):
    """Turns references (`file:PATH`, `env:NAME`, `command:WORDS`, `credential:NAME`, …) into values."""

    def resolve(self, reference: str) -> Secret:
        """Return the value; Invalid: the reference is malformed, names nothing, or a file that others can read."""

    def resolve_bytes(self, reference: str) -> SecretBytes:
        """Return the value byte for byte, such as a keytab; what can only hold text holds base64. Raises Invalid."""


class Body(msgspec.Struct, frozen=True):
    """A request body of `length` bytes, sent once; `read` returns b'' at the end."""

    read: Callable[[int], bytes]
    length: int
    # called just before the last block leaves; what it writes is on disk by then
    before_last: Callable[[], None] = lambda: None


class ManagerSight(Protocol):
    """The management API, reading only (M2 to M11); the config's account is tried first, then its `bootstrap` account,
    which changes something only in a run for a fresh server.

    Every method raises `CannotReach` when the server cannot be reached or trusted, `LoginRefused` on 401 to all
    accounts, and `WorkFailed` with the server's own message when it answers with an error.
    """

    def presence(self) -> Presence:
        """Knock on both ports without credentials; never raises for a closed one."""

    def certificate_end(self) -> datetime | None:
        """Return when the certificate of the TLS port ends, trusted or not; None where none is shown."""

    def certificate_digest(self) -> str:
        """Return the SHA-256 (hex) of the certificate that the TLS port shows, trusted or not; empty where none is."""

    def log_in(self) -> Account:
        """Find the account that is let in, and keep to it until `forget_login`."""

    def forget_login(self) -> None:
        """Forget port and account: the next call finds both anew (after a restart or a restore)."""

    def api_version(self) -> int:
        """Return N of the `vN` that `GET /api/version` answers."""

    def require_api(self, pinned: int) -> str:
        """Return `vN` for the pinned version, or raise `WorkFailed` when the server knows only lower ones."""

    def release(self) -> str:
        """Return the manager's release, such as 7.6.5 (`GET /cm/version`)."""

    def clusters(self) -> Sequence[Cluster]:
        """Return all clusters, ECS ones too."""

    def data_contexts(self, cluster: str) -> Sequence[str]:
        """Return the names of the data contexts made of a base cluster's services; empty before API v32."""

    def services(self, cluster: str) -> Sequence[Service]:
        """Return a cluster's services."""

    def management_service(self) -> Service | None:
        """Return the monitoring service, or None where there is none."""

    def management_roles(self) -> Sequence[Role]:
        """Return the roles of the monitoring service."""

    def roles(self, service: Place) -> Sequence[Role]:
        """Return the roles of a service."""

    def role_groups(self, service: Place) -> Sequence[str]:
        """Return the names of a service's role config groups."""

    def settings_of(self, place: Place) -> Sequence[Setting]:
        """Return all settings that a place knows; secrets are REDACTED where the manager redacts."""

    def settings_if_there(self, place: Place) -> Sequence[Setting] | None:
        """Return all settings that a place knows, None where it is gone."""

    def commands_of(self, place: Place) -> Sequence[Command]:
        """Return what runs now on a place itself; nothing for a host, whose commands are not listed."""

    def hosts(self) -> Sequence[Host]:
        """Return all hosts."""

    def command(self, command_id: int) -> Command | None:
        """Return a command by id, or None where it is unknown. Transient 400, 401 and 5xx raise `Transient`."""

    def active_commands(self) -> Sequence[Command]:
        """Return what runs now on manager, monitoring and clusters; where nothing does, on services, then on roles."""

    def license(self) -> License | None:
        """Return the installed licence, or None."""

    def truststore_password(self) -> Secret | None:
        """Return the password of the shared truststore, or None where Auto-TLS is off or the API too old."""

    def settings(self) -> dict[str, str]:
        """Return the manager's own settings as `GET /cm/config` shows them; redacted ones as REDACTED."""

    def instances(self) -> Sequence[Instance]:
        """Return the servers of this manager; empty where the API is older than v41."""

    def deployment(self) -> AbstractContextManager[Sized]:
        """Stream `GET /cm/deployment` at the pinned version."""

    def get(self, path: str) -> Json:
        """Return the JSON of any other read, `path` without `/api/vN`."""


class Manager(ManagerSight, Protocol):
    """The management API, acting. Nothing here is ever sent a second time by itself."""

    def place_command(self, place: Place, name: str, arguments: Mapping[str, Json] | None = None) -> Command:
        """Send a command by its name to a place that is not a role; the answer may already be a rejection."""

    def role_command(self, service: Place, name: str, roles: Sequence[str]) -> Sequence[Command]:
        """Send a command to roles of a service; what did not begin comes back as failed."""

    def maintain(self, place: Place, *, on: bool) -> Command:
        """Put a place into maintenance mode, or take it out; it is done when this returns."""

    def configure(self, place: Place, name: str, value: str | None, message: str) -> None:
        """Set one setting of a place, or unset it (None); no other changes.

        Raises:
            AnswerMissing: it may have been set; look.
            WorkFailed: the manager refused the value.
        """

    def import_kdc_account(self, username: str, password: Secret) -> Command:
        """Hand over the account with which the manager makes principals in the KDC."""

    def delete_cluster(self, cluster: str) -> bool:
        """Delete; return False where it was already gone (404)."""

    def management_command(self, name: str, roles: Sequence[str] = ()) -> Sequence[Command]:
        """Send a command to the monitoring service, or to some of its roles."""

    def upload_license(self, content: bytes) -> License:
        """Upload a licence file, bytes unchanged."""

    def put_deployment(self, body: Body, *, api: int, delete_current: bool, timeout: float) -> Answer:
        """Send the deployment once.

        Raises:
            AnswerMissing: it may or may not have been applied; look.
            WorkFailed: the server said no; nothing was changed.
        """


class StoreSight(Protocol):
    """A place for snapshots, reading only; names are relative, with `/`. Every method raises `StoreFailed`."""

    @property
    def location(self) -> str:
        """Where it is, for people."""

    def names(self, prefix: str = "") -> Iterator[str]:
        """Yield the names of all committed files below a folder, in order."""

    def size(self, name: str) -> int | None:
        """Return the bytes of a file, None where there is none."""

    def written(self, name: str) -> datetime | None:
        """Return when a file was written, UTC, by the store's clock, to the second; None where nothing tells."""

    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Read a file as a stream; `FileNotFoundError` where there is none."""


class Store(StoreSight, Protocol):
    """A place for snapshots: files are written once, whole or not at all."""

    def create(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Write a new file, committed (fsync, rename, fsync of the folder) when the block ends well, gone otherwise.

        Raises:
            FileExistsError: there is one already; nothing is ever overwritten.
        """

    def remove(self, name: str) -> None:
        """Remove a file; no complaint where there is none."""

    def sweep(self, prefix: str = "") -> int:
        """Remove what earlier writers left half-written; return how many files."""


class Seal(Protocol):
    """Encryption to age recipients and compression with zstd, both as streams."""

    def new_identity(self) -> tuple[Secret, str]:
        """Return a fresh private key and its recipient."""

    def recipient_of(self, identity: Secret) -> str:
        """Return the recipient that belongs to a private key."""

    def wrap(self, source: Callable[[int], bytes], target: BinaryIO, recipients: Sequence[str]) -> None:
        """Pull from `source` until b'', compress, encrypt and write to `target`."""

    def unwrap(self, source: BinaryIO, identities: Sequence[Secret]) -> AbstractContextManager[BinaryIO]:
        """Return the decrypted, decompressed stream; `WorkFailed` when no key fits or it is damaged."""

    def encrypt(self, source: Callable[[int], bytes], target: BinaryIO, recipients: Sequence[str]) -> None:
        """Pull from `source` until b'', encrypt without compressing, and write to `target`."""

    def decrypt(self, source: BinaryIO, identities: Sequence[Secret]) -> AbstractContextManager[BinaryIO]:
        """Return the decrypted stream of what `encrypt` wrote; `WorkFailed` as for `unwrap`."""

    def compress(self, source: Callable[[int], bytes], target: BinaryIO) -> None:
        """Pull from `source` until b'', compress and write to `target`."""

    def decompress(self, source: BinaryIO) -> AbstractContextManager[BinaryIO]:
        """Return the decompressed stream."""


class Sign(Protocol):
    """Signatures in the format of `ssh-keygen -Y` (SSHSIG, Ed25519)."""

    @property
    def public_key(self) -> str:
        """This site's own key, `ssh-ed25519 AAAA…`."""

    def sign(self, content: bytes) -> bytes:
        """Return the armored signature, in its one canonical spelling."""

    def verify(self, content: bytes, signature: bytes) -> str:
        """Return the trusted key that signed; WorkFailed: not canonical, of no trusted key, or of another content."""


class Undo(Protocol):
    """What must be kept to take something back: sealed in the state folder; journals hold only its name."""

    def keep(self, content: bytes, name: str = "") -> str:
        """Seal content on disk (fsync) and return its name; a given one has 32 hexadecimal digits and is not in use."""

    def fetch(self, name: str) -> bytes:
        """Return the content; NotKept where there is none."""

    def drop(self, name: str) -> None:
        """Forget it."""

    def sealed_before(self, moment: float) -> Sequence[str]:
        """Return the names of what was sealed before a moment (seconds since 1970)."""


class Stage(Protocol):
    """A throw-away manager that is up: just installed, of the release and with the host files of a deployment."""

    @property
    def manager(self) -> Manager:
        """Its API, for the site's account, and for the factory account before a restore."""

    def restart(self) -> None:
        """Restart its server; returns once it answers."""

    def admit(self) -> None:
        """Let the site's account in by its configured password, whatever hash the restored users carry."""


class Rehearsal(Protocol):
    """Where a restore can be tried without touching anything."""

    def stage(self, document: BinaryIO, size: int, api: int) -> AbstractContextManager[Stage]:
        """Bring up a throw-away manager, and take it down without a trace afterwards.

        Args:
            document: the deployment whose release, hosts and host files it has; the manager itself stays empty.
            size: bytes of it.
            api: the highest API version that it announces.
        """


class Person(Protocol):
    """Somebody at the terminal of this run."""

    @property
    def name(self) -> str:
        """Who, as `user@host`."""

    def ask(self, question: str) -> None:
        """Show a question."""

    def reply(self, wait: float) -> str | None:
        """Return the next line typed within so many seconds, None where none is; "" once the terminal is gone."""


class Programs(Protocol):
    """Programs of the operator's on this machine, which are given no secret."""

    def run(self, words: Sequence[str], given: bytes, timeout: float, folder: Path = Path("/")) -> None:
        """Run one with its standard input, for at most so many seconds; WorkFailed: it did not end with 0."""


class Notices(Protocol):
    """The sender of notices, as configured."""

    def tell(self, notices: Sequence[Notice], names: Collection[str] | None = None) -> Sequence[Told]:
        """Tell, each within its limit and all within a minute; never raises.

        Args:
            notices: what may be told, the most telling first: each way takes the first that it is for.
            names: only these of the configured notices; None: all.
        """


class Sight(Protocol):
    """A site that can be looked at."""

    @property
    def settings(self) -> SiteSettings:
        """What is configured."""

    @property
    def clock(self) -> Clock:
        """Time."""

    @property
    def secrets(self) -> Secrets:
        """Secret references."""

    @property
    def sign(self) -> Sign:
        """Signatures."""

    @property
    def seal(self) -> Seal:
        """Encryption and compression."""

    @property
    def manager(self) -> ManagerSight:
        """The management API, reading."""

    @property
    def shell(self) -> ShellSight:
        """The hosts, asking."""

    @property
    def fleet(self) -> Fleet:
        """Many hosts at once, asking."""

    @property
    def store(self) -> StoreSight:
        """The snapshots, reading."""

    @property
    def fingerprint_key(self) -> Secret:
        """The key of the fingerprints that stand for secrets."""

    def identities(self) -> Sequence[Secret]:
        """Return the private keys at hand; empty on a machine that only takes backups."""

    def moved(self, what: str, count: int, of: int | None = None) -> None:
        """Let who watches know that bytes of something were moved, `of` so many in all; safe for threads."""

    def virtual_cluster(self, name: str) -> VirtualClusterSight:
        """Return a virtual cluster by its name in the config (empty: the only one).

        Raises:
            UnknownName: there is none of that name.
            Invalid: none is configured, or several are.
        """


class Site(Sight, Protocol):
    """A site that can be changed."""

    @property
    def manager(self) -> Manager:
        """The management API."""

    @property
    def shell(self) -> Shell:
        """The hosts."""

    @property
    def store(self) -> Store:
        """The snapshots."""

    @property
    def copies(self) -> Sequence[Store]:
        """Further stores, into which every snapshot is copied."""

    @property
    def shared(self) -> Store | None:
        """The state that all machines see, None where there is none."""

    def virtual_cluster(self, name: str) -> VirtualCluster:
        """Return a virtual cluster, acting."""

    def find_at(self, name: str, values: Mapping[str, Json]) -> None:
        """Look for a virtual cluster elsewhere from now on (`base_url`, `auth_url`, `connect_to`, `ca` of `values`)."""

    @property
    def undo(self) -> Undo:
        """What must be kept to take something back."""

    @property
    def notices(self) -> Notices:
        """The sender of notices."""

    @property
    def programs(self) -> Programs:
        """Programs of the operator's on this machine."""

    @property
    def person(self) -> Person | None:
        """Who can be asked while it runs, None where nobody is at a terminal."""

    @property
    def state(self) -> Path:
        """The folder of this site's lock, journals, undo objects and keys."""


class Work(Protocol):
    """One action under way: what it wrote down in earlier attempts, and a way to write down more."""

    @property
    def run(self) -> str:
        """The id of the run."""

    @property
    def resumed(self) -> bool:
        """Whether an earlier attempt of this run had already begun this action."""

    @property
    def timeout(self) -> float | None:
        """Seconds that the playbook allows for this action."""

    @property
    def answers(self) -> Mapping[str, Json]:
        """What the operator answered, when the run was taken up, for the branch of this action."""

    def note(self, key: str, value: Json) -> None:
        """Write down, on disk before this returns; never a secret."""

    def noted(self, key: str) -> Json:
        """Return what was last written down under a key, None where nothing was."""

    def heir(self) -> str | None:
        """Return the run of the machine that may have taken the lease, "" for none; None: no other can be at work."""
