"""The configuration of notices, and of the programs that run before and after a run."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from maint.config.fields import (
    FilePath,
    HostName,
    Limit,
    Name,
    Port,
    Reference,
    Said,
    Strict,
    Text,
    UrlReference,
    is_address,
)
from maint.model.notice import verb_of

HOOKS = ("before_run", "after_run", "on_failure")
_PINGED = ("start", "success", "failure", "stopped")
_DIRECT = ("message", "test")
_PORTS = {"starttls": 587, "tls": 465, "none": 25}


class Webhook(Strict):
    """An address that a JSON document is posted to."""

    url: UrlReference = Field(
        description="where to post: https://…, or a reference to it where the address itself is the secret",
        examples=["file:/etc/maint/chat-webhook"],
    )
    format: Literal["json", "slack", "teams"] = Field(
        default="json", description="what is posted: the event, or what a chat tool wants (Mattermost reads slack)"
    )
    token: Reference | None = Field(
        default=None,
        description="reference to a token, sent as `Authorization: Bearer`",
        examples=["file:/etc/maint/webhook-token"],
    )
    ca: FilePath | None = Field(
        default=None, description="PEM bundle that it must chain to", examples=["/etc/maint/internal-ca.pem"]
    )


class Mail(Strict):
    """A mail over SMTP."""

    host: HostName = Field(description="the mail server", examples=["mail.example.internal"])
    port: Port | None = Field(default=None, description="587, with tls 465, with none 25", examples=[587])
    tls: Literal["starttls", "tls", "none"] = Field(
        default="starttls", description="how it is protected; none only to this machine itself"
    )
    ca: FilePath | None = Field(
        default=None, description="PEM bundle that the server must chain to", examples=["/etc/maint/internal-ca.pem"]
    )
    username: Text | None = Field(default=None, description="account, where one is needed", examples=["maint"])
    password: Reference | None = Field(
        default=None, description="reference to its password", examples=["file:/etc/maint/mail-password"]
    )
    sender: Said = Field(description="whom it is from", examples=["maint@example.internal"])
    to: Annotated[tuple[Said, ...], Field(min_length=1)] = Field(
        description="whom it goes to", examples=[["ops@example.internal"]]
    )

    @property
    def at(self) -> tuple[str, int]:
        """Host and port."""
        return self.host, self.port or _PORTS[self.tls]


class Ping(Strict):
    """A dead man's switch: an address that is told of each start and end, and raises the alarm when it is not."""

    url: UrlReference = Field(
        description="where to post: https://…, or a reference to it", examples=["file:/etc/maint/ping-url"]
    )
    start: str = Field(default="/start", description="what is added to url at the beginning")
    success: str = Field(default="", description="what is added at an end with exit code 0", examples=[""])
    failure: str = Field(default="/{exit}", description="what is added at any other; {exit} is the exit code")
    ca: FilePath | None = Field(
        default=None, description="PEM bundle that it must chain to", examples=["/etc/maint/internal-ca.pem"]
    )


class Exec(Strict):
    """A program of yours."""

    command: Annotated[tuple[Text, ...], Field(min_length=1)] = Field(
        description="the program and its arguments; no shell; the event as JSON on its standard input",
        examples=[["/usr/local/bin/page", "night-shift"]],
    )


Command = Annotated[tuple[Text, ...], Field(min_length=1)]


class Hooks(Strict):
    """Programs around each run that takes the site's lock; no shell, what is happening as JSON on standard input."""

    before_run: tuple[Command, ...] = Field(
        default=(),
        description="before anything is done; one that fails refuses the run (5)",
        examples=[[["/usr/local/bin/may-we", "maint"]]],
    )
    after_run: tuple[Command, ...] = Field(
        default=(), description="after its end, good or bad", examples=[[["/usr/local/bin/free-the-slot"]]]
    )
    on_failure: tuple[Command, ...] = Field(
        default=(),
        description="before after_run, where it ended with another exit code than 0",
        examples=[[["/usr/local/bin/open-a-ticket", "maint"]]],
    )
    timeout: Limit = Field(default=60.0, description="limit for each program", examples=["60s"])


class Plugin(Strict):
    """A way that an installed package offers."""

    kind: Name = Field(description="the name under which it offers it", examples=["greeting"])
    settings: dict[str, Text] = Field(
        default={}, description="what it wants to know; secrets as references", examples=[{"room": "night-shift"}]
    )


When = Literal["failure", "success", "stale", "recovered"]


class NoticeSettings(Strict):
    """A notice: of what, and in which ways it is sent."""

    name: Name = Field(description="how maint calls it", examples=["night-shift"])
    on: Annotated[tuple[When, ...], Field(min_length=1)] = Field(
        default=("failure", "stale", "recovered"),
        description="of what: failure, success, stale, recovered; a ping is told every start and end",
    )
    verbs: tuple[Text, ...] = Field(
        default=(),
        description="about what: backup create, backup drill, … or names of playbooks; all when left out",
        examples=[["backup create", "backup drill"]],
    )
    timeout: Annotated[Limit, Field(le=60)] = Field(
        default=10.0, description="limit for each way, at most 60s", examples=["10s"]
    )
    webhook: Webhook | None = Field(default=None, description="post JSON")
    mail: Mail | None = Field(default=None, description="send a mail")
    ping: Ping | None = Field(default=None, description="tell a dead man's switch")
    exec: Exec | None = Field(default=None, description="run a program")
    plugin: Plugin | None = Field(default=None, description="tell in a way of an installed package")

    def ways(self, kind: str, verb: str) -> Sequence[str]:
        """Return the ways that a kind of event about a verb goes; a message and a test go every way but to a ping."""
        if self.verbs and verb not in map(verb_of, self.verbs) and kind not in _DIRECT:
            return ()
        told = kind in self.on or kind in _DIRECT
        return [way for way in WAYS if getattr(self, way) is not None and (kind in _PINGED if way == "ping" else told)]

    def references(self) -> dict[str, str]:
        """Return its secret references: key → reference."""
        keys = (("webhook", "url"), ("webhook", "token"), ("mail", "password"), ("ping", "url"))
        found = {f"notify.{self.name}.{way}.{key}": getattr(getattr(self, way), key, None) for way, key in keys}
        return {key: value for key, value in found.items() if value and not is_address(value)}


WAYS = tuple(key for key, field in NoticeSettings.model_fields.items() if field.default is None)
