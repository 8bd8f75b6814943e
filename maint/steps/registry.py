"""All step kinds by name, each read in when it is asked for: a run needs a few of them."""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from maint.errors import Invalid
from maint.steps.step import Step

GROUP = "maint.steps"  # the entry points by which installed packages offer step kinds of their own


class Kinds(MutableMapping[str, Step[Any]]):  # Any: each kind has its own model of arguments
    """Step kinds by name, from places given as `MODULE.CLASS` in this room."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._kinds: dict[str, str | Step[Any]] = dict(places)

    def __getitem__(self, name: str) -> Step[Any]:
        if name not in self._kinds and (entry := plugged(name)) is not None:
            self._kinds[name] = loaded_plugin(entry)
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
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def __contains__(self, name: object) -> bool:
        return name in self._kinds or (isinstance(name, str) and plugged(name) is not None)


def plugged(name: str) -> EntryPoint | None:
    """Return the step kind of that name which an installed package offers, None where none does; loads nothing."""
    return next(iter(entry_points(group=GROUP, name=name)), None)


def loaded_plugin(entry: EntryPoint) -> Step[Any]:
    """Read a package's step kind in.

    Raises:
        Invalid: it cannot be imported, or is no step kind of the name under which it is offered.
    """
    package = entry.dist.name if entry.dist else "an installed package"
    hint = f"update or uninstall {package}; step kinds of maint itself need none of it"
    try:
        kind = entry.load()
    except Exception as error:  # whatever a package of somebody else does when it is imported
        words = f"step kind {entry.name} of the package {package} cannot be loaded: {type(error).__name__}: {error}"
        raise Invalid(words, hint=hint) from error
    if not (isinstance(kind, type) and issubclass(kind, Step) and getattr(kind, "kind", None) == entry.name):
        words = f"{entry.value} of the package {package} is no step kind named {entry.name}"
        raise Invalid(words, hint=f'its class extends maint.steps.step.Step and has `kind = "{entry.name}"`')
    return kind()


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
        "role.stop": "services.roles.StopRole",
        "role.start": "services.roles.StartRole",
        "role.restart": "services.roles.RestartRole",
        "role.maintenance": "services.roles.MaintainRole",
        "config.set": "services.setting.SetSetting",
        "config.put_back": "services.setting.PutSettingsBack",
        "config.restore": "services.restoring.RestoreSettings",
        "credentials.import": "services.credentials.ImportCredentials",
        "credentials.generate": "services.credentials.GenerateCredentials",
        "command.run": "services.by_name.RunCommand",
        "host.put": "hosts.files.PutFile",
        "host.put_back": "hosts.files.PutFileBack",
        "host.fetch": "hosts.files.FetchFile",
        "host.run": "hosts.run.RunCommand",
        "host.check": "hosts.check.CheckHosts",
        "approve": "flow.approval.Approve",
        "assert": "flow.condition.Assert",
        "pause": "flow.pause.Pause",
        "ecs.registry": "ecs.registry.RemoveRegistry",
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
        "license.upload": "manager.license.UploadLicense",
        "restore.ready": "restore.preconditions.RestoreReady",
        "deployment.put": "restore.deployment.PutDeployment",
        "deployment.add": "restore.deployment.AddClusters",
        "hostfiles.restore": "restore.manager_files.RestoreHostFiles",
        "deployment.compare": "restore.compare.CompareDeployment",
        "truststore.deliver": "manager.truststore.DeliverPassword",
        "truststore.check": "manager.truststore.CheckTruststore",
        "agents.start": "hosts.units.StartAgents",
        "agents.stop": "hosts.units.StopAgents",
        "agents.restart": "hosts.units.RestartAgents",
        "agents.wait": "hosts.units.AwaitAgents",
        "management.start": "manager.platform.StartManagement",
        "vc.probe": "virtual_clusters.smoke.ProbeCluster",
        "vc.init": "virtual_clusters.init.InitCluster",
        "vc.init_user": "virtual_clusters.init_user.InitUser",
        "vc.take": "snapshots.snapshot.TakeCluster",
        "vc.restore": "virtual_clusters.restore.RestoreCluster",
        "vc.find": "virtual_clusters.locate.FindCluster",
        "vc.recover": "virtual_clusters.locate.RecoverCluster",
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
        "recreate.job": "virtual_clusters.recreate.RecreateJob",
        "recreate.put_back": "virtual_clusters.recreate.PutBack",
        "recreate.forget": "virtual_clusters.recreate.ForgetOld",
        "vc.undo": "virtual_clusters.safety_net.UndoDeletions",
        "vc.smoke": "virtual_clusters.smoke.Smoke",
        "vc.sweep": "virtual_clusters.smoke.Sweep",
    }
)
