"""Every file that we read, our own state included, damaged in every way: an error with a way out, never a crash.

A file of the state folder or the store that no row of `READERS` names fails a test: who adds one says what reads it.
`MAINT_CAMPAIGN_SEED` chooses other damages, MAINT_CAMPAIGN_TRIES how many of each kind.
"""

import fnmatch
import json
import os
import random
import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from maint.adapters.seal import AgeSeal
from maint.adapters.sign import load_or_make_signer
from maint.adapters.undo_store import SealedUndo
from maint.lab.create import SITE
from maint.lab.running import Lab
from maint.snapshots.open_windows import EditedFile, Window
from tests.campaigns.size import FULL, SEED, tries
from tests.steps.conftest import copy
from tests.steps.operator import Operator, maint

ROUNDS = tries(1, 150)  # damages of each kind of file
STATE, STORE, SHARED = f"state/{SITE}", f"backups/{SITE}", f"shared/{SITE}"
NOTHING = ("playbook history",)  # what nobody reads back does not hinder anyone
OUT, RELEASE, RESTORE = "@FOLDER@/out", "backup release @SNAPSHOT@ --reason so", "restore plan --manager-only"
# What reads each kind of file. @RUN@ is its name up to the first dot, @SNAPSHOT@ the one snapshot.
READERS: dict[str, tuple[str, ...]] = {
    "config.yaml": ("config show", "backup list"),
    "more/sites.d/lab.yaml": ("backup list --config @FOLDER@/more/config.yaml",),
    "book.yaml": ("playbook lint @FOLDER@/book.yaml", "playbook run @FOLDER@/book.yaml --dry-run"),
    "try.test.yaml": ("playbook test @FOLDER@/try.test.yaml",),
    "facts.json": ("host check --facts @FOLDER@/facts.json",),
    "matrix.yaml": ("host check --facts @FOLDER@/facts.json --matrix @FOLDER@/matrix.yaml",),
    "ecs.yaml": ("host check --facts @FOLDER@/facts.json --plan @FOLDER@/ecs.yaml",),
    "plan.json": (
        "restore run --plan @FOLDER@/plan.json --dry-run",
        "playbook diff @FOLDER@/plan.json @FOLDER@/plan.json",
    ),
    "values.yaml": ("backup heal @SNAPSHOT@ --secrets @FOLDER@/values.yaml",),
    "identity": (RESTORE, "backup verify"),
    "password": ("cluster list",),
    "license.txt": (RESTORE, "doctor"),
    "ca/bundle.pem": ("cluster list",),
    "ssh/known_hosts": ("host trust --dry-run", "host check --check os.thp"),
    "ssh/id_ed25519": ("host check --check os.thp",),
    "shared-key": (RELEASE,),
    f"{STATE}/runs/*.jsonl": ("playbook history", "playbook report @RUN@", "playbook resume @RUN@ --dry-run"),
    f"{STATE}/runs/*.dismissed": ("playbook history",),
    f"{STATE}/runs/*.approval-*": ("playbook resume @RUN@", "playbook approve @RUN@"),
    f"{STATE}/runs/*.shared": (RELEASE,),
    f"{STATE}/runs/*.room": NOTHING,
    f"{STATE}/window.json": ("backup list", "manager export --close-window --yes", "doctor", RELEASE),
    f"{STATE}/begun/*": ("backup list", "backup prune --dry-run", "backup prune --yes"),
    f"{STATE}/seen.json": (RESTORE, "backup verify"),
    f"{STATE}/owner": ("backup create --yes", "backup prune --dry-run"),
    f"{STATE}/lease.json": (RELEASE, "doctor"),
    f"{STATE}/lock": ("doctor", "backup hold @SNAPSHOT@ --reason so"),
    f"{STATE}/host-files.json": ("playbook run @FOLDER@/back.yaml --yes", "playbook run @FOLDER@/book.yaml --yes"),
    f"{STATE}/setting-undo/*.json": (
        "playbook undo @RUN@ --dry-run",
        "playbook history",
        "restore config --service hdfs --dry-run",
        "setting set dfs_replication 3 --service hdfs --yes",
    ),
    f"{STATE}/vc-undo/*.json": ("vc undo @RUN@ --dry-run", "playbook history", "vc job delete --name vacuum --yes"),
    f"{STATE}/recreate/*.json": ("vc undo @RUN@ --dry-run", "playbook history"),
    f"{STATE}/user-secrets/*": ("vc init-user @VC@ deuser1 --yes",),
    f"{STATE}/undo/*": ("playbook undo @SETTINGS@ --yes", "vc undo @JOBS@ --yes"),
    f"{STATE}/certificates/*": ("vc status",),
    f"{STATE}/keys/signing": ("backup list", "backup hold @SNAPSHOT@ --reason so"),
    f"{STATE}/keys/signing.pub": ("backup list",),
    f"{STATE}/keys/fingerprint": ("backup diff @SNAPSHOT@ @SNAPSHOT@", "backup create --yes"),
    f"{STATE}/keys/undo": ("playbook undo @SETTINGS@ --yes", "setting set dfs_replication 3 --service hdfs --yes"),
    f"{STATE}/outcomes/*.json": ("doctor", "backup hold @SNAPSHOT@ --reason so"),
    f"{STATE}/ends.json": ("doctor", "backup verify"),
    f"{STATE}/reports/*": NOTHING,
    f"{STATE}/names.json": NOTHING,
    f"{STATE}/recorded.json": ("backup list", "backup hold @SNAPSHOT@ --reason so", "backup prune --dry-run"),
    f"{STATE}/summary.json": ("site list",),
    f"{STATE}/checks.json": (f"site report --to {OUT}",),
    f"{STATE}/page.json": (f"site report --to {OUT}",),
    f"{STATE}/plots.json": (f"site report --to {OUT}",),
    f"{STATE}/changes/*": (f"site report --to {OUT}",),
    f"{STORE}/2*/manifest.json*": ("backup list", RESTORE, "backup verify", "backup prune --dry-run"),
    f"{STORE}/2*/RESTORE.txt": ("backup show @SNAPSHOT@",),
    f"{STORE}/2*/*redacted*": ("backup diff @SNAPSHOT@ @SNAPSHOT@ --redacted",),
    f"{STORE}/2*/deployment.json*": (RESTORE, "backup diff @SNAPSHOT@ @SNAPSHOT@"),
    f"{STORE}/2*/license*": (RESTORE,),
    f"{STORE}/2*/truststore*": ("backup verify",),
    f"{STORE}/2*/manager-files*": ("backup files @SNAPSHOT@", "backup verify"),
    f"{STORE}/2*/vc/*": ("restore plan", "vc restore --dry-run"),
    f"{STORE}/objects/*": ("backup verify",),
    f"{STORE}/records/*": ("backup list", "doctor", "backup prune --dry-run"),
    f"{STORE}/under-way/*": ("backup prune --dry-run",),
    f"{SHARED}/lease/*": (RELEASE, "doctor"),
    f"{SHARED}/*": (RELEASE,),
}  # fmt: skip
FORESEEN, TELLING = range(8), (0, 7)  # codes; those with which every line says what is left
BOOK = """name: x
summary: X.
steps:
  - {{name: P, do: host.put, with: {{hosts: [{host}], file: {folder}/license.txt, path: /etc/maint-tried}}}}
  - {{name: Ask, do: approve, with: {{question: 'go on?', within: 1h}}}}
"""
BACK = """name: y
summary: Y.
steps:
  - {{name: B, do: host.put_back, with: {{hosts: [{host}], path: /etc/maint-tried, run: {run}}}}}
"""
ECS = "cluster_type: ecs\ninstall_method: internet\ncluster_name: ecs-2\nhosts: [ds-01.example.internal]\n"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class Place:
    """A site whose every kind of file is there, and what stands in them."""

    def __init__(self, operator: Operator) -> None:
        self.operator, self.folder = operator, operator.lab.folder
        self.snapshot = next(path.name for path in (self.folder / STORE).glob("2*"))
        self._fill()
        self.files = {path: path.read_bytes() for path in self._all()}
        # While it is there, everything else would begin with closing the window.
        self.files[self.folder / STATE / "window.json"] = self.window

    def _all(self) -> Iterator[Path]:
        below = (self.folder / name for name in (STATE, STORE, "shared"))
        named = (self.folder / name for name in READERS if "*" not in name)
        for path in sorted({*named, *(path for folder in below for path in folder.rglob("*"))}):
            if path.is_file():
                yield path

    def _run(self, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        said = self.operator(*words)
        assert said.code in codes, said.err
        runs = self.operator("playbook", "history", "-o", "json").json["runs"]
        return str(runs[-1]["id"])

    def _write(self, name: str, content: str | bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(0o600)

    def _fill(self) -> None:
        folder, host = self.folder, self.operator.lab.manager_host
        self._write("shared-key", AgeSeal().new_identity()[0].reveal())
        shared = "    shared_state: shared\n    shared_state_key: file:shared-key\n    backup:\n"
        self._write("config.yaml", (folder / "config.yaml").read_text().replace("    backup:\n", shared))
        own, _, sites = (folder / "config.yaml").read_text().partition("sites:")
        self._write("more/config.yaml", own)
        self._write("more/sites.d/lab.yaml", f"sites:{sites}")
        self._write("book.yaml", BOOK.format(host=host, folder=folder))
        self._write("try.test.yaml", "playbook: ./book.yaml\nplan: ['CHANGE P: *']\n")
        self._write("matrix.yaml", "os.release: {rhel: ['9.2']}\n")
        self._write("ecs.yaml", ECS)
        self._write("values.yaml", "/managerSettings/items/0/value: file:password\n")
        self.settings = self._run("setting", "set", "dfs_replication", "2", "--service", "hdfs", "--yes")
        self.jobs = self._run("vc", "job", "delete", "--name", "orders-ingest", "--yes")
        self._run("host", "check", "--check", "os.thp", "--save-facts", str(folder / "facts.json"))
        self._run("backup", "hold", self.snapshot, "--reason", "so")
        asked = self._run("playbook", "run", str(folder / "book.yaml"), "--yes", codes=(1,))
        self._run("playbook", "approve", asked, "--reject", "--note", "no")
        self._write("back.yaml", BACK.format(host=host, run=asked))
        self._write("plan.json", self.operator("restore", "plan", "--manager-only", "-o", "json").out)
        state = folder / STATE
        self._write(f"{STATE}/begun/{self.snapshot[:-1]}0", str(folder / "backups"))
        self._write(f"{STATE}/runs/{self.settings}.dismissed", '{"time": "x", "actor": "me", "reason": "so"}')
        sealed = SealedUndo(state, AgeSeal()).keep(b'{"etl": null}')
        self._write(f"{STATE}/user-secrets/ns.deuser1.json", json.dumps({"sealed": sealed, "fresh": "0" * 64}))
        self._write(f"{STATE}/certificates/{SITE}.pem", (folder / "ca/bundle.pem").read_bytes())
        edited = EditedFile(SealedUndo(state, AgeSeal()).keep(b"old"), "0" * 64, "1" * 64)
        window = Window(asked, "2026-11-22T10:00:00Z", {host: edited})
        self.window = msgspec.json.encode(window)

    def commands(self, path: Path) -> list[list[str]]:
        """Return what reads a file."""
        name = path.relative_to(self.folder).as_posix()
        rows = next((rows for pattern, rows in READERS.items() if fnmatch.fnmatchcase(name, pattern)), None)
        assert rows, f"no row of READERS says what reads {name}"
        run = path.name.partition(".")[0] + "." + path.name.split(".")[1] if path.name.count(".") > 1 else path.stem
        values = {"@FOLDER@": str(self.folder), "@RUN@": run, "@SNAPSHOT@": self.snapshot,
                  "@SETTINGS@": self.settings, "@JOBS@": self.jobs, "@VC@": "Default-VC-abc12345"}  # fmt: skip
        return [re.sub("@[A-Z]+@", lambda found: values[found[0]], row).split() for row in rows]

    def restore(self) -> None:
        """Let every file be as it was."""
        window = self.folder / STATE / "window.json"
        for path in {*self._all(), window} - {*self.files} | {window}:
            _remove(path)
        for path, content in self.files.items():
            if path == window:
                continue
            if path.is_dir():
                _remove(path)
            if path.exists():
                path.chmod(0o600)  # else who is not root could not look
            if path.is_symlink() or not path.exists() or path.read_bytes() != content:
                path.unlink(missing_ok=True)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            path.chmod(0o600)
            os.chown(path, os.getuid(), os.getgid())


Damage = Callable[[bytes, random.Random], bytes]
ODD: tuple[Any, ...] = (
    None, True, -1, 10**30, 1.5, "", "x" * 5000, "\ud800", "2026-02-30", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z",
    [], {}, [[]], {"a": 1}, ["\x1b[2J"],
)  # fmt: skip


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the way to each value within a document."""
    if at:
        yield at
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield from places(value[key], (*at, key))


def mistyped(content: bytes, chance: random.Random) -> bytes:
    """Return a document of which one value is another, is gone, or has company; as a later version may write it."""
    lines, number = content.splitlines(keepends=True), 0
    if len(lines) > 1 and lines[0].startswith(b'{"'):  # a journal
        number = chance.randrange(len(lines))
    else:
        lines = [content]
    try:
        document = json.loads(lines[number])
        way = chance.choice([*places(document)])
    except (ValueError, IndexError):
        return chance.randbytes(len(content))
    within = document
    for key in way[:-1]:
        within = within[key]
    what = chance.randrange(4)
    if what == 0:
        del within[way[-1]]
    elif what == 1 and isinstance(within, dict):
        within["of-a-later-version"] = chance.choice(ODD)
    else:
        within[way[-1]] = chance.choice(ODD)
    document = {**document, "format": 99} if isinstance(document, dict) and not chance.randrange(8) else document
    as_written = len(lines) > 1 and isinstance(document, dict) and (what == 1 or document.get("format") == 99)
    lines[number] = resummed(document) if as_written else json.dumps(document).encode()
    return b"".join(lines)


def resummed(line: dict[str, Any]) -> bytes:
    """Return a line of a journal as whoever wrote it would have."""
    line.pop("sum", None)
    whole = json.dumps(line, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return whole[:-1] + f', "sum": "{zlib.crc32(whole):08x}"}}\n'.encode()


def cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content) + 1)]


def flipped(content: bytes, chance: random.Random) -> bytes:
    spoiled = bytearray(content or b"\0")  # an empty file gets a byte that nobody wrote
    for _ in range(chance.choice((1, 1, 8))):
        spoiled[chance.randrange(len(spoiled))] ^= 1 << chance.randrange(8)
    return bytes(spoiled)


def spliced(content: bytes, chance: random.Random) -> bytes:
    """Return it with something in its middle that no text has."""
    at = chance.randrange(len(content) + 1)
    found = chance.choice((b"\xff\xfe", b"\0", b"\n\n", b"{{", b"\t", b"\xed\xa0\x80", b"- &a [*a]\n", b"\x1b[2J"))
    return content[:at] + found + content[at:]


def replaced(content: bytes, chance: random.Random) -> bytes:
    return chance.choice(
        (b"", b"\n", b"[]", b"{}", b"null", b"7", b'"x"', b"\xff", b"[" * 100_000, b'{"x":' * 100_000, b"9" * 5000,
         b'{"x": "\\ud800"}', b"a: [b: c", b"x" * 70_000, b"%PDF-1.4\n", b"-----BEGIN OPENSSH PRIVATE KEY-----\n")
    )  # fmt: skip


DAMAGES: tuple[Damage, ...] = (cut, flipped, spliced, replaced, mistyped, mistyped, mistyped)
KINDS = [*READERS]


@pytest.fixture(scope="module")
def place(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A site whose every kind of file is there."""
    with Lab(copy(backed_up, tmp_path_factory.mktemp("inputs") / "lab")) as lab:
        for name, value in (("down-seconds", "0"), ("starting-seconds", "0"), ("command-seconds", "0.01")):
            lab.switch(name, value)
        yield Place(Operator(lab))


def damaged(place: Place, path: Path, chance: random.Random) -> str:
    """Damage a file, and return in which way."""
    path.write_bytes(place.files[path])
    if not chance.randrange(12):
        return misplaced(path, chance)
    damage = chance.choice(DAMAGES)
    if damage is mistyped and path.parent.name == "undo":
        undo = SealedUndo(place.folder / STATE, AgeSeal())
        content = mistyped(undo.fetch(path.name), chance)
        path.unlink()
        undo.keep(content, path.name)
        return f"{path.name} holds {content!r}"
    content = damage(place.files[path], chance)
    path.write_bytes(content)
    signature = path.with_name(f"{path.name}.sig")
    if signature.exists() and chance.randrange(2):
        signature.write_bytes(load_or_make_signer(None, place.folder / STATE / "keys", ()).sign(content))
    return f"{path.name} by {damage.__name__}: {content[:2000]!r}"


def misplaced(path: Path, chance: random.Random) -> str:
    """Let a file be of another mode, of another owner, a folder, a link that leads nowhere, or gone."""
    what = chance.choice(("mode", "owner", "folder", "link", "gone"))
    if what == "mode":
        path.chmod(chance.choice((0o000, 0o666, 0o644)))
    elif what == "owner":
        os.chown(path, 65534 if os.getuid() == 0 else os.getuid(), os.getgid())
    else:
        path.unlink()
        if what == "folder":
            path.mkdir()
        elif what == "link":
            path.symlink_to("nowhere")
    return f"{path.name}: {what}"


def test_a_damaged_file_of_any_kind_is_an_error_with_a_way_out(place: Place) -> None:
    chance = random.Random(SEED)
    every: dict[str, list[Path]] = {}
    for path in place.files:
        every.setdefault(str(place.commands(path)), []).append(path)
    failures = []
    for paths in every.values():
        for _ in range(ROUNDS):
            path = chance.choice(paths)
            rows = place.commands(path)
            for words in rows if FULL else [chance.choice(rows)]:
                how = damaged(place, path, chance)
                said = maint("--config", str(place.folder / "config.yaml"), "--allow-plain", *words)
                way_out = "hint:" in said.err or "`maint " in said.err or "maint host trust" in said.out + said.err
                silent = said.code not in TELLING and not way_out and words[0] != "doctor"
                if silent or said.code not in FORESEEN:
                    failures.append(f"{' '.join(words)} with {how}\n-> {said.code} {said.err}{crash(said.err)}")
                place.restore()
    assert not failures, "\n\n".join(failures[:5])


def crash(words: str) -> str:
    """Return where it crashed, from the report that a message names."""
    found = re.search(r"\S+/maint-crash-\S+", words)
    return Path(found[0]).read_text() if found else ""
