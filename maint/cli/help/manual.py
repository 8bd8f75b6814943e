"""The manual page and the completion script, made from the commands themselves."""

from collections.abc import Iterator

import msgspec

import maint
from maint.errors import UsageError

_EXITS = (
    ("0", "done, or nothing to do"),
    ("1", "the work failed: a step, a check, a verification"),
    ("2", "wrong usage"),
    ("3", "config or playbook invalid"),
    ("4", "cannot reach or log in"),
    ("5", "refused: a guard, a stale plan, not confirmed"),
    ("6", "another run holds the lock"),
    ("7", "partly done"),
    ("8", "there are differences, and --exit-code asked for it"),
    ("70", "a bug in maint; the path of the crash report is printed"),
    ("130, 143", "interrupted; how to resume is printed"),
)
SHELLS = ("bash", "zsh", "fish")


class Option(msgspec.Struct, frozen=True):
    """An option or an argument as the manual shows it."""

    names: str
    help: str


class Told(msgspec.Struct, frozen=True):
    """A command as the manual shows it."""

    name: str
    help: str
    options: tuple[Option, ...]


def page(root: object) -> str:
    """Return the manual page maint(1) as roff.

    Args:
        root: the command that all others hang on, as typer built it.
    """
    common = _options(root)
    lines = [f'.TH MAINT 1 "" "maint {maint.__version__}" "User Commands"', ".SH NAME"]
    lines += [r"maint \- cluster maintenance: backups that can be believed, restores that are proven", ".SH SYNOPSIS"]
    lines += [r".B maint", r"[\fIFLAGS\fR] \fINOUN VERB\fR [\fIARGUMENTS\fR] [\fIFLAGS\fR]", ".SH DESCRIPTION"]
    lines += [_text(getattr(root, "help", "") or ""), ".SH FLAGS OF EVERY COMMAND", *_listed(common), ".SH COMMANDS"]
    for command in _commands(root):
        own = [option for option in command.options if option.names not in {one.names for one in common}]
        lines += [f'.SS "{_text(command.name)}"', *_paragraphs(command.help), *_listed(own)]
    lines += [".SH EXIT STATUS", *_listed([Option(code, words) for code, words in _EXITS]), ".SH FILES"]
    lines += [r"\fI~/.config/maint/config.yaml\fR, \fI/etc/maint/config.yaml\fR: the configuration.", ".PP"]
    lines += [r"\fI/var/lib/maint\fR: locks, journals and keys of a configuration under /etc.", ".SH SEE ALSO"]
    lines += [r"\fBmaint help\fR lists the topics: configuration, backup, restore, exit codes and more."]
    return "\n".join(lines) + "\n"


def completion_script(shell: str) -> str:
    """Return the script that makes a shell complete our commands.

    Raises:
        UsageError: there is none for that shell.
    """
    if shell not in SHELLS:
        raise UsageError(f"there is no completion for {shell!r}", hint=f"there is one for {', '.join(SHELLS)}")
    # "attr-defined": typer passes the name on from a private module, without saying so.
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    return str(get_completion_script(prog_name="maint", complete_var="_MAINT_COMPLETE", shell=shell)) + "\n"


def ready_to_complete() -> None:
    """Let typer answer the completion scripts; it does so by itself only where it also adds flags of its own."""
    from typer.completion import get_completion_inspect_parameters

    get_completion_inspect_parameters()


def _commands(root: object, words: tuple[str, ...] = ()) -> Iterator[Told]:
    """Yield every command of the tree, nouns before their groups and verbs."""
    for name, command in getattr(root, "commands", {}).items():
        if getattr(command, "commands", None):
            yield from _commands(command, (*words, name))
        else:
            yield Told(" ".join((*words, name)), command.help or "", tuple(_options(command)))


def _options(command: object) -> list[Option]:
    found = []
    for one in getattr(command, "params", ()):
        names = ", ".join(one.opts) if one.opts[0].startswith("-") else one.opts[0].upper()
        found.append(Option(names, getattr(one, "help", "") or ""))
    return found


def _listed(options: list[Option]) -> Iterator[str]:
    for option in options:
        yield from (".TP", rf"\fB{_text(option.names)}\fR", _text(option.help))


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(text.split("\n\n")):
        yield from ([".PP"] if number else [])
        yield _text(" ".join(paragraph.split()))


def _text(words: str) -> str:
    """Return words as roff takes them: no escape, dash or leading dot means anything."""
    words = words.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{words}" if words.startswith((".", "'")) else words
