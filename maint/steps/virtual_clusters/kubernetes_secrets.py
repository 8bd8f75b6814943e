"""Kubernetes secrets of a virtual cluster's users: read, written without a gap, sealed before and put back (J11.4)."""

import base64
import binascii
import hashlib
import json
import re
import shlex
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from maint import files
from maint.checks.ecs import KUBECTL
from maint.errors import NotKept, Refused, WorkFailed
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.ports import Ran, Shell, ShellSight, Undo
from maint.steps.virtual_clusters.init_host import SETUP, fed, kubectl, script

_NAME = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_ENCODED = r"[A-Za-z0-9+/=]{24,}"
_LONGEST = 253
_APPLY = ("server-side", "force-conflicts", "field-manager=maint")
_UNKNOWN = ("unknown flag", "unknown shorthand", "unsupportedmediatype", "unsupported media type", "unknown format")
_ABSENT = "notfound"
Manifest = Mapping[str, Json]
_FOLDER = "user-secrets"


class _Record(msgspec.Struct, frozen=True):
    sealed: str  # name of the sealed secrets that were there before
    fresh: str  # digest of those that are to be written
    run: str = ""  # whose change that is; empty in old records
    written: Sequence[str] = ()  # digests of all single secrets that were to be written since; empty in old records


class Names(msgspec.Struct, frozen=True):
    """The names of a user's two secrets."""

    principal: str
    keytab: str

    @property
    def both(self) -> tuple[str, str]:
        """Both names."""
        return self.principal, self.keytab


def names_of(user: str) -> Names:
    """Return the names of a user's secrets: every `_` becomes `---`, and nothing else is mapped.

    Raises:
        Refused: Kubernetes allows no such name.
    """
    name = user.replace("_", "---")
    names = Names(f"{name}-krb5-principal", f"{name}-krb5-secret")
    if not re.fullmatch(_NAME, names.principal) or len(names.principal) > _LONGEST:
        raise Refused(
            f"user {user!r} cannot have secrets: {names.principal!r} is not a name that Kubernetes allows",
            hint="lower-case letters, digits, `-`, `_` and `.`; see `users:` of the virtual cluster in the config",
        )
    return names


class KubernetesSecrets:
    """The secrets of one namespace, asked for and changed with kubectl on the master.

    Args:
        space: the namespace.
    """

    def __init__(self, host: str, space: str) -> None:
        self.host = host
        self._space = space

    def read(self, shell: ShellSight, names: Sequence[str]) -> dict[str, Manifest]:
        """Return those secrets that are there, by name; WorkFailed: kubectl does not answer."""
        if not names:  # which kubectl would take for all that the namespace has
            return {}
        ran = self._ask(shell, f"get secret {' '.join(names)} -n {self._space} -o json", "ignore-not-found")
        if not ran.ok:
            raise self._failed("secrets cannot be read", ran)
        try:
            found = json.loads(ran.out) if ran.out.strip() else {}
            items = found.get("items", []) if found.get("kind") == "List" else [found] if found else []
            return {str(item["metadata"]["name"]): _kept(item) for item in items}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._failed("secrets cannot be read: kubectl does not print what it should", ran) from None

    def takes_apply(self, shell: ShellSight, names: Sequence[str]) -> bool:
        """Whether server-side apply is to be had, and would let us write these secrets; nothing is written.

        Raises:
            WorkFailed: it would not, for another reason.
        """
        probe = _listed([manifest(name, {}) for name in names])
        ran = self._ask(shell, f"apply -n {self._space} -f -", *_APPLY, "dry-run=server", stdin=probe)
        said = ran.err.decode(errors="replace").lower()
        if ran.ok:
            return True
        if any(word in said for word in _UNKNOWN):
            return False
        raise self._failed("secrets could not be written", ran)

    def apply(self, shell: Shell, state: Path, manifests: Sequence[Manifest]) -> None:
        """Write secrets by server-side apply: each one old or new at any time; where the caller is gone, `sweep` waits.

        Args:
            state: the site's state folder.

        Raises:
            WorkFailed: not all could be written.
        """
        files = {"secrets": _listed(manifests)}
        options = " ".join(f"--{option}" for option in _APPLY)
        body = f'kubectl apply -n {self._space} -f "$d/in/secrets" {options}'
        ran = shell.run(self.host, SETUP + script(state, files, body), stdin=fed(files), timeout=300.0)
        if not ran.ok:
            raise self._failed("the secrets could not be written", ran)

    def put(self, shell: Shell, wanted: Manifest) -> None:
        """Write one secret where there is no server-side apply: replaced where it is there, else created.

        Raises:
            WorkFailed: it could not be written.
        """
        content = json.dumps(wanted).encode()
        ran = self._act(shell, f"replace -n {self._space} -f -", stdin=content)
        if not ran.ok and _ABSENT in ran.err.decode(errors="replace").lower():
            ran = self._act(shell, f"create -n {self._space} -f -", stdin=content)
        if not ran.ok:
            raise self._failed("a secret could not be put back", ran)

    def remove(self, shell: Shell, name: str) -> None:
        """Remove a secret that was not there before; WorkFailed: it could not be removed."""
        ran = self._act(shell, f"delete secret {name} -n {self._space}", "ignore-not-found")
        if not ran.ok:
            raise self._failed("a secret that was not there before could not be removed", ran)

    def _ask(self, shell: ShellSight, words: str, *options: str, stdin: bytes = b"") -> Ran:
        return shell.ask(self.host, kubectl(words, *options), stdin=stdin, timeout=90.0)

    def _act(self, shell: Shell, words: str, *options: str, stdin: bytes = b"") -> Ran:
        return shell.run(self.host, kubectl(words, *options), stdin=stdin, timeout=90.0)

    def _failed(self, problem: str, ran: Ran) -> WorkFailed:
        hint = f"on {self.host}: `{KUBECTL} get secrets -n {shlex.quote(self._space)}`"
        # Some messages of kubectl quote what was sent.
        said = [re.sub(_ENCODED, "…", line) for line in ran.last_words]
        return WorkFailed(f"{self.host}: {problem}", detail=said, hint=hint)


def manifest(name: str, contents: Mapping[str, bytes]) -> Manifest:
    """Return a generic secret."""
    data = {key: base64.b64encode(content).decode() for key, content in contents.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": "Opaque", "data": data}


def contents_of(secret: Manifest | None) -> Mapping[str, bytes] | None:
    """Return what a secret holds, None where there is none or it cannot be read."""
    if secret is None:
        return None
    data = cast(Mapping[str, str], secret.get("data") or {})
    try:
        return {key: base64.b64decode(text, validate=True) for key, text in data.items()}
    except (binascii.Error, ValueError):
        return None


def _kept(item: Mapping[str, Json]) -> Manifest:
    """Return a secret without what the server says about it, so that it can be written again."""
    known = cast(Mapping[str, Json], item["metadata"])
    metadata = {key: known[key] for key in ("name", "labels", "annotations") if known.get(key)}
    kind = item.get("type") or "Opaque"
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": item.get("data") or {}}


def _listed(manifests: Sequence[Manifest]) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)}).encode()


class OldSecrets(msgspec.Struct, frozen=True):
    """The old secrets of a user."""

    old: Mapping[str, Manifest | None]  # by name; None for one that was not there
    sealed: str  # the name under which they are sealed
    path: Path  # the record that says so
    run: str = ""  # the run that replaces them; empty where an old record does not say


def record_of(state: Path, namespace: str, secret: str) -> Path:
    """Return where it is written down that a user's old secrets are kept."""
    return state / _FOLDER / f"{namespace}.{secret}.json"


def keep(
    path: Path,
    undo: Undo,
    names: Sequence[str],
    live: Mapping[str, Manifest],
    fresh: Mapping[str, Manifest],
    run: str,
    replaced: Callable[[OldSecrets], None],
) -> OldSecrets:
    """Seal the secrets that are to come back on failure, on disk before this returns.

    What an earlier attempt or run had sealed counts instead, unless it got as far as the new secrets or had not begun:
    what is there now may be half of a change. It is not where it holds what nobody meant to write here.

    Args:
        names: both secrets.
        live: what is there now.
        fresh: the secrets that are to be written.
        run: the run that is to write them.
        replaced: takes what an earlier attempt or run had sealed that got as far as the new secrets, or was overtaken,
            or had changed nothing yet.
    """
    before, record = _read_record(path, undo), _Record("", digest(names, fresh), run, _each(names, fresh))
    if before is not None:
        kept, earlier = before
        now, single = digest(names, live), {*earlier.written, *_each(names, kept.old), *_each(names, {})}
        there = now in (digest(names, kept.old), earlier.fresh)
        if there or (earlier.written and not single.issuperset(_each(names, live))):
            replaced(kept)
        else:
            both = (*earlier.written, *record.written)
            return _written(OldSecrets(kept.old, kept.sealed, path, run), replace(record, written=both))
    old: dict[str, Manifest | None] = {name: live.get(name) for name in names}
    return _written(OldSecrets(old, undo.keep(json.dumps(old).encode()), path, run), record)


def _each(names: Sequence[str], secrets: Mapping[str, Manifest | None]) -> Sequence[str]:
    return [digest([name], secrets) for name in names]


def _written(kept: OldSecrets, record: _Record) -> OldSecrets:
    files.replace(kept.path, msgspec.json.encode(replace(record, sealed=kept.sealed)))
    return kept


def _read_record(path: Path, undo: Undo) -> tuple[OldSecrets, _Record] | None:
    try:
        record = files.load(path, _Record)
        if record is None:
            return None
        old = files.decoded(undo.fetch(record.sealed), dict[str, dict[str, Any] | None])
    except NotKept:  # the record goes after what it names
        return None
    except files.Damaged as error:
        raise WorkFailed(
            f"{path} is damaged: which secrets were there before is not known",
            detail=[str(error)],
            hint="look at the user's secrets in the cluster; then move the file away",
        ) from None
    return OldSecrets(old, record.sealed, path, record.run), record


def forget(kept: OldSecrets, undo: Undo) -> None:
    """Drop what was kept."""
    undo.drop(kept.sealed)
    files.remove(kept.path)


def digest(names: Sequence[str], secrets: Mapping[str, Manifest | None]) -> str:
    """Return a digest of what secrets hold; labels and the like do not count."""
    held = []
    for name in names:
        contents = contents_of(secrets.get(name))
        held.append([name, None if contents is None else sorted((k, hash_of(v)) for k, v in contents.items())])
    return hash_of(json.dumps(held).encode())


def hash_of(content: bytes) -> str:
    """Return the SHA-256 in hex."""
    return hashlib.sha256(content).hexdigest()


def put_back(
    kept: OldSecrets, cabinet: KubernetesSecrets, shell: Shell, state: Path, *, apply: bool
) -> Generator[str, None, None]:
    """Write the old secrets again; one that was not there goes.

    Args:
        kept: what they were.
        state: the site's state folder.
        apply: whether server-side apply is to be had.

    Raises:
        WorkFailed: not all could be put back.
    """
    there = [secret for secret in kept.old.values() if secret is not None]
    yield f"putting {show_count(len(there), 'old secret')} back"
    if apply and there:
        cabinet.apply(shell, state, there)
    for secret in () if apply else there:
        cabinet.put(shell, secret)
    for name in (name for name, secret in kept.old.items() if secret is None):
        cabinet.remove(shell, name)
