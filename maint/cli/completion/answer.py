"""Answer a shell that asks how a command could go on; loads nothing but what it needs, as it runs at every Tab."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from maint.cli.completion import FILES, VARIABLE
from maint.cli.completion.cache import declared
from maint.cli.completion.names import names_of

_BREAKS = "="  # where bash cuts a word in two

Candidate = tuple[str, str]


class Typed:
    """What has been typed so far.

    Attributes:
        node: the words of the group or command, as in `declared`.
        options: option → its value; arguments: the words that are no options.
        pending: the option whose value comes next, "" for none; last: that whose value stood there before.
        value: what of a value has been typed, where a shell cuts it at `=`.
        only_arguments: whether `--` stood there.
    """

    def __init__(self, nodes: Mapping[str, Mapping[str, object]], words: Iterable[str]) -> None:
        self.node, self.pending, self.only_arguments = "", "", False
        self.last, self.value = "", ""
        self.options: dict[str, str] = {}
        self.arguments: list[str] = []
        for word in words:
            self._take(nodes, word)

    def _take(self, nodes: Mapping[str, Mapping[str, object]], word: str) -> None:
        deeper, last, self.last = f"{self.node} {word}".strip(), self.last, ""
        if self.pending:
            if word != _BREAKS or self.value:
                self.value += word
                self.options[self.pending] = self.value
                self.last, self.pending = self.pending, ""
        elif word == _BREAKS and last:  # `--set name=value` in four words
            self.value, self.pending = self.value + word, last
        elif word == "--":
            self.only_arguments = True
        elif word.startswith("-") and len(word) > 1 and not self.only_arguments:
            name, has_value, value = word.partition("=")
            known = nodes[self.node]["options"]
            if has_value:
                self.options[name] = value
            elif isinstance(known, dict) and known.get(name, [None])[0] is not None:
                self.pending, self.value = name, ""
        elif deeper in nodes:
            self.node = deeper
        else:
            self.arguments.append(word)


def candidates(words: Sequence[str]) -> list[Candidate]:
    """Return how the last of some words could go on, each with what it is; [(FILES, "")] leaves it to the shell."""
    *before, current = words or [""]
    nodes = declared()
    typed = Typed(nodes, [*before, current] if current == _BREAKS else before)
    options, arguments, below = (nodes[typed.node][key] for key in ("options", "arguments", "below"))
    if typed.pending:
        current = "" if current == _BREAKS else current
        found = _fitting(typed.value + current, names_of(options[typed.pending][0], typed.options, typed.arguments))
        return [(one if one == FILES else one.removeprefix(typed.value), words) for one, words in found]
    if current.startswith("-") and not typed.only_arguments:
        name, has_value, value = current.partition("=")
        if has_value:
            known = names_of(options.get(name, [""])[0] or "", typed.options, typed.arguments)
            return [(f"{name}={one}", words) for one, words in _fitting(value, known) if one != FILES]
        return _fitting(current, ((one, words) for one, (_, words) in options.items()))
    if below:
        return _fitting(current, below.items())
    last = arguments[-1] if arguments else ["", False]
    at = len(typed.arguments)
    kind = arguments[at][0] if at < len(arguments) else last[0] if last[1] else ""
    return _fitting(current, (one for one in names_of(kind, typed.options) if one[0] not in typed.arguments))


def _fitting(current: str, found: Iterable[Candidate]) -> list[Candidate]:
    return [(one, words) for one, words in found if one == FILES or one.startswith(current)]


def main() -> None:
    """Print the candidates for the words of the command line, each with what it is behind a tab; never fails."""
    os.environ.pop(VARIABLE)
    try:
        found = candidates(sys.argv[1:])
    except Exception:  # whoever types must not be shown a traceback in the middle of a line
        return
    sys.stdout.write("".join(f"{one}\t{words}\n" for one, words in found))
