"""Prove that a virtual cluster works: a tiny job of our own runs, prints, and leaves nothing behind (J13)."""

import io
from collections.abc import Generator, Iterable
from pathlib import Path
from urllib.parse import urlsplit

from maint.config.schema import VirtualClusterSettings
from maint.errors import CannotReach, MaintError, NotTrusted, WorkFailed
from maint.model.formatting import show_count, show_duration
from maint.model.plan import Action, Effect
from maint.model.virtual_cluster import Object, Run
from maint.ports import Clock, Sight, Site, VirtualCluster, VirtualClusterSight, Work
from maint.ports.virtual_cluster import Content
from maint.steps.step import Progress, done, unchanged
from maint.steps.virtual_clusters.runs import (
    KERBEROS,
    OUTPUT,
    kinds_of_logs,
    last_words,
    logs_hint,
    once,
    output,
    room_hint,
    succeeded,
    user_hint,
)
from maint.steps.virtual_clusters.step import (
    VcArguments,
    VcStep,
    cluster_of,
    is_temporary,
    own_certificate,
    own_name,
    own_prefix,
)

APPLICATION = "smoke.py"
_LIMIT = 900.0  # seconds; starting takes 10 to 60 s, more where hosts must be added first (J6.3)
_LEFT = (
    "temporary jobs and resources may be left there: the next `maint vc smoke` or `maint vc spark submit` removes them"
)
_KERBEROS = (*KERBEROS, "principal", "secret")  # of an application of our own, which speaks of none
_SOURCE = """\
try:
    from pyspark.sql import SparkSession
except ImportError:
    pass
else:
    assert SparkSession.builder.getOrCreate().range(10).count() == 10
print("{marker}")
"""


def init_hint(settings: VirtualClusterSettings) -> str:
    """Return how a virtual cluster gets its certificate (J11.3)."""
    host = urlsplit(settings.base_url).hostname
    return (
        f"was it initialised? `maint vc init {settings.name}` does it; by hand, on an ECS master host: "
        f"cde-utils.sh init-virtual-cluster -h {host} -a"
    )


def role_hint(settings: VirtualClusterSettings) -> str:
    """Return how a user comes to see something."""
    return f"has {settings.login.username} a resource role such as DEUser? Manage Access of the environment gives it"


def sees_nothing(cluster: VirtualClusterSight) -> bool:
    """Whether a user sees neither jobs nor resources: lists are empty, not refused, without a role."""
    return not cluster.resources() and not cluster.jobs()


class ProbeCluster(VcStep[VcArguments]):
    """Log in to a virtual cluster, and ask its name and what its user sees."""

    kind = "vc.probe"
    effect = Effect.READ
    locks = False

    def plan(self, args: VcArguments, sight: Sight) -> Iterable[Action]:
        settings = sight.settings.virtual_cluster(args.vc)
        yield self.action(f"virtual cluster {settings.name}", f"look at {settings.base_url}", args.model_dump())

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        cluster = cluster_of(action, site)
        try:
            found = yield from looked(cluster)
        except CannotReach as error:
            raise mended(error, cluster.settings, site.state) from None
        return done(found)


def looked(cluster: VirtualClusterSight) -> Generator[str, None, str]:
    """Return in words what is there, saying on the way how far it came."""
    lifetime = cluster.token_until()
    good = f", good for {show_duration(lifetime)}" if lifetime is not None else ""
    yield f"the gateway gave {cluster.settings.login.username} a token{good}"
    name = cluster.info().get("appName")
    if sees_nothing(cluster):
        return f"{name} answers; the user sees no jobs and no resources ({role_hint(cluster.settings)})"
    return f"{name} answers, and the user sees jobs or resources"


def stranger(cluster: VirtualClusterSight) -> str:
    """Return in words that the gateway's token is another user's, empty where it is not, or does not tell."""
    ours, theirs = cluster.settings.login.username, cluster.token_user()
    if not theirs or _plain(theirs) == _plain(ours):
        return ""
    return (
        f"the gateway's token is of {theirs}, not of {ours}, and what is done is done in that name: the gateway may"
        " call users so, or something in front of it keeps the answers of others"
    )


def _plain(user: str) -> str:
    return user.partition("@")[0].casefold()  # with a realm or without, and a directory minds no case


def mended(error: CannotReach, settings: VirtualClusterSettings, state: Path) -> CannotReach:
    """Return a failure to get in, with what is probably missing where it is the certificate.

    Args:
        error: the failure; where nobody answers, or the user is not let in, it says itself what to do.
        state: the site's state folder, where a certificate lies that `vc.init` had made.
    """
    if not isinstance(error, NotTrusted):
        return error
    path = own_certificate(state, settings.name)
    trust = f"`maint vc init` had a certificate made: name {path} under `ca` of {settings.name} in the config"
    return NotTrusted(
        error.message,
        detail=[*error.detail, error.hint] if error.hint else error.detail,
        hint=trust if path.exists() and settings.ca != path else init_hint(settings),
    )


class Smoke(VcStep[VcArguments]):
    """Run a tiny job of our own and find its marker in its log; always with `vc.sweep` under `finally`."""

    kind = "vc.smoke"
    effect = Effect.CHANGE

    def plan(self, args: VcArguments, sight: Sight) -> Iterable[Action]:
        settings = sight.settings.virtual_cluster(args.vc)
        prefix = own_prefix(sight.settings.state)
        yield self.action(
            f"virtual cluster {settings.name}",
            f"create a resource and a job named {prefix}smoke-…, run it once, and read its log",
            args.model_dump(),
        )

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        cluster, name = cluster_of(action, site), own_name(site, work, "smoke")
        marker = f"{name} works"
        definition: Object = {"name": name, "type": "spark", "spark": {"file": APPLICATION}}
        source = _bytes(_SOURCE.format(marker=marker).encode())
        try:
            with site.clock.limit(None if work.timeout else _LIMIT):
                run = yield from once(cluster, site, work, definition, {APPLICATION: source})
        except WorkFailed as error:
            raise refused(error, cluster.settings) from None
        if not succeeded(run):
            failure = ended_badly(cluster, site.clock, run)
            work.note("told", run.id)
            raise failure
        text = output(cluster, site.clock, run.id, OUTPUT, whole=lambda found: marker.encode() in found)
        if text is None or marker.encode() not in text:
            work.note("told", run.id)
            raise WorkFailed(
                f"run {run.id} has succeeded, and its log does not hold what it printed",
                detail=last_words(cluster, site.clock, run.id, cluster.log_types(run.id)),
                hint=f"a run that succeeds may have done nothing: {logs_hint(run.id)}",
            )
        return done(f"run {run.id} printed its marker")


def _bytes(content: bytes) -> Content:
    return Content(lambda: io.BytesIO(content), len(content))


def refused(error: WorkFailed, settings: VirtualClusterSettings) -> MaintError:
    """Return why a run could not be started, with what is probably missing."""
    text = " ".join((error.message, *error.detail)).lower()
    if any(word in text for word in _KERBEROS):
        return WorkFailed(error.message, detail=error.detail, hint=user_hint(settings))
    return error


def ended_badly(cluster: VirtualClusterSight, clock: Clock, run: Run) -> WorkFailed:
    """Return why the run of a smoke test failed: without Kerberos secrets no job comes as far as its driver."""
    kinds = kinds_of_logs(cluster, clock, run)
    words, started = last_words(cluster, clock, run.id, kinds), any(kind.startswith("driver/") for kind in kinds)
    said = " ".join(words).lower()
    missing = not started or any(word in said for word in _KERBEROS)
    hint = room_hint(words) or (user_hint(cluster.settings) if missing else logs_hint(run.id, words))
    return WorkFailed(f"run {run.id} of the smoke test ended as {run.status}", detail=words, hint=hint)


class Sweep(VcStep[VcArguments]):
    """Remove temporary jobs and resources of this site, those of killed runs too; runs of them are killed first."""

    kind = "vc.sweep"
    effect = Effect.CHANGE
    tidies = True

    def plan(self, args: VcArguments, sight: Sight) -> Iterable[Action]:
        settings = sight.settings.virtual_cluster(args.vc)
        prefix = own_prefix(sight.settings.state)
        yield self.action(
            f"virtual cluster {settings.name}", f"remove jobs and resources named {prefix}…", args.model_dump()
        )

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        try:
            return (yield from _swept(cluster_of(action, site), site, work))
        except MaintError as error:
            error.detail = (*error.detail, _LEFT)
            raise


def _swept(cluster: VirtualCluster, site: Site, work: Work) -> Progress:
    swept = []
    for job in [one.name for one in cluster.jobs() if is_temporary(one.name, site.state, work.run)]:
        yield f"removing job {job}"
        run = cluster.newest_run(job)
        if run is not None and not run.ended:
            cluster.kill(run.id)
        cluster.delete_job(job)
        swept.append(job)
    for resource in [one.name for one in cluster.resources() if is_temporary(one.name, site.state, work.run)]:
        yield f"removing resource {resource}"
        cluster.delete_resource(resource)
        swept.append(resource)
    words = f"{show_count(len(swept), 'temporary object')} removed"
    return done(words) if swept else unchanged("nothing is left behind")
