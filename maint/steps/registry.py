"""All step kinds by name, each read in when it is asked for; those of installed packages, and what they do wrong."""

import json
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any, ClassVar

from maint import plugins
from maint.errors import MaintError, Stopped, WorkFailed
from maint.model.plan import Action, Result
from maint.ports import Sight, Site, Work
from maint.steps.step import Progress, Step


class Kinds(MutableMapping[str, Step[Any]]):  # Any: each kind has its own model of arguments
    """Step kinds by name, from places given as `MODULE.CLASS` in this room, and those that installed packages offer."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._kinds: dict[str, str | Step[Any]] = dict(places)
        self.own = frozenset(places)

    def __getitem__(self, name: str) -> Step[Any]:
        if name not in self._kinds and (entry := plugins.offered(plugins.STEPS).get(name)) is not None:
            rule = f'its class extends maint.steps.step.Step and has `kind = "{name}"`'
            self._kinds[name] = plugins.load(entry, "step kind", lambda kind: own_kind(kind, entry), rule)
        found = self._kinds[name]
        if isinstance(found, str):
            module, _, kind = found.rpartition(".")
            found = self._kinds[name] = getattr(import_module(f"maint.steps.{module}"), kind)()
        return found

    def __setitem__(self, name: str, step: Step[Any]) -> None:
        self._kinds[name] = step

    def __delitem__(self, name: str) -> None:
        del self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __contains__(self, name: object) -> bool:
        return name in self._kinds or name in plugins.offered(plugins.STEPS)

    def _all(self) -> Mapping[str, object]:
        return {**self._kinds, **plugins.offered(plugins.STEPS)}


def source_of(action: Action) -> str:
    """Return the id of the snapshot that an action restores from, "" where it restores from none."""
    restores = action.kind in STEPS and STEPS[action.kind].restores
    return str(action.arguments.get("snapshot") or "") if restores else ""


def own_kind(kind: object, entry: EntryPoint) -> Step[Any] | None:
    """Return the step of a package's class, None where it is not a step kind of the name under which it is offered."""
    if isinstance(kind, type) and issubclass(kind, Step) and getattr(kind, "kind", None) == entry.name:
        return offered(kind, plugins.package_of(entry))
    return None


STEPS = Kinds(
    {
        "server.probe": "manager.server.ProbeServer",
        "server.restart": "manager.server.RestartServer",
        "server.stop": "hosts.units.StopServer",
        "server.start": "hosts.units.StartServer",
        "server.wait": "hosts.units.AwaitServer",
        "server.login": "manager.server.LogIn",
        "tls.switch": "manager.tls.SwitchTls",
        "tls.verify": "manager.tls.AwaitTls",
        "cluster.stop": "manager.clusters.StopCluster",
        "clusters.stop": "manager.clusters.StopAllClusters",
        "cluster.start": "manager.clusters.StartCluster",
        "cluster.delete": "manager.clusters.DeleteCluster",
        "service.stop": "services.services.StopService",
        "service.start": "services.services.StartService",
        "service.restart": "services.services.RestartService",
        "service.refresh": "services.services.RefreshService",
        "role.stop": "services.services.StopRole",
        "role.start": "services.services.StartRole",
        "role.restart": "services.services.RestartRole",
        "role.maintenance": "services.services.MaintainRole",
        "config.set": "services.setting.SetSetting",
        "config.put_back": "services.setting.PutSettingsBack",
        "config.restore": "services.setting.RestoreSettings",
        "credentials.import": "services.commands.ImportCredentials",
        "credentials.generate": "services.commands.GenerateCredentials",
        "command.run": "services.commands.SendCommand",
        "host.put": "hosts.files.PutFile",
        "host.put_back": "hosts.files.PutFileBack",
        "host.fetch": "hosts.files.FetchFile",
        "host.run": "hosts.run.RunCommand",
        "host.check": "hosts.check.CheckHosts",
        "approve": "flow.Approve",
        "assert": "flow.Assert",
        "notify": "flow.Notify",
        "pause": "flow.Pause",
        "ecs.registry": "ecs.clean.RemoveRegistry",
        "ecs.clean": "ecs.clean.CleanHosts",
        "ecs.firewall": "ecs.firewall.FlushFirewall",
        "firewall.restore": "ecs.firewall.RestoreFirewall",
        "ecs.reboot": "ecs.clean.RebootHosts",
        "ecs.verify": "ecs.clean.VerifyGone",
        "snapshot.take": "snapshots.snapshot.TakeSnapshot",
        "snapshot.copy": "snapshots.snapshot.CopySnapshots",
        "backup.require": "snapshots.snapshot.RequireBackup",
        "snapshot.hold": "snapshots.retention.HoldSnapshot",
        "snapshot.release": "snapshots.retention.ReleaseSnapshot",
        "snapshot.prune": "snapshots.retention.PruneSnapshots",
        "window.open": "manager.window.OpenWindow",
        "window.close": "manager.window.CloseWindow",
        "license.upload": "manager.server.UploadLicense",
        "restore.ready": "restore.preconditions.RestoreReady",
        "deployment.put": "restore.deployment.PutDeployment",
        "deployment.add": "restore.deployment.AddClusters",
        "hostfiles.restore": "restore.manager_files.RestoreHostFiles",
        "deployment.compare": "restore.deployment.CompareDeployment",
        "truststore.deliver": "manager.tls.DeliverPassword",
        "truststore.check": "manager.tls.CheckTruststore",
        "agents.start": "hosts.units.StartAgents",
        "agents.stop": "hosts.units.StopAgents",
        "agents.restart": "hosts.units.RestartAgents",
        "agents.wait": "hosts.units.AwaitAgents",
        "management.start": "manager.management_service.StartManagement",
        "vc.probe": "virtual_clusters.smoke.ProbeCluster",
        "vc.init": "virtual_clusters.init.InitCluster",
        "vc.init_user": "virtual_clusters.init_user.InitUser",
        "vc.take": "snapshots.snapshot.TakeCluster",
        "vc.restore": "virtual_clusters.restore.RestoreCluster",
        "vc.find": "virtual_clusters.recover.FindCluster",
        "vc.recover": "virtual_clusters.recover.RecoverCluster",
        "vc.resume": "virtual_clusters.restore.ResumeSchedules",
        "job.create": "virtual_clusters.jobs.CreateJob",
        "job.update": "virtual_clusters.jobs.UpdateJob",
        "job.delete": "virtual_clusters.jobs.DeleteJob",
        "job.pause": "virtual_clusters.jobs.PauseJob",
        "job.run": "virtual_clusters.runs.RunJob",
        "job.once": "virtual_clusters.runs.RunOnce",
        "run.kill": "virtual_clusters.runs.KillRun",
        "run.list": "virtual_clusters.runs.ListRuns",
        "resource.create": "virtual_clusters.resources.CreateResource",
        "resource.upload": "virtual_clusters.resources.UploadFiles",
        "resource.delete": "virtual_clusters.resources.DeleteResource",
        "recreate.keep": "virtual_clusters.recreate.KeepJob",
        "recreate.resource": "virtual_clusters.recreate.RecreateResource",
        "recreate.job": "virtual_clusters.recreate.RecreateJob",
        "recreate.put_back": "virtual_clusters.recreate.PutBack",
        "recreate.forget": "virtual_clusters.recreate.ForgetOld",
        "vc.undo": "virtual_clusters.undo.UndoDeletions",
        "vc.smoke": "virtual_clusters.smoke.Smoke",
        "vc.sweep": "virtual_clusters.smoke.Sweep",
    }
)


class _Offered(Step[Any]):  # Any: the package's own model of arguments
    package: ClassVar[str]
    file: ClassVar[str]

    def plan(self, args: Any, sight: Sight) -> Sequence[Action]:  # Any: as above
        with self._answering():
            actions = list(super().plan(args, sight))
        for one in actions:
            if not isinstance(one, Action):
                raise self._wrong("plans what is no action")
            self._refuse_unreadable([one.target, one.summary, one.arguments, one.facts], "an action of it")
        return actions

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        with self._answering():
            progress = super().apply(action, site, work)
            if not hasattr(progress, "__next__"):
                raise self._wrong("yields nothing: words on the way are missing")
            while True:
                try:
                    words = next(progress)
                except StopIteration as stop:
                    result = stop.value
                    break
                if not isinstance(words, str):
                    raise self._wrong("yields what is no text")
                yield words
        if not isinstance(result, Result):
            raise self._wrong("returns no result, such as `done(…)`")
        self._refuse_unreadable([result.detail, result.value], "its result")
        return result

    def holds(self, action: Action, site: Site, work: Work) -> bool:
        with self._answering():
            return super().holds(action, site, work)

    def _refuse_unreadable(self, what: object, name: str) -> None:
        try:
            json.dumps(what)
        except (TypeError, ValueError, RecursionError):
            raise self._wrong(f"gives what JSON cannot hold: {name}") from None

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except (Stopped, MaintError):
            raise
        except (Exception, SystemExit) as error:  # whatever a package of somebody else does
            raise self._wrong(f"failed: {plugins.where_failed(error, self.file)}") from error

    def _wrong(self, words: str) -> WorkFailed:
        return WorkFailed(
            f"step kind {self.kind} of the package {self.package} {words}",
            hint=f"tell whoever wrote {self.package}; nothing of maint itself is broken",
        )


def offered(kind: type[Step[Any]], package: str) -> Step[Any]:  # Any: as above
    """Return the step of a package's class, which tells of the package whatever that class does wrong."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    about = {"__doc__": kind.__doc__, "package": package, "file": file}
    made: Any = type(kind.__name__, (_Offered, kind), about)  # Any: a class that is made here
    made.arguments = kind.arguments
    step: Step[Any] = made()
    return step
