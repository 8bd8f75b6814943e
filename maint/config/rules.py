"""The rules between keys of a site: what each key alone cannot say."""

import os
import posixpath
from collections.abc import Callable, Iterator, Sequence

import msgspec

from maint.config.fields import loopback
from maint.config.notices import WAYS, NoticeSettings
from maint.config.schema import Site
from maint.config.suggestions import KeyPath, meant


class BrokenRule(msgspec.Struct, frozen=True):
    """A rule between keys that is broken: the place, what is wrong, and what to do next."""

    path: KeyPath
    words: str
    hint: str


def broken_rules(site: Site, path: KeyPath, *, elsewhere: bool = False) -> Iterator[BrokenRule]:
    """Tell which rules between keys of a site are broken.

    Args:
        elsewhere: whether the store is not the file's, but one that a command reads, which may be one of the copies.
    """
    if site.manager.plain_port == site.manager.tls_port:
        yield BrokenRule(
            (*path, "manager", "tls_port"), "must differ from plain_port", "the usual ones are 7180 and 7183"
        )
    yield from _twice([host.name for host in site.hosts], (*path, "hosts"), str.lower)
    yield from _twice([cluster.name for cluster in site.virtual_clusters], (*path, "virtual_clusters"))
    for number, cluster in enumerate(site.virtual_clusters):
        yield from _twice([user.name for user in cluster.users], (*path, "virtual_clusters", number, "users"))
    if site.backup:
        yield from _twice([one.name for one in site.backup.s3.buckets], (*path, "backup", "s3", "buckets"))
    yield from _twice([one.name for one in site.notify], (*path, "notify"))
    yield from _notices(site.notify, (*path, "notify"))
    yield from _strangers(site, path)
    yield from _shared(site, path)
    if not elsewhere:
        yield from _no_copies(site, path)
    if site.backup and not (site.backup.recipients or site.backup.identity):
        yield BrokenRule(
            (*path, "backup"), "needs recipients, or an identity", "maint config init shows how a key pair is made"
        )


def _twice(names: Sequence[str], path: KeyPath, meant: Callable[[str], str] = str) -> Iterator[BrokenRule]:
    for number, name in enumerate(names):
        if meant(name) in map(meant, names[:number]):
            yield BrokenRule((*path, number, "name"), f"the name {name!r} is given twice", "give each its own name")


def _notices(notices: Sequence[NoticeSettings], path: KeyPath) -> Iterator[BrokenRule]:
    for number, one in enumerate(notices):
        here = (*path, number)
        if not any(getattr(one, way) for way in WAYS):
            yield BrokenRule(here, "tells nobody", f"give it one of {', '.join(WAYS)}")
        if one.mail and one.mail.tls == "none" and not loopback(one.mail.host):
            yield BrokenRule((*here, "mail", "tls"), "may be none only to this machine itself", "starttls, or tls")
        if one.mail and one.mail.username and not one.mail.password:
            yield BrokenRule((*here, "mail", "username"), "has no password beside it", "password: file:PATH")


def _strangers(site: Site, path: KeyPath) -> Iterator[BrokenRule]:
    """Accepted deviations of hosts that nobody knows would silently accept nothing."""
    known = [host.name for host in site.hosts]
    for number, accepted in enumerate(site.accepted):
        for index, name in enumerate(accepted.hosts):
            if name not in known:
                hint = meant(name, known, "list it under hosts, or leave it out here")
                yield BrokenRule((*path, "accepted", number, "hosts", index), f"there is no host {name!r}", hint)


def _no_copies(site: Site, path: KeyPath) -> Iterator[BrokenRule]:
    """A copy that is the very store, or another copy, would be told to hold everything twice."""
    stores = [_place(one) for one in (site.backup.store, *site.backup.copies)] if site.backup else []
    for number, place in enumerate(stores[1:]):
        if place in stores[: number + 1]:
            words = "is the store itself" if place == stores[0] else "is the same place as a copy before it"
            hint = "name another place, best on another machine; `--store` reads a copy by itself"
            yield BrokenRule((*path, "backup", "copies", number), words, hint)


def _place(location: str) -> str:
    """Return the one spelling of where a store lies: without links, `..`, a default port, or a last slash."""
    scheme, url, rest = location.partition("://")
    if not url:
        return os.path.realpath(location)
    host, _, folder = rest.partition("/")
    return f"{scheme}://{host.lower().removesuffix(':22')}{posixpath.normpath(f'/{folder}')}"


def _shared(site: Site, path: KeyPath) -> Iterator[BrokenRule]:
    """A shared state is reached as the backups are, and lies beside them."""
    if site.shared_state is None:
        if site.shared_state_key is not None:
            words, hint = "seals nothing without a shared_state", "add shared_state, or leave the key out"
            yield BrokenRule((*path, "shared_state_key"), words, hint)
        return
    here = (*path, "shared_state")
    if site.backup is None and site.shared_state.startswith("s3:"):
        yield BrokenRule(here, "needs backup.s3, which says how it is reached", "add `backup`, or use a folder")
    if site.backup and _place(site.shared_state) in map(_place, (site.backup.store, *site.backup.copies)):
        yield BrokenRule(here, "must differ from the stores of the backups", "use another folder, such as …/state")
    if site.backup and site.shared_state_key and site.shared_state_key == site.backup.identity:
        words, hint = (
            "must differ from backup.identity: machines that back up hold no key that opens backups",
            "age-keygen",
        )
        yield BrokenRule((*path, "shared_state_key"), words, f"make a key of its own: {hint} -o FILE")
