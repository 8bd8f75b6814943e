"""The few facts about a document that a restore has to know before it starts."""

from collections.abc import Iterator, Mapping

import msgspec

# Manager settings that a restore depends on (contract sections 2.1, 7.2, 11); none of them is secret.
TLS_SETTINGS = frozenset({"WEB_TLS", "AUTO_TLS_TYPE", "KEYSTORE_PATH", "TRUSTSTORE_PATH"})
# Either holds the password that `GET /certs/truststorePassword` serves (contract section 11).
TRUSTSTORE_SETTINGS = frozenset({"TRUSTSTORE_PASSWORD", "AUTO_TLS_TRUSTSTORE_PASSWORD"})


class Outline(msgspec.Struct, frozen=True):
    """What is in a deployment, from far away.

    Attributes:
        release: the manager's release, "" where it is not named.
        hosts: how many.
        clusters: their names.
        users: their names, internal ones too.
        administrators: the users who can log in as administrators.
        settings: the manager's settings that concern TLS.
        truststore_password: whether the password of the shared truststore is readable in it.
    """

    release: str = ""
    hosts: int = 0
    clusters: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    administrators: tuple[str, ...] = ()
    settings: Mapping[str, str] = {}
    truststore_password: bool = False

    @property
    def web_tls(self) -> bool:
        """Whether the restored server serves 7183 after its restart."""
        return self.settings.get("WEB_TLS", "").lower() == "true"

    @property
    def auto_tls(self) -> bool:
        """Whether the manager makes the certificates itself, and needs its `certmanager` folder for that."""
        return self.settings.get("AUTO_TLS_TYPE", "NONE") != "NONE"

    def key_files(self) -> Iterator[str]:
        """Yield the files on the manager host without which TLS cannot come up (contract section 2.1)."""
        if self.web_tls:
            for name in ("KEYSTORE_PATH", "TRUSTSTORE_PATH"):
                if path := self.settings.get(name):
                    yield path
