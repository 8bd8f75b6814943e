"""Give a user of a virtual cluster Kerberos secrets, without a moment in which there are none (J11.4, J12)."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from pathlib import Path

import msgspec
from pydantic import Field

from maint.checks.kerberos import mending, mending_of_account
from maint.config.schema import VirtualClusterSettings, VirtualClusterUser
from maint.errors import Failure, MaintError, Refused, WorkFailed
from maint.files import explaining, opened, write_all
from maint.model.formatting import show_count, unknown
from maint.model.json import Json
from maint.model.keytab import BadKeytab, Key, newest_usable, parse
from maint.model.plan import Action, Effect
from maint.model.secret import SecretBytes
from maint.ports import Secrets, Sight, Site, Work
from maint.steps.step import Progress, Step, done, unchanged
from maint.steps.undo_records import KEPT_FOR
from maint.steps.virtual_clusters.init import InitArguments
from maint.steps.virtual_clusters.init_host import (
    MasterAnswer,
    address_of,
    call_utility,
    look,
    master_of,
    require_utility,
    sweep,
)
from maint.steps.virtual_clusters.kubernetes_secrets import (
    KubernetesSecrets,
    Manifest,
    Names,
    OldSecrets,
    contents_of,
    digest,
    keep,
    manifest,
    names_of,
    put_back,
    record_of,
)
from maint.steps.virtual_clusters.recover import refuse_other_name, trust_own
from maint.steps.virtual_clusters.safety_net import keep_replaced, note_replaced, way_back

_APPLY, _SCRIPT = "server-side apply", "the utility script"
_PRINCIPAL = r"[^@/\s\\]+(/[^@/\s\\]+)*@[^@/\s\\]+"
_MOST = 1024  # bytes of a principal file
_NOT = "not tried with kinit"
_KINIT_LIMIT = 30.0  # seconds; three tries at an unreachable KDC take 10 to 20
_NEEDED = ("PATH", "HOME", "KRB5_CONFIG")
# What kinit says, beside what `mending` knows, when it could not even ask.
_UNTOLD = ("cannot resolve", "no kdc", "configuration file", "can't open/find", "kdc unreachable")
_STALE = ("preauthentication failed", "password incorrect", "decrypt integrity", "key version", "pre-authentication")


class UserIdentity(msgspec.Struct, frozen=True):
    """What a user's jobs log in with."""

    principal: str  # its name
    keytab: SecretBytes  # the file as it is
    key: Key  # its newest usable key
    tried: str  # what kinit said to it, in words

    @property
    def files(self) -> Mapping[str, bytes]:
        """Both files, as the utility wants them."""
        return {"principal": f"{self.principal}\n".encode(), "keytab": self.keytab.reveal()}


def user_of(settings: VirtualClusterSettings, name: str) -> VirtualClusterUser:
    """Return a configured user; UnknownName: none of that name is configured."""
    for user in settings.users:
        if user.name == name:
            return user
    raise unknown(
        f"virtual cluster {settings.name} has no user {name!r} in the config",
        name,
        [user.name for user in settings.users],
        f"add `users: [{{name: {name}, principal: {name}@REALM, keytab: file:PATH}}]`",
    )


def identity_of(user: VirtualClusterUser, secrets: Secrets) -> UserIdentity:
    """Return a user's principal and keytab, once they have proven to fit each other, and the KDC where one answers.

    Raises:
        Invalid: a file cannot be read.
        Refused: they are not what jobs could log in with.
    """
    principal = principal_of(user)
    content = secrets.resolve_bytes(user.keytab)
    try:
        key = newest_usable(parse(content.reveal()), principal)
    except BadKeytab as error:
        raise Refused(
            f"the keytab of {user.name} is of no use: {error}",
            hint=f"make it anew for {principal}: `maint help virtual-clusters`",
        ) from None
    return UserIdentity(principal, content, key, try_login(user.name, principal, content, key, os.environ))


def principal_of(user: VirtualClusterUser) -> str:
    """Return the principal that the config names, or that stands in the file it names.

    Raises:
        Invalid: the file cannot be read.
        Refused: it is not one clean line `name@REALM`: a CR or a second line would become part of the name.
    """
    if not user.principal.startswith("file:"):
        content, where = user.principal.encode(), f"the principal of {user.name}"
    else:
        path = Path(user.principal.removeprefix("file:"))
        where = f"the principal file {path}"
        hint = "correct its path, or make it readable for the user who runs maint"
        with explaining(f"{where} cannot be read", hint), opened(path) as file:
            content = file.read(_MOST + 1)
        content = content.removesuffix(b"\n")
    if problem := _unclean(content):
        raise Refused(
            f"{where} {problem}", hint="it must be one line, name@REALM, and nothing else: `printf '%s\\n' NAME@REALM`"
        )
    return content.decode()


def _unclean(content: bytes) -> str:
    if content.startswith(b"\xef\xbb\xbf"):
        return "begins with a byte order mark"
    if b"\r" in content:
        return "has a carriage return at the end of its line"
    if b"\n" in content:
        return "has more than one line"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "is not UTF-8 text"
    if not text.isprintable() or not re.fullmatch(_PRINCIPAL, text):
        return "is not a principal of the form name@REALM"
    return ""


def refuse_older(identity: UserIdentity, live: Mapping[str, bytes] | None) -> None:
    """Refuse a keytab that is older than the one in place, where kinit could not tell.

    Args:
        identity: what is to be written.
        live: what the secret with the present keytab holds.

    Raises:
        Refused: it has an older key version of the same principal.
    """
    for content in (live or {}).values() if identity.tried.startswith(_NOT) else ():
        with contextlib.suppress(BadKeytab):
            there = newest_usable(parse(content), identity.principal)
            if there.version > identity.key.version:
                raise Refused(
                    f"the keytab has key version {identity.key.version} of {identity.principal}, and the virtual "
                    f"cluster has version {there.version} already",
                    detail=[identity.tried],
                    hint="export it anew; with a KDC in reach kinit tells which one is good",
                )


def try_login(user: str, principal: str, keytab: SecretBytes, key: Key, environ: Mapping[str, str]) -> str:
    """Log in with a keytab as a job would, and return in words that it worked, or why it was not tried.

    Ticket and keytab lie in memory only.

    Raises:
        Refused: the KDC does not accept it.
    """
    if shutil.which("kinit", path=environ.get("PATH")) is None:
        return f"{_NOT}: it is not installed here"
    if not hasattr(os, "memfd_create"):
        return f"{_NOT}: this system has no files in memory"
    try:
        ended = _kinit(principal, keytab, environ)
    except subprocess.TimeoutExpired:
        return f"{_NOT}: no KDC answered within {_KINIT_LIMIT:g} s"
    except OSError as error:
        return f"{_NOT}: {error.strerror}"
    if ended.returncode == 0:
        return "kinit with it works"
    words = " ".join(ended.stderr.decode(errors="replace").split()).removeprefix("kinit: ")
    lowered = words.lower()
    remedy = mending(words)
    if remedy or any(word in lowered for word in _UNTOLD):
        return f"{_NOT}: {words}{remedy and f'; to have it tried: {remedy}'}"
    stale = (
        f"the KDC has other keys than version {key.version} in the keytab: it is older than the KDC's, "
        "or was made with another password or salt"
    )
    anew = f"export it anew (`ktadd -norandkey` keeps the keys that others hold), and compare `kvno {principal}`"
    raise Refused(
        f"the KDC refuses the keytab of {user}",
        detail=[f"kinit: {words}", *([stale] if any(word in lowered for word in _STALE) else [])],
        hint=mending_of_account(words, principal, made_by=f"the principal of {user} in the config") or anew,
    )


def _kinit(principal: str, keytab: SecretBytes, environ: Mapping[str, str]) -> "subprocess.CompletedProcess[bytes]":
    handle = os.memfd_create("maint-keytab")
    try:
        write_all(handle, keytab.reveal())
        kept = {name: environ[name] for name in _NEEDED if name in environ}
        return subprocess.run(
            ["kinit", "-k", "-t", f"FILE:/proc/self/fd/{handle}", principal],
            env={**kept, "KRB5CCNAME": "MEMORY:maint", "LC_ALL": "C"},
            pass_fds=[handle],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_KINIT_LIMIT,
            check=False,
        )
    finally:
        os.close(handle)


class InitUserArguments(InitArguments):
    """Which user of the virtual cluster."""

    user: str = Field(description="a user under `users:` of the virtual cluster")


class InitUser(Step[InitUserArguments]):
    """Give a user of a virtual cluster its Kerberos principal and keytab, proven here first; old or new, never none."""

    kind = "vc.init_user"
    effect = Effect.CHANGE

    def plan(self, args: InitUserArguments, sight: Sight) -> Iterable[Action]:
        settings, names = sight.settings.virtual_cluster(args.vc), names_of(args.user)
        identity = identity_of(user_of(settings, args.user), sight.secrets)
        arguments: dict[str, Json] = {"vc": settings.name, "user": args.user, "later": args.later}
        words = f"give {args.user} the keys of {identity.principal} (version {identity.key.version}"
        if args.later:
            yield self.action(f"user {args.user} of virtual cluster {settings.name}", f"{words})", arguments)
            return
        address, host = address_of(settings), master_of(sight)
        found = look(sight.shell, host, address, settings.utility)
        cabinet = KubernetesSecrets(host, address.namespace)
        live = cabinet.read(sight.shell, names.both)
        effect, facts = Effect.CHANGE, digest(names.both, live)
        if facts == digest(names.both, _wanted(names, identity)):
            effect, words = Effect.READ, f"{args.user} has these keys of {identity.principal} already"
        else:
            refuse_older(identity, contents_of(live.get(names.keytab)))
            words = f"{words}; {identity.tried}){self._way(sight, cabinet, names, found, settings)}"
        yield self.action(
            f"secrets {names.principal}, {names.keytab} in {address.namespace}",
            words,
            arguments,
            effect=effect,
            undo=f"`maint vc undo RUN`, for {KEPT_FOR.days} days" if live else "",
            facts={"secrets": facts},
        )

    @staticmethod
    def _way(
        sight: Sight, cabinet: KubernetesSecrets, names: Names, found: MasterAnswer, settings: VirtualClusterSettings
    ) -> str:
        """Return in words how it is written; the script must be there where it is needed."""
        if cabinet.takes_apply(sight.shell, names.both):
            return f", by {_APPLY}"
        require_utility(found, settings)
        return f", by {_SCRIPT}, which deletes before it creates: the old ones are sealed first"

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        settings = site.settings.virtual_cluster(str(action.arguments["vc"]))
        user = str(action.arguments["user"])
        address, names, host = address_of(settings), names_of(user), master_of(site)
        identity = identity_of(user_of(settings, user), site.secrets)
        yield f"the keytab holds a usable key of {identity.principal}; {identity.tried}"
        if action.arguments["later"] is True:  # it was not there when this was planned: is it the right one?
            trust_own(site, settings.name)
            refuse_other_name(work, site.virtual_cluster(settings.name))
        found = look(site.shell, host, address, settings.utility)
        sweep(site.shell, host, site.state)
        change = _Change(site, settings, names, KubernetesSecrets(host, address.namespace), identity)
        noted = partial(note_replaced, site, work.run, settings.name, user)
        replaced = partial(keep_replaced, site, work, settings.name, user)
        result = yield from change.carry_out(found, user, work, noted, replaced)
        return msgspec.structs.replace(result, detail=f"{result.detail}{way_back(site.state, work.run)}")

    def holds(self, action: Action, site: Site, work: Work) -> bool:
        settings = site.settings.virtual_cluster(str(action.arguments["vc"]))
        user = str(action.arguments["user"])
        address, names = address_of(settings), names_of(user)
        live = KubernetesSecrets(master_of(site), address.namespace).read(site.shell, names.both)
        identity = identity_of(user_of(settings, user), site.secrets)
        return digest(names.both, live) == digest(names.both, _wanted(names, identity))


def _wanted(names: Names, identity: UserIdentity) -> Mapping[str, Manifest]:
    """Return both secrets, each with one key named like itself."""
    files = identity.files
    contents = {names.principal: files["principal"], names.keytab: files["keytab"]}
    return {name: manifest(name, {name: content}) for name, content in contents.items()}


class _Change:
    """The change of one user's secrets."""

    def __init__(
        self,
        site: Site,
        settings: VirtualClusterSettings,
        names: Names,
        cabinet: KubernetesSecrets,
        identity: UserIdentity,
    ) -> None:
        self._site, self._settings, self._address, self._names = site, settings, address_of(settings), names
        self._cabinet, self._identity = cabinet, identity
        self._wanted = _wanted(names, identity)
        self._fresh = digest(names.both, self._wanted)

    def carry_out(
        self,
        found: MasterAnswer,
        user: str,
        work: Work,
        noted: Callable[[OldSecrets], None],
        replaced: Callable[[OldSecrets, str], str],
    ) -> Progress:
        """Seal, write, look; before the first write `noted` takes what is there, afterwards `replaced` with the digest
        of what is there then, and returns in words how it comes back.
        """
        site, both = self._site, self._names.both
        live = self._cabinet.read(site.shell, both)
        path = record_of(site.state, self._address.namespace, self._names.keytab)
        now, earlier = digest(both, live), list[str]()
        kept = keep(path, site.undo, both, live, self._wanted, work.run, lambda one: earlier.append(replaced(one, now)))
        yield from (f"the secrets of {user} before these are kept{words}" for words in earlier if words)
        if now == self._fresh:
            replaced(kept, now)
            return unchanged(f"{user} has these keys of {self._identity.principal} already")
        if live:
            yield f"the present {show_count(len(live), 'secret')} of {user} sealed in the state folder"
        apply = self._cabinet.takes_apply(site.shell, both)
        noted(kept)
        try:
            yield from self._write(found, user, apply=apply)
        except (MaintError, KeyboardInterrupt) as error:
            if not work.heir():  # else it is that machine's now; the seal stays for the machine that takes the run up
                yield from self._back(kept, error, partial(replaced, kept), apply=apply)
            raise
        replaced(kept, self._fresh)
        way = _APPLY if apply else _SCRIPT
        return done(
            f"{user} has the keys of {self._identity.principal}, by {way}; running pods see them at their next run"
        )

    def _write(self, found: MasterAnswer, user: str, *, apply: bool) -> Generator[str, None, None]:
        shell, both = self._site.shell, self._names.both
        if apply:
            yield f"writing both secrets by {_APPLY}"
            self._cabinet.apply(shell, self._site.state, list(self._wanted.values()))
        else:
            yield f"calling {_SCRIPT} on {found.host}"
            self._call(found, user)
        if digest(both, self._cabinet.read(shell, both)) != self._fresh:
            raise WorkFailed(
                f"the secrets of {user} are not what was written",
                hint="does something else write them? Then `maint playbook resume`",
            )

    def _call(self, found: MasterAnswer, user: str) -> None:
        how = f'-h {self._address.host} -u {shlex.quote(user)} -p "$d/in/principal" -k "$d/in/keytab"'
        call_utility(self._site, found, self._settings, f"init-user-in-virtual-cluster {how}", self._identity.files)

    def _back(
        self, kept: OldSecrets, error: BaseException, replaced: Callable[[str], str], *, apply: bool
    ) -> Generator[str, None, None]:
        """Put the old secrets back, unless the change has come about; where that fails too, they stay sealed for the
        next attempt.
        """
        shell, both = self._site.shell, self._names.both
        try:
            sweep(shell, self._cabinet.host, self._site.state)  # which waits for what still goes on there
            now = digest(both, self._cabinet.read(shell, both))
            if now not in (self._fresh, digest(both, kept.old)):
                yield from put_back(kept, self._cabinet, shell, self._site.state, apply=apply)
        except Failure as second:
            raise WorkFailed(
                f"{error}; and the old secrets could not be put back: {second.message}",
                detail=[*getattr(error, "detail", ()), *second.detail],
                hint="they are sealed in the state folder, and `maint playbook resume` goes on with them at hand",
            ) from error
        replaced(now if now == self._fresh else digest(both, kept.old))
