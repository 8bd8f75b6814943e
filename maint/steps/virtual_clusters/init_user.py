"""Give a user of a virtual cluster Kerberos secrets, without a moment in which there are none (jobs API, 11.4, 12)."""

import shlex
from collections.abc import Generator, Iterable, Mapping

from pydantic import Field

from maint.config.schema import VirtualClusterSettings
from maint.errors import MaintError, WorkFailed
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, Work
from maint.steps.step import Progress, Step, done, unchanged
from maint.steps.virtual_clusters.identity import Identity, identity_of, refuse_older, user_of
from maint.steps.virtual_clusters.init import InitArguments
from maint.steps.virtual_clusters.init_host import (
    SETUP,
    Address,
    Found,
    address_of,
    last_words,
    look,
    master_of,
    require_utility,
)
from maint.steps.virtual_clusters.kubernetes_secrets import Cabinet, Manifest, Names, contents_of, manifest, names_of
from maint.steps.virtual_clusters.secrets_undo import Kept, digest, forget, keep, put_back, record_of
from maint.steps.virtual_clusters.temp_dir import fed, script, sweep

_APPLY, _SCRIPT = "server-side apply", "the utility script"


class InitUserArguments(InitArguments):
    """Which user of the virtual cluster."""

    user: str = Field(description="a user under `users:` of the virtual cluster")


class InitUser(Step[InitUserArguments]):
    """Writes a user's secrets; the old ones are sealed first, and come back when the new ones do not."""

    kind = "vc.init_user"
    help = (
        "Give a user of a virtual cluster its Kerberos principal and keytab, proven here first; old or new, never none."
    )
    effect = Effect.CHANGE
    arguments = InitUserArguments

    def plan(self, args: InitUserArguments, sight: Sight) -> Iterable[Action]:
        """Prove principal and keytab, look at the virtual cluster, and plan what must be written."""
        settings, names = sight.settings.virtual_cluster(args.vc), names_of(args.user)
        identity = identity_of(user_of(settings, args.user), sight.secrets)
        arguments: dict[str, Json] = {"vc": settings.name, "user": args.user, "later": args.later}
        words = f"give {args.user} the keys of {identity.principal} (version {identity.key.version}"
        if args.later:
            yield self.action(f"user {args.user} of virtual cluster {settings.name}", f"{words})", arguments)
            return
        address, host = address_of(settings), master_of(sight)
        found = look(sight.shell, host, address, settings.utility)
        cabinet = Cabinet(host, address.namespace)
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
            undo=f"`maint vc init-user {settings.name} {args.user}` with the keytab of before in the config",
            facts={"secrets": facts},
        )

    @staticmethod
    def _way(sight: Sight, cabinet: Cabinet, names: Names, found: Found, settings: VirtualClusterSettings) -> str:
        """Return in words how it is written; the script must be there where it is needed."""
        if cabinet.takes_apply(sight.shell, names.both):
            return f", by {_APPLY}"
        require_utility(found, settings)
        return f", by {_SCRIPT}, which deletes before it creates: the old ones are sealed first"

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Prove again, keep the old ones, write, verify, put back where that fails."""
        settings = site.settings.virtual_cluster(str(action.arguments["vc"]))
        user = str(action.arguments["user"])
        address, names, host = address_of(settings), names_of(user), master_of(site)
        identity = identity_of(user_of(settings, user), site.secrets)
        yield f"the keytab holds a usable key of {identity.principal}; {identity.tried}"
        found = look(site.shell, host, address, settings.utility)
        sweep(site.shell, host, site.state)
        change = _Change(site, address, names, Cabinet(host, address.namespace), identity)
        return (yield from change.carry_out(found, user))

    def holds(self, action: Action, site: Site, work: Work) -> bool:
        """Whether the user has these secrets still."""
        settings = site.settings.virtual_cluster(str(action.arguments["vc"]))
        user = str(action.arguments["user"])
        address, names = address_of(settings), names_of(user)
        live = Cabinet(master_of(site), address.namespace).read(site.shell, names.both)
        identity = identity_of(user_of(settings, user), site.secrets)
        return digest(names.both, live) == digest(names.both, _wanted(names, identity))


def _wanted(names: Names, identity: Identity) -> Mapping[str, Manifest]:
    """Return both secrets, each with one key named like itself."""
    files = identity.files
    contents = {names.principal: files["principal"], names.keytab: files["keytab"]}
    return {name: manifest(name, {name: content}) for name, content in contents.items()}


class _Change:
    """The change of one user's secrets."""

    def __init__(self, site: Site, address: Address, names: Names, cabinet: Cabinet, identity: Identity) -> None:
        self._site, self._address, self._names = site, address, names
        self._cabinet, self._identity = cabinet, identity
        self._wanted = _wanted(names, identity)
        self._fresh = digest(names.both, self._wanted)

    def carry_out(self, found: Found, user: str) -> Progress:
        """Write the secrets, or put the old ones back."""
        site, both = self._site, self._names.both
        live = self._cabinet.read(site.shell, both)
        path = record_of(site.state, self._address.namespace, self._names.keytab)
        kept = keep(path, site.undo, both, live, self._fresh)
        if digest(both, live) == self._fresh:
            forget(kept, site.undo)
            return unchanged(f"{user} has these keys of {self._identity.principal} already")
        if live:
            yield f"the present {show_count(len(live), 'secret')} of {user} sealed in the state folder"
        apply = self._cabinet.takes_apply(site.shell, both)
        try:
            yield from self._write(found, user, apply=apply)
        except (MaintError, KeyboardInterrupt) as error:
            yield from self._back(kept, error, apply=apply)
            raise
        forget(kept, site.undo)
        way = _APPLY if apply else _SCRIPT
        return done(
            f"{user} has the keys of {self._identity.principal}, by {way}; running pods see them at their next run"
        )

    def _write(self, found: Found, user: str, *, apply: bool) -> Generator[str, None, None]:
        shell, both = self._site.shell, self._names.both
        if apply:
            yield f"writing both secrets by {_APPLY}"
            self._cabinet.apply(shell, list(self._wanted.values()))
        else:
            yield f"calling {_SCRIPT} on {found.host}"
            self._call(found, user)
        if digest(both, self._cabinet.read(shell, both)) != self._fresh:
            raise WorkFailed(
                f"the secrets of {user} are not what was written",
                hint="does something else write them? Then `maint playbook resume`",
            )

    def _call(self, found: Found, user: str) -> None:
        """Run the script; keytab and principal come over standard input and lie in a private folder while it runs."""
        settings = next(one for one in self._site.settings.virtual_clusters if address_of(one) == self._address)
        utility, files = require_utility(found, settings), self._identity.files
        body = (
            f"bash {shlex.quote(utility)} init-user-in-virtual-cluster -h {self._address.host} -u {shlex.quote(user)}"
            ' -p "$d/in/principal" -k "$d/in/keytab"'
        )
        ran = self._site.shell.run(
            found.host, SETUP + script(self._site.state, files, body), stdin=fed(files), timeout=300.0
        )
        if not ran.ok:
            raise WorkFailed(
                f"{found.host}: {_SCRIPT} failed (exit {ran.status})",
                detail=last_words(ran),
                hint="mend what it names, then `maint playbook resume`",
            )

    def _back(self, kept: Kept, error: BaseException, *, apply: bool) -> Generator[str, None, None]:
        """Put the old secrets back; where that fails too, they stay sealed for the next life of the run."""
        shell, both = self._site.shell, self._names.both
        try:
            sweep(shell, self._cabinet.host, self._site.state)  # which waits for a script that still goes on
            if digest(both, self._cabinet.read(shell, both)) not in (digest(both, kept.old), self._fresh):
                yield from put_back(kept, self._cabinet, shell, apply=apply)
        except MaintError as second:
            raise WorkFailed(
                f"{error}; and the old secrets could not be put back: {second.message}",
                detail=[*getattr(error, "detail", ()), *second.detail],
                hint="they are sealed in the state folder, and `maint playbook resume` goes on with them at hand",
            ) from error
        forget(kept, self._site.undo)
