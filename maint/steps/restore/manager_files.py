"""Put the manager's own files back on its host: those that a snapshot keeps and the host lacks (contract 13.4)."""

import secrets
from collections.abc import Iterable, Sequence

from maint.errors import WorkFailed
from maint.model.plan import Action, Effect
from maint.model.snapshot import Snapshot
from maint.ports import ShellSight, Sight, Site, Work
from maint.restore.host_files import LACKING, THERE, putting_back
from maint.restore.select_snapshot import chosen
from maint.snapshots.archive import Member, members
from maint.snapshots.host_notes import GUID
from maint.snapshots.parts import MANAGER_FILES, open_part
from maint.steps.manager import java_options
from maint.steps.manager.server import require_ssh
from maint.steps.restore.deployment import SnapshotArguments
from maint.steps.step import Progress, Step, done, skipped, unchanged


class RestoreHostFiles(Step[SnapshotArguments]):
    """Puts back what is missing, path by path; what is there is never touched.

    The GUID is left alone: it counts only before a server's first start, which is long past here; without it the
    restore was refused.
    """

    kind = "hostfiles.restore"
    help = "Put the manager's own files that a snapshot keeps back on its host, where it lacks them; overwrite nothing."
    effect = Effect.CHANGE
    arguments = SnapshotArguments

    def plan(self, args: SnapshotArguments, sight: Sight) -> Iterable[Action]:
        """Plan what the host lacks, by looking at it."""
        snapshot = chosen(sight, args.snapshot)
        kept = _wanted(snapshot)
        missing: Sequence[str] = ()
        if kept:
            require_ssh(sight)
            missing = lacking(sight.shell, _host(sight), kept)
        words = f"put {len(missing)} of {len(kept)} files of the manager back, which the host lacks"
        if not missing:
            words = "the host has all files that the snapshot keeps" if kept else "the snapshot keeps no files of hosts"
        yield self.action(
            f"host {_host(sight)}",
            words,
            {"snapshot": snapshot.id},
            effect=Effect.CHANGE if missing else Effect.READ,
            undo="remove the files that it names",
            facts={"lacking": list(missing)},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Look again, and put each one back."""
        snapshot = chosen(site, str(action.arguments["snapshot"]))
        kept, host = _wanted(snapshot), _host(site)
        if not kept:
            return skipped("the snapshot keeps no files of the manager's host")
        missing = set(lacking(site.shell, host, kept))
        if not missing:
            return unchanged(f"{host} has all {len(kept)} files")
        yield f"putting {len(missing)} files back on {host}"
        with open_part(site, snapshot, MANAGER_FILES) as stream:
            for member, content in members(stream.read):
                if member.path in missing or _above(member.path, missing):
                    _put(site, host, member, content)
        shown = sorted(missing)
        more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
        return done(f"{len(shown)} files put back on {host}: {', '.join(shown[:5])}{more}", {"files": list(shown)})


def lacking(shell: ShellSight, host: str, paths: Sequence[str]) -> Sequence[str]:
    """Return which of these paths do not exist on a host.

    Raises:
        WorkFailed: it could not be told.
    """
    ran = shell.ask(host, LACKING, stdin="".join(f"{path}\n" for path in paths).encode())
    if not ran.ok:
        raise WorkFailed(f"{host}: cannot tell which files are there", detail=[ran.err.decode(errors="replace")[:500]])
    return ran.out.decode(errors="replace").splitlines()


def _put(site: Site, host: str, member: Member, content: bytes) -> None:
    if member.path == java_options.PATH:  # it may have been kept while a redaction window was open
        content = java_options.closed(content)
    ran = site.shell.run(host, putting_back(member, content, secrets.token_hex(8)), stdin=content)
    if not ran.ok and ran.status != THERE:
        raise WorkFailed(
            f"{host}: {member.path} could not be put back",
            detail=ran.err.decode(errors="replace").splitlines()[:5],
            hint="put it back by hand (`maint backup files`), then `maint playbook resume`",
        )


def _wanted(snapshot: Snapshot) -> Sequence[str]:
    return [path for path in snapshot.manager_files if path != GUID and "\n" not in path]


def _above(folder: str, missing: set[str]) -> bool:
    return any(path.startswith(f"{folder}/") for path in missing)


def _host(sight: Sight) -> str:
    return sight.settings.hosts_in("manager")[0].name
