"""The parts beside the export: the licence, the truststore password, the manager's own files.

Each is taken where it can be had. What cannot be had is said and left out: a backup without it is better than none.
"""

import shlex
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

from maint.deployment.judge import DeploymentSummary
from maint.deployment.sensitive import readable
from maint.errors import CannotReach, Invalid, StoreFailed, WorkFailed
from maint.model.noun import Noun
from maint.model.site import PartsSettings, SiteSettings
from maint.model.snapshot import Finding, Snapshot
from maint.ports import Sight, Site
from maint.snapshots.host_notes import CERTMANAGER
from maint.snapshots.parts import LICENSE, MANAGER_FILES, TRUSTSTORE

if TYPE_CHECKING:
    from maint.snapshots.writer import Writing

SETTINGS = "/etc/cloudera-scm-server"  # db.properties and the GUID among them (contract sections 12, 13.4)
OPTIONS = "/etc/default/cloudera-scm-server"


class Further(Noun):
    """What came of it: the paths of the manager's files that are kept, and words on each part that is not there."""

    manager_files: Sequence[str] = ()
    missing: Sequence[str] = ()


class _Absent(Exception):
    """There is nothing to take, and nothing went wrong."""


def take_further(site: Site, writing: "Writing", summary: DeploymentSummary) -> Generator[str, None, Further]:
    """Store the further parts that the config wants; yields words on those that cannot be had.

    Args:
        site: the site.
        writing: the snapshot being written.
        outline: what is in its deployment.
    """
    wanted, kept, missing = _wanted(site.settings), list[str](), list[str]()
    ways: dict[str, tuple[bool | None, Callable[[], None]]] = {
        LICENSE: (wanted.license, lambda: _license(site, writing)),
        TRUSTSTORE: (wanted.truststore_password, lambda: _truststore(site, writing)),
        MANAGER_FILES: (wanted.manager_files, lambda: kept.extend(_manager_files(site, writing, summary))),
    }
    for name, (choice, write) in ways.items():
        if choice is False:
            missing.append(f"{name}: switched off in the config (backup.parts)")
            continue
        try:
            write()
        except StoreFailed:
            raise
        except _Absent as reason:
            missing.append(f"{name}: {reason}")
        except (CannotReach, WorkFailed, Invalid) as failure:
            missing.append(f"{name}: {failure.message}")
            yield f"{name} is left out: {failure.message}"
    _, *others = site.settings.hosts_in("manager") or (None,)
    if kept and others:
        missing.append(f"{MANAGER_FILES}: those of {', '.join(one.name for one in others if one)} are not kept")
    return Further(tuple(kept), tuple(missing))


def lacking(settings: SiteSettings, snapshot: Snapshot) -> Sequence[str]:
    """Return the parts that the config demands (`true`, not left out) and that a snapshot does not have."""
    wanted = _wanted(settings)
    demanded = {
        LICENSE: wanted.license,
        TRUSTSTORE: wanted.truststore_password,
        MANAGER_FILES: wanted.manager_files,
    }
    return [name for name, choice in demanded.items() if choice and not snapshot.has(name)]


def truststore(summary: DeploymentSummary, part: bool) -> Finding | None:
    """Say whether the password of the shared truststore is at hand; None where Auto-TLS needs none (contract 11).

    Args:
        outline: what is in the deployment.
        part: whether the snapshot has the part of its own.
    """
    if not summary.auto_tls:
        return None
    if summary.truststore_password or part:
        return Finding("truststore", True, "the truststore password is in the snapshot")
    words = "Auto-TLS is on, and the truststore password is neither in the document nor a part of the snapshot"
    return Finding("truststore", False, words)


def usable(password: bytes) -> bool:
    """Tell whether this can be the password of the truststore: no page, no JSON, nothing redacted (contract 11)."""
    text = password.decode(errors="replace")
    return readable(text) and not text.lstrip().startswith(("<", "{"))


def manager_paths(summary: DeploymentSummary) -> Sequence[str]:
    """Return what belongs to the manager on its host: folders and files, none of which lies in another."""
    whole = (SETTINGS, OPTIONS, CERTMANAGER)
    return (*whole, *(path for path in summary.key_files() if not path.startswith(tuple(f"{one}/" for one in whole))))


def _wanted(settings: SiteSettings) -> PartsSettings:
    return settings.backup.parts if settings.backup else PartsSettings()


def _license(site: Site, writing: "Writing") -> None:
    path = site.settings.manager.license
    if path is None:
        raise _Absent("the config names no licence")
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise Invalid(f"{path} cannot be read: {problem.strerror}") from None
    writing.sealed(LICENSE, content)


def _truststore(site: Site, writing: "Writing") -> None:
    password = site.manager.truststore_password()
    if password is None or not readable(password.reveal()):
        raise _Absent("the manager gives none: Auto-TLS is off, its API is older than v41, or it redacts")
    writing.sealed(TRUSTSTORE, password.reveal().encode())


def _manager_files(site: Site, writing: "Writing", summary: DeploymentSummary) -> Sequence[str]:
    if site.settings.ssh is None:
        raise _Absent("no `ssh:` is configured")
    host = site.settings.hosts_in("manager")[0].name
    there = _there(site, host, manager_paths(summary))
    if not there:
        raise _Absent(f"none of them is on {host}")
    operands = " ".join(shlex.quote(path.lstrip("/")) for path in there)
    with site.shell.stream(host, f"tar -C / -cf - -- {operands}") as output:
        return writing.archive(MANAGER_FILES, output.read)


def _there(sight: Sight, host: str, paths: Sequence[str]) -> Sequence[str]:
    return [path for path in paths if sight.shell.ask(host, f"test -e {shlex.quote(path)}").ok]
