"""Look at a site with another store in the place of its first."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from maint.model.json import Json
from maint.model.secret import Secret
from maint.model.site import SiteSettings
from maint.ports import Clock, Manager, Seal, Secrets, Shell, Sign, Site, Store, Undo, VirtualCluster


class Elsewhere:
    """`ports.Site`: the same site, whose snapshots lie in one of its further stores.

    Args:
        site: the site.
        store: the store that is meant.
    """

    def __init__(self, site: Site, store: Store) -> None:
        self._site, self._store = site, store

    @property
    def store(self) -> Store:
        """The store that is meant."""
        return self._store

    @property
    def copies(self) -> Sequence[Store]:
        """None: a copy is copied no further."""
        return ()

    @property
    def settings(self) -> SiteSettings:
        """The site's own."""
        return self._site.settings

    @property
    def clock(self) -> Clock:
        """The site's own."""
        return self._site.clock

    @property
    def secrets(self) -> Secrets:
        """The site's own."""
        return self._site.secrets

    @property
    def sign(self) -> Sign:
        """The site's own."""
        return self._site.sign

    @property
    def seal(self) -> Seal:
        """The site's own."""
        return self._site.seal

    @property
    def manager(self) -> Manager:
        """The site's own."""
        return self._site.manager

    @property
    def shell(self) -> Shell:
        """The site's own."""
        return self._site.shell

    @property
    def undo(self) -> Undo:
        """The site's own."""
        return self._site.undo

    @property
    def state(self) -> Path:
        """The site's own."""
        return self._site.state

    @property
    def fingerprint_key(self) -> Secret:
        """The site's own."""
        return self._site.fingerprint_key

    def identities(self) -> Sequence[Secret]:
        """Return the site's own."""
        return self._site.identities()

    def virtual_cluster(self, name: str) -> VirtualCluster:
        """Return one of the site's own."""
        return self._site.virtual_cluster(name)

    def find_at(self, name: str, values: Mapping[str, Json]) -> None:
        """Let the site look for it elsewhere."""
        self._site.find_at(name, values)
