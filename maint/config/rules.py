"""Rules that hold between keys of a site, each broken one named with its place."""

from collections.abc import Iterator, Sequence

from maint.config.schema import Config, Site
from maint.config.suggestions import did_you_mean, dotted
from maint.config.yaml import Document, Path
from maint.errors import Invalid


class _Broken:
    """A broken rule: where, and in which words."""

    def __init__(self, path: Path, words: str, hint: str | None = None) -> None:
        self.path = path
        self.words = f"{dotted(path)}: {words}"
        self.hint = hint


def check(config: Config, document: Document) -> None:
    """Look at every rule.

    Raises:
        Invalid: the first broken one, with the others as detail lines.
    """
    broken = [fault for name, site in config.sites.items() for fault in _broken(site, ("sites", name))]
    if broken:
        first, *others = broken
        detail = [f"{document.where(fault.path)}: {fault.words}" for fault in others]
        raise Invalid(first.words, at=document.where(first.path), detail=detail, hint=first.hint)


def _broken(site: Site, path: Path) -> Iterator[_Broken]:
    if site.manager.plain_port == site.manager.tls_port:
        yield _Broken((*path, "manager", "tls_port"), "must differ from plain_port")
    yield from _twice([host.name for host in site.hosts], (*path, "hosts"))
    yield from _twice([cluster.name for cluster in site.virtual_clusters], (*path, "virtual_clusters"))
    for number, cluster in enumerate(site.virtual_clusters):
        yield from _twice([user.name for user in cluster.users], (*path, "virtual_clusters", number, "users"))
    if site.backup:
        yield from _twice([one.name for one in site.backup.s3.buckets], (*path, "backup", "s3", "buckets"))
    yield from _strangers(site, path)
    if site.backup and not (site.backup.recipients or site.backup.identity):
        yield _Broken(
            (*path, "backup"), "needs recipients, or an identity", "maint config init shows how a key pair is made"
        )


def _twice(names: Sequence[str], path: Path) -> Iterator[_Broken]:
    for number, name in enumerate(names):
        if name in names[:number]:
            yield _Broken((*path, number, "name"), f"the name {name!r} is given twice")


def _strangers(site: Site, path: Path) -> Iterator[_Broken]:
    """Accepted deviations of hosts that nobody knows would silently accept nothing."""
    known = [host.name for host in site.hosts]
    for number, accepted in enumerate(site.accepted):
        for index, name in enumerate(accepted.hosts):
            if name not in known:
                guess = did_you_mean(name, known)
                hint = f"did you mean {guess}?" if guess else None
                yield _Broken((*path, "accepted", number, "hosts", index), f"there is no host {name!r}", hint)
