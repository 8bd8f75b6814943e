"""The only assembler: puts a configured site together from ports and adapters, each built when it is first needed."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from maint.adapters.clock import SystemClock
from maint.config.schema import BackupSettings, SiteSettings, VirtualClusterSettings
from maint.config.secrets import ReferencedSecrets
from maint.errors import Invalid
from maint.model.json import Json
from maint.model.manager import Door
from maint.model.secret import Secret

if TYPE_CHECKING:
    from maint.adapters.manager.client import ManagerClient
    from maint.adapters.notices import LocalPrograms, NoticeSender
    from maint.adapters.seal import AgeSeal
    from maint.adapters.sign import SshSigner
    from maint.adapters.ssh.shell import FabricFleet, FabricShell
    from maint.adapters.undo_store import SealedUndo
    from maint.adapters.virtual_clusters.client import VirtualClusterClient
    from maint.ports import Person, Store


# Steps for which a server without TLS must be given passwords: it gets its TLS by them.
BEFORE_TLS = ("deployment.put", "tls.switch", "license.upload")
_ON_FRESH = (*BEFORE_TLS, "deployment.add")  # for a server that may not know the configured account


class ConfiguredSite:
    """A site as configured (ports.Sight and ports.Site); `warn` is told what the operator must not miss."""

    def __init__(self, settings: SiteSettings, secrets: ReferencedSecrets, warn: Callable[[str], None]) -> None:
        self.settings = settings
        self.secrets = secrets
        self.clock = SystemClock()
        self.begun = self.clock.monotonic()  # since when `--timeout` counts
        self._warn = warn
        self.named: Callable[[str], str] = str  # returns words whose commands say of which of several sites they are
        self._closing = ExitStack()
        self._virtual_clusters: dict[str, VirtualClusterClient] = {}
        self._before_tls: tuple[str, bool] | None = None
        self._fresh = False  # whether the bootstrap account may change something
        self.person: Person | None = None  # who can be asked while a run is under way
        self.watched: Callable[[str, int, int | None], None] = _unwatched
        self.configured: ConfiguredSite = self  # without a store that one command names: what is told is of this one

    @property
    def state(self) -> Path:
        """The folder of this site's lock, journals, undo objects and keys."""
        return self.settings.state

    @cached_property
    def manager(self) -> "ManagerClient":
        """The management API."""
        from maint.adapters.manager.client import ManagerClient
        from maint.adapters.manager.session import PlainUse

        proxy = self.settings.proxy
        client = ManagerClient(self.settings.manager, self.secrets, self.clock, warn=self._warn, proxy=proxy)
        self._closing.callback(client.close)
        if self._before_tls is not None:
            kind, bootstrap_only = self._before_tls
            client.allow_plain(PlainUse(f"`{kind}` is for a server that has no TLS yet", bootstrap_only))
        if self._fresh:
            client.for_fresh_server()
        return client

    def works_on(self, kinds: Collection[str], *, sent: bool = False) -> None:
        """Let passwords go in clear where the run under way is what gives the manager its TLS, and the bootstrap
        account act where it is for a fresh server; before the first call.

        Args:
            kinds: the kinds of step of the run.
            sent: whether an earlier attempt may have restored the server's accounts.
        """
        kind = next((one for one in _ON_FRESH if one in kinds), None)
        if kind is not None:
            self._fresh = True
            self._before_tls = (kind, kind != "tls.switch" and not sent) if kind in BEFORE_TLS else None
            self.__dict__.pop("manager", None)

    def in_clear(self) -> str:
        """Return where the run under way sends passwords in clear although TLS is configured, "" where nowhere."""
        settings = self.settings.manager
        if self._before_tls is None or settings.ca is None or self.manager.presence().door is not Door.PLAIN:
            return ""
        where = f"{settings.host}:{settings.plain_port}"
        return f"in clear to {where}: passwords, since `{self._before_tls[0]}` is for a server that has no TLS yet"

    @cached_property
    def shell(self) -> "FabricShell":
        """The hosts."""
        from maint.adapters.ssh.shell import FabricShell

        return FabricShell(self.settings, self.secrets)

    @cached_property
    def fleet(self) -> "FabricFleet":
        """The hosts, all at once."""
        from maint.adapters.ssh.shell import FabricFleet

        return FabricFleet(self.settings, self.secrets)

    @cached_property
    def seal(self) -> "AgeSeal":
        """Encryption and compression."""
        from maint.adapters.seal import AgeSeal

        return AgeSeal()

    @cached_property
    def sign(self) -> "SshSigner":
        """Signatures."""
        from maint.adapters.sign import load_or_make_signer

        backup = self._backup
        key = self.secrets.resolve(backup.signing_key) if backup.signing_key else None
        return load_or_make_signer(key, self.state / "keys", backup.trusted_keys)

    @cached_property
    def store(self) -> "Store":
        """The snapshots."""
        return self.store_at(self._backup.store)

    @cached_property
    def copies(self) -> "Sequence[Store]":
        """Further stores, into which every snapshot is copied."""
        return [self.store_at(location) for location in self._backup.copies]

    @cached_property
    def shared(self) -> "Store | None":
        """The state that all machines see, None where there is none."""
        if self.settings.shared_state is None:
            return None
        how = self.settings.backup or BackupSettings.model_construct()
        return self._opened(self.settings.shared_state, how, shared=True)

    def store_at(self, location: str) -> "Store":
        """Return another store, reached as the config says."""
        return self._opened(location, self._backup)

    def _opened(self, location: str, how: BackupSettings, *, shared: bool = False) -> "Store":
        from maint.adapters.stores import Access, open_store

        store = open_store(location, Access(how, self.settings.ssh, self.secrets, shared))
        self._closing.callback(getattr(store, "close", lambda: None))  # only some kinds hold a connection
        return store

    @cached_property
    def undo(self) -> "SealedUndo":
        """What must be kept to take something back."""
        from maint.adapters.undo_store import SealedUndo

        return SealedUndo(self.state, self.seal)

    @cached_property
    def notices(self) -> "NoticeSender":
        """The sender of notices."""
        from maint.adapters.notices import NoticeSender
        from maint.report.run import body_of, text_of

        own = self.settings
        return NoticeSender(own.notify, self.secrets, self.clock, text=text_of, body=body_of, proxy=own.proxy)

    @cached_property
    def programs(self) -> "LocalPrograms":
        """Programs of the operator's on this machine."""
        from maint.adapters.notices import LocalPrograms

        return LocalPrograms()

    @cached_property
    def fingerprint_key(self) -> Secret:
        """The key of the fingerprints that stand for secrets in redacted copies."""
        from maint.adapters.sign import load_or_make_key

        reference = self._backup.fingerprint_key
        if not reference and self.settings.shared_state_key and not (self.state / "keys" / "fingerprint").exists():
            from maint.engine.shared_runs import adopt_fingerprint_key

            adopt_fingerprint_key(self)
        return self.secrets.resolve(reference) if reference else load_or_make_key(self.state / "keys", "fingerprint")

    def virtual_cluster(self, name: str) -> "VirtualClusterClient":
        """Return a virtual cluster by its name in the config; the only one where no name is given."""
        from maint.adapters.virtual_clusters.calls import ServiceCalls
        from maint.adapters.virtual_clusters.client import VirtualClusterClient

        settings = self.settings.virtual_cluster(name)
        if settings.name not in self._virtual_clusters:
            calls = ServiceCalls(settings, self.secrets, self.clock, warn=self._warn, proxy=self.settings.proxy)
            client = VirtualClusterClient(calls)
            self._virtual_clusters[settings.name] = client
        return self._virtual_clusters[settings.name]

    def find_at(self, name: str, values: Mapping[str, Json]) -> None:
        """Look for a virtual cluster elsewhere from now on: `base_url`, `auth_url`, `connect_to`, `ca` of `values`."""
        clusters = [_moved(one, values) if one.name == name else one for one in self.settings.virtual_clusters]
        self.settings = self.settings.model_copy(update={"virtual_clusters": tuple(clusters)})
        if (client := self._virtual_clusters.pop(name, None)) is not None:
            client.close()

    def identities(self) -> Sequence[Secret]:
        """Return the private keys at hand; Invalid: the one that is configured cannot be read, or is none."""
        reference = self._backup.identity
        if not reference:
            return ()
        key = self.secrets.resolve(reference)
        try:
            self.seal.recipient_of(key)
        except Invalid as damaged:
            raise Invalid(f"backup.identity, {reference}: {damaged.message}", hint=damaged.hint) from None
        return (key,)

    def moved(self, what: str, count: int, of: int | None = None) -> None:
        """Let who watches know that bytes were moved."""
        self.watched(what, count, of)

    def close(self) -> None:
        """Let go of connections."""
        self._closing.close()
        if "shell" in self.__dict__:
            self.shell.close()
        for client in self._virtual_clusters.values():
            client.close()

    @property
    def _backup(self) -> BackupSettings:
        if self.settings.backup is None:
            raise Invalid(
                f"site {self.settings.name} has no `backup:` in its config",
                hint="add `backup: {store: …, recipients: [age1…]}`",
            )
        return self.settings.backup


def _unwatched(what: str, count: int, of: int | None) -> None:
    """Tell nobody."""


def _moved(one: VirtualClusterSettings, values: Mapping[str, Json]) -> VirtualClusterSettings:
    found: dict[str, str | Path] = {
        key: str(values[key]) for key in ("base_url", "auth_url", "connect_to") if key in values
    }
    if "ca" in values:
        found["ca"] = Path(str(values["ca"]))
    return one.model_copy(update=found)
