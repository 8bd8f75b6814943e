"""Fetch a file from a host: whole or not at all, compared, and never over another one unawares."""

import hashlib
import os
import secrets
import shlex
import shutil
from collections.abc import Generator, Iterable
from contextlib import suppress
from pathlib import Path

from maint.errors import Invalid, Refused, WorkFailed
from maint.model.formatting import show_size
from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, Work
from maint.steps.hosts.put_file import MODE, NAME, Stat, plain_path, stat_of
from maint.steps.hosts.selection import HostsArguments, picked
from maint.steps.step import Arguments, Progress, Step, done, unchanged

_LIMIT = 300.0  # seconds without a byte
_BLOCK = 1024 * 1024


class FetchArguments(Arguments):
    """Which file of which host goes where."""

    host: str
    path: str
    to: str
    mode: str = "0600"
    owner: str = ""
    group: str = ""
    replace: bool = False


class FetchFile(Step[FetchArguments]):
    """Fetches a file; the local one is whole or not there, and no other's content is ever taken for it."""

    kind = "host.fetch"
    help = "Fetch a file from a host into a local one, atomically, with owner and mode, and compare it."
    effect = Effect.READ
    arguments = FetchArguments

    def plan(self, args: FetchArguments, sight: Sight) -> Iterable[Action]:
        """Plan it; whether the file is there is told when its turn comes, since an earlier step may make it."""
        picked(sight, HostsArguments(hosts=[args.host]))
        odd = not plain_path(args.path) or not plain_path(args.to) or not MODE.fullmatch(args.mode)
        if odd or any(name and not NAME.fullmatch(name) for name in (args.owner, args.group)):
            hint = 'both paths are absolute, without `..`; a mode is octal, such as "0600"'
            raise Invalid(f"{args.path} cannot be fetched into {args.to} with mode {args.mode}", hint=hint)
        yield self.action(
            f"{args.path} on {args.host}", f"fetch {args.path} from {args.host} into {args.to}", args.model_dump()
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Fetch into a file beside, compare, and give it its name."""
        args = FetchArguments.model_validate(dict(action.arguments))
        before = stat_of(site.shell, args.host, args.path)
        if before.form != "file":
            raise WorkFailed(
                f"{args.host}: {args.path} is {'not there' if before.form == 'none' else f'a {before.form}'}"
            )
        to = Path(args.to)
        if to.exists() and _digest(to) == before.sha256:
            return unchanged(f"{to} is what {args.host} has")
        if to.exists() and not args.replace:
            raise Refused(f"{to} is there already, and is another file", hint="name a new one, or give `replace: true`")
        yield f"fetching {args.path} from {args.host}"
        size = yield from _fetched(site, args, before, to)
        return done(f"{to}: {show_size(size)} from {args.host}", {"bytes": size})


def _fetched(site: Site, args: FetchArguments, before: Stat, to: Path) -> Generator[str, None, int]:
    staged = to.with_name(f".{to.name}.{secrets.token_hex(8)}")
    try:
        handle = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        digest, size = hashlib.sha256(), 0
        with os.fdopen(handle, "wb") as file:
            with site.shell.stream(args.host, f"cat < {shlex.quote(args.path)}", timeout=_LIMIT) as answer:
                while block := answer.read(_BLOCK):
                    digest.update(block)
                    size += file.write(block)
            file.flush()
            os.fchmod(file.fileno(), int(args.mode, 8))
            os.fsync(file.fileno())
        yield f"{show_size(size)} received"
        if digest.hexdigest() != before.sha256 or stat_of(site.shell, args.host, args.path).sha256 != before.sha256:
            raise WorkFailed(f"{args.host}: {args.path} changed while it was fetched", hint="`maint playbook resume`")
        if args.owner or args.group:
            _own(staged, args.owner, args.group)
        _named(staged, to, replace=args.replace)
    except (OSError, LookupError) as error:
        raise WorkFailed(f"{to} cannot be written: {getattr(error, 'strerror', None) or error}") from None
    finally:
        with suppress(FileNotFoundError):
            staged.unlink()
    return size


def _own(path: Path, owner: str, group: str) -> None:
    if owner:
        shutil.chown(path, owner)
    if group:
        shutil.chown(path, group=group)


def _named(staged: Path, to: Path, *, replace: bool) -> None:
    """Give a file its name; without `replace` never over another one."""
    if replace:
        staged.replace(to)
    else:
        os.link(staged, to)
    folder = os.open(to.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
