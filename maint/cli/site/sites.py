"""`maint site`: the configured sites, and what one of them shows of itself."""

from datetime import UTC, datetime

from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.configless import settings_of
from maint.cli.monitoring.outcomes import SUMMARY, Summary
from maint.cli.open_site import opened, warn_of_settings
from maint.cli.options import LOOKS, Flags
from maint.cli.screen import cell, error_object, table
from maint.engine.lease import insist_mounted, newest
from maint.errors import Refused
from maint.files import kept_record
from maint.model.formatting import show_duration, tell_time, tell_times
from maint.model.json import Json
from maint.model.manager import Door, License
from maint.ports import StoreSight
from maint.snapshots.open_windows import announced, left_open


@command()
def list_sites(flags: Flags) -> None:
    """List the configured sites, with what was last seen of their backups, and when; reads no store."""
    settings, now = settings_of(flags), datetime.now(UTC)
    rows, found = list[list[str]](), list[Json]()
    settings.refuse_unknown(settings.chosen)
    for name in settings.names:
        wrong = settings.broken.get(name)
        site = None if wrong else settings.site(name)
        one = kept_record(settings.state / name / SUMMARY, Summary)
        where = [site.manager.host, site.backup.store if site.backup else "-"] if site else ["config is wrong", "-"]
        rows.append([name, *where, cell(settings.labels(name)), *_seen(one, now)])
        found.append({
            "name": name, "manager": where[0] if site else "-", "store": where[1], "labels": settings.labels(name),
            "summary": one.to_json(now) if one else None, "error": error_object(wrong) if wrong else None,
        })  # fmt: skip
    headings = ["SITE", "MANAGER", "STORE", "LABELS", "SNAPSHOTS", "LAST VERIFIED", "SEEN"]
    flags.screen().emit({"sites": found}, table(headings, rows))
    warn_of_settings(flags.screen(), settings)


def _seen(summary: Summary | None, now: datetime) -> list[str]:
    """Return the cells of what was last seen of a site's backups."""
    if summary is None:
        return ["?", "?", "not yet"]
    count = f"{summary.restorable} of {summary.snapshots}" + (f", {summary.damaged} bad" if summary.damaged else "")
    return [count, _ago(summary.last_verified, now), _ago(summary.seen, now)]


def _ago(at: datetime | None, now: datetime) -> str:
    return f"{show_duration((now - at).total_seconds())} ago" if at else "never"


@command(several=LOOKS)
def status(flags: Flags) -> None:
    """Show ports, TLS chain, version, redaction, licence and active commands."""
    with opened(flags) as (site, screen):
        facts = _facts(site)
        screen.emit(
            {"site": site.settings.name, **facts},
            table(["WHAT", "IS"], [[key.replace("_", " "), tell_times(cell(value))] for key, value in facts.items()]),
        )


def _facts(site: ConfiguredSite) -> dict[str, Json]:
    """Return the facts, in the order in which they are shown; asking stops where nobody is let in."""
    presence = site.manager.presence()
    chain = presence.chain or ("verified" if presence.door is Door.TLS else "no TLS")
    end = site.manager.certificate_end()
    facts: dict[str, Json] = {
        "manager": site.settings.manager.host,
        "plain_port": presence.plain,
        "tls_port": presence.tls,
        "tls_chain": "NOT verified (--insecure)" if site.settings.manager.insecure else chain,
        "tls_certificate_ends": tell_time(end) if end else "no certificate is shown",
    }
    account = site.manager.log_in()
    facts["account"] = account.name + (" (bootstrap)" if account.bootstrap else "")
    facts["api"] = f"v{site.manager.api_version()}"
    facts["release"] = site.manager.release()
    facts["redaction"] = _redaction(site)
    license_ = site.manager.license()
    facts["licence"] = _licence(license_) if license_ else "none"
    facts["clusters"] = [cluster.name for cluster in site.manager.clusters()]
    facts["active_commands"] = [f"{command.name} ({command.id})" for command in site.manager.active_commands()]
    facts["redaction_window"] = _window(site)
    if site.shared is not None:
        facts["lease"] = _lease(site, site.shared)
    return facts


def _licence(held: License) -> str:
    return f"{held.owner}, until {held.expiration}" if held.expiration else held.owner  # a trial names no day


def _lease(site: ConfiguredSite, shared: StoreSight) -> str:
    try:
        insist_mounted(site)
        row = newest(shared, site.settings.name)
    except Refused as unclear:
        return unclear.in_a_line
    return row.words if row is not None and row.claim.token else "free"


def _window(site: ConfiguredSite) -> str:
    try:
        window = left_open(site)
    except Refused as damaged:
        return damaged.in_a_line
    if window is not None:
        return f"open since {window.opened_at} by run {window.run}"
    told = announced(site)
    return "; ".join([*(one.words for one in told.open), *told.doubts]) or "closed"


def redacts(settings: dict[str, str]) -> bool:
    """Tell from the values of a manager's settings whether its API hides secrets for certain."""
    return "REDACTED" in settings.values()


def _redaction(site: ConfiguredSite) -> str:
    """Tell from the settings' values whether the API redacts."""
    return "on" if redacts(site.manager.settings()) else "off, or nothing to redact among the manager's settings"
