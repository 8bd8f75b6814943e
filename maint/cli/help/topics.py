"""`maint help TOPIC` and `maint version`."""

from importlib.resources import files
from typing import Annotated

import maint
from maint.cli.command import command
from maint.cli.help.tables import filled
from maint.cli.options import Flags, argument
from maint.cli.screen import table
from maint.cli.width import columns, folded, page
from maint.config.paths import changelog
from maint.config.suggestions import meant
from maint.errors import UsageError

_FIRST = """\
New here?   `maint lab demo` shows the main job in a minute, on this machine alone.
A site:     `maint config init`, then `maint doctor` says what is missing.
A backup:   `maint backup create --dry-run`, then without it; `maint backup verify` proves it.
A restore:  `maint restore plan` shows all that would be done; `maint restore run` does it.
Stopped?    `maint playbook resume` takes a run up; every error says what to do next.

`maint NOUN VERB --help` shows one command. Topics, read with `maint help TOPIC`:
"""


_WIDE = 80  # characters of a line where no terminal says how wide it is
_CHANGELOG = "changelog"  # which lies beside the package, where those who read the source look for it

# In the order in which they are best read.
TOPICS = {
    "install": "pipx, uv, Red Hat, without a network, as a container; after an upgrade",
    "commands": "every command with its arguments, and the options that all have",
    "configuration": "the config file: every key, secret references, environment variables",
    "exit-codes": "what a script learns from the exit code",
    "backup": "what a snapshot holds, how it is taken and verified",
    "redaction": "why an export may lack its secrets, and the window that shows them",
    "stores": "where snapshots lie: a folder, SFTP, S3, and copies",
    "pages": "pages to look at: all sites, each site, each day's changes",
    "retention": "what is kept and for how long, holds, pruning",
    "disaster": "the manager is gone: what to type at three in the morning",
    "restore": "from an empty manager back to a snapshot; single clusters; other hosts",
    "bare-host": "restoring from a machine that has no config",
    "drill": "rehearsing a restore in a throw-away manager",
    "diff": "what differs between two snapshots, or since one",
    "heal": "filling the secrets that a redacted snapshot lacks",
    "rekey": "changing the keys that open snapshots",
    "virtual-clusters": "jobs, resources, runs and schedules of virtual clusters",
    "vc-backup": "backing up virtual clusters, and bringing them back",
    "hosts": "how hosts are reached over SSH, and cleaned",
    "checks": "what is asked of the hosts, and what is expected",
    "playbooks": "the shipped runbooks, and how to write one",
    "steps": "the step kinds of playbooks, with their arguments",
    "schedule": "backups that run by themselves",
    "airflow": "all sites on Apache Airflow: a DAG, an operator, a sensor",
    "alerts": "metrics, alert rules, and `maint doctor`",
    "peers": "what other tools for backups and runbooks have, and where it is here",
    "reliability": "what is promised, how each promise is tried, and with which figures",
    "security": "where secrets are, and who can read what",
    "files": "what is kept on disk, and where",
    "servers": "what the real servers do, and how sure that is",
    "changelog": "what is new in each version",
    "lab": "the simulated manager: switches, faults, rehearsals",
}


def names() -> list[str]:
    """Return the names of all topics, those first that are best read first."""
    found = {item.name.removesuffix(".md") for item in (files("maint") / "help").iterdir() if item.name.endswith(".md")}
    found.add(_CHANGELOG)
    return [*(name for name in TOPICS if name in found), *sorted(found - {"README", *TOPICS})]


def text_of(name: str) -> str:
    """Return a topic with its tables."""
    if name == _CHANGELOG:
        return changelog()
    return filled((files("maint") / "help" / f"{name}.md").read_text("utf-8"))


@command()
def topic(flags: Flags, name: Annotated[str, argument("What about.")] = "") -> None:
    """Read a help topic; without one, list them."""
    if not name:
        lines = table(["TOPIC", "IS ABOUT"], [[one, TOPICS.get(one, "")] for one in names()])
        flags.screen().emit({"topics": names()}, f"{folded(_FIRST, columns())}\n{lines}")
        return
    if name not in names():
        hint = meant(name, names(), f"there are {', '.join(names())}")
        raise UsageError(f"there is no topic {name!r}", hint=hint)
    text = text_of(name)
    flags.screen().emit({"topic": name, "text": text}, page(text.rstrip(), columns() or _WIDE))


@command()
def version(flags: Flags) -> None:
    """Show the version of maint."""
    flags.screen().emit({"version": maint.__version__}, f"maint {maint.__version__}")
