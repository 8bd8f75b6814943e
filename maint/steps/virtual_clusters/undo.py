"""`vc.undo`: bring back what a run deleted or replaced."""

import json
from collections.abc import Generator, Iterable
from contextlib import suppress
from pathlib import Path
from typing import cast

from pydantic import Field

from maint import files
from maint.errors import Refused, WorkFailed
from maint.model.certificate import first_of, pem
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.plan import Action, Effect
from maint.model.virtual_cluster import Object, same_job, same_resource, sendable_job, sendable_resource
from maint.ports import Sight, Site, VirtualCluster, VirtualClusterSight, Work
from maint.steps.step import Progress, done, unchanged
from maint.steps.undo_records import KEPT_FOR, content, prove_kept
from maint.steps.virtual_clusters import kubernetes_secrets, safety_net
from maint.steps.virtual_clusters.certificate import served
from maint.steps.virtual_clusters.init_host import address_of, master_of, sweep
from maint.steps.virtual_clusters.step import VcArguments, VcStep, cluster_of, own_certificate
from maint.steps.virtual_clusters.uploads import refuse_other_bytes, unread_dags, watched

_BEGUN = "newest run before"  # the note about a job's runs before it was made: later ones it began by itself


class UndoDeletionsArguments(VcArguments):
    """Which run's deletions come back."""

    run: str = Field(description="id of the run that deleted")


class UndoDeletions(VcStep[UndoDeletionsArguments]):
    """Bring back the jobs, resources, files, certificates and keytabs that a run removed or replaced; schedules stay
    paused.
    """

    kind = "vc.undo"
    effect = Effect.CHANGE

    def plan(self, args: UndoDeletionsArguments, sight: Sight) -> Iterable[Action]:
        record = safety_net.removed(sight.settings.state, args.run)
        if record is not None and record.until < sight.clock.now():
            record = None
        kept = [one for one in record.named() if args.vc in ("", one.vc)] if record else []
        if not kept:
            raise Refused(
                f"nothing that run {args.run} deleted is kept",
                hint=f"it is kept for {KEPT_FOR.days} days, or until it was brought back; `maint playbook history`"
                f" lists the runs; settings of the manager go back by `maint playbook undo {args.run}`",
            )
        several = len({one.vc for one in kept}) > 1
        # Of what was sealed several times the first is what was there before the run: it comes last, or alone.
        first = dict[tuple[str, ...], safety_net.SealedObject]()
        for one in reversed(kept):
            key = (one.vc, one.what, one.name, *(file.path for file in one.files))
            first = {**{other: each for other, each in first.items() if other != key}, key: one}
        for one in sorted(first.values(), key=lambda one: one.what == "job"):
            cluster = sight.virtual_cluster(one.vc)
            there = one.what in (safety_net.CERTIFICATE, safety_net.KEYTAB) or _there(cluster, one)
            count = f" with {show_count(len(one.files), 'file')}" if one.files else ""
            place = f" of virtual cluster {one.vc}" if several else ""
            words = f"bring back {one.what} {one.name}{count}{place}"
            words += "; what is there under its name is sealed and REPLACED where it differs" if there else ""
            words += "; schedule paused" if one.what == "job" else ""
            words += ", before which the DAG may START A RUN: that is looked at" if one.races else ""
            arguments: dict[str, Json] = {"vc": one.vc, "run": args.run, "object": one.definition}
            yield self.action(f"{one.what} {one.name}{place}", words, arguments, facts={"there": there})

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        run, name = str(action.arguments["run"]), str(action.arguments["object"])
        record = safety_net.removed(site.state, run)
        one = next((one for one in record.objects if one.definition == name), None) if record else None
        if record is None or one is None:
            return unchanged("it is back already")
        raw, cluster = cast(Object, json.loads(site.undo.fetch(one.definition))), cluster_of(action, site)
        own = {
            "job": self._job_back,
            safety_net.CERTIFICATE: self._certificate_back,
            safety_net.KEYTAB: self._keytab_back,
        }
        words = yield from own.get(one.what, self._resource_back)(site, work, cluster, raw, one)
        safety_net.came_back(site, run, one)
        return done(f"{one.what} {one.name} is back{words}{safety_net.way_back(site.state, work.run)}")

    @staticmethod
    def _job_back(
        site: Site, work: Work, cluster: VirtualCluster, raw: Object, one: safety_net.SealedObject
    ) -> Generator[str, None, str]:
        live, words = cluster.job(one.name), ", as it was"
        same = live is not None and same_job(live, sendable_job(raw), pauses=False)
        if live is not None and not same:
            yield from safety_net.seal_before(site, work, cluster, live, "")
            cluster.delete_job(one.name)
        if live is None or not same:
            yield f"creating job {one.name}"
            newest = cluster.newest_run(one.name) if one.races else None
            work.note(_BEGUN, newest.id if newest else 0)
            work.note("made", one.name)
            words = safety_net.create_asleep(cluster, site.clock, raw)
        elif work.noted("made") == one.name:  # an earlier attempt may have ended before it was paused
            safety_net.rest_made(cluster, site.clock, live)
        else:
            return words
        begun = work.noted(_BEGUN)
        if one.races and isinstance(begun, int):
            yield f"waiting whether DAG {one.name} started by itself"
            site.clock.sleep(safety_net.PARSED)
            started = safety_net.started_by_itself(cluster, one.name, begun)
            words += f"; {started or 'no run of it started by itself'}"
        return words

    @staticmethod
    def _certificate_back(
        site: Site, work: Work, cluster: VirtualCluster, raw: Object, one: safety_net.SealedObject
    ) -> Generator[str, None, str]:
        cabinet = kubernetes_secrets.KubernetesSecrets(master_of(site), address_of(cluster.settings).service_namespace)
        sweep(site.shell, cabinet.host, site.state)  # which waits for what a killed run still writes there
        there = cabinet.read(site.shell, [one.name]).get(one.name)
        same = there is not None and there.get("data") == raw["data"]
        held, trusted = dict[str, bytes](), ""
        with suppress(ValueError):  # what was there before was not a certificate
            held = {one.name: first_of((kubernetes_secrets.contents_of(raw) or {}).get("tls.crt", b""))}
            trusted = _trusted_too(site.state, cluster.settings.name, held[one.name])
        if not same:
            yield from safety_net.seal_certificates(site, work, cluster.settings.name, cabinet, [one.name])
            yield f"putting {one.name} back"
            cabinet.put(site.shell, raw)
        words, _ = yield from served(site, cluster.settings, held)
        return f"{', as it was' if same else ' with its key'}{words}{trusted}"

    @staticmethod
    def _keytab_back(
        site: Site, work: Work, cluster: VirtualCluster, raw: Object, one: safety_net.SealedObject
    ) -> Generator[str, None, str]:
        old_ones, path = (
            cast(dict[str, kubernetes_secrets.Manifest | None], raw),
            site.state / "vc-undo" / one.definition,
        )
        cabinet = kubernetes_secrets.KubernetesSecrets(master_of(site), address_of(cluster.settings).namespace)
        sweep(site.shell, cabinet.host, site.state)  # which waits for what a killed run still writes there
        live = cabinet.read(site.shell, list(raw))
        now = kubernetes_secrets.digest(list(raw), live)
        if now == kubernetes_secrets.digest(list(raw), old_ones):
            return ", as it was"
        vc = cluster.settings.name
        if live and all(
            each.name != one.name for each in safety_net.sealed_in(site.state, work.run, vc, safety_net.KEYTAB)
        ):
            sealed = site.undo.keep(json.dumps({name: live.get(name) for name in raw}).encode())
            safety_net.remember(site, work.run, vc, safety_net.SealedObject(safety_net.KEYTAB, one.name, sealed))
        kept = kubernetes_secrets.OldSecrets(old_ones, one.definition, path)
        yield from kubernetes_secrets.put_back(
            kept, cabinet, site.shell, site.state, apply=cabinet.takes_apply(site.shell, list(raw))
        )
        return " with its principal; running pods see it at their next run"

    @staticmethod
    def _resource_back(
        site: Site, work: Work, cluster: VirtualCluster, raw: Object, one: safety_net.SealedObject
    ) -> Generator[str, None, str]:
        live, wanted = cluster.resource(one.name), safety_net.signatures(raw)
        here = safety_net.signatures(live.raw) if live is not None else {}
        other = one.whole and live is not None and not same_resource(live, sendable_resource(raw))
        beside = [path for path in here if one.whole and path not in wanted]
        going = [*beside, *(path for path in wanted if path in here and here[path] != wanted[path])]
        if live is not None and (other or going):
            prove_kept(site.undo, one.files)
            yield from safety_net.seal_before(site, work, cluster, live, "", () if other else going)
        if live is not None and other:
            cluster.delete_resource(one.name)
        if live is None or other:
            yield f"creating resource {one.name}"
            cluster.create_resource(sendable_resource(raw))
            here = {}
        sent = {}
        for file in one.files:
            if here.get(file.path) == wanted.get(file.path, ""):
                continue
            yield f"uploading {file.path}"
            sealed = watched(site, content(site.undo, file), file.size)
            sent[file.path] = cluster.upload(one.name, file.path, sealed)
            if sent[file.path] != wanted.get(file.path):
                raise WorkFailed(f"{one.name}/{file.path} is not what was sealed", hint="then again: it stays sealed")
        refuse_other_bytes(cluster, work, one.name, sent)  # only then is what is sealed dropped
        for path in () if other else beside:
            yield f"removing {path}, which was not there before"
            cluster.delete_file(one.name, path)
        unread = unread_dags(cluster, one.name, [file.path for file in one.files])
        return f" with {show_count(len(one.files), 'file')}{unread}"


def _trusted_too(state: Path, name: str, der: bytes) -> str:
    """Let the file of certificates that `vc.init` had made name this one as well, and say so; empty without a file."""
    path, certificate = own_certificate(state, name), pem(der)
    if not path.exists():
        return ""
    made = files.read_file(path).decode(errors="replace")
    if certificate not in made:
        files.replace(path, (made + certificate).encode(), mode=0o644)
    return f"; {path} names it, too, for the `ca` of the config and of clients"


def _there(cluster: VirtualClusterSight, one: safety_net.SealedObject) -> bool:
    found = cluster.job(one.name) if one.what == "job" else cluster.resource(one.name, files=False)
    return found is not None
