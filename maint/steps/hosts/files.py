"""Put files on hosts and fetch them, whole and with owner and mode; put the old ones back."""

import hashlib
import re
import shlex
import shutil
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import ClassVar, Self

import msgspec
from msgspec.structs import astuple
from pydantic import Field, model_validator

from maint.deployment.secrets_in_text import veiled
from maint.errors import Refused, WorkFailed, mend_of
from maint.files import explaining, opened, reading, written
from maint.model.formatting import show_count, show_size
from maint.model.json import Json
from maint.model.plan import Action, Effect
from maint.model.secret import scrub
from maint.ports import ShellSight, Sight, Site, Work
from maint.steps.hosts import undo
from maint.steps.hosts.fan_out import (
    OR_WITHOUT,
    HostsArguments,
    ask_script,
    chosen_hosts,
    host_list,
    map_hosts,
    map_hosts_now,
    output_of,
    script,
    texts,
)
from maint.steps.step import Arguments, Progress, Step, done, in_a_template, skipped, unchanged

COMPARED = 128 * 1024  # bytes of a file that is compared line by line
_LINES = 2000
_SHOWN = 40  # lines of one difference
_CONTEXT = 1
_SECRET = r"(?i)pass(word|wd|phrase|code)?|secret|token|credential|_pw\b|(private|api|access|secret).?key"
_IN_URL = r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
_VALUE = r"(?i)\s*<value>"
_HIDDEN = "(hidden)"


def difference(old: bytes | None, new: bytes) -> Sequence[str]:
    """Return the lines that a file loses (`-`) and gets (`+`), or a word about why they are not shown.

    Args:
        old: what is there, None where nothing is.
    """
    if old is None:
        return [f"a new file of {show_count(len(new.splitlines()), 'line')}"]
    texts = [_text(content) for content in (old, new)]
    if any(text is None for text in texts):
        return ["not shown: too large, not text, or a private key"]
    lines = list(_lines(*(text or "" for text in texts)))
    more = len(lines) - _SHOWN
    return [*lines[:_SHOWN], *([f"… and {show_count(more, 'more line')}"] if more > 0 else [])] or [
        "only the end of its last line"
    ]


def _text(content: bytes) -> str | None:
    if len(content) > COMPARED or content.count(b"\n") > _LINES or b"PRIVATE KEY" in content or b"\0" in content:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _lines(old: str, new: str) -> Iterator[str]:
    before, after = old.splitlines(), new.splitlines()
    shown = [list(masked(veiled(text, _veil).splitlines())) for text in (old, new)]
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        yield f"@@ line {group[0][1] + 1} @@"
        for tag, old_first, old_end, new_first, new_end in group:
            if tag == "equal":
                yield from (f" {line}" for line in shown[0][old_first:old_end])
                continue
            yield from (f"-{line}" for line in shown[0][old_first:old_end])
            yield from (f"+{line}" for line in shown[1][new_first:new_end])


def _veil(secret: str) -> str:
    # As many lines as before: each is shown beside its own.
    return "\n".join([_HIDDEN] * len(f"{secret}.".splitlines()))


def masked(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines without what may be secret: all that follows a name such as `password`, the value below it too."""
    named = False
    for line in lines:
        found = re.search(_SECRET, line)
        if named and (re.match(_VALUE, line) or not line.strip()):
            yield line[: len(line) - len(line.lstrip())] + _HIDDEN if line.strip() else line
            named = named and not line.strip()
            continue
        named = found is not None
        shown = line if found is None else f"{line[: found.end()]} {_HIDDEN}"
        yield scrub(re.sub(_IN_URL, _HIDDEN, shown))


LARGEST = 64 * 1024 * 1024  # bytes of a file that is put
_LIMIT = 300.0  # seconds for one host
_COMPARED = 5  # different contents of one file that are shown
MODE = r"[0-7]{3,4}"
NAME = r"[A-Za-z_][A-Za-z0-9_.-]*\$?"
_ODD = 'paths are absolute, without `..`; a mode is octal, such as "0640"; owner and group are plain names'


class Stat(msgspec.Struct, frozen=True):
    """What a file on a host is; only a `file` has the rest."""

    form: str  # none, file, folder or dangling
    sha256: str = ""
    owner: str = ""  # owner, group and mode as `stat` spells them
    group: str = ""
    mode: str = ""


def stat_of(shell: ShellSight, host: str, path: str) -> Stat:
    """Return what a file on a host is; WorkFailed where it is there, and cannot be read."""
    words = ask_script(shell, host, script("host-stat", path=path)).decode("utf-8", "replace").strip().split(" ", 5)
    if words[0] == "" or len(words) not in (1, 6):
        raise WorkFailed(
            f"{host}: what it says about {path} cannot be read",
            hint="look at that path by hand; its name may be unusual",
        )
    if len(words) == 1:
        return Stat(*words)
    form, digest, mode, uid, gid, names = words
    owner, _, group = names.partition(":")
    return Stat(form, digest, _usable(owner, uid), _usable(group, gid), mode)


def _usable(name: str, number: str) -> str:
    """Return a name that can be given to a file again; the number of one without a name, or of an unusual one."""
    return name if name != "UNKNOWN" and re.fullmatch(NAME, name) else number


class PutFileArguments(HostsArguments):
    """Which local file goes where; without owner, group and mode those of the old file stay, else root and 0644."""

    file: str = Field(description="the local file, absolute")
    path: str = Field(description="where it goes, absolute")
    owner: str = Field("", description="as it was; root for a new file")
    group: str = Field("", description="as it was; root for a new file")
    mode: str = Field("", description='octal, such as `"0640"`; as it was, 0644 for a new file')

    @model_validator(mode="after")
    def _can_be_used(self) -> Self:
        if not (self.file.startswith("/") or in_a_template(self.file)):
            raise ValueError(f"file {self.file!r} cannot be used: {_ODD}")
        _refuse_odd({"path": self.path}, self.mode, self.owner, self.group)
        return self


class PutFile(Step[PutFileArguments]):
    """Put a local file on hosts, atomically, with owner and mode; the file that was there is kept, sealed."""

    kind = "host.put"
    effect = Effect.CHANGE
    reads = frozenset({"file"})

    def plan(self, args: PutFileArguments, sight: Sight) -> Iterable[Action]:
        hosts, content = chosen_hosts(sight, args), _local(args.file)
        found = map_hosts_now(
            sight, hosts, lambda host: stat_of(sight.shell, host, args.path), f"looking at {args.path}", OR_WITHOUT
        )
        _refuse_folders(args.path, found)
        stale = [host for host, stat in found.items() if stat != _wanted(args, content, stat)]
        size = show_size(len(content))
        shown = _differences(sight.shell, args, content, {host: found[host] for host in stale})
        words = (
            f"put {args.file} ({size}) as {args.path} on {host_list(stale)}"
            if stale
            else f"{args.path} is there already"
        )
        yield self.action(
            f"{args.path} on {', '.join(hosts)}",
            words,
            {**args.model_dump(exclude={"groups"}), "hosts": hosts},
            effect=Effect.CHANGE if stale else Effect.READ,
            undo="`host.put_back` in a playbook puts the old file back",
            facts={"file": _facts(args.file), "stale": list(stale)},
            shown=shown,
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        args = PutFileArguments.model_validate(dict(action.arguments))
        if action.facts["file"] != _facts(args.file):
            raise Refused(f"{args.file} has changed since the plan was made", hint="plan anew")
        content, path = _local(args.file), args.path
        found = yield from map_hosts(
            site, args.hosts, lambda host: stat_of(site.shell, host, path), f"looking at {path}"
        )
        _refuse_folders(path, found)
        stale = {host: stat for host, stat in found.items() if stat != _wanted(args, content, stat)}
        old = yield from map_hosts(site, list(stale), lambda host: site.shell.read_file(host, path), f"keeping {path}")
        _keep(site, work.run, path, old, stale, {host: _wanted(args, content, stat) for host, stat in stale.items()})

        def put(host: str) -> None:
            wanted = _wanted(args, content, stale[host])
            write(site, host, path, content, wanted)
            if stat_of(site.shell, host, path) != wanted:
                raise WorkFailed(f"{host}: {path} is not what was put there", hint="is somebody else writing it?")

        yield from map_hosts(site, list(stale), put, f"putting {path}")
        if not stale:
            return unchanged(f"{path} is as it should be on {host_list(args.hosts)}")
        return done(f"{path} put on {host_list(list(stale))}", {"hosts": list(stale)})


def _differences(shell: ShellSight, args: PutFileArguments, content: bytes, stale: Mapping[str, Stat]) -> Sequence[str]:
    """Return how the file differs, once for all hosts where it is the same; its content only where all may read it."""
    alike: dict[tuple[str, bool], list[str]] = {}
    for host, stat in stale.items():
        wanted = _wanted(args, content, stat)
        shown = all(_for_all(mode) for mode in (stat.mode or wanted.mode, wanted.mode))
        alike.setdefault((stat.sha256, shown and _for_all(f"{Path(args.file).stat().st_mode & 0o777:o}")), []).append(
            host
        )
    lines = []
    for (digest, shown), hosts in list(alike.items())[:_COMPARED]:
        if digest == hashlib.sha256(content).hexdigest():
            told: Sequence[str] = ["owner, group or mode alone"]
        elif shown:
            told = difference(_beginning(shell, hosts[0], args.path) if digest else None, content)
        else:
            told = ["not shown: not everybody may read it"]
        lines += [f"{args.path} on {host_list(hosts)}:", *(f"  {line}" for line in told)]
    return lines + ([f"and {show_count(len(alike) - _COMPARED, 'other content')}"] if len(alike) > _COMPARED else [])


def _for_all(mode: str) -> bool:
    return int(mode, 8) & 0o4 != 0


def _beginning(shell: ShellSight, host: str, path: str) -> bytes:
    # One block more than is compared, so that a file that is too large is known to be.
    found = b""
    with shell.stream(host, f"cat < {shlex.quote(path)}", timeout=_LIMIT) as answer:
        while len(found) <= COMPARED and (block := answer.read(COMPARED)):
            found += block
    return found


def write(site: Site, host: str, path: str, content: bytes, wanted: Stat) -> None:
    """Replace a file of a host; where that fails, the old one is as it was."""
    owner, group, mode = wanted.owner, wanted.group, wanted.mode
    site.shell.write_file(host, path, content, owner=owner, group=group, mode=mode, timeout=_LIMIT)


def _wanted(args: PutFileArguments, content: bytes, now: Stat) -> Stat:
    # What the arguments leave open stays as it is.
    return Stat(
        "file",
        hashlib.sha256(content).hexdigest(),
        args.owner or now.owner or "root",
        args.group or now.group or "root",
        (args.mode.lstrip("0") or "0") if args.mode else now.mode or "644",
    )


def _refuse_odd(paths: Mapping[str, str], mode: str, owner: str, group: str) -> None:
    """Refuse, by ValueError, what cannot be used; what is still to be filled in is looked at later."""
    problems = {name: (path, plain_path(path)) for name, path in paths.items()}
    problems["mode"] = (mode, bool(re.fullmatch(MODE, mode)))
    problems |= {name: (text, bool(re.fullmatch(NAME, text))) for name, text in (("owner", owner), ("group", group))}
    for name, (text, fits) in problems.items():
        if (text or name in paths) and not fits and not in_a_template(text):
            raise ValueError(f"{name} {text!r} cannot be used: {_ODD}")


def plain_path(path: str) -> bool:
    """Whether a path is absolute, names a file, and holds nothing that leads elsewhere or breaks lines."""
    parts = path.split("/")
    return path.startswith("/") and parts[-1] not in ("", ".") and ".." not in parts and path.isprintable()


def _refuse_folders(path: str, found: Mapping[str, Stat]) -> None:
    wrong = [f"{host}: {path} is a {stat.form}" for host, stat in found.items() if stat.form in ("folder", "dangling")]
    if wrong:
        raise Refused(f"{path} cannot be replaced by a file", detail=wrong, hint="name the file itself")


def _local(file: str) -> bytes:
    with reading(file), opened(Path(file)) as source:
        content = source.read(LARGEST + 1)  # a device has no size, and no end
    if len(content) > LARGEST:
        raise Refused(f"{file} is larger than {show_size(LARGEST)}", hint="copy it with scp or rsync")
    return content


def _facts(file: str) -> dict[str, Json]:
    # What tells that a local file is still the same; no digest, which could tell of a secret in it.
    with reading(file):
        found = Path(file).stat()
    return {"bytes": found.st_size, "changed": found.st_mtime_ns}


def _keep(
    site: Site,
    run: str,
    path: str,
    old: Mapping[str, bytes | None],
    stats: Mapping[str, Stat],
    wanted: Mapping[str, Stat],
) -> None:
    facts = {key: {host: getattr(stat, key) for host, stat in stats.items()} for key in ("owner", "group", "mode")}
    undo.keep(site, run, old, path, {host: _print(stat) for host, stat in wanted.items()}, **facts)


def _print(stat: Stat) -> str:
    return hashlib.sha256(" ".join(astuple(stat)).encode()).hexdigest()


class BackArguments(HostsArguments):
    """Which file goes back, and which run replaced it; this one when left out."""

    path: str = Field(description="which file")
    run: str = Field("", description="the run that replaced it; empty: this one")


class PutFileBack(Step[BackArguments]):
    """Put a file back on hosts as it was before `host.put` replaced it in this run, or in another one, unless
    somebody has changed it since.
    """

    kind = "host.put_back"
    effect = Effect.CHANGE

    def plan(self, args: BackArguments, sight: Sight) -> Iterable[Action]:
        """Plan it; what is kept is known only when its turn comes, since the run itself may keep it."""
        hosts = chosen_hosts(sight, args)
        run = f"run {args.run}" if args.run else "this run"
        yield self.action(
            f"{args.path} on {', '.join(hosts)}",
            f"put {args.path} back on {host_list(hosts)} as it was before {run}",
            {"path": args.path, "hosts": hosts, "run": args.run},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        path, hosts = str(action.arguments["path"]), texts(action.arguments["hosts"])
        run = str(action.arguments["run"]) or work.run
        kept = [one for one in undo.records(site.state) if (one.name, one.run) == (path, run)]
        found = {one.host: one for one in kept if one.host in hosts}
        if not found:
            return skipped(f"run {run} replaced no {path} on {host_list(hosts)}")

        changed = yield from map_hosts(
            site, list(found), lambda host: _put_back(site, host, path, found[host]), f"putting {path} back"
        )
        words = f"{path} is as it was on {host_list(list(found))}"
        return done(words) if any(changed.values()) else unchanged(words)


def _put_back(site: Site, host: str, path: str, one: undo.UndoRecord) -> bool:
    """Put a file back, unless it is as it was (False); WorkFailed where it is neither that nor what the run put."""
    content = site.undo.fetch(one.sealed) if one.sealed else None
    was, now = Stat("none"), stat_of(site.shell, host, path)
    if content is not None:
        was = Stat("file", hashlib.sha256(content).hexdigest(), one.owner, one.group, one.mode)
    if now == was:
        return False
    if one.put and _print(now) not in one.put:
        raise WorkFailed(
            f"{host}: somebody has changed {path} since run {one.run} put it there: it stays as it is",
            hint="look at it; where the old file is to come back all the same, move this one away and `host.put` that",
        )
    if content is None:
        output_of(host, site.shell.run(host, f"rm -f -- {shlex.quote(path)}", timeout=_LIMIT))
    else:
        write(site, host, path, content, was)
    return True


_BLOCK = 1024 * 1024


class FetchArguments(Arguments):
    """Which file of which host goes where."""

    in_config: ClassVar[Mapping[str, str]] = {"host": "host"}
    host: str = Field(description="name of the host in the config")
    path: str = Field(description="the file there, absolute")
    to: str = Field(description="the local file, absolute")
    mode: str = Field("0600", description="its mode, octal")
    owner: str = Field("", description="its owner; empty: who runs maint")
    group: str = Field("", description="its group")
    replace: bool = Field(False, description="another local file may be replaced")

    @model_validator(mode="after")
    def _can_be_used(self) -> Self:
        _refuse_odd({"path": self.path, "to": self.to}, self.mode, self.owner, self.group)
        return self


_ELSEWHERE = (
    "make its folder, or mend its rights, then `maint playbook resume`; this run keeps its plan, so after another place"
    " was named in the playbook, run that anew"
)


class FetchFile(Step[FetchArguments]):
    """Fetch a file from a host into a local one, atomically, with owner and mode, and compare it."""

    kind = "host.fetch"
    effect = Effect.READ
    writes = frozenset({"to"})

    def plan(self, args: FetchArguments, sight: Sight) -> Iterable[Action]:
        """Plan it; whether the file is there is seen when its turn comes, since an earlier step may make it."""
        chosen_hosts(sight, HostsArguments(hosts=[args.host]))
        yield self.action(
            f"{args.path} on {args.host}", f"fetch {args.path} from {args.host} into {args.to}", args.model_dump()
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        args = FetchArguments.model_validate(dict(action.arguments))
        before = stat_of(site.shell, args.host, args.path)
        if before.form != "file":
            raise WorkFailed(
                f"{args.host}: {args.path} is {'not there' if before.form == 'none' else f'a {before.form}'}",
                hint="name a file that is there",
            )
        to = Path(args.to)
        with explaining(f"{to} cannot be looked at", _ELSEWHERE, WorkFailed):
            there = to.exists()
            same = there and _digest(to) == before.sha256
        if same:
            return unchanged(f"{to} is what {args.host} has")
        if there and not args.replace:
            raise Refused(f"{to} is there already, and is another file", hint="name a new one, or give `replace: true`")
        yield f"fetching {args.path} from {args.host}"
        size = yield from _fetched(site, args, before, to)
        return done(f"{to}: {show_size(size)} from {args.host}", {"bytes": size})


def _fetched(site: Site, args: FetchArguments, before: Stat, to: Path) -> Generator[str, None, int]:
    digest, size = hashlib.sha256(), 0
    try:
        to.parent.stat()
        with written(to, mode=int(args.mode or "0600", 8), replace=args.replace) as file:
            with site.shell.stream(args.host, f"cat < {shlex.quote(args.path)}", timeout=_LIMIT) as answer:
                while block := answer.read(_BLOCK):
                    digest.update(block)
                    size += file.write(block)
            yield f"{show_size(size)} received"
            now = stat_of(site.shell, args.host, args.path)
            if digest.hexdigest() != before.sha256 or now.sha256 != before.sha256:
                words = f"{args.host}: {args.path} changed while it was fetched"
                raise WorkFailed(words, hint="`maint playbook resume`")
            if args.owner or args.group:
                _own(file.fileno(), args.owner, args.group)
    except (OSError, LookupError) as error:
        raise WorkFailed(
            f"{to} cannot be written: {getattr(error, 'strerror', None) or error}",
            hint=(mend_of(error) if isinstance(error, OSError) else None) or _ELSEWHERE,
        ) from None
    return size


def _own(file: int, owner: str, group: str) -> None:
    if owner:
        shutil.chown(file, owner)
    if group:
        shutil.chown(file, group=group)


def _digest(path: Path) -> str:
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
