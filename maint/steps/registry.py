"""All step kinds by name, each read in when it is asked for: a run needs a few of them."""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any

from maint.steps.step import Step


class Kinds(MutableMapping[str, Step[Any]]):  # Any: each kind has its own model of arguments
    """Step kinds by name.

    Args:
        places: where each is, as `MODULE.CLASS` in this room.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self._kinds: dict[str, str | Step[Any]] = dict(places)

    def __getitem__(self, name: str) -> Step[Any]:
        found = self._kinds[name]
        if isinstance(found, str):
            module, _, kind = found.partition(".")
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
        return name in self._kinds


STEPS = Kinds(
    {
        "server.probe": "server.ProbeServer",
        "server.restart": "server.RestartServer",
        "server.stop": "host_units.StopServer",
        "server.start": "host_units.StartServer",
        "server.wait": "host_units.AwaitServer",
        "server.login": "server.LogIn",
        "tls.switch": "tls.SwitchTls",
        "tls.verify": "tls.AwaitTls",
        "cluster.stop": "clusters.StopCluster",
        "clusters.stop": "clusters.StopAllClusters",
        "cluster.start": "clusters.StartCluster",
        "cluster.delete": "clusters.DeleteCluster",
        "host.put": "host_files.PutFile",
        "host.put_back": "host_files.PutFileBack",
        "host.fetch": "host_fetch.FetchFile",
        "host.run": "host_run.RunCommand",
        "ecs.registry": "ecs_registry.RemoveRegistry",
        "ecs.clean": "ecs_clean.CleanHosts",
        "ecs.firewall": "ecs_firewall.FlushFirewall",
        "firewall.restore": "ecs_firewall.RestoreFirewall",
        "ecs.reboot": "ecs_after.RebootHosts",
        "ecs.verify": "ecs_after.VerifyGone",
        "snapshot.take": "snapshot.TakeSnapshot",
        "snapshot.copy": "copies.CopySnapshots",
        "backup.require": "snapshot.RequireBackup",
        "snapshot.hold": "retention.HoldSnapshot",
        "snapshot.release": "retention.ReleaseSnapshot",
        "snapshot.prune": "retention.PruneSnapshots",
        "window.open": "window.OpenWindow",
        "window.close": "window.CloseWindow",
        "license.upload": "license.UploadLicense",
        "restore.ready": "ready.RestoreReady",
        "deployment.put": "deployment.PutDeployment",
        "deployment.add": "deployment.AddClusters",
        "hostfiles.restore": "hostfiles.RestoreHostFiles",
        "deployment.compare": "compare.CompareDeployment",
        "truststore.deliver": "truststore.DeliverPassword",
        "truststore.check": "truststore.CheckTruststore",
        "agents.start": "host_units.StartAgents",
        "agents.stop": "host_units.StopAgents",
        "agents.restart": "host_units.RestartAgents",
        "agents.wait": "host_units.AwaitAgents",
        "management.start": "platform.StartManagement",
        "vc.probe": "vc_smoke.ProbeCluster",
        "vc.init": "vc_init.InitCluster",
        "vc.init_user": "vc_init_user.InitUser",
        "vc.take": "vc_backup.TakeCluster",
        "vc.restore": "vc_restore.RestoreCluster",
        "vc.find": "vc_find.FindCluster",
        "vc.recover": "vc_recover.RecoverCluster",
        "vc.resume": "vc_restore.ResumeSchedules",
        "job.create": "vc_jobs.CreateJob",
        "job.update": "vc_jobs.UpdateJob",
        "job.delete": "vc_jobs.DeleteJob",
        "job.pause": "vc_jobs.PauseJob",
        "job.run": "vc_runs.RunJob",
        "job.once": "vc_once.RunOnce",
        "run.kill": "vc_runs.KillRun",
        "run.list": "vc_runs.ListRuns",
        "resource.create": "vc_resources.CreateResource",
        "resource.upload": "vc_resources.UploadFiles",
        "resource.delete": "vc_resources.DeleteResource",
        "recreate.keep": "vc_recreate.KeepJob",
        "recreate.job": "vc_recreate.RecreateJob",
        "recreate.put_back": "vc_recreate.PutBack",
        "recreate.forget": "vc_recreate.ForgetOld",
        "vc.smoke": "vc_smoke.Smoke",
        "vc.sweep": "vc_smoke.Sweep",
    }
)
