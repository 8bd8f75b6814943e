"""The manual as roff: maint(1), and a page for each command, made from the declarations."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

import maint
from maint.cli.app import COMMANDS
from maint.cli.boundary import EXIT_CODES
from maint.cli.command import Made, loaded


class Option(msgspec.Struct, frozen=True):
    """An option or an argument as the manual shows it."""

    names: str
    help: str


def page(whole: Made) -> str:
    """Return the manual page maint(1) as roff, of the command that all others hang on."""
    common = _options(whole)
    lines = [f'.TH MAINT 1 "" "maint {maint.__version__}" "User Commands"', ".SH NAME"]
    lines += [r"maint \- cluster maintenance: backups that can be believed, restores that are proven", ".SH SYNOPSIS"]
    lines += [r".B maint", r"[\fIFLAGS\fR] \fINOUN VERB\fR [\fIARGUMENTS\fR] [\fIFLAGS\fR]", ".SH DESCRIPTION"]
    lines += [_text(whole.help or ""), ".SH FLAGS OF EVERY COMMAND", *_listed(common), ".SH COMMANDS"]
    for name, (place, _) in COMMANDS.items():
        each = loaded(place).build(name)
        own = [one for one in _options(each) if one.names not in {other.names for other in common}]
        lines += [f'.SS "{_text(name)}"', *_paragraphs(each.help or ""), *_listed(own)]
    lines += [*_exits(), ".SH FILES"]
    lines += [r"\fI~/.config/maint/config.yaml\fR, \fI/etc/maint/config.yaml\fR: the configuration.", ".PP"]
    lines += [r"\fI/var/lib/maint\fR: locks, journals and keys of a configuration under /etc.", ".SH SEE ALSO"]
    lines += [r"\fBmaint help\fR lists the topics: configuration, backup, restore, exit codes and more."]
    return "\n".join(lines) + "\n"


def pages(whole: Made) -> dict[str, str]:
    """Return all pages: the name of the file and its roff."""
    return {"maint.1": page(whole), **{f"maint-{name.replace(' ', '-')}.1": page_of(name) for name in COMMANDS}}


def page_of(name: str) -> str:
    """Return the page of one command, such as maint-backup-list(1)."""
    place, listed = COMMANDS[name]
    declared = loaded(place)
    made = declared.build(name)
    connection, common = made.shared
    title = f"maint-{name.replace(' ', '-')}"
    lines = [f'.TH {_text(title.upper())} 1 "" "maint {maint.__version__}" "User Commands"', ".SH NAME"]
    lines += [rf"{_text(title)} \- {_text(listed)}", ".SH SYNOPSIS", rf"\fBmaint {_text(name)}\fR {_synopsis(made)}"]
    lines += [".SH DESCRIPTION", *_paragraphs(made.help or "")]
    arguments = [one for one in made.params if one.param_type_name == "argument"]
    own = [one for one in made.params if one not in arguments and one.name not in {*connection, *common}]
    for heading, some in (("ARGUMENTS", arguments), ("OPTIONS", own), ("CONNECTION", connection), ("COMMON", common)):
        params = [one for one in made.params if one.name in some] if heading in ("CONNECTION", "COMMON") else some
        lines += [f'.SH "{_heading(heading)}"', *_listed(_shown(params))] if params else []
    lines += [".SH EXAMPLE", ".nf", _text(declared.example), ".fi"] if declared.example else []
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
