"""`maint help TOPIC` and `maint version`; of a topic, a line `{{ NAME }}` is replaced by a table of declarations."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Annotated, get_origin

import maint
from maint import plugins
from maint.cli.app import COMMANDS, TREE
from maint.cli.boundary import EXIT_CODES
from maint.cli.command import Made, command, loaded
from maint.cli.options import COMMON, MANAGER, Flags, argument
from maint.cli.screen import table
from maint.cli.width import columns, folded, page
from maint.config.paths import changelog, playbooks
from maint.config.precedence import GENERAL, OVERRIDES
from maint.config.sample import reference
from maint.engine.load import Library
from maint.errors import Invalid, UsageError
from maint.lab.faults import FAULTS, TARGETS
from maint.lab.manager.api.routes import ROUTES
from maint.lab.switches import SWITCHES
from maint.model.formatting import meant, show_duration
from maint.steps.registry import STEPS

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
_COMMENT = re.compile(r"^<!-- .* -->\n+", re.MULTILINE)  # for those who change the page: why a block is not run
_MARKER = re.compile(r"^\{\{ ([a-z ]+?)(?:: (.+))? \}\}$", re.MULTILINE)


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
def topic(flags: Flags, name: Annotated[list[str] | None, argument("What about.")] = None) -> None:
    """Read a help topic; without one, list them."""
    _show(flags, " ".join(name or ()))


def _show(flags: Flags, name: str) -> None:
    if not name:
        lines = table(["TOPIC", "IS ABOUT"], [[one, TOPICS.get(one, "")] for one in names()])
        flags.screen().emit({"topics": names()}, f"{folded(_FIRST, columns())}\n{lines}")
        return
    if name not in names():
        hint = meant(name, names(), f"there are {', '.join(names())}")
        if name in COMMANDS or name in TREE.nouns:
            hint = f"`maint {name} --help` shows it; `maint help commands` shows all commands"
        raise UsageError(f"there is no topic {name!r}", hint=hint)
    text = text_of(name)
    flags.screen().emit({"topic": name, "text": text}, page(text.rstrip(), columns() or _WIDE))


@command()
def version(flags: Flags) -> None:
    """Show the version of maint."""
    flags.screen().emit({"version": maint.__version__}, f"maint {maint.__version__}")


def filled(text: str) -> str:
    """Return the text of a topic with its tables."""
    text = _COMMENT.sub("", text)
    return _MARKER.sub(lambda found: _TABLES[found[1]](found[2] or "", text), text)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in (headings, *cells)]
    return "\n".join([lines[0], "|" + "---|" * len(headings), *lines[1:]])


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _commands(noun: str, _: str) -> str:
    """The usage lines of a noun, or of the commands that have none."""
    known = [name for name in COMMANDS if (noun and name.startswith(f"{noun} ")) or name in noun.split(", ")]
    return "\n".join(f"    {usage(name)}" for name in known)


def _examples(*_: str) -> str:
    """One call of each command, as its help has it."""
    return "\n".join(f"    {TREE.example(name)}" for name in COMMANDS)


def usage(name: str) -> str:
    """Return the usage line of a command: its arguments and its own options."""
    command = loaded(COMMANDS[name][0]).build(name)
    connection, common = command.shared
    places = [name for name in connection if name in MANAGER]
    own = [one for one in command.params if one.name not in {*places, *common, "help"}]
    words = [_usage(one) for one in sorted(own, key=lambda one: one.param_type_name != "argument")]
    more = {0: [], 1: ["[--store LOCATION]"]}.get(len(places), ["[CONNECTION]…"])
    return " ".join(["maint", name, *words, *more])


def _usage(param: Made) -> str:
    if param.param_type_name == "argument":
        word = param.name.upper()
    elif param.is_flag:
        word = param.opts[-1]
    else:
        word = f"{param.opts[-1]} VALUE"
    several = "…" if param.nargs == -1 or getattr(param, "multiple", False) else ""
    return f"{word}{several}" if param.required else f"[{word}]{several}"


def _options(which: str, _: str) -> str:
    """The options that commands share: `common`, or `connection`."""
    place = COMMANDS["backup verify"][0]
    named = COMMON if which == "common" else MANAGER
    shown = [one for one in loaded(place).build("verify").params if one.name in named]
    return _table(["option", "meaning"], [[", ".join(map(_code, one.opts)), one.help or ""] for one in shown])


def _config(prefixes: str, _: str) -> str:
    """The keys of the configuration that begin with one of some words; `rest` is what stands outside a site."""
    wanted = prefixes.split()
    rows = []
    for key in reference():
        name = key.name.removeprefix("sites.NAME.")
        if re.split(r"[.\[]", name)[0] in wanted:
            default = "required" if key.required else _value(key.default)
            rows.append([_code(name), default, key.description])
    return _table(["key", "default", "meaning"], rows)


def _value(value: object) -> str:
    if value in (None, "", [], (), {}):
        return ""
    if isinstance(value, bool):
        return _code(str(value).lower())
    return _code(show_duration(value)) if isinstance(value, float) else _code(str(value))


def _environment(which: str, _: str) -> str:
    """The environment variables: `general` ones, or those that replace a `key`."""
    if which == "key":
        return _table(["variable", "key"], [[_code(name), _code(key)] for name, key in OVERRIDES.items()])
    return _table(["variable", "stands for"], [[_code(name), meaning] for name, meaning in GENERAL.items()])


def _arguments(kind: str, _: str) -> str:
    """The worst effect of a step kind, and its arguments."""
    step = STEPS[kind]
    head = f"{step.effect.name}."
    rows = [
        [
            _code(name),
            _kind_of(field.annotation),
            "required" if field.is_required() else _value(field.get_default(call_default_factory=True)),
            field.description or "",
        ]
        for name, field in step.arguments.model_fields.items()
    ]
    return "\n\n".join([head, _table(["argument", "type", "default", "meaning"], rows)] if rows else [head])


def _kind_of(annotation: object) -> str:
    names: Mapping[object, str] = {str: "text", float: "duration", bool: "true or false", int: "number"}
    return names.get(annotation) or {list: "list", dict: "mapping"}.get(get_origin(annotation) or str, "text")


def _bare(value: object) -> str:
    return _value(value).strip("`")


def _steps(_: str, text: str) -> str:
    """The step kinds of which the topic itself says nothing more."""
    others = [kind for kind in STEPS if f"{{{{ step: {kind} }}}}" not in text]
    return "\n\n".join(f"## {kind}\n\n{_step(kind)}" for kind in others)


def _step(kind: str) -> str:
    """Return what a step kind does and takes; of one that cannot be read in, why not."""
    try:
        told = f"{STEPS[kind].help}\n\n{_arguments(kind, '')}"
    except Invalid as error:
        return f"Not usable: {error.message}."
    entry = None if kind in STEPS.own else plugins.offered(plugins.STEPS).get(kind)
    return f"From the package {plugins.package_of(entry)}. {told}" if entry else told


def _playbooks(*_: str) -> str:
    library = Library(playbooks())
    rows = []
    for name in library.texts:
        playbook = library.load(name)
        given = [_code(one.name) + (f" ({_bare(one.default)})" if one.default else "") for one in playbook.parameters]
        rows.append([_code(name), ", ".join(given), playbook.summary])
    return _table(["playbook", "parameters", "does"], rows)


def _fronts(*_: str) -> str:
    """The commands that carry a shipped playbook out."""
    fronts: dict[str, list[str]] = {}
    for name in COMMANDS:
        for one in loaded(COMMANDS[name][0]).playbooks:
            playbook, *words = one.split()
            fronts.setdefault(playbook, []).append(_code(" ".join(["maint", name, *words])))
    return "\n".join(f"- {_code(playbook)}: {', '.join(commands)}" for playbook, commands in sorted(fronts.items()))


def _switches(*_: str) -> str:
    rows = [[_code(k), _code(one.default), ", ".join(one.allowed), one.meaning] for k, one in SWITCHES.items()]
    return _table(["switch", "default", "values", "decides"], rows)


def _faults(*_: str) -> str:
    rows = [[_code(name), one.target, one.meaning, one.count] for name, one in FAULTS.items()]
    return _table(["fault", "strikes", "what happens", "how long"], rows)


def _calls(*_: str) -> str:
    """The calls that the lab's manager answers: methods and path."""
    methods: dict[str, list[str]] = {"/api/version": ["GET"]}
    for call in ROUTES:
        method, path = call.split(" ", 1)
        methods.setdefault(path, []).append(method)
    return "\n".join(f"    {', '.join(known):<18} {path}" for path, known in methods.items())


def _exits(*_: str) -> str:
    rows = [[str(code), one.meaning, one.touched, one.then] for code, one in EXIT_CODES.items()]
    return _table(["code", "meaning", "was anything touched?", "what next"], rows)


_TABLES: Mapping[str, Callable[[str, str], str]] = {
    "commands": _commands,
    "examples": _examples,
    "options": _options,
    "config": _config,
    "environment": _environment,
    "step": _arguments,
    "other steps": _steps,
    "playbooks": _playbooks,
    "fronts": _fronts,
    "switches": _switches,
    "faults": _faults,
    "calls": _calls,
    "targets": lambda *_: ", ".join(map(_code, TARGETS)),
    "exit codes": _exits,
}
