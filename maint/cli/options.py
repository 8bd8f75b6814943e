"""The options that commands share, and the record of their values."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import msgspec
import typer

from maint.cli.screen import Screen
from maint.errors import UsageError
from maint.model.formatting import parse_duration

# Name of the value → how it is declared, and what it is where it is left out.
Options: TypeAlias = Mapping[str, tuple[object, object]]


class Connection(msgspec.Struct, frozen=True):
    """Where the store and the manager are, for one command or where there is no config; empty is "not said"."""

    store: str = ""
    signed_by: tuple[str, ...] = ()
    identity: str = ""
    s3: tuple[str, ...] = ()
    ssh_key: str = ""
    ssh_user: str = ""
    ssh_port: int = 0
    known_hosts: str = ""
    manager: str = ""
    username: str = ""
    password: str = ""
    bootstrap: str = ""
    ca: str = ""
    license: str = ""

    @property
    def replaces_config(self) -> bool:
        """Whether it stands for a config; a store alone is read as the config says."""
        return any(getattr(self, name) for name in self.__struct_fields__ if name != "store")


class Several(msgspec.Struct, frozen=True):
    """How a command goes about several sites.

    Attributes:
        asks: whether it asks before it changes something; then it is asked once, for all of them.
        alone: parameters that make sense for one site only, such as a file that is written.
        limit: how long it may take for a site where `--timeout` says nothing.
        grace: seconds that putting things back may take beyond a limit, and once more when it is asked to end.
    """

    asks: bool = False
    alone: tuple[str, ...] = ()
    limit: str = "30m"
    grace: float = 60.0


class Said(msgspec.Struct, frozen=True):
    """The words of a call: those of the command, and by parameter those of its own options and arguments."""

    command: Sequence[str]
    options: Mapping[str, Sequence[str]]


LOOKS = Several()
_CLOSING = 1200.0  # seconds: closing a window restarts the manager, which takes up to 15 minutes
WORKS = Several(limit="2h", grace=_CLOSING)
CHANGES = Several(asks=True, limit="2h", grace=_CLOSING)


class Flags(msgspec.Struct, frozen=True):
    """What the operator said beside the command itself; None is "not said"."""

    site: str | None = None
    sites: tuple[str, ...] = ()  # several, where --site was repeated
    every: bool = False  # all sites of the config
    labels: tuple[str, ...] = ()  # KEY=VALUE of the sites that are meant
    at_once: int = 0
    config: str | None = None
    output: str | None = None
    quiet: bool = False
    verbose: bool = False
    color: str | None = None
    log_format: str | None = None
    yes: bool = False
    confirm: str | None = None
    dry_run: bool = False
    timeout: str | None = None
    insecure: bool = False
    allow_plain: bool = False
    no_safety_net: str = ""  # why backup guards are lifted
    vc: str = ""  # which virtual cluster
    connection: Connection = Connection()
    run_key: str = ""  # under which the same command goes on with its own run
    command: str = ""  # no option: the command's words
    asked: str = ""  # no option: which command it is, with its own options; only where there is a key
    state: str | None = None  # no option: where the demo keeps its state
    vendor: bool = False  # no option: whether the documented client's configuration may stand for a missing one

    @property
    def several(self) -> bool:
        """Whether more than one site may be meant."""
        return self.every or bool(self.labels) or len(self.sites) > 1

    def screen(self) -> Screen:
        """Return the screen that these flags ask for."""
        output = self.output or os.environ.get("MAINT_OUTPUT") or "table"
        kept = {"quiet": self.quiet, "verbose": self.verbose}
        return Screen(output, **kept, color=self.color or "", log_format=self.log_format or "text")


def option(name: str, words: str) -> Any:  # Any: typer exports no name for what it makes
    """Return what declares an option: its name and its help."""
    return typer.Option(name, help=words)


def number(name: str, words: str, least: int = 0, most: int | None = None) -> Any:  # Any: as above
    """Return what declares an option that takes a whole number, from `least` to `most` (None: without end)."""

    def read(given: str | int) -> int:  # typer hands over the default, too
        text = str(given)
        if re.fullmatch(r"[0-9]{1,18}", text) and least <= int(text) and (most is None or int(text) <= most):
            return int(text)
        raise typer.BadParameter(
            f"{text!r} is not a whole number, {least} {'or more' if most is None else f'to {most}'}"
        )

    return typer.Option(name, help=words, parser=read, metavar="NUMBER")


def argument(words: str) -> Any:  # Any: as above
    """Return what declares an argument, with its help."""
    return typer.Argument(help=words)


def seconds_of(flag: str, text: str) -> float:
    """Return the seconds that a flag was given; UsageError where it is not a duration."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}", hint="such as 90s, 10m, 26h or 7d") from None


def pairs_of(flag: str, texts: Iterable[str] | None, example: str) -> dict[str, str]:
    """Return what a repeatable flag was given as KEY=VALUE; UsageError where one is not, or a key has two values."""
    found: dict[str, str] = {}
    for text in texts or ():
        key, sign, value = text.partition("=")
        if not (key and sign):
            raise UsageError(
                f"{flag} {text!r} is not key=value", hint=f"KEY=VALUE is expected, such as {flag} {example}"
            )
        if found.setdefault(key, value) != value:  # neither is told: it may be a secret
            raise UsageError(f"{flag} {key}=… is given twice", hint="leave out the one that is not meant")
    return found


# Options of several commands.
Run: TypeAlias = Annotated[str | None, argument("A run's id or its beginning.")]
NamedRun: TypeAlias = Annotated[str, argument("A run's id or its beginning; without, those that it may be are told.")]
SafetyWindow: TypeAlias = Annotated[
    bool, option("--open-window", "Take the safety export through the redaction window.")
]
DagRace: TypeAlias = Annotated[
    bool, option("--accept-dag-race", "Bring back DAGs too that may run before they are paused.")
]


def _text(help_text: str, *names: str) -> tuple[object, object]:
    return Annotated[str | None, typer.Option(*names, help=help_text)], None


def _switch(help_text: str, *names: str) -> tuple[object, object]:
    return Annotated[bool, typer.Option(*names, help=help_text)], False


def _texts(help_text: str, *names: str) -> tuple[object, object]:
    return Annotated[list[str] | None, typer.Option(*names, help=help_text)], None


def output(more: Sequence[str] = ()) -> tuple[object, object]:
    """Return how `-o` is declared, for a command that prints more than tables, JSON and YAML as well."""
    words = ["table", "json", "yaml", *more]
    return _text(f"{', '.join(words[:-1])} or {words[-1]}.", "-o", "--output")


COMMON: Options = {
    "site": _texts("Which site of the config.", "--site"),
    "config": _text("The config file.", "--config"),
    "output": output(),
    "quiet": _switch("Only errors and warnings.", "-q", "--quiet"),
    "verbose": _switch("Every step of the way.", "-v", "--verbose"),
    "color": _text("always, never or auto.", "--color"),
    "log_format": _text("text, or json: words and events as JSON lines on stderr.", "--log-format"),
    "yes": _switch("Answer y/N questions with yes.", "--yes", "-y"),
    "confirm": _text("The name that a DESTROY asks for.", "--confirm"),
    "dry_run": _switch("Show what would be done, and do none of it.", "--dry-run"),
    "timeout": _text("Limit for the whole command, such as 25m.", "--timeout"),
    "run_key": _text("A name for this one piece of work: typed again with it, it goes on.", "--run-key"),
    "insecure": _switch("For labs: do not verify TLS; warns every time.", "--insecure"),
    "allow_plain": _switch("Send passwords in clear although manager.ca is set.", "--allow-plain"),
}
ESTATE: Options = {
    "every": _switch("All sites of the config; --site may also be repeated.", "--all"),
    "labels": _texts("KEY=VALUE: the sites with this label; repeated: with all of them.", "--label"),
    "at_once": (Annotated[int | None, number("--at-once", "How many sites at the same time; 4.", 1)], None),
}  # fmt: skip
STORE_ALONE: Options = {"store": _text("The store to read, instead of the config's.", "--store")}
STORE: Options = {
    **STORE_ALONE,
    "signed_by": _texts("Without a config: whose signatures to believe.", "--signed-by"),
    "identity": _text("Without a config: the private key, file:PATH.", "--identity"),
    "s3": _texts("Without a config: NAME=VALUE as under backup.s3; repeatable.", "--s3"),
    "ssh_key": _text("Without a config: SSH key for hosts and store.", "--ssh-key"),
    "ssh_user": _text("Without a config: SSH account; root.", "--ssh-user"),
    "ssh_port": (
        Annotated[int | None, number("--ssh-port", "Without a config: SSH port of the hosts; 22.", 1, 65535)],
        None,
    ),
    "known_hosts": _text("Without a config: trusted host keys.", "--known-hosts"),
}
MANAGER: Options = {
    **STORE,
    "manager": _text("Without a config: HOST, or HOST:PLAIN:TLS with its ports.", "--manager"),
    "username": _text("Without a config: account; admin.", "--username"),
    "password": _text("Without a config: its password as a reference, file:PATH.", "--password"),
    "bootstrap": _text("Without a config: password of the fresh server, a reference.", "--bootstrap"),
    "ca": _text("Without a config: PEM bundle of the TLS port.", "--ca"),
    "license": _text("Without a config: the licence file.", "--license"),
}
GUARDS: Options = {
    "no_safety_net": _text("Lift the backup guards, and say why; it is put on record.", "--no-safety-net")
}
VC: Options = {"vc": _text("Which virtual cluster; may be left out when one is configured.", "--vc")}

# Options that choose what is acted on, looked at or kept. An empty word for one of them is the value of a variable that
# was never set: taken for "not said", `--plan "$DIGEST"` would restore without the plan that was read. Others may well
# be empty.
CHOOSING = frozenset((
    "--plan", "--snapshot", "--cluster", "--map-host", "--host", "--from", "--secrets", "--until", "--vc", "--site",
    "--config", "--label", "--confirm", "--timeout", "--store", "--signed-by", "--identity", "--manager", "--username",
    "--password", "--ca", "--license", "--ssh-key", "--known-hosts", "--run-key", "--limit", "--facts", "--save-facts",
    "--phase", "--matrix", "--report", "--stale", "--since", "--check", "--group", "--hosts-in", "--hosts-from",
    "--service", "--role", "--role-group", "--without", "--filter", "--playbook",
))  # fmt: skip


def merged(before: Flags, values: Mapping[str, Any]) -> Flags:  # Any: typer hands over whatever the options hold
    """Return the flags before the noun with those after the verb on top; UsageError: a value makes no sense."""
    said = {name: value for name, value in values.items() if value is not None and value is not False}
    if "site" in said:
        said["sites"] = tuple(dict.fromkeys(said["site"]))
        said["site"] = said["sites"][0]
    if "labels" in said:
        said["labels"] = tuple(said["labels"])
    if "no_safety_net" in said:
        said["no_safety_net"] = " ".join(said["no_safety_net"].split())
        if not said["no_safety_net"]:
            raise UsageError("--no-safety-net wants a reason", hint="say why nothing needs to come back")
    if "timeout" in said and not seconds_of("--timeout", said["timeout"]):
        raise UsageError("--timeout must be more than 0", hint="such as 25m, or leave it out")
    places = {name: said.pop(name) for name in list(said) if name in Connection.__struct_fields__}
    where = {name: tuple(value) if isinstance(value, list) else value for name, value in places.items()}
    return msgspec.structs.replace(before, **said, connection=msgspec.structs.replace(before.connection, **where))


def together(groups: Iterable[Options]) -> Options:
    """Return several groups of options as one."""
    return {name: declared for group in groups for name, declared in group.items()}
