"""Which addresses of a site are reached through which proxy, in words for plans and `doctor`."""

from collections.abc import Iterator
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from maint.config.fields import is_address
from maint.config.schema import SiteSettings


def proxies(settings: SiteSettings) -> Iterator[str]:
    """Yield in words what goes through which proxy, never with its password; nothing where nothing does."""
    if settings.proxy:
        yield from _addresses(settings, settings.proxy)
    backup = settings.backup
    for store in (backup.store, *backup.copies) if backup else ():
        bucket = urlsplit(store).netloc
        s3 = backup.s3.of(bucket) if backup and store.startswith("s3:") else None
        if s3 is None:
            continue
        address = s3.endpoint or f"https://{bucket}.s3.{s3.region}.amazonaws.com"
        proxy, where = s3.proxy, "backup.s3.proxy"
        if proxy is None and not proxy_bypass(urlsplit(address).hostname or ""):
            scheme = urlsplit(address).scheme
            proxy, where = getproxies().get(scheme), f"{scheme.upper()}_PROXY"
        if proxy:
            host = urlsplit(proxy if "://" in proxy else f"//{proxy}").hostname  # the environment may name no scheme
            others = "" if settings.proxy else "; manager, hosts and virtual clusters do not"
            yield f"{store} goes through {host} ({where}){others}"


def _addresses(settings: SiteSettings, proxy: str) -> Iterator[str]:
    from maint.adapters.http.proxy import proxy_for  # slow to import, and few sites have a proxy

    manager = settings.manager
    host = f"[{manager.host}]" if ":" in manager.host else manager.host
    addresses = {f"manager {manager.host}": f"https://{host}:{manager.tls_port}"}
    for one in settings.virtual_clusters:
        addresses[f"virtual cluster {one.name}"] = one.base_url
        addresses[f"gateway of {one.name}"] = one.auth_url
    for notice in settings.notify:
        for what in (notice.webhook, notice.ping):
            if what is not None:  # an address that is a secret is not looked at
                addresses[f"notice {notice.name}"] = what.url if is_address(what.url) else ""
    for name, url in addresses.items():
        through = f"goes through {urlsplit(proxy).netloc} (proxy)"
        if not url:
            yield f"{name} {through}, unless NO_PROXY names its host"
        else:
            yield (
                f"{name} {through}" if proxy_for(proxy, url) else f"{name} is reached directly: NO_PROXY names its host"
            )
