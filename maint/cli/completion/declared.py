"""What completion offers, from the declarations: commands, their options, which names each takes, names in a config.

This loads the whole product; what it returns is kept (`names.py`).
"""

import os
from collections.abc import Mapping
from pathlib import Path

from maint.checks.check import PHASES
from maint.checks.registry import OWN
from maint.cli.app import COMMANDS, NOUNS
from maint.cli.boundary import OUTPUTS
from maint.cli.command import DeclaredCommand, Made, loaded
from maint.cli.completion import SHELLS
from maint.cli.help.topics import TOPICS, names
from maint.cli.lab.commands import LOSSES, LOST
from maint.cli.schedule.units import FORMS
from maint.config.precedence import ConfigFlags, load_settings
from maint.engine.journal import RUN_STATES
from maint.engine.load import library
from maint.lab.faults import FAULTS, TARGETS
from maint.model.json import Json
from maint.model.plan import Playbook

# Which names an option takes, whatever the command.
_OPTIONS = {
    "--site": "sites", "--snapshot": "snapshots", "--from": "snapshots", "--cluster": "clusters",
    "--vc": "virtual clusters", "--playbook": "playbooks", "--set": "parameters",
    "--host": "hosts", "--limit": "hosts and groups", "--group": "groups",
    **dict.fromkeys((
        "--config", "--store", "--ssh-key", "--known-hosts", "--ca", "--license", "--file", "--folder", "--to",
        "--facts", "--hosts-from", "--save-facts", "--matrix", "--report", "--local-path", "--application-file",
    ), "files"),
}  # fmt: skip
# Which names an argument takes: by what it is called, and where that says too little, by its command.
_ARGUMENTS = {
    "snapshot": "snapshots", "first": "snapshots", "second": "snapshots", "run_id": "runs", "run": "runs",
    "hosts": "hosts", "file": "files", "application": "files", "user": "users",
    **dict.fromkeys(("files", "before", "after"), "files"),
}  # fmt: skip
_NAMES = {"cluster": "clusters", "vc": "virtual clusters", "notify": "notices"}
_OWN_PLAYBOOKS = ("plan", "run", "lint", "schedule", "show")  # verbs that take a playbook by its file, too


def tree() -> Mapping[str, Mapping[str, Json]]:
    """Return every group and command by its words: what stands `below` it, its `options`, its `arguments`."""
    found: dict[str, dict[str, Json]] = {}
    plain = loaded(COMMANDS["version"][0])
    for words in NOUNS:
        below = {name: listed for name, (_, listed, _) in COMMANDS.items()} | NOUNS
        own: Json = {
            name.rpartition(" ")[2]: listed
            for name, listed in below.items()
            if name and name.rpartition(" ")[0] == words
        }
        found[words] = {"below": own, "options": _options(plain, plain.build("version")), "arguments": []}
    for words, (place, *_) in COMMANDS.items():
        command = loaded(place)
        made = command.build(words)
        several = [[_argument(words, one), one.nargs == -1] for one in made.params if one.param_type_name == "argument"]
        found[words] = {"below": {}, "options": _options(command, made), "arguments": several}
    shipped = library()
    found["playbook run"]["parameters"] = {name: parameters(shipped.load(name)) for name in shipped.texts}
    return found


def _options(command: DeclaredCommand, made: Made) -> dict[str, Json]:
    """Return options → which names each takes (None: no value), and its help; the long form where there is one."""
    found: dict[str, Json] = {}
    for one in made.params:
        if one.param_type_name == "option":
            kind = None if one.is_flag else _choices(one.opts[-1], command)
            listed = [name for name in one.opts if name.startswith("--")] or one.opts
            found |= {name: [kind, one.help or ""] for name in listed}
            # A short form is known, though not offered where the long one is.
            found |= {name: [kind, one.help or ""] for name in one.opts if name not in listed}
    return found | {"--help": [None, "Show this message and exit."]}


def _choices(name: str, command: DeclaredCommand) -> Json:
    """Return the name of what an option takes, or all that it takes: pairs of a value and what it is."""
    fixed = {
        "--output": (*OUTPUTS, *command.outputs), "--color": ("auto", "always", "never"), "--form": FORMS,
        "--outcome": RUN_STATES, "--phase": PHASES,
    }  # fmt: skip
    if name == "--check":
        return [[name, words] for name, words in dict.fromkeys(OWN, "").items()]
    return [[one, ""] for one in fixed[name]] if name in fixed else _OPTIONS.get(name, "")


def _argument(words: str, one: Made) -> Json:
    name = str(one.name)
    fixed: Mapping[tuple[str, str], Json] = {
        ("help", "name"): [[topic, TOPICS.get(topic, "")] for topic in names()],
        ("generate completion", "shell"): [[shell, ""] for shell in SHELLS],
        ("generate schema", "of"): [[one, ""] for one in ("config", "playbook", "playbook-test", "output")],
        ("lab break", "target"): [[target, ""] for target in (*TARGETS, *LOSSES)],
        ("lab break", "fault"): [[LOST, ""], *([fault, each.meaning] for fault, each in FAULTS.items())],
    }
    if (words, name) in fixed:
        return fixed[words, name]
    noun, _, verb = words.partition(" ")
    if name not in ("name", "names"):
        return _ARGUMENTS.get(name, "")
    return "playbooks and files" if noun == "playbook" and verb in _OWN_PLAYBOOKS else _NAMES.get(noun, "")


def parameters(playbook: Playbook) -> Json:
    """Return the parameters of a playbook, each with its type and its help."""
    return [[one.name, one.type.value, one.help] for one in playbook.parameters]


def sites(path: Path) -> dict[str, Json]:
    """Return the sites of a config with the names that it gives."""
    settings = load_settings(ConfigFlags(config=str(path)), os.environ)
    found: dict[str, Json] = {}
    for site in settings.sites:
        found[site.name] = {
            "state": str(site.state),
            "store": site.backup.store if site.backup else "",
            "hosts": [one.name for one in site.hosts],
            "groups": sorted({group for one in site.hosts for group in one.groups}),
            "virtual_clusters": [one.name for one in site.virtual_clusters],
            "notices": [one.name for one in site.notify],
            "users": sorted({user.name for one in site.virtual_clusters for user in one.users}),
        }
    return found
