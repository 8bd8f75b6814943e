"""What `maint doctor` looks at in the manager: ports, login, licence, truststore, and the redaction window."""

from collections.abc import Collection, Iterator
from datetime import timedelta
from functools import partial

import msgspec

from maint.cli.composition import ConfiguredSite
from maint.cli.site.doctor_lines import FAIL, OK, SKIP, SOON, WARN, Line, by_checks, guarded, within
from maint.engine.lock import run_at_work
from maint.errors import Invalid, StoreFailed
from maint.model.formatting import parse_time, show_duration, tell_time
from maint.model.java_options import PATH, PROPERTY, UNIT
from maint.model.manager import CLOSE_COMMAND, Door
from maint.ports.manager_host import look, try_served, who_accepts
from maint.restore.preconditions import release_fits
from maint.snapshots.catalogue import entries
from maint.snapshots.extra_parts import LicenseText
from maint.snapshots.open_windows import announced, left_open
from maint.snapshots.prune import newest_good
from maint.steps.manager.commands import uses_kerberos
from maint.steps.manager.server import RedactionSwitch, redaction_switches

_CHECKING = "maint host check --hosts-in manager"
_LONG = timedelta.max
_DISKS = ("disk.space", "disk.inodes", "disk.ro")
_APART = timedelta(seconds=60)  # two clocks that differ by more are told
_UPLOAD = "get a new licence file, then: `maint manager license FILE`"
_RENEW = "give the server a new certificate (Auto-TLS: Administration, Security), then restart it"
_TLS = "after a restore `maint manager tls-switch` brings TLS back; else switch Auto-TLS on in the manager"


def manager(site: ConfiguredSite, silent: Collection[str]) -> Iterator[Line]:
    """Log in, since a port that answers proves nothing by itself; then look at what a restore needs of it."""
    seen, host = site.manager.presence(), site.settings.manager.host
    account = site.manager.log_in()
    ports = f"{host}: plain port {seen.plain}, TLS port {seen.tls}"
    if site.manager.clusters() and seen.door is Door.PLAIN:
        yield Line("manager", WARN, f"{ports}; without TLS, what is sent can be read on the way", _TLS)
    elif site.manager.clusters():
        yield Line("manager", OK, ports)
    else:
        hint = "`maint site status`; `maint restore plan` shows the way back"
        yield Line("manager", FAIL, f"{ports}; it has no cluster: is its database a new one?", hint)
    state = WARN if account.bootstrap else OK
    yield Line("login", state, f"let in as {account.name}" + (", the bootstrap account" if account.bootstrap else ""))
    yield from guarded("certificate", partial(_certificate, site))
    yield from guarded("manager's clock", partial(_clock, site))
    mute = _mute(site, silent)
    yield from guarded("manager's host", partial(_machines, site)) if not mute else [Line("manager's host", SKIP, mute)]
    yield from guarded("manager's disks", partial(_disks, site)) if not mute else ()
    yield from guarded("licence", partial(_licence, site))
    yield from guarded("release", partial(_release, site))
    yield from guarded("truststore", partial(_truststore, site)) if not mute else [Line("truststore", SKIP, mute)]
    if site.settings.manager.kdc is None and uses_kerberos(site.manager):
        words = "clusters use it, and after a restore they start only once the manager has the KDC's account again"
        yield Line("kerberos", SKIP, words, "name it in `manager.kdc`, or have its password at hand")


def _certificate(site: ConfiguredSite) -> Iterator[Line]:
    """Look until when the certificate of the TLS port counts: the day it ends, nobody is let in."""
    if (end := site.manager.certificate_end()) is not None:
        soon = end - site.clock.now() < SOON
        words = f"that of the manager's TLS port ends {tell_time(end)}"
        yield Line("certificate", WARN if soon else OK, words, _RENEW if soon else "")


def _clock(site: ConfiguredSite) -> Iterator[Line]:
    """Compare our clock with the manager's, as its answer dates itself, where it lists hosts; apart, it is said."""
    began = site.clock.now()
    shown = parse_time("".join(one.listed for one in site.manager.hosts()[:1]))
    if shown is None:
        return
    for apart, side in ((shown - site.clock.now(), "ahead of"), (began - shown, "behind")):
        if apart > _APART:
            words = f"{show_duration(apart.total_seconds())} {side} this machine's: ages and limits come out wrong"
            where = f"here, or on {site.settings.manager.host}"
            hint = f"compare both with a third (`chronyc tracking` on each), and set the one that is wrong: {where}"
            yield Line("manager's clock", WARN, words, hint)


def _mute(site: ConfiguredSite, silent: Collection[str]) -> str:
    """Return in words which of the manager's hosts have not answered; empty where all have."""
    mute = [one.name for one in site.settings.hosts_in("manager") if one.name in silent]
    return f"not looked at, since {' and '.join(mute)} did not answer over SSH" if mute else ""


def _machines(site: ConfiguredSite) -> Iterator[Line]:
    """Look whether the hosts that a window or a restart would touch run this very manager; one accepted is said."""
    with within(site.clock, _CHECKING):
        found = look(site)
    for one in found:
        state = FAIL if one.wrong else SKIP if one.doubt else OK
        accepted = who_accepts(site, one.host) if one.wrong else ""
        words = f"{one.host}: {one.wrong or one.doubt or 'it runs this manager'}{accepted}"
        hint = f"give the group manager to the host that runs it, or correct the address of {one.host}, under `hosts:`"
        yield Line("manager's host", OK if accepted else state, words, hint if one.wrong and not accepted else "")


def _disks(site: ConfiguredSite) -> Iterator[Line]:
    """Look for room on the manager's hosts: on a full one neither its database nor a restore can write."""
    for host in site.settings.hosts_in("manager") if site.settings.ssh else ():
        yield from by_checks(site, "manager's disks", host, _DISKS)


def _licence(site: ConfiguredSite) -> Iterator[Line]:
    """Look until when the manager's licence counts: without one a restore is refused."""
    held = site.manager.license()
    if held is None:
        yield Line("licence", WARN, "the manager has none, and a restore may need one", _UPLOAD)
        return
    if objection := LicenseText.of(*msgspec.structs.astuple(held)).objection(site.clock.now()):
        yield Line("licence", FAIL, f"{held.owner}'s, which {objection}", _UPLOAD)
        return
    end = parse_time(held.expiration)
    left = end - site.clock.now() if end else _LONG
    state = FAIL if left < timedelta() else WARN if left < SOON else OK
    words = f"{held.owner}'s, which {'ended' if state == FAIL else 'ends'} {tell_time(end)}" if end else held.owner
    yield Line("licence", state, words, "" if state == OK else _UPLOAD)


def _release(site: ConfiguredSite) -> Iterator[Line]:
    """Look whether the manager would take its newest backup back: one that was upgraded since does not."""
    try:
        newest = newest_good(entries(site), site.clock.now())
    except (StoreFailed, Invalid):  # which the lines of the store tell
        return
    fits = release_fits(newest, site.manager.release()) if newest is not None else None
    if newest is not None and fits is not None and not fits.passed:
        words = f"the newest backup, {newest.id}, would not come back on it: {fits.words}, or take another one"
        yield Line("release", WARN, words, "maint backup create --open-window")


def _truststore(site: ConfiguredSite) -> Iterator[Line]:
    """Try the password that the manager serves where the truststore lies."""
    with within(site.clock, _CHECKING):
        trial = try_served(site)
    if trial is not None:
        state = SKIP if trial.opens is None else OK if trial.opens else FAIL
        yield Line("truststore", state, f"the password that the manager serves {trial.words}", trial.hint)


def window(site: ConfiguredSite, silent: Collection[str]) -> Iterator[Line]:
    """Look whether the manager shows its secrets, and who let it."""
    left = left_open(site)
    if left is None:
        yield from _window_elsewhere(site, silent)
    elif left.run == run_at_work(site.state):
        yield Line("redaction window", WARN, f"open since {left.opened_at}, by run {left.run} that is at work")
    else:
        words = f"left open at {left.opened_at} by run {left.run}: everyone who may read the API sees passwords"
        yield Line("redaction window", FAIL, words, CLOSE_COMMAND)


def _window_elsewhere(site: ConfiguredSite, silent: Collection[str]) -> Iterator[Line]:
    """Look for windows that other machines, or other state folders, have opened."""
    told = announced(site)
    for one in told.open:
        words = f"{one.words}: everyone who may read the API sees passwords"
        yield Line("redaction window", FAIL, words, f"where that run is not at work any more: `{CLOSE_COMMAND}`")
    for doubt in told.doubts:
        yield Line("redaction window", WARN, doubt, f"`{CLOSE_COMMAND}` looks at the hosts themselves")
    if mute := _mute(site, silent):
        yield Line("redaction window", SKIP, mute)
    elif not told.open and not told.doubts:
        with within(site.clock, _CHECKING):
            seen = [line for one in redaction_switches(site) if (line := _switched(one)) is not None]
        yield from seen or [Line("redaction window", OK, "closed")]


def _switched(one: RedactionSwitch) -> Line | None:
    """Say where redaction is off on a host, whoever switched it; None where it is on."""
    if one.problem:
        return Line("redaction window", SKIP, f"{one.host} could not be looked at: {one.problem}")
    unset = f"sed -i 's/ *{PROPERTY}=false//g' {PATH}"  # the whole of it where the server does not run so yet
    unset += "" if one.running is False else f"; systemctl restart {UNIT}"
    hint = CLOSE_COMMAND if one.ours else f"on {one.host}: `{unset}`"
    return Line("redaction window", WARN, one.words, hint) if one.words else None
