"""Whether a host is the machine behind the manager's API, and what a truststore's password opens there; reads only.

Both are asked who they are, and must agree: what the API calls its servers, the certificate of its TLS port and the
port itself are to be found on the host. Where any of them shows another machine, it is another one. Where nothing shows
it either way, as where the API is silent or lets nobody in to ask, the host is believed, and the plan says so: a
manager that is down must be startable. An entry of `accepted` for the check `cm.identity` lets another one through.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address

import msgspec

from maint.config.schema import HostSettings
from maint.errors import CannotReach, Failure, Invalid, Refused, WorkFailed
from maint.model.certificate import all_of, fingerprint, first_of
from maint.model.formatting import show_count
from maint.model.manager import Door, Host, Instance
from maint.model.secret import Secret
from maint.ports import Sight

CHECK = "cm.identity"  # the check that tells the same
WHO = b"hostname; hostname -f; echo; { ip -4 -o addr show; ip -6 -o addr; } | grep -v ': lo '; :\n"
_LIMIT = 20.0  # seconds for one host
_AGENTS = "7182"  # where the server shows agents the same certificate, whatever stands in front of its API
_USUAL = {Door.PLAIN: 7180, Door.TLS: 7183}
_CUT = "--- maint"
_SERVER = """\
PATH="$PATH:/usr/sbin:/sbin"
t=; command -v timeout > /dev/null 2>&1 && t='timeout 5'
echo '{cut}'; systemctl show cloudera-scm-server -p LoadState
echo '{cut}'
for p in {ports}; do
if command -v nc > /dev/null 2>&1; then $t nc -z 127.0.0.1 $p > /dev/null 2>&1 < /dev/null && echo "open $p"
elif command -v bash > /dev/null 2>&1; then $t bash -c "exec 3<>/dev/tcp/127.0.0.1/$p" 2> /dev/null && echo "open $p"
else echo untried
fi
done
echo '{cut}'
for p in {tls}; do $t openssl s_client -connect 127.0.0.1:$p < /dev/null 2> /dev/null; done
echo '{cut}'
for p in {agents}; do $t openssl s_client -connect 127.0.0.1:$p < /dev/null 2> /dev/null; done
:
"""


class Itself(msgspec.Struct, frozen=True):
    """What a host says of itself."""

    names: Sequence[str]  # as it spells them: a secret that stands there is known by its spelling
    addresses: Sequence[str]  # of its interfaces but for loopback

    @classmethod
    def of(cls, answer: str) -> "Itself":
        """Read what `WHO` printed."""
        called, _, addresses = answer.partition("\n\n")
        names = {name.lower(): name for name in called.split()}
        return cls(tuple(names.values()), re.split(r"[\s/]+", addresses.lower()))

    def is_one(self, name: str, address: str) -> bool:
        """Whether it has this address, or calls itself by this name."""
        return address.lower() in self.addresses or _short(name) in map(_short, self.names)

    @property
    def words(self) -> str:
        """What it calls itself."""
        return " and ".join(self.names) or "nothing"


def _short(name: str) -> str:
    return name.lower().partition(".")[0]


class Proof(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was found out of one host; nothing in either: it was shown to be the manager's."""

    host: str
    wrong: str  # why it is another machine
    doubt: str  # why nobody can tell


class _Behind(msgspec.Struct, frozen=True):
    """What the API tells of the machine behind it."""

    door: Door  # `CLOSED`: it does not answer
    port: int = 0
    servers: Sequence[Instance] = ()
    listed: Sequence[Host] = ()
    certificate: str = ""
    silence: str = ""  # why it told nothing


def look(sight: Sight, hosts: Iterable[HostSettings] | None = None) -> list[Proof]:
    """Look at hosts of the manager, all when left out, and return what was found; never raises for a host."""
    asked = _configured(sight) if hosts is None else hosts
    behind = _behind(sight)
    found: list[Proof] = []
    for host in asked:
        try:
            found.append(_proof(sight, host, behind))
        except (CannotReach, WorkFailed, Invalid) as failure:
            found.append(Proof(host.name, "", failure.message))
    return found


def insist(sight: Sight, names: Iterable[str] | None = None) -> str:
    """Refuse where one of these hosts (left out: all of the manager) is another machine; to be asked before any act.

    Return what is to be said where nobody can tell, or where somebody answers for it; empty where all is shown.

    Raises:
        Refused: one is not the manager's.
        CannotReach: one does not answer; WorkFailed: what it answers is of no use, or does not end in time.
    """
    wanted = None if names is None else set(names)
    hosts = [host for host in _configured(sight) if wanted is None or host.name in wanted]
    behind = _behind(sight) if hosts else _Behind(Door.CLOSED)
    doubts, wrong = list[str](), list[str]()
    for host in hosts:
        proof = _proof(sight, host, behind)
        who = who_accepts(sight, host.name) if proof.wrong else ""
        if proof.wrong and not who:
            wrong.append(f"{host.name} ({host.address}): {proof.wrong}")
        elif proof.wrong or proof.doubt:
            doubts.append(f"{host.name}: {proof.wrong or proof.doubt}{who}")
    if wrong:
        at = sight.settings.manager
        raise Refused(
            f"a host of the group manager is not the machine that runs the manager at {at.host}: it is left alone",
            detail=wrong,
            hint="give the group `manager`, under `hosts:`, to the host that does, with its right address; what stands"
            f" in front of the manager can be accepted: `accepted: [{{check: {CHECK}, hosts: […], reason: …, owner: …,"
            " until: …}]`",
        )
    return "".join(f"; NOT SHOWN to run this manager: {doubt}" for doubt in doubts)


def stranger(sight: Sight, name: str) -> str:
    """Return why a host is not the manager's, empty where it may be: for who leaves it out instead of being refused."""
    try:
        insist(sight, [name])
    except Refused as refused:
        return refused.detail[0]
    return ""


def _configured(sight: Sight) -> Sequence[HostSettings]:
    return sight.settings.hosts_in("manager") if sight.settings.ssh else ()


def who_accepts(sight: Sight, host: str) -> str:
    """Return in words who answers for it that a host is not shown to run the manager; empty where nobody does."""
    today = sight.clock.now().date()
    for one in sight.settings.accepted:
        if one.check == CHECK and (not one.hosts or host in one.hosts) and today <= one.until:
            return f" (accepted by {one.owner} until {one.until}: {one.reason})"
    return ""


def _behind(sight: Sight) -> _Behind:
    manager, settings = sight.manager, sight.settings.manager
    presence = manager.presence()
    if presence.door is Door.CLOSED or presence.silent:
        return _Behind(Door.CLOSED, silence="the manager's API does not answer")
    tls = presence.door is Door.TLS
    shown = manager.certificate_digest() if tls else ""
    found = _Behind(presence.door, settings.tls_port if tls else settings.plain_port, certificate=shown)
    try:
        servers = [one for one in manager.instances() if _tells(one)]
        listed = [] if servers else manager.hosts()
    except Failure as failure:
        return msgspec.structs.replace(found, silence=f"the manager's API does not tell: {failure.message}")
    return msgspec.structs.replace(found, servers=servers, listed=listed)


def _tells(one: Instance) -> bool:
    # A server that takes itself for `localhost` tells nothing.
    return bool(one.name and _short(one.name) != "localhost") or not _loopback(one.address)


def _loopback(address: str) -> bool:
    with suppress(ValueError):
        return ip_address(address).is_loopback
    return address.lower() in ("", "localhost")


def _proof(sight: Sight, host: HostSettings, behind: _Behind) -> Proof:
    wrong, doubt = _judged(sight, host, behind)
    return Proof(host.name, wrong, doubt)


def _judged(sight: Sight, host: HostSettings, behind: _Behind) -> tuple[str, str]:
    # Why it is another machine, and why nobody can tell: one of both at most.
    door = behind.door
    ports = " ".join(map(str, sorted({behind.port, _USUAL[door]}))) if door in _USUAL else ""
    tls, agents = (ports, _AGENTS) if door is Door.TLS else ("", "")
    script = _SERVER.format(cut=_CUT, ports=ports, tls=tls, agents=agents)
    answer = sight.shell.ask(host.name, WHO.decode() + script, timeout=_LIMIT).out.decode("utf-8", "replace")
    who, unit, doors, shown, to_agents, *_ = [*answer.split(f"{_CUT}\n"), "", "", "", "", ""]
    itself = Itself.of(who)
    if "LoadState=not-found" in unit:
        return f"it has no cloudera-scm-server, and calls itself {itself.words}", ""
    if behind.servers and not any(itself.is_one(one.name, one.address) for one in behind.servers):
        servers = ", ".join(f"{one.name} ({one.address})" for one in behind.servers)
        return f"it calls itself {itself.words}, and the manager runs on {servers}", ""
    if door is Door.CLOSED:
        return "", behind.silence
    if len(behind.servers) > 1:  # each has its own certificate, and one may stand by
        return "", ""
    theirs = set(_digests(shown))
    if behind.certificate and behind.certificate in (*theirs, *_digests(to_agents)):
        return "", ""
    if behind.silence and not theirs:  # who answers may be anybody
        return "", behind.silence
    if behind.servers and "open" not in doors and "untried" not in doors:
        sight.manager.forget_login()  # what was known may be of before it went down
        if sight.manager.presence().door is not door:
            return "", "the manager's API does not answer"
        return f"the manager answers on port {behind.port}, and nothing listens there", ""
    if behind.certificate and theirs:
        return "its server shows another certificate than the manager's TLS port", ""
    if behind.servers or _same_place(sight, host, itself, behind):
        return "", ""
    return "", "nothing shows it: the API names no server, and lists no such host"


def _digests(shown: str) -> Iterator[str]:
    for one in all_of(shown.encode(errors="replace")):
        with suppress(ValueError):  # no certificate, whatever stands there
            yield fingerprint(first_of(one.encode()))


def _same_place(sight: Sight, host: HostSettings, itself: Itself, behind: _Behind) -> bool:
    """Whether it is reached where the API is, is called as the API is, or is a host that the manager lists."""
    at = sight.settings.manager.host.lower()
    if not _loopback(at) and (at in (host.address.lower(), *itself.addresses, *map(str.lower, itself.names))):
        return True
    return any(itself.is_one(one.hostname, one.address) for one in behind.listed)


DEFAULT_PATH = "/var/lib/cloudera-scm-agent/agent-cert/cm-auto-global_truststore.jks"
_TRIAL_HINT = (
    "the file may be an old one: put the server's own in its place:"
    ' `cat "$(find /var/lib/cloudera-scm-server/certmanager -name cm-auto-global_truststore.jks)" > {}`;'
    " where the password does not open that either, have the manager make all anew (Administration, Security,"
    " Rotate Auto-TLS Certificates)"
)
_TRIAL_LIMIT = 60.0  # seconds
_UNREADABLE, _NO_TOOL = 91, 92
# The password goes over standard input only.
_TRIAL = (
    "p={path}; test -r $p || exit 91; t=$(command -v keytool || ls /usr/java/*/bin/keytool /usr/lib/jvm/*/bin/keytool"
    ' /usr/lib/jvm/*/jre/bin/keytool 2> /dev/null | head -n 1); test -n "$t" || exit 92;'
    ' LC_ALL=C "$t" -list -keystore $p'
)


class Trial(msgspec.Struct, frozen=True):
    """Whether a password opens the truststore (`None`: that could not be tried), and the same in words."""

    opens: bool | None
    words: str
    hint: str = ""  # what to do where it could not be tried, or opens nothing


def mending(path: str) -> str:
    """Return what is to be done, on the manager's host, about a truststore that the served password does not open."""
    return _TRIAL_HINT.format(shlex.quote(path))


def path_of(settings: Mapping[str, str]) -> str:
    """Return where the truststore lies, by the manager's settings."""
    return settings.get("TRUSTSTORE_PATH") or DEFAULT_PATH


def try_served(sight: Sight) -> Trial | None:
    """Try the password that the manager serves; None where it has none to give. Raises as the manager does."""
    password = sight.manager.truststore_password()
    return None if password is None else try_password(sight, path_of(sight.manager.settings()), password)


def try_password(sight: Sight, path: str, password: Secret) -> Trial:
    """Try a password on the truststore at a path of the manager's host, with keytool; never raises for the host."""
    hosts = sight.settings.hosts_in("manager") if sight.settings.ssh else ()
    if not hosts:
        return _untried("the config names no host over SSH", "add `ssh:` with its `user` to the site")
    host, given = hosts[0].name, password.reveal().encode() + b"\n"
    try:
        if why := stranger(sight, host):
            return _untried(why, "maint host check --check cm.identity")
        ran = sight.shell.ask(host, _TRIAL.format(path=shlex.quote(path)), stdin=given, timeout=_TRIAL_LIMIT)
    except (CannotReach, WorkFailed, Invalid) as failure:
        return _untried(failure.message, failure.way_on or "")
    if ran.status == _UNREADABLE:
        return _untried(f"{host} has no readable {path}", "restore the host's agent-cert folder")
    if ran.status == _NO_TOOL:
        return _untried(f"{host} has no keytool", "a JDK under /usr/java or /usr/lib/jvm brings it")
    if ran.ok:
        count = sum(b"trustedCertEntry" in line or b"PrivateKeyEntry" in line for line in ran.out.splitlines())
        return Trial(True, f"opens {path} on {host} ({show_count(count, 'entry')})")
    said = next((line for line in ran.words.splitlines() if line.startswith("keytool error:")), "")
    if "password" in said:
        return Trial(False, f"does not open {path} on {host}", mending(path))
    return _untried(f"{said or f'keytool ended with {ran.status}'} ({path} on {host})", mending(path))


def _untried(why: str, hint: str = "") -> Trial:
    return Trial(None, f"could not be tried: {why}", hint)
