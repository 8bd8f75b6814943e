"""All step kinds by name."""

from typing import Any

from maint.steps.clusters import DeleteCluster, StartCluster, StopAllClusters, StopCluster
from maint.steps.compare import CompareDeployment
from maint.steps.copies import CopySnapshots
from maint.steps.deployment import AddClusters, PutDeployment
from maint.steps.ecs_after import RebootHosts, VerifyGone
from maint.steps.ecs_clean import CleanHosts
from maint.steps.ecs_firewall import FlushFirewall, RestoreFirewall
from maint.steps.ecs_registry import RemoveRegistry
from maint.steps.host_fetch import FetchFile
from maint.steps.host_files import PutFile, PutFileBack
from maint.steps.host_run import RunCommand
from maint.steps.host_units import (
    AwaitAgents,
    AwaitServer,
    RestartAgents,
    StartAgents,
    StartServer,
    StopAgents,
    StopServer,
)
from maint.steps.hostfiles import RestoreHostFiles
from maint.steps.license import UploadLicense
from maint.steps.platform import StartManagement
from maint.steps.ready import RestoreReady
from maint.steps.retention import HoldSnapshot, PruneSnapshots, ReleaseSnapshot
from maint.steps.server import LogIn, ProbeServer, RestartServer
from maint.steps.snapshot import RequireBackup, TakeSnapshot
from maint.steps.step import Step
from maint.steps.tls import AwaitTls, SwitchTls
from maint.steps.truststore import CheckTruststore, DeliverPassword
from maint.steps.vc_backup import TakeCluster
from maint.steps.vc_find import FindCluster
from maint.steps.vc_init import InitCluster
from maint.steps.vc_init_user import InitUser
from maint.steps.vc_jobs import CreateJob, DeleteJob, PauseJob, UpdateJob
from maint.steps.vc_once import RunOnce
from maint.steps.vc_recover import RecoverCluster
from maint.steps.vc_recreate import ForgetOld, KeepJob, PutBack, RecreateJob
from maint.steps.vc_resources import CreateResource, DeleteResource, UploadFiles
from maint.steps.vc_restore import RestoreCluster, ResumeSchedules
from maint.steps.vc_runs import KillRun, ListRuns, RunJob
from maint.steps.vc_smoke import ProbeCluster, Smoke, Sweep
from maint.steps.window import CloseWindow, OpenWindow

STEPS: dict[str, Step[Any]] = {  # Any: each kind has its own model of arguments
    step.kind: step
    for step in (
        ProbeServer(),
        RestartServer(),
        StopServer(),
        StartServer(),
        AwaitServer(),
        LogIn(),
        SwitchTls(),
        AwaitTls(),
        StopCluster(),
        StopAllClusters(),
        StartCluster(),
        DeleteCluster(),
        PutFile(),
        PutFileBack(),
        FetchFile(),
        RunCommand(),
        RemoveRegistry(),
        CleanHosts(),
        FlushFirewall(),
        RestoreFirewall(),
        RebootHosts(),
        VerifyGone(),
        TakeSnapshot(),
        CopySnapshots(),
        RequireBackup(),
        HoldSnapshot(),
        ReleaseSnapshot(),
        PruneSnapshots(),
        OpenWindow(),
        CloseWindow(),
        UploadLicense(),
        RestoreReady(),
        PutDeployment(),
        AddClusters(),
        RestoreHostFiles(),
        CompareDeployment(),
        DeliverPassword(),
        CheckTruststore(),
        StartAgents(),
        StopAgents(),
        RestartAgents(),
        AwaitAgents(),
        StartManagement(),
        ProbeCluster(),
        InitCluster(),
        InitUser(),
        TakeCluster(),
        RestoreCluster(),
        FindCluster(),
        RecoverCluster(),
        ResumeSchedules(),
        CreateJob(),
        UpdateJob(),
        DeleteJob(),
        PauseJob(),
        RunJob(),
        RunOnce(),
        KillRun(),
        ListRuns(),
        CreateResource(),
        UploadFiles(),
        DeleteResource(),
        KeepJob(),
        RecreateJob(),
        PutBack(),
        ForgetOld(),
        Smoke(),
        Sweep(),
    )
}
