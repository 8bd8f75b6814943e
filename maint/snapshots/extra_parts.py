"""Judge what belongs to a snapshot beside the export: the licence, the truststore password, files on the host."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from maint.config.schema import PartsSettings, SiteSettings
from maint.deployment.judge import DeploymentSummary
from maint.deployment.secrets import readable
from maint.errors import CannotReach, Invalid, Refused, WorkFailed
from maint.model import java_options
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.manager import CERTMANAGER, GUID, SETTINGS, STATE
from maint.model.snapshot import RuleResult, Snapshot
from maint.ports import Sight
from maint.ports.hosts import is_there
from maint.ports.manager_host import insist
from maint.snapshots.parts import DATABASE, LICENSE, MANAGER_FILES, TRUSTSTORE

TRUSTSTORE_RULE = "truststore"


def lacking(settings: SiteSettings, snapshot: Snapshot) -> Sequence[str]:
    """Return the parts that the config demands (`true`, not left out) and that a snapshot does not have."""
    wanted = wanted_parts(settings)
    demanded = {
        LICENSE: wanted.license,
        TRUSTSTORE: wanted.truststore_password,
        MANAGER_FILES: wanted.manager_files,
        DATABASE: wanted.database,
    }
    return [name for name, choice in demanded.items() if choice and not snapshot.has(name)]


def truststore_finding(summary: DeploymentSummary, part: bool, wrong: str = "") -> RuleResult | None:
    """Say whether the password of the shared truststore is at hand; None where Auto-TLS needs none (M11).

    Args:
        part: whether the snapshot has what the manager served.
        wrong: why that was left out, where it opens nothing; then that of the document is in doubt, too.
    """
    if not summary.auto_tls:
        return None
    if wrong:
        return RuleResult(TRUSTSTORE_RULE, None if summary.truststore_password else False, wrong)
    if summary.truststore_password or part:
        return RuleResult(TRUSTSTORE_RULE, True, "the truststore password is in the snapshot")
    words = "Auto-TLS is on, and the truststore password is neither in the document nor a part of the snapshot"
    return RuleResult(TRUSTSTORE_RULE, False, words)


def usable(password: bytes) -> bool:
    """Tell whether this can be the password of the truststore: no page, no JSON, nothing redacted (M11)."""
    text = password.decode(errors="replace")
    return readable(text) and not text.lstrip().startswith(("<", "{"))


def manager_paths(summary: DeploymentSummary) -> Sequence[str]:
    """Return what belongs to the manager on its host: folders and files, none of which lies in another."""
    whole = (SETTINGS, java_options.PATH, CERTMANAGER)
    return (*whole, *(path for path in summary.key_files() if not path.startswith(tuple(f"{one}/" for one in whole))))


def wanted_parts(settings: SiteSettings) -> PartsSettings:
    """Return which of them the config wants: `true`, `false`, or None for "where it can be had"."""
    return settings.backup.parts if settings.backup else PartsSettings()


OWN_FILES = f"the manager's own files: {SETTINGS}, {java_options.PATH}, {STATE} (with certmanager), db.properties"
HISTORY = "monitoring history, audit, command history, alerts and dashboards"
DUMPED = "monitoring history; audit, command history, alerts and dashboards are in the dump of the database alone"
# M7, M8.3, M8.5, M8.7, M11 and M13.4.
UNCOVERED = (
    HISTORY,
    "Kerberos credentials, key and certificate files on the hosts",
    "the data of the clusters, and the databases of their services",
    "to which cluster a host without roles belongs: add it there anew (Hosts, Add Hosts)",
    OWN_FILES,
)
NO_GUID = f"the server's GUID: {GUID} does not exist on the manager host (it is in the database, CM_VERSION.GUID)"

# The API versions that last brought something to an export (M7.2).
_BROUGHT = {
    3: "role groups beside the first of each kind, settings of all hosts, peers, host templates",
    4: "parcels",
    6: "the second name of a cluster, schedules of replication and of snapshots",
    32: "types of clusters, roles and groups of users, data contexts",
    41: "tags",
    44: "the roles of accounts at peers",
}


def older_export(asked: int, spoken: int) -> tuple[str, ...]:
    """Return in words what an export by one API version lacks of what a manager knows that speaks another one."""
    lacking = [words for version, words in _BROUGHT.items() if asked < version <= spoken]
    if not lacking:
        return ()
    why = f"`manager.api.deployment` asks for v{asked}, and the manager speaks v{spoken}"
    return (f"what no export of this API version holds, such as {', '.join(lacking)}: {why}",)


def looked_for(sight: Sight, host: str, paths: Iterable[str], unseen: list[str] | None = None) -> Mapping[str, bool]:
    """Return which of these paths are there.

    Args:
        unseen: takes in words what this account may not look for, which is left out then; None: that is a WorkFailed.
    """
    found = dict[str, bool]()
    for path in paths:
        try:
            found[path] = is_there(sight.shell, host, path)
        except WorkFailed as failure:
            if unseen is None:
                raise
            unseen.append(failure.message)
    return found


def look_at_host(sight: Sight, summary: DeploymentSummary, unseen: list[str] | None = None) -> Mapping[str, Json]:
    """Return what is on the manager host: path → `{present, value?}`; raises CannotReach, WorkFailed, Refused.

    Args:
        unseen: see `looked_for`.
    """
    host = sight.settings.hosts_in("manager")[0].name
    insist(sight, [host])
    guid = sight.shell.read_file(host, GUID)
    seen: dict[str, Json] = {GUID: {"present": guid is not None}}
    if guid is not None:
        seen[GUID] = {"present": True, "value": guid.decode(errors="replace").strip()}
    there = looked_for(sight, host, (CERTMANAGER, *summary.key_files()), unseen)
    return seen | {path: {"present": one} for path, one in there.items()}


def try_look_at_host(sight: Sight, summary: DeploymentSummary) -> tuple[Mapping[str, Json], tuple[str, ...]]:
    """Return what is on the manager host, and words on what the snapshot does not cover; never raises for the host."""
    if sight.settings.ssh is None:
        return {}, (*UNCOVERED, "the files on the manager host were not looked for: no `ssh:` is configured")
    unseen = list[str]()
    try:
        seen = look_at_host(sight, summary, unseen)
    except (CannotReach, WorkFailed, Invalid, Refused) as failure:
        return {}, (*UNCOVERED, f"the files on the manager host were not looked for: {failure.message}")
    return seen, (*UNCOVERED, *unseen, *(() if present(seen, GUID) else (NO_GUID,)))


def without_kept(uncovered: tuple[str, ...], kept: Sequence[str], *, dumped: bool = False) -> tuple[str, ...]:
    """Return what a snapshot does not cover that keeps some of the manager's own files, or its database's dump."""
    if dumped:
        uncovered = tuple(DUMPED if words == HISTORY else words for words in uncovered)
    if not kept:
        return uncovered
    rest = f"what else lies on the manager host than the {show_count(len(kept), 'file')} kept"
    return tuple(rest if words == OWN_FILES else words for words in uncovered)


def present(seen: Mapping[str, Json], path: str) -> bool | None:
    """Return whether a file was there when looked for; None where nobody looked."""
    note = seen.get(path)
    return bool(note.get("present")) if isinstance(note, Mapping) else None


_DAY = timedelta(days=1)


class LicenseText(msgspec.Struct, frozen=True):
    """What a licence file says of itself, its signature unchecked; the days are None where none can be read."""

    owner: str
    uuid: str
    expiration: str  # as it is written
    starts: datetime | None
    ends: datetime | None
    deactivated: datetime | None = None  # the day on which it ceases to do anything

    @staticmethod
    def of(owner: str, uuid: str, expiration: str, starts: object = None, deactivated: object = None) -> "LicenseText":
        """Return a licence by the texts of its fields."""
        return LicenseText(owner, uuid, expiration, _day(starts), _day(expiration), _day(deactivated))

    def objection(self, now: datetime) -> str:
        """Why it is not in date, "" where it is; without days it counts as in date, since the manager decides."""
        if self.starts is not None and self.starts > now:
            return f"is not valid before {self.starts:%Y-%m-%d}"
        if self.deactivated is not None and self.deactivated + _DAY <= now:
            return f"was deactivated on {self.deactivated:%Y-%m-%d}"
        if self.ends is not None and self.ends + _DAY <= now:
            return f"expired on {self.ends:%Y-%m-%d}"
        return ""


def parse_license(content: bytes, source: str) -> LicenseText:
    """Read a licence file; Invalid where it holds no licence."""
    fields = _inner(content)
    if fields is None or not {"name", "uuid", "expirationDate"} <= fields.keys():
        raise Invalid(
            f"{source} is not a licence file",
            detail=["a licence is a clear-signed text with name, uuid and expirationDate in JSON"],
            hint="use the file as the vendor sent it",
        )
    return _license_text(fields)


def license_finding(content: bytes, now: datetime) -> RuleResult:
    """Judge a licence file: is it one, and is it in date?"""
    fields = _inner(content)
    if fields is None:
        return RuleResult("license", False, "the licence file holds no readable licence")
    found = _license_text(fields)
    if objection := found.objection(now):
        return RuleResult("license", False, f"the licence {objection}")
    if found.ends is None:
        return RuleResult("license", None, "the licence file names no day on which it expires")
    return RuleResult("license", True, f"the licence is valid until {found.ends:%Y-%m-%d}")


def _license_text(fields: Mapping[str, object]) -> LicenseText:
    owner, uuid, expiration = (str(fields.get(key, "")) for key in ("name", "uuid", "expirationDate"))
    return LicenseText.of(owner, uuid, expiration, fields.get("startDate"), fields.get("deactivationDate"))


def _inner(content: bytes) -> Mapping[str, object] | None:
    text = content.decode(errors="replace")
    start = text.find("{")
    try:
        fields, _ = json.JSONDecoder().raw_decode(text, start) if start >= 0 else (None, 0)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def _day(value: object) -> datetime | None:
    for form in ("%Y-%m-%d", "%m/%d/%Y"):
        try:
            return datetime.strptime(str(value)[:10], form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None
