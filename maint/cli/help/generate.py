"""`maint generate`: files made from the product itself, scripts that complete our commands in shells among them."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

import maint
from maint.cli.app import COMMANDS, TREE, app
from maint.cli.boundary import EXIT_CODES
from maint.cli.command import Made, command, loaded
from maint.cli.completion import FILES, SHELLS, VARIABLE
from maint.cli.configless import settings_of
from maint.cli.help.output_schemas import schema_of
from maint.cli.monitoring.outcomes import SCHEDULED
from maint.cli.options import Flags, argument, option, seconds_of
from maint.cli.schedule.commands import ScheduleOptions, files_as_text, request_of
from maint.cli.schedule.units import files_of
from maint.config.paths import absolute, changelog
from maint.config.schema import BackupSettings
from maint.errors import UsageError
from maint.files import make_folder, replace, writing
from maint.model.formatting import show_count, show_duration
from maint.render import from_file


class Option(msgspec.Struct, frozen=True):
    """An option or an argument as the manual shows it."""

    names: str
    help: str


def page(whole: Made) -> str:
    """Return the manual page maint(1) as roff, of the command that all others hang on."""
    common = _options(whole)
    lines = [_heads("MAINT"), ".SH NAME"]
    lines += [r"maint \- cluster maintenance: backups that can be believed, restores that are proven", ".SH SYNOPSIS"]
    lines += [r".B maint", r"[\fIFLAGS\fR] \fINOUN VERB\fR [\fIARGUMENTS\fR] [\fIFLAGS\fR]", ".SH DESCRIPTION"]
    lines += [_text(whole.help or ""), ".SH FLAGS OF EVERY COMMAND", *_listed(common), ".SH COMMANDS"]
    for name, (place, *_) in COMMANDS.items():
        each = loaded(place).build(name)
        own = [one for one in _options(each) if one.names not in {other.names for other in common}]
        lines += [f'.SS "{_text(name)}"', *_paragraphs(each.help or ""), *_listed(own)]
    lines += [*_exits(), ".SH FILES"]
    lines += [r"\fI~/.config/maint/config.yaml\fR, \fI/etc/maint/config.yaml\fR: the configuration.", ".PP"]
    lines += [r"\fI/var/lib/maint\fR: locks, journals and keys of a configuration under /etc.", ".SH SEE ALSO"]
    lines += [r"\fBmaint help\fR lists the topics: configuration, backup, restore, exit codes and more."]
    return "\n".join(lines) + "\n"


def _heads(title: str) -> str:
    """Return the head line of a page, with the day of the version."""
    day = re.search(rf"^## {re.escape(maint.__version__)} · (\S+)$", changelog(), re.MULTILINE)
    return f'.TH {title} 1 "{day[1] if day else ""}" "maint {maint.__version__}" "User Commands"'


def pages(whole: Made) -> dict[str, str]:
    """Return all pages: the name of the file and its roff."""
    return {"maint.1": page(whole), **{f"maint-{name.replace(' ', '-')}.1": page_of(name) for name in COMMANDS}}


def page_of(name: str) -> str:
    """Return the page of one command, such as maint-backup-list(1)."""
    place, listed, _ = COMMANDS[name]
    made = loaded(place).build(name)
    connection, common = made.shared
    title = f"maint-{name.replace(' ', '-')}"
    lines = [_heads(_text(title.upper())), ".SH NAME"]
    lines += [rf"{_text(title)} \- {_text(listed)}", ".SH SYNOPSIS", rf"\fBmaint {_text(name)}\fR {_synopsis(made)}"]
    lines += [".SH DESCRIPTION", *_paragraphs(made.help or "")]
    arguments = [one for one in made.params if one.param_type_name == "argument"]
    own = [one for one in made.params if one not in arguments and one.name not in {*connection, *common}]
    for heading, some in (("ARGUMENTS", arguments), ("OPTIONS", own), ("CONNECTION", connection), ("COMMON", common)):
        params = [one for one in made.params if one.name in some] if heading in ("CONNECTION", "COMMON") else some
        lines += [f'.SH "{_heading(heading)}"', *_listed(_shown(params))] if params else []
    lines += [".SH EXAMPLE", ".nf", _text(TREE.example(name)), ".fi"]
    related = [
        one for one in COMMANDS if one != name and one.rpartition(" ")[0] == name.rpartition(" ")[0] and " " in one
    ]
    also = ["maint", *(f"maint-{one.replace(' ', '-')}" for one in related if " " in name)]
    return "\n".join([*lines, *_exits(), ".SH SEE ALSO", ", ".join(rf"\fB{_text(one)}\fR(1)" for one in also)]) + "\n"


def _heading(word: str) -> str:
    return {"CONNECTION": "CONNECTION OPTIONS", "COMMON": "COMMON OPTIONS"}.get(word, word)


def _synopsis(made: Made) -> str:
    words = []
    for one in made.params:
        if one.param_type_name == "argument":
            word = rf"\fI{_text(one.name.upper())}\fR" + (r"\&..." if one.nargs == -1 else "")
            words.append(word if one.required else f"[{word}]")
    return " ".join([*words, r"[\fIOPTIONS\fR]"])


def _exits() -> Sequence[str]:
    return [".SH EXIT STATUS", *_listed(Option(str(code), each.meaning) for code, each in EXIT_CODES.items())]


def _options(command: Made) -> list[Option]:
    return _shown(command.params)


def _shown(params: Iterable[Made]) -> list[Option]:
    found = []
    for one in params:
        names = ", ".join(one.opts) if one.opts[0].startswith("-") else one.opts[0].upper()
        found.append(Option(names, getattr(one, "help", "") or ""))
    return found


def _listed(options: Iterable[Option]) -> Iterator[str]:
    for one in options:
        yield from (".TP", rf"\fB{_text(one.names)}\fR", _text(one.help))


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(text.split("\n\n")):
        yield from ([".PP"] if number else [])
        yield _text(" ".join(paragraph.split()))


def _text(words: str) -> str:
    """Return words as roff takes them: no escape, dash or leading dot means anything."""
    words = words.replace("\\", r"\e").replace("-", r"\-")
    words = "".join(one if one.isascii() else rf"\[u{ord(one):04X}]" for one in words)
    return rf"\&{words}" if words.startswith((".", "'")) else words


@command()
def systemd(flags: Flags, wanted: ScheduleOptions) -> None:
    """Print the units that `maint schedule install` would write."""
    settings = settings_of(flags)
    request = request_of(wanted, "systemd")
    files = files_of(settings, settings.site(), request, os.environ)
    flags.screen().emit(
        {"files": [{"path": str(one.path), "content": one.content} for one in files]}, files_as_text(files)
    )


@command()
def man(
    flags: Flags, to: Annotated[str, option("--to", "A folder for the pages: maint(1), and one for each command.")] = ""
) -> None:
    """Print the manual page maint(1), or write all pages into a folder."""
    if not to:
        text = page(typer.main.get_command(app))
        flags.screen().emit({"man": text}, text.rstrip())
        return
    folder = absolute(to)
    found = {folder / name: text for name, text in pages(typer.main.get_command(app)).items()}
    if not flags.dry_run:
        save(found)
    words = f"{show_count(len(found), 'page')} {'would be ' * flags.dry_run}written to {folder}"
    flags.screen().emit({"written": [] if flags.dry_run else [str(path) for path in found]}, words)


def save(files: Mapping[Path, str]) -> None:
    """Write files that anybody may read, over what is there; WorkFailed: one cannot be written."""
    for path, text in files.items():
        with writing(path, "name another folder"):
            make_folder(path.parent, 0o755)
            replace(path, text.encode(), mode=0o644)


@command()
def schema(
    flags: Flags,
    of: Annotated[str, argument("config, playbook, playbook-test, or output: what -o json prints.")] = "config",
    words: Annotated[list[str] | None, argument("After output: a command, such as backup list.")] = None,
) -> None:
    """Print a JSON schema: of the configuration, of playbooks and their tests, or of what `-o json` prints."""
    found, screen = schema_of(of, " ".join(words or ())), flags.screen()
    if screen.output == "table":
        screen.raw(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    else:  # with our own key beside it, which a schema may have
        screen.emit(found, "")


@command()
def alerts(
    flags: Flags,
    max_age: Annotated[str, option("--max-age", "How old the last verified backup may get; else each site's.")] = "",
    drill_age: Annotated[str, option("--drill-age", "How old the last good drill may get.")] = "35d",
) -> None:
    """Print alert rules for Prometheus over the metrics that each run writes."""
    given = round(seconds_of("--max-age", max_age)) if max_age else None
    text = alert_rules(given, _configured_age(flags), drill_age)
    flags.screen().emit({"rules": text}, text.rstrip())


@command()
def completion(flags: Flags, shell: Annotated[str, argument("bash, zsh or fish.")] = "bash") -> None:
    """Print the completion script for a shell."""
    text = script_for(shell)
    flags.screen().emit({"script": text}, text.rstrip())


def alert_rules(max_age: int | None, configured: int, drill_age: str) -> str:
    """Return alert rules for Prometheus.

    Args:
        max_age: seconds that a backup may be old; None: each site's own, which its metrics tell.
        configured: seconds, for the one rule that cannot take them from metrics.
        drill_age: how old a drill may be.

    Raises:
        UsageError: an age is not a duration.
    """
    ages = {"held": max_age or configured, "drill_age": round(seconds_of("--drill-age", drill_age))}
    shown = {f"{name}_words": show_duration(seconds) for name, seconds in ages.items()}
    longer = f"more than {show_duration(max_age)}" if max_age else "longer than its `backup.max_age`"
    values = {"max_age": max_age, "longer": longer, "scheduled": "|".join(SCHEDULED)}
    return from_file("alerts.yml.j2", {**ages, **shown, **values})


def _configured_age(flags: Flags) -> int:
    """Return `backup.max_age` in seconds, of the site that is chosen, else the longest of all."""
    settings = settings_of(flags)
    sites = [settings.site()] if settings.path and settings.chosen else settings.sites
    ages = [site.backup.max_age for site in sites if site.backup is not None]
    return round(max(ages, default=BackupSettings.model_fields["max_age"].default))


_BASH = r"""# Completion of maint for bash: put it into /etc/bash_completion.d/maint, or source it.
_maint_completion() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        case "$line" in
            FILES*) compopt -o default 2>/dev/null ;;
            *)
                line="${line%%$'\t'*}"
                COMPREPLY+=("$line")
                [[ "$line" != *= ]] || compopt -o nospace 2>/dev/null
                ;;
        esac
    done < <(VARIABLE=1 "${COMP_WORDS[0]/#\~/$HOME}" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _maint_completion maint
"""
_ZSH = r"""#compdef maint
# Completion of maint for zsh: save it as _maint in a folder of $fpath, or source it after compinit.
_maint() {
    local -a answers
    local line files
    while IFS= read -r line; do
        if [[ "$line" == FILES* ]]; then
            files=1
            continue
        fi
        answers+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done < <(VARIABLE=1 "${(Q)words[1]/#\~/$HOME}" "${(@Q)words[2,CURRENT]}" 2>/dev/null)
    (( ${#answers} )) && _describe -V maint answers
    [[ -z "$files" ]] || _files
}
if [[ "${funcstack[1]}" == "_maint" ]]; then
    _maint "$@"
else
    compdef _maint maint
fi
"""
_FISH = r"""# Completion of maint for fish: save it as ~/.config/fish/completions/maint.fish.
function __maint_completion
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in (VARIABLE=1 $words "$current" 2>/dev/null)
        if string match -q 'FILES*' -- $line
            __fish_complete_path $current
        else
            echo $line
        end
    end
end
complete -c maint -f -k -a '(__maint_completion)'
"""
_SCRIPTS = dict(zip(SHELLS, (_BASH, _ZSH, _FISH), strict=True))


def script_for(shell: str) -> str:
    """Return the script that makes a shell complete our commands; UsageError where there is none for it."""
    if shell not in _SCRIPTS:
        raise UsageError(f"there is no completion for {shell!r}", hint=f"there is one for {', '.join(SHELLS)}")
    return _SCRIPTS[shell].replace("FILES", FILES).replace("VARIABLE", VARIABLE)
