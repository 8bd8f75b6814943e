"""Checks of the clocks: synchronised, and the same on all hosts."""

import re
from collections.abc import Mapping

from maint.checks.check import FAIL, WARN, Check, Verdict, broken, failed, good, held, warned
from maint.checks.facts import CouldNotTell, HostFacts, SiteFacts, usual_of

_WARN_AFTER, _FAIL_AFTER = 1.0, 300.0  # seconds; Kerberos refuses more than five minutes
_MOST_OFFSET, _NO_STRATUM = 0.1, 16
_OWN_CLOCK = ("7F7F01", "127.127.1.")  # how chrony and ntpd name a host's own clock, which follows nobody
_FOLLOW = (
    "name servers that answer in its configuration; where this host gives all others their time, and nobody gives it"
    " any, accept it in the config"
)
_STEP_NTP = "systemctl stop ntpd; ntpd -gq; systemctl start ntpd"
_CLOSE = 1.0  # seconds between the least and the most, within which the middle says enough
_SECONDS = re.compile(r"\d{1,11}(\.\d{1,9})?(?!\d)", re.ASCII)
QUESTIONS = {
    "clock_begin": "date +%s.%N",
    "zone": "date +%Z%z",
    "sync": "command -v chronyc > /dev/null && { echo tool=chronyc; chronyc -n tracking; };"
    " command -v ntpq > /dev/null && { echo tool=ntpq; $maint_limit ntpq -pn; };"
    " command -v timedatectl > /dev/null && { echo tool=timedatectl; timedatectl show -p NTPSynchronized; }; true",
    "clock_end": "date +%s.%N",
}


@Check(
    id="time.sync", profiles="", severity=FAIL, asks=("sync", "units"), source="PS EXE HI",
    expected="synchronised within 100 ms, by exactly one of chronyd and ntpd",
    why="Tickets, tokens and logs of a host with its own idea of time are worthless elsewhere.",
    remedy="name servers that answer in its configuration: `chronyc sources -v`, or `ntpq -pn`, shows which do",
).host_rule  # fmt: skip
def _sync(host: HostFacts) -> Verdict:
    running = [name for name in ("chronyd", "ntpd") if host.active(name)]
    if len(running) > 1:
        return broken("chronyd and ntpd both run", "systemctl disable --now ntpd")
    blocks = ("\n" + "\n".join(host.lines("sync"))).split("\ntool=")[1:]
    seen = {block.splitlines()[0]: block.splitlines()[1:] for block in blocks}
    if not seen:
        raise CouldNotTell("neither chronyc nor ntpq nor timedatectl is installed")
    if running:
        tool, judged = {"chronyd": ("chronyc", _chrony), "ntpd": ("ntpq", _ntp)}[running[0]]
        if tool not in seen:
            raise CouldNotTell(f"{running[0]} runs, but {tool} is not installed")
        return judged(seen[tool])
    if {"chronyc", "ntpq"} & seen.keys():
        name = "chronyd" if "chronyc" in seen else "ntpd"
        return broken("neither chronyd nor ntpd runs", f"systemctl enable --now {name}")
    return _timedate(seen["timedatectl"])


def _chrony(lines: list[str]) -> Verdict:
    seen = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if not seen:
        return broken("chronyd does not answer", "systemctl restart chronyd")
    stratum, leap = int(seen.get("Stratum", "0")), seen.get("Leap status", "")
    offset = re.match(r"[\d.]+", seen.get("System time", ""))
    shown = f"stratum {stratum}, {seen.get('System time', 'offset unknown')}"
    kept = leap != "Not synchronised" and 0 < stratum < _NO_STRATUM and offset is not None
    if not kept or offset is None:
        return broken(f"not synchronised: {shown}")
    if seen.get("Reference ID", "").startswith(_OWN_CLOCK):
        return warned(f"stratum {stratum}, of its own clock alone", _FOLLOW)
    return held(float(offset[0]) < _MOST_OFFSET, shown, "chronyc makestep")


def _ntp(lines: list[str]) -> Verdict:
    chosen = [line.split() for line in lines if line.startswith(("*", "o"))]  # o: by its pulse per second
    if not chosen:
        return broken("ntpd has chosen no server")
    row = chosen[0]
    if row[0][1:].startswith(_OWN_CLOCK):
        return warned(f"stratum {row[2]}, of its own clock alone", _FOLLOW)
    shown, away = f"stratum {row[2]}, {row[8]} ms", abs(float(row[8])) >= _MOST_OFFSET * 1000
    return held(not away and int(row[2]) < _NO_STRATUM, shown, _STEP_NTP if away else "")


def _timedate(lines: list[str]) -> Verdict:
    if not any(line.startswith("NTPSynchronized=") for line in lines):  # `show` is younger than RHEL 7
        raise CouldNotTell("timedatectl does not say whether the clock is synchronised")
    synced = "NTPSynchronized=yes" in lines
    shown = "synchronised" if synced else "not synchronised"
    return held(synced, shown, "dnf install -y chrony && systemctl enable --now chronyd")


def skew(host: HostFacts) -> tuple[float, float]:
    """Return the least and the most seconds by which a host's clock can be ahead of ours, whatever the script took."""
    # The first reading is not from before the script left, the last not from after the answer came.
    begin, end = _stamp(host.text("clock_begin")), _stamp(host.text("clock_end"))
    if not host.sent:
        raise CouldNotTell("nobody noted when the host was asked")
    return end - host.received, begin - host.sent


def _stamp(text: str) -> float:
    found = _SECONDS.match(text)  # small systems know no nanoseconds, and print the letter
    if found is None:
        raise CouldNotTell(f"{text[:40]!r} is not a time")
    return float(found[0])


@Check(
    id="time.skew", profiles="", severity=FAIL, asks=("clock_begin", "clock_end"), source="HI own",
    expected="less than a second from ours; five minutes at the very most",
    why="Kerberos refuses tickets from hosts that are five minutes off.",
    remedy=f"chronyc makestep # where ntpd keeps the clock: {_STEP_NTP}; all hosts off alike: this machine's is wrong",
).host_rule  # fmt: skip
def _time_skew(host: HostFacts) -> Verdict:
    least, most = skew(host)
    if least > most:
        return warned("its clock was set while we looked", "look again: `maint host check --check time.skew`")
    certain = least if least > 0 else most if most < 0 else 0.0
    away, middle = abs(certain), (least + most) / 2
    shown = f"{middle:+.1f} s" if most - least < _CLOSE else f"between {least:+.1f} and {most:+.1f} s"
    if away >= _FAIL_AFTER:
        return failed(shown)
    return warned(shown) if away >= _WARN_AFTER else good(f"{middle:+.1f} s, or less")


@Check(
    id="os.tz", profiles="BEM", severity=WARN, asks=("zone",), source="HI EXE",
    expected="the same time zone on all hosts",
    why="Schedules and logs are read in the host's own time zone.",
    remedy="`timedatectl set-timezone` with the zone of the other hosts",
).cross_rule  # fmt: skip
def _zone(site: SiteFacts) -> Mapping[str, Verdict]:
    seen = {h.name: h.text("zone") for h in site.answering("zone")}
    usual = usual_of(seen.values())
    model = next((name for name, value in seen.items() if value == usual), "")
    remedy = f"`timedatectl set-timezone` with the time zone that `timedatectl` prints on {model}"
    return {
        name: held(value == usual, value if value == usual else f"{value}, others {usual}", remedy)
        for name, value in seen.items()
    }
