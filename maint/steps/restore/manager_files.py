"""Put the manager's own files back on its host: those that a snapshot keeps and the host lacks (M13.4)."""

import secrets
import shlex
from collections.abc import Iterable, Sequence

from maint.errors import WorkFailed
from maint.model import java_options
from maint.model.formatting import show_count, show_some
from maint.model.manager import GUID
from maint.model.plan import Action, Effect
from maint.model.snapshot import Snapshot
from maint.ports import ShellSight, Sight, Site, Work
from maint.ports.hosts import LEFT_OVER, written_whole
from maint.ports.manager_host import insist
from maint.restore.select_snapshot import chosen, manifest_fact, planned
from maint.snapshots.archive import Member, MemberKind, members
from maint.snapshots.parts import MANAGER_FILES, open_part
from maint.steps.hosts.fan_out import require_ssh
from maint.steps.restore.deployment import SnapshotArguments
from maint.steps.step import Progress, Step, done, skipped, unchanged


class RestoreHostFiles(Step[SnapshotArguments]):
    """Put the manager's own files that a snapshot keeps back on its host, where it lacks them; overwrite nothing."""

    kind = "hostfiles.restore"
    effect = Effect.CHANGE
    restores = True

    def plan(self, args: SnapshotArguments, sight: Sight) -> Iterable[Action]:
        snapshot = chosen(sight, args.snapshot)
        kept = _wanted(snapshot)
        missing: Sequence[str] = ()
        doubt = ""
        if kept:
            require_ssh(sight)
            doubt = insist(sight, [_host(sight)])
            missing = lacking(sight.shell, _host(sight), kept)
        words = f"put {len(missing)} of {show_count(len(kept), 'file')} of the manager back, which the host lacks"
        words += doubt
        if not missing:
            words = "the host has all files that the snapshot keeps" if kept else "the snapshot keeps no files of hosts"
        yield self.action(
            f"host {_host(sight)}",
            words,
            {"snapshot": snapshot.id},
            effect=Effect.CHANGE if missing else Effect.READ,
            undo="remove the files that it names",
            facts={**manifest_fact(snapshot), "lacking": list(missing)},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        snapshot = planned(site, action)
        kept, host = _wanted(snapshot), _host(site)
        if not kept:
            return skipped("the snapshot keeps no files of the manager's host")
        insist(site, [host])
        missing = set(lacking(site.shell, host, kept))
        if not missing:
            return unchanged(f"{host} has all {show_count(len(kept), 'file')}")
        yield f"putting {show_count(len(missing), 'file')} back on {host}"
        with open_part(site, snapshot, MANAGER_FILES) as stream:
            for member, content in members(stream.read):
                if member.path in missing or _above(member.path, missing):
                    _put(site, host, member, content)
        shown = sorted(missing)
        return done(
            f"{show_count(len(shown), 'file')} put back on {host}: {show_some(shown, 5)}", {"files": list(shown)}
        )


def lacking(shell: ShellSight, host: str, paths: Sequence[str]) -> Sequence[str]:
    """Return which of these paths do not exist on a host; WorkFailed where that cannot be seen."""
    ran = shell.ask(host, LACKING, stdin="".join(f"{path}\n" for path in paths).encode())
    if not ran.ok:
        raise WorkFailed(
            f"{host}: cannot tell which files are there",
            detail=ran.last_words,
            hint="look at that host: its disk, and whether sudo works there without a password",
        )
    return ran.out.decode(errors="replace").splitlines()


def _put(site: Site, host: str, member: Member, content: bytes) -> None:
    if member.path == java_options.PATH:  # it may have been kept while a redaction window was open
        content = java_options.closed(content)
    ran = site.shell.run(host, putting_back(member, content), stdin=content)
    if not ran.ok and ran.status != THERE:
        raise WorkFailed(
            f"{host}: {member.path} could not be put back",
            detail=ran.last_words,
            hint="put it back by hand (`maint backup files`), then `maint playbook resume`",
        )


def _wanted(snapshot: Snapshot) -> Sequence[str]:
    return [path for path in snapshot.manager_files if path != GUID and "\n" not in path]


def _above(folder: str, missing: set[str]) -> bool:
    return any(path.startswith(f"{folder}/") for path in missing)


def _host(sight: Sight) -> str:
    return sight.settings.hosts_in("manager")[0].name


THERE = 45  # exit status: something of that name exists, so nothing was done
LACKING = 'while IFS= read -r p; do [ -e "$p" ] || [ -L "$p" ] || printf "%s\\n" "$p"; done'
_BEGIN = """\
set -eu
p={path}
if [ -e "$p" ] || [ -L "$p" ]; then exit {there}; fi
d=${{p%/*}}
mkdir -p "$d/"
"""
_FOLDER = """\
find "$d" -maxdepth 1 -type d -name '.maint-????????????????' -mmin +{old} -exec rmdir '{{}}' ';' 2>/dev/null || :
t=$d/.maint-{token}
trap 'rmdir "$t" 2>/dev/null || :' EXIT
trap 'exit 1' HUP INT TERM
(umask 077; mkdir "$t")
{own}\
mv "$t" "$p"
"""
# The names count where the host knows them, else the numbers; who is not root cannot give files away.
_OWN = """\
if [ "$(id -u)" = 0 ]; then chown {named} "$t" 2>/dev/null || chown {uid}:{gid} "$t"; fi
chmod {mode:04o} "$t"
"""


def putting_back(member: Member, content: bytes) -> str:
    """Return the script for one member, content on its input: whole, with owner and mode, or not at all."""
    begin = _BEGIN.format(path=shlex.quote(member.path), there=THERE)
    if member.kind is MemberKind.LINK:
        return begin + f'ln -s {shlex.quote(member.target)} "$p"\n'
    named = shlex.quote(f"{member.user or member.uid}:{member.group or member.gid}")
    own = _OWN.format(named=named, uid=member.uid, gid=member.gid, mode=member.mode)
    if member.kind is MemberKind.FOLDER:
        return begin + _FOLDER.format(old=LEFT_OVER, token=secrets.token_hex(8), own=own)
    return begin + written_whole(content, own, 'ln "$t" "$p"')
