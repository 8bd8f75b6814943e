"""The records that checks read: what hosts and manager answered to the questions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Annotated

import msgspec

from maint.model.json import Json
from maint.ports.manager_host import Proof

NOT_FOUND, TIMED_OUT = 127, 124
# Tries a connection to `$h:$p`; its status tells, and a line `tool=none` where nothing is there to try it with.
TRY = (
    " if command -v nc > /dev/null; then $maint_limit nc -z $h $p; elif command -v bash > /dev/null; then"
    ' $maint_limit bash -c "exec 3<>/dev/tcp/$h/$p"; else echo tool=none; fi;'
)


def main_process(unit: str) -> str:
    """Return a command that prints the number of a unit's main process, nothing where none runs."""
    # systemd's `--value` is younger than RHEL 7.
    return f"systemctl show -p MainPID {unit} | sed -n 's/^MainPID=\\([1-9]\\)/\\1/p'"


class CouldNotTell(Exception):
    """What keeps a rule from judging: nobody could find out.

    Args:
        words: why not.
        remedy: what mends that; "" where the check's own remedy may.
    """

    def __init__(self, words: str, remedy: str = "") -> None:
        super().__init__(words)
        self.words, self.remedy = words, remedy


class NotApplicable(Exception):
    """A check has nothing to say about this host; the reason is for people."""


class Answered(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a question's command printed, and how it ended; in a file it is a list."""

    status: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    out: str
    words: str = ""  # the last of what it said on its error output


def usual_of(values: Iterable[str]) -> str:
    """Return what most of these are, the first by name among several; "" where there are none."""
    listed = list(values)
    return max(sorted(set(listed)), key=listed.count, default="")


NOT_ASKED = "not-asked"  # stands in files of a version that did not ask, where it asked a question beside it


class HostFacts(msgspec.Struct, frozen=True, dict=True):
    """One host, and what it answered."""

    name: str
    address: str  # by which we reach it; never taken for the host's own
    profiles: str  # letters of `check.PROFILES`
    answers: Mapping[str, Answered]  # by question
    site: "SiteFacts"
    reached: bool = True  # whether the answer is whole
    reason: str = ""  # why it is not
    sent: float = 0.0  # by our clock, seconds since 1970
    received: float = 0.0  # when its answer ended
    login_seconds: float = 0.0

    def answer(self, question: str) -> Answered:
        """Return an answer as it came; `CouldNotTell` where there is none, or no command, or it came too late."""
        found = self.answers.get(question)
        if found is None:
            raise CouldNotTell(self.reason or f"{question} was not asked")
        if found.status == TIMED_OUT:
            raise CouldNotTell(f"{question}: no answer in time on the host")
        if found.status == NOT_FOUND and not found.out.strip():
            raise CouldNotTell(f"{question}: the command is not installed")
        return found

    def text(self, question: str) -> str:
        """Return what a command printed; `CouldNotTell` where that is nothing."""
        found = self.answer(question)
        if not found.out.strip():
            raise CouldNotTell(f"{question}: {found.words or 'nothing was printed'} (exit status {found.status})")
        return found.out.strip()

    def lines(self, question: str) -> list[str]:
        """Return the lines that are not empty; none is fine."""
        return [line.strip() for line in self.answer(question).out.splitlines() if line.strip()]

    def number(self, question: str) -> int:
        """Return a whole number; `CouldNotTell` where it is not one."""
        text = self.text(question)
        if not text.lstrip("-").isdigit():
            raise CouldNotTell(f"{question}: {text[:40]!r} is not a number")
        return int(text)

    def fields(self, question: str) -> dict[str, str]:
        """Return `name=value` lines; quotes around values are taken off."""
        pairs = (line.partition("=") for line in self.lines(question))
        return {name.strip(): value.strip().strip("\"'") for name, found, value in pairs if found}

    def tried(self, question: str) -> dict[str, str]:
        """Return the fields of an answer to `TRY`; `CouldNotTell` where there was nothing to try it with."""
        seen = self.fields(question)
        if seen.pop("tool", "") == "none":
            raise CouldNotTell("neither nc nor bash is there to try a connection")
        return seen

    def unit(self, name: str) -> Mapping[str, str]:
        """Return what systemd says about a unit (`LoadState` not-found: unknown), or raise `CouldNotTell`."""
        full = name if "." in name else f"{name}.service"
        if full not in self._units:
            raise CouldNotTell(f"systemd says nothing about {full}")
        return self._units[full]

    @cached_property
    def _units(self) -> Mapping[str, Mapping[str, str]]:
        found: dict[str, Mapping[str, str]] = {}
        for block in self.text("units").split("\n\n"):
            pairs = dict(line.partition("=")[::2] for line in block.splitlines() if "=" in line)
            if "Id" in pairs:
                found |= dict.fromkeys((pairs["Id"], *pairs.get("Names", "").split()), pairs)
        return found

    def active(self, name: str) -> bool:
        """Return whether a unit runs."""
        return self.unit(name).get("ActiveState") == "active"

    def enabled(self, name: str) -> bool:
        """Return whether a unit starts with the host."""
        return self.unit(name).get("UnitFileState", "").startswith("enabled")

    @property
    def major(self) -> int:
        """The major version of the operating system."""
        return int(self.fields("os_release").get("VERSION_ID", "").split(".")[0])

    @property
    def realm(self) -> str:
        """The host's default realm.

        Raises:
            CouldNotTell: a file that may name it cannot be read.
            NotApplicable: krb5.conf names none.
        """
        if named := libdefaults(self.lines("krb5_conf")).get("default_realm"):
            return named
        if closed := [line.partition(" ")[2] for line in self.lines("krb5_conf") if line.startswith("denied ")]:
            raise CouldNotTell(f"this account may not read {', '.join(closed)}")
        if (words := self.answer("krb5_conf").words) and not self.lines("krb5_conf"):
            raise CouldNotTell(f"krb5.conf cannot be read: {words}")
        raise NotApplicable("no realm in /etc/krb5.conf")


def libdefaults(lines: Sequence[str]) -> dict[str, str]:
    """Return the settings of krb5.conf for all programs; of several values the first, as MIT does."""
    found, inside = dict[str, str](), True
    for line in lines:
        name, sets, value = line.partition("=")
        if line.startswith("["):
            inside = line.strip("[]* ") == "libdefaults"
        elif inside and sets:
            found.setdefault(name.strip(), value.strip().strip("\"'"))
    return found


_NO_MANAGER = (
    "`maint site status` tells why, and what mends it; where nothing answers: systemctl status cloudera-scm-server on"
    " the manager's host"
)


class ManagerFacts(msgspec.Struct, frozen=True):
    """What the management API answered, or why it did not."""

    reason: str = "not asked"  # why there is no answer; "" where there is one
    release: str = ""
    chain: str = ""  # why its certificate was not accepted; "" where it was, or none was seen
    hosts: Sequence[Mapping[str, Json]] = ()  # hostname, lastHeartbeat, cluster of each, and its names in the config
    clusters: Sequence[Mapping[str, Json]] = ()  # name, type, display; services with name, type, state, health
    ends: str | None = ""  # of its TLS port's certificate; "" where none was seen, None where a file does not tell
    truststore: str = ""  # what its password does to the truststore, in words; "" where it serves none, or nobody asked
    opens: bool | None = None  # whether that opens it; None: it could not be tried
    clock: str = ""  # its own time when it listed its hosts; "" where it, or a file of facts, does not tell
    machines: Sequence[Proof] = ()  # the hosts of the group manager, where the check of them was asked for

    def must(self) -> "ManagerFacts":
        """Return the facts; `CouldNotTell` where the manager did not answer."""
        if self.reason:
            raise CouldNotTell(f"the manager's API did not answer: {self.reason}", _NO_MANAGER)
        return self


def names_of(host: Mapping[str, Json]) -> list[str]:
    """Return how the config calls a host of the manager; its full name where it does not, or an older file tells."""
    names = host.get("names")
    return [*map(str, names)] if isinstance(names, list | tuple) and names else [str(host.get("hostname"))]


class SiteSetting(msgspec.Struct, frozen=True):
    """What is configured, as far as checks read it."""

    manager: str = ""
    plain_port: int = 7180
    tls_port: int = 7183
    app_domain: str = ""  # "" where it is not known
    endpoints: Sequence[str] = ()  # `HOST:PORT` of virtual clusters
    phase: str = "running"  # what is going to happen
    plan: Mapping[str, Json] | None = None  # the wizard's input
    matrix: Mapping[str, Json] | None = None  # which releases are supported


class SiteFacts(msgspec.Struct, frozen=True):
    """All hosts, the manager and the time of looking."""

    taken_at: datetime
    setting: SiteSetting = SiteSetting()
    manager: ManagerFacts = ManagerFacts()
    hosts: list[HostFacts] = []

    def answering(self, question: str) -> Iterator[HostFacts]:
        """Yield the hosts that answered a question."""
        return (host for host in self.hosts if question in host.answers)
