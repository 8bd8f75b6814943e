"""Checks of the manager: its server and agents on their hosts."""

import re
from collections.abc import Mapping
from datetime import datetime
from shlex import quote

from maint.checks.check import (
    BEFORE_BACKUP,
    BEFORE_RESTORE,
    FAIL,
    RUNNING,
    WARN,
    Check,
    Verdict,
    broken,
    failed,
    good,
    held,
    warned,
)
from maint.checks.database import VALUE
from maint.checks.facts import TRY, CouldNotTell, HostFacts, NotApplicable, SiteFacts, main_process, names_of, usual_of
from maint.checks.network import listening
from maint.checks.thresholds import threshold
from maint.checks.tls import require_auto_tls
from maint.model import java_options
from maint.model.fleet import State
from maint.model.formatting import parse_time, show_count
from maint.model.manager import CERTMANAGER, GUID, PARCELS, PROPERTIES, STATE
from maint.ports.manager_host import CHECK, Proof

_PROPERTY = re.compile(r"-Dcom\.cloudera\.api\.redaction=(\w*)")
_UNSET = f"sed -i 's/ *-Dcom.cloudera.api.redaction=[A-Za-z]*//g' {java_options.PATH}"
_RESTART = "systemctl restart cloudera-scm-server"
_SWITCH_TLS = "after a restore `maint manager tls-switch` brings TLS back; else switch Auto-TLS on in the manager"
_ACTIVATED = (
    "`systemctl restart cloudera-scm-agent`: the agent makes the links to what the manager (Hosts, Parcels) has"
    " activated; then restart the roles of this host"
)
_AGENT = "/var/run/cloudera-scm-agent"
# Python's configparser, which reads it, takes blanks around names and values, and a colon.
_SET = "$(sed -n 's/^server_{}[[:space:]]*[=:][[:space:]]*\\([^[:space:]]*\\).*/\\1/p' $c)"
_PID = f"p=$({main_process('cloudera-scm-server')})"
QUESTIONS = {
    "java_options": f"[ -r {java_options.PATH} ] && echo file-there && grep -v '^ *#' {java_options.PATH} |"
    " grep -o -e '-Dcom.cloudera.api.redaction=[A-Za-z]*' -e '-Xmx[0-9]*[kKmMgG]*'; true",
    "java_running": f'{_PID}; [ "${{p:-0}}" != 0 ] && [ -r /proc/$p/cmdline ] && echo running &&'
    " tr '\\000' '\\n' < /proc/$p/cmdline | grep -e '^-Dcom.cloudera.api.redaction=' -e '^-Xmx'; true",
    "agent_reach": f"c=/etc/cloudera-scm-agent/config.ini; [ -f $c ] || exit 0; h={_SET.format('host')};"
    f' p={_SET.format("port")}; p=${{p:-7182}}; echo "to=$h:$p";'
    f'{TRY} echo "status=$?"',
    # A server that wants a client's certificate shows its own first.
    "agents_tls": "command -v openssl > /dev/null || exit 0;"
    " c=$($maint_limit openssl s_client -connect localhost:7182 < /dev/null); s=$?; [ $s != 124 ] || exit $s;"
    " printf '%s\\n' \"$c\" | grep -c 'BEGIN CERTIFICATE'; true",
    "cm_packages": "rpm -q cloudera-manager-server cloudera-manager-agent cloudera-manager-daemons; true",
    # What is active is what the link of a parcel's bare name leads to.
    "parcels": f'for f in {PARCELS}/*; do if [ -L $f ]; then t=$(readlink $f); echo "${{f##*/}}=${{t##*/}}";'
    f' elif [ -e $f ]; then echo "${{f##*/}}"; fi; done; [ -d {PARCELS}/.flood ] &&'
    f' ls -1 {PARCELS}/.flood | sed "s/^/flood /"; true',
    "procdir": f"for d in {_AGENT} {_AGENT}/process; do [ -d $d ] && ! {{ [ -r $d ] && [ -x $d ]; }} &&"
    f" {{ echo denied; exit 0; }}; done; [ -d {_AGENT}/process ] || {{ echo 0; exit 0; }};"
    f" ls -1 {_AGENT}/process | wc -l",
    # The database itself is asked where it is PostgreSQL on this very host; elsewhere that would take its password.
    "cm_uuid": f'[ -s {GUID} ] && echo "file=$(cat {GUID})"; p={PROPERTIES};'
    f" [ -r $p ] || exit 0; v() {{ {VALUE} $p; }};"
    ' [ "$(v type)" = postgresql ] && command -v psql > /dev/null || exit 0; h=$(v host); h=${h%%:*};'
    ' [ "$h" = localhost ] || [ "$h" = 127.0.0.1 ] || [ "$h" = "$(hostname -f)" ] || exit 0;'
    ' g=$($maint_limit runuser -u postgres -- psql -Atd "$(v name)" -c "select guid from cm_version") &&'
    ' echo "database=$g"; true',
    "certmanager": f"s={STATE}; d={CERTMANAGER};"
    " for p in $s $d; do"
    " [ -d $p ] && ! { [ -r $p ] && [ -x $p ]; } && echo denied; done; [ -d $d ] && ls -1 $d; true",
}


@Check(
    id="cm.server", profiles="M", severity=FAIL, asks=("units",), source="FX",
    expected="active and running, not brought back by systemd since it was started",
    why="Without the server nothing is started, stopped or watched.",
    remedy="systemctl enable --now cloudera-scm-server # its log is"
    " /var/log/cloudera-scm-server/cloudera-scm-server.log",
).host_rule  # fmt: skip
def _server(host: HostFacts) -> Verdict:
    unit = host.unit("cloudera-scm-server")
    if unit.get("LoadState") == "not-found":
        return broken("not installed", "dnf install -y cloudera-manager-server # then give it its database")
    again = show_count(unit.get("NRestarts") or 0, "restart")
    shown = f"{unit.get('ActiveState')}, {unit.get('SubState') or 'unknown'}, {again}"
    if unit.get("ActiveState") != "active" or unit.get("SubState", "running") not in ("running", "exited", ""):
        return broken(shown)
    if unit.get("NRestarts") not in (None, "", "0"):
        return warned(f"{shown}: systemd had to bring it back", f"{_RESTART} # once its log has told why it ended")
    return good(shown)


@Check(
    id=CHECK, profiles="M", severity=FAIL, asks=(), source="own",
    phases=(RUNNING, BEFORE_BACKUP),
    expected="it is the machine that runs the manager at the configured address",
    why="What is done to the manager's host, such as a restart, would be done to somebody else's.",
    remedy="under `hosts:` in the config of maint, give the group manager and the right address to the manager's",
    needs_manager=True,
).cross_rule  # fmt: skip
def _identity(site: SiteFacts) -> Mapping[str, Verdict]:
    wanted = {host.name for host in site.hosts}
    found = {one.host: _machine(one) for one in site.manager.machines if one.host in wanted}
    if not found:
        raise CouldNotTell(site.manager.reason or "the manager's hosts were not compared with its API")
    return found


def _machine(one: Proof) -> Verdict:
    if one.doubt:
        return Verdict(State.ERROR, one.doubt, "`maint site status` tells what answers")
    return held(not one.wrong, one.wrong or "shown to be it")


_NO_AGENT = (
    "dnf install -y cloudera-manager-agent # then server_host in /etc/cloudera-scm-agent/config.ini, and its start"
)


@Check(
    id="cm.agent", profiles="BEM", severity=FAIL, asks=("units",), source="FX",
    expected="agent and supervisord active",
    why="A host without its agent is one that the manager cannot reach.",
    remedy="systemctl enable --now cloudera-scm-supervisord cloudera-scm-agent",
).host_rule  # fmt: skip
def _agent(host: HostFacts) -> Verdict:
    units = {name: host.unit(name) for name in ("cloudera-scm-agent", "cloudera-scm-supervisord")}
    wrong = [f"{n} {u.get('ActiveState')}" for n, u in units.items() if u.get("ActiveState") != "active"]
    lacking = units["cloudera-scm-agent"].get("LoadState") == "not-found"
    return held(not wrong, ", ".join(wrong) or "both active", _NO_AGENT if lacking else "")


@Check(
    id="cm.agent.heartbeat", profiles="", severity=FAIL, asks=(), source="FX",
    expected="a sign of life within the last minute",
    why="The manager takes a silent host for dead.",
    remedy="systemctl restart cloudera-scm-agent # cm.ports tells whether it gets to the manager",
    needs_manager=True,
).cross_rule  # fmt: skip
def _heartbeat(site: SiteFacts) -> Mapping[str, Verdict]:
    hosts = site.manager.must().hosts
    known = {name: str(host.get("lastHeartbeat") or "") for host in hosts for name in names_of(host)}
    own = parse_time(site.manager.clock)  # that of another machine, ours too, may be behind or ahead of the stamps
    whose = "" if own else " by this machine's clock"
    found = {host.name: _unknown(host) for host in site.hosts if not {host.name, host.address} & known.keys()}
    for name, stamp in known.items():
        if not stamp:
            found[name] = broken("never")
            continue
        age = ((own or site.taken_at) - datetime.fromisoformat(stamp.replace("Z", "+00:00"))).total_seconds()
        found[name] = held(age < 60, f"{max(age, 0):.0f} s ago{whose}")
        if age < -60:  # by two clocks, of which one is wrong, a silent host looks alive
            ahead = f"{-age:.0f} s ahead of {'the manager' if own else 'this machine'}'s clock"
            clock = "the manager's host" if own else "this machine"
            found[name] = Verdict(State.ERROR, ahead, f"set the clock of {clock}, or wait that long")
    return found


def _unknown(host: HostFacts) -> Verdict:
    if set("BE") & set(host.profiles):
        return broken("the manager does not know this host", "add the host to the manager (Hosts, Add Hosts)")
    return Verdict(State.SKIP, "the manager does not know this host, and it carries none of its roles")


@Check(
    id="cm.ports", profiles="BEM", severity=FAIL, asks=("listening", "agents_tls", "agent_reach"), source="NET FX",
    expected="the server listens on 7183 and, with TLS, on 7182 (7180 alone: a warning), and every agent gets there",
    why="Agents report on 7182, people and programs on 7180 or 7183.",
    remedy="systemctl enable --now cloudera-scm-server # its ports open minutes later: its log tells what keeps them",
).host_rule  # fmt: skip
def _ports(host: HostFacts) -> Verdict:
    wrong, shown, plain, remedy = [], [], False, ""
    if "M" in host.profiles:
        setting, heard = host.site.setting, listening(host)
        doors = {setting.plain_port, setting.tls_port} & heard
        wrong += [] if doors else [f"neither {setting.plain_port} nor {setting.tls_port} listens"]
        wrong += [] if 7182 in heard else ["7182 does not listen"]
        plain = doors == {setting.plain_port}
        wrong += [f"{setting.plain_port} listens without TLS, and {setting.tls_port} does not"] if plain else []
        shown.append(f"listens on {', '.join(map(str, sorted(doors | ({7182} & heard))))}")
        if {setting.tls_port, 7182} <= heard and (shows := host.lines("agents_tls")):
            if shows == ["0"]:
                wrong += ["7182 answers without TLS: what agents send can be read on the way"]
                remedy = "switch TLS for agents on (Administration, Settings, Security: or Auto-TLS), then restart all"
            shown.append("7182 has TLS")
    seen = host.tried("agent_reach")
    if "to" in seen:
        if seen.get("status") != "0":
            remedy = remedy if wrong else _way_to(host, seen["to"])
            wrong += [f"{seen['to']} cannot be reached from here"]
        shown.append(f"reaches {seen['to']}")
    if not shown:
        raise NotApplicable("neither server nor agent is installed")
    if plain and len(wrong) == 1:
        return warned(wrong[0], _SWITCH_TLS)
    return held(not wrong, "; ".join(wrong or shown), _SWITCH_TLS if plain and not remedy else remedy)


def _way_to(host: HostFacts, place: str) -> str:
    """Return how an agent gets to its server: no way needs to be opened to a port where nothing listens."""
    silent = [
        one.name
        for one in host.site.hosts
        if "M" in one.profiles and one.answers.get("listening") and 7182 not in listening(one)
    ]
    known = next((name for name in silent if place.partition(":")[0] in (name, "localhost")), "")
    if known:
        return f"start the server on {known}, where nothing listens on 7182 (cm.server)"
    return f"open the way from here to {place}, or mend server_host in config.ini"


_OPENS = "`maint manager export --open-window` or `maint backup create --open-window` sets and removes it by itself"


@Check(
    id="cm.redaction", profiles="M", severity=FAIL, asks=("java_options", "java_running"), source="FX",
    phases=(RUNNING, BEFORE_BACKUP),
    expected="the option stands at most once, the same in the file and in the running server; `false` only while a"
    " backup that must restore is taken",
    why="With `false` everyone who may read the API sees passwords; without it a backup cannot be restored.",
    remedy=f"{_UNSET}; {_RESTART} # `maint manager export --close-window` does both for a window of its own",
).host_rule  # fmt: skip
def _redaction(host: HostFacts) -> Verdict:
    written = [m[1] for line in host.lines("java_options") for m in _PROPERTY.finditer(line)]
    live_lines = host.lines("java_running")
    live = [m[1] for line in live_lines for m in _PROPERTY.finditer(line)]
    # Closed without a restart where the server has it so already: with `false` in the file, a restart would open it.
    closing = _UNSET if len(live) < 2 and set(live) <= {"true"} else ""
    if len(written) > 1 or len(live) > 1:
        return failed(f"set {max(len(written), len(live))} times: {', '.join(written or live)}", closing)
    in_file, running = (values[0] if values else "true" for values in (written, live))
    if "file-there" not in host.lines("java_options"):
        raise CouldNotTell(f"there is no {java_options.PATH} that this account may read")
    if "running" not in live_lines:
        raise CouldNotTell(f"the file says {in_file}; the server's own command line cannot be read (does it run?)")
    before = host.site.setting.phase == BEFORE_BACKUP
    if in_file != running:
        return failed(
            f"the file says {in_file}, the running server has {running}: it waits for a restart",
            _RESTART if before else closing,
        )
    if before:
        off = running == "false"
        return held(off, running if off else f"{running}, and a backup needs `false` now", _OPENS)
    return held(running == "true", running)


@Check(
    id="cm.uuid", profiles="M", severity=FAIL, asks=("cm_uuid",), source="FX",
    phases=(BEFORE_RESTORE,),
    expected="the server's uuid file is there, and equals the GUID of its database",
    why="A server whose file and database disagree does not start.",
    remedy=f"write CM_VERSION.GUID of its database into {GUID}",
).host_rule  # fmt: skip
def _uuid(host: HostFacts) -> Verdict:
    seen = host.fields("cm_uuid")
    kept, stored = seen.get("file", ""), seen.get("database")
    copied = f"cp -p {GUID} {GUID}.$(date +%s); " if kept else ""
    remedy = f"{copied}echo {quote(stored)} > {GUID}; chown cloudera-scm: {GUID}" if stored else ""
    if not kept:
        return broken(f"no {GUID}", remedy)
    if stored is None:
        raise CouldNotTell(f"{kept}; its database could not be asked from here: compare with CM_VERSION.GUID there")
    if not stored:
        return good(f"{kept}; its database has none yet")
    same = kept.lower() == stored.lower()
    return held(same, kept if kept == stored else f"{kept}, its database has {stored}", remedy)


@Check(
    id="cm.heap", profiles="M", severity=WARN, asks=("java_options", "java_running"), source="own",
    expected="at least 2 GiB, 4 GiB over 100 hosts",
    why="A server that collects garbage all the time answers nobody.",
    remedy="raise -Xmx in CMF_JAVA_OPTS, then restart the server",
).host_rule  # fmt: skip
def _heap(host: HostFacts) -> Verdict:
    lines = [*host.lines("java_options"), *host.lines("java_running")]
    found = [re.fullmatch(r"-Xmx(\d+)([kKmMgG]?)", line) for line in lines]
    sizes = [int(m[1]) * {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}[m[2].lower()] for m in found if m]
    if not sizes:
        raise CouldNotTell("no -Xmx is to be seen")
    many = max(len(host.site.hosts), len(host.site.manager.hosts)) > 100
    least = threshold("heap.large" if many else "heap.least", host.site.manager.release)
    remedy = f"sed -i 's/-Xmx[0-9]*[kKmMgG]*/-Xmx{least}G/g' {java_options.PATH}; {_RESTART}"
    return held(sizes[-1] >= least << 30, f"{sizes[-1] / (1 << 30):g} GiB", remedy)  # of several, Java takes the last


@Check(
    id="cm.procdir", profiles="BEM", severity=FAIL, asks=("procdir", "units"), source="FX",
    phases=(BEFORE_RESTORE,),
    expected="agents and supervisord stopped, the process folder empty or moved away",
    why="Agents that run go on with the processes of the old manager.",
    remedy="systemctl stop cloudera-scm-agent cloudera-scm-supervisord;"
    f" mv {_AGENT}/process {_AGENT}/process.$(date +%s)",
).host_rule  # fmt: skip
def _process_folder(host: HostFacts) -> Verdict:
    if host.lines("procdir") == ["denied"]:
        raise CouldNotTell(f"this account may not look into {_AGENT}")
    count = host.number("procdir")
    running = [name for name in ("cloudera-scm-agent", "cloudera-scm-supervisord") if host.active(name)]
    shown = [f"{name} runs" for name in running] + ([f"{show_count(count, 'process folder')}"] if count else [])
    stopped = "" if count else "systemctl stop cloudera-scm-agent cloudera-scm-supervisord"
    return held(not shown, ", ".join(shown) or "stopped and empty", stopped)


@Check(
    id="cm.version", profiles="", severity=FAIL, asks=("cm_packages",), source="HI FX",
    expected="one version of the manager's packages on all hosts",
    why="An agent speaks with a server of its own version only.",
    remedy="bring the odd packages to the server's version",
).cross_rule  # fmt: skip
def _version(site: SiteFacts) -> Mapping[str, Verdict]:
    seen = {h.name: _versions(h) for h in site.answering("cm_packages")}
    # The server's counts: its database has been raised to it, and it cannot go back.
    servers = [values["server"] for values in seen.values() if "server" in values]
    usual = usual_of(servers or [value for values in seen.values() for value in values.values()])
    found = {}
    for name, values in seen.items():
        odd = sorted({value for value in values.values() if value != usual})
        wanted = " ".join(f"cloudera-manager-{kind}-{usual}" for kind, value in values.items() if value != usual)
        shown = f"{', '.join(odd)}, others {usual}" if odd else ", ".join(sorted(set(values.values())))
        found[name] = held(not odd, shown, f"dnf install -y {wanted}")
        if not values:
            found[name] = Verdict(State.SKIP, "none of the manager's packages is installed by rpm")
    return found


def _versions(host: HostFacts) -> Mapping[str, str]:
    said = host.answer("cm_packages").out
    return dict(re.findall(r"^cloudera-manager-(server|agent|daemons)-(\d+(?:\.\d+)+)", said, re.MULTILINE))


@Check(
    id="cm.parcels", profiles="BE", severity=WARN, asks=("parcels",), source="own",
    expected="the same parcels on all hosts of a cluster, the same of them active, nothing left in .flood",
    why="A host with another parcel runs another version than it says.",
    remedy="have the manager (Hosts, Parcels) distribute the same parcels to all hosts",
).cross_rule  # fmt: skip
def _parcels(site: SiteFacts) -> Mapping[str, Verdict]:
    found: dict[str, Verdict] = {}
    for letter in ("B", "E"):
        seen = {h.name: h.lines("parcels") for h in site.answering("parcels") if letter in h.profiles}
        sets = {name: " ".join(sorted(p for p in lines if not re.search("[ =]", p))) for name, lines in seen.items()}
        links = {name: ", ".join(sorted(p for p in lines if "=" in p)) for name, lines in seen.items()}
        usual, active = usual_of(sets.values()), usual_of(links.values())
        for name, lines in seen.items():
            left = [line.removeprefix("flood ") for line in lines if line.startswith("flood ")]
            wrong = [f"{sets[name] or 'none'}, others {usual or 'none'}"] if sets[name] != usual else []
            mend = _distributed({*sets[name].split()}, {*usual.split()})
            if links[name] != active:
                wrong.append(f"active: {links[name] or 'none'}, others {active or 'none'}")
                mend += [] if mend else [_ACTIVATED]
            wrong += [f"left in .flood: {', '.join(left)}"] if left else []
            gone = " ".join(quote(f"{PARCELS}/.flood/{one}") for one in left)
            mend += [f"once nothing is being distributed: `rm -r {gone}`"] if left else []
            found[name] = held(not wrong, "; ".join(wrong) or sets[name] or "none", "; ".join(mend))
    return found


def _distributed(own: set[str], usual: set[str]) -> list[str]:
    """Return what gives a host the parcels of the others, and takes it those that it alone has."""
    lacking, more = sorted(usual - own), sorted(own - usual)
    mend = [f"have the manager (Hosts, Parcels) distribute {' '.join(lacking)} to this host"] if lacking else []
    gone = " ".join(quote(f"{PARCELS}/{one}") for one in more)
    removed = f"have it deactivate and remove {' '.join(more)}; of what it does not know any more: `rm -r {gone}`"
    return [*mend, removed] if more else mend


@Check(
    id="cm.certmanager", profiles="M", severity=WARN, asks=("certmanager", "tls_files"), source="FX",
    expected="present where Auto-TLS is on",
    why="The authority of all hosts' certificates lies there.",
    remedy=f"put {CERTMANAGER} back from a backup of this host's files: without it no host"
    " gets a certificate again",
).host_rule  # fmt: skip
def _certmanager(host: HostFacts) -> Verdict:
    require_auto_tls(host)
    lines = host.lines("certmanager")
    if "denied" in lines:
        raise CouldNotTell(f"this account may not look into {CERTMANAGER}")
    return good(f"{show_count(len(lines), 'file')}") if lines else broken("missing or empty")
