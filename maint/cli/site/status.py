"""What `maint site status` tells about a manager."""

from maint.cli.composition import ConfiguredSite
from maint.model.json import Json
from maint.model.manager import Door
from maint.steps.manager.window import remembered


def seen(site: ConfiguredSite) -> dict[str, Json]:
    """Return the facts, in the order in which they are shown; asking stops where nobody is let in."""
    presence = site.manager.presence()
    chain = presence.chain or ("verified" if presence.door is Door.TLS else "no TLS")
    facts: dict[str, Json] = {
        "manager": site.settings.manager.host,
        "plain_port": presence.plain,
        "tls_port": presence.tls,
        "tls_chain": "NOT verified (--insecure)" if site.settings.manager.insecure else chain,
    }
    account = site.manager.log_in()
    facts["account"] = account.name + (" (bootstrap)" if account.bootstrap else "")
    facts["api"] = f"v{site.manager.api_version()}"
    facts["release"] = site.manager.release()
    facts["redaction"] = _redaction(site)
    license_ = site.manager.license()
    facts["licence"] = f"{license_.owner}, until {license_.expiration}" if license_ else "none"
    facts["clusters"] = [cluster.name for cluster in site.manager.clusters()]
    facts["active_commands"] = [f"{command.name} ({command.id})" for command in site.manager.active_commands()]
    window = remembered(site.state)
    facts["redaction_window"] = f"open since {window.opened_at} by run {window.run}" if window else "closed"
    return facts


def _redaction(site: ConfiguredSite) -> str:
    """Tell from the settings' values whether the API redacts."""
    values = site.manager.settings().values()
    if any(value == "REDACTED" for value in values):
        return "on"
    return "off, or nothing to redact among the manager's settings"
