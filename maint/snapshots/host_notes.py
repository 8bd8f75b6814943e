"""Note what an export cannot hold: files on the manager host, and all else that a restore does not bring back."""

import shlex
from collections.abc import Mapping, Sequence

from maint.deployment.judge import DeploymentSummary
from maint.errors import CannotReach, Invalid, TimedOut
from maint.model.json import Json
from maint.model.snapshot import Snapshot
from maint.ports import Sight

GUID = "/etc/cloudera-scm-server/uuid"
CERTMANAGER = "/var/lib/cloudera-scm-server/certmanager"

OWN_FILES = (
    "the manager's own files: /etc/cloudera-scm-server, /etc/default/cloudera-scm-server, "
    "/var/lib/cloudera-scm-server (with certmanager), db.properties"
)
# Contract sections 7, 8.3, 8.5, 8.7, 11 and 13.4.
UNCOVERED = (
    "monitoring history, audit, command history, alerts and dashboards",
    "Kerberos credentials, key and certificate files on the hosts",
    "the data of the clusters, and the databases of their services",
    OWN_FILES,
)
NO_GUID = f"the server's GUID: {GUID} does not exist on the manager host (it is in the database, CM_VERSION.GUID)"


def look(sight: Sight, summary: DeploymentSummary) -> Mapping[str, Json]:
    """Return what is on the manager host: path → `{present, value?}`.

    Raises:
        CannotReach: the host does not let us in.
        TimedOut: it does not answer in time.
    """
    host = sight.settings.hosts_in("manager")[0].name
    guid = sight.shell.read_file(host, GUID)
    seen: dict[str, Json] = {GUID: {"present": guid is not None}}
    if guid is not None:
        seen[GUID] = {"present": True, "value": guid.decode(errors="replace").strip()}
    for path in (CERTMANAGER, *summary.key_files()):
        seen[path] = {"present": sight.shell.ask(host, f"test -e {shlex.quote(path)}").ok}
    return seen


def try_look(sight: Sight, summary: DeploymentSummary) -> tuple[Mapping[str, Json], tuple[str, ...]]:
    """Return what is on the manager host, and words on what the snapshot does not cover; a lost host is words only."""
    if sight.settings.ssh is None:
        return {}, (*UNCOVERED, "the files on the manager host were not looked for: no `ssh:` is configured")
    try:
        seen = look(sight, summary)
    except (CannotReach, TimedOut, Invalid) as failure:
        return {}, (*UNCOVERED, f"the files on the manager host were not looked for: {failure.message}")
    return seen, UNCOVERED if present(seen, GUID) else (*UNCOVERED, NO_GUID)


def without_kept(uncovered: tuple[str, ...], kept: Sequence[str]) -> tuple[str, ...]:
    """Return what a snapshot does not cover that keeps some of the manager's own files."""
    if not kept:
        return uncovered
    rest = f"what else lies on the manager host than the {len(kept)} files that are kept"
    return tuple(rest if words == OWN_FILES else words for words in uncovered)


def kept(snapshot: Snapshot, path: str) -> bool:
    """Tell whether a snapshot keeps a file of the manager's host, or something below a folder."""
    return any(one == path or one.startswith(f"{path}/") for one in snapshot.manager_files)


def present(seen: Mapping[str, Json], path: str) -> bool | None:
    """Return whether a file was there when looked for; None where nobody looked."""
    note = seen.get(path)
    return bool(note.get("present")) if isinstance(note, Mapping) else None
