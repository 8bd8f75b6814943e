"""The command line: every command and where it is, and the options that may stand before the noun."""

from typing import Annotated

import typer

import maint
from maint.cli.command import Tree
from maint.cli.options import COMMON, VC
from maint.cli.screen import to_stdout

# What a noun is about; the first is the program itself.
NOUNS = {
    "": "Cluster maintenance: backups that can be believed, restores that are proven before they destroy.\n\n"
    "New here? `maint lab demo` shows the main job in a minute, and `maint help` says where to begin.",
    "lab": "A simulated manager and its hosts, on loopback.",
    "site": "Configured sites.",
    "cluster": "Clusters of the manager.",
    "manager": "The manager itself.",
    "service": "Services of clusters, and the monitoring service.",
    "setting": "Settings of services, role groups, roles, hosts and the manager.",
    "playbook": "Runbooks: plan them, run them, take them up again.",
    "backup": "Snapshots of the site's configuration.",
    "restore": "From an empty manager back to a snapshot.",
    "schedule": "Backups that run by themselves: a systemd timer, or cron.",
    "host": "The hosts: what is wrong with them, and how they are known.",
    "vc": "Virtual clusters: jobs, resources, runs, schedules.",
    "vc job": "Jobs: definitions of what can be run.",
    "vc resource": "Resources: files and Python environments that jobs mount.",
    "vc run": "Runs of jobs, and their logs.",
    "vc spark": "One-off runs.",
    "config": "The configuration.",
    "notify": "Notices: who gets them, and whether they arrive.",
    "generate": "Files made from the product itself; nothing is installed.",
}
# Command → where it is below `maint.cli`, from where it is imported when somebody asks for it; how it is listed; and
# what follows its words in the example under its help.
COMMANDS = {
    "doctor": ("site.doctor:doctor", "Say what stands in the way of the next backup or restore.", "--site prod"),
    "help": ("help.topics:topic", "Read a help topic; without one, list them.", "backup"),
    "version": ("help.topics:version", "Show the version of maint.", ""),
    "lab demo": (
        "lab.commands:demo",
        "Show the main job in a minute: back up, lose it all, bring it back, prove it.",
        "",
    ),
    "lab up": (
        "lab.commands:up",
        "Bring a lab up, and print the line that points other commands to it.",
        "--folder /tmp/lab",
    ),
    "lab down": ("lab.commands:down", "Take the lab down; its files stay.", ""),
    "lab status": ("lab.commands:status", "Show where the lab answers, and with which credentials.", "-o json"),
    "lab break": ("lab.commands:break_", "Set a fault in the lab, list them, or clear them.", "manager error-500-once"),
    "site list": ("site.sites:list_sites", "List the configured sites.", ""),
    "site status": (
        "site.sites:status",
        "Show ports, TLS chain, version, redaction, licence and active commands.",
        "--site prod",
    ),
    "site report": (
        "site.report:report",
        "Write pages to look at: all sites, each site, each day's changes.",
        "--to /srv/www/maint",
    ),
    "cluster list": ("manager:list_clusters", "List all clusters with the state of their services.", ""),
    "cluster stop": (
        "manager:stop_cluster",
        "Stop a cluster, once a restorable backup proves a way back.",
        "base --max-age 24h",
    ),
    "cluster start": ("manager:start_cluster", "Start a cluster and wait until every service runs.", "base --yes"),
    "cluster delete": (
        "manager:delete_cluster",
        "Stop and delete a cluster, once a restorable backup proves a way back.",
        "base --confirm base",
    ),
    "service list": ("setting:list_services", "List services with their state.", "--cluster base"),
    "service stop": ("setting:stop", "Stop a service and wait until it is at rest.", "hive --cluster base"),
    "service start": ("setting:start", "Start a service and wait until it runs.", "hive --cluster base"),
    "service restart": ("setting:restart", "Restart a service and wait until it runs.", "hdfs --cluster base --yes"),
    "service refresh": (
        "setting:refresh",
        "Have a service's roles read their configuration anew.",
        "hdfs --cluster base --yes",
    ),
    "setting list": (
        "setting:list_settings",
        "List what is set on a service, role group, role, host or the manager.",
        "--service hdfs",
    ),
    "setting set": (
        "setting:set_",
        "Set one setting; its old value is kept.",
        "dfs_replication 2 --service hdfs --yes",
    ),
    "setting unset": (
        "setting:unset",
        "Unset one setting, so that its default counts.",
        "dfs_replication --service hdfs --yes",
    ),
    "manager version": ("manager:version", "Show the API version and the release of the manager.", ""),
    "manager export": ("manager:export", "Export the configuration into the backup store.", "--open-window"),
    "manager license": (
        "manager:license_",
        "Upload a licence, unless the manager has that very one.",
        "/root/license.txt",
    ),
    "manager restore": (
        "manager:restore",
        "Replace the manager's configuration by a snapshot's.",
        "--snapshot 20260102T --confirm prod",
    ),
    "manager tls-switch": ("manager:tls_switch", "Restart the manager so that its TLS setting takes effect.", ""),
    "manager truststore-password": (
        "manager:truststore_password",
        "Hand over the password of the shared truststore.",
        "--file /root/truststore-password",
    ),
    "manager start": (
        "manager:start",
        "Start agents, monitors, the management service, then clusters.",
        "--cluster base",
    ),
    "playbook list": ("playbooks.commands:list_playbooks", "List the shipped playbooks.", ""),
    "playbook show": ("playbooks.commands:show", "Print a playbook.", "retire-cluster"),
    "playbook lint": (
        "playbooks.lint:lint",
        "Check playbooks: all mistakes at once, with their places.",
        "own.yaml",
    ),
    "playbook test": (
        "playbooks.test:test",
        "Try playbooks in a lab, and compare with what test files expect.",
        "tests/stop-base.yaml",
    ),
    "playbook diff": (
        "playbooks.diff:diff",
        "Show what differs between two saved plans.",
        "before.json after.json --exit-code",
    ),
    "playbook schedule": (
        "playbooks.schedule:schedule",
        "Let a playbook run by itself: a systemd timer, or cron.",
        "probe --every 6h --dry-run",
    ),
    "playbook new": ("playbooks.commands:new", "Write a commented playbook to begin from.", "patch-hosts"),
    "playbook plan": (
        "playbooks.commands:plan",
        "Show what a playbook would do, without doing it.",
        "retire-cluster --set cluster=base",
    ),
    "playbook run": ("playbooks.commands:run", "Carry a playbook out.", "retire-cluster --set cluster=base --dry-run"),
    "playbook resume": ("playbooks.commands:resume", "Take up a run that stopped before its end.", "--dry-run"),
    "playbook approve": (
        "playbooks.history:approve",
        "Answer the question that a run waits for.",
        "20260102T --note 'agreed with the owners'",
    ),
    "playbook dismiss": (
        "playbooks.commands:dismiss",
        "Give up a run that stopped.",
        "20260102T --reason 'begun by mistake'",
    ),
    "playbook undo": (
        "playbooks.commands:undo",
        "Put back the settings that a run has changed.",
        "20260102T030405Z-1a2b3c4d",
    ),
    "playbook history": (
        "playbooks.history:history",
        "List the runs of the site: who, when, from where; or forget old ones.",
        "--outcome failed --since 7d",
    ),
    "playbook report": ("playbooks.commands:report", "Write the report of a run again, and say where it is.", ""),
    "backup create": ("backup.commands:create", "Take a snapshot.", "--open-window --yes"),
    "backup list": (
        "backup.list:list_snapshots",
        "List the snapshots, their holds, and the last verified success.",
        "-o json",
    ),
    "backup show": ("backup.list:show", "Show what a snapshot holds, and what it does not cover.", "20260102T"),
    "backup verify": (
        "backup.verify:verify",
        "Prove that a snapshot is sound, and keep the result.",
        "20260102T --level 3",
    ),
    "backup hold": (
        "backup.commands:hold",
        "Keep a snapshot from being pruned.",
        "20260102T --reason 'before the upgrade' --until 2027-06-30",
    ),
    "backup release": (
        "backup.commands:release",
        "End all holds of a snapshot.",
        "20260102T --reason 'the upgrade is done'",
    ),
    "backup prune": (
        "backup.commands:prune",
        "Remove the snapshots that nothing keeps; says why for each.",
        "--dry-run",
    ),
    "backup diff": ("backup.diff:diff", "Show what differs between two snapshots.", "20260101T 20260102T --exit-code"),
    "backup drift": ("backup.diff:drift", "Show what has changed on the live manager since a snapshot.", "--exit-code"),
    "backup heal": (
        "backup.heal:heal",
        "Fill the secrets that a redacted snapshot lacks.",
        "20260102T --from 20251230T",
    ),
    "backup rekey": (
        "backup.heal:rekey",
        "Encrypt snapshots anew for the recipients of the config.",
        "--all --prune-old --dry-run",
    ),
    "backup drill": ("backup.drill:drill", "Rehearse a restore in a throw-away manager.", "--timeout 30m"),
    "backup files": (
        "backup.list:files",
        "List the manager's own files in a snapshot, or take one out.",
        "20260102T --extract /etc/cloudera-scm-server/uuid --to uuid",
    ),
    "restore plan": ("restore:plan", "Show what a restore would do, and what would be lost.", "--snapshot 20260102T"),
    "restore run": (
        "restore:run",
        "Bring a manager back to a snapshot, or clusters back to a manager.",
        "--snapshot 20260102T --plan 1f2e3d4c --confirm prod",
    ),
    "restore config": (
        "setting:restore",
        "Put settings back as a snapshot has them, one by one.",
        "--service hdfs --from 20260102T --dry-run",
    ),
    "schedule show": ("schedule.commands:show", "Show what is installed, and when it runs next.", ""),
    "schedule install": (
        "schedule.commands:install",
        "Write the files of the schedule, and start it.",
        "--at 02:15 --prune --dry-run",
    ),
    "schedule remove": ("schedule.commands:remove", "Stop the schedule, and delete the files that install wrote.", ""),
    "host list": (
        "hosts.inventory:list_hosts",
        "List the hosts with their addresses and groups.",
        "--hosts-from manager",
    ),
    "host check": (
        "hosts.check:check",
        "Say what is wrong with the hosts, and how to correct it.",
        "--hosts-in ecs --phase before-restore",
    ),
    "host trust": ("hosts.inventory:trust", "Show the hosts' keys, and record those that you believe.", "ecs-1"),
    "vc job list": ("vc.jobs:list_jobs", "List the jobs.", "--filter 'type[eq]spark'"),
    "vc job describe": ("vc.jobs:describe_job", "Show a job's definition.", "--name daily"),
    "vc job create": (
        "vc.jobs:create",
        "Create a job.",
        "--name daily --application-file etl.py --mount-1-resource scripts",
    ),
    "vc job update": ("vc.jobs:update", "Change a job's schedule.", "--name daily --cron-expression '0 2 * * *'"),
    "vc job run": ("vc.jobs:run", "Start a run of a job.", "--name daily --wait"),
    "vc job pause": ("vc.jobs:pause", "Pause a job's schedule.", "--name daily"),
    "vc job unpause": ("vc.jobs:unpause", "Let a job's schedule go on.", "--name daily"),
    "vc job delete": ("vc.jobs:delete", "Delete a job.", "--name daily"),
    "vc resource list": ("vc.resources:list_resources", "List the resources.", ""),
    "vc resource describe": ("vc.resources:describe_resource", "Show a resource with its files.", "--name scripts"),
    "vc resource create": ("vc.resources:create", "Create a resource.", "--name scripts"),
    "vc resource upload": (
        "vc.resources:upload",
        "Upload files into a resource, over those of the same path.",
        "--name scripts --local-path 'etl/*.py'",
    ),
    "vc resource download": (
        "vc.resources:download",
        "Download a file of a resource.",
        "--name scripts --resource-path report.py",
    ),
    "vc resource delete": ("vc.resources:delete", "Delete a resource with its files.", "--name scripts"),
    "vc resource delete-file": (
        "vc.resources:delete_file",
        "Delete one file of a resource.",
        "--name scripts --resource-path old.py",
    ),
    "vc run list": ("vc.jobs:list_runs", "List the runs, oldest first.", "--filter 'job[eq]daily'"),
    "vc run describe": ("vc.jobs:describe_run", "Show a run.", "--id 17"),
    "vc run logs": ("vc.jobs:logs", "Print a log of a run.", "--id 17 --type driver/stdout"),
    "vc run kill": ("vc.jobs:kill", "Kill a run.", "--id 17"),
    "vc spark submit": (
        "vc.jobs:submit",
        "Run an application once, print what it printed, leave nothing behind.",
        "etl.py --conf spark.executor.memory=2g",
    ),
    "vc backup": ("vc.commands:backup", "Take a backup of one virtual cluster.", "--vc etl"),
    "vc drift": ("vc.commands:drift", "Show what has changed in a virtual cluster since a snapshot.", "--exit-code"),
    "vc restore": (
        "vc.commands:restore",
        "Bring a virtual cluster's resources and jobs back, schedules paused.",
        "--on-conflict skip --confirm etl",
    ),
    "vc init": ("vc.commands:init", "Give a virtual cluster its certificate.", "--vc etl"),
    "vc init-user": (
        "vc.commands:init_user",
        "Give a user of a virtual cluster its Kerberos secrets.",
        "--vc etl etl_user",
    ),
    "vc status": ("vc.commands:status", "Log in to a virtual cluster, and show what its user sees.", "--vc etl"),
    "vc undo": (
        "vc.commands:undo",
        "Bring back what a run deleted or replaced in a virtual cluster.",
        "20260102T030405Z-1a2b3c4d",
    ),
    "vc smoke": ("vc.commands:smoke", "Prove that a virtual cluster runs jobs.", "--yes"),
    "config show": ("config.commands:show", "Show the configuration; secrets as their references.", "--origin"),
    "config validate": ("config.commands:validate", "Check the configuration without touching anything it names.", ""),
    "config path": ("config.commands:path", "Print the path of the configuration file in force.", ""),
    "config init": (
        "config.init:init",
        "Ask for a configuration, try each answer, and write it with comments.",
        "/etc/maint/config.yaml",
    ),
    "notify list": (
        "monitoring.notify:list_notices",
        "List who gets which notices, and whether the last one arrived.",
        "",
    ),
    "notify test": ("monitoring.notify:test", "Tell a test, and say whether it arrived.", "night-shift"),
    "generate systemd": (
        "help.generate:systemd",
        "Print the units that `maint schedule install` would write.",
        "--at 02:15",
    ),
    "generate man": ("help.generate:man", "Print the manual page maint(1).", "--to /usr/local/share/man/man1"),
    "generate schema": ("help.generate:schema", "Print a JSON schema.", "output vc run list"),
    "generate alerts": ("help.generate:alerts", "Print alert rules for Prometheus.", "--max-age 26h"),
    "generate constraints": (
        "packaging:constraints",
        "Print the versions that were tested, for pip.",
        "> constraints.txt",
    ),
    "generate bundle": (
        "packaging:bundle",
        "Write this version and all it needs into one file.",
        "--to maint-bundle.tar.gz",
    ),
    "generate container": (
        "packaging:container",
        "Print a Containerfile: rootless, read-only root.",
        "> Containerfile",
    ),
    "generate airflow": (
        "playbooks.schedule:airflow",
        "Print a DAG for Apache Airflow: all sites of a config.",
        "--at 02:15 --timezone Europe/Berlin > dags/maint_estate.py",
    ),
    "generate completion": ("help.generate:completion", "Print the completion script for a shell.", "bash"),
}


def _version(wanted: bool) -> None:
    if wanted:
        to_stdout(f"maint {maint.__version__}\n")
        raise typer.Exit


_VERSION = typer.Option("--version", is_eager=True, callback=_version, help="Show the version.")
TREE = Tree(NOUNS, COMMANDS, {"": {**COMMON, "version": (Annotated[bool, _VERSION], False)}, "vc": VC})
app = TREE.group()


def main() -> None:
    """Run the command line."""
    app()
