"""How a site's hosts are reached, as its configuration says: shared by the shell and the fleet."""

import threading

from maint.config.schema import SiteSettings, SshSettings
from maint.errors import Invalid
from maint.model.secret import Secret
from maint.ports import Secrets


class Reach:
    """The `ssh` section of a site, and sudo's password.

    Args:
        settings: the site.
        secrets: resolves the reference to sudo's password.
    """

    def __init__(self, settings: SiteSettings, secrets: Secrets) -> None:
        self._settings = settings
        self._secrets = secrets
        self._password: Secret | None = None
        self._asking = threading.Lock()

    @property
    def ssh(self) -> SshSettings:
        """The section.

        Raises:
            Invalid: the site has none.
        """
        if self._settings.ssh is None:
            raise Invalid(
                f"site {self._settings.name} has no ssh section, so its hosts cannot be reached",
                hint="add sites.NAME.ssh to the config",
            )
        return self._settings.ssh

    def sudo_password(self) -> Secret | None:
        """Return sudo's password, None where none is configured; whoever holds it is asked once, not for each host."""
        reference = self.ssh.sudo_password
        if reference is None:
            return None
        with self._asking:
            if self._password is None:
                self._password = self._secrets.resolve(reference)
            return self._password
